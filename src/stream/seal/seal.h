// Room: the seal: from records to final names, with a manifest and the statement that is signed. The rename of the
// .onnx is the one commit point.
//
//   1. all outputs complete and durable, with the mode of the .onnx that is replaced; seal.json written, fsynced
//      (the list of renames); then the owner of that .onnx
//   2. data files renamed into place, folder fsynced
//   3. the .onnx renamed (the commit point), folder fsynced
//   4. the manifest and companions renamed, folder fsynced
//   5. an old sidecar that only the replaced model named is unlinked
//   6. the staging folder goes
//
// A data file that takes the place of one of the replaced model's goes there by a passage (passage.c):
// for a while the .onnx names it under another name. A kill between any two system calls leaves the old
// model or the new one whole; before 3 it may leave a sidecar that no model names (`weir clean` lists
// it). seal_finish over an unfinished seal completes it.
#ifndef WEIR_SEAL_H
#define WEIR_SEAL_H

#include "plan/plan.h"
#include "stream/seal/companion.h"
#include "stream/seal/manifest.h"
#include "stream/seal/seal_refers.h"
#include "stream/staging/staging.h"

struct seal_options {
  bool replace;         // --force or --inplace: existing final names may be replaced
  const char *manifest; // manifest text, NULL with --no-manifest
  size_t manifest_bytes;
  const struct companion *tensors; // the companion of digests per tensor, ended, in the staging
                                   // folder under its final name; or NULL
  struct seal_refers *refers;      // of the model that is replaced; NULL: it is asked by the seal
};

// Why a data file of the replaced model was kept.
enum seal_kept {
  SEAL_KEPT_UNLISTED, // its model had no manifest that lists it: whose it is is not known
  SEAL_KEPT_USED,     // another model uses it
  SEAL_KEPT_UNKNOWN,  // whether one does could not be found out
  SEAL_KEPT_UNSURE, // its model cannot be read: a manifest lists it, or it has the name of such a file
  SEAL_KEPT_REASONS,
};

struct seal_report {
  struct seal_kept_files {
    uint32_t n;
    char names[512]; // of the first few, with their sizes
    char who[256];   // of the first: the other model, or what could not be read
  } kept[SEAL_KEPT_REASONS];
  bool unchanged; // all outputs were there already, byte for byte: none was touched
  bool same_manifest, same_tensors; // so was this companion
  char left[1024]; // why the staging folder could not be removed, though all is in place; or ""
};

// May a data file of the model `onnx` in `dest` (whose path is `folder`) be replaced together with it? It is a plain file, the
// model refers to it (or its manifest lists it, under a name that such files have), and no other model in the folder names it.
// `refers`: of that model.
bool seal_may_replace(struct seal_refers *refers, struct folder dest, const char *folder,
                      const char *onnx, const char *name);
// All units are done. Without `replace` an existing OUT is ERR_USAGE and nothing has been moved; a
// data name that was taken since planning is ERR_RETRY. On success the staging folder is gone (or report->left says why not) and
// *st closed (staging_close again is harmless); on failure it is open and complete. A null staging:
// does nothing.
int seal_run(struct staging *st, const struct plan *p, const struct seal_options *options,
             struct seal_report *report, struct err *err);
// Compares the files of an unfinished seal, staged or in place already, with what seal.json says of them
// (size, digest of every unit). ERR_INPUT, by name, for one that is not what the interrupted run wrote;
// ERR_PERMISSION as staging_check_entries; ERR_RETRY if it was stopped. To be asked before seal_finish,
// which gives them their names; it changes nothing.
int seal_check(const struct staging *st, const struct reread_work *work, struct err *err);
// Completes an unfinished seal found in the staging folder (seal.json says all), which was opened
// by staging_open_sealed or came as STAGING_SEALED. Of a finished one only the folder goes.
int seal_finish(struct staging *st, struct seal_report *report, struct err *err);
// Gives an unfinished seal up. Before the commit point the data files that it has put in place, and that
// no .onnx of the folder names, go; what has replaced another file stays. Behind the commit point it is
// completed instead (*out says so): then the files of its model are known to the one that replaces it. Where
// seal.json cannot be read, nothing is moved or removed, and where a file that was to be moved is damaged,
// nothing that a model names: *out says what may be left over. Closes the staging always, and removes its folder unless
// completing it fails.
struct seal_given_up {
  bool completed;
  struct seal_report report; // then
  enum seal_damage { SEAL_NOT_DAMAGED, SEAL_JSON_DAMAGED, SEAL_FILES_DAMAGED } damage;
  bool known;     // with SEAL_JSON_DAMAGED: the plan could be read, so `left` is all that there is
  char left[512]; // data files that it may have put in place and no model needs, with their sizes
};
int seal_give_up(struct staging *st, struct seal_given_up *out, struct err *err);

// What `weir clean` names beside a staging folder in `dir`: data files with the names and sizes of those that
// its run made, and old ones that it was about to remove, where no model in `dir` uses them. Calls `each`, unless that
// gives other than 0, with names that hold during the call. A folder without a whole plan or seal.json
// has none. Nothing is locked or changed.
void seal_left_each(const char *dir, const char *staging,
                    int (*each)(void *ctx, const char *name, uint64_t bytes), void *ctx);

#endif
