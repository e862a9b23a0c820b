// How a model came about, as a statement of SLSA (https://slsa.dev/provenance/v1): what it was made from, by which passes with
// which options, by which weir. docs/reproducible.md has its members.
#ifndef WEIR_PROVENANCE_H
#define WEIR_PROVENANCE_H

#include "json/json.h"
#include "plan/plan.h"

struct provenance_input {
  const struct plan *plan;
  const char *const *source_sha256; // hex, of each source
  const char *const *output_sha256; // hex, of each output as a whole
  const char *edits_sha256;         // hex, or NULL
  const char *manifest;             // its name; NULL: there is none
  const char *manifest_sha256;      // hex
  const char *tensors;              // likewise, of the digests per tensor
  const char *tensors_sha256;
  const char *weir_version;
};

// ERR_USAGE if SOURCE_DATE_EPOCH is set, and is no number of seconds. To be asked before anything is run.
int provenance_check_time(struct err *err);
void provenance_write(struct json_out *out, const struct provenance_input *in);

#endif
