// Signatures and keys as anybody may have written them. Input: a bundle, a NUL, a key in PEM form. What base64 is taken is the
// only one of its bytes, what is written is read back, and only the key that signed is said to have.
#include "audit/base64.h"
#include "audit/bundle.h"
#include "stream/seal/manifest_signed.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void demand(bool holds) {
  if (!holds) abort();
}

static void check_bytes(struct span bytes) {
  struct arena a = {0};
  struct span again;
  demand(base64_decode(span_str(base64_encode(bytes, &a)), &again, &a) && span_eq(bytes, again));
  arena_free(&a);
}

// With a private key: a bundle of its own, which another payload is none of.
static void check_signing(const struct sign_key *key, struct span payload) {
  struct json_out out = {0};
  struct bundle b;
  struct err err = {0};
  demand(bundle_write(&out, key, payload, &err) == 0);
  demand(bundle_read(&b, span_of(out.text, out.n), "own", &err) == 0);
  demand(span_eq(b.payload, payload) && bundle_is_by(&b, key));
  b.payload = span_of("other", 5);
  demand(span_is(payload, "other") || !bundle_is_by(&b, key));
  bundle_free(&b);
  json_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  const uint8_t *end = n ? memchr(data, 0, n) : NULL;
  const size_t text = end ? (size_t)(end - data) : n;
  const struct span pem = end ? span_of(end + 1, n - text - 1) : span_of(NULL, 0);
  struct manifest_signed statement;
  struct bundle b;
  struct sign_key *key = NULL;
  struct err err = {0}, bad = {0}, half = {0};
  const bool is = bundle_read(&b, span_of(data, text), "fuzz", &err) == 0;
  demand(is || (err.kind == ERR_MODEL && err.msg[0]));
  if (is) check_bytes(b.payload);
  if (is) check_bytes(b.signature);
  if (is && manifest_signed_read(&statement, b.payload, "fuzz", &bad) == 0)
    manifest_signed_free(&statement);
  else if (is)
    demand(bad.kind == ERR_MODEL);
  for (enum sign_key_half h = SIGN_KEY_PRIVATE; h <= SIGN_KEY_PUBLIC; h++, half = (struct err){0}) {
    if (sign_key_parse(&key, pem, h, "key", &half)) {
      demand((half.kind == ERR_MODEL || half.kind == ERR_USAGE) && half.msg[0]);
      continue;
    }
    if (is) (void)bundle_is_by(&b, key);
    if (h == SIGN_KEY_PRIVATE) check_signing(key, is ? b.payload : span_of(data, text));
    sign_key_free(key);
  }
  bundle_free(&b);
  return 0;
}
