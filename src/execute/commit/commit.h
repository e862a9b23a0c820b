// Room: a plan carried out (execute_plan.h), then put in place. The manifest and the list of
// tensors are written into the staging folder, and everything takes its final name (seal.h).
#ifndef WEIR_COMMIT_H
#define WEIR_COMMIT_H

#include "execute/commit/kept_report.h"
#include "stream/run/run.h"
#include "stream/seal/seal.h"
#include "stream/staging/staging.h"

struct commit {
  const struct plan *plan; // all of its units are recorded
  struct sources *sources;
  const char *onnx_name;
  struct work_options work; // for the list of tensors; mode IO_NULL: the manifest is printed only
  bool replace, manifest, tensor_digests, hash_inputs;
  const char *edits_sha256;   // of the edit log, in hex; NULL: there was none
  const char *layout_asked;   // as in its head; NULL: not known
  struct seal_refers *refers; // of the model that is replaced; NULL: it is not asked yet
  struct span report;         // for who completes the seal, should this process be killed in it; or
                              // nothing
  struct kept_page page;      // likewise
  // Where the statement goes, before anything has its name; NULL: it is not wanted.
  struct json_out *provenance;
};

// Tells the user of old data that a seal did not remove.
void commit_say_left(struct observer *o, const struct seal_report *report);

// Bytes of the files beside the outputs: manifest and companion, exactly. The plan has its id.
int commit_bytes(const struct commit *x, uint64_t *bytes, struct err *err);

// What was there already, byte for byte, and was not touched: all of the outputs, the manifest, the digests of tensors.
struct commit_unchanged {
  bool outputs, manifest, tensors;
};

// Closes the staging if it succeeds. Tells the user of old data that was left in place.
int commit_outputs(const struct commit *x, struct staging *st, struct commit_unchanged *unchanged,
                   struct err *err);

#endif
