// seal.json: what a seal is about to do, so that any later process can complete it.
#ifndef WEIR_SEAL_INTENT_H
#define WEIR_SEAL_INTENT_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/err.h"
#include "stream/seal/seal_refers.h"

enum seal_role { SEAL_DATA, SEAL_ONNX, SEAL_COMPANION }; // in the order of the renames

struct seal_move {
  const char *name; // the same in the staging folder and in the destination
  enum seal_role role;
  // DATA: the file of this name that is there is the replaced model's; until the .onnx is in place,
  // the new one is reached under this name (passage.c). NULL: the name is free.
  const char *via;
  bool kept; // the file that is there has these very bytes: it stays, and the staged one goes
  uint64_t size, inode;                 // of the staged file
  const uint8_t (*units)[DIGEST_BYTES]; // of its 64 MiB pieces
  uint32_t n_units;
};

// A file of the replaced model.
struct seal_old {
  const char *name;
  bool listed; // by its manifest: may be unlinked
  bool unsure; // the model cannot be read: whether it is one of its files is not known
};

struct seal_intent {
  struct arena arena; // holds the rows and their strings
  bool replace;
  uint8_t plan_id[DIGEST_BYTES];
  struct seal_move *moves; // data, then the .onnx, then companions, the manifest last
  uint32_t n_moves;
  // The .onnx that names data under their `via` names: it takes the .onnx's name for a while. Its own
  // is NULL where no data file has one.
  struct seal_move passage;
  struct seal_old *old; // sidecars of the replaced model
  uint32_t n_old;
  const char **stale; // companions of the replaced model that get no successor
  uint32_t n_stale;
  struct seal_refers *refers; // of the replaced model, while the seal is prepared
};

// Writes seal.json into the folder, durably, and syncs the folder.
int seal_intent_write(const struct seal_intent *s, struct folder folder, struct err *err);
// Reads it back, also once it is sealed.json. ERR_INPUT if it is not what was written; `shown` names the folder in messages.
int seal_intent_read(struct seal_intent *s, struct folder folder, const char *shown,
                     struct err *err);
void seal_intent_free(struct seal_intent *s);
// The name of its .onnx.
const char *seal_intent_onnx(const struct seal_intent *s);

#endif
