// Types of 2, 4 and 6 bits: between packed bytes, as they lie in files, and one byte an element, as
// the evaluator moves them. Elements are packed contiguously, the first in the lowest bits; four
// 6-bit elements take three bytes. An element never spans more than two bytes.
#include "stream/eval/core/eval_parts.h"

void eval_bits_unpack(uint8_t *out, const uint8_t *in, uint64_t bit, size_t count, uint32_t bits) {
  uint32_t mask = (1u << bits) - 1;
  for (size_t i = 0; i < count; i++, bit += bits) {
    uint32_t shift = bit & 7, x = (uint32_t)in[bit >> 3] >> shift;
    if (shift + bits > 8) x |= (uint32_t)in[(bit >> 3) + 1] << (8 - shift);
    out[i] = (uint8_t)(x & mask);
  }
}

void eval_bits_pack(uint8_t *out, const uint8_t *in, size_t count, uint32_t bits) {
  uint32_t held = 0, n = 0, mask = (1u << bits) - 1;
  for (size_t i = 0; i < count; i++) {
    held |= (in[i] & mask) << n;
    n += bits;
    if (n < 8) continue;
    *out++ = (uint8_t)held;
    held >>= 8;
    n -= 8;
  }
  if (n) *out = (uint8_t)held;
}
