// Dequantization, CHUNK elements at a time:
//
//   codes ──▶ int32 ──▶ minus zeros ──▶ float ─┐
//                                              × ──▶ float ──▶ result
//   scales ───────────────────────────▶ float ─┘
//
// Conversions are those of kernels_convert, products those of KERNELS_MUL (kernels_map.h): with
// them goes the rule for NaNs, and a scale that is one for all is not looked at more than once a
// chunk.
#include "kernels/dequantize/kernels_dequantize.h"

#include "kernels/convert/kernels_convert.h"

#include <assert.h>

enum { CHUNK = 512 };

static bool is_small_float(enum dtype t) {
  return dtype_is_float(t) && dtype_bits(t) <= 8 && t != DTYPE_FLOAT8E8M0;
}

static bool has_zeros(enum dtype t) {
  return dtype_is_integer(t) && t != DTYPE_BOOL && dtype_bits(t) <= 16;
}

static bool is_result(enum dtype t) {
  return t == DTYPE_FLOAT || t == DTYPE_FLOAT16 || t == DTYPE_BFLOAT16;
}

bool kernels_dequantize_takes(const struct kernels_dequantized *d) {
  const enum dtype codes = (enum dtype)d->codes, scales = (enum dtype)d->scales;
  return (has_zeros(codes) || codes == DTYPE_INT32 || is_small_float(codes)) &&
         (is_result(scales) || scales == DTYPE_FLOAT8E8M0) && is_result((enum dtype)d->out);
}

static size_t width_of(uint8_t t) {
  return dtype_bits((enum dtype)t) < 8 ? 1 : dtype_bits((enum dtype)t) / 8;
}

static void convert(void *out, enum dtype to, const void *in, uint8_t from, size_t n) {
  const struct kernels_cast c = {.from = from, .to = (uint8_t)to};
  const uint64_t open = kernels_convert(out, in, n, &c);
  assert(open == 0); // all are integers within integers, or floats
}

// Elements [first, first + n) of an operand; one for all is there once.
static void some(void *out, enum dtype to, struct kernels_operand in, uint8_t from, size_t first,
                 size_t n) {
  convert(out, to, (const uint8_t *)in.at + in.stride * first * width_of(from), from,
          in.stride ? n : 1);
}

// Codes less their zeros as floats.
static void differences(float *out, const struct kernels_dequantized *d, const uint8_t *codes,
                        struct kernels_operand zeros, size_t first, size_t n) {
  const uint8_t *at = codes + first * width_of(d->codes);
  if (!zeros.at) {
    convert(out, DTYPE_FLOAT, at, d->codes, n);
    return;
  }
  int32_t code[CHUNK], zero[CHUNK];
  convert(code, DTYPE_INT32, at, d->codes, n);
  some(zero, DTYPE_INT32, zeros, d->codes, first, n);
  if (zeros.stride)
    for (size_t i = 0; i < n; i++)
      out[i] = (float)(code[i] - zero[i]);
  else
    for (size_t i = 0; i < n; i++)
      out[i] = (float)(code[i] - zero[0]);
}

void kernels_dequantize(const struct kernels_dequantized *d, void *out, const void *codes,
                        struct kernels_operand scales, struct kernels_operand zeros, size_t n) {
  assert(kernels_dequantize_takes(d) && (!zeros.at || has_zeros((enum dtype)d->codes)));
  const bool is_float = d->out == DTYPE_FLOAT;
  float value[CHUNK], scale[CHUNK];
  uint8_t *put = out;
  for (size_t first = 0; first < n; first += CHUNK) {
    const size_t m = n - first < CHUNK ? n - first : CHUNK;
    differences(value, d, codes, zeros, first, m);
    if (scales.stride || first == 0) some(scale, DTYPE_FLOAT, scales, d->scales, first, m);
    const struct kernels_operand factors[] = {{value, 1}, {scale, scales.stride}};
    kernels_map(KERNELS_MUL, DTYPE_FLOAT, is_float ? (void *)put : value, factors, m);
    if (!is_float) convert(put, (enum dtype)d->out, value, DTYPE_FLOAT, m);
    put += m * width_of(d->out);
  }
}
