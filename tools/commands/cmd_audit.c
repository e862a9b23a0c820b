// weir audit: are the files still what was written (audit.h)?
//
// The verdict is on standard output; a damaged model is not a failure of the audit, so the command
// reports it and gives exit code 1 itself.
#include "cli/commands.h"
#include "cli/report.h"
#include "audit/audit_json.h"
#include "render/results/render_audit.h"
#include "request/fill.h"

int cmd_audit(const struct cli_args *args, struct err *err) {
  struct audit_request request = {.operand = args->operand[0], .observer = &report_observer};
  struct audit a;
  FILL(args, audit_request, &request);
  int rc = audit_run(&a, &request, err);
  if (rc == 0) {
    if (cli_flag(args, OPT_JSON))
      report_json(audit_json, &a);
    else
      render_audit(&a, request.operand);
    if (!audit_is_whole(&a)) rc = ERR_FAIL;
  }
  audit_done(&a);
  return rc;
}
