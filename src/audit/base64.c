// Three bytes as four characters and back; one form only, so that no two texts stand for the same bytes.
#include "audit/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const char *base64_encode(struct span bytes, struct arena *a) {
  char *out = arena_alloc(a, (bytes.n + 2) / 3 * 4 + 1), *to = out;
  for (size_t i = 0; i < bytes.n; i += 3) {
    uint32_t three = 0;
    const size_t n = bytes.n - i < 3 ? bytes.n - i : 3;
    for (size_t k = 0; k < 3; k++)
      three = three << 8 | (k < n ? bytes.at[i + k] : 0);
    for (size_t k = 0; k < 4; k++)
      *to++ = k <= n ? alphabet[three >> (18 - 6 * k) & 63] : '=';
  }
  *to = '\0';
  return out;
}

// 64: none of them.
static uint32_t value_of(uint8_t c) {
  const char *at = c ? strchr(alphabet, c) : NULL;
  return at ? (uint32_t)(at - alphabet) : 64;
}

bool base64_decode(struct span text, struct span *out, struct arena *a) {
  if (text.n % 4 != 0) return false;
  size_t pad = 0;
  while (pad < 2 && pad < text.n && text.at[text.n - 1 - pad] == '=')
    pad++;
  uint8_t *bytes = arena_alloc(a, text.n / 4 * 3 + 1), *to = bytes;
  for (size_t i = 0; i < text.n; i += 4) {
    uint32_t three = 0;
    const size_t n = i + 4 == text.n ? 3 - pad : 3; // bytes of this group
    for (size_t k = 0; k < 4; k++) {
      const uint32_t v = k <= n ? value_of(text.at[i + k]) : 0;
      if (v == 64) return false;
      three = three << 6 | v;
    }
    if (n < 3 && three & (0xffffffu >> (8 * n))) return false; // bits of no byte
    for (size_t k = 0; k < n; k++)
      *to++ = (uint8_t)(three >> (16 - 8 * k));
  }
  *out = span_of(bytes, (size_t)(to - bytes));
  return true;
}
