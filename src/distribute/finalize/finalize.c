#include "distribute/finalize/finalize.h"

#include "execute/commit/execute_plan.h"
#include "execute/commit/kept_report.h"
#include "execute/commit/provenance.h"
#include "execute/record_file.h"
#include "stream/sys/fs.h"

struct final {
  const struct finalize_request *r;
  struct finalized *f;
  struct record_file provenance; // no path: it is not wanted
};

static int refuse_missing(struct planned *x, struct err *err) {
  err_fill(err, ERR_RETRY, "%u of %u unit%s %s missing: %s", x->missing, x->units, plural(x->units),
           x->missing == 1 ? "is" : "are", planned_missing_words(x));
  return err_hint(err, "'weir shard --count 1' makes the missing units of all shards");
}

// Another run has put something there since.
static int refuse_taken(const struct planned *x, struct err *err) {
  const struct staging_joined *j = &x->joined;
  struct entry_facts at;
  if (j->orders.replace || entry_look(j->st.dest, j->onnx_name, FILE_NO_LINK, &at)) return 0;
  err_fill(err, ERR_INPUT, "'%s' in '%s' was made by another run since this one was planned",
           quote_str(j->onnx_name).s, quote_path(j->st.dest_path).s);
  return err_hint(err, "move it away, or plan again with --force to replace it");
}

// The statement that was kept when the seal began; without one nothing more is moved.
static int complete_seal(struct planned *x, struct final *s, struct work_options *work,
                         struct err *err) {
  struct staging *st = &x->joined.st;
  struct seal_report report;
  struct span kept = {0};
  bool changed;
  if (s->provenance.path) {
    kept = kept_report_take(st, STAGING_PROVENANCE, &changed);
    if (!kept.at) {
      err_fill(err, ERR_USAGE, "the interrupted 'weir finalize' stored no provenance%s",
               changed ? " that is whole" : "");
      return err_hint(err, "leave out --provenance to complete it");
    }
  }
  int rc = execute_plan_check_seal(work, st, err);
  if (rc == 0) rc = seal_finish(st, &report, err);
  if (rc == 0) commit_say_left(x->observer, &report);
  if (rc == 0 && kept.at) rc = record_file_end(&s->provenance, kept, err);
  if (kept.at) fs_free(kept);
  return rc;
}

// --provenance, before anything is put in place. It must not replace a file of the output or the input.
static int open_provenance(struct planned *x, struct final *s, struct err *err) {
  const char *path = s->r->provenance;
  const struct plan *p = &x->joined.plan;
  struct entry_facts file, folder, dest;
  if (!path) return 0;
  if (x->joined.orders.null) {
    err_fill(err, ERR_USAGE,
             "--provenance describes an output, but the plan was made with --io=null, which writes "
             "none");
    return err_hint(err, "leave out --provenance");
  }
  const char *name = path_base(path);
  bool theirs = entry_look(HERE, path, 0, &file) == 0 && file.kind == ENTRY_FILE && x->sources &&
                sources_find_inode(x->sources, file.volume, file.number) != NO_ID;
  if (!theirs && entry_look(HERE, arena_folder(&x->arena, path), 0, &folder) == 0 &&
      folder_look(x->joined.st.dest, &dest) == 0 && entry_is_same(&folder, &dest)) {
    const struct manifest_names beside = manifest_names(x->joined.onnx_name);
    theirs = strcmp(name, beside.manifest) == 0 || strcmp(name, beside.tensors) == 0 ||
             strcmp(name, beside.signature) == 0;
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
  return record_file_reserve(&s->provenance, path, x->observer, &x->arena, err);
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

static int check_units(struct planned *x, const struct final *s, const struct execute_plan *c,
                       struct executed_plan *made, struct err *err) {
  const bool all = s->r->recheck || staging_is_newer_than_records(&made->st, &x->joined.plan);
  if (!all && made->st.others.n_rows == 0) return 0;
  return execute_plan_check_units(c, made, all ? STAGING_EVERY_UNIT : STAGING_CONTRARY_UNITS, err);
}

static int put(struct planned *x, struct final *s, const struct work_options *work,
               struct err *err) {
  struct staging_joined *j = &x->joined;
  struct json_out provenance = {.indent = 2};
  const struct execute_plan c = {.plan = &j->plan, .sources = x->sources, .work = *work};
  struct executed_plan made = {.st = j->st};
  int rc = staging_writes(&made.st) ? check_units(x, s, &c, &made, err) : refuse_contrary(x, err);
  s->f->trusted = staging_writes(&made.st) ? made.st.n_units - made.read : 0;
  j->st = made.st;
  if (rc) return -1;
  planned_count(x);
  if (x->missing) return refuse_missing(x, err);
  rc = execute_plan_run(&c, &made, err); // no unit is left to make: this checks the recorded errors
  if (rc == 0) rc = verify_staged_run(s->r->verify, x, &s->r->limits, s->r->source_folder, err);
  s->f->verified = rc == 0 && s->r->verify->wanted;
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
                               .provenance = s->provenance.path ? &provenance : NULL};
    rc = commit_outputs(&put, &made.st, &s->f->unchanged, err);
    if (rc == 0 && put.provenance)
      rc = record_file_end(&s->provenance, span_of(provenance.text, provenance.n), err);
    json_done(&provenance);
  }
  j->st = made.st;
  return rc;
}

static int put_in_place(struct planned *x, struct final *s, struct err *err) {
  struct work_options work;
  const char *dest = x->joined.st.dest_path;
  s->f->model = strcmp(dest, ".") == 0
                    ? x->joined.onnx_name
                    : arena_printf(&x->arena, "%s/%s", dest, x->joined.onnx_name);
  if (planned_work(x, &s->r->limits, s->r->stop, &work, err)) return -1;
  if (x->joined.sealed) return open_provenance(x, s, err) ? -1 : complete_seal(x, s, &work, err);
  if (x->missing) return refuse_missing(x, err);
  if (refuse_taken(x, err) || planned_open_sources(x, s->r->source_folder, err) ||
      open_provenance(x, s, err) || verify_staged_check(s->r->verify, x, err))
    return -1;
  return put(x, s, &work, err);
}

// The staging folder is gone, except for files that a kill left. A statement that an earlier call wrote is accepted too.
static int provenance_late(struct planned *x, struct final *s, struct err *err) {
  const char *path = s->r->provenance;
  if (!path || entry_may(HERE, path, MAY_EXIST) == 0) return 0;
  const struct span kept = planned_left_provenance(x);
  if (kept.at) {
    int rc = record_file_reserve(&s->provenance, path, x->observer, &x->arena, err);
    if (rc == 0) rc = record_file_end(&s->provenance, kept, err);
    fs_free(kept);
    return rc;
  }
  err_fill(err, ERR_INPUT,
           "%s was in place already: only the 'weir finalize' that puts it in place writes its "
           "provenance",
           quote_path(s->f->model).s);
  return err_hint(err, "its manifest records how it was made");
}

// Before anything is put in place that could not be signed then.
static int refuse_unsigned(const struct planned *x, struct err *err) {
  const struct staging_orders *orders = &x->joined.orders;
  if (x->in_place || x->joined.sealed || (orders->manifest && !orders->null)) return 0;
  err_fill(err, ERR_USAGE, "there will be nothing to sign: the plan was made with %s",
           orders->null ? "--io=null" : "--no-manifest");
  return err_hint(err, "leave out --sign-key");
}

static int sign(struct final *s, struct planned *x, struct err *err) {
  if (!s->r->key) return 0;
  s->f->signs = audit_target_of(s->f->model, &x->arena);
  const struct work_options work = {
      .jobs = s->r->limits.jobs, .observer = x->observer, .stop = s->r->stop};
  s->f->trusted = 0; // signing has read all files
  return sign_model(&s->f->signs, s->r->key, &work, &s->f->was, err);
}

int finalize(const struct finalize_request *r, struct planned *x, struct finalized *f,
             struct err *err) {
  struct final s = {.r = r, .f = f};
  *f = (struct finalized){.before = x->in_place, .model = x->model};
  int rc = r->key ? refuse_unsigned(x, err) : 0;
  if (rc == 0 && f->before) rc = provenance_late(x, &s, err);
  if (rc == 0 && f->before) planned_clear_left(x);
  if (rc == 0 && !f->before) rc = put_in_place(x, &s, err);
  if (rc == 0) rc = sign(&s, x, err);
  record_file_drop(&s.provenance);
  return rc;
}
