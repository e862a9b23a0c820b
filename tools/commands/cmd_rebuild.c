// weir rebuild: is this model really what its manifest says it was made from?
//
//   MODEL|MANIFEST ──(--public-key: is it the signed one?)──▶ manifest ──▶ rebuild_run ──▶ verdict
//
// The run is that of a 'weir run' whose command line is put together here, so that all it can be told is told in one way. The
// verdict is on standard output; a model that comes out different is no failure of the command, which says so itself
// and gives exit code 1.
#include "cli/commands.h"
#include "cli/report.h"
#include "rebuild/rebuild.h"
#include "rebuild/rebuild_json.h"
#include "render/results/render_rebuild.h"
#include "request/calibrate_take.h"
#include "request/cli_request.h"
#include "request/fill.h"
#include "stream/sys/scratch.h"

// ---- the command line of the run ---------------------------------------------------------------

enum { WORDS_MAX = 20 };
struct words {
  const char *word[WORDS_MAX];
  int n;
};

static void add(struct words *w, const char *word) {
  w->word[w->n++] = word;
}

static void add_option(struct words *w, const struct cli_args *args, enum cli_option option,
                       struct arena *a) {
  if (!cli_given(args, option)) return; // what the environment says, the run sees as well
  const struct cli_option_row *row = cli_option_row(option);
  add(w, arena_printf(a, "--%s", row->name));
  if (row->kind != CLI_FLAG) add(w, args->value[option].text);
}

static struct words words_of(struct rebuild *r, const struct cli_args *args, const char *out) {
  struct words w = {.n = 0};
  add(&w, "weir");
  add(&w, "run");
  add(&w, "--quiet");
  add_option(&w, args, OPT_JOBS, &r->arena);
  add_option(&w, args, OPT_MEMORY, &r->arena);
  add_option(&w, args, OPT_ALLOW_LINKS, &r->arena);
  if (r->write_to) {
    add_option(&w, args, OPT_IO, &r->arena);
    add_option(&w, args, OPT_FRESH, &r->arena);
    if (cli_flag(args, OPT_REBUILD_FORCE)) add(&w, "--force");
    if (r->m.lists_tensors) add(&w, "--tensor-digests");
    if (rebuild_has_input_digests(r)) add(&w, "--hash-inputs");
  } else {
    add(&w, "--io=null");
    add(&w, "--no-manifest");
  }
  add(&w, "--");
  add(&w, r->source);
  add(&w, out);
  return w;
}

static int run(struct rebuild *r, const struct cli_args *args, struct err *err) {
  struct scratch none = {0};
  struct cli_args inner;
  struct request request;
  const char *out = r->write_to;
  if (!out) { // a folder of its own, in which every name is free
    if (scratch_make(&none, "rebuild", &r->arena, err)) return -1;
    out = arena_printf(&r->arena, "%s/%s", none.path, r->m.subject);
  }
  const struct words w = words_of(r, args, out);
  int rc = cli_parse(&inner, w.n, (char *const *)(uintptr_t)w.word, err);
  if (rc == 0) {
    inner.argc = args->argc; // what is continued after an interruption is this command
    inner.argv = args->argv;
    rc = rebuild_prepare(r, err);
  }
  if (rc == 0) cli_request(&request, &inner, &r->pj.pipeline, &report_observer, &r->arena);
  if (rc == 0) rc = rebuild_run(r, &request, err);
  cli_free(&inner);
  scratch_end(&none);
  return rc;
}

// ---- the command -------------------------------------------------------------------------------

static int check_words(const struct cli_args *args, struct err *err) {
  if (!cli_string(args, OPT_SOURCE)) {
    err_fill(err, ERR_USAGE, "'weir rebuild' needs --source");
    return err_hint(err, "the model that the outputs were made from");
  }
  if (cli_flag(args, OPT_REBUILD_FORCE) && !cli_string(args, OPT_WRITE)) {
    err_fill(err, ERR_USAGE, "--force lets --write replace files");
    return err_hint(err, "without --write nothing is written");
  }
  if (cli_given(args, OPT_DATA) && !cli_flag(args, OPT_CALIBRATE)) {
    err_fill(err, ERR_USAGE, "--data names the samples for --calibrate");
    return err_hint(
        err, "without --calibrate, weir uses the recorded ranges, which it finds by SHA-256");
  }
  return 0;
}

static const char *given_text(const struct cli_args *args, enum cli_option option) {
  return cli_given(args, option) ? args->value[option].text : NULL;
}

static int rebuild(struct rebuild *r, const struct cli_args *args, struct err *err) {
  const char *folder = cli_string(args, OPT_WRITE);
  if (rebuild_read(r, args->operand[0], cli_string(args, OPT_PUBLIC_KEY), err)) return -1;
  FILL(args, rebuild, r);
  if (r->calibrates)
    r->again = (struct recalibrate){.run = calibrate_take_run,
                                    .library = given_text(args, OPT_ONNXRUNTIME),
                                    .jobs = given_text(args, OPT_JOBS),
                                    .memory = given_text(args, OPT_MEMORY),
                                    .allow_links = cli_flag(args, OPT_ALLOW_LINKS),
                                    .source = r->source};
  if (r->calibrates) r->again.data = cli_list(args, OPT_DATA, &r->again.n_data);
  if (folder)
    r->write_to =
        arena_printf(&r->arena, "%s%s%s", folder, str_ends(folder, "/") ? "" : "/", r->m.subject);
  return run(r, args, err) || rebuild_look(r, cli_count(args, OPT_JOBS), err) ? -1 : 0;
}

int cmd_rebuild(const struct cli_args *args, struct err *err) {
  struct rebuild r;
  rebuild_start(&r, &report_observer);
  int rc = check_words(args, err);
  if (rc == 0) rc = rebuild(&r, args, err);
  const bool different = r.n_found > 0 && err->kind == ERR_FAIL;
  if (rc == 0 || different) {
    if (cli_flag(args, OPT_JSON))
      report_json(rebuild_json, &r);
    else
      render_rebuild(&r, cli_flag(args, OPT_QUIET));
    rc = different || (rebuild_is_damaged(&r) && !r.write_to) ? ERR_FAIL : 0;
  }
  rebuild_free(&r);
  return rc;
}
