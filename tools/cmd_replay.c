// weir replay: the edits of a log onto the source they were made from.
//
// The head of the log says which source (by meta_sha256), which command and layout: the plan comes
// out the same as in the recorded run, and with it every byte, if OUT has the recorded base name.
//
// A log is a file as any other. What one line says is checked where it is applied; what all of them
// leave (a value that is used and made nowhere, because the line that made it is gone) at the end.
#include "check.h"
#include "commands.h"
#include "job.h"
#include "job_look.h"
#include "job_stage.h"
#include "report.h"

#include <errno.h>

enum { LINE_MAX_BYTES = 64 << 20 };

struct log_reader {
  FILE *file;
  const char *path;
  char *line;
  size_t cap;
  uint64_t number; // of the line last read
};

// The next line without its break: 1, 0 at the end, -1 on failure. Memory is bounded before it is
// taken: a log may be one endless line.
static int next_line(struct log_reader *in, struct span *line, struct err *err) {
  size_t n = 0;
  int c;
  in->number++;
  errno = 0;
  while ((c = getc_unlocked(in->file)) != EOF && c != '\n') {
    if (n == LINE_MAX_BYTES)
      return err_set(err, ERR_MODEL, "line %lu of the edit log '%s' has more than %d bytes",
                     in->number, quote_str(in->path).s, LINE_MAX_BYTES);
    in->line = table_grow(in->line, &in->cap, n + 1, 1);
    in->line[n++] = (char)c;
  }
  if (c == EOF && ferror(in->file))
    return err_errno(err, errno ? errno : EIO, ERR_IO, "the edit log '%s' cannot be read",
                     quote_str(in->path).s);
  *line = span_of(in->line, n);
  return c != EOF || n > 0;
}

static int check_source(const struct job *job, const struct edit_log_info *head, struct err *err) {
  char have[DIGEST_HEX];
  hex_encode(job->model.meta_sha256, DIGEST_BYTES, have);
  if (span_is(head->meta_sha256, have)) return 0;
  err_set(err, ERR_INPUT, "the log was made from another model than '%s' (meta_sha256 %s, not %s)",
          quote_str(job->in_path).s, have, quote(head->meta_sha256).s);
  return err_hint(err, "it was made from a file named '%s'", quote(head->source_name).s);
}

static int read_layout(struct job *job, const struct json_value *v, struct err *err) {
  struct span form, name;
  uint64_t align = 0, below = 0;
  bool ok = json_as_string(json_get(v, "form"), &form) &&
            json_as_uint(json_get(v, "align"), &align) &&
            json_as_uint(json_get(v, "inline_below"), &below);
  if (!ok || (align & (align - 1))) {
    err_set(err, ERR_MODEL, "the head of the edit log (line 1) holds no layout");
    return err_hint(err,
                    "the first line must be as --edit-log wrote it: form, align, inline_below");
  }
  job->layout.align = align;
  job->layout.inline_below = below;
  job->layout.form = span_is(form, "external") ? PLAN_DATA_EXTERNAL
                     : span_is(form, "inline") ? PLAN_DATA_INLINE
                                               : PLAN_DATA_DEFAULT;
  if (!json_as_string(json_get(v, "data_file"), &name)) return 0;
  if (name.n == 0 || name.n > 255 || memchr(name.at, '/', name.n) || memchr(name.at, 0, name.n))
    return err_set(err, ERR_MODEL, "the head of the edit log names an impossible data file");
  job->layout.data_name = arena_string(&job->arena, name);
  return 0;
}

static void tell(struct job *job, struct job_told *told) {
  told->did = arena_printf(&job->arena, "%lu edit%s replayed", job->edits.n, plural(job->edits.n));
}

static int replay(struct job *job, struct log_reader *in, const struct edit_log_info *head,
                  struct err *err) {
  if (check_source(job, head, err) || read_layout(job, head->layout, err)) return -1;
  struct json_out options = {0};
  json_copy(&options, head->options);
  if (job_begin_edits(job, arena_string(&job->arena, head->command),
                      json_take(&options, &job->arena), err))
    return -1;
  job->tell = tell;
  job->edits.artifact = job_stage_replay;
  job->edits.artifact_ctx = job;
  job->edits.look = job_look_replay;
  job->edits.look_ctx = job;
  struct span line;
  int got;
  while ((got = next_line(in, &line, err)) > 0)
    if (edit_log_replay_line(&job->edits, line, in->number, err)) return -1;
  if (got < 0) return -1;
  struct err why = {0};
  if (check_structure(&job->model, NULL, NULL, &why)) {
    err_set(err, ERR_MODEL, "the edits of '%s' leave a model that is not whole: %s",
            quote_str(in->path).s, why.msg);
    return err_hint(err, "is the log as --edit-log wrote it?");
  }
  if (!span_is(head->output, job->out.onnx_name))
    report_notice(
        "the recorded output was named '%s': under another name a data file is named differently, "
        "and so is its place in the .onnx; all else is the same",
        quote(head->output).s);
  return job_finish(job, err);
}

int cmd_replay(const struct cli_args *args, struct err *err) {
  struct log_reader in = {.path = cli_operand(args, "EDITS")};
  struct edit_log_info head;
  struct span line;
  struct job job;
  int rc;
  if (job_finish_seal(args, &rc, err)) return rc;
  in.file = cli_is_stream(in.path) ? stdin : fopen(in.path, "re");
  if (!in.file)
    return err_errno(err, errno, ERR_INPUT, "the edit log '%s' cannot be read",
                     quote_str(in.path).s);
  rc = next_line(&in, &line, err);
  if (rc == 0) rc = err_set(err, ERR_MODEL, "the edit log '%s' is empty", quote_str(in.path).s);
  if (rc > 0) rc = edit_log_read_head(line, &head, err);
  if (rc == 0) {
    rc = job_open(&job, args, err);
    if (rc == 0) {
      rc = replay(&job, &in, &head, err);
      job_close(&job);
    }
    json_free(head.doc);
  }
  if (in.file != stdin) fclose(in.file);
  table_free(in.line, in.cap, 1);
  return rc;
}
