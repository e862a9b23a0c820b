// The source is where --source-dir or the plan says, the output in the plan's folder under its final name. Sites are those of an
// edit log, which 'weir plan --edit-log' wrote: the plan has its digest. They are verified by the command line that 'weir verify'
// would have.
#include "verify_staged.h"

#include "found_file.h"
#include "report.h"
#include "verify_replay.h"

int verify_staged_begin(struct verify_staged *s, const struct cli_args *args, struct err *err) {
  struct verify_options o;
  *s = (struct verify_staged){.v = {.scratch_fd = -1}, .log = cli_string(args, OPT_EDITS)};
  if (verify_options_take(&o, args, &report_observer, NULL, &s->arena, err)) return -1;
  if (o.scope == VERIFY_NOTHING && s->log)
    return err_set(err, ERR_USAGE, "--edits has no effect without --verify");
  if (o.scope == VERIFY_NOTHING) return 0;
  if (o.scope & VERIFY_SITES && !s->log) {
    err_fill(err, ERR_USAGE, "--verify=%s needs --edits", cli_string(args, OPT_VERIFY));
    return err_hint(err, "give the log that 'weir plan --edit-log FILE' wrote, or use "
                         "--verify=model, which needs no log");
  }
  if (s->log && cli_is_stream(s->log))
    return err_set(err, ERR_USAGE, "--edits of 'weir finalize' must be a file, not standard input");
  s->wanted = true;
  return verify_begin(&s->v, &o, err);
}

void verify_staged_end(struct verify_staged *s) {
  if (s->wanted) verify_end(&s->v);
  arena_free(&s->arena);
}

int verify_staged_check(const struct verify_staged *s, const struct planned *x, struct err *err) {
  const char *of_plan = x->joined.orders.edits_sha256, *other;
  uint8_t sha256[DIGEST_BYTES];
  if (!s->wanted) return 0;
  if (x->joined.orders.null) {
    err_fill(err, ERR_USAGE, "there is nothing to verify: the plan was made with --io=null");
    return err_hint(err, "leave out --verify");
  }
  if (!s->log || !of_plan || !hex_decode(span_str(of_plan), sha256, sizeof sha256)) return 0;
  const struct found_file wanted = {s->log, FOUND_ANY_SIZE, sha256};
  if (found_file_in(&wanted, &s->log, 1, &other)) return 0;
  if (!other) return err_set(err, ERR_INPUT, "there is no edit log '%s'", quote_path(s->log).s);
  err_fill(err, ERR_INPUT, "'%s' is not the edit log of this plan (SHA-256 %.16s...)",
           quote_path(s->log).s, of_plan);
  return err_hint(err, "'weir plan --edit-log FILE' writes it");
}

// weir verify SOURCE STAGED --edits LOG
static int verify_by_log(struct verify_staged *s, const struct planned *x,
                         const struct cli_args *args, const char *source, const char *staged,
                         struct err *err) {
  const char *jobs = cli_given(args, OPT_JOBS) ? args->value[OPT_JOBS].text : NULL;
  const char *memory = cli_given(args, OPT_MEMORY) ? args->value[OPT_MEMORY].text : NULL;
  const char *words[12];
  int n = 0;
  words[n++] = "weir";
  words[n++] = "verify";
  words[n++] = "--edits";
  words[n++] = s->log;
  if (jobs) words[n++] = arena_printf(&s->arena, "--jobs=%s", jobs);
  if (memory) words[n++] = arena_printf(&s->arena, "--memory=%s", memory);
  if (x->joined.orders.allow_links) words[n++] = "--allow-links";
  words[n++] = "--";
  words[n++] = source;
  words[n++] = staged;
  struct cli_args inner;
  int rc = cli_parse(&inner, n, (char *const *)(uintptr_t)words, err);
  if (rc == 0) rc = verify_logged(&s->v, &inner, err);
  cli_free(&inner);
  return rc;
}

int verify_staged_run(struct verify_staged *s, const struct planned *x, const struct cli_args *args,
                      struct err *err) {
  const struct staging_joined *j = &x->joined;
  const char *folder = cli_string(args, OPT_SOURCE_DIR);
  if (!s->wanted) return 0;
  const char *source =
      arena_printf(&s->arena, "%s/%s", folder ? folder : j->source_folder, j->sources[0].name);
  const char *staged =
      arena_printf(&s->arena, "%s/%s/%s", j->st.dest_path, j->st.name, j->onnx_name);
  if (s->v.options.scope & VERIFY_SITES && verify_by_log(s, x, args, source, staged, err))
    return -1;
  if (s->v.options.scope & VERIFY_MODEL &&
      verify_models(&s->v, source, staged, j->orders.allow_links, err))
    return -1;
  if (verify_judge(&s->v, err) == 0) return 0;
  return err_hint(err, "nothing was put in place; the plan's folder still has all files");
}
