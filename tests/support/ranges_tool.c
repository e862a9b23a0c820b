// Ranges for tests that compare them with onnxruntime and NumPy.
//
//   ranges_tool find METHOD BINS FLAGS FILE.npy…    the range of one value, whose samples these are: type, min, max, and mean and
//                                                   deviation, as hex floats; FLAGS: of s (symmetric), m (moving average), or -
//   ranges_tool copy own|cache FILE                 a file of ranges, read and written anew to standard output
#include "ranges/range_method.h"
#include "verify/arrays/array_files.h"

#include <stdio.h>
#include <stdlib.h>

enum { PIECE = 1000 }; // elements a call: results must not depend on it

static int refuse(const struct err *err) {
  fprintf(stderr, "error %d: %s%s%s\n", (int)err->kind, err->msg, err->hint[0] ? "; " : "",
          err->hint);
  return 1;
}

static int each_piece(const struct array *x, void (*take)(void *ctx, const void *at, size_t n),
                      void *ctx, struct err *err) {
  uint8_t room[PIECE * sizeof(double)];
  const uint64_t width = dtype_bits(x->dtype) / 8;
  for (uint64_t i = 0; i < x->count; i += PIECE) {
    const size_t n = x->count - i < PIECE ? (size_t)(x->count - i) : PIECE;
    if (array_read(x, i * width, room, n * width, err)) return -1;
    take(ctx, room, n);
  }
  return 0;
}

struct reading {
  enum dtype type;
  struct kernels_extremes extremes;
  const struct kernels_bins *bins;
  uint64_t *counts;
};

static void take_extremes(void *ctx, const void *at, size_t n) {
  struct reading *r = ctx;
  kernels_tally_extremes(&r->extremes, r->type, at, n);
}

static void take_counts(void *ctx, const void *at, size_t n) {
  struct reading *r = ctx;
  kernels_tally_bins(r->counts, r->bins, r->type, at, n);
}

static int find(char **argv, int argc, struct arena *a, struct err *err) {
  struct range_how how = {.method = RANGES_MINMAX};
  struct range_seen seen = range_method_nothing();
  struct reading r = {.bins = NULL};
  struct range_bins bins;
  struct ranges_value v = {.name = span_str("x")};
  if (range_method_parse(&how, span_str(argv[0]), err)) return -1;
  how.bins = (uint32_t)atoi(argv[1]);
  how.symmetric = strchr(argv[2], 's') != NULL;
  how.moving_average = strchr(argv[2], 'm') != NULL;
  if (range_method_check(&how, err)) return -1;
  struct array *samples = arena_zalloc(a, (size_t)argc * sizeof *samples);
  float *least = arena_zalloc(a, (size_t)argc * sizeof *least);
  float *most = arena_zalloc(a, (size_t)argc * sizeof *most);
  for (int i = 3; i < argc; i++) {
    struct array_files *files;
    struct array_cases cases;
    if (array_files_read(&files, argv[i], ".", UINT64_C(1) << 30, a, &cases, err)) return -1;
    samples[i] = cases.list[0].inputs.list[0];
    r.type = v.type = samples[i].dtype;
    r.extremes = kernels_tally_nothing();
    if (each_piece(&samples[i], take_extremes, &r, err)) return -1;
    range_method_see(&seen, &r.extremes);
    if (r.extremes.numbers == 0) continue;
    least[seen.n_samples] = r.extremes.least;
    most[seen.n_samples++] = r.extremes.most;
  }
  seen.sample_least = least;
  seen.sample_most = most;
  if (range_method_counts(&how)) {
    range_method_bins(&bins, &how, &seen, v.type, a);
    r.bins = &bins.bins;
    r.counts = arena_zalloc(a, bins.bins.n * sizeof *r.counts);
    for (int i = 3; i < argc; i++)
      if (each_piece(&samples[i], take_counts, &r, err)) return -1;
  }
  range_method_find(&v, &how, &seen, r.bins ? &bins : NULL, r.counts);
  printf("%s %a %a %a %a\n", dtype_name(v.type), v.least, v.most, v.mean, v.deviation);
  return 0;
}

static int put(void *ctx, struct span text) {
  return fwrite(text.at, 1, text.n, ctx) == text.n ? 0 : -1;
}

static int copy(const char *form, const char *path, struct err *err) {
  struct ranges r;
  ranges_init(&r);
  int rc = ranges_read(&r, path, err);
  if (rc == 0)
    rc = strcmp(form, "own") == 0 ? ranges_write(&r, put, stdout)
                                  : ranges_write_cache(&r, put, stdout);
  ranges_free(&r);
  return rc;
}

int main(int argc, char **argv) {
  struct arena a = {0};
  struct err err = {0};
  int rc = 2;
  if (argc >= 6 && strcmp(argv[1], "find") == 0)
    rc = find(argv + 2, argc - 2, &a, &err);
  else if (argc == 4 && strcmp(argv[1], "copy") == 0)
    rc = copy(argv[2], argv[3], &err);
  arena_free(&a);
  return rc < 0 ? refuse(&err) : rc;
}
