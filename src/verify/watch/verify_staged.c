// The source is where --source-dir or the plan says, the output in the plan's folder under its final name. Sites are those of an
// edit log, which 'weir plan --edit-log' wrote: the plan has its digest.
#include "verify/watch/verify_staged.h"

#include "stream/sys/file_lookup.h"
#include "verify/sites/verify_replay.h"

int verify_staged_begin(struct verify_staged *s, const struct verify_options *o, const char *log,
                        struct err *err) {
  *s = (struct verify_staged){.log = log};
  if (o->scope == VERIFY_NOTHING && s->log)
    return err_set(err, ERR_USAGE, "--edits has no effect without --verify");
  if (o->scope == VERIFY_NOTHING) return 0;
  if (o->scope & VERIFY_SITES && !s->log) {
    err_fill(err, ERR_USAGE, "--verify=%s needs --edits",
             o->scope & VERIFY_MODEL ? "all" : "sites");
    return err_hint(err, "give the log that 'weir plan --edit-log FILE' wrote, or use "
                         "--verify=model, which needs no log");
  }
  if (s->log && path_is_stream(s->log))
    return err_set(err, ERR_USAGE, "--edits of 'weir finalize' must be a file, not standard input");
  s->wanted = true;
  return verify_begin(&s->v, o, err);
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
  const struct file_lookup wanted = {s->log, FILE_LOOKUP_ANY_SIZE, sha256};
  if (file_lookup_in(&wanted, &s->log, 1, &other)) return 0;
  if (!other) return err_set(err, ERR_INPUT, "there is no edit log '%s'", quote_path(s->log).s);
  err_fill(err, ERR_INPUT, "'%s' is not the edit log of this plan (SHA-256 %.16s...)",
           quote_path(s->log).s, of_plan);
  return err_hint(err, "'weir plan --edit-log FILE' writes it");
}

// As 'weir verify SOURCE STAGED --edits LOG' does.
static int verify_by_log(struct verify_staged *s, const struct planned *x,
                         const struct request_limits *limits, const char *source,
                         const char *staged, struct err *err) {
  const struct request request = {.observer = s->v.options.observer,
                                  .allow_links = x->joined.orders.allow_links,
                                  .limits = *limits};
  const struct verify_log log = {
      .source = source, .out = staged, .log = s->log, .request = &request};
  return verify_logged(&s->v, &log, err);
}

int verify_staged_run(struct verify_staged *s, const struct planned *x,
                      const struct request_limits *limits, const char *source_folder,
                      struct err *err) {
  const struct staging_joined *j = &x->joined;
  if (!s->wanted) return 0;
  const char *source = arena_printf(
      &s->arena, "%s/%s", source_folder ? source_folder : j->source_folder, j->sources[0].name);
  const char *staged =
      arena_printf(&s->arena, "%s/%s/%s", j->st.dest_path, j->st.name, j->onnx_name);
  if (s->v.options.scope & VERIFY_SITES && verify_by_log(s, x, limits, source, staged, err))
    return -1;
  if (s->v.options.scope & VERIFY_MODEL &&
      verify_models(&s->v, source, staged, j->orders.allow_links, err))
    return -1;
  if (verify_judge(&s->v, err) == 0) return 0;
  return err_hint(err, "nothing was put in place; the plan's folder still has all files");
}
