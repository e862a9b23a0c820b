// One node on its way up: what a rewrite is given (opset_rewrites.c).
#ifndef WEIR_OPSET_RAISING_H
#define WEIR_OPSET_RAISING_H

#include "kit.h"

struct raising {
  struct kit *k;
  int64_t from, to; // opsets of the node's graph
  uint32_t node;    // as it is by now: a rewrite may put another one in its place
  const char *why;  // set by what reads attributes
  bool upsampled;   // the Resize was an Upsample, whose scales are never below 1
};

// Makes a node that is valid in the version before one that is valid in its own, and stays so in every
// later one but for the rewrites of those. NULL, or why it cannot: then nothing was edited. The node is the
// site, and names and lists may lie in its arena.
typedef const char *opset_rewrite(struct raising *r);

// What makes the operator's nodes valid in the version of ai.onnx where it changed, and the word for it in
// reports; NULL: nothing is known to.
opset_rewrite *opset_rewrite_of(struct span op_type, int64_t since, const char **word);

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
// The node's first output is made by a node that `op` is, of what the node makes under another name.
// Gives that name's value; the new node is the caller's: k->before is behind the node then.
uint32_t opset_rename_output(struct raising *r, const char *what);

#endif
