// Questions of the stage "equal", and its answers as text and as digests. The stage itself is the
// caller's (pass_env.ask): here is what both sides must agree on.
#include "passes/questions/likenesses.h"

static void write_likeness(struct json_out *j, const void *row) {
  const struct content_hash *x = row;
  json_put_hex(j, "sample", x->sample, DIGEST_BYTES);
  if (x->whole) json_put_hex(j, "all", x->all, DIGEST_BYTES);
}

static bool read_digest(const struct json_value *v, uint8_t out[DIGEST_BYTES]) {
  struct span hex;
  return json_as_string(v, &hex) && hex_decode(hex, out, DIGEST_BYTES);
}

static bool read_likeness(const struct json_value *v, void *row) {
  struct content_hash *x = row;
  x->whole = json_get(v, "all") != NULL;
  return read_digest(json_get(v, "sample"), x->sample) &&
         (!x->whole || read_digest(json_get(v, "all"), x->all));
}

const struct answer_form likenesses_form = {
    .write = write_likeness, .read = read_likeness, .row.bytes = sizeof(struct content_hash)};
