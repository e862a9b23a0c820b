// Signatures of written models, in files next to them (manifest_signed.h, bundle.h).
#ifndef WEIR_SIGN_MODEL_H
#define WEIR_SIGN_MODEL_H

#include "audit/audit_target.h"
#include "audit/sign_key.h"
#include "stream/run/work.h"
#include "stream/seal/manifest.h"

// Reads the key in a file. ERR_INPUT if the file has no key.
int sign_model_key(struct sign_key **out, const char *path, enum sign_key_half half,
                   struct err *err);

struct sign_model {
  uint64_t files, bytes;
  bool was_signed; // with this key, and nothing has changed: nothing was written
  bool replaced;   // a signature of something else, or by another key
};
// Reads the model's files, compares them with its manifest, signs, and puts the signature in place, durably. Of `work`
// the workers, the observer and the stop flag count. Errors of manifest_read and manifest_hash_files; ERR_PERMISSION
// where a link has the signature's name.
int sign_model(const struct audit_target *t, const struct sign_key *key,
               const struct work_options *work, struct sign_model *out, struct err *err);

// Who reads a manifest: the key that must have signed it (a file; NULL: the signature is not read), and the words of the user, for a hint.
struct sign_model_reader {
  const char *public_key, *operand, *command;
};
// The manifest of a model, in its folder. With a public key the signature next to the model is looked at first: it is by
// that key, which the caller frees (else *key stays NULL), is about this model, and the manifest is the one that was
// signed. ERR_INPUT: the signature or the manifest is missing; ERR_MODEL:
// it is malformed, or about another model; ERR_FAIL: it is by another key, or it or what it signs was changed.
int sign_model_read(struct manifest *m, struct folder *dir, const struct sign_model_reader *who,
                    const struct audit_target *t, struct sign_key **key, struct err *err);

#endif
