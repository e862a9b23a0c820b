// What the manifest and the statement that is signed have in common.
#ifndef WEIR_MANIFEST_FORM_H
#define WEIR_MANIFEST_FORM_H

#include "base/digest.h"
#include "json/json.h"

#define MANIFEST_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define MANIFEST_PREDICATE_TYPE "https://model_signing/signature/v1.0"
enum { X_WEIR_VERSION = 1 };

// The member "subject": the model, by its .onnx.
void manifest_put_subject(struct json_out *out, const char *name, const uint8_t root[DIGEST_BYTES]);

#endif
