// What is signed of a model: a second statement about the same files, of method `files`, which is the one that the
// command line of OpenSSF Model Signing verifies. It names its manifest by digest.
//
//   key ──signs──▶ OUT.onnx.sig { OUT.onnx: SHA-256, OUT.onnx.data: SHA-256, x_weir.manifest.sha256 }
//                                                                               │
//                       OUT.onnx.manifest.json { units, passes, sources … } ◀───┘
#ifndef WEIR_MANIFEST_SIGNED_H
#define WEIR_MANIFEST_SIGNED_H

#include "manifest.h"
#include "reread.h"

// `<onnx>.sig`
void manifest_signature_name(char name[256], const char *onnx_name);
// Hashes the files that m names, in the folder `dir`. ERR_FAIL if one of them is not what m says, which is named;
// ERR_PERMISSION for a link, which no verifier follows. `sha256`: of each.
int manifest_hash_files(const struct manifest *m, int dir, const struct reread_work *work,
                        uint8_t (*sha256)[DIGEST_BYTES], struct err *err);
// The statement, of those digests. `name`: of the file that m was read from; `signature`: of the one that it goes to.
void manifest_signed_write(struct json_out *out, const struct manifest *m, const char *name,
                           const char *signature, const uint8_t (*sha256)[DIGEST_BYTES]);
// The digest of the manifest that such a statement is about. ERR_MODEL for any other statement.
int manifest_signed_read(struct span statement, const char *shown, uint8_t sha256[DIGEST_BYTES],
                         struct err *err);

#endif
