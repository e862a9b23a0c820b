// Inside the room: the floats of eight bits and fewer, a byte an element (eval's wide form). Above
// the bits of the type a byte is clear when written and not looked at when read.
#ifndef WEIR_MINIFLOAT_H
#define WEIR_MINIFLOAT_H

#include "kernels/convert/kernels_convert.h"

// float8*, float6*, float4*.
bool minifloat_is(enum dtype type);
// Exactly; a NaN becomes the quiet one of its sign.
void minifloat_decode(float *out, const uint8_t *in, size_t n, enum dtype type);
// As kernels_convert says; gives the number of elements whose result is open.
size_t minifloat_encode(uint8_t *out, const double *in, size_t n, const struct kernels_cast *c);

#endif
