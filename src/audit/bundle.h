// A signed statement as a file: a bundle of Sigstore (v0.3) around an envelope of DSSE, as OpenSSF Model Signing
// writes them for keys.
#ifndef WEIR_BUNDLE_H
#define WEIR_BUNDLE_H

#include "audit/sign_key.h"
#include "json/json.h"

struct bundle {
  struct arena arena;
  struct span payload;   // what was signed
  struct span signature; // DER
  struct span key_id;    // sign_key_id of the key that signed; empty: it does not say
};

// ERR_MODEL for what is no such bundle, or one that was not made with a key. `shown` names it in messages.
// bundle_free in any case. Nothing is verified.
int bundle_read(struct bundle *b, struct span text, const char *shown, struct err *err);
void bundle_free(struct bundle *b);
// Is it signed with this key? A bundle that names another key is not.
bool bundle_is_by(const struct bundle *b, const struct sign_key *key);
// Signs, and writes the bundle.
int bundle_write(struct json_out *out, const struct sign_key *key, struct span payload,
                 struct err *err);

#endif
