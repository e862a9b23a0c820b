// OUT.onnx.tensors.jsonl, the digests per tensor, asked about damaged ranges.
#ifndef WEIR_AUDIT_COMPANION_H
#define WEIR_AUDIT_COMPANION_H

#include "audit_tensors.h"
#include "model.h"

// Takes the tensors whose own digests still agree out of the rows of *found that are mapped, and
// marks those rows as narrowed. Without a companion beside the model nothing happens; one that does
// not agree with the manifest, or with itself, is named in one notice and not used. `folder`, `name`:
// of the model, which is m.
void audit_companion_narrow(const char *folder, const char *name, const struct model *m,
                            struct audit_found *found, size_t n, struct arena *arena);

#endif
