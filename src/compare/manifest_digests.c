// Digests per tensor that weir wrote beside a model (OUT.onnx.tensors.jsonl), in place of reading it.
//
// Nothing is asked of the weights then, so all else is checked: the file's SHA-256 is the one in the
// manifest, the files of the model are in the manifest, with the sizes that it gives, and every line is about a
// tensor that lies where it says. What has no line is read. That the bytes are still those is taken
// on trust: 'weir audit' reads them.
#include "compare/diffing.h"

#include "base/again.h"
#include "json/json.h"
#include "stream/seal/manifest.h"

#include <stdio.h>
#include <stdlib.h>

enum { LINE_MAX_BYTES = 64 << 20 };

struct place_of {
  struct extent at;
  uint32_t tensor;
};

struct reading {
  struct manifest_digests *t;
  struct diffing_model *m;
  uint32_t side;
  struct manifest manifest;
  TABLE(struct place_of, places);
  char *line;
  size_t line_cap;
};

static int by_place(const void *pa, const void *pb) {
  const struct extent *a = &((const struct place_of *)pa)->at,
                      *b = &((const struct place_of *)pb)->at;
  if (a->file != b->file) return a->file < b->file ? -1 : 1;
  if (a->off != b->off) return a->off < b->off ? -1 : 1;
  return (a->len > b->len) - (a->len < b->len);
}

static void list_places(struct reading *r) {
  for (uint32_t i = 0; i < r->m->model.n_tensors; i++) {
    struct extent at;
    if (model_plain_place(&r->m->model, i, &at)) *TABLE_PUSH(r, places) = (struct place_of){at, i};
  }
  if (r->n_places) qsort(r->places, r->n_places, sizeof *r->places, by_place);
}

static uint32_t file_named(const struct reading *r, struct span name) {
  for (uint32_t f = 0; f < sources_count(r->m->sources); f++)
    if (span_is(name, sources_name(r->m->sources, f))) return f;
  return NO_ID;
}

static void take(struct reading *r, const struct json_value *v) {
  struct span file, hex;
  struct place_of key = {.tensor = 0};
  const struct json_value *list = json_get(v, "sha256");
  if (!json_as_string(json_get(v, "file"), &file) ||
      !json_as_uint(json_get(v, "offset"), &key.at.off) ||
      !json_as_uint(json_get(v, "length"), &key.at.len) || !json_is_array(list))
    return;
  key.at.file = file_named(r, file);
  const struct place_of *found = key.at.file == NO_ID || r->n_places == 0
                                     ? NULL
                                     : bsearch(&key, r->places, r->n_places, sizeof key, by_place);
  const size_t n = json_count(list);
  if (!found || n != (key.at.len + PLAN_UNIT_BYTES - 1) / PLAN_UNIT_BYTES) return;
  uint8_t(*digests)[32] = arena_alloc(&r->t->arena, (n + 1) * sizeof *digests);
  size_t k = 0;
  for (const struct json_value *x = json_first(list); x; x = json_next(x))
    if (!json_as_string(x, &hex) || !hex_decode(hex, digests[k++], 32)) return;
  // Tensors that share a place share its digests.
  while (found > r->places && by_place(found - 1, &key) == 0)
    found--;
  for (; found < r->places + r->n_places && by_place(found, &key) == 0; found++) {
    r->t->of[r->side][found->tensor] = (const uint8_t(*)[32])digests;
    r->t->n[r->side][found->tensor] = (uint32_t)n;
  }
}

static const char *read_lines(struct reading *r, FILE *file) {
  struct digest *sha = digest_new();
  uint8_t is[DIGEST_BYTES];
  const char *why = NULL;
  int ch = 0;
  while (ch != EOF && !why) {
    size_t n = 0;
    while ((ch = again_getc(file)) != EOF && ch != '\n' && n < LINE_MAX_BYTES) {
      r->line = table_grow(r->line, &r->line_cap, n + 2, 1);
      r->line[n++] = (char)ch;
    }
    if (n == LINE_MAX_BYTES) why = "a line is too long";
    digest_add(sha, r->line, n);
    if (ch == '\n') digest_add(sha, "\n", 1);
    if (n == 0 || why) continue;
    struct err malformed = {0};
    struct json_value *v = json_parse(span_of(r->line, n), "digests per tensor", &malformed);
    if (v)
      take(r, v);
    else
      why = "a line is not JSON";
    json_free(v);
  }
  digest_finish(sha, is);
  if (!why && memcmp(is, r->manifest.tensors_sha256, DIGEST_BYTES) != 0)
    why = "its SHA-256 is not the one in the manifest";
  return why;
}

static const char *check_sizes(const struct reading *r) {
  for (uint32_t f = 0; f < sources_count(r->m->sources); f++) {
    const uint32_t i = manifest_file_named(&r->manifest, span_str(sources_name(r->m->sources, f)));
    if (i == NO_ID) return "a file of the model is not in the manifest";
    if (sources_size(r->m->sources, f) != r->manifest.sizes[i])
      return "a file of the model has another size than the manifest says";
  }
  return NULL;
}

static const char *read_side(struct reading *r) {
  struct err ignored = {0};
  const char *base = sources_name(r->m->sources, 0), *why = "it has no readable manifest";
  struct folder dir = folder_open(HERE, sources_folder(r->m->sources), 0);
  if (!folder_is_open(dir)) return why;
  const struct manifest_names beside = manifest_names(base);
  if (manifest_read(&r->manifest,
                    &(struct manifest_at){dir, beside.manifest, beside.manifest, base, NULL},
                    &ignored) == 0) {
    FILE *file = file_stream(file_open(dir, beside.tensors, FILE_NO_WAIT | FILE_NO_LINK), "r");
    why = !r->manifest.lists_tensors || !file ? "it was written without --tensor-digests"
                                              : check_sizes(r);
    if (!why) why = read_lines(r, file);
    if (file) stream_close(file);
  }
  folder_close(&dir);
  return why;
}

int manifest_digests_read(struct manifest_digests *t, struct diffing *x, struct err *err) {
  (void)err;
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const size_t n = x->side[s].model.n_tensors + (size_t)1;
    t->of[s] = arena_zalloc(&t->arena, n * sizeof *t->of[s]);
    t->n[s] = arena_zalloc(&t->arena, n * sizeof *t->n[s]);
    struct reading r = {.t = t, .m = &x->side[s], .side = s};
    list_places(&r);
    const char *why = read_side(&r);
    if (why) {
      observer_notice(
          x->work.observer,
          "weir reads the tensors of '%s', since it cannot use the digests of its manifest: %s",
          quote_path(x->side[s].path).s, why);
      memset(t->of[s], 0, n * sizeof *t->of[s]);
    }
    TABLE_FREE(&r, places);
    table_free(r.line, r.line_cap, 1);
    manifest_free(&r.manifest);
  }
  return 0;
}

void manifest_digests_done(struct manifest_digests *t) {
  arena_free(&t->arena);
}
