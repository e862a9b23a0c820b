// Transpose with NEON. A register holds 16 bytes of one row; with n = 16 / width of them (rows
// r..r+n-1), log2(n) rounds of "zip register i with register i + n/2" leave column j in register j,
// as the unpacking of the AVX2 variant does for two lanes at once:
//
//   round 1, n = 4      a0 a1 a2 a3   ──zip 0 2──▶ a0 c0 a1 c1 │ a2 c2 a3 c3
//                       b0 b1 b2 b3   ──zip 1 3──▶ b0 d0 b1 d1 │ b2 d2 b3 d3
//   round 2             of those      ──zip 0 2──▶ a0 b0 c0 d0 │ a1 b1 c1 d1 …
//
// The work goes in bands of one cache line of rows, so that every line of the output is written
// whole while it is at hand. What does not fill a square is left to the portable code.
#include "kernels/kernels_table.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline))

enum { LINE = 64, REGISTER = 16 };

NEON_INLINE uint8x16_t zip_low(uint8x16_t a, uint8x16_t b, size_t width) {
  switch (width) {
  case 1: return vzip1q_u8(a, b);
  case 2: return vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
  case 4: return vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  default:
    return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
  }
}

NEON_INLINE uint8x16_t zip_high(uint8x16_t a, uint8x16_t b, size_t width) {
  switch (width) {
  case 1: return vzip2q_u8(a, b);
  case 2: return vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
  case 4: return vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
  default:
    return vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
  }
}

// n rows × n columns at `in`, n = 16 / width, to `out`; steps in bytes.
NEON_INLINE void square(uint8_t *out, size_t out_step, const uint8_t *in, size_t in_step,
                        size_t width) {
  const size_t n = REGISTER / width;
  uint8x16_t a[REGISTER], b[REGISTER];
#pragma GCC unroll 16
  for (size_t i = 0; i < n; i++)
    a[i] = vld1q_u8(in + i * in_step);
#pragma GCC unroll 4
  for (size_t round = n; round > 1; round /= 2) {
#pragma GCC unroll 16
    for (size_t i = 0; i < n / 2; i++) {
      b[2 * i] = zip_low(a[i], a[i + n / 2], width);
      b[2 * i + 1] = zip_high(a[i], a[i + n / 2], width);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < n; i++)
      a[i] = b[i];
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < n; i++)
    vst1q_u8(out + i * out_step, a[i]);
}

// One line's worth of rows (or the whole squares left of it), all whole squares of columns.
NEON_INLINE void band(uint8_t *out, const uint8_t *in, const struct transpose_shape *s, size_t rows,
                      size_t cols, size_t width) {
  const size_t n = REGISTER / width, out_step = s->out_stride * width,
               in_step = s->in_stride * width;
  for (size_t c = 0; c < cols; c += n)
    for (size_t r = 0; r < rows; r += n)
      square(out + c * out_step + r * width, out_step, in + r * in_step + c * width, in_step,
             width);
}

NEON_INLINE void bands(uint8_t *out, const uint8_t *in, const struct transpose_shape *s,
                       size_t width) {
  const size_t n = REGISTER / width, tall = LINE / width;
  size_t rows = s->rows / n * n, cols = s->cols / n * n;
  for (size_t r = 0; r < rows; r += tall)
    band(out + r * width, in + r * s->in_stride * width, s, rows - r < tall ? rows - r : tall, cols,
         width);
  transpose_rest(out, in, s, rows, cols);
}

void transpose_neon(void *out, const void *in, const struct transpose_shape *shape) {
  switch (shape->width) {
  case 1: bands(out, in, shape, 1); break;
  case 2: bands(out, in, shape, 2); break;
  case 4: bands(out, in, shape, 4); break;
  case 8: bands(out, in, shape, 8); break;
  default: bands(out, in, shape, 16); break;
  }
}
#endif
