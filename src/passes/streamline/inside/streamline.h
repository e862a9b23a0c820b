// Room: passes of the family streamline that rules cannot express: nodes with several outputs, and with any number of
// inputs. And what they share.
#ifndef WEIR_STREAMLINE_H
#define WEIR_STREAMLINE_H

#include "passes/kit/kit.h"

extern const struct pass streamline_past_split, streamline_past_concat, streamline_split_past;
extern const struct pass streamline_unbroadcast;

// ---- elementwise nodes that move (moves.c) -----------------------------------------------------------

bool moves_constant(const struct kit *k, uint32_t value);
// An elementwise operator of the graph whose attributes can be copied, and which the cap on exactness lets move.
bool moves_can(struct kit *k, uint32_t node, uint32_t graph);
// Has the operand the dims of the result, since the others broadcast to it and it to none of them? So it is of PRelu,
// whose slope broadcasts to its first operand.
static inline bool moves_leads(enum op op, uint32_t slot) {
  return op == OP_PRelu && slot == 0;
}
// Are both one operator with the same attributes and as many operands, left out alike?
bool moves_alike(struct kit *k, uint32_t a, uint32_t b);
// Of a result of rank `rank`, the dim that an operand has at the axis: 1 where it has fewer axes; {-1, NO_ID}: not
// known.
struct model_dim moves_dim(struct kit *k, uint32_t operand, uint32_t axis, uint32_t rank);
static inline bool moves_is_one(struct model_dim d) {
  return d.value == 1;
}
// The axis of a Split or Concat from 0 on, and the rank of `value`, which has it. False: not known.
bool moves_axis(struct kit *k, uint32_t node, uint32_t value, uint32_t *axis, uint32_t *rank);
// The value as an Expand makes it: computed where it is a constant at hand. Dims are numbers.
uint32_t moves_expand(struct kit *k, uint32_t value, const int64_t *dims, uint32_t rank);

// ---- operands that become one (joins.c) ---------------------------------------------------------------

// One operand of n like nodes, to be joined along an axis of their results.
struct joins {
  const uint32_t *values;  // NO_ID: the number `neutral`, as a scalar
  const uint32_t *results; // what the nodes give, to which operands broadcast
  uint32_t n;
  uint32_t axis, rank; // of the results
  bool scalar;         // is shared, or nothing: axis and rank do not matter
  bool spread;         // has the length of the results along the axis: is not shared
  double neutral;
};
// How, if there is a way: nothing is changed yet. Lists lie in k->env->scratch.
struct joins_plan {
  enum { JOINS_NONE, JOINS_SHARED, JOINS_CONCAT } how;
  uint32_t rank, axis; // of what is joined, in the end
  int64_t *dims;       // rank for each, before they are joined
  bool *expands;       // for each: to its dims
  enum dtype dtype;
};
struct joins_plan joins_decide(struct kit *k, const struct joins *j);
uint32_t joins_make(struct kit *k, const struct joins *j, const struct joins_plan *plan);

#endif
