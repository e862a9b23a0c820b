// weir replay: the edits of a log onto the source they were made from.
//
// The head of the log says which source (by meta_sha256), which command and layout: the plan comes
// out the same as in the recorded run, and with it every byte, if OUT has the recorded base name and
// the command line says nothing else of the layout.
//
// A log is a file as any other. What one line says is checked where it is applied; what all of them
// leave (a value that is used and made nowhere, because the line that made it is gone) at the end,
// and before that, whether they are all: the last line counts the edits and has the digest of all
// lines before it. Logs of version 1 have no such line, and --partial does not ask for it.
#include "check.h"
#include "commands.h"
#include "digest.h"
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
  size_t cap, n;
  uint64_t number;       // of the line last read
  struct digest *before; // of the lines before that
};

// The next line without its break: 1, 0 at the end, -1 on failure. Memory is bounded before it is
// taken: a log may be one endless line.
static int next_line(struct log_reader *in, struct span *line, struct err *err) {
  size_t n = 0;
  int c;
  if (in->number > 0) {
    digest_add(in->before, in->line, in->n);
    digest_add(in->before, "\n", 1);
  }
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
  in->n = n;
  *line = span_of(in->line, n);
  return c != EOF || n > 0;
}

static int check_source(const struct job *job, const struct edit_log_info *head, struct err *err) {
  char have[DIGEST_HEX];
  hex_encode(job->model.meta_sha256, DIGEST_BYTES, have);
  if (span_is(head->meta_sha256, have)) return 0;
  err_set(err, ERR_INPUT, "the log was made from a model other than '%s' (meta_sha256 %s, not %s)",
          quote_str(job->in_path).s, have, quote(head->meta_sha256).s);
  return err_hint(err, "it was made from a file named '%s'", quote(head->source_name).s);
}

static void tell(struct job *job, struct job_told *told) {
  told->did = arena_printf(&job->arena, "%lu edit%s replayed", job->edits.n, plural(job->edits.n));
}

// What a line, or the head, is at fault for, with the name of the log.
static int in_log(const struct log_reader *in, const struct err *cause, struct err *err) {
  err_fill(err, cause->kind, "'%s': %.900s", quote_path(in->path).s, cause->msg);
  err_fill_hint_of(err, cause);
  return -1;
}

static int not_all(const struct log_reader *in, const char *why, struct err *err) {
  err_fill(err, ERR_MODEL, "the edit log '%s' %s", quote_path(in->path).s, why);
  return err_hint(err, "--partial replays the lines that are present");
}

static int check_end(const struct log_reader *in, const struct edits *e,
                     const struct edit_log_ending *end, struct err *err) {
  uint8_t sum[DIGEST_BYTES];
  digest_so_far(in->before, sum);
  if (e->n != end->edits || memcmp(sum, end->sha256, sizeof sum) != 0)
    return not_all(in, "was changed: its last line does not match the other lines", err);
  return 0;
}

// All lines behind the head.
static int replay_lines(struct job *job, struct log_reader *in, bool ends, struct err *err) {
  const bool partial = cli_flag(job->args, OPT_PARTIAL);
  struct edit_log_ending end;
  struct err cause = {0};
  struct span line;
  int got;
  while ((got = next_line(in, &line, err)) > 0) {
    if (ends && edit_log_read_end(line, &end)) {
      if (!partial && check_end(in, &job->edits, &end, err)) return -1;
      got = next_line(in, &line, err);
      if (got <= 0) return got;
      return not_all(in, "continues after the line that ends it", err);
    }
    if (edit_log_replay_line(&job->edits, line, in->number, &cause)) return in_log(in, &cause, err);
  }
  if (got < 0) return -1;
  return ends && !partial ? not_all(in, "is cut off: its last line is missing", err) : 0;
}

static int replay(struct job *job, struct log_reader *in, const struct edit_log_info *head,
                  struct err *err) {
  if (check_source(job, head, err) || job_layout_read(job, head->layout, err)) return -1;
  job_layout_take(job);
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
  struct err why = {0};
  if (replay_lines(job, in, head->version >= EDIT_LOG_WITH_END, err)) return -1;
  if (check_structure(&job->model, NULL, NULL, &why)) {
    err_set(err, ERR_MODEL, "the edits of '%s' leave an invalid model: %s", quote_str(in->path).s,
            why.msg);
    return err_hint(err, "was the log changed after --edit-log wrote it?");
  }
  if (job_finish(job, err)) return -1;
  // The data file is named after the .onnx, unless somebody named it.
  if (job->plan.n_outputs > 1 && !job->layout.data_name &&
      !span_is(head->output, job->out.onnx_name))
    report_notice(
        "the recorded output was named '%s': the data file has another name here, and the "
        ".onnx refers to that; all else is the same",
        quote(head->output).s);
  return 0;
}

// The head, and whether it is a log at all: the operands may be swapped.
static int read_head(struct log_reader *in, struct edit_log_info *head, struct err *err) {
  struct err cause = {0};
  struct span line;
  const int first = getc_unlocked(in->file);
  if (first != EOF) ungetc(first, in->file);
  if (first != EOF && first != '{') {
    err_fill(err, ERR_MODEL, "'%s' is not an edit log", quote_path(in->path).s);
    return err_hint(err, "%susage: weir replay EDITS IN [OUT]",
                    str_ends(in->path, ".onnx") ? "is it the model? " : "");
  }
  const int got = next_line(in, &line, err);
  if (got == 0) err_fill(err, ERR_MODEL, "the edit log '%s' is empty", quote_path(in->path).s);
  if (got <= 0) return -1;
  return edit_log_read_head(line, head, &cause) ? in_log(in, &cause, err) : 0;
}

int cmd_replay(const struct cli_args *args, struct err *err) {
  struct log_reader in = {.path = cli_operand(args, "EDITS")};
  struct edit_log_info head;
  struct job job;
  int rc;
  if (job_finish_seal(args, &rc, err)) return rc;
  in.file = cli_is_stream(in.path) ? stdin : fopen(in.path, "re");
  if (!in.file)
    return err_errno(err, errno, ERR_INPUT, "the edit log '%s' cannot be read",
                     quote_path(in.path).s);
  in.before = digest_new();
  digest_start(in.before);
  rc = read_head(&in, &head, err);
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
  digest_free(in.before);
  return rc;
}
