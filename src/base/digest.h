// SHA-256, through libcrypto. Works in chunks; a state must not be copied by assignment.
#ifndef WEIR_DIGEST_H
#define WEIR_DIGEST_H

#include "base/span.h"

enum { DIGEST_BYTES = 32, DIGEST_HEX = 65 };

struct arena;
struct digest;                   // opaque
struct digest *digest_new(void); // started
void digest_free(struct digest *d);
void digest_start(struct digest *d); // again, with nothing added
void digest_add(struct digest *d, const void *bytes, size_t n);
void digest_end(struct digest *d, uint8_t out[DIGEST_BYTES]);
void digest_finish(struct digest *d, uint8_t out[DIGEST_BYTES]); // and frees it
// The digest of what was added so far; more may follow.
void digest_so_far(const struct digest *d, uint8_t out[DIGEST_BYTES]);
void digest_of(const void *bytes, size_t n, uint8_t out[DIGEST_BYTES]);

// In hex, by value or in *a.
struct digest_hex {
  char s[DIGEST_HEX];
};
struct digest_hex digest_hex(const uint8_t sum[DIGEST_BYTES]);
const char *digest_hex_in(struct arena *a, const uint8_t sum[DIGEST_BYTES]);

#endif
