// The run is that of 'weir run' with the steps that were recorded. Two moments of it are watched (execution.h): once the plan is
// there, its outputs must have the names and sizes of the manifest, before hours are spent on the bytes; once all units are
// made, they must have its digests.
//
// Names of data files are chosen by what is free in a folder. Here those are free that the manifest lists, so that the plan
// comes out as it was.
#include "rebuild/rebuild.h"

#include "audit/sign_model.h"
#include "base/version_number.h"
#include "execute/execution_stage.h"
#include "rebuild/recorded.h"
#include "stream/io/hash_source.h"

enum { NAMES_REFUSED = 64 }; // more than a run ever tries

static void add_reason(struct rebuild *r, const char *sentence) {
  *TABLE_PUSH(r, reasons) = sentence;
}

static uint32_t file_named(const struct manifest *m, const char *name) {
  for (uint32_t i = 0; i < m->n_files; i++)
    if (strcmp(m->files[i], name) == 0) return i;
  return NO_ID;
}

// ---- the source --------------------------------------------------------------------------------

static const struct json_value *source_files(const struct rebuild *r) {
  return json_get(json_get(r->m.x_weir, "source"), "files");
}

// Sizes are compared here; what else differs in the files, the units show.
static int check_source(const struct rebuild *r, struct execution *exec, struct err *err) {
  const struct json_value *source = json_get(r->m.x_weir, "source");
  struct span meta, name;
  const struct digest_hex have = digest_hex(exec->model.meta_sha256);
  if (!json_as_string(json_get(source, "meta_sha256"), &meta) ||
      !json_as_string(json_get(source, "name"), &name))
    return err_set(err, ERR_MODEL, "the manifest '%s' does not say what its model was made from",
                   quote_path(r->target.manifest).s);
  if (!span_is(meta, have.s)) {
    err_fill(err, ERR_INPUT,
             "the outputs were made from a model other than '%s' (meta_sha256 %s, not %s)",
             quote_path(r->source).s, have.s, quote(meta).s);
    return err_hint(err, "they were made from a file named '%s'", quote(name).s);
  }
  uint32_t i = 0;
  for (const struct json_value *f = json_first(source_files(r)); f; f = json_next(f), i++) {
    uint64_t size;
    if (i == sources_count(exec->sources))
      break; // files that passes read are found later, by their digests
    if (!json_as_uint(json_get(f, "size"), &size) || size == sources_size(exec->sources, i))
      continue;
    return err_set(err, ERR_INPUT,
                   "'%s' has %s bytes, and the file that the outputs were made from has %s",
                   sources_shown(exec->sources, i).s, decimal(sources_size(exec->sources, i)).s,
                   decimal(size).s);
  }
  return 0;
}

// After a difference: are these the files? Reads them, as far as the manifest knows their digests.
static void look_at_source(struct rebuild *r, struct execution *exec) {
  struct err ignored = {0};
  uint32_t i = 0, known = 0;
  for (const struct json_value *f = json_first(source_files(r)); f; f = json_next(f), i++) {
    struct span hex;
    uint8_t was[DIGEST_BYTES], is[DIGEST_BYTES];
    if (i == sources_count(exec->sources)) break;
    if (!json_as_string(json_get(f, "sha256"), &hex) || !hex_decode(hex, was, sizeof was)) continue;
    known++;
    if (hash_source(exec->sources, i, observer_stop(exec->request->observer), is, &ignored) ||
        memcmp(is, was, sizeof is) == 0)
      continue;
    add_reason(
        r, arena_printf(&r->arena,
                        "'%s' is not the file that the outputs were made from: its SHA-256 differs",
                        sources_shown(exec->sources, i).s));
  }
  if (known == 0)
    add_reason(r, "weir cannot tell whether these are the original inputs: the manifest has no "
                  "digests of them (--hash-inputs)");
}

// ---- the plan ----------------------------------------------------------------------------------

// plan_layout.name_taken: all names but those of the manifest. Where none of them comes up, any will do: the plan differs.
static bool name_taken(void *ctx, const char *name) {
  struct rebuild *r = ctx;
  if (file_named(&r->m, name) != NO_ID) return false;
  return r->names_refused++ < NAMES_REFUSED;
}

// Manifests of older versions do not have what was asked for, only what came of it, without the name of --data-file.
static int take_layout(const struct rebuild *r, struct execution *exec, struct err *err) {
  const struct json_value *asked = json_get(r->m.x_weir, "layout_asked");
  if (json_is_object(asked)) return execution_layout_read(&exec->layout, asked, &exec->arena, err);
  if (execution_layout_read(&exec->layout, json_get(r->m.x_weir, "layout"), &exec->arena, err))
    return -1;
  for (uint32_t i = 0; i < r->m.n_files && !exec->layout.data_name; i++)
    if (strcmp(r->m.files[i], exec->out.onnx_name) != 0) exec->layout.data_name = r->m.files[i];
  return 0;
}

static struct audit_found *add_found(struct rebuild *r, const char *file, uint64_t off,
                                     uint64_t len, const char *what) {
  struct audit_found *f = TABLE_PUSH(r, found);
  *f = (struct audit_found){
      .file = arena_string(&r->arena, span_str(file)), .what = what, .off = off, .len = len};
  return f;
}

// What the plan follows from, as far as the manifest has it.
static void compare_plans(struct rebuild *r, const struct execution *exec) {
  const struct json_value *x = r->m.x_weir;
  struct span edits, name;
  const char *artifacts = exec->plan.artifacts ? exec->plan.artifacts : "[]";
  r->same_plan = memcmp(exec->plan.id, r->m.plan_id, DIGEST_BYTES) == 0;
  if (r->same_plan) return;
  const bool renamed = json_as_string(json_get(json_get(x, "source"), "name"), &name) &&
                       !span_is(name, path_base(r->source));
  if (renamed) add_reason(r, arena_printf(&r->arena, "the source was named '%s'", quote(name).s));
  if (strcmp(r->version, version_number) != 0)
    add_reason(r, arena_printf(&r->arena, "they were made by weir %s, and this is %s", r->version,
                               version_number));
  if (json_get(x, "artifacts") &&
      strcmp(json_value_text(json_get(x, "artifacts"), &r->arena), artifacts) != 0)
    add_reason(r, "the passes found other values in the weights than in the recorded run");
  else if (!renamed && json_as_string(json_get(x, "edits_sha256"), &edits) &&
           !span_is(edits, exec->records.edits_sha256))
    add_reason(r, "the passes made other edits");
}

static int refuse(struct err *err) {
  return err_set(err, ERR_FAIL, "the outputs differ from the manifest");
}

// --write: what lies there under the names of data files is not written over.
static int check_free(const struct rebuild *r, struct execution *exec, struct err *err) {
  for (uint32_t i = 0; i + 1 < exec->plan.n_outputs; i++) {
    const char *name = exec->plan.outputs[i].name;
    if (!execution_output_taken(exec, name)) continue;
    err_fill(err, ERR_USAGE, "there is a '%s' already where '%s' would be written",
             quote_str(name).s, quote_path(r->write_to).s);
    return err_hint(err, "--write to an empty folder");
  }
  return 0;
}

static int planned(void *ctx, struct execution *exec, struct err *err) {
  struct rebuild *r = ctx;
  const struct plan *p = &exec->plan;
  bool *made = arena_zalloc(&r->arena, r->m.n_files + (size_t)1);
  compare_plans(r, exec);
  for (const struct execution_stage *stage = exec->stages; stage; stage = stage->next) {
    r->answers += stage->asked;
    r->taken += stage->asked && stage->found.taken;
  }
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    const struct plan_output *out = &p->outputs[i];
    const uint32_t f = file_named(&r->m, out->name);
    if (f != NO_ID) made[f] = true;
    if (f == NO_ID)
      add_found(r, out->name, 0, out->size, "the manifest has no such file");
    else if (r->m.sizes[f] != out->size)
      add_found(r, out->name, 0, r->m.sizes[f],
                arena_printf(&r->arena, "the run would write %s bytes", decimal(out->size).s));
  }
  for (uint32_t f = 0; f < r->m.n_files; f++)
    if (!made[f])
      add_found(r, r->m.files[f], 0, r->m.sizes[f], "the run would not write this file");
  if (r->n_found == 0) return r->write_to ? check_free(r, exec, err) : 0;
  look_at_source(r, exec);
  return refuse(err);
}

// ---- the units ---------------------------------------------------------------------------------

static void name_tensors(struct rebuild *r, const struct plan *p, const struct plan_unit *u,
                         struct audit_found *f) {
  uint32_t n = 0;
  for (uint32_t pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < p->n_tensors; i++) {
      const struct plan_tensor *t = &p->tensors[i];
      if (t->output != u->output || t->off >= u->off + u->len || t->off + t->len <= u->off)
        continue;
      if (pass == 1) f->tensors[f->n_tensors++] = arena_string(&r->arena, span_str(t->name));
      n++;
    }
    if (pass == 0) f->tensors = arena_alloc(&r->arena, (n + (size_t)1) * sizeof *f->tensors);
  }
  f->mapped = f->n_tensors > 0;
}

// The shard of the manifest that is this unit: those of a file stand together, in order. NULL: there is none.
static const struct manifest_shard *shard_of(const struct manifest *m, uint32_t file,
                                             const struct plan_unit *u) {
  uint32_t k = 0;
  while (k < m->n_shards && m->shards[k].file != file)
    k++;
  const uint64_t at = k + u->off / PLAN_UNIT_BYTES;
  if (at >= m->n_shards) return NULL;
  const struct manifest_shard *s = &m->shards[at];
  return s->file == file && s->off == u->off && s->len == u->len ? s : NULL;
}

static int made(void *ctx, struct execution *exec, const struct staging *st, struct err *err) {
  struct rebuild *r = ctx;
  const struct plan *p = &exec->plan;
  for (uint32_t unit = 0; unit < st->n_units; unit++) {
    const struct plan_unit u = plan_unit_at(p, unit);
    const uint32_t f = file_named(&r->m, p->outputs[u.output].name);
    const struct manifest_shard *shard = shard_of(&r->m, f, &u);
    r->units++;
    r->bytes += u.len;
    if (shard && memcmp(shard->digest, st->digests[unit], DIGEST_BYTES) == 0) continue;
    const char *what = shard ? "digest differs" : "the manifest has other units here";
    r->different++;
    name_tensors(r, p, &u, add_found(r, p->outputs[u.output].name, u.off, u.len, what));
  }
  if (r->n_found == 0) return 0;
  look_at_source(r, exec);
  return refuse(err);
}

// ---- the run -----------------------------------------------------------------------------------

static int edit(struct execution *exec, void *ctx, struct err *err) {
  struct rebuild *r = ctx;
  const struct json_value *passes = json_get(r->m.x_weir, "passes");
  if (check_source(r, exec, err) || take_layout(r, exec, err)) return -1;
  exec->layout.name_taken = exec->layout.data_name ? NULL : name_taken;
  exec->layout.name_ctx = r;
  exec->watch = (struct execution_watch){.planned = planned, .made = made, .ctx = r};
  exec->kept = (struct artifact_cache){r->artifacts, json_get(r->m.x_weir, "artifacts")};
  return json_count(passes) == 0 ? execution_begin_edits(exec, "convert", "{}", err)
                                 : pass_edits_edit(exec, &r->pj, err);
}

int rebuild_read(struct rebuild *r, const char *operand, const char *public_key, struct err *err) {
  const struct sign_model_reader who = {public_key, operand, "rebuild"};
  struct span version;
  r->target = audit_target_of(operand, &r->arena);
  if (audit_target_refuse(operand, &r->target, "rebuild", err) ||
      sign_model_read(&r->m, &r->dir, &who, &r->target, &r->key, err))
    return -1;
  if (!json_as_string(json_get(r->m.x_weir, "weir"), &version))
    return err_set(err, ERR_MODEL, "the manifest '%s' does not say what made its model",
                   quote_path(r->target.manifest).s);
  r->version = arena_string(&r->arena, span_str(quote(version).s));
  return 0;
}

bool rebuild_has_input_digests(const struct rebuild *r) {
  struct span hex;
  return json_as_string(json_get(json_first(source_files(r)), "sha256"), &hex);
}

int rebuild_prepare(struct rebuild *r, struct err *err) {
  if (r->artifacts && !path_is_folder(r->artifacts))
    return err_set(err, ERR_INPUT, "there is no folder '%s'", quote_path(r->artifacts).s);
  if (strcmp(r->version, version_number) != 0)
    observer_notice(
        r->pj.observer,
        "the manifest was written by weir %s; this is %s, whose passes may work differently",
        r->version, version_number);
  const struct recorded_places places = {r->target.manifest, r->source, r->files,
                                         r->calibrates ? &r->again : NULL};
  if (recorded_take(&r->pj.pipeline, &r->own, json_get(r->m.x_weir, "passes"), &places, err)) {
    if (err->kind == ERR_MODEL && strcmp(r->version, version_number) != 0)
      err_fill_hint(err, "it was written by weir %s, and this is %s", r->version, version_number);
    return -1;
  }
  return 0;
}

int rebuild_run(struct rebuild *r, const struct request *request, struct err *err) {
  const int rc = execution_command(request, edit, r, err);
  if (rc &&
      err->reason == REASON_SEAL_BEGUN) { // another command's, which this one does not complete
    err->reason = REASON_NONE;
    err_fill_hint(err, "run that command again to complete it ('weir clean' shows it), or --write "
                       "to another folder");
  }
  return rc;
}

void rebuild_start(struct rebuild *r, struct observer *o) {
  *r = (struct rebuild){.units = 0};
  pass_edits_init(&r->pj, o, NULL);
}

void rebuild_free(struct rebuild *r) {
  pass_edits_free(&r->pj);
  user_rules_done(&r->own);
  TABLES_FREE(r, found, reasons);
  recalibrate_end(&r->again);
  sign_key_free(r->key);
  manifest_free(&r->m);
  folder_close(&r->dir);
  arena_free(&r->arena);
}
