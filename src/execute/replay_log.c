// Line by line, in memory that no line can take all of: a log may be one endless line.
#include "execute/replay_log.h"

#include "base/again.h"
#include "check/check.h"
#include "execute/execution_look.h"
#include "execute/execution_source.h"
#include "execute/execution_stage.h"
#include "json/plain_file.h"

#include <errno.h>

enum { LINE_MAX_BYTES = 64 << 20 };

// The next line without its break: 1, 0 at the end, -1 on failure. Memory is bounded before it is
// taken: a log may be one endless line.
static int next_line(struct replay_log *in, struct span *line, struct err *err) {
  size_t n = 0;
  int c;
  if (in->number > 0) {
    digest_add(in->before, in->line, in->n);
    digest_add(in->before, "\n", 1);
  }
  in->number++;
  errno = 0;
  while ((c = again_getc(in->file)) != EOF && c != '\n') {
    if (n == LINE_MAX_BYTES)
      return err_set(err, ERR_MODEL, "line %s of the edit log '%s' has more than %d bytes",
                     decimal(in->number).s, quote_str(in->path).s, LINE_MAX_BYTES);
    in->line = table_grow(in->line, &in->cap, n + 1, 1);
    in->line[n++] = (char)c;
  }
  if (c == EOF && ferror(in->file))
    return err_errno(err, errno ? errno : EIO, ERR_IO, "the edit log '%s' cannot be read",
                     quote_str(in->path).s);
  in->n = n;
  *line = span_of(in->line, n);
  return c != EOF || n > 0;
}

int replay_log_check_source(const struct replay_log *in, const struct execution *exec,
                            struct err *err) {
  const struct edit_log_info *head = &in->head;
  const struct digest_hex have = digest_hex(exec->model.meta_sha256);
  if (span_is(head->meta_sha256, have.s)) return 0;
  err_set(err, ERR_INPUT, "the log was made from a model other than '%s' (meta_sha256 %s, not %s)",
          quote_str(exec->in_path).s, have.s, quote(head->meta_sha256).s);
  return err_hint(err, "it was made from a file named '%s'", quote(head->source_name).s);
}

// What a line, or the head, is at fault for, with the name of the log.
static int in_log(const struct replay_log *in, const struct err *cause, struct err *err) {
  err_fill(err, cause->kind, "'%s': %.900s", quote_path(in->path).s, cause->msg);
  err_fill_hint_of(err, cause);
  return -1;
}

static int not_all(const struct replay_log *in, const char *why, struct err *err) {
  err_fill(err, ERR_MODEL, "the edit log '%s' %s", quote_path(in->path).s, why);
  return err_hint(err, "--partial replays the lines that are present");
}

static int check_end(const struct replay_log *in, const struct edits *e,
                     const struct edit_log_ending *end, struct err *err) {
  uint8_t sum[DIGEST_BYTES];
  digest_so_far(in->before, sum);
  if (e->n != end->edits || memcmp(sum, end->sha256, sizeof sum) != 0)
    return not_all(in, "was changed: its last line does not match the other lines", err);
  return 0;
}

// All lines behind the head.
static int replay_lines(struct replay_log *in, struct execution *exec, bool partial,
                        struct err *err) {
  const bool ends = in->head.version >= EDIT_LOG_WITH_END;
  struct edit_log_ending end;
  const uint32_t most = in->groups == REPLAY_LOG_NOTHING ? 0 : in->groups;
  struct err cause = {0};
  struct span line;
  int got;
  while ((got = next_line(in, &line, err)) > 0) {
    if (ends && edit_log_read_end(line, &end)) {
      if (!partial && check_end(in, &exec->edits, &end, err)) return -1;
      got = next_line(in, &line, err);
      if (got <= 0) return got;
      return not_all(in, "continues after the line that ends it", err);
    }
    if (edit_log_replay_line(&exec->edits, line, in->number, &cause))
      return in_log(in, &cause, err);
    if (in->groups && exec->edits.group > most) return 0;
  }
  if (got < 0) return -1;
  return ends && !partial ? not_all(in, "is cut off: its last line is missing", err) : 0;
}

// The head, and whether it is a log at all: the operands may be swapped.
static int read_head(struct replay_log *in, struct err *err) {
  struct err cause = {0};
  struct span line;
  const int first = again_getc(in->file);
  if (first != EOF) ungetc(first, in->file);
  if (first != EOF && first != '{') {
    err_fill(err, ERR_MODEL, "'%s' is not an edit log", quote_path(in->path).s);
    return err_hint(err, "%susage: weir replay EDITS IN [OUT]",
                    str_ends(in->path, ".onnx") ? "is it the model? " : "");
  }
  const int got = next_line(in, &line, err);
  if (got == 0) err_fill(err, ERR_MODEL, "the edit log '%s' is empty", quote_path(in->path).s);
  if (got <= 0) return -1;
  if (edit_log_read_head(line, &in->head, &cause)) return in_log(in, &cause, err);
  in->has_head = true;
  return 0;
}

int replay_log_lines(struct replay_log *in, struct execution *exec, bool partial, struct err *err) {
  struct err why = {0};
  exec->edits.artifact = execution_stage_replay;
  exec->edits.look = execution_look_replay;
  exec->edits.source = execution_source_replay;
  exec->edits.replay_ctx = exec;
  exec->replays = in->path;
  if (replay_lines(in, exec, partial, err)) return -1;
  if (check_structure(&exec->model, NULL, NULL, &why) == 0) return 0;
  err_set(err, ERR_MODEL, "the edits of '%s' leave an invalid model: %s", quote_str(in->path).s,
          why.msg);
  return err_hint(err, "was the log changed after --edit-log wrote it?");
}

int replay_log_open(struct replay_log *in, const char *path, struct err *err) {
  *in = (struct replay_log){.path = path};
  in->file = path_is_stream(path) ? stdin : plain_file_open(path, "the edit log ", err);
  if (!in->file) return -1;
  in->before = digest_new();
  return read_head(in, err);
}

void replay_log_close(struct replay_log *in) {
  if (in->has_head) json_free(in->head.doc);
  if (in->file && in->file != stdin) stream_close(in->file);
  table_free(in->line, in->cap, 1);
  digest_free(in->before);
  *in = (struct replay_log){0};
}
