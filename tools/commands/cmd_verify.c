// weir verify: is the model that came out the same model?
//
//   weir verify SRC OUT              both whole, on the same inputs
//   weir verify SRC --edits LOG      what each group of edits changed, before and after
//   weir verify SRC OUT --edits LOG  the same, with what OUT has as the part after
//   weir verify SRC --inputs DIR     against the outputs that were saved with the inputs
#include "base/version_number.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "render/html/html_page.h"
#include "render/runs/render_verified.h"
#include "report/verified_json.h"
#include "request/cli_request.h"
#include "request/verify_options.h"
#include "verify/sites/verify_replay.h"

static int check_options(const struct cli_args *args, struct err *err) {
  static const enum cli_option whole[] = {OPT_LAYERS, OPT_SAVE_CASE, OPT_VERIFY_INPUTS};
  const bool edits = cli_given(args, OPT_EDITS), out = cli_operand(args, "OUT");
  if (!edits && !out && !cli_given(args, OPT_VERIFY_INPUTS)) {
    err_fill(err, ERR_USAGE, "nothing to compare the model with is given");
    return err_hint(err, "give the result (OUT), an edit log (--edits), or inputs with expected "
                         "outputs (--inputs)");
  }
  if (cli_given(args, OPT_SITES) && !edits)
    return err_set(err, ERR_USAGE, "--sites has no effect without --edits");
  for (size_t i = 0; edits && i < sizeof whole / sizeof *whole; i++)
    if (cli_given(args, whole[i]))
      return err_set(err, ERR_USAGE, "%s needs whole models and cannot be used with --edits",
                     cli_source(args, whole[i]).s);
  return 0;
}

// ---- reports -----------------------------------------------------------------------------------

static void write_json(const struct verify *v, const struct err *verdict, struct json_out *j) {
  report_json_begin(j);
  if (verdict->kind != ERR_NONE) report_json_put_error(j, verdict);
  verified_json(&v->found, j);
  json_end_object(j);
}

static int write_page(const struct verify *v, const struct cli_args *args,
                      const struct err *verdict, struct record_file *to, struct err *err) {
  struct run_report r = {.asked.command = "verify",
                         .version = version_number,
                         .model = path_base(cli_operand(args, "SRC")),
                         .refusal = verdict->kind == ERR_NONE ? NULL : verdict,
                         .cost.seconds = v->found.seconds,
                         .cost.peak_memory = v->found.peak_memory[0],
                         .verified = &v->found};
  const char *out = cli_operand(args, "OUT");
  r.asked.command_line = cli_given_line(args, &r.arena);
  r.told.did = out ? arena_printf(&r.arena, "compared with %s", path_base(out))
               : v->options.scope == VERIFY_SITES ? "compared with the model after its edits"
                                                  : "compared with the expected outputs";
  const int rc = record_file_page(to, html_page, &r, err);
  run_report_free(&r);
  return rc;
}

// Files of reports: opened before anything is run, so that hours are not in vain.
struct records {
  struct record_file json, page;
};

// A report is none of the files that are compared.
static int spares_inputs(const struct cli_args *args, enum cli_option report, struct err *err) {
  const char *path = cli_string(args, report), *word = cli_row(args->command, report).name;
  const char *const read[] = {cli_operand(args, "SRC"), cli_operand(args, "OUT"),
                              cli_string(args, OPT_EDITS), cli_string(args, OPT_VERIFY_INPUTS)};
  const bool links = cli_flag(args, OPT_ALLOW_LINKS);
  for (size_t i = 0; path && i < sizeof read / sizeof *read; i++)
    if (read[i] && record_file_spares(path, word, read[i], i < 2, links, err)) return -1;
  return 0;
}

static int open_records(struct records *r, const struct cli_args *args, struct arena *a,
                        struct err *err) {
  if (spares_inputs(args, OPT_REPORT_JSON, err) || spares_inputs(args, OPT_REPORT_HTML, err))
    return -1;
  const char *json = cli_string(args, OPT_REPORT_JSON), *page = cli_string(args, OPT_REPORT_HTML);
  if (json && page && strcmp(json, page) == 0)
    return err_set(err, ERR_USAGE, "--report-json and --report-html name the same file '%s'",
                   quote_path(json).s);
  if (json && record_file_reserve(&r->json, json, &report_observer, a, err)) return -1;
  return page ? record_file_reserve(&r->page, page, &report_observer, a, err) : 0;
}

static int write_records(struct records *r, const struct verify *v, const struct cli_args *args,
                         const struct err *verdict, struct err *err) {
  if (r->json.path) {
    struct json_out j = {.indent = 2};
    write_json(v, verdict, &j);
    json_newline(&j);
    const int rc = record_file_end(&r->json, span_of(j.text, j.n), err);
    json_done(&j);
    if (rc) return -1;
  }
  return r->page.path ? write_page(v, args, verdict, &r->page, err) : 0;
}

static void print_json(const struct verify *v, const struct err *verdict) {
  struct json_out j = {.indent = 2};
  write_json(v, verdict, &j);
  report_json_print(&j);
}

// What was found, in all forms that are asked for; the verdict goes first, then what failed on the way.
static int tell_all(struct records *r, const struct verify *v, const struct cli_args *args,
                    struct err *err) {
  struct err verdict = {0}, late = {0};
  const int bad = verify_judge(v, &verdict), rc = write_records(r, v, args, &verdict, &late);
  if (cli_flag(args, OPT_JSON))
    print_json(v, &verdict);
  else if (!cli_stdout_is_taken(args))
    render_verified(&v->found, cli_flag(args, OPT_QUIET));
  *err = bad ? verdict : late;
  return bad ? -1 : rc;
}

int cmd_verify(const struct cli_args *args, struct err *err) {
  struct verify_options o;
  struct verify v = {.runtime = NULL};
  struct records records = {.json = {.is_open = false}};
  struct arena arena = {0};
  const struct request_source source = {cli_operand(args, "SRC")};
  const struct request request = cli_request_reading(args, &source, &report_observer);
  const struct verify_log log = {.source = source.path,
                                 .out = cli_operand(args, "OUT"),
                                 .log = cli_string(args, OPT_EDITS),
                                 .partial = cli_flag(args, OPT_PARTIAL),
                                 .request = &request};
  int rc = check_options(args, err);
  if (rc == 0) rc = verify_options_take(&o, args, &report_observer, NULL, &arena, err);
  if (rc == 0) rc = open_records(&records, args, &arena, err);
  if (rc == 0) rc = verify_begin(&v, &o, err);
  v.imports = true;
  if (rc == 0 && o.scope == VERIFY_SITES)
    rc = verify_logged(&v, &log, err);
  else if (rc == 0)
    rc = verify_models(&v, cli_operand(args, "SRC"), cli_operand(args, "OUT"),
                       cli_flag(args, OPT_ALLOW_LINKS), err);
  if (rc == 0) rc = tell_all(&records, &v, args, err);
  record_file_drop(&records.json);
  record_file_drop(&records.page);
  verify_end(&v);
  arena_free(&arena);
  return rc;
}
