// The edit log's head, its end and its replay. Format: edit.h, and docs/edit-log.md.
#ifndef WEIR_EDIT_LOG_H
#define WEIR_EDIT_LOG_H

#include "base/digest.h"
#include "edit/edit.h"

// What is written, and the oldest that is read: version 1 is the same without the last line.
enum { EDIT_LOG_VERSION = 2, EDIT_LOG_OLDEST = 1, EDIT_LOG_WITH_END = 2 };

struct edit_log_head {
  const char *command; // "conv2matmul", …: what made the edits
  const char *options; // its resolved options as one JSON object (text), or NULL
  const char *layout;  // layout options likewise
  const char *output;  // base name of the output
};

// Writes line 1: {"weir_edit_log":2,"command":…,"options":…,
//   "source":{"name":…,"meta_sha256":…,"files":[{"name":…,"size":…}]},"layout":…,"output":…}
int edit_log_begin(struct edits *e, const struct edit_log_head *head, struct err *err);

// Writes the last line: {"edit":"end","edits":…,"sha256":…}. sha256 is that of all lines before it.
void edit_log_end(struct edits *e, const uint8_t sha256[DIGEST_BYTES]);

// Is it a last line, and what does it say? A line that begins like one and says something else is
// not (edit_log_replay_line refuses it).
struct edit_log_ending {
  uint64_t edits;
  uint8_t sha256[DIGEST_BYTES];
};
bool edit_log_read_end(struct span line, struct edit_log_ending *out);

// Reads the head of a log text (its first line). The strings and JSON belong to *doc, which the
// caller frees with json_free.
struct edit_log_info {
  struct json_value *doc;
  uint64_t version;
  struct span command, output, source_name, meta_sha256;
  const struct json_value *options, *layout; // objects
};
int edit_log_read_head(struct span line, struct edit_log_info *out, struct err *err);

// Replays one line (neither the head nor the last) onto e. A line that does not fit the model (unknown id, another
// name, a value that has a producer already, dims that do not multiply out …) is an error of kind
// ERR_MODEL with the line number; nothing of that line is applied.
int edit_log_replay_line(struct edits *e, struct span line, uint64_t line_number, struct err *err);

// Recipes as JSON, shared with the plan file:
//   {"extent":[[file,offset,length],…],"encoding":"raw","dtype":"float","dims":[…]} …
// A log names a tensor's own elements as {"tensor":"g0/t12:w","dims":[…]} instead of extents.
#endif
