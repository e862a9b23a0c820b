// weir shrink: the pass of that name over many models, with the names of outputs and the skips of
// ONNX Shrink Ray.
//
//   IN…  ──shrink_inputs──▶ one row a model: in, out ──▶ each an execution of its own, one after the other
//
// An execution is what any writing command does with a line of one IN and --output OUT: each model gets
// its row as such a line. What one model refuses does not keep the others from being written: its
// error is said, the first error's exit code ends the command, and the last line counts what became
// of them. A signal ends it at once. Documents (--json) are lines, one a model, also for one that
// failed.
#include "cli/commands.h"
#include "cli/report.h"
#include "commands/shrink_inputs.h"
#include "platform/files.h"
#include "platform/stops.h"
#include "request/cli_request.h"
#include "request/pass_command.h"

// The command line as it would be for this model alone. The value of --output is set for as long as it
// is looked at. With --resume a model whose output is whole was finished before the interruption: an
// output has its name only when it is.
static int shrink_one(const struct cli_args *args, const struct shrink_input *row, bool *skipped,
                      struct err *err) {
  struct cli_args one = *args;
  const char *operand[1] = {row->in};
  const bool again = cli_flag(args, OPT_RESUME) && !cli_flag(args, OPT_FORCE);
  int rc;
  one.operand = operand;
  one.n_operands = 1;
  if (row->out) one.value[OPT_OUTPUT] = (struct cli_value){.given = true, .text = row->out};
  struct request request;
  struct arena arena = {0};
  cli_request(&request, &one, NULL, &report_observer, &arena);
  const bool finished = execution_finish_seal(&request, &rc, err);
  arena_free(&arena);
  if (finished) return rc;
  if (!row->out || !again || !path_exists(row->out)) return pass_command_flags(&one, err);
  report_notice("'%s' exists already: skipped", quote_str(row->out).s);
  *skipped = true;
  if (cli_flag(args, OPT_JSON)) {
    struct json_out line = {.indent = 0};
    report_json_begin(&line);
    json_put_text(&line, "skipped_because", "output_exists");
    report_json_end(&line);
  }
  return 0;
}

// What became of the models.
struct tally {
  uint32_t written, failed, skipped;
};

static void say_tally(const struct cli_args *args, const struct tally *t) {
  char line[96];
  size_t n = (size_t)snprintf(line, sizeof line, "%u %s", t->written,
                              cli_flag(args, OPT_DRY_RUN) ? "would be written" : "written");
  if (t->failed) n += (size_t)snprintf(line + n, sizeof line - n, ", %u failed", t->failed);
  if (t->skipped) snprintf(line + n, sizeof line - n, ", %u skipped", t->skipped);
  if (t->written + t->failed + t->skipped > 1 && !cli_flag(args, OPT_INFO))
    report_notice("%s", line);
}

static int each(const struct cli_args *args, const struct shrink_inputs *inputs, struct err *err) {
  struct tally tally = {.skipped = inputs->skipped};
  int first = 0;
  for (uint32_t i = 0; i < inputs->n_rows; i++) {
    const struct shrink_input *row = &inputs->rows[i];
    struct err why = {0};
    bool skipped = false;
    if (inputs->n_rows > 1 && !cli_flag(args, OPT_INFO) && !cli_flag(args, OPT_JSON) &&
        !cli_flag(args, OPT_QUIET))
      printf("%s -> %s\n", quote_str(row->in).s, quote_str(row->out ? row->out : row->in).s);
    report_about(cli_command_row(args->command)->name, row->in);
    int rc = cli_flag(args, OPT_INFO) ? shrink_info(args, row->in, &why)
                                      : shrink_one(args, row, &skipped, &why);
    tally.skipped += skipped;
    tally.failed += rc != 0;
    tally.written += rc == 0 && !skipped;
    if (rc == 0 && !cli_flag(args, OPT_INFO) && i + 1 < inputs->n_rows && *stops_watch())
      return err_set(err, ERR_RETRY, "interrupted: %u of %u models written", tally.written,
                     inputs->n_rows);
    if (rc == 0) continue;
    if ((inputs->n_rows == 1 && tally.skipped == 0) || why.kind == ERR_RETRY) {
      *err = why;
      return rc;
    }
    if (rc < 0) report_error(&why);
    if (rc < 0 && cli_flag(args, OPT_JSON)) report_json_error(&why, cli_request_indent(args));
    if (first == 0) first = rc < 0 ? (int)why.kind : rc;
  }
  say_tally(args, &tally);
  return first;
}

// Files that one line can name are written by one model only.
static int check_files(const struct cli_args *args, const struct shrink_inputs *inputs,
                       struct err *err) {
  for (enum cli_option o = 0; inputs->n_rows > 1 && o < CLI_OPTIONS; o++) {
    const struct cli_option_row *row = cli_option_row(o);
    const bool file = o == OPT_OUTPUT || (row->group == CLI_RECORDS && cli_is_path(row->kind));
    if (!file || !cli_given(args, o)) continue;
    err_fill(err, ERR_USAGE, "--%s names one file, but there are %u models", row->name,
             inputs->n_rows);
    return err_hint(err, "run weir once for each model");
  }
  return 0;
}

int cmd_shrink(const struct cli_args *args, struct err *err) {
  struct shrink_inputs inputs = {0};
  int rc = shrink_inputs_list(&inputs, args, err);
  if (rc == 0) rc = check_files(args, &inputs, err);
  if (rc == 0) rc = each(args, &inputs, err);
  shrink_inputs_free(&inputs);
  return rc;
}
