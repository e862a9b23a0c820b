// weir finalize: members of a plan made its units, and the output is put in place (finalize.h).
#include "cli/commands.h"
#include "cli/report.h"
#include "distribute/finalize/finalize.h"
#include "platform/stops.h"
#include "render/runs/render_verified.h"
#include "report/verified_json.h"
#include "request/cli_request.h"
#include "request/fill.h"
#include "request/verify_options.h"

#include <stdio.h>

static void print(const struct cli_args *args, const struct planned *x, const struct sign_key *key,
                  const struct verified *found, const struct finalized *f) {
  const char *model = f->model;
  const bool before = f->before, unchanged = f->unchanged.outputs;
  if (cli_flag(args, OPT_JSON)) {
    struct json_out j = report_json_open(2);
    json_put_text(&j, "plan", cli_operand(args, "PLAN"));
    json_put_text(&j, "output", model);
    json_put_bool(&j, "was_in_place", before);
    json_put_bool(&j, "unchanged", unchanged);
    json_put_uint(&j, "units_not_read", f->trusted);
    json_put_text(&j, "signature", key ? f->signs.signature : NULL);
    if (f->verified) verified_json(found, &j);
    report_json_end(&j);
  } else if (!cli_flag(args, OPT_QUIET) && !cli_stdout_is_taken(args)) {
    if (f->verified) render_verified(found, false);
    if (before)
      printf("%s was in place already\n", quote_path(model).s);
    else if (x->joined.orders.null)
      printf("nothing was written: the plan was made with --io=null\n");
    else
      printf("%s %s (%s in %u unit%s)\n",
             unchanged ? "unchanged, since it has the same bytes already:" : "wrote",
             quote_path(model).s, quote_bytes(x->total).s, x->units, plural(x->units));
    if (f->trusted > 0)
      printf("%u unit%s %s not read again (--recheck)\n", f->trusted, plural(f->trusted),
             f->trusted == 1 ? "was" : "were");
    if (key)
      printf("%s: %s (%s key %.16s...)\n", f->was.was_signed ? "signed already" : "signed",
             quote_path(f->signs.signature).s, sign_key_curve(key), sign_key_id(key));
  }
}

int cmd_finalize(const struct cli_args *args, struct err *err) {
  const char *key_file = cli_string(args, OPT_SIGN_KEY);
  const bool json = cli_flag(args, OPT_JSON);
  struct verify_options options;
  struct verify_staged verify = {0};
  struct sign_key *key = NULL;
  struct planned x;
  struct finalized f;
  struct arena arena = {0};
  const volatile int *stop = stops_watch();
  if (key_file && sign_model_key(&key, key_file, SIGN_KEY_PRIVATE, err)) return -1;
  if (verify_options_take(&options, args, &report_observer, NULL, &arena, err) ||
      verify_staged_begin(&verify, &options, cli_string(args, OPT_EDITS), err)) {
    arena_free(&arena);
    verify_staged_end(&verify);
    sign_key_free(key);
    return -1;
  }
  struct finalize_request r = {
      .limits = cli_request_limits(args), .stop = stop, .key = key, .verify = &verify};
  FILL(args, finalize_request, &r);
  const struct verified *found = &verify.v.found;
  int rc = planned_open(&x, cli_operand(args, "PLAN"), STAGING_AS_LAST, &report_observer, err);
  if (rc == 0) {
    rc = finalize(&r, &x, &f, err);
    if (rc && !f.verified && found->n_rows > 0 && !json) // what failed, and what did not
      render_verified(found, cli_flag(args, OPT_QUIET));
  }
  if (rc == 0) print(args, &x, key, found, &f);
  if (rc == 0 && verify.wanted && !f.verified)
    report_notice(
        "nothing was verified: the output was %s; 'weir verify' compares it with its source",
        f.before ? "in place already" : "being moved into place already");
  verify_staged_end(&verify);
  arena_free(&arena);
  planned_close(&x);
  sign_key_free(key);
  return rc;
}
