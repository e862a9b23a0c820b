// Damaged byte ranges of a written model, and the tensors that lie in them.
#ifndef WEIR_AUDIT_TENSORS_H
#define WEIR_AUDIT_TENSORS_H

#include "base/observer.h"
#include "model/model.h"
#include "stream/seal/manifest.h"

struct audit_found {
  const char *file; // relative to the model's folder
  const char *what;
  uint64_t off, len;
  const char **tensors; // names, in order of their place
  struct audit_place {
    uint64_t off, len;
  } * places; // of the tensors, in the file
  uint32_t n_tensors;
  bool mapped;      // the model could be read, so that `tensors` is all there is
  bool narrowed;    // digests per tensor were asked: `tensors` are those that differ,
  uint32_t n_whole; // and so many more lie there and agree
};

// Does a range of a file meet any of the rows, which are in order of places and do not overlap?
bool audit_found_meets(const struct audit_found *found, size_t n, const char *file, uint64_t off,
                       uint64_t len);

// Fills in the tensors of each row, which are in order of places. The model at that path (in the folder
// `dir`, with that manifest) says where they lie, and the digests per tensor, if there are any, which of them differ (audit_companion.c). Where a
// row is about the .onnx itself, the digests say both; without them the damaged .onnx is asked, and
// a notice tells that, or that it cannot be read any more: then the rows stay unmapped. Names live
// in *arena.
void audit_tensors_name(struct folder dir, const struct manifest *manifest, const char *model_path,
                        struct audit_found *found, size_t n, struct observer *o,
                        struct arena *arena);

// ---- the digests per tensor, OUT.onnx.tensors.jsonl, asked about damaged ranges (audit_companion.c) ----

// Takes the tensors whose own digests still agree out of the rows of *found that are mapped, and
// marks those rows as narrowed. Without a companion beside the model nothing happens; one that does
// not agree with the manifest, or with itself, is named in one notice and not used. False for both.
// `dir`: the folder of the model, which is m; where that cannot be believed, m is NULL, and all rows
// are mapped first, by the places in the companion. *found is in order of places.
bool audit_companion_narrow(struct folder dir, const struct manifest *manifest,
                            const struct model *m, struct audit_found *found, size_t n,
                            struct observer *o, struct arena *arena);
// Where the manifest lists a companion: is it what the manifest says? A notice tells if not. For a model
// without damage, where nothing else reads it. False: it is not there at all, which nothing tells.
bool audit_companion_look(struct folder dir, const struct manifest *manifest, struct observer *o);

#endif
