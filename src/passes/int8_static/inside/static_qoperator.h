// The form of operators on codes: which values are there as codes, and how they come to be.
//
// A value is *held* where its codes are: after a Q that was put for it, as a constant's codes, or as the result of an operator on
// codes. The float value of the latter is gone; who still wants it gets a DQ in the end (static_qoperator.c).
#ifndef WEIR_STATIC_QOPERATOR_H
#define WEIR_STATIC_QOPERATOR_H

#include "passes/int8_static/inside/static_put.h"

struct static_held {
  uint32_t codes, scale, zero; // values; codes NO_ID: not held
  uint32_t owner;              // the value whose scale it is; NO_ID: a constant's
  enum dtype type;
  uint32_t axis;   // of scales by channel; RECIPE_PER_TENSOR: one scale
  bool from_end;   // compat: its axis is written as -1, since a MatMul asked first
  bool known;      // of one scale: what follows
  double scale_is; // the numbers
  int64_t zero_is;
  bool constant; // of a constant, which is there as floats too
  bool wanted;   // of a constant, compat: who takes it as floats comes after those that took codes
};

// A constant in one form.
struct static_coded {
  uint32_t tensor;
  struct static_entry entry; // value, form, recipes of scales and zero points
  uint32_t codes_recipe;
  uint32_t found;  // recipe of the scales that its elements want, whatever biases do
  uint32_t biases; // that had their room at once
  uint32_t next;   // of the same tensor: + 1
  // Some who took it take a copy, or it is one: its scales have room for those that are left.
  bool alone;
  struct static_held held;
};

// A bias in int32. With compat the first one stands for all that follow, and one that comes after it as floats takes DQ.
struct static_bias_codes {
  uint32_t value, codes;
  uint32_t scales, zeros; // recipes
  bool wanted;
};

// A product with a bias: the scales of its operands may grow after it (static_qoperator_room.c).
struct static_biased {
  uint32_t node;                    // on codes; its inputs 3 to 5 are those of the weight
  uint32_t x_scale, w_scale, codes; // values; codes NO_ID: another product made them, or none does
  uint32_t weight, bias;            // values that the node read
  uint32_t x_recipe, w_recipe;      // the scales that the codes were made by
  uint32_t coded;                   // 1 + the row of its weight; 0: that is no constant
  double x, factor; // the scale of x as a number (0: not known); of the product of the scales
  double reach;     // the size of that factor, as the room for the bias wants it
  uint32_t next;    // of the same weight: + 1
};

// The code of a number that a Pad puts, which was made by a scale that may grow.
struct static_padded {
  uint32_t codes, scale, zero; // values
  uint32_t number, made_by;    // recipes: of the number, and the scale that its code was made by
  enum dtype type;
};

struct static_qoperator_run {
  struct static_run *s;
  struct err *err; // of what ends the run
  bool failed;
  uint32_t node;                   // that is looked at
  bool reported;                   // it, with a weight
  struct static_held own;          // the codes that a weight has for one node, made last
  TABLE(struct static_held, held); // by value id
  TABLE(uint32_t, order);          // values that are held, in order
  TABLE(struct static_coded, coded);
  TABLE(struct static_biased, biased);
  TABLE(struct static_padded, padded);
  TABLE(uint32_t, coded_of); // by tensor id: 1 + the last
  TABLE(struct static_bias_codes, biases);
  TABLE(uint32_t, bias_of); // by value id: 1 + the last
};

// ---- values (static_qoperator_held.c) ------------------------------------------------------------

// What is held of the value, or NULL.
struct static_held *static_qoperator_held(struct static_qoperator_run *q, uint32_t value);
struct static_held *static_qoperator_hold(struct static_qoperator_run *q, uint32_t value,
                                          const struct static_held *held);
// The codes of a bias that were made last, or NULL.
struct static_bias_codes *static_qoperator_bias_of(struct static_qoperator_run *q, uint32_t bias);
// Can an operator take it as codes?
bool static_qoperator_can_take(struct static_qoperator_run *q, uint32_t value);
// Its codes, with a Q before k.before where the value has none yet. A constant has the type of activations.
// NULL: they cannot be.
const struct static_held *static_qoperator_take(struct static_qoperator_run *q, uint32_t value);
// A value of float16 as QuantizeLinear of a float32 scale takes it, by a Cast before k.before; others unchanged. And what
// DequantizeLinear makes of codes, cast to float16 where that is the type; gives the output.
uint32_t static_qoperator_widened(struct static_qoperator_run *q, uint32_t value);
uint32_t static_qoperator_dequantized(struct static_qoperator_run *q, const struct static_form *f,
                                      uint32_t codes, struct span stem, struct edit_output out,
                                      enum dtype type);
// The same of a weight: of the weights' type where it is constant, by channel along `axis` (RECIPE_PER_TENSOR: one scale; may be
// NO_ID where there are no channels). `type` UNDEFINED: that of the options. `bias` (or NO_ID) must fit int32 next to it and x.
struct static_qoperator_weight {
  uint32_t value;
  enum dtype type;
  uint32_t axis;
  bool from_end; // as in struct static_held
  uint32_t bias; // value
  const struct static_held *x;
  double factor; // the size of that of the product of the scales, as the room for the bias wants it
};
const struct static_held *static_qoperator_take_weight(struct static_qoperator_run *q,
                                                       const struct static_qoperator_weight *w);
// Scale and zero point for a result: of its range, or those that are given.
bool static_qoperator_result(struct static_qoperator_run *q, uint32_t value,
                             const struct int8_params *given, struct static_held *out);
// Scales of a weight, in recipes, with room for that bias next to x (a scale of one element, times the factor); NO_ID: they cannot be.
uint32_t static_qoperator_roomy(struct static_qoperator_run *q, uint32_t scales, uint32_t bias,
                                uint32_t x_scale, double factor);
// The codes and scales of a constant that was written already, by its present scales.
void static_qoperator_write_again(struct static_qoperator_run *q, const struct static_coded *c);
// The tensors of a constant in one form, by its present scales.
void static_qoperator_write(struct static_qoperator_run *q, struct static_coded *c);
// Notes the product; in the end weights that several biases share, and those that are computed, get room for all of these, or copies,
// and codes of biases the new scales (static_qoperator_room.c).
void static_qoperator_note_biased(struct static_qoperator_run *q, const struct static_held *x,
                                  const struct static_held *w, const struct static_biased *product);
int static_qoperator_make_room(struct static_qoperator_run *q);
// Codes, scales and zero points of a bias next to those scales (recipes) times the factor, or of zeros where that is 0. NO_ID in all: its
// shape does not go with them.
struct int8_parts static_qoperator_bias_parts(struct static_qoperator_run *q, uint32_t bias,
                                              uint32_t x, uint32_t w, double factor);
// The codes, as a value; NO_ID.
uint32_t static_qoperator_bias(struct static_qoperator_run *q, uint32_t bias,
                               const struct static_held *x, const struct static_held *w,
                               double factor);
bool static_qoperator_can_bias(struct static_qoperator_run *q, uint32_t bias, uint64_t channels);

// ---- operators (static_qoperator_nodes.c) --------------------------------------------------------

// Makes the node one on codes: NULL, or why it stays float, a stable word ("": nothing is to be said). Nothing has changed then.
const char *static_qoperator_compute(struct static_qoperator_run *q, uint32_t node,
                                     enum static_qop kind);

#endif
