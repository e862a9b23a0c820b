// The record beside the output: an in-toto Statement v1 with predicate type
// https://model_signing/signature/v1.0 (method `shards`, SHA-256, shard size = our unit), and its
// re-check. Nothing in it varies between runs: no time, host, user or absolute path.
#ifndef WEIR_MANIFEST_H
#define WEIR_MANIFEST_H

#include "json/json.h"
#include "plan/plan.h"
#include "platform/files.h"

struct manifest_input {
  const struct plan *plan;
  const uint8_t (*unit_digests)[DIGEST_BYTES];
  const char *edits_sha256;        // hex, or NULL
  const char *layout_asked;        // JSON, as in the head of the edit log; or NULL
  const char *tensors_sha256;      // hex of the companion, or NULL
  const char *const *ignore_paths; // our own companions
  uint32_t n_ignore_paths;
  const char *weir_version;
  const char *const *source_sha256; // hex per source file (--hash-inputs), or NULL
};
// ERR_USAGE if an output's name cannot be expressed (manifest_can_name); p->id is set.
int manifest_write(struct json_out *out, const struct manifest_input *in, struct err *err);
// The digest that it gives the output as a whole.
void manifest_root(const struct plan *p, const uint8_t (*units)[DIGEST_BYTES],
                   uint8_t root[DIGEST_BYTES]);
// A ':' or '/' in a name has no form in a manifest. To be asked before anything is run.
bool manifest_can_name(const char *output);
// Of the files beside an .onnx: `<onnx>.manifest.json`, `<onnx>.tensors.jsonl` and `<onnx>.sig`.
struct manifest_names {
  char manifest[256], tensors[256], signature[256];
};
struct manifest_names manifest_names(const char *onnx_name);

// ---- what others ask of a manifest ----

struct manifest_shard {
  uint32_t file;
  uint64_t off, len;
  uint8_t digest[DIGEST_BYTES];
};
// A manifest read back and found consistent. It is about one model: the subject, which is the output
// that it says was made, and one of the files. Names are base names; the shards of a file leave no
// hole, are cut at multiples of the shard size, and are hashed as their algorithm says.
struct manifest {
  struct arena arena;
  uint8_t sha256[DIGEST_BYTES]; // of its text
  const char *subject;          // the .onnx
  const char **files;           // in order of their names
  uint64_t *sizes;
  uint32_t *first; // shard of each file; one row more, for the end of the last
  uint32_t n_files;
  struct manifest_shard *shards; // in order of files, then of places
  uint32_t n_shards;
  uint64_t shard_bytes; // of each but the last of a file
  uint8_t plan_id[DIGEST_BYTES];
  bool lists_tensors; // x_weir names the companion of digests per tensor:
  uint8_t tensors_sha256[DIGEST_BYTES];
  struct json_value *doc;
  const struct json_value *x_weir; // in it: how the outputs were made
};
// Where a manifest is, and what it has to be.
struct manifest_at {
  struct folder dir;
  const char *name;
  const char *shown;     // its name in messages
  const char *model;     // base name of the model that it has to be about; NULL: any
  const uint8_t *sha256; // DIGEST_BYTES: of its text, which was signed; NULL: any
};
// Missing is ERR_INPUT, anything that is not a consistent manifest of ours, or is about another model,
// ERR_MODEL; another text than was signed ERR_FAIL, before anything in it is looked at.
int manifest_read(struct manifest *m, const struct manifest_at *at, struct err *err);
void manifest_free(struct manifest *m);
// The row of a file; NO_ID: it is not listed.
uint32_t manifest_file_named(const struct manifest *m, struct span name);

// ---- the audit ----

// One damaged place found by an audit.
struct audit_damage {
  const char *file;
  uint64_t off, len; // the unit (shard); of a missing file: all of it; of a long one: the excess
  const char *what;  // "digest differs", "file is missing", "file is too short: 10 of 20 bytes"
};
struct audit_options {
  const char *shown; // the manifest, in messages
  uint32_t jobs;     // 0: processors available to us
  const volatile int *stop;
  void (*damage)(void *ctx, const struct audit_damage *d); // under a lock, from any thread
  void (*tick)(void *ctx, uint64_t bytes_done, uint64_t bytes_total);
  void *ctx;
};
struct audit_result {
  uint64_t files, shards, damaged, bytes; // damaged: shards
};
// Re-hashes what the manifest lists, files of the folder `dir`, in parallel. Damage is counted in *result.
// ERR_PERMISSION for a data file that is a link which a load does not follow; ERR_RETRY where it was stopped.
int manifest_audit(const struct manifest *m, struct folder dir, const struct audit_options *options,
                   struct audit_result *result, struct err *err);

#endif
