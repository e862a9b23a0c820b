// Room: SHA-256 as FIPS 180-4 defines it (6.2.2). One stream after the other: every variant must give the same digests.
#include "kernels/kernels_table.h"
#include "kernels/sha256/inside/sha256_rounds.h"

static uint32_t turned(uint32_t x, unsigned n) {
  return x >> n | x << (32 - n);
}

static uint32_t word(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void one_block(uint32_t state[8], const uint8_t *at) {
  uint32_t w[SHA256_ROUNDS], s[8];
  for (size_t t = 0; t < 16; t++)
    w[t] = word(at + 4 * t);
  for (size_t t = 16; t < SHA256_ROUNDS; t++) {
    const uint32_t x = w[t - 15], y = w[t - 2];
    w[t] = w[t - 16] + w[t - 7] + (turned(x, 7) ^ turned(x, 18) ^ x >> 3) +
           (turned(y, 17) ^ turned(y, 19) ^ y >> 10);
  }
  for (size_t i = 0; i < 8; i++)
    s[i] = state[i];
  for (size_t t = 0; t < SHA256_ROUNDS; t++) {
    const uint32_t a = s[0], e = s[4];
    const uint32_t first = s[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                           ((e & s[5]) ^ (~e & s[6])) + sha256_k[t] + w[t];
    const uint32_t second =
        (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    for (size_t i = 7; i > 0; i--)
      s[i] = s[i - 1];
    s[4] += first;
    s[0] = first + second;
  }
  for (size_t i = 0; i < 8; i++)
    state[i] += s[i];
}

void sha256_lanes_portable(uint32_t state[][8], const uint8_t *const at[], size_t lanes,
                           size_t blocks) {
  for (size_t k = 0; k < lanes; k++)
    for (size_t i = 0; i < blocks; i++)
      one_block(state[k], at[k] + i * SHA256_BLOCK);
}

size_t sha256_width_portable(void) {
  return 1;
}
