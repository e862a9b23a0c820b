// SHA-256 on the SHA instructions, three streams at a time.
//
// SHA256RNDS2 makes two rounds and must wait for the two before, four cycles or more; the unit takes
// another stream's meanwhile. So three streams go round by round, side by side. Two would fill the unit
// if nothing else were to be done; the third fills what their words leave.
//
// There are 16 registers, and one is each instruction's own operand. A stream has three: its state as
// {f,e,b,a} and {h,g,d,c}, and its last four words. All other words lie in memory, where instructions
// can take them from; a compiler that may will keep them in registers, spill states for them, and lose
// half of the speed, so it is told that it does not know what is in memory after every four rounds.
//
// Sixteen streams in the lanes of AVX-512 without the SHA instructions were tried: a tenth more at best,
// for five times as many streams.
#include "kernels/kernels_table.h"
#include "kernels/sha256/inside/sha256_rounds.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define SHANI __attribute__((target("sha,sse4.1,ssse3")))
#define SHANI_INLINE static inline SHANI __attribute__((always_inline))

enum { WIDE = 3, QUADS = SHA256_ROUNDS / 4 };

struct halves {
  __m128i abef, cdgh;
};

struct stream {
  struct halves h;
  __m128i in, last; // words and constants of these four rounds; the last words that are known
  __m128i *words;   // QUADS of them: by four
};

SHANI_INLINE __m128i load(const void *at) {
  return _mm_loadu_si128(at);
}

SHANI_INLINE struct halves halves_of(const uint32_t s[8]) {
  const __m128i low = _mm_shuffle_epi32(load(s), 0xb1), high = _mm_shuffle_epi32(load(s + 4), 0x1b);
  return (struct halves){_mm_alignr_epi8(low, high, 8), _mm_blend_epi16(high, low, 0xf0)};
}

SHANI_INLINE void put_halves(uint32_t s[8], struct halves h) {
  const __m128i low = _mm_shuffle_epi32(h.abef, 0x1b), high = _mm_shuffle_epi32(h.cdgh, 0xb1);
  _mm_storeu_si128((__m128i *)(void *)s, _mm_blend_epi16(low, high, 0xf0));
  _mm_storeu_si128((__m128i *)(void *)(s + 4), _mm_alignr_epi8(high, low, 8));
}

SHANI_INLINE struct halves sum_of(struct halves a, struct halves b) {
  return (struct halves){_mm_add_epi32(a.abef, b.abef), _mm_add_epi32(a.cdgh, b.cdgh)};
}

SHANI_INLINE void take_block(struct stream *s, const uint8_t *at) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  for (size_t i = 0; i < 4; i++)
    s->words[i] = s->last = _mm_shuffle_epi8(load(at + 16 * i), swap);
}

SHANI_INLINE void first_rounds(struct stream *s, __m128i k, size_t t) {
  s->in = _mm_add_epi32(s->words[t], k);
  s->h.cdgh = _mm_sha256rnds2_epu32(s->h.cdgh, s->h.abef, s->in);
}

// The halves of the state have changed places, and those of the words follow.
SHANI_INLINE void second_rounds(struct stream *s) {
  s->h.abef = _mm_sha256rnds2_epu32(s->h.abef, s->h.cdgh, _mm_shuffle_epi32(s->in, 0x0e));
}

// The words of sixteen rounds later.
SHANI_INLINE void make_words(struct stream *s, size_t t) {
  if (t + 4 >= QUADS) return;
  const __m128i seven = _mm_alignr_epi8(s->last, s->words[t + 2], 4);
  const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(s->words[t], s->words[t + 1]), seven);
  s->words[t + 4] = s->last = _mm_sha256msg2_epu32(sum, s->last);
}

// Streams are named, not counted: what is in an array is not in registers in every compiler.
SHANI_INLINE void side_by_side(uint32_t state[][8], const uint8_t *const at[], const size_t n,
                               size_t blocks) {
  __m128i words[WIDE][QUADS];
  struct stream a = {.h = halves_of(state[0]), .words = words[0]}, b = a, c = a;
  if (n > 1) b = (struct stream){.h = halves_of(state[1]), .words = words[1]};
  if (n > 2) c = (struct stream){.h = halves_of(state[2]), .words = words[2]};
  __asm__("" : "+r"(a.words), "+r"(b.words), "+r"(c.words) : : "memory");
  for (size_t i = 0; i < blocks; i++) {
    const struct halves a_was = a.h, b_was = b.h, c_was = c.h;
    take_block(&a, at[0] + i * SHA256_BLOCK);
    if (n > 1) take_block(&b, at[1] + i * SHA256_BLOCK);
    if (n > 2) take_block(&c, at[2] + i * SHA256_BLOCK);
#pragma GCC unroll 16
    for (size_t t = 0; t < QUADS; t++) {
      __asm__ volatile("" : : : "memory");
      const __m128i k = load(sha256_k + 4 * t);
      first_rounds(&a, k, t);
      if (n > 1) first_rounds(&b, k, t);
      if (n > 2) first_rounds(&c, k, t);
      second_rounds(&a);
      if (n > 1) second_rounds(&b);
      if (n > 2) second_rounds(&c);
      make_words(&a, t);
      if (n > 1) make_words(&b, t);
      if (n > 2) make_words(&c, t);
    }
    a.h = sum_of(a.h, a_was);
    b.h = sum_of(b.h, b_was);
    c.h = sum_of(c.h, c_was);
  }
  put_halves(state[0], a.h);
  if (n > 1) put_halves(state[1], b.h);
  if (n > 2) put_halves(state[2], c.h);
}

#define STREAMS_TARGET SHANI
#define STREAMS_ISA(name) name##_shani
#include "kernels/sha256/inside/sha256_streams.h"
#endif
