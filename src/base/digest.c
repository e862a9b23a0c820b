// SHA-256, and the one home of libcrypto's hashing.
//
// A state is made once and started again for every digest: making one costs more than hashing a
// small tensor. A failure here means that the library is unusable (a broken FIPS configuration,
// say), or that it has no memory. Nothing sensible can follow, so it stops the program, and no caller checks
// for it: want of memory as everywhere (arena.h).
#include "base/digest.h"

#include "base/arena.h"
#include "resources/resources.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>

struct digest {
  EVP_MD_CTX *state;
};

// How much it wanted the library does not say: a page stands for it.
static void must(int ok) {
  if (!ok && errno == ENOMEM) arena_must(NULL, 4096);
  if (!ok) abort();
}

static void state_left(void *state, size_t n) {
  (void)n;
  EVP_MD_CTX_free(state);
}

struct digest *digest_new(void) {
  struct digest *d = arena_must(resources_alloc(sizeof *d), sizeof *d);
  errno = 0; // must asks it
  d->state = EVP_MD_CTX_new();
  must(d->state != NULL);
  resources_hold(d->state, 0, state_left);
  digest_start(d);
  return d;
}

void digest_free(struct digest *d) {
  if (!d) return;
  resources_drop_thing(d->state, 0);
  EVP_MD_CTX_free(d->state);
  resources_free(d);
}

void digest_start(struct digest *d) {
  must(EVP_DigestInit_ex(d->state, EVP_sha256(), NULL));
}

void digest_add(struct digest *d, const void *bytes, size_t n) {
  must(EVP_DigestUpdate(d->state, bytes, n));
}

void digest_end(struct digest *d, uint8_t out[DIGEST_BYTES]) {
  must(EVP_DigestFinal_ex(d->state, out, NULL));
}

void digest_finish(struct digest *d, uint8_t out[DIGEST_BYTES]) {
  digest_end(d, out);
  digest_free(d);
}

void digest_so_far(const struct digest *d, uint8_t out[DIGEST_BYTES]) {
  errno = 0;
  EVP_MD_CTX *copy = EVP_MD_CTX_new();
  const bool made =
      copy && EVP_MD_CTX_copy_ex(copy, d->state) && EVP_DigestFinal_ex(copy, out, NULL);
  EVP_MD_CTX_free(copy);
  must(made);
}

void digest_of(const void *bytes, size_t n, uint8_t out[DIGEST_BYTES]) {
  errno = 0;
  must(EVP_Digest(bytes, n, out, NULL, EVP_sha256(), NULL));
}

struct digest_hex digest_hex(const uint8_t sum[DIGEST_BYTES]) {
  struct digest_hex hex;
  hex_encode(sum, DIGEST_BYTES, hex.s);
  return hex;
}

const char *digest_hex_in(struct arena *a, const uint8_t sum[DIGEST_BYTES]) {
  return arena_string(a, span_str(digest_hex(sum).s));
}
