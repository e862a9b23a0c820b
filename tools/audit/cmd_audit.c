// weir audit: are the files still what was written?
//
//   OUT.onnx | OUT.onnx.manifest.json
//        │ an unfinished seal beside it? ──▶ 75 before anything is read: nothing is whole yet
//        ▼
//   OUT.onnx.sig (--public-key): by this key, and of this manifest?
//        ▼
//   manifest_audit: every unit hashed again, damage noted
//        ▼
//   which tensors lie in the damaged ranges? (audit_tensors.c)
//        │ nobody knows ──▶ which units of the file are whole
//
// The verdict is on standard output; a damaged model is not a failure of the audit, so the command
// reports it and gives exit code 1 itself.
#include "audit_companion.h"
#include "audit_found.h"
#include "audit_target.h"
#include "audit_tensors.h"
#include "commands.h"
#include "manifest.h"
#include "report.h"
#include "sign_model.h"
#include "stop.h"

#include "table.h"

#include <fcntl.h>
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
};

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

// The manifest was read by the audit before: where it is gone by now, nothing is said.
static void count_left(struct audit *a, const struct audit_target *t) {
  struct manifest m;
  struct err ignored = {0};
  const int dir = open(t->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return;
  const bool there = manifest_read(&m, dir, path_base(t->manifest), t->manifest, &ignored) == 0;
  close(dir);
  if (!there) return;
  a->left = arena_alloc(&a->arena, a->n_found * sizeof *a->left);
  for (size_t i = 0; i < a->n_found; i++) {
    const char *file = a->found[i].file;
    if (i > 0 && strcmp(a->found[i - 1].file, file) == 0) continue;
    struct left *left = &a->left[a->n_left++];
    *left = (struct left){.file = file};
    for (uint32_t k = 0; k < m.n_shards; k++) {
      const struct manifest_shard *s = &m.shards[k];
      if (strcmp(m.files[s->file], file) != 0) continue;
      left->units++;
      if (audit_found_meets(a->found, a->n_found, file, s->off, s->len)) continue;
      left->last = (struct audit_place){s->off, s->len};
      if (left->whole++ == 0) left->first = left->last;
    }
  }
  manifest_free(&m);
}

// ---- the verdict --------------------------------------------------------------------------------

// Where no tensors can be named, at least where the good part is.
static void print_left(const struct audit *a, const char *file) {
  const struct left *l = a->left, *end = a->left + a->n_left;
  while (l < end && strcmp(l->file, file) != 0)
    l++;
  if (l == end) return;
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

static void print_text(const struct audit *a, const struct audit_result *r,
                       const struct audit_target *t) {
  if (a->key)
    printf("%s: signed with the %s key %.16s...\n", quote_str(t->signature).s,
           sign_key_curve(a->key), sign_key_id(a->key));
  for (size_t i = 0; i < a->n_found; i++) {
    const struct audit_found *f = &a->found[i];
    audit_found_print(f);
    if (!f->mapped && (i + 1 == a->n_found || strcmp(f->file, f[1].file) != 0))
      print_left(a, f->file);
  }
  if (a->n_found == 0)
    printf("%s: OK (%lu file%s, %s match%s the manifest)\n", quote_str(t->model).s, r->files,
           plural(r->files), quote_bytes(r->bytes).s, r->files == 1 ? "es" : "");
  else
    printf("%s: DAMAGED: %lu of %lu unit%s in %lu file%s\n", quote_str(t->model).s, r->damaged,
           r->shards, plural(r->shards), r->files, plural(r->files));
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
  json_put_text(&j, "subject", r->subject);
  json_put_text(&j, "signature", a->key ? t->signature : NULL);
  json_put_text(&j, "key", a->key ? sign_key_id(a->key) : NULL);
  json_put_bool(&j, "whole", a->n_found == 0);
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
  json_end_object(&j);
  report_json_end(&j);
}

int cmd_audit(const struct cli_args *args, struct err *err) {
  struct audit a = {0};
  const struct audit_target t = audit_target_of(args->operand[0], &a.arena);
  uint8_t signed_sha256[DIGEST_BYTES];
  struct audit_options options = {.jobs = cli_count(args, OPT_JOBS),
                                        .stop = stop_watch(),
                                        .damage = note_damage,
                                        .tick = report_tick_bytes,
                                        .ctx = &a};
  struct audit_result result = {0};
  int rc = audit_target_refuse(args->operand[0], &t, err);
  if (rc == 0) rc = sign_model_check_asked(args, &t, &a.key, signed_sha256, err);
  if (rc == 0) {
    if (a.key) options.manifest_sha256 = signed_sha256;
    report_begin("checking");
    rc = manifest_audit(t.manifest, &options, &result, err);
    report_end();
    if (rc && err->kind == ERR_INPUT) audit_target_hint(args->operand[0], "audit", &a.arena, err);
  }
  if (rc == 0 && a.n_found == 0) (void)audit_companion_is_whole(t.folder, t.name);
  if (rc == 0 && a.n_found > 0) {
    qsort(a.found, a.n_found, sizeof *a.found, compare_found);
    audit_tensors_name(t.folder, t.model, a.found, a.n_found, &a.arena);
    count_left(&a, &t);
  }
  if (rc == 0) (cli_flag(args, OPT_JSON) ? print_json : print_text)(&a, &result, &t);
  if (rc == 0 && a.n_found > 0) rc = ERR_FAIL;
  sign_key_free(a.key);
  TABLE_FREE(&a, found);
  arena_free(&a.arena);
  return rc;
}
