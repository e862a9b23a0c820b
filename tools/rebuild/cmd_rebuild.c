// weir rebuild: is this model really what its manifest says it was made from?
//
//   MODEL|MANIFEST ──(--public-key: is it the signed one?)──▶ manifest ──▶ rebuild_run ──▶ verdict
//
// The run is that of a 'weir run' whose command line is put together here, so that all it can be told is told in one way. The
// verdict is on standard output; a model that comes out different is no failure of the command, which says so itself
// and gives exit code 1.
#include "audit_target.h"
#include "again.h"
#include "calibrate_job.h"
#include "calibrate_take.h"
#include "cli_request.h"
#include "commands.h"
#include "rebuild.h"
#include "render_audit.h"
#include "report.h"
#include "scratch.h"
#include "sign_model.h"
#include "stop.h"
#include "version_number.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- the manifest ------------------------------------------------------------------------------

static int read_manifest(struct rebuild *r, const struct cli_args *args,
                         const struct audit_target *t, struct sign_key **key, struct err *err) {
  struct span version;
  const struct sign_model_reader who = {cli_string(args, OPT_PUBLIC_KEY), args->operand[0],
                                        "rebuild"};
  if (sign_model_read(&r->m, &r->dir, &who, t, key, err)) return -1;
  if (!json_as_string(json_get(r->m.x_weir, "weir"), &version))
    return err_set(err, ERR_MODEL, "the manifest '%s' does not say what made its model",
                   quote_path(t->manifest).s);
  r->shown = t->manifest;
  r->version = arena_string(&r->arena, span_str(quote(version).s));
  return 0;
}

static bool has_input_digests(const struct rebuild *r) {
  const struct json_value *files = json_get(json_get(r->m.x_weir, "source"), "files");
  struct span hex;
  return json_as_string(json_get(json_first(files), "sha256"), &hex);
}

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
    if (has_input_digests(r)) add(&w, "--hash-inputs");
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
  struct scratch none = {NULL, -1};
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
  if (rc == 0)
    rc = cli_request(&request, &inner, &r->pj.pipeline, &report_observer, &r->arena, err);
  if (rc == 0) rc = rebuild_run(r, &request, err);
  cli_free(&inner);
  scratch_end(&none);
  if (rc &&
      err->reason == REASON_SEAL_BEGUN) { // another command's, which this one does not complete
    err->reason = REASON_NONE;
    err_fill_hint(err, "run that command again to complete it ('weir clean' shows it), or --write "
                       "to another folder");
  }
  return rc;
}

// What the run found, where it completed what an interrupted one had left: whose it was, its manifest says.
static int check_completed(struct rebuild *r, struct err *err) {
  struct manifest m;
  char name[256];
  if (r->units > 0 || !r->write_to) return 0;
  const char *folder = arena_folder(&r->arena, r->write_to), *model = path_base(r->write_to);
  const int dir = again_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  manifest_name(name, model);
  const char *shown = arena_printf(&r->arena, "%s/%s", folder, name);
  if (dir < 0 || manifest_read(&m, &(struct manifest_at){dir, name, shown, model, NULL}, err)) {
    if (dir >= 0) close(dir);
    return -1;
  }
  close(dir);
  bool same = m.n_shards == r->m.n_shards;
  for (uint32_t i = 0; same && i < m.n_shards; i++) {
    const struct manifest_shard *a = &m.shards[i], *b = &r->m.shards[i];
    same = strcmp(m.files[a->file], r->m.files[b->file]) == 0 && a->off == b->off &&
           a->len == b->len && memcmp(a->digest, b->digest, DIGEST_BYTES) == 0;
    r->bytes += a->len;
  }
  manifest_free(&m);
  if (same) return 0;
  err_fill(err, ERR_FAIL,
           "'%s', left by an interrupted run, was completed, but it is another model",
           quote_path(r->write_to).s);
  return err_hint(err, "--write to another folder");
}

// ---- the files beside the manifest --------------------------------------------------------------

static bool any_there(const struct rebuild *r) {
  for (uint32_t i = 0; i < r->m.n_files; i++)
    if (faccessat(r->dir, r->m.files[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0) return true;
  return false;
}

// What the manifest says can be made again, and yet not be what is there.
static int look_beside(struct rebuild *r, const struct cli_args *args, struct err *err) {
  const struct audit_options options = {.shown = r->shown,
                                        .jobs = cli_count(args, OPT_JOBS),
                                        .stop = stop_watch(),
                                        .tick = observer_tick_bytes,
                                        .ctx = &report_observer};
  if (!any_there(r)) return 0;
  r->beside = true;
  observer_begin(&report_observer, "checking");
  const int rc = manifest_audit(&r->m, r->dir, &options, &r->audited, err);
  observer_end(&report_observer);
  if (rc == 0 || err->kind != ERR_PERMISSION) return rc;
  // A link out of the folder is none of the files that the manifest is about: the verdict on what it says stands.
  report_notice("%s", err->msg);
  *err = (struct err){0};
  r->audited.damaged = r->audited.shards = r->m.n_shards;
  return 0;
}

static bool is_damaged(const struct rebuild *r) {
  return r->beside && r->audited.damaged > 0;
}

static void print_beside(const struct rebuild *r, const struct audit_target *t, bool quiet) {
  if (is_damaged(r)) {
    printf("%s: DAMAGED: %lu of %lu unit%s of the files next to the manifest %s not match it\n",
           quote_str(t->model).s, r->audited.damaged, r->audited.shards, plural(r->audited.shards),
           r->audited.damaged == 1 ? "does" : "do");
    report_hint(r->write_to ? "'weir audit' lists the damage"
                            : "--write DIR makes them again; 'weir audit' lists the damage");
  } else if (!quiet) {
    printf(r->beside ? "    the files next to the manifest have the same bytes\n"
                     : "    the files are not next to the manifest and were not checked\n");
  }
}

// ---- the verdict --------------------------------------------------------------------------------

static void print_text(const struct rebuild *r, const struct audit_target *t,
                       const struct sign_key *key, bool quiet) {
  if (key && !quiet)
    printf("%s: signed with the %s key %.16s...\n", quote_str(t->signature).s, sign_key_curve(key),
           sign_key_id(key));
  for (size_t i = 0; i < r->n_found; i++)
    render_audit_found(&r->found[i]);
  for (size_t i = 0; i < r->n_reasons; i++)
    printf("    note: %s\n", r->reasons[i]);
  if (r->n_found > 0 && r->different > 0)
    printf("%s: DIFFERENT: %lu of %lu unit%s\n", quote_str(t->model).s, r->different, r->units,
           plural(r->units));
  else if (r->n_found > 0)
    printf("%s: DIFFERENT: the run would write other files; nothing was written\n",
           quote_str(t->model).s);
  else
    printf("%s: SAME: %u file%s (%s) made again from %s, every byte as in the manifest\n",
           quote_str(t->model).s, r->m.n_files, plural(r->m.n_files), quote_bytes(r->bytes).s,
           quote_path(r->source).s);
  if (r->n_found == 0) print_beside(r, t, quiet);
  if (r->artifacts && !quiet)
    printf("    %u of %u artifact%s taken from %s%s\n", r->taken, r->answers, plural(r->answers),
           quote_path(r->artifacts).s, r->taken < r->answers ? ", the others were made again" : "");
  if (r->again.n_files > 0 && !quiet)
    printf("    %u file%s of ranges measured again, with the recorded result\n", r->again.n_files,
           plural(r->again.n_files));
  if (r->write_to && r->n_found == 0 && !quiet) printf("wrote %s\n", quote_path(r->write_to).s);
}

static void print_json(const struct rebuild *r, const struct audit_target *t,
                       const struct sign_key *key) {
  struct json_out j = {.indent = 2};
  report_json_begin(&j);
  json_put_text(&j, "manifest", t->manifest);
  json_put_text(&j, "subject", r->m.subject);
  json_put_text(&j, "source", r->source);
  json_put_text(&j, "made_by", r->version);
  json_put_text(&j, "key", key ? sign_key_id(key) : NULL);
  json_put_bool(&j, "same", r->n_found == 0);
  json_put_bool(&j, "same_plan", r->same_plan);
  json_put_uint(&j, "ranges_found_again", r->again.n_files);
  json_put_uint(&j, "artifacts", r->answers);
  json_put_uint(&j, "artifacts_taken", r->taken);
  json_put_uint(&j, "files", r->m.n_files);
  json_put_uint(&j, "units", r->units);
  json_put_uint(&j, "different_units", r->different);
  json_put_uint(&j, "bytes", r->bytes);
  json_put_bool(&j, "files_there", r->beside);
  json_put_uint(&j, "damaged_units", r->audited.damaged);
  json_put_text(&j, "output", r->n_found == 0 ? r->write_to : NULL);
  json_put_array(&j, "differences");
  for (size_t i = 0; i < r->n_found; i++) {
    render_audit_found_json(&r->found[i], &j);
    report_json_flush(&j);
  }
  json_end_array(&j);
  json_put_array(&j, "notes");
  for (size_t i = 0; i < r->n_reasons; i++)
    json_text(&j, r->reasons[i]);
  json_end_array(&j);
  json_end_object(&j);
  report_json_end(&j);
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

// 'weir calibrate' with these words, for a file of ranges that is found again.
static int calibrate(const char *const *words, int n, const struct calibrate_record *record,
                     struct err *err) {
  struct calibrate_request request;
  struct request base;
  struct request_source source;
  struct calibrate_job job;
  struct arena arena = {0};
  struct cli_args args;
  int rc = cli_parse(&args, n, (char *const *)(uintptr_t)words, err);
  if (rc == 0) rc = calibrate_take(&request, &base, &source, &args, &report_observer, &arena, err);
  if (rc == 0) {
    rc = calibrate_job_run(&job, &request, record, err);
    calibrate_job_close(&job, false);
  }
  cli_free(&args);
  arena_free(&arena);
  return rc;
}

static int rebuild(struct rebuild *r, const struct cli_args *args, const struct audit_target *t,
                   struct sign_key **key, struct err *err) {
  const char *folder = cli_string(args, OPT_WRITE);
  if (audit_target_refuse(args->operand[0], t, "rebuild", err) ||
      read_manifest(r, args, t, key, err))
    return -1;
  r->source = cli_string(args, OPT_SOURCE);
  r->files = cli_string(args, OPT_FILES);
  r->artifacts = cli_string(args, OPT_REBUILD_ARTIFACTS);
  struct stat at;
  if (r->artifacts && (stat(r->artifacts, &at) || !S_ISDIR(at.st_mode)))
    return err_set(err, ERR_INPUT, "there is no folder '%s'", quote_path(r->artifacts).s);
  r->calibrates = cli_flag(args, OPT_CALIBRATE);
  if (r->calibrates)
    r->again = (struct recalibrate){.run = calibrate,
                                    .library = given_text(args, OPT_ONNXRUNTIME),
                                    .jobs = given_text(args, OPT_JOBS),
                                    .memory = given_text(args, OPT_MEMORY),
                                    .allow_links = cli_flag(args, OPT_ALLOW_LINKS),
                                    .source = r->source};
  if (r->calibrates) r->again.data = cli_list(args, OPT_DATA, &r->again.n_data);
  if (folder)
    r->write_to =
        arena_printf(&r->arena, "%s%s%s", folder, str_ends(folder, "/") ? "" : "/", r->m.subject);
  if (strcmp(r->version, version_number) != 0)
    report_notice(
        "the manifest was written by weir %s; this is %s, whose passes may work differently",
        r->version, version_number);
  return run(r, args, err) || check_completed(r, err) || look_beside(r, args, err) ? -1 : 0;
}

int cmd_rebuild(const struct cli_args *args, struct err *err) {
  struct rebuild r;
  struct sign_key *key = NULL;
  rebuild_start(&r, &report_observer);
  int rc = check_words(args, err);
  const struct audit_target t = audit_target_of(args->operand[0], &r.arena);
  if (rc == 0) rc = rebuild(&r, args, &t, &key, err);
  const bool different = r.n_found > 0 && err->kind == ERR_FAIL;
  if (rc == 0 || different) {
    if (cli_flag(args, OPT_JSON))
      print_json(&r, &t, key);
    else
      print_text(&r, &t, key, cli_flag(args, OPT_QUIET));
    rc = different || (is_damaged(&r) && !r.write_to) ? ERR_FAIL : 0;
  }
  sign_key_free(key);
  rebuild_free(&r);
  return rc;
}
