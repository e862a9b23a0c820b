// Room: the output of a plan that several processes carried out is put in place.
//
//   PLAN ──join, alone──▶ all units recorded? ──▶ hashed again (below) ──▶ values out of range? ──▶ commit
//        │                     └─ no: ERR_RETRY, and which are missing
//        ├─ a seal that has begun ──▶ completed
//        └─ no folder any more ──▶ the output has its name: nothing is left to do
//
// Units are hashed again if asked for, where something changed an output since the last record was written, and where
// records of a unit contradict each other. Else the records are taken on trust.
// Verification: source and output are run and compared before the latter is put in place (verify_staged.h).
// Signature: the output is signed once it has its name, also where it had it before. A kill in between leaves a whole model
// without a signature, which the same call makes. Provenance: the statement is kept in the folder until the output has its
// name, so that a kill in between loses nothing.
#ifndef WEIR_FINALIZE_H
#define WEIR_FINALIZE_H

#include "audit/sign_model.h"
#include "distribute/planned.h"
#include "execute/commit/commit.h"
#include "verify/watch/verify_staged.h"

struct finalize_request {
  struct request_limits limits;
  const volatile int *stop;
  bool recheck;                 // every unit is hashed again
  const char *source_folder;    // NULL: the one that the plan names
  const char *provenance;       // the file of the statement; NULL: it is not wanted
  const struct sign_key *key;   // NULL: the output is not to be signed
  struct verify_staged *verify; // begun
};

struct finalized {
  const char *model;
  bool before, verified; // before: it was in place already
  struct commit_unchanged unchanged;
  uint32_t trusted;          // units that were not read again
  struct audit_target signs; // with a key
  struct sign_model was;
};

// Of a plan that was opened as the last one. Fills *f, on failure as far as it came.
int finalize(const struct finalize_request *r, struct planned *x, struct finalized *f,
             struct err *err);

#endif
