// Are the files of a written model still what was written?
//
//   OUT.onnx | OUT.onnx.manifest.json
//        │ an unfinished seal next to it? ──▶ ERR_RETRY before anything is read: no file is complete yet
//        ▼
//   OUT.onnx.sig (with a public key): by this key, and of this manifest?
//        ▼
//   manifest_audit: every unit hashed again, damage noted
//        ▼
//   the .onnx is whole: are all files that it refers to in the manifest? (audit_files.c)
//        ▼
//   which tensors are stored in the damaged ranges? (audit_tensors.c)
//        │ not known ──▶ which units of the file are undamaged
#ifndef WEIR_AUDIT_H
#define WEIR_AUDIT_H

#include "audit/audit_files.h"
#include "audit/audit_target.h"
#include "audit/audit_tensors.h"
#include "audit/sign_key.h"

struct audit_request {
  const char *operand;    // the model, or its manifest
  const char *public_key; // a file; NULL: signatures are not asked for
  uint32_t jobs;
  struct observer *observer;
};

// A damaged file whose tensors are not known.
struct audit_left {
  const char *file;
  uint64_t units, whole;
  struct audit_place first, last; // of the whole ones, if there are any
};

struct audit {
  struct arena arena;
  struct audit_target target;
  struct audit_result result;
  TABLE(struct audit_found, found); // sorted by place
  struct audit_left *left;          // a file each, in the order of the rows
  size_t n_left;
  struct sign_key *key; // that of the signature; NULL: it is not asked for
  struct folder dir;    // of the model
  struct manifest m;
  struct audit_files files;
  bool lacks_digests; // the digests per tensor, which the manifest lists, are not there
};

// A damaged model is no failure of the audit. audit_done in any case.
int audit_run(struct audit *a, const struct audit_request *r, struct err *err);
void audit_done(struct audit *a);
bool audit_is_whole(const struct audit *a);

#endif
