// weir finalize: what members made becomes the output.
//
//   PLAN ──join, alone──▶ all units recorded? ──▶ hashed again (below) ──▶ values out of range? ──▶ commit
//        │                     └─ no: 75, and which are missing
//        ├─ a seal that has begun ──▶ completed
//        └─ no folder any more ──▶ the output has its name: nothing is left to do
//
// Units are hashed again with --recheck, where something changed an output since the last record was written, and where
// records of a unit contradict each other. Else the records are taken on trust, which the last line says.
// --verify: source and output are run and compared before the latter is put in place (verify_staged.h).
// --sign-key: the output is signed once it has its name, also where it had it before. A kill in between leaves a whole model
// without a signature, which the same command makes. --provenance: the statement is kept in the folder until the output has its
// name, so that a kill in between loses nothing.
#include "execute_plan.h"
#include "cli_request.h"
#include "commands.h"
#include "fs.h"
#include "execution.h"
#include "kept_report.h"
#include "manifest_signed.h"
#include "planned.h"
#include "provenance.h"
#include "commit.h"
#include "render_verified.h"
#include "report.h"
#include "sign_model.h"
#include "stop.h"
#include "verify_options.h"
#include "verify_staged.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse_missing(struct planned *x, struct err *err) {
  err_fill(err, ERR_RETRY, "%u of %u unit%s %s missing: %s", x->missing, x->units, plural(x->units),
           x->missing == 1 ? "is" : "are", planned_missing_words(x));
  return err_hint(err, "'weir shard --count 1' makes the missing units of all shards");
}

// Another run has put something there since.
static int refuse_taken(const struct planned *x, struct err *err) {
  const struct staging_joined *j = &x->joined;
  struct stat at;
  if (j->orders.replace || fstatat(j->st.dest, j->onnx_name, &at, AT_SYMLINK_NOFOLLOW)) return 0;
  err_fill(err, ERR_INPUT, "'%s' in '%s' was made by another run since this one was planned",
           quote_str(j->onnx_name).s, quote_path(j->st.dest_path).s);
  return err_hint(err, "move it away, or plan again with --force to replace it");
}

// What finalize did, and is about to do.
struct final {
  const char *model;
  bool before, verified;
  struct commit_unchanged unchanged;
  uint32_t trusted;     // units that were not read again
  struct sign_key *key; // NULL: it is not to be signed
  struct audit_target signs;
  struct sign_model was;
  struct record_file provenance; // no path: it is not wanted
  struct verify_staged verify;
};

// The statement that was kept when the seal began; without one nothing more is moved.
static int complete_seal(struct planned *x, struct final *f, struct work_options *work,
                         struct err *err) {
  struct staging *st = &x->joined.st;
  struct seal_report report;
  struct span kept = {0};
  bool changed;
  if (f->provenance.path) {
    kept = kept_report_take(st, STAGING_PROVENANCE, &changed);
    if (!kept.at) {
      err_fill(err, ERR_USAGE, "the interrupted 'weir finalize' stored no provenance%s",
               changed ? " that is whole" : "");
      return err_hint(err, "leave out --provenance to complete it");
    }
  }
  int rc = execute_plan_check_seal(work, st, err);
  if (rc == 0) rc = seal_finish(st, &report, err);
  if (rc == 0) commit_say_left(&report_observer, &report);
  if (rc == 0 && kept.at) rc = record_file_end(&f->provenance, kept, err);
  if (kept.at) fs_free(kept);
  return rc;
}

// --provenance, before anything is put in place. A file of the output's or the input's is none that may be written over.
static int open_provenance(struct planned *x, struct final *f, const struct cli_args *args,
                           struct err *err) {
  const char *path = cli_string(args, OPT_PROVENANCE);
  const struct plan *p = &x->joined.plan;
  struct stat file, folder, dest;
  if (!path) return 0;
  if (x->joined.orders.null) {
    err_fill(err, ERR_USAGE,
             "--provenance describes an output, but the plan was made with --io=null, which writes "
             "none");
    return err_hint(err, "leave out --provenance");
  }
  const char *name = path_base(path);
  bool theirs = stat(path, &file) == 0 && S_ISREG(file.st_mode) && x->sources &&
                sources_find_inode(x->sources, file.st_dev, file.st_ino) != NO_ID;
  if (!theirs && stat(arena_folder(&x->arena, path), &folder) == 0 &&
      fstat(x->joined.st.dest, &dest) == 0 && folder.st_dev == dest.st_dev &&
      folder.st_ino == dest.st_ino) {
    char manifest[256], tensors[256], signature[256];
    manifest_name(manifest, x->joined.onnx_name);
    manifest_tensors_name(tensors, x->joined.onnx_name);
    manifest_signature_name(signature, x->joined.onnx_name);
    theirs =
        strcmp(name, manifest) == 0 || strcmp(name, tensors) == 0 || strcmp(name, signature) == 0;
    for (uint32_t i = 0; i < p->n_outputs; i++)
      theirs = theirs || strcmp(name, p->outputs[i].name) == 0;
  }
  if (theirs) {
    err_fill(err, ERR_USAGE,
             "--provenance would overwrite '%s', which belongs to the input or the output",
             quote_path(path).s);
    return err_hint(err, "give it another name");
  }
  if (provenance_check_time(err)) return -1;
  return record_file_reserve(&f->provenance, path, &report_observer, &x->arena, err);
}

// Nothing that was hashed and not written can be read again.
static int refuse_contrary(const struct planned *x, struct err *err) {
  const struct staging_others *others = &x->joined.st.others;
  if (others->n_rows == 0) return 0;
  err_fill(err, ERR_INPUT,
           "the records of unit %u contradict each other, and nothing was written that could be "
           "hashed again",
           others->rows[0].unit);
  return err_hint(err, "remove the folder and plan again: 'weir plan' with --fresh");
}

static int check_units(struct planned *x, const struct execute_plan *c, struct executed_plan *made,
                       const struct cli_args *args, struct err *err) {
  const bool all =
      cli_flag(args, OPT_RECHECK) || staging_is_newer_than_records(&made->st, &x->joined.plan);
  if (!all && made->st.others.n_rows == 0) return 0;
  return execute_plan_check_units(c, made, all ? STAGING_EVERY_UNIT : STAGING_CONTRARY_UNITS, err);
}

static int put(struct planned *x, struct final *f, const struct cli_args *args,
               const struct work_options *work, struct err *err) {
  struct staging_joined *j = &x->joined;
  struct json_out provenance = {.indent = 2};
  const struct execute_plan c = {.plan = &j->plan, .sources = x->sources, .work = *work};
  struct executed_plan made = {.st = j->st};
  int rc = 0;
  rc = staging_writes(&made.st) ? check_units(x, &c, &made, args, err) : refuse_contrary(x, err);
  f->trusted = staging_writes(&made.st) ? made.st.n_units - made.read : 0;
  j->st = made.st;
  if (rc) return -1;
  planned_count(x);
  if (x->missing) return refuse_missing(x, err);
  rc = execute_plan_run(&c, &made, err); // nothing is left to make: a look at what was found
  const struct request_limits limits = cli_request_limits(args);
  if (rc == 0)
    rc = verify_staged_run(&f->verify, x, &limits, cli_string(args, OPT_SOURCE_DIR), err);
  if (rc && f->verify.v.found.n_rows > 0 &&
      !cli_flag(args, OPT_JSON)) // what failed, and what did not
    render_verified(&f->verify.v.found, cli_flag(args, OPT_QUIET));
  f->verified = rc == 0 && f->verify.wanted;
  if (rc == 0) {
    const struct commit put = {.plan = &j->plan,
                               .sources = x->sources,
                               .onnx_name = j->onnx_name,
                               .work = *work,
                               .replace = j->orders.replace,
                               .manifest = j->orders.manifest,
                               .tensor_digests = j->orders.tensor_digests,
                               .hash_inputs = j->orders.hash_inputs,
                               .edits_sha256 = j->orders.edits_sha256,
                               .layout_asked = j->orders.layout_asked,
                               .provenance = f->provenance.path ? &provenance : NULL};
    rc = commit_outputs(&put, &made.st, &f->unchanged, err);
    if (rc == 0 && put.provenance)
      rc = record_file_end(&f->provenance, span_of(provenance.text, provenance.n), err);
    json_done(&provenance);
  }
  j->st = made.st;
  return rc;
}

// Before anything is put in place that could not be signed then.
static int refuse_unsigned(const struct planned *x, struct err *err) {
  const struct staging_orders *orders = &x->joined.orders;
  if (x->in_place || x->joined.sealed || (orders->manifest && !orders->null)) return 0;
  err_fill(err, ERR_USAGE, "there will be nothing to sign: the plan was made with %s",
           orders->null ? "--io=null" : "--no-manifest");
  return err_hint(err, "leave out --sign-key");
}

static int sign(struct final *f, struct planned *x, const struct cli_args *args, struct err *err) {
  if (!f->key) return 0;
  f->signs = audit_target_of(f->model, &x->arena);
  const struct work_options work = {
      .jobs = cli_count(args, OPT_JOBS), .observer = &report_observer, .stop = stop_watch()};
  return sign_model(&f->signs, f->key, &work, &f->was, err);
}

static void print(const struct cli_args *args, const struct planned *x, const struct final *f) {
  const char *model = f->model;
  const bool before = f->before, unchanged = f->unchanged.outputs;
  if (cli_flag(args, OPT_JSON)) {
    struct json_out j = {.indent = 2};
    report_json_begin(&j);
    json_put_text(&j, "plan", cli_operand(args, "PLAN"));
    json_put_text(&j, "output", model);
    json_put_bool(&j, "was_in_place", before);
    json_put_bool(&j, "unchanged", unchanged);
    json_put_uint(&j, "units_not_read", f->trusted);
    json_put_text(&j, "signature", f->key ? f->signs.signature : NULL);
    if (f->verified) render_verified_json(&f->verify.v.found, &j);
    json_end_object(&j);
    report_json_end(&j);
  } else if (!cli_flag(args, OPT_QUIET) && !cli_stdout_is_taken(args)) {
    if (f->verified) render_verified(&f->verify.v.found, false);
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
    if (f->key)
      printf("%s: %s (%s key %.16s...)\n", f->was.was_signed ? "signed already" : "signed",
             quote_path(f->signs.signature).s, sign_key_curve(f->key), sign_key_id(f->key));
  }
}

static int finalize(struct planned *x, const struct cli_args *args, struct final *f,
                    struct err *err) {
  struct work_options work;
  const char *dest = x->joined.st.dest_path;
  f->model = strcmp(dest, ".") == 0 ? x->joined.onnx_name
                                    : arena_printf(&x->arena, "%s/%s", dest, x->joined.onnx_name);
  const struct cli_source io_name = cli_source(args, OPT_IO);
  struct request_limits limits = cli_request_limits(args);
  limits.io_name = io_name.s;
  if (planned_work(x, &limits, stop_watch(), &work, err)) return -1;
  if (x->joined.sealed)
    return open_provenance(x, f, args, err) ? -1 : complete_seal(x, f, &work, err);
  if (x->missing) return refuse_missing(x, err);
  if (refuse_taken(x, err) || planned_open_sources(x, cli_string(args, OPT_SOURCE_DIR), err) ||
      open_provenance(x, f, args, err) || verify_staged_check(&f->verify, x, err))
    return -1;
  return put(x, f, args, &work, err);
}

// The folder that knew how the output came about is gone, but for what a kill left of it. A statement that an earlier
// call wrote is as good.
static int provenance_late(struct planned *x, struct final *f, const struct cli_args *args,
                           struct err *err) {
  const char *path = cli_string(args, OPT_PROVENANCE);
  if (!path || access(path, F_OK) == 0) return 0;
  const struct span kept = planned_left_provenance(x);
  if (kept.at) {
    int rc = record_file_reserve(&f->provenance, path, &report_observer, &x->arena, err);
    if (rc == 0) rc = record_file_end(&f->provenance, kept, err);
    fs_free(kept);
    return rc;
  }
  err_fill(err, ERR_INPUT,
           "%s was in place already: only the 'weir finalize' that puts it in place writes its "
           "provenance",
           quote_path(f->model).s);
  return err_hint(err, "its manifest records how it was made");
}

int cmd_finalize(const struct cli_args *args, struct err *err) {
  struct planned x;
  struct final f = {0};
  const char *key = cli_string(args, OPT_SIGN_KEY);
  (void)stop_watch();
  if (key && sign_model_key(&f.key, key, SIGN_KEY_PRIVATE, err)) return -1;
  struct verify_options verify;
  struct arena arena = {0};
  if (verify_options_take(&verify, args, &report_observer, NULL, &arena, err) ||
      verify_staged_begin(&f.verify, &verify, cli_string(args, OPT_EDITS), err)) {
    arena_free(&arena);
    verify_staged_end(&f.verify);
    sign_key_free(f.key);
    return -1;
  }
  int rc = planned_open(&x, cli_operand(args, "PLAN"), STAGING_AS_LAST, &report_observer, err);
  f.before = x.in_place;
  f.model = x.model;
  if (rc == 0 && key) rc = refuse_unsigned(&x, err);
  if (rc == 0 && f.before) rc = provenance_late(&x, &f, args, err);
  if (rc == 0 && f.before) planned_clear_left(&x);
  if (rc == 0 && !f.before) rc = finalize(&x, args, &f, err);
  if (rc == 0) rc = sign(&f, &x, args, err);
  if (key) f.trusted = 0; // whoever signs has read all of it
  if (rc == 0) print(args, &x, &f);
  if (rc == 0 && f.verify.wanted && !f.verified)
    report_notice(
        "nothing was verified: the output was %s; 'weir verify' compares it with its source",
        f.before ? "in place already" : "being moved into place already");
  record_file_drop(&f.provenance);
  verify_staged_end(&f.verify);
  arena_free(&arena);
  planned_close(&x);
  sign_key_free(f.key);
  return rc;
}
