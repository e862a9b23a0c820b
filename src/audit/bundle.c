// {"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json",
//  "verificationMaterial":{"publicKey":{"hint":ID OF THE KEY},"tlogEntries":[]},
//  "dsseEnvelope":{"payload":BASE64,"payloadType":"application/vnd.in-toto+json",
//                  "signatures":[{"sig":BASE64,"keyid":""}]}}
//
// What is signed is not the payload but, of DSSE, "DSSEv1 LENGTH TYPE LENGTH PAYLOAD": a payload of another type
// never has this one's signature.
#include "audit/bundle.h"

#include "audit/base64.h"

static const char media_type[] = "application/vnd.dev.sigstore.bundle.v0.3+json";
static const char payload_type[] = "application/vnd.in-toto+json";

static struct span what_is_signed(struct span payload, struct arena *a) {
  const char *head =
      arena_printf(a, "DSSEv1 %zu %s %zu ", strlen(payload_type), payload_type, payload.n);
  const size_t n = strlen(head);
  uint8_t *text = arena_alloc(a, n + payload.n);
  memcpy(text, head, n);
  memcpy(text + n, payload.at, payload.n);
  return span_of(text, n + payload.n);
}

static int no_bundle(const char *shown, const char *why, struct err *err) {
  return err_set(err, ERR_MODEL, "'%s' is not a signature made with a key: %s", quote_path(shown).s,
                 why);
}

static bool take_bytes(struct bundle *b, const struct json_value *v, struct span *out) {
  struct span text;
  return json_as_string(v, &text) && base64_decode(text, out, &b->arena);
}

static int take(struct bundle *b, const struct json_value *doc, const char *shown,
                struct err *err) {
  const struct json_value *material = json_get(doc, "verificationMaterial");
  const struct json_value *key = json_get(material, "publicKey"), *hint = json_get(key, "hint");
  const struct json_value *envelope = json_get(doc, "dsseEnvelope");
  const struct json_value *signatures = json_get(envelope, "signatures");
  struct span id = {0};
  if (!json_is_text(json_get(doc, "mediaType"), media_type))
    return no_bundle(shown, "it is not a Sigstore bundle (v0.3)", err);
  if (!json_is_object(key)) return no_bundle(shown, "it does not name a key", err);
  if (hint && !json_is_null(hint) && !json_as_string(hint, &id))
    return no_bundle(shown, "the name of its key is not a string", err);
  if (!json_is_text(json_get(envelope, "payloadType"), payload_type) ||
      !take_bytes(b, json_get(envelope, "payload"), &b->payload))
    return no_bundle(shown, "it contains no in-toto statement", err);
  if (!json_is_array(signatures) || json_count(signatures) != 1 ||
      !take_bytes(b, json_get(json_first(signatures), "sig"), &b->signature))
    return no_bundle(shown, "it does not contain exactly one signature", err);
  b->key_id = span_str(arena_string(&b->arena, id));
  return 0;
}

int bundle_read(struct bundle *b, struct span text, const char *shown, struct err *err) {
  *b = (struct bundle){0};
  struct json_value *doc = json_parse(text, shown, err);
  const int bad = doc ? take(b, doc, shown, err) : -1;
  json_free(doc);
  return bad;
}

void bundle_free(struct bundle *b) {
  arena_free(&b->arena);
}

bool bundle_is_by(const struct bundle *b, const struct sign_key *key) {
  struct arena scratch = {0};
  const bool good = (b->key_id.n == 0 || span_is(b->key_id, sign_key_id(key))) &&
                    sign_key_verify(key, what_is_signed(b->payload, &scratch), b->signature);
  arena_free(&scratch);
  return good;
}

int bundle_write(struct json_out *out, const struct sign_key *key, struct span payload,
                 struct err *err) {
  uint8_t signature[SIGN_KEY_SIGNATURE_MAX];
  size_t n;
  struct arena scratch = {0};
  const int bad = sign_key_sign(key, what_is_signed(payload, &scratch), signature, &n, err);
  if (!bad) {
    json_object(out);
    json_put_text(out, "mediaType", media_type);
    json_put_object(out, "verificationMaterial");
    json_put_object(out, "publicKey");
    json_put_text(out, "hint", sign_key_id(key));
    json_end_object(out);
    json_put_array(out, "tlogEntries");
    json_end_array(out);
    json_end_object(out);
    json_put_object(out, "dsseEnvelope");
    json_put_text(out, "payload", base64_encode(payload, &scratch));
    json_put_text(out, "payloadType", payload_type);
    json_put_array(out, "signatures");
    json_object(out);
    json_put_text(out, "sig", base64_encode(span_of(signature, n), &scratch));
    json_put_text(out, "keyid", "");
    json_end_object(out);
    json_end_array(out);
    json_end_object(out);
    json_end_object(out);
    json_newline(out);
  }
  arena_free(&scratch);
  return bad;
}
