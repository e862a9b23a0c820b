// weir clean DIR: what interrupted runs left (leftovers.h).
//
// Without --yes nothing is removed but what can always go. What cannot be removed is said, and does not keep the rest: the first
// one's code ends the command. List and summary are the result, on standard output; with --json the document alone is.
#include "cli/commands.h"
#include "cli/report.h"
#include "render/results/render_leftovers.h"
#include "stream/seal/leftovers_json.h"

int cmd_clean(const struct cli_args *args, struct err *err) {
  const char *dir = cli_operand(args, "DIR");
  const bool yes = cli_flag(args, OPT_YES);
  struct leftovers c;
  int rc = leftovers_list(&c, dir, err);
  if (rc == 0) {
    const struct err *failed = leftovers_remove(&c, dir, yes);
    for (size_t i = 0; i < c.n_rows; i++)
      if (c.rows[i].failed) report_error(c.rows[i].failed);
    if (cli_flag(args, OPT_JSON))
      report_json(leftovers_json, &c, dir);
    else
      render_leftovers(&c, dir, yes, cli_flag(args, OPT_QUIET));
    if (failed) rc = (int)failed->kind;
  }
  leftovers_done(&c);
  return rc;
}
