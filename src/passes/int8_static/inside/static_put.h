// How Q and DQ are written, for those who write them: values, weights, biases, and the recipes of biases.
#ifndef WEIR_STATIC_PUT_H
#define WEIR_STATIC_PUT_H

#include "passes/int8_static/inside/static.h"

// Scale and zero point (values) of a Q or DQ.
struct static_form {
  uint32_t scale, zero; // zero NO_ID: none
  uint32_t axis;        // RECIPE_PER_TENSOR: none
  bool from_end;        // it is the last, and written as -1
  bool contrib;         // of com.microsoft, also where the others are not
  uint64_t block;
};

// A Q or DQ at k.before; gives its output.
uint32_t static_put_node(struct static_run *s, enum op op, const struct static_form *f, uint32_t in,
                         struct edit_output out, struct span name);
// Tensors <stem>_zero_point<suffix>, <stem>_scale<suffix>: the scale is that of *p, or a recipe (NO_ID: none).
struct static_form static_new_form(struct static_run *s, struct span stem, const char *suffix,
                                   const struct static_params *p, uint32_t scale);
// The first node of the graph that uses the value, itself or in a body; NO_ID: none.
uint32_t static_first_user(struct static_run *s, uint32_t value);
// What was written for the value. Valid until the next call.
struct static_made *static_made_of(struct static_run *s, uint32_t value);
// The scale (and zero point) that this consumer sees; NO_ID: the value was not quantized.
uint32_t static_scale_for(struct static_run *s, uint32_t value, uint32_t node, uint32_t *zero);

// Nodes whose bias wants much more room beside a stored weight than the others that take it get a copy of it.
int static_part_weights(struct static_run *s, struct err *err);
// Scales of weights become so large that biases fit int32 (static_bias.c); those of weights that are computed too.
void static_make_room(struct static_run *s);
// The bias of a node needs that many times its size in room, since the sum of the products comes on top (1 … 2).
double static_sum_room(struct static_run *s, uint32_t node);
// Of that many lists of scales of one length, element by element the largest.
uint32_t static_largest(struct recipes *r, const uint32_t *lists, uint32_t n);
// A bias (recipe) next to an input of that scale (0: not known as a number), which is row `row` of the caller's. Keeps of those with one
// bias the one whose scale is least, since that wants the most room; gives how many are left.
struct static_need {
  uint32_t bias, row;
  double x;
};
uint32_t static_least_needs(struct static_need *needs, uint32_t n);
// Where no more nodes than these share a weight, one enlarges what the other left, as the existing tool does it. Of more the
// largest scale is taken: recipes do not grow with the number of nodes.
enum { STATIC_NESTED = 2 };
int static_put_biases(struct static_run *s, struct err *err);

// ---- biases of float16 (static_halves.c) ---------------------------------------------------------

// What the codes of a bias come of, in recipes: its elements, times beta; the scale of the node's input, times alpha; those of its weight.
struct static_bias_parts {
  uint32_t bias, x, w;
};
// False: the bias gets no codes.
bool static_bias_parts(struct static_run *s, const struct static_bias *b,
                       struct static_bias_parts *out);
// The least scale that codes of the bias (a recipe) have room with, in float16: a whole multiple of 2^-24, the smallest. NO_ID: it is of
// another type, where the room that is made is enough.
uint32_t static_least_half(struct recipes *r, uint32_t bias);
// Finds `wide` of all biases (onnxruntime 1.32), after the scales of inputs and weights were written. Asks a stage once, if at all.
int static_find_wide(struct static_run *s, struct err *err);
// Codes of a bias by scales of float32. NO_ID in all: its shape does not go with them.
struct int8_parts static_wide_bias(struct recipes *r, const struct static_bias_parts *p);

#endif
