// One node on its way up: what a rewrite is given (opset_rewrites.c).
#ifndef WEIR_OPSET_RAISING_H
#define WEIR_OPSET_RAISING_H

#include "passes/kit/kit.h"
#include "schema/schema.h"

enum { OPSET_ARGS = 4 };

struct raising {
  struct kit *k;
  int64_t from, to; // opsets of the node's graph
  uint32_t node;    // as it is by now: a step may put another one in its place
  const char *why;  // set by what reads attributes
  bool upsampled;   // the Resize was an Upsample, whose scales are never below 1
  // The step at hand: its operator's version, the one before, and the words behind the step's name.
  const struct schema_signature *now, *old;
  struct {
    const char *name, *value; // value: behind a "=", else empty
  } args[OPSET_ARGS];
  uint32_t n_args;
};

// Takes the steps that the version has (schema.h: rewrite), which are some: the node, valid in the version
// before, is valid in it then. NULL, or why it cannot be; then the node may be half of each. The node is the
// site.
const char *opset_rewrite(struct raising *r, const struct schema_operator *op,
                          const struct schema_signature *now);
// What reports say of it.
const char *opset_word(const char *rewrite);

// ---- what rewrites share (opset_parts.c) ---------------------------------------------------------

// Is the attribute given? GIVEN, ABSENT (also where it has a default), or UNKNOWN, with r->why.
// Lists are copies.
enum kit_state opset_given(struct raising *r, const char *name, enum attr_type type,
                           struct kit_attr *a);
void opset_drop(struct raising *r, const char *name);
void opset_put_int(struct raising *r, const char *name, int64_t x);
void opset_put_text(struct raising *r, const char *name, const char *text);
// Input `slot` becomes the value; slots before it that are not there yet are left out.
void opset_put_input(struct raising *r, uint32_t slot, uint32_t value);
uint32_t opset_new_floats(struct raising *r, const char *what, const float *list, uint32_t n);
// The value with axes of length 1 put in: a node before the one at hand.
uint32_t opset_unsqueezed(struct raising *r, uint32_t value, const int64_t *axes, uint32_t n);
// The node's output `slot` gets another name, <stem>_<what>, for a node behind it that the caller makes and that
// makes the old output: k->before is behind the node then. Gives the new value.
uint32_t opset_rename_output(struct raising *r, uint32_t slot, const char *what);

#endif
