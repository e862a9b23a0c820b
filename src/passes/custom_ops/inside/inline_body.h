// A function's body in place of a call.
#ifndef WEIR_INLINE_BODY_H
#define WEIR_INLINE_BODY_H

#include "model/model_calls.h"
#include "passes/kit/kit.h"

// What a function wants of its calls.
enum inline_wants { INLINE_ATTRIBUTE, INLINE_VALUE, INLINE_INPUT };
struct inline_want {
  enum inline_wants what;
  // ATTRIBUTE (a node may refer to it), VALUE (a Constant is it): a name; INPUT (must be given): a value.
  uint32_t id;
};

struct inline_function {
  const char *why; // a stable word: it cannot be inlined; NULL: it can
  uint32_t nodes;  // in its body and the graphs there
  uint32_t wants, n_wants;
};

struct inline_frame {
  uint32_t from, to; // graphs
  uint32_t node;     // of `from`: the next
  uint32_t attr;     // of it: the next
};

// Starts zeroed; inline_body_begin fills it.
struct inline_body {
  struct kit *k;
  struct model_calls calls;
  TABLE(struct inline_function, functions); // by id
  TABLE(struct inline_want, wants);
  TABLE(struct inline_frame, stack);
  // By id of what is copied: 1 + what stands for it; 0: nothing yet. `fresh` of a value: the call that it holds for.
  TABLE(uint32_t, value_of);
  TABLE(uint32_t, fresh);
  TABLE(uint32_t, graph_of);
  TABLE(uint32_t, constant_of); // by Constant node: 1 + the initializer that all calls share
  struct edit_attr *bound;      // attributes of the call at hand
  uint32_t n_bound, function, call;
  struct span prefix; // of names
  struct arena arena; // of the call at hand
};

// Looks at all functions. Ends with inline_body_done.
void inline_body_begin(struct inline_body *b, struct kit *k);
void inline_body_done(struct inline_body *b);
// The function that the node calls, or NO_ID.
uint32_t inline_body_callee(const struct inline_body *b, uint32_t node);
// NULL: the body stands in the node's place, whose outputs keep their names; the node is gone. Else why nothing
// happened. The node lies in no function.
const char *inline_body_put(struct inline_body *b, uint32_t node, uint32_t function);

#endif
