// weir audit: are the files still what was written?
//
//   OUT.onnx | OUT.onnx.manifest.json
//        │ an unfinished seal beside it? ──▶ 75 before anything is read: nothing is whole yet
//        ▼
//   OUT.onnx.sig (--public-key): by this key, and of this manifest?
//        ▼
//   manifest_audit: every unit hashed again, damage noted
//        ▼
//   the .onnx is whole: are all files that it refers to in the manifest? (audit_files.c)
//        ▼
//   which tensors lie in the damaged ranges? (audit_tensors.c)
//        │ nobody knows ──▶ which units of the file are whole
//
// The verdict is on standard output; a damaged model is not a failure of the audit, so the command
// reports it and gives exit code 1 itself.
#include "audit_companion.h"
#include "audit_files.h"
#include "audit_found.h"
#include "audit_target.h"
#include "audit_tensors.h"
#include "shell_words.h"
#include "commands.h"
#include "manifest.h"
#include "report.h"
#include "sign_model.h"
#include "stop.h"

#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// What is left of a file with damage.
struct left {
  const char *file;
  uint64_t units, whole;
  struct audit_place first, last; // of the whole ones, if there are any
};

struct audit {
  struct arena arena;
  TABLE(struct audit_found, found); // sorted by place
  struct left *left;                // in the order of the rows
  size_t n_left;
  struct sign_key *key; // --public-key: that of the signature; NULL: it is not asked for
  int dir;              // of the model
  struct manifest m;
  struct audit_files files;
  bool lacks_digests; // the digests per tensor, which the manifest lists, are not there
};

static bool is_whole(const struct audit *a) {
  return a->n_found == 0 && a->files.n_unlisted == 0 && !a->lacks_digests;
}

// Called under a lock of the audit.
static void note_damage(void *ctx, const struct audit_damage *d) {
  struct audit *a = ctx;
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

// ---- what is left -------------------------------------------------------------------------------

static void count_left(struct audit *a) {
  a->left = arena_alloc(&a->arena, a->n_found * sizeof *a->left);
  for (size_t i = 0; i < a->n_found; i++) {
    const char *file = a->found[i].file;
    const uint32_t row = manifest_file_named(&a->m, span_str(file));
    if (i > 0 && strcmp(a->found[i - 1].file, file) == 0) continue;
    struct left *left = &a->left[a->n_left++];
    *left = (struct left){.file = file};
    for (uint32_t k = a->m.first[row]; k < a->m.first[row + 1]; k++) {
      const struct manifest_shard *s = &a->m.shards[k];
      left->units++;
      if (audit_found_meets(a->found, a->n_found, file, s->off, s->len)) continue;
      left->last = (struct audit_place){s->off, s->len};
      if (left->whole++ == 0) left->first = left->last;
    }
  }
}

static void print_left(const struct left *l) {
  if (l->whole == 0 && l->units == 1) printf("    no other unit in this file\n");
  if (l->whole == 0 && l->units > 1)
    printf("    none of the file's %lu units is intact\n", l->units);
  if (l->whole == 0) return;
  printf("    %lu of the file's %lu units %s intact:%s bytes %lu..%lu", l->whole, l->units,
         l->whole == 1 ? "is" : "are", l->whole == 1 ? "" : " the first at", l->first.off,
         l->first.off + l->first.len);
  if (l->whole > 1) printf(", the last at bytes %lu..%lu", l->last.off, l->last.off + l->last.len);
  printf("\n");
}

static void print_verdict(const struct audit *a, const struct audit_result *r,
                          const struct audit_target *t) {
  const struct quoted model = quote_str(t->model);
  const uint32_t n = a->files.n_unlisted;
  char tensors[256];
  manifest_tensors_name(tensors, t->name);
  for (uint32_t i = 0; i < n; i++)
    printf("not checked: %s\n", quote_str(a->files.unlisted[i]).s);
  if (a->lacks_digests)
    printf("%s: file is missing (the digests per tensor, which the manifest lists)\n",
           quote_str(tensors).s);
  if (a->n_found > 0)
    printf("%s: DAMAGED: %lu of %lu unit%s in %lu file%s\n", model.s, r->damaged, r->shards,
           plural(r->shards), r->files, plural(r->files));
  else if (n > 0)
    printf("%s: NOT CHECKED: %u file%s that the model refers to %s not in the manifest\n", model.s,
           n, plural(n), n == 1 ? "is" : "are");
  else if (a->lacks_digests)
    printf("%s: INCOMPLETE: the model is intact, and a file that belongs to it is missing\n",
           model.s);
  else
    printf("%s: OK (%lu file%s, %s match%s the manifest)\n", model.s, r->files, plural(r->files),
           quote_bytes(r->bytes).s, r->files == 1 ? "es" : "");
}

static void print_text(const struct audit *a, const struct audit_result *r,
                       const struct audit_target *t) {
  if (a->key)
    printf("%s: signed with the %s key %.16s...\n", quote_str(t->signature).s,
           sign_key_curve(a->key), sign_key_id(a->key));
  const struct left *left = a->left; // in the same order
  for (size_t i = 0; i < a->n_found; i++) {
    const struct audit_found *f = &a->found[i];
    audit_found_print(f);
    if (i + 1 < a->n_found && strcmp(f->file, f[1].file) == 0) continue;
    if (!f->mapped) print_left(left);
    left++;
  }
  print_verdict(a, r, t);
}

// How to have the files again, and how the next audit would say more.
static void hint_repair(struct audit *a, const struct cli_args *args) {
  struct span source;
  bool several = false;
  for (size_t i = 0; i < a->n_found; i++)
    several = several || (!a->found[i].narrowed && a->found[i].n_tensors > 1);
  if (a->n_found == 0) return;
  if (json_as_string(json_get(json_get(a->m.x_weir, "source"), "name"), &source))
    report_hint("to make the damaged files again: weir rebuild %s --source %s --write again",
                shell_words_quote(args->operand[0], &a->arena),
                shell_words_quote(quote(source).s, &a->arena));
  if (several && !a->m.lists_tensors)
    report_hint(
        "for a model written with --tensor-digests, 'weir audit' names only the damaged tensors");
}

static void put_place(struct json_out *j, const char *key, const struct left *l,
                      struct audit_place at) {
  if (l->whole == 0) {
    json_put_null(j, key);
    return;
  }
  json_put_object(j, key);
  json_put_uint(j, "offset", at.off);
  json_put_uint(j, "length", at.len);
  json_end_object(j);
}

static void print_json(const struct audit *a, const struct audit_result *r,
                       const struct audit_target *t) {
  struct json_out j = {.indent = 2};
  report_json_begin(&j);
  json_put_text(&j, "manifest", t->manifest);
  json_put_text(&j, "subject", a->m.subject);
  json_put_text(&j, "signature", a->key ? t->signature : NULL);
  json_put_text(&j, "key", a->key ? sign_key_id(a->key) : NULL);
  json_put_bool(&j, "whole", is_whole(a));
  json_put_uint(&j, "files", r->files);
  json_put_uint(&j, "units", r->shards);
  json_put_uint(&j, "damaged_units", r->damaged);
  json_put_uint(&j, "bytes", r->bytes);
  json_put_array(&j, "damage");
  for (size_t i = 0; i < a->n_found; i++) {
    audit_found_write(&a->found[i], &j);
    report_json_flush(&j);
  }
  json_end_array(&j);
  json_put_array(&j, "damaged_files");
  for (size_t i = 0; i < a->n_left; i++) {
    const struct left *l = &a->left[i];
    json_object(&j);
    json_put_text(&j, "file", l->file);
    json_put_uint(&j, "units", l->units);
    json_put_uint(&j, "whole_units", l->whole);
    put_place(&j, "first_whole", l, l->first);
    put_place(&j, "last_whole", l, l->last);
    json_end_object(&j);
  }
  json_end_array(&j);
  json_put_array(&j, "not_checked");
  for (uint32_t i = 0; i < a->files.n_unlisted; i++)
    json_text(&j, a->files.unlisted[i]);
  json_end_array(&j);
  json_put_bool(&j, "digests_missing", a->lacks_digests);
  json_end_object(&j);
  report_json_end(&j);
}

// What the damage means, and what is not in the manifest at all: a damaged .onnx does not say that.
static int look_further(struct audit *a, const struct audit_target *t, struct err *err) {
  if (a->n_found > 0) qsort(a->found, a->n_found, sizeof *a->found, compare_found);
  const bool hurt = audit_found_meets(a->found, a->n_found, t->name, 0, UINT64_MAX);
  if (!hurt && audit_files_compare(&a->files, t, &a->m, &a->arena, err)) return -1;
  if (a->n_found == 0) {
    a->lacks_digests = !audit_companion_look(a->dir, &a->m, &report_observer);
    return 0;
  }
  audit_tensors_name(a->dir, &a->m, t->model, a->found, a->n_found, &report_observer, &a->arena);
  count_left(a);
  return 0;
}

// Damage goes to the audit, progress to people.
static void tick(void *ctx, uint64_t done, uint64_t total) {
  (void)ctx;
  observer_tick_bytes(&report_observer, done, total);
}

static int check(struct audit *a, const struct cli_args *args, const struct audit_target *t,
                 struct audit_result *result, struct err *err) {
  const struct audit_options options = {.shown = t->manifest,
                                        .jobs = cli_count(args, OPT_JOBS),
                                        .stop = stop_watch(),
                                        .damage = note_damage,
                                        .tick = tick,
                                        .ctx = a};
  observer_begin(&report_observer, "checking");
  const int rc = manifest_audit(&a->m, a->dir, &options, result, err);
  observer_end(&report_observer);
  return rc ? -1 : look_further(a, t, err);
}

int cmd_audit(const struct cli_args *args, struct err *err) {
  struct audit a = {.dir = -1};
  struct audit_target t = audit_target_of(args->operand[0], &a.arena);
  struct audit_result result = {0};
  const struct sign_model_reader who = {cli_string(args, OPT_PUBLIC_KEY), args->operand[0],
                                        "audit"};
  int rc = audit_target_refuse(args->operand[0], &t, "audit", err);
  if (rc == 0) rc = sign_model_read(&a.m, &a.dir, &who, &t, &a.key, err);
  if (rc == 0) audit_target_found(&t, a.m.subject, &a.arena);
  if (rc == 0) rc = audit_target_refuse(args->operand[0], &t, "audit", err);
  if (rc == 0) rc = check(&a, args, &t, &result, err);
  if (rc == 0) (cli_flag(args, OPT_JSON) ? print_json : print_text)(&a, &result, &t);
  if (rc == 0 && !cli_flag(args, OPT_JSON)) hint_repair(&a, args);
  if (rc == 0 && !is_whole(&a)) rc = ERR_FAIL;
  sign_key_free(a.key);
  manifest_free(&a.m);
  if (a.dir >= 0) close(a.dir);
  TABLE_FREE(&a.files, unlisted);
  TABLE_FREE(&a, found);
  arena_free(&a.arena);
  return rc;
}
