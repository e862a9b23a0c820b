// Artifacts: files in which an earlier stage over the weights keeps what it found (measure.h), so
// that an interrupted run does not read them again. An artifact is named by its SHA-256; its first
// line is
//
//   {"weir_artifact":1,"stage":"measure","request_id":"…"}
//
// request_id = SHA-256 of what was asked: of which source (meta_sha256, names and sizes of its
// files), which stage, with which options. While the stage runs, and until there is a plan, the
// artifact's place is `.<OUT>.<request_id[0:16]>.weir/`, a staging folder with a lock and a header
// like any other (`weir clean` lists and removes it); then it moves to `artifacts/` in the staging
// folder of the plan.
#ifndef WEIR_ARTIFACT_H
#define WEIR_ARTIFACT_H

#include "json/json.h"
#include "stream/staging/staging.h"

enum { ARTIFACT_BYTES_MAX = 1 << 30 };

struct artifact_request {
  const char *dest_folder, *onnx_name; // of OUT
  const char *resume_command;
  const char *version; // of weir
  bool resume, fresh;  // as staging_options has them
  struct sources *sources;
  const uint8_t *meta_sha256; // of the source: DIGEST_BYTES
  const char *stage;
  struct span options; // a text without anything of this machine or moment
};
void artifact_request_id(const struct artifact_request *q, uint8_t id[DIGEST_BYTES]);

// Writes the artifact's first line.
void artifact_begin(struct json_out *j, const struct artifact_request *q,
                    const uint8_t id[DIGEST_BYTES]);

// A stage and where its answer lies.
struct artifact {
  struct staging at; // its folder; at.folder is none where there is none
  uint8_t id[DIGEST_BYTES], sha256[DIGEST_BYTES];
  struct span text; // the whole file; at NULL: not made yet. Freed by artifact_end.
};

// Opens the stage's folder, under a lock. Unless q->fresh, a finished stage of an interrupted run is
// looked for first, there and in the staging folders of OUT, and its text is given. One that was made
// from other sources, or by another version of weir, counts as absent; with q->resume other sources are
// ERR_INPUT. ERR_RETRY if another process is at it; what another version left in the stage's own folder
// is refused as staging_open does. On failure nothing stays open.
int artifact_open(struct artifact *a, const struct artifact_request *q, struct err *err);
// A stage that keeps parts of its answer in the folder (a->at.folder), in files of its own, while it works. *kept: they
// are there, of the same request, sources and version of weir; else the folder is empty but for lock and header. Errors
// as above; the folder goes, or stays for a resume, by artifact_end.
int artifact_open_parts(struct artifact *a, const struct artifact_request *q, bool *kept,
                        struct err *err);
// The same for a stage that leaves nothing on disk.
void artifact_open_null(struct artifact *a, const struct artifact_request *q);
// Keeps a copy of the finished text, durably where there is a folder, and its digest.
int artifact_put(struct artifact *a, struct span text, struct err *err);
// Moves it into the staging folder of the plan. artifact_end is still to be called.
int artifact_move(struct artifact *a, const struct staging *st, struct err *err);
// Closes, and removes the stage's own folder unless it is to be kept for a resume.
void artifact_end(struct artifact *a, bool keep);

#endif
