// Inputs of sites that quantize activations by given parameters.
#ifndef WEIR_VERIFY_CODES_H
#define WEIR_VERIFY_CODES_H

#include "array.h"
#include "model.h"

// Where a QuantizeLinear with one constant scale and zero point reads the value of *m, or such a DequantizeLinear makes it: scales the float32 elements of *x so that
// they lie among what its codes stand for. Else *x stays. The new elements are stored in *a.
void verify_codes_fit(const struct model *m, uint32_t value, struct arena *a, struct array *x);

#endif
