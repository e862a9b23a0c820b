// weir audit: are the files still what was written?
//
//   OUT.onnx | OUT.onnx.manifest.json
//        │ an unfinished seal beside it? ──▶ 75 before anything is read: nothing is whole yet
//        ▼
//   manifest_audit: every unit hashed again, damage noted
//        ▼
//   the .onnx itself is whole? its metadata says which tensors lie in the damaged ranges
//        │ digests per tensor beside it? ──▶ only those that differ
//
// The verdict is on standard output; a damaged model is not a failure of the audit, so the command
// reports it and gives exit code 1 itself.
#include "audit_tensors.h"
#include "commands.h"
#include "manifest.h"
#include "report.h"
#include "staging.h"
#include "stop.h"

#include <stdio.h>
#include <stdlib.h>

static const char suffix[] = ".manifest.json";

// The paths of one audit.
struct target {
  const char *manifest, *model; // as far as the user's folder
  const char *folder, *name;    // of the model
};

struct audit {
  struct arena arena;
  struct audit_found *found;
  size_t n, cap;
};

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  return n > k && strcmp(s + n - k, end) == 0;
}

// A manifest may have been given another name; then the model is not known, and only a manifest
// under its usual name can lead to tensors.
static struct target target_of(const char *path, struct arena *arena) {
  struct target t;
  bool manifest = ends_with(path, ".json");
  t.manifest = manifest ? path : arena_printf(arena, "%s%s", path, suffix);
  t.model = path;
  if (manifest) {
    size_t cut = ends_with(path, suffix) ? sizeof suffix - 1 : 0;
    t.model = arena_string(arena, span_of(path, strlen(path) - cut));
  }
  const char *slash = strrchr(t.model, '/');
  t.name = slash ? slash + 1 : t.model;
  t.folder = slash ? arena_string(arena, span_of(t.model, (size_t)(slash - t.model) + 1)) : ".";
  return t;
}

static int refuse_unfinished_seal(const struct target *t, struct err *err) {
  char staging[STAGING_NAME_MAX];
  enum staging_seal state;
  if (staging_find_seal(t->folder, t->name, staging, &state, err) < 0) return -1;
  if (state != STAGING_SEAL_UNFINISHED) return 0;
  err_fill(err, ERR_RETRY,
           "'%s' is not finished: the last renames out of '%s' are still to be made",
           quote_str(t->model).s, quote_str(staging).s);
  return err_hint(err,
                  "run the command that wrote it again with --resume ('weir clean %s' shows it)",
                  quote_str(t->folder).s);
}

// Called under a lock of the audit.
static void note_damage(void *ctx, const struct audit_damage *d) {
  struct audit *a = ctx;
  a->found = table_grow(a->found, &a->cap, a->n + 1, sizeof *a->found);
  a->found[a->n++] = (struct audit_found){.file = arena_string(&a->arena, span_str(d->file)),
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

// ---- the verdict --------------------------------------------------------------------------------

enum { TENSORS_SHOWN = 8 };

static void print_found(const struct audit_found *f) {
  printf("%s bytes %llu..%llu: %s\n", quote_str(f->file).s, (unsigned long long)f->off,
         (unsigned long long)(f->off + f->len), f->what);
  for (uint32_t i = 0; i < f->n_tensors && i < TENSORS_SHOWN; i++)
    printf("    tensor '%s'\n", quote_str(f->tensors[i]).s);
  if (f->n_tensors > TENSORS_SHOWN)
    printf("    and %u more tensors\n", f->n_tensors - TENSORS_SHOWN);
  if (f->narrowed && f->n_whole > 0)
    printf("    (%u other tensor%s there: whole, by digests of their own)\n", f->n_whole,
           f->n_whole == 1 ? "" : "s");
  else if (f->n_tensors == 0 && f->mapped)
    printf("    no tensor lies there\n");
}

static void print_text(const struct audit *a, const struct audit_result *r,
                       const struct target *t) {
  for (size_t i = 0; i < a->n; i++)
    print_found(&a->found[i]);
  const char *files = r->files == 1 ? "file" : "files", *units = r->shards == 1 ? "unit" : "units";
  if (a->n == 0)
    printf("%s: whole: %llu %s, %llu %s, %s\n", quote_str(t->model).s, (unsigned long long)r->files,
           files, (unsigned long long)r->shards, units, quote_bytes(r->bytes).s);
  else
    printf("%s: DAMAGED: %llu of %llu %s in %llu %s\n", quote_str(t->model).s,
           (unsigned long long)r->damaged, (unsigned long long)r->shards, units,
           (unsigned long long)r->files, files);
}

static void put_number(struct json_out *j, const char *key, uint64_t n) {
  json_key(j, key);
  json_uint(j, n);
}

static void put_text(struct json_out *j, const char *key, const char *s) {
  json_key(j, key);
  json_text(j, s);
}

static void put_found(struct json_out *j, const struct audit_found *f) {
  json_object(j);
  put_text(j, "file", f->file);
  put_number(j, "offset", f->off);
  put_number(j, "length", f->len);
  put_text(j, "what", f->what);
  json_key(j, "tensors");
  if (f->mapped) {
    json_array(j);
    for (uint32_t i = 0; i < f->n_tensors; i++)
      json_text(j, f->tensors[i]);
    json_end_array(j);
  } else {
    json_null(j);
  }
  json_key(j, "narrowed");
  json_bool(j, f->narrowed);
  put_number(j, "whole_tensors", f->n_whole);
  json_end_object(j);
  report_json_flush(j);
}

static void print_json(const struct audit *a, const struct audit_result *r,
                       const struct target *t) {
  struct json_out j = {.indent = 2};
  json_object(&j);
  put_text(&j, "manifest", t->manifest);
  put_text(&j, "subject", r->subject);
  json_key(&j, "whole");
  json_bool(&j, a->n == 0);
  put_number(&j, "files", r->files);
  put_number(&j, "units", r->shards);
  put_number(&j, "damaged_units", r->damaged);
  put_number(&j, "bytes", r->bytes);
  json_key(&j, "damage");
  json_array(&j);
  for (size_t i = 0; i < a->n; i++)
    put_found(&j, &a->found[i]);
  json_end_array(&j);
  json_end_object(&j);
  report_json_end(&j);
}

static int audit(struct audit *a, const struct target *t, const struct cli_args *args,
                 struct err *err) {
  const struct audit_options options = {.jobs = cli_count(args, OPT_JOBS),
                                        .stop = stop_watch(),
                                        .damage = note_damage,
                                        .tick = report_tick_bytes,
                                        .ctx = a};
  struct audit_result result = {0};
  report_begin("checking", 0);
  if (manifest_audit(t->manifest, &options, &result, err) < 0) {
    if (err->kind != ERR_INPUT) return -1;
    return err_hint(err, "weir writes one with every model, unless --no-manifest is given");
  }
  report_end();
  if (a->n > 0) {
    qsort(a->found, a->n, sizeof *a->found, compare_found);
    audit_tensors_name(t->folder, t->model, a->found, a->n, &a->arena);
  }
  if (cli_flag(args, OPT_JSON))
    print_json(a, &result, t);
  else
    print_text(a, &result, t);
  return a->n > 0 ? ERR_FAIL : 0;
}

int cmd_audit(const struct cli_args *args, struct err *err) {
  struct audit a = {0};
  struct target t = target_of(args->operand[0], &a.arena);
  int rc = refuse_unfinished_seal(&t, err);
  if (rc == 0) rc = audit(&a, &t, args, err);
  table_free(a.found, a.cap, sizeof *a.found);
  arena_free(&a.arena);
  return rc;
}
