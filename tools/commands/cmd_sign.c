// weir sign: who made this model says so, in a form that the tools of OpenSSF Model Signing verify.
//
// The files are read and compared with the manifest first: damage is never signed.
#include "audit/sign_model.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "platform/stops.h"

#include <stdio.h>

static void print(const struct cli_args *args, const struct audit_target *t,
                  const struct sign_key *key, const struct sign_model *made) {
  if (cli_flag(args, OPT_JSON)) {
    struct json_out j = report_json_open(2);
    json_put_text(&j, "manifest", t->manifest);
    json_put_text(&j, "signature", t->signature);
    json_put_text(&j, "key", sign_key_id(key));
    json_put_text(&j, "curve", sign_key_curve(key));
    json_put_uint(&j, "files", made->files);
    json_put_uint(&j, "bytes", made->bytes);
    json_put_bool(&j, "was_signed", made->was_signed);
    json_put_bool(&j, "replaced", made->replaced);
    report_json_end(&j);
    return;
  }
  if (cli_flag(args, OPT_QUIET)) return;
  if (made->was_signed)
    printf("%s is signed already, with this key\n", quote_path(t->model).s);
  else
    printf("signed %s (%s file%s, %s) with the %s key %.16s...: %s%s\n", quote_path(t->model).s,
           decimal(made->files).s, plural(made->files), quote_bytes(made->bytes).s,
           sign_key_curve(key), sign_key_id(key), quote_path(t->signature).s,
           made->replaced ? ", in place of an older signature" : "");
}

int cmd_sign(const struct cli_args *args, struct err *err) {
  const char *operand = args->operand[0], *path = cli_string(args, OPT_KEY);
  struct arena arena = {0};
  struct sign_key *key = NULL;
  struct sign_model made;
  const struct audit_target t = audit_target_of(operand, &arena);
  int rc = 0;
  if (!path) {
    err_fill(err, ERR_USAGE, "'weir sign' needs --key");
    rc = err_hint(
        err,
        "a private key in PEM form: openssl ecparam -name prime256v1 -genkey -noout -out key.pem");
  }
  if (rc == 0) rc = sign_model_key(&key, path, SIGN_KEY_PRIVATE, err);
  if (rc == 0) rc = audit_target_refuse(operand, &t, "sign", err);
  const struct work_options work = {
      .jobs = cli_count(args, OPT_JOBS), .observer = &report_observer, .stop = stops_watch()};
  if (rc == 0 && sign_model(&t, key, &work, &made, err)) {
    rc = -1;
    if (err->kind == ERR_INPUT) audit_target_hint(operand, "sign", &arena, err);
  }
  if (rc == 0) print(args, &t, key, &made);
  sign_key_free(key);
  arena_free(&arena);
  return rc;
}
