// How often what a model has once would be there if it were written out: with the body of a function in place of each call, and with a copy of
// each constant for each node that computes with it. Models that say the same in another form have the same numbers.
#ifndef WEIR_VERIFY_USES_H
#define WEIR_VERIFY_USES_H

#include "base/arena.h"
#include "model/model.h"

struct verify_uses {
  const struct model *m;
  uint32_t *order,
      n_order; // nodes: those of functions before the calls of them, and each after what reads it
  uint32_t *callees; // by node: the function that it calls; NO_ID: none
  uint32_t *calls;   // by function
  uint32_t *values;  // by value: in one call of the function that it is in
};

// In *a. A sort of the nodes, and linear in their inputs.
void verify_uses_find(struct verify_uses *u, const struct model *m, struct arena *a);

// The value that an input of a call has in the body of the function; NO_ID: the node calls none, or the function has no such input.
uint32_t verify_uses_inside(const struct verify_uses *u, uint32_t node, uint32_t slot);

// How often the nodes of the graph compute: 1 outside of functions, 0 in those that nothing calls and in those that call themselves.
uint32_t verify_uses_of_graph(const struct verify_uses *u, uint32_t graph);
// How many nodes and outputs of graphs read the value, in all calls. Nodes whose inputs are all constant, QuantizeLinear and
// DequantizeLinear count as often as the result that is read most; the call of a function as often as its body reads the input.
uint32_t verify_uses_of_value(const struct verify_uses *u, uint32_t value);
// A constant counts as its value does, and the attribute of another node as its graph.
uint32_t verify_uses_of_tensor(const struct verify_uses *u, uint32_t tensor);

#endif
