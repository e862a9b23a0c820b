#include "audit/audit.h"

#include "audit/sign_model.h"
#include "stream/seal/manifest.h"

#include <stdlib.h>

struct auditing {
  struct audit *a;
  const struct audit_request *r;
};

bool audit_is_whole(const struct audit *a) {
  return a->n_found == 0 && a->files.n_unlisted == 0 && !a->lacks_digests;
}

// Called under a lock of the audit.
static void note_damage(void *ctx, const struct audit_damage *d) {
  struct audit *a = ((struct auditing *)ctx)->a;
  *TABLE_PUSH(a, found) = (struct audit_found){.file = arena_string(&a->arena, span_str(d->file)),
                                               .what = arena_string(&a->arena, span_str(d->what)),
                                               .off = d->off,
                                               .len = d->len};
}

static int compare_found(const void *pa, const void *pb) {
  const struct audit_found *a = pa, *b = pb;
  int by_file = strcmp(a->file, b->file);
  if (by_file != 0) return by_file;
  return (a->off > b->off) - (a->off < b->off);
}

static void count_left(struct audit *a) {
  a->left = arena_alloc(&a->arena, a->n_found * sizeof *a->left);
  for (size_t i = 0; i < a->n_found; i++) {
    const char *file = a->found[i].file;
    const uint32_t row = manifest_file_named(&a->m, span_str(file));
    if (i > 0 && strcmp(a->found[i - 1].file, file) == 0) continue;
    struct audit_left *left = &a->left[a->n_left++];
    *left = (struct audit_left){.file = file};
    for (uint32_t k = a->m.first[row]; k < a->m.first[row + 1]; k++) {
      const struct manifest_shard *s = &a->m.shards[k];
      left->units++;
      if (audit_found_meets(a->found, a->n_found, file, s->off, s->len)) continue;
      left->last = (struct audit_place){s->off, s->len};
      if (left->whole++ == 0) left->first = left->last;
    }
  }
}

// What the damage means, and what is not in the manifest at all: a damaged .onnx does not say that.
static int look_further(struct audit *a, struct observer *o, struct err *err) {
  const struct audit_target *t = &a->target;
  if (a->n_found > 0) qsort(a->found, a->n_found, sizeof *a->found, compare_found);
  const bool hurt = audit_found_meets(a->found, a->n_found, t->name, 0, UINT64_MAX);
  if (!hurt && audit_files_compare(&a->files, t, &a->m, &a->arena, err)) return -1;
  if (a->n_found == 0) {
    a->lacks_digests = !audit_companion_look(a->dir, &a->m, o);
    return 0;
  }
  audit_tensors_name(a->dir, &a->m, t->model, a->found, a->n_found, o, &a->arena);
  count_left(a);
  return 0;
}

// Damage goes to the audit, progress to people.
static void tick(void *ctx, uint64_t done, uint64_t total) {
  observer_tick_bytes(((struct auditing *)ctx)->r->observer, done, total);
}

static int check(struct audit *a, const struct audit_request *r, struct err *err) {
  struct auditing ctx = {a, r};
  const struct audit_options options = {.shown = a->target.manifest,
                                        .jobs = r->jobs,
                                        .stop = observer_stop(r->observer),
                                        .damage = note_damage,
                                        .tick = tick,
                                        .ctx = &ctx};
  observer_begin(r->observer, "checking");
  const int rc = manifest_audit(&a->m, a->dir, &options, &a->result, err);
  observer_end(r->observer);
  return rc ? -1 : look_further(a, r->observer, err);
}

int audit_run(struct audit *a, const struct audit_request *r, struct err *err) {
  const struct sign_model_reader who = {r->public_key, r->operand, "audit"};
  *a = (struct audit){.n_found = 0};
  a->target = audit_target_of(r->operand, &a->arena);
  if (audit_target_refuse(r->operand, &a->target, "audit", err) ||
      sign_model_read(&a->m, &a->dir, &who, &a->target, &a->key, err))
    return -1;
  audit_target_found(&a->target, a->m.subject, &a->arena);
  if (audit_target_refuse(r->operand, &a->target, "audit", err)) return -1;
  return check(a, r, err);
}

void audit_done(struct audit *a) {
  sign_key_free(a->key);
  manifest_free(&a->m);
  folder_close(&a->dir);
  TABLE_FREE(&a->files, unlisted);
  TABLE_FREE(a, found);
  arena_free(&a->arena);
}
