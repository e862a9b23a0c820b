// SHA-256 on the instructions of ARMv8's cryptography extension, up to three streams side by side:
// while one stream's four rounds wait for those before, the unit takes another's.
#include "kernels/kernels_table.h"
#include "kernels/sha256/inside/sha256_rounds.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define ARM __attribute__((target("arch=armv8-a+crypto")))
#define ARM_INLINE static inline ARM __attribute__((always_inline))

enum { WIDE = 3 };

struct halves {
  uint32x4_t abcd, efgh;
};

// Four rounds of each stream with words w[k][t % 4], and the words of sixteen rounds later.
ARM_INLINE void four_rounds(struct halves h[], uint32x4_t w[][4], size_t n, size_t t) {
  const uint32x4_t k = vld1q_u32(sha256_k + 4 * t);
  for (size_t i = 0; i < n; i++) {
    const uint32x4_t in = vaddq_u32(w[i][t % 4], k), abcd = h[i].abcd;
    h[i].abcd = vsha256hq_u32(abcd, h[i].efgh, in);
    h[i].efgh = vsha256h2q_u32(h[i].efgh, abcd, in);
  }
  for (size_t i = 0; i < n && t < 12; i++)
    w[i][t % 4] = vsha256su1q_u32(vsha256su0q_u32(w[i][t % 4], w[i][(t + 1) % 4]),
                                  w[i][(t + 2) % 4], w[i][(t + 3) % 4]);
}

ARM_INLINE void side_by_side(uint32_t state[][8], const uint8_t *const at[], size_t n,
                             size_t blocks) {
  struct halves h[WIDE];
  for (size_t i = 0; i < n; i++)
    h[i] = (struct halves){vld1q_u32(state[i]), vld1q_u32(state[i] + 4)};
  for (size_t b = 0; b < blocks; b++) {
    struct halves before[WIDE];
    uint32x4_t w[WIDE][4];
    for (size_t i = 0; i < n; i++) {
      before[i] = h[i];
      for (size_t j = 0; j < 4; j++)
        w[i][j] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(at[i] + b * SHA256_BLOCK + 16 * j)));
    }
#pragma GCC unroll 16
    for (size_t t = 0; t < 16; t++)
      four_rounds(h, w, n, t);
    for (size_t i = 0; i < n; i++) {
      h[i].abcd = vaddq_u32(h[i].abcd, before[i].abcd);
      h[i].efgh = vaddq_u32(h[i].efgh, before[i].efgh);
    }
  }
  for (size_t i = 0; i < n; i++) {
    vst1q_u32(state[i], h[i].abcd);
    vst1q_u32(state[i] + 4, h[i].efgh);
  }
}

#define STREAMS_TARGET ARM
#define STREAMS_ISA(name) name##_armv8
#include "kernels/sha256/inside/sha256_streams.h"
#endif
