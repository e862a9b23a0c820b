// What is signed of a model: a second statement about the same files, of method `files`, which is the one that the
// command line of OpenSSF Model Signing verifies. It names its manifest by digest.
//
//   key ──signs──▶ OUT.onnx.sig { OUT.onnx: SHA-256, OUT.onnx.data: SHA-256, x_weir.manifest.sha256 }
//                                                                               │
//                       OUT.onnx.manifest.json { units, passes, sources … } ◀───┘
#ifndef WEIR_MANIFEST_SIGNED_H
#define WEIR_MANIFEST_SIGNED_H

#include "stream/seal/manifest.h"
#include "stream/sys/reread.h"

// Hashes the files that m names, in the folder `dir`. ERR_FAIL if one of them is not what m says, which is named;
// ERR_PERMISSION for a link, which no verifier follows. `sha256`: of each.
int manifest_hash_files(const struct manifest *m, struct folder dir, const struct reread_work *work,
                        uint8_t (*sha256)[DIGEST_BYTES], struct err *err);
// The statement, of those digests. `name`: of the file that m was read from; `signature`: of the one that it goes to.
void manifest_signed_write(struct json_out *out, const struct manifest *m, const char *name,
                           const char *signature, const uint8_t (*sha256)[DIGEST_BYTES]);
// Such a statement, read back.
struct manifest_signed {
  struct json_value *doc;
  const char *shown; // the signature, for messages
  uint8_t manifest_sha256[DIGEST_BYTES];
};
// ERR_MODEL for any other statement.
int manifest_signed_read(struct manifest_signed *s, struct span statement, const char *shown,
                         struct err *err);
void manifest_signed_free(struct manifest_signed *s);
// Is it about this manifest, read from a file of that name, and about the files that the manifest lists? ERR_MODEL
// where it names others: then it was made for another model, or for a manifest elsewhere.
int manifest_signed_is_about(const struct manifest_signed *s, const struct manifest *m,
                             const char *name, struct err *err);

#endif
