// weir diff MODEL OTHER: what is different in two models.
//
// The steps are straight: load both, find twins, look at the weights, compare, tell. The exit code is
// that of diff(1): 0 where nothing is different, 1 where something is; errors have the codes that
// they have everywhere.
#include "cli/commands.h"
#include "cli/report.h"
#include "compare/diff_json.h"
#include "platform/machine.h"
#include "platform/terminal.h"
#include "render/models/render_diff.h"
#include "request/cli_request.h"
#include "request/fill.h"

static enum diffing_weights weights_of(const struct cli_args *args) {
  const char *word = cli_string(args, OPT_WEIGHTS);
  return word[0] == 'n' ? WEIGHTS_NONE : word[0] == 'v' ? WEIGHTS_VALUES : WEIGHTS_DIGEST;
}

static bool in_markdown(const struct cli_args *args) {
  return cli_string(args, OPT_DIFF_FORMAT)[0] == 'm';
}

static bool in_colour(const struct cli_args *args) {
  if (cli_flag(args, OPT_COLOR)) return true;
  return !cli_flag(args, OPT_NO_COLOR) && terminal_is(TERMINAL_OUTPUT) && !terminal_is_plain();
}

static int check_memory(const struct diffing *x, const struct cli_args *args, struct err *err) {
  const uint64_t given = x->work.memory;
  if (x->weights == WEIGHTS_NONE || !given || given >= contrast_least_memory()) return 0;
  err_set(err, ERR_USAGE, "%s %s is not enough: two models need %s", cli_source(args, OPT_MEMORY).s,
          quote_bytes(given).s, quote_bytes(contrast_least_memory()).s);
  return err_hint(err, "the default is 48MiB");
}

int cmd_diff(const struct cli_args *args, struct err *err) {
  const struct request_limits limits = cli_request_limits(args);
  struct diffing x = {
      .side = {{.path = cli_operand(args, "MODEL")}, {.path = cli_operand(args, "OTHER")}},
      .weights = weights_of(args),
      .work = {.jobs = limits.jobs,
               .memory = limits.memory,
               .mode = limits.io,
               .observer = &report_observer},
      .io_name = limits.io_name,
      .began = machine_clock()};
  FILL(args, diffing, &x);
  int rc = check_memory(&x, args, err);
  if (rc == 0) rc = diffing_load(&x, err);
  if (rc == 0) {
    diff_match(&x.d);
    rc = match_tensors(&x, err);
  }
  if (rc == 0) rc = diff_compare(&x.d, err);
  if (rc == 0) {
    if (cli_flag(args, OPT_JSON))
      report_json(diff_json, &x);
    else if (in_markdown(args) && !cli_flag(args, OPT_QUIET))
      render_diff_markdown(&x);
    else if (!cli_flag(args, OPT_QUIET))
      render_diff_text(&x, (struct render_diff_look){.all = cli_flag(args, OPT_ALL_DIFFERENCES),
                                                     .colour = in_colour(args)});
    rc = diff_summary_equal(&x) ? 0 : ERR_FAIL;
  }
  diffing_done(&x);
  return rc;
}
