// SHA-256 on the SHA instructions, three streams at a time.
//
// SHA256RNDS2 makes two rounds and must wait for the two before, four cycles or more; the unit takes
// another stream's meanwhile. So three streams go round by round, side by side: all of their states
// and the words of their blocks are in registers or on the stack's first lines. The loops over
// streams are of a known length and are unrolled by the compiler.
//
// The instructions hold a state as {f,e,b,a} and {h,g,d,c}; four rounds take two of them, with the
// halves of the same four words, and the two halves of the state change places.
#include "kernels_table.h"
#include "sha256_rounds.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define SHANI __attribute__((target("sha,sse4.1,ssse3")))
#define SHANI_INLINE static inline SHANI __attribute__((always_inline))

enum { WIDE = 3 };

struct halves {
  __m128i abef, cdgh;
};

SHANI_INLINE struct halves halves_of(const uint32_t s[8]) {
  const __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)s), 0xb1);
  const __m128i high =
      _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(s + 4)), 0x1b);
  return (struct halves){_mm_alignr_epi8(low, high, 8), _mm_blend_epi16(high, low, 0xf0)};
}

SHANI_INLINE void put_halves(uint32_t s[8], struct halves h) {
  const __m128i low = _mm_shuffle_epi32(h.abef, 0x1b), high = _mm_shuffle_epi32(h.cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)(void *)s, _mm_blend_epi16(low, high, 0xf0));
  _mm_storeu_si128((__m128i *)(void *)(s + 4), _mm_alignr_epi8(high, low, 8));
}

// Four rounds of each stream with words w[k][t % 4], and the words of sixteen rounds later.
SHANI_INLINE void four_rounds(struct halves h[], __m128i w[][4], size_t n, size_t t) {
  const __m128i k = _mm_loadu_si128((const __m128i *)(const void *)(sha256_k + 4 * t));
  __m128i in[WIDE];
  for (size_t i = 0; i < n; i++)
    in[i] = _mm_add_epi32(w[i][t % 4], k);
  for (size_t i = 0; i < n; i++)
    h[i].cdgh = _mm_sha256rnds2_epu32(h[i].cdgh, h[i].abef, in[i]);
  for (size_t i = 0; i < n; i++)
    h[i].abef = _mm_sha256rnds2_epu32(h[i].abef, h[i].cdgh, _mm_shuffle_epi32(in[i], 0x0e));
  for (size_t i = 0; i < n && t < 12; i++) {
    const __m128i last = w[i][(t + 3) % 4];
    const __m128i seven = _mm_alignr_epi8(last, w[i][(t + 2) % 4], 4);
    const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[i][t % 4], w[i][(t + 1) % 4]), seven);
    w[i][t % 4] = _mm_sha256msg2_epu32(sum, last);
  }
}

SHANI_INLINE void side_by_side(uint32_t state[][8], const uint8_t *const at[], size_t n,
                               size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  struct halves h[WIDE];
  for (size_t i = 0; i < n; i++)
    h[i] = halves_of(state[i]);
  for (size_t b = 0; b < blocks; b++) {
    struct halves before[WIDE];
    __m128i w[WIDE][4];
    for (size_t i = 0; i < n; i++) {
      before[i] = h[i];
      for (size_t j = 0; j < 4; j++)
        w[i][j] = _mm_shuffle_epi8(
            _mm_loadu_si128((const __m128i *)(const void *)(at[i] + b * SHA256_BLOCK + 16 * j)),
            swap);
    }
#pragma GCC unroll 16
    for (size_t t = 0; t < 16; t++)
      four_rounds(h, w, n, t);
    for (size_t i = 0; i < n; i++) {
      h[i].abef = _mm_add_epi32(h[i].abef, before[i].abef);
      h[i].cdgh = _mm_add_epi32(h[i].cdgh, before[i].cdgh);
    }
  }
  for (size_t i = 0; i < n; i++)
    put_halves(state[i], h[i]);
}

SHANI static void three(uint32_t state[][8], const uint8_t *const at[], size_t blocks) {
  side_by_side(state, at, 3, blocks);
}

SHANI static void two(uint32_t state[][8], const uint8_t *const at[], size_t blocks) {
  side_by_side(state, at, 2, blocks);
}

SHANI static void one(uint32_t state[][8], const uint8_t *const at[], size_t blocks) {
  side_by_side(state, at, 1, blocks);
}

void sha256_lanes_shani(uint32_t state[][8], const uint8_t *const at[], size_t lanes,
                        size_t blocks) {
  for (; lanes > 4 || lanes == 3; lanes -= 3, state += 3, at += 3)
    three(state, at, blocks);
  for (; lanes > 1; lanes -= 2, state += 2, at += 2)
    two(state, at, blocks);
  if (lanes > 0) one(state, at, blocks);
}

size_t sha256_width_shani(void) {
  return WIDE;
}
#endif
