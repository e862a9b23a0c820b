// Transpose with AVX2. All widths share one shape: a register holds 16 bytes of one row in its low
// lane and 16 bytes of a row `lane` further down in its high lane. With n = 16 / width registers
// (rows r..r+n-1, and r+n.. in the high lanes), log2(n) rounds of "unpack register i with register
// i + n/2" transpose both lanes at once; register j then holds column j, 2n elements = 32 bytes of
// an output row:
//
//        in                                   out
//        │ c  c+1 … c+n-1                     │ r … r+n-1 │ r+n … r+2n-1
//   r    │ ▓▓▓▓▓▓▓▓▓▓▓▓ low lanes        c    │ ▓▓▓▓▓▓▓▓▓ │ ░░░░░░░░░░░
//   r+n  │ ░░░░░░░░░░░░ high lanes       c+1  │ ▓▓▓▓▓▓▓▓▓ │ ░░░░░░░░░░░
//
// The work goes in blocks of one cache line of elements each way, along the rows of the source. A
// block is first copied, line by line, into a dense one on the stack: at the strides of weight
// matrices (powers of two) the lines of a column share a few cache sets and would drive each other
// out between their quarters, and every line of either side is touched once and whole this way. The
// lines two blocks on are asked for early; prefetching never faults. What does not fill a block is
// left to squares straight from the source, and what does not fill a square to the portable code.
#include "kernels/kernels_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

enum { LINE = 64, LANE = 16, AHEAD = 2 * LINE };

AVX2_INLINE __m256i unpack_low(__m256i a, __m256i b, size_t width) {
  switch (width) {
  case 1: return _mm256_unpacklo_epi8(a, b);
  case 2: return _mm256_unpacklo_epi16(a, b);
  case 4: return _mm256_unpacklo_epi32(a, b);
  default: return _mm256_unpacklo_epi64(a, b);
  }
}

AVX2_INLINE __m256i unpack_high(__m256i a, __m256i b, size_t width) {
  switch (width) {
  case 1: return _mm256_unpackhi_epi8(a, b);
  case 2: return _mm256_unpackhi_epi16(a, b);
  case 4: return _mm256_unpackhi_epi32(a, b);
  default: return _mm256_unpackhi_epi64(a, b);
  }
}

// 2n rows × n columns at `in` (row stride in bytes) to n rows × 2n columns at `out`.
AVX2_INLINE void square(uint8_t *out, size_t out_step, const uint8_t *in, size_t in_step,
                        size_t width) {
  const size_t n = LANE / width;
  __m256i a[LANE], b[LANE];
#pragma GCC unroll 16
  for (size_t i = 0; i < n; i++) {
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)(in + i * in_step));
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(in + (n + i) * in_step));
    a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  }
#pragma GCC unroll 4
  for (size_t round = n; round > 1; round /= 2) {
#pragma GCC unroll 16
    for (size_t i = 0; i < n / 2; i++) {
      b[2 * i] = unpack_low(a[i], a[i + n / 2], width);
      b[2 * i + 1] = unpack_high(a[i], a[i + n / 2], width);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < n; i++)
      a[i] = b[i];
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < n; i++)
    _mm256_storeu_si256((__m256i *)(void *)(out + i * out_step), a[i]);
}

// All squares of a block of one line's worth of rows and `cols` columns.
AVX2_INLINE void squares(uint8_t *out, size_t out_step, const uint8_t *in, size_t in_step,
                         size_t cols, size_t width) {
  const size_t n = LANE / width, tall = LINE / width;
  for (size_t c = 0; c < cols; c += n)
    for (size_t r = 0; r < tall; r += 2 * n)
      square(out + c * out_step + r * width, out_step, in + r * in_step + c * width, in_step,
             width);
}

AVX2_INLINE void copy_block(uint8_t *block, const uint8_t *in, size_t in_step, size_t rows) {
  for (size_t i = 0; i < rows; i++) {
    const uint8_t *line = in + i * in_step;
    _mm_prefetch((const char *)line + AHEAD, _MM_HINT_T0);
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)line);
    __m256i y = _mm256_loadu_si256((const __m256i *)(const void *)(line + LINE / 2));
    _mm256_store_si256((__m256i *)(void *)(block + i * LINE), x);
    _mm256_store_si256((__m256i *)(void *)(block + i * LINE + LINE / 2), y);
  }
}

// Rows r..r+tall of the source: `cols` columns, a multiple of a square's.
AVX2_INLINE void band(uint8_t *out, size_t out_step, const uint8_t *in, size_t in_step, size_t cols,
                      size_t width) {
  const size_t tall = LINE / width;
  _Alignas(32) uint8_t block[LINE * LINE];
  size_t c = 0;
  for (; cols - c >= tall; c += tall) {
    copy_block(block, in + c * width, in_step, tall);
    squares(out + c * out_step, out_step, block, LINE, tall, width);
  }
  squares(out + c * out_step, out_step, in + c * width, in_step, cols - c, width);
}

AVX2_INLINE void bands(uint8_t *out, const uint8_t *in, const struct transpose_shape *s,
                       size_t width) {
  const size_t n = LANE / width, tall = LINE / width;
  size_t rows = s->rows / tall * tall, cols = s->cols / n * n;
  for (size_t r = 0; r < rows; r += tall)
    band(out + r * width, s->out_stride * width, in + r * s->in_stride * width,
         s->in_stride * width, cols, width);
  transpose_rest(out, in, s, rows, cols);
}

AVX2 void transpose_avx2(void *out, const void *in, const struct transpose_shape *shape) {
  switch (shape->width) {
  case 1: bands(out, in, shape, 1); break;
  case 2: bands(out, in, shape, 2); break;
  case 4: bands(out, in, shape, 4); break;
  case 8: bands(out, in, shape, 8); break;
  default: bands(out, in, shape, 16); break;
  }
}
#endif
