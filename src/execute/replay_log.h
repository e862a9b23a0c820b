// An edit log, read and replayed onto the model it was made from.
//
// A log is a file as any other. What one line says is checked where it is applied; what all of them
// leave (a value that is used and made nowhere, because the line that made it is gone) at the end,
// and before that, whether they are all: the last line counts the edits and has the digest of all
// lines before it. Logs of version 1 have no such line.
#ifndef WEIR_REPLAY_LOG_H
#define WEIR_REPLAY_LOG_H

#include "execute/execution.h"

struct replay_log {
  FILE *file;
  const char *path;
  char *line;
  size_t cap, n;
  uint64_t number;       // of the line last read
  struct digest *before; // of the lines before that
  struct edit_log_info head;
  bool has_head;
  // Stop behind so many groups of edits; 0: all lines; REPLAY_LOG_NOTHING: no group.
  uint32_t groups;
};
#define REPLAY_LOG_NOTHING UINT32_MAX

// Opens the log ("-": standard input) and reads its head. ERR_INPUT, ERR_MODEL. Close it in any case.
int replay_log_open(struct replay_log *in, const char *path, struct err *err);
void replay_log_close(struct replay_log *in);
// ERR_INPUT if it was made from another model than the one that is loaded.
int replay_log_check_source(const struct replay_log *in, const struct execution *exec,
                            struct err *err);
// All lines behind the head onto exec->edits, and a look at the model's structure. partial: the last line
// is not asked for. The stages that the log names run again (execution_stage.h).
int replay_log_lines(struct replay_log *in, struct execution *exec, bool partial, struct err *err);

#endif
