// A model with one of everything that edits touch, and a sink that keeps the log: for the tests and
// the fuzz target of the edit room.
//
//   g0  x ─▶ Conv(w, b) ─▶ y ─▶ Relu ─▶ z ─▶ If(cond) ─▶ out        outputs: out, z
//       big: 64×64 floats in m.data    k: Constant    f: Constant(value_floats)
//   g1  then: Mul(z, w) ─▶ t     g2  else: Add(z, own) ─▶ e, with an initializer of its own
//   g3  function local:scale(a) ─▶ r
#ifndef WEIR_EDIT_SAMPLE_H
#define WEIR_EDIT_SAMPLE_H

#include "edit/edit.h"
#include "model_builder.h"

struct edit_sample {
  struct model m;
  struct recipes r;
  struct edits e;
  char *log;
  size_t n, cap;
};

// Ids of the sample's nodes, in order of creation.
enum {
  SAMPLE_CONV,
  SAMPLE_RELU,
  SAMPLE_IF,
  SAMPLE_MUL,
  SAMPLE_ADD,
  SAMPLE_CONSTANT,
  SAMPLE_FLOATS,
  SAMPLE_BODY
};
enum { SAMPLE_W, SAMPLE_B, SAMPLE_BIG, SAMPLE_OWN }; // tensors

void edit_sample_open(struct edit_sample *s);
void edit_sample_close(struct edit_sample *s);
uint32_t edit_sample_value(const struct edit_sample *s, uint32_t graph, const char *name);

#endif
