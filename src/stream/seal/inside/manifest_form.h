// What the manifest and the statement that is signed have in common.
#ifndef WEIR_MANIFEST_FORM_H
#define WEIR_MANIFEST_FORM_H

#define MANIFEST_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define MANIFEST_PREDICATE_TYPE "https://model_signing/signature/v1.0"
enum { X_WEIR_VERSION = 1 };

#endif
