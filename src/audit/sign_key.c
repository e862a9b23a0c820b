// Keys through libcrypto: its EVP and PEM calls alone, so that one built without what it calls deprecated does.
//
// What kind of text it is, is told by the label of its first block before libcrypto sees it: a key that wants a
// password is never asked for one, and the wrong file is called what it is.
//
//   -----BEGIN EC PARAMETERS-----       passed over: 'openssl ecparam -genkey' writes it before the key
//   -----BEGIN EC PRIVATE KEY-----      or PRIVATE KEY; PUBLIC KEY
//
// Signatures are not the same from one call to the next: ECDSA takes a random number for each.
#include "audit/sign_key.h"

#include "base/arena.h"
#include "base/digest.h"
#include "resources/resources.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>

struct curve {
  const char *openssl, *name;
  const EVP_MD *(*hash)(void);
};

static const struct curve curves[] = {
    {"prime256v1", "P-256", EVP_sha256},
    {"secp384r1", "P-384", EVP_sha384},
    {"secp521r1", "P-521", EVP_sha512},
};

struct sign_key {
  EVP_PKEY *pkey;
  const struct curve *curve;
  char id[DIGEST_HEX];
};

// Of libcrypto: a failure is want of memory, or promises of ours that are broken. errno was 0 before.
static void must(bool ok) {
  if (!ok && errno == ENOMEM) arena_must(NULL, 4096);
  if (!ok) abort();
}

// A key is not called damaged for want of memory.
static void refuse_no_memory(const void *made) {
  if (!made && errno == ENOMEM) arena_must(NULL, 4096);
}

// ---- what is it? --------------------------------------------------------------------------------

static struct span find(struct span text, const char *what) {
  const uint8_t *at = span_find(text, span_str(what));
  return at ? span_of(at, text.n - (size_t)(at - text.at)) : span_of(NULL, 0);
}

// The label of the first block that is no parameters; empty: there is none. *block: from there on.
static struct span label_of(struct span pem, struct span *block) {
  static const char begin[] = "-----BEGIN ", end[] = "-----";
  for (*block = find(pem, begin); block->at;
       *block = find(span_of(block->at + 1, block->n - 1), begin)) {
    const struct span rest = span_of(block->at + strlen(begin), block->n - strlen(begin));
    const struct span behind = find(rest, end);
    const struct span label = span_of(rest.at, behind.at ? (size_t)(behind.at - rest.at) : 0);
    if (!span_is(label, "EC PARAMETERS")) return label;
  }
  return span_of(NULL, 0);
}

static int unusable(struct err *err, const char *shown, const char *is, const char *hint) {
  err_fill(err, ERR_USAGE, "'%s' %s", quote_path(shown).s, is);
  return err_hint(err, "%s", hint);
}

static const char *wanted(enum sign_key_half half) {
  return half == SIGN_KEY_PUBLIC ? "a public key of the curve P-256, P-384 or P-521 is needed"
                                 : "a key of the curve P-256, P-384 or P-521 is needed: openssl "
                                   "ecparam -name prime256v1 -genkey -noout -out key.pem";
}

static int check_label(struct span pem, enum sign_key_half half, const char *shown,
                       struct err *err) {
  struct span block;
  const struct span label = label_of(pem, &block);
  const bool private = span_is(label, "PRIVATE KEY") || span_is(label, "EC PRIVATE KEY");
  if (span_is(label, "ENCRYPTED PRIVATE KEY") ||
      (private && find(block, "Proc-Type: 4,ENCRYPTED").at))
    return unusable(err, shown, "is an encrypted key, and weir does not ask for passwords",
                    half == SIGN_KEY_PUBLIC
                        ? "give the public key: openssl pkey -in KEY -pubout -out key.pub"
                        : "decrypt it to a file that only you can read: openssl pkey -in KEY -out "
                          "key.pem");
  if (half == SIGN_KEY_PUBLIC && private)
    return unusable(err, shown, "is a private key",
                    "give the public key: openssl pkey -in KEY -pubout -out key.pub");
  if (half == SIGN_KEY_PRIVATE && span_is(label, "PUBLIC KEY"))
    return unusable(err, shown, "is a public key, and signing needs a private key",
                    "give the private key");
  if (span_is(label, "CERTIFICATE"))
    return unusable(err, shown, "is a certificate",
                    half == SIGN_KEY_PUBLIC
                        ? "give its public key: openssl x509 -in CERT -pubkey -noout -out key.pub"
                        : "give the private key");
  if (span_is(label, "RSA PRIVATE KEY") || span_is(label, "DSA PRIVATE KEY") ||
      span_is(label, "OPENSSH PRIVATE KEY"))
    return unusable(err, shown, "is a key of another kind", wanted(half));
  if (private || span_is(label, "PUBLIC KEY")) return 0;
  err_fill(err, ERR_MODEL, "'%s' is not a key in PEM form", quote_path(shown).s);
  return err_hint(err, "%s", wanted(half));
}

// ---- from text to key ---------------------------------------------------------------------------

static int no_password(char *room, int size, int writes, void *ctx) {
  (void)room, (void)size, (void)writes, (void)ctx;
  return -1;
}

// The file has both halves, and what a damaged one signs would not be the public half's.
static bool is_pair(EVP_PKEY *pkey) {
  EVP_PKEY_CTX *c = EVP_PKEY_is_a(pkey, "EC") ? EVP_PKEY_CTX_new_from_pkey(NULL, pkey, NULL) : NULL;
  const bool good = !c || EVP_PKEY_check(c) == 1; // other kinds are refused by name
  EVP_PKEY_CTX_free(c);
  return good;
}

static EVP_PKEY *decode(struct span pem, enum sign_key_half half) {
  BIO *text = pem.n <= INT32_MAX ? BIO_new_mem_buf(pem.at, (int)pem.n) : NULL;
  if (!text) return NULL;
  EVP_PKEY *pkey = half == SIGN_KEY_PRIVATE ? PEM_read_bio_PrivateKey(text, NULL, no_password, NULL)
                                            : PEM_read_bio_PUBKEY(text, NULL, no_password, NULL);
  BIO_free(text);
  if (pkey && half == SIGN_KEY_PRIVATE && !is_pair(pkey)) {
    EVP_PKEY_free(pkey);
    pkey = NULL;
  }
  ERR_clear_error();
  return pkey;
}

static const struct curve *curve_of(const EVP_PKEY *pkey) {
  char name[64] = "";
  if (!EVP_PKEY_is_a(pkey, "EC") || !EVP_PKEY_get_group_name(pkey, name, sizeof name, NULL)) {
    ERR_clear_error();
    return NULL;
  }
  for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
    if (strcmp(curves[i].openssl, name) == 0) return &curves[i];
  return NULL;
}

// The point is written whole, as others do, however the file has it.
static void name_key(struct sign_key *k) {
  uint8_t sum[DIGEST_BYTES];
  char *text;
  errno = 0;
  BIO *out = BIO_new(BIO_s_mem());
  const bool written = out &&
                       EVP_PKEY_set_utf8_string_param(
                           k->pkey, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT, "uncompressed") &&
                       PEM_write_bio_PUBKEY(out, k->pkey);
  const long n = written ? BIO_get_mem_data(out, &text) : 0;
  if (n > 0) {
    digest_of(text, (size_t)n, sum);
    hex_encode(sum, sizeof sum, k->id);
  }
  BIO_free(out);
  must(n > 0);
}

static void key_left(void *k, size_t n) {
  (void)n;
  EVP_PKEY_free(((struct sign_key *)k)->pkey);
}

int sign_key_parse(struct sign_key **out, struct span pem, enum sign_key_half half,
                   const char *shown, struct err *err) {
  if (check_label(pem, half, shown, err)) return -1;
  struct sign_key *k = arena_must(resources_zalloc(1, sizeof *k), sizeof *k);
  errno = 0;
  EVP_PKEY *pkey = decode(pem, half);
  refuse_no_memory(pkey);
  if (!pkey) resources_free(k);
  if (!pkey)
    return err_set(err, ERR_MODEL,
                   "'%s' is damaged: it is not the kind of key that its label names",
                   quote_path(shown).s);
  errno = 0;
  const struct curve *curve = curve_of(pkey);
  if (!curve) {
    EVP_PKEY_free(pkey);
    refuse_no_memory(curve);
    resources_free(k);
    return unusable(err, shown, "has another kind or curve", wanted(half));
  }
  *k = (struct sign_key){.pkey = pkey, .curve = curve};
  resources_hold(k, 0, key_left);
  name_key(k);
  *out = k;
  return 0;
}

void sign_key_free(struct sign_key *k) {
  if (!k) return;
  resources_drop_thing(k, 0);
  EVP_PKEY_free(k->pkey);
  resources_free(k);
}

const char *sign_key_curve(const struct sign_key *k) {
  return k->curve->name;
}

const char *sign_key_id(const struct sign_key *k) {
  return k->id;
}

// ---- signatures ---------------------------------------------------------------------------------

int sign_key_sign(const struct sign_key *k, struct span text, uint8_t out[SIGN_KEY_SIGNATURE_MAX],
                  size_t *n, struct err *err) {
  EVP_MD_CTX *c = EVP_MD_CTX_new();
  *n = SIGN_KEY_SIGNATURE_MAX;
  const bool made = c && EVP_DigestSignInit(c, NULL, k->curve->hash(), NULL, k->pkey) == 1 &&
                    EVP_DigestSign(c, out, n, text.at, text.n) == 1;
  EVP_MD_CTX_free(c);
  ERR_clear_error();
  return made ? 0 : err_set(err, ERR_INTERNAL, "libcrypto cannot sign with this key");
}

bool sign_key_verify(const struct sign_key *k, struct span text, struct span signature) {
  EVP_MD_CTX *c = EVP_MD_CTX_new();
  const bool good = c && EVP_DigestVerifyInit(c, NULL, k->curve->hash(), NULL, k->pkey) == 1 &&
                    EVP_DigestVerify(c, signature.at, signature.n, text.at, text.n) == 1;
  EVP_MD_CTX_free(c);
  ERR_clear_error();
  return good;
}
