// One operator between DequantizeLinear and QuantizeLinear that is to compute on codes: what it has to say before that. Who writes
// operators on codes, and who writes the recipes of biases, look at it here.
//
// A question gives NULL, or why the operator cannot, a stable word. Nothing is changed before all of them gave NULL.
#ifndef WEIR_REQUANTIZE_LOOK_H
#define WEIR_REQUANTIZE_LOOK_H

#include "passes/int8_requantize/inside/requantize_forms.h"

enum { FORMS = 64 }; // data inputs of one operator

// One operator that is looked at.
struct look {
  uint32_t node;
  struct requantize_row row;
  uint32_t slots[FORMS]; // of its data inputs
  struct form x[FORMS];  // what they are dequantized from
  uint32_t n;            // of these
  uint32_t quantize;     // the Q after it; NO_ID: none
  struct form y;         // with it
  uint32_t last;         // the node whose result Q takes: itself, or the Relu or Clip
  uint32_t bias;         // value, NO_ID: none
  struct form bias_form; // with bias_codes
  int64_t bias_zero;     // the code of 0 there
  bool bias_codes;       // the bias is dequantized codes
  bool bias_kept;        // these codes can be taken
  double factor;         // of the product of the scales of x and w
};

// Adds the DequantizeLinear of that input to l->x.
const char *requantize_look_input(struct kit *k, struct look *l, uint32_t slot);
// Is there an operator for these types? After the inputs, and the Q after it.
bool requantize_look_types_fit(const struct look *l);
// The scales of a product's weight, l->x[1].
const char *requantize_look_weight(struct kit *k, const struct look *l);
// l->bias, a float constant or codes of int32; fills what follows it. (What an Add adds to a MatMul may be codes of any type.)
const char *requantize_look_bias(struct kit *k, struct look *l);
// Its codes of int32 by the scales of the products, a value: those that there are, or new ones. NO_ID: there is no bias.
uint32_t requantize_look_bias_codes(struct kit *k, const struct look *l);
// Can a node at that place take the codes?
bool requantize_look_reaches(struct kit *k, const struct look *l, uint32_t at);

#endif
