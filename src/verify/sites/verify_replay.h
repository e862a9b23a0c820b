// A model and what a recorded run made of it, side by side in memory, without an output: the log's edits replayed, all or
// those of its first groups.
#ifndef WEIR_VERIFY_REPLAY_H
#define WEIR_VERIFY_REPLAY_H

#include "execute/execution.h"
#include "pipeline/user_rules.h"
#include "verify/run/verify.h"
#include "verify/run/verify_written.h"

struct verify_replay {
  bool opened; // there is something to close
  struct request request;
  struct execution exec; // as far as sources, model and edits go
  struct model source;
  struct recipes source_recipes;
  uint32_t loaded_nodes; // of the model, before any edit
};

// groups: of edits, 0: all of them, REPLAY_LOG_NOTHING: none. partial: the end of the log is not asked for. own: gets the
// rules that the log kept of a user's own; NULL: they are known. Close it in any case.
int verify_replay_open(struct verify_replay *x, const struct request *request, const char *model,
                       const char *log, uint32_t groups, bool partial, struct user_rules *own,
                       struct err *err);
// The rows alone as the run had them after so many groups: what calls functions that come later calls nothing yet.
int verify_replay_rows(struct verify_replay *x, const struct request *request, const char *model,
                       const char *log, uint32_t groups, struct err *err);
void verify_replay_close(struct verify_replay *x);
// The sites of an edit log, of whose request the limits, allow_links and the observer count.
struct verify_log {
  const char *source, *out,
      *log;     // out: what has the parts after the edits; NULL: the edits say what they are
  bool partial; // the end of the log is not asked for
  const struct request *request;
};
int verify_logged(struct verify *v, const struct verify_log *l, struct err *err);

// The group that alone makes a site differ: the first after which the edits so far do. "group 17 (fuse/bn)" in *a, or NULL where that cannot be
// found. `groups`: of the site, ascending; e->log has their edits.
const char *verify_fault(struct verify *v, const struct verify_edited *e, const uint32_t *groups,
                         uint32_t n, struct arena *a);

// What an output has that no edit is about, compared with the source (verify_rest.c).
// Says in v->found whether all of it is as in the source, and else what is not, first. -1: bytes cannot be read.
int verify_rest(struct verify *v, struct verify_replay *x, struct verify_written *w,
                struct err *err);

#endif
