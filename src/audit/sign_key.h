// Keys that sign: elliptic curves P-256, P-384 and P-521 (ECDSA with SHA-256, SHA-384, SHA-512; signatures
// in DER), from PEM text. What OpenSSF Model Signing takes, and nothing else.
#ifndef WEIR_SIGN_KEY_H
#define WEIR_SIGN_KEY_H

#include "base/err.h"
#include "base/span.h"

enum { SIGN_KEY_SIGNATURE_MAX = 160 }; // P-521 has 139 bytes at most

struct sign_key; // opaque
enum sign_key_half { SIGN_KEY_PRIVATE, SIGN_KEY_PUBLIC };

// `shown` names the file in messages. ERR_MODEL: no key in PEM form; ERR_USAGE: one that cannot be used: the other
// half, a certificate, a key that wants a password, another kind of key or curve.
int sign_key_parse(struct sign_key **out, struct span pem, enum sign_key_half half,
                   const char *shown, struct err *err);
void sign_key_free(struct sign_key *k); // NULL: does nothing

const char *sign_key_curve(const struct sign_key *k); // "P-256"
// By what bundles name a key: SHA-256 of the PEM text of its public half, in hex.
const char *sign_key_id(const struct sign_key *k);

// With the private half. ERR_INTERNAL if the library cannot.
int sign_key_sign(const struct sign_key *k, struct span text, uint8_t out[SIGN_KEY_SIGNATURE_MAX],
                  size_t *n, struct err *err);
bool sign_key_verify(const struct sign_key *k, struct span text, struct span signature);

#endif
