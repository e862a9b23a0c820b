// The edit log's head and its replay. Format: edit.h, and docs/edit-log.md.
#ifndef WEIR_EDIT_LOG_H
#define WEIR_EDIT_LOG_H

#include "edit.h"

enum { EDIT_LOG_VERSION = 1 };

struct edit_log_head {
  const char *command; // "conv2matmul", …: what made the edits
  const char *options; // its resolved options as one JSON object (text), or NULL
  const char *layout;  // layout options likewise
  const char *output;  // base name of the output
};

// Writes line 1: {"weir_edit_log":1,"command":…,"options":…,
//   "source":{"name":…,"meta_sha256":…,"files":[{"name":…,"size":…}]},"layout":…,"output":…}
int edit_log_begin(struct edits *e, const struct edit_log_head *head, struct err *err);

// Reads the head of a log text (its first line). The strings and JSON belong to *doc, which the
// caller frees with json_free.
struct edit_log_info {
  struct json_value *doc;
  struct span command, output, source_name, meta_sha256;
  const struct json_value *options, *layout; // objects
};
int edit_log_read_head(struct span line, struct edit_log_info *out, struct err *err);

// Replays one line (not the head) onto e. A line that does not fit the model (unknown id, another
// name, a value that has a producer already, dims that do not multiply out …) is an error of kind
// ERR_MODEL with the line number; nothing of that line is applied.
int edit_log_replay_line(struct edits *e, struct span line, uint64_t line_number, struct err *err);

// Recipes as JSON, shared with the plan file:
//   {"extent":[[file,offset,length],…],"encoding":"raw","dtype":"float","dims":[…]} …
// A log names a tensor's own elements as {"tensor":"g0/t12:w","dims":[…]} instead of extents.
#endif
