// OUT.onnx.tensors.jsonl, the digests per tensor, asked about damaged ranges.
#ifndef WEIR_AUDIT_COMPANION_H
#define WEIR_AUDIT_COMPANION_H

#include "audit_tensors.h"
#include "model.h"

// Takes the tensors whose own digests still agree out of the rows of *found that are mapped, and
// marks those rows as narrowed. Without a companion beside the model nothing happens; one that does
// not agree with the manifest, or with itself, is named in one notice and not used. False for both.
// `folder`, `name`: of the model, which is m; where that cannot be believed, m is NULL, and all
// rows are mapped first, by the places in the companion.
bool audit_companion_narrow(const char *folder, const char *name, const struct model *m,
                            struct audit_found *found, size_t n, struct arena *arena);
// Is the companion what the manifest says, so far as there is one and the manifest says anything? A
// notice tells if not. For a model without damage, where nothing else reads it.
bool audit_companion_is_whole(const char *folder, const char *name);

#endif
