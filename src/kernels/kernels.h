// Arithmetic between buffers. Families and their ISA variants are rows of kernels.def; every
// variant gives the bytes of the portable reference. Pointers need no alignment; nothing is read or
// written outside the given rectangles.
#ifndef WEIR_KERNELS_H
#define WEIR_KERNELS_H

#include <stddef.h>
#include <stdint.h>

// Instruction set features, as a mask, so that tests can take some away.
enum kernels_feature { KERNELS_AVX2 = 1, KERNELS_AVX512 = 2, KERNELS_NEON = 4 };
uint32_t kernels_features(void); // what this machine has, less what was masked
void kernels_mask(
    uint32_t features); // only these (and what the machine has) from now on; not thread-safe
const char *kernels_isa_name(void); // "avx512", "avx2", "neon", "portable"

// out[c * out_stride + r] = in[r * in_stride + c] for r < rows, c < cols; elements of `width` bytes
// (1, 2, 4, 8, 16), strides in elements.
void kernels_transpose(void *out, size_t out_stride, const void *in, size_t in_stride, size_t rows,
                       size_t cols, unsigned width);

// Elementwise float conversions, round to nearest even, NaN payload: quiet, sign and top payload
// bits kept; out-of-range becomes infinity.
void kernels_f32_to_f16(uint16_t *out, const float *in, size_t n);
void kernels_f32_to_bf16(uint16_t *out, const float *in, size_t n);
void kernels_f16_to_f32(float *out, const uint16_t *in, size_t n);
void kernels_bf16_to_f32(float *out, const uint16_t *in, size_t n);
void kernels_f64_to_f32(float *out, const double *in, size_t n);
void kernels_f32_to_f64(double *out, const float *in, size_t n);
// Straight from double: no double rounding.
void kernels_f64_to_f16(uint16_t *out, const double *in, size_t n);
void kernels_f64_to_bf16(uint16_t *out, const double *in, size_t n);

#endif
