// Room: outputs made again from the passes that their manifest records, and compared unit by unit.
//
//   manifest ──▶ passes, layout ──▶ a run over --source ──▶ units ──▶ digests: those of the manifest?
//
// Without --write nothing is written: units are made, hashed and forgotten.
#ifndef WEIR_REBUILD_H
#define WEIR_REBUILD_H

#include "audit/audit_target.h"
#include "audit/audit_tensors.h"
#include "audit/sign_key.h"
#include "execute/passes/pass_edits.h"
#include "pipeline/user_rules.h"
#include "rebuild/recalibrate.h"
#include "stream/seal/manifest.h"

struct rebuild {
  struct arena arena;
  struct audit_target target;
  struct manifest m;
  struct sign_key *key;  // that of its signature; NULL: nobody asked
  const char *version;   // of weir, that wrote it
  const char *source;    // the model that it is made from again
  const char *files;     // --files, or NULL
  const char *artifacts; // --artifacts, or NULL
  const char *write_to;  // the .onnx, with --write; else NULL
  bool calibrates;       // --calibrate: ranges are found again, by `again`
  struct recalibrate again;
  // what comes of it
  struct pass_edits pj;
  struct user_rules own;
  bool same_plan;
  uint64_t units, different, bytes;
  uint32_t answers, taken; // of stages over the weights; of these, from `artifacts`
  uint32_t names_refused;
  struct folder dir; // the manifest's, or none
  bool beside;       // outputs are there too, and were looked at:
  struct audit_result audited;
  TABLE(struct audit_found, found);
  TABLE(const char *, reasons); // why they may differ, a sentence without a full stop each
};

// rebuild_start begins one, rebuild_free frees.
void rebuild_start(struct rebuild *r, struct observer *o);
void rebuild_free(struct rebuild *r);
// The manifest of that model, or at that path, as recorded. public_key: as of sign_model_read. ERR_MODEL: it does not say what
// wrote it.
int rebuild_read(struct rebuild *r, const char *operand, const char *public_key, struct err *err);
bool rebuild_has_input_digests(const struct rebuild *r); // the manifest records them
// The steps that r->m records, in r->pj.pipeline. ERR_MODEL: it records none that this version knows.
int rebuild_prepare(struct rebuild *r, struct err *err);
// Makes the outputs of r->m again, once prepared. request: of a run from the source to where they go (or would), which says
// how. -1 and an error where it could not be done; -1 and r->n_found > 0 where they came out different.
int rebuild_run(struct rebuild *r, const struct request *request, struct err *err);
// After such a run that found no difference. What it completed for an interrupted one must be the same: ERR_FAIL. The files
// beside the manifest, which says that they can be made again, may yet be others.
int rebuild_look(struct rebuild *r, uint32_t jobs, struct err *err);
bool rebuild_is_damaged(const struct rebuild *r); // files beside the manifest are there, and others

#endif
