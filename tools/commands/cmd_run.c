// weir run: any passes in one go, named on the command line or in a pipeline file.
//
//   --pass … or --config FILE ──▶ steps ──▶ one model, one plan, one read, one write
//   --rules FILE ──▶ passes beside those of the catalogue; all of them, where nothing else is named
//
// Each pass sees what those before it made. The steps are checked, each alone and all together,
// before the model is opened.
#include "cli/commands.h"
#include "cli/report.h"
#include "pipeline/config/pipeline_yaml.h"
#include "render/runs/render_passes.h"
#include "request/pass_command.h"

// All passes of a user's own, in the order of their files.
static int add_own(struct pipeline *p, const struct user_rules *own, const char *file,
                   struct err *err) {
  const struct pass *const *list = own->passes.list;
  for (uint32_t i = 0; list[i]; i++)
    if (pipeline_add_text(p, list[i]->name, err)) return -1;
  return list[0] ? 0 : err_set(err, ERR_USAGE, "there is no rule in '%s'", quote_path(file).s);
}

int cmd_run(const struct cli_args *args, struct err *err) {
  const char *path = cli_string(args, OPT_CONFIG);
  uint32_t n, n_rules;
  const char *const *texts = cli_list(args, OPT_PASS, &n);
  const char *const *rules = cli_list(args, OPT_RULES, &n_rules);
  struct user_rules own = {.n_texts = 0};
  struct pass_edits pj;
  int rc = 0;
  pass_edits_init(&pj, &report_observer, &render_passes);
  rc = user_rules_read(&own, rules, n_rules, err);
  pj.pipeline.own = &own;
  for (uint32_t i = 0; i < n_rules; i++)
    *TABLE_PUSH(&pj.pipeline.read, list) = rules[i];
  if (rc == 0) rc = pass_command_take_inputs(&pj, args, err);
  const char *target = cli_string(args, OPT_TARGET);
  if (target && rc == 0)
    rc = pipeline_take_target(&pj.pipeline, targets_find(span_str(target)), err);
  if (path && rc == 0) rc = pipeline_read(&pj.pipeline, path, err);
  for (uint32_t i = 0; i < n && rc == 0; i++)
    rc = pipeline_add_text(&pj.pipeline, texts[i], err);
  if (n_rules > 0 && !path && n == 0 && rc == 0) rc = add_own(&pj.pipeline, &own, rules[0], err);
  if (rc == 0)
    rc = pipeline_settle(&pj.pipeline, cli_given(args, OPT_INPUTS_ARE_CONSTANT),
                         cli_flag(args, OPT_REPEAT), err);
  if (rc == 0 && pj.pipeline.n_steps == cli_given(args, OPT_INPUTS_ARE_CONSTANT)) {
    const char *nothing = pj.pipeline.nothing;
    if (nothing)
      err_fill(err, ERR_USAGE, "%s", nothing);
    else
      err_fill(err, ERR_USAGE, "'weir %s' needs --pass, --config or --rules",
               cli_command_row(args->command)->name);
    rc = err_hint(err, nothing ? "--pass names them too; 'weir passes' lists the passes"
                               : "'weir passes' lists the passes");
  }
  for (uint32_t i = 0; i < pj.pipeline.n_notes && rc == 0; i++) {
    report_warning("%s", pj.pipeline.notes[i].sentence);
    if (pj.pipeline.notes[i].hint) report_hint("%s", pj.pipeline.notes[i].hint);
  }
  if (rc == 0) rc = pass_command_run(&pj, args, err);
  pass_edits_free(&pj);
  user_rules_done(&own);
  return rc;
}
