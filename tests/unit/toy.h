// A small job to test the stream's second half with: two source files in a folder of their own, and
// a plan built by hand that uses every kind of segment. What the outputs must hold is computed here
// the simple way, segment by segment.
//
//   src/in.onnx   70 000 bytes    src/in.data  3 000 000 bytes     dest/  empty
#ifndef WEIR_TEST_TOY_H
#define WEIR_TEST_TOY_H

#include "plan/plan_file.h"
#include "stream/run/run.h"
#include "stream/seal/manifest.h"
#include "stream/seal/seal.h"
#include "stream/staging/staging.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOY_ONNX = 70000, TOY_DATA = 3000000, TOY_ROWS = 300, TOY_COLUMNS = 200 };

struct toy {
  char root[64], src[80], dest[80];
  uint8_t *onnx, *data; // content of the sources
};

struct toy_job {
  struct sources *sources;
  struct plan plan;
};

// What a job shall be like.
struct toy_shape {
  const char *source_folder, *source_onnx, *source_data;
  const char *onnx_name, *data_name;
  uint64_t zeros;  // a long run of padding in the data file
  bool shrunk;     // a data file of codes by tensor, and nothing else
  uint8_t variant; // changes literals: another plan
};

static inline void toy_must(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "toy: %s: %s\n", what, strerror(errno));
  abort();
}

static inline void toy_write(const char *folder, const char *name, const void *bytes, size_t n) {
  char path[400];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  toy_must(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, path);
}

// The whole file; NULL if there is none.
static inline uint8_t *toy_read(const char *folder, const char *name, size_t *n) {
  char path[400];
  struct stat at;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  toy_must(fstat(fileno(f), &at) == 0, path);
  *n = (size_t)at.st_size;
  uint8_t *bytes = malloc(*n + 1);
  toy_must(bytes && fread(bytes, 1, *n, f) == *n, path);
  bytes[*n] = 0;
  fclose(f);
  return bytes;
}

static inline bool toy_exists(const char *folder, const char *name) {
  char path[400];
  struct stat at;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return lstat(path, &at) == 0;
}

// Removes a folder's content, two levels deep at most.
static inline void toy_empty(const char *folder) {
  DIR *list = opendir(folder);
  if (!list) return;
  for (struct dirent *e; (e = readdir(list));) {
    char path[600], inner[1000];
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (unlink(path) == 0) continue;
    DIR *sub = opendir(path);
    for (struct dirent *s; sub && (s = readdir(sub));) {
      snprintf(inner, sizeof inner, "%s/%s", path, s->d_name);
      unlink(inner);
    }
    if (sub) closedir(sub);
    rmdir(path);
  }
  closedir(list);
}

static inline void toy_open(struct toy *t) {
  const char *tmp = getenv("TMPDIR");
  snprintf(t->root, sizeof t->root, "%.40s/weir-toy-XXXXXX", tmp ? tmp : "/tmp");
  toy_must(mkdtemp(t->root) != NULL, t->root);
  snprintf(t->src, sizeof t->src, "%s/src", t->root);
  snprintf(t->dest, sizeof t->dest, "%s/dest", t->root);
  toy_must(mkdir(t->src, 0777) == 0 && mkdir(t->dest, 0777) == 0, t->root);
  t->onnx = malloc(TOY_ONNX);
  t->data = malloc(TOY_DATA);
  uint64_t x = 1;
  for (size_t i = 0; i < TOY_DATA; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    t->data[i] = (uint8_t)(x >> 56);
    if (i < TOY_ONNX) t->onnx[i] = (uint8_t)(x >> 48);
  }
  toy_write(t->src, "in.onnx", t->onnx, TOY_ONNX);
  toy_write(t->src, "in.data", t->data, TOY_DATA);
}

static inline void toy_close(struct toy *t) {
  toy_empty(t->dest);
  toy_empty(t->src);
  rmdir(t->dest);
  rmdir(t->src);
  rmdir(t->root);
  free(t->onnx);
  free(t->data);
}

// ---- the plan ----

static inline void toy_output(struct plan *p, const char *name) {
  *TABLE_PUSH(p, outputs) = (struct plan_output){.name = arena_string(&p->arena, span_str(name)),
                                                 .first_segment = p->n_segments};
}

static inline uint32_t toy_segment(struct plan *p, enum segment_kind kind, uint32_t ref,
                                   uint64_t at, uint64_t len) {
  struct plan_output *out = &p->outputs[p->n_outputs - 1];
  p->segments = table_grow(p->segments, &p->segments_cap, p->n_segments + 1, sizeof *p->segments);
  p->segments[p->n_segments] =
      (struct segment){.off = out->size, .len = len, .at = at, .ref = ref, .kind = kind};
  out->size += len;
  out->n_segments++;
  return p->n_segments++;
}

static inline void toy_literal(struct plan *p, const void *bytes, size_t n) {
  p->literals = table_grow(p->literals, &p->literals_cap, p->n_literals + n, 1);
  memcpy(p->literals + p->n_literals, bytes, n);
  toy_segment(p, SEGMENT_LITERAL, 0, p->n_literals, n);
  p->n_literals += n;
}

static inline void toy_tensor(struct plan *p, const char *name, uint32_t segment,
                              const int64_t *dims, uint32_t rank) {
  const struct segment *s = &p->segments[segment];
  int64_t *own = arena_alloc(&p->arena, rank * sizeof *own + 1);
  memcpy(own, dims, rank * sizeof *own);
  *TABLE_PUSH(p, tensors) = (struct plan_tensor){.name = name,
                                                 .output = p->n_outputs - 1,
                                                 .off = s->off,
                                                 .len = s->len,
                                                 .dtype = DTYPE_FLOAT,
                                                 .rank = rank,
                                                 .dims = own,
                                                 .segment = segment};
}

// Elements of in.data as a matrix, transposed.
static inline uint32_t toy_transposed(struct plan *p) {
  const struct piece piece = {.at = {.off = 400, .len = 4 * TOY_ROWS * TOY_COLUMNS, .file = 1},
                              .count = 4 * TOY_ROWS * TOY_COLUMNS,
                              .checkpoint = NO_ID};
  const uint32_t m = recipe_extent(p->recipes, DTYPE_FLOAT, (int64_t[]){TOY_ROWS, TOY_COLUMNS}, 2,
                                   ENCODING_RAW, &piece, 1, NULL);
  return recipe_transpose(p->recipes, m, (int64_t[]){1, 0});
}

static inline void toy_data_file(struct plan *p, const struct toy_shape *shape) {
  toy_output(p, shape->data_name);
  toy_literal(p, "literal:", 8);
  toy_literal(p, &shape->variant, 1);
  toy_segment(p, SEGMENT_ZERO, 0, 0, 4096 - 9);
  toy_tensor(p, "copied", toy_segment(p, SEGMENT_EXTENT, 1, 0, 2500000), (int64_t[]){625000}, 1);
  toy_segment(p, SEGMENT_ZERO, 0, 0, 1000 + shape->zeros);
  toy_tensor(p, "turned",
             toy_segment(p, SEGMENT_RECIPE, toy_transposed(p), 0, 4 * TOY_ROWS * TOY_COLUMNS),
             (int64_t[]){TOY_COLUMNS, TOY_ROWS}, 2);
  toy_segment(p, SEGMENT_EXTENT, 1, 2700001, 99999);
}

// A weight whose range must be known before the first of its codes is: in.data must be finite floats.
static inline void toy_shrunk_file(struct plan *p, const struct toy_shape *shape) {
  const int64_t n = TOY_DATA / 4;
  const struct piece piece = {
      .at = {.len = TOY_DATA, .file = 1}, .count = TOY_DATA, .checkpoint = NO_ID};
  const struct recipe_quantization q = {
      .format = FORMAT_SHRINK, .bits = 8, .axis = RECIPE_PER_TENSOR};
  const uint32_t of = recipe_extent(p->recipes, DTYPE_FLOAT, &n, 1, ENCODING_RAW, &piece, 1, NULL);
  toy_output(p, shape->data_name);
  toy_segment(p, SEGMENT_RECIPE, recipe_quantize(p->recipes, of, &q, PART_CODES), 0, (uint64_t)n);
}

enum { TOY_NAME_AT = 36 }; // of the data file's name in the .onnx, behind its length

// A model with one initializer, whose data is in the data file, and a long text: many short pieces, copies of the source and new ones
// by turns.
static inline void toy_onnx_file(struct plan *p, const struct toy_shape *shape) {
  static const uint8_t head[] = {0x08, 10, 0x42, 2, 0x10, 17}; // ir_version, opset_import
  static const uint8_t tensor[] = {0x08, 2, 0x10, 1, 0x42, 1, 'w', 0x70, 1, 0x6a};
  const size_t n = strlen(shape->data_name), entry = 12 + n;
  const size_t of_tensor = sizeof tensor + 1 + entry, of_graph = 3 + 2 + of_tensor;
  toy_output(p, shape->onnx_name);
  toy_literal(p, head, sizeof head);
  toy_literal(p, (uint8_t[]){0x3a, (uint8_t)of_graph, 0x12, 1, 'g', 0x2a, (uint8_t)of_tensor}, 7);
  toy_literal(p, tensor, sizeof tensor);
  toy_literal(p, (uint8_t[]){(uint8_t)entry}, 1);
  toy_literal(p, "\x0a\x08location\x12", 11);
  toy_literal(p, (uint8_t[]){(uint8_t)n}, 1);
  toy_literal(p, shape->data_name, n);
  enum { TEXT = 2000 * 28 + 10000 + 30 };
  toy_literal(p, (uint8_t[]){0x32, 0x80 | (TEXT & 0x7f), 0x80 | (TEXT >> 7 & 0x7f), TEXT >> 14}, 4);
  for (uint64_t i = 0; i < 2000; i++) {
    toy_literal(p, &(uint64_t){i * shape->variant}, 8);
    toy_segment(p, SEGMENT_EXTENT, 0, i * 25, 20);
  }
  toy_segment(p, SEGMENT_EXTENT, 0, 50000, 10000);
  toy_segment(p, SEGMENT_EXTENT, 1, 100, 30); // an inline copy of a bit of the sidecar
}

static inline int toy_no_sink(void *ctx, struct span text) {
  (void)ctx, (void)text;
  return 0;
}

static inline struct toy_shape toy_shape(const struct toy *t) {
  return (struct toy_shape){.source_folder = t->src,
                            .source_onnx = "in.onnx",
                            .source_data = "in.data",
                            .onnx_name = "x.onnx",
                            .data_name = "x.onnx.data",
                            .variant = 1};
}

static inline void toy_source(struct plan *p, struct sources *s, uint32_t file) {
  p->sources = table_grow(p->sources, &p->sources_cap, p->n_sources + 1, sizeof *p->sources);
  p->sources[p->n_sources++] =
      (struct plan_source){.name = sources_name(s, file), .size = sources_size(s, file)};
}

static inline void toy_begin(struct toy_job *j, const struct toy_shape *shape) {
  struct err err = {0};
  char path[400];
  uint32_t file;
  memset(j, 0, sizeof *j);
  snprintf(path, sizeof path, "%s/%s", shape->source_folder, shape->source_onnx);
  const struct sources_options options = {0};
  toy_must(sources_open(&j->sources, path, &options, &err) == 0, err.msg);
  toy_must(sources_add(j->sources, span_str(shape->source_data), &file, &err) == 0, err.msg);
  plan_own_recipes(&j->plan);
  toy_source(&j->plan, j->sources, 0);
  toy_source(&j->plan, j->sources, 1);
  j->plan.meta_sha256[0] = shape->variant;
  j->plan.passes = "[{\"name\":\"toy\",\"options\":{\"deep\":true}}]";
  j->plan.layout = "{\"align\":4096}";
  if (shape->shrunk) toy_shrunk_file(&j->plan, shape);
  if (!shape->shrunk) toy_data_file(&j->plan, shape);
  if (!shape->shrunk) toy_onnx_file(&j->plan, shape);
  toy_must(plan_file_write(&j->plan, toy_no_sink, NULL, &err) == 0, err.msg);
}

static inline void toy_end(struct toy_job *j) {
  plan_free(&j->plan);
  sources_close(j->sources);
}

// ---- what must come of it ----

static inline void toy_transpose(const struct toy *t, uint8_t *out) {
  for (size_t r = 0; r < TOY_ROWS; r++)
    for (size_t c = 0; c < TOY_COLUMNS; c++)
      memcpy(out + 4 * (c * TOY_ROWS + r), t->data + 400 + 4 * (r * TOY_COLUMNS + c), 4);
}

// The bytes of an output; from sources with the content that toy_open gave them.
static inline uint8_t *toy_expected(const struct toy *t, const struct plan *p, uint32_t output) {
  const struct plan_output *o = &p->outputs[output];
  uint8_t *all = calloc(1, o->size + 1);
  for (uint32_t i = o->first_segment; i < o->first_segment + o->n_segments; i++) {
    const struct segment *s = &p->segments[i];
    const uint8_t *source = s->ref == 0 ? t->onnx : t->data;
    if (s->kind == SEGMENT_LITERAL)
      memcpy(all + s->off, p->literals + s->at, s->len);
    else if (s->kind == SEGMENT_EXTENT)
      memcpy(all + s->off, source + s->at, s->len);
    else if (s->kind == SEGMENT_RECIPE)
      toy_transpose(t, all + s->off);
  }
  return all;
}

// Has the folder an output of this plan under its name, whole?
static inline bool toy_is_whole(const struct toy *t, const struct plan *p, uint32_t output,
                                const char *folder) {
  size_t n = 0;
  uint8_t *is = toy_read(folder, p->outputs[output].name, &n);
  uint8_t *must = toy_expected(t, p, output);
  const bool same = is && n == p->outputs[output].size && memcmp(is, must, n) == 0;
  free(is);
  free(must);
  return same;
}

// ---- steps ----

static inline struct staging_options toy_staging(const struct toy *t, bool resume) {
  return (struct staging_options){.dest_folder = t->dest,
                                  .onnx_name = "x.onnx",
                                  .resume_command = "toy --resume",
                                  .version = "toy 1",
                                  .resume = resume,
                                  .fresh = !resume};
}

static inline int toy_run(struct toy_job *j, struct staging *st, struct err *err) {
  const struct work_options options = {.jobs = 1, .mode = IO_SYNC, .memory = 4 << 20};
  struct run_stats stats;
  return run_plan(&j->plan, j->sources, st, &options, &stats, err);
}

static inline int toy_seal(struct toy_job *j, struct staging *st, bool replace,
                           struct seal_report *report, struct err *err) {
  static const char *const ignore[] = {"x.onnx.manifest.json"};
  const struct manifest_input in = {.plan = &j->plan,
                                    .unit_digests = (const uint8_t(*)[DIGEST_BYTES])st->digests,
                                    .ignore_paths = ignore,
                                    .n_ignore_paths = 1,
                                    .weir_version = "0"};
  struct json_out text = {0};
  int bad = manifest_write(&text, &in, err);
  const struct seal_options options = {
      .replace = replace, .manifest = text.text, .manifest_bytes = text.n};
  if (!bad) bad = seal_run(st, &j->plan, &options, report, err);
  json_done(&text);
  return bad;
}

#endif
