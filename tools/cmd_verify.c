// weir verify: is the model that came out the same model?
//
//   weir verify SRC OUT              both whole, on the same inputs
//   weir verify SRC --edits LOG      what each group of edits changed, before and after
//   weir verify SRC OUT --edits LOG  the same, with what OUT has as the part after
//   weir verify SRC --inputs DIR     against the outputs that were saved with the inputs
#include "commands.h"
#include "report.h"
#include "verify_replay.h"
#include "verify_written.h"

static int check_options(const struct cli_args *args, struct err *err) {
  const bool edits = cli_given(args, OPT_EDITS), out = cli_operand(args, "OUT");
  if (!edits && !out && !cli_given(args, OPT_INPUTS)) {
    err_fill(err, ERR_USAGE, "there is nothing to compare the model with");
    return err_hint(err, "name the result (OUT), or an edit log (--edits), or inputs with expected "
                         "outputs (--inputs)");
  }
  if (cli_given(args, OPT_SITES) && !edits)
    return err_set(err, ERR_USAGE, "--sites has no effect without --edits");
  if (edits &&
      (cli_flag(args, OPT_LAYERS) || cli_given(args, OPT_SAVE_CASE) || cli_given(args, OPT_INPUTS)))
    return err_set(err, ERR_USAGE, "%s is about whole models, not about --edits",
                   cli_flag(args, OPT_LAYERS)       ? "--layers"
                   : cli_given(args, OPT_SAVE_CASE) ? "--save-case"
                                                    : "--inputs");
  return 0;
}

static int verify_edits(struct verify *v, const struct cli_args *args, struct err *err) {
  const char *log = cli_string(args, OPT_EDITS), *model = cli_operand(args, "SRC");
  const char *out = cli_operand(args, "OUT");
  struct verify_written written = {.sources = NULL};
  struct verify_replay x;
  int rc = verify_replay_open(&x, args, model, log, 0, cli_flag(args, OPT_PARTIAL), err);
  if (rc == 0 && out)
    rc = verify_written_open(&written, out, cli_flag(args, OPT_ALLOW_LINKS), &x.job.model, err);
  if (rc == 0) {
    struct verify_edited e = verify_replay_edited(&x);
    e.written = out ? &written : NULL;
    e.model = model;
    e.log = cli_is_stream(log) ? NULL : log;
    e.args = args;
    rc = verify_sites(v, &e, err);
  }
  if (out) verify_written_close(&written);
  verify_replay_close(&x);
  return rc;
}

static void print_json(const struct verify *v, const struct err *verdict) {
  struct json_out j = {.indent = 2};
  report_json_begin(&j);
  if (verdict->kind != ERR_NONE) report_json_put_error(&j, verdict);
  verify_write(&v->found, &j);
  json_end_object(&j);
  report_json_end(&j);
}

int cmd_verify(const struct cli_args *args, struct err *err) {
  struct verify_options o;
  struct verify v = {.scratch_fd = -1};
  struct arena arena = {0};
  int rc = check_options(args, err);
  if (rc == 0) rc = verify_options_take(&o, args, NULL, &arena, err);
  if (rc == 0) rc = verify_begin(&v, &o, err);
  if (rc == 0 && o.scope == VERIFY_SITES)
    rc = verify_edits(&v, args, err);
  else if (rc == 0)
    rc = verify_models(&v, cli_operand(args, "SRC"), cli_operand(args, "OUT"),
                       cli_flag(args, OPT_ALLOW_LINKS), err);
  if (rc == 0) {
    rc = verify_judge(&v, err);
    if (cli_flag(args, OPT_JSON))
      print_json(&v, err);
    else
      verify_tell(&v, cli_flag(args, OPT_QUIET));
  }
  verify_end(&v);
  arena_free(&arena);
  return rc;
}
