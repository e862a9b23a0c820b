// OUT.onnx.tensors.jsonl, the digests per tensor, asked about damaged ranges.
#ifndef WEIR_AUDIT_COMPANION_H
#define WEIR_AUDIT_COMPANION_H

#include "audit_tensors.h"
#include "manifest.h"
#include "model.h"
#include "observer.h"

// Takes the tensors whose own digests still agree out of the rows of *found that are mapped, and
// marks those rows as narrowed. Without a companion beside the model nothing happens; one that does
// not agree with the manifest, or with itself, is named in one notice and not used. False for both.
// `dir`: the folder of the model, which is m; where that cannot be believed, m is NULL, and all rows
// are mapped first, by the places in the companion. *found is in order of places.
bool audit_companion_narrow(int dir, const struct manifest *manifest, const struct model *m,
                            struct audit_found *found, size_t n, struct observer *o,
                            struct arena *arena);
// Where the manifest lists a companion: is it what the manifest says? A notice tells if not. For a model
// without damage, where nothing else reads it. False: it is not there at all, which nothing tells.
bool audit_companion_look(int dir, const struct manifest *manifest, struct observer *o);

#endif
