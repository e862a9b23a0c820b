// Measuring against what a run tells of the codes that it makes, and (of columns) against the kernels
// run over whole matrices at once: equal to the last bit, however operands lie, and for any number
// of workers and any memory; what is read, and how often.
#include "kernels/kernels.h"
#include "sanitized.h"
#include "stream/eval/eval.h"
#include "stream/measure/measure.h"
#include "toy.h"

#include <float.h>
#include <math.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { FLOATS = 3 << 20, KINDS = 8 };

struct fixture {
  struct toy toy;
  struct sources *sources;
  struct recipes r;
  float *data;     // the source, FLOATS of them
  uint16_t *halfs; // another source: below 2 in magnitude as float16 and as bfloat16
};

static void open_fixture(struct fixture *f) {
  struct err err = {0};
  char path[200];
  uint32_t file;
  toy_open(&f->toy);
  f->data = malloc(FLOATS * sizeof *f->data);
  uint64_t x = 7;
  for (size_t i = 0; i < FLOATS; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    f->data[i] = (float)((double)(x >> 33) / (1u << 30) - 1) * (1 + (float)(i % 97));
  }
  f->halfs = malloc(FLOATS * sizeof *f->halfs);
  for (size_t i = 0; i < FLOATS; i++)
    f->halfs[i] = (uint16_t)(((uint32_t)i * 2654435761u) >> 16 & 0xbfff);
  toy_write(f->toy.src, "w.data", f->data, FLOATS * sizeof *f->data);
  toy_write(f->toy.src, "h.data", f->halfs, FLOATS * sizeof *f->halfs);
  snprintf(path, sizeof path, "%s/in.onnx", f->toy.src);
  toy_must(sources_open(&f->sources, path, &(struct sources_options){0}, &err) == 0, err.msg);
  toy_must(sources_add(f->sources, span_str("w.data"), &file, &err) == 0, err.msg);
  toy_must(sources_add(f->sources, span_str("h.data"), &file, &err) == 0, err.msg);
  recipes_init(&f->r);
}

static void close_fixture(struct fixture *f) {
  recipes_free(&f->r);
  sources_close(f->sources);
  free(f->data);
  free(f->halfs);
  toy_close(&f->toy);
}

static uint32_t tensor(struct fixture *f, enum dtype dtype, const int64_t *dims, uint32_t rank) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= (uint64_t)dims[i];
  const uint64_t n = count * dtype_bits(dtype) / 8;
  const struct piece p = {
      .at = {0, n, dtype == DTYPE_FLOAT ? 1 : 2}, .count = n, .checkpoint = NO_ID};
  return recipe_extent(&f->r, dtype, dims, rank, ENCODING_RAW, &p, 1, NULL);
}

// The quantizations that are asked of every operand, along `axis`; QDQ: some with blocks of all of
// it.
static void quantize_as(struct fixture *f, uint32_t of, uint32_t axis,
                        const enum recipe_format formats[KINDS], uint32_t codes[KINDS]) {
  static const struct recipe_quantization kinds[KINDS] = {
      {.bits = 4, .block = 32},  {.bits = 4, .block = 32, .symmetric = true},
      {.bits = 4, .block = 128}, {.bits = 8, .block = 256},
      {.bits = 2, .block = 16},  {.bits = 8, .block = 16, .symmetric = true},
      {.bits = 4, .block = 64},  {.bits = 2, .block = 128},
  };
  for (int i = 0; i < KINDS; i++) {
    struct recipe_quantization q = kinds[i];
    q.format = formats[i];
    q.axis = axis;
    if (q.format == FORMAT_QDQ && (i == 2 || i == 5)) q.block = 0;
    if (q.format == FORMAT_NBITS_HQQ) q.symmetric = false;
    codes[i] = recipe_quantize(&f->r, of, &q, PART_CODES);
    assert_true(measure_can(&f->r, codes[i]));
  }
}

static void quantize(struct fixture *f, uint32_t of, uint32_t axis, bool qdq,
                     uint32_t codes[KINDS]) {
  enum recipe_format formats[KINDS];
  for (int i = 0; i < KINDS; i++)
    formats[i] = qdq ? FORMAT_QDQ : FORMAT_NBITS;
  quantize_as(f, of, axis, formats, codes);
}

// ---- the plain way -----------------------------------------------------------------------------

struct matrix {
  const void *at;
  enum kernels_float type;
  uint64_t outer, k, inner;
};

static struct kernels_block_format format_of(const struct fixture *f, uint32_t codes,
                                             const struct matrix *x) {
  while (f->r.rows[codes].kind != RECIPE_QUANTIZE)
    codes = f->r.args[f->r.rows[codes].args];
  const struct recipe_quantization q = recipe_quantization_of(&f->r, codes);
  static const uint8_t rules[] = {
      [FORMAT_NBITS] = KERNELS_NBITS,          [FORMAT_NBITS_RTN] = KERNELS_RTN,
      [FORMAT_NBITS_KQUANT] = KERNELS_K_QUANT, [FORMAT_NBITS_KQUANT_BEST] = KERNELS_K_QUANT_BEST,
      [FORMAT_NBITS_HQQ] = KERNELS_HQQ,        [FORMAT_QDQ] = KERNELS_QDQ,
      [FORMAT_GATHER] = KERNELS_GATHER};
  const bool mlas = q.format == FORMAT_NBITS || q.format == FORMAT_QDQ;
  return (struct kernels_block_format){
      .rule = rules[q.format],
      .bits = (uint8_t)q.bits,
      .symmetric = q.symmetric,
      .in_type = (uint8_t)x->type,
      .scale_type = (uint8_t)(mlas && x->type == KERNELS_BF16 ? KERNELS_F32 : x->type),
      .block = q.block};
}

// One column, its elements gathered, through the rows kernel.
static struct kernels_sums column(const struct matrix *x, const struct kernels_block_format *format,
                                  uint64_t o, uint64_t j) {
  const size_t width = x->type == KERNELS_F32 ? 4 : 2;
  uint8_t *line = malloc(x->k * width);
  for (uint64_t k = 0; k < x->k; k++)
    memcpy(line + k * width, (const uint8_t *)x->at + ((o * x->k + k) * x->inner + j) * width,
           width);
  struct kernels_sums sums = {0};
  struct kernels_panel p = {.in = line, .in_stride = x->k, .n = 1, .k = x->k, .sums = &sums};
  if (format->block > 0) {
    kernels_quantize_rows(&p, format);
    free(line);
    return sums;
  }
  float lo = FLT_MAX, hi = -FLT_MAX, scale;
  uint8_t zero;
  kernels_range_rows(&p, x->type, &lo, &hi);
  kernels_scale_zero(format, lo, hi, &scale, &zero);
  p.scales = &scale;
  p.zeros = &zero;
  for (uint64_t k = 0; k < x->k; k += 256) { // lanes begin anew: measure.c says where
    p.in = line + k * width;
    p.k = (size_t)min_u64(256, x->k - k);
    kernels_codes_rows(&p, format);
  }
  free(line);
  return sums;
}

static struct figures plainly(const struct matrix *x, const struct kernels_block_format *format) {
  struct figures_tree tree = {0};
  for (uint64_t o = 0; o < x->outer; o++)
    for (uint64_t j = 0; j < x->inner; j++) {
      const struct kernels_sums s = column(x, format, o, j);
      const struct figures leaf = {.elements = x->k,
                                   .nonfinite = s.nonfinite,
                                   .vv = s.vv,
                                   .ee = s.ee,
                                   .ve = s.ve,
                                   .max_error = (double)s.max_error};
      figures_push(&tree, &leaf);
    }
  return figures_root(&tree);
}

// ---- cases -------------------------------------------------------------------------------------

static void measure(struct fixture *f, const uint32_t *codes, uint32_t n,
                    const struct work_options *options, struct figures *out,
                    struct measure_stats *stats) {
  struct err err = {0};
  if (measure_run(&f->r, f->sources, codes, n, options, out, stats, &err)) fail_msg("%s", err.msg);
}

static void add_leaf(void *tree, uint64_t leaf, const struct figures *f) {
  assert_int_equal(((struct figures_tree *)tree)->n, leaf);
  figures_push(tree, f);
}

// What a run tells of these codes: in two units, as many bytes at a time as a tile has.
static struct figures as_a_run_does(struct fixture *f, uint32_t codes) {
  static const struct io_options options = {.mode = IO_SYNC, .tiles = 1, .tile_bytes = 1 << 16};
  static uint8_t tile[1 << 16];
  struct figures_tree tree = {0};
  struct err err = {0};
  struct eval *ev;
  struct io *io;
  const uint64_t n = f->r.rows[codes].bytes, cuts[3] = {0, n / 3, n};
  toy_must(io_open(&io, &options, f->sources, &err) == 0, err.msg);
  toy_must(eval_open(&ev, &f->r, io, 2 << 20, &err) == 0, err.msg);
  for (int unit = 0; unit < 2; unit++) {
    struct eval_task *t = eval_begin(ev, codes, cuts[unit], cuts[unit + 1] - cuts[unit],
                                     (struct eval_watcher){add_leaf, &tree});
    for (uint64_t at = cuts[unit]; at < cuts[unit + 1]; at += sizeof tile)
      if (eval_read(t, at, tile, (size_t)min_u64(sizeof tile, cuts[unit + 1] - at), &err))
        fail_msg("%s", err.msg);
    if (eval_end(t, &err)) fail_msg("%s", err.msg);
  }
  eval_close(ev);
  io_close(io);
  return figures_root(&tree);
}

// As runs tell them, and as whole columns make them: one thread each, which ThreadSanitizer need not
// see.
static void check_plainly(struct fixture *f, uint32_t codes, const struct matrix *x,
                          const struct figures *is) {
  if (SANITIZED_THREADS && !sanitized_tests_all()) return;
  const struct figures told = as_a_run_does(f, codes);
  assert_memory_equal(is, &told, sizeof told);
  assert_true(told.ee > 0 && told.nonfinite == 0);
  assert_int_equal(told.elements, x->outer * x->k * x->inner);
  if (!measure_is_by_column(&f->r, codes)) return;
  const struct kernels_block_format format = format_of(f, codes, x);
  const struct figures must = plainly(x, &format);
  assert_memory_equal(is, &must, sizeof must);
}

// `reads`: of the operand, at most, where a quantization keeps its layout.
static void check(struct fixture *f, const uint32_t codes[KINDS], const struct matrix *x,
                  double reads) {
  static const struct work_options ways[] = {
      {.jobs = 1, .mode = IO_SYNC, .memory = 2 << 20},
      {.jobs = 3, .mode = IO_SYNC, .memory = 48 << 20},
      {.jobs = 2, .mode = IO_NULL, .memory = 5 << 20},
  };
  struct figures first[KINDS], got[KINDS];
  struct measure_stats stats;
  const uint64_t bytes = x->outer * x->k * x->inner * (x->type == KERNELS_F32 ? 4 : 2);
  measure(f, codes, KINDS, &ways[0], first, &stats);
  bool by_column = true;
  for (int i = 0; i < KINDS; i++) {
    check_plainly(f, codes[i], x, &first[i]);
    by_column = by_column && measure_is_by_column(&f->r, codes[i]);
  }
  if (by_column) assert_int_equal(stats.source_bytes_read, bytes);
  for (int w = 1; w < 3; w++) {
    measure(f, codes, KINDS, &ways[w], got, &stats);
    assert_memory_equal(got, first, sizeof first);
    // In 5 MiB lines do not fit where they are long: each quantization reads for itself.
    if ((double)stats.source_bytes_read > (w == 1 ? reads : 2 * KINDS) * (double)bytes)
      fail_msg("%.3f reads", (double)stats.source_bytes_read / (double)bytes);
  }
}

static void test_columns(void **state) {
  (void)state;
  struct fixture f = {0};
  uint32_t codes[KINDS];
  open_fixture(&f);
  const uint32_t w = tensor(&f, DTYPE_FLOAT, (int64_t[]){700, 2501}, 2);
  quantize(&f, w, 0, false, codes);
  check(&f, codes, &(struct matrix){f.data, KERNELS_F32, 1, 700, 2501}, 1);
  quantize(&f, w, 0, true, codes);
  check(&f, codes, &(struct matrix){f.data, KERNELS_F32, 1, 700, 2501}, 1);
  const uint32_t h = tensor(&f, DTYPE_BFLOAT16, (int64_t[]){515, 4100}, 2);
  quantize(&f, h, 0, false, codes);
  check(&f, codes, &(struct matrix){f.halfs, KERNELS_BF16, 1, 515, 4100}, 1);
  close_fixture(&f);
}

static void test_rows(void **state) {
  (void)state;
  struct fixture f = {0};
  uint32_t codes[KINDS];
  open_fixture(&f);
  const uint32_t w = tensor(&f, DTYPE_FLOAT, (int64_t[]){601, 1100}, 2);
  quantize(&f, recipe_transpose(&f.r, w, (int64_t[]){1, 0}), 0, false, codes);
  check(&f, codes, &(struct matrix){f.data, KERNELS_F32, 601, 1100, 1}, 1);
  quantize(&f, recipe_transpose(&f.r, w, (int64_t[]){1, 0}), 0, true, codes);
  check(&f, codes, &(struct matrix){f.data, KERNELS_F32, 601, 1100, 1}, 1);
  const uint32_t l = tensor(&f, DTYPE_FLOAT, (int64_t[]){3, 300001}, 2); // rows that are cut
  quantize(&f, l, 1, false, codes);
  check(&f, codes, &(struct matrix){f.data, KERNELS_F32, 3, 300001, 1}, 1);
  const uint32_t s = tensor(&f, DTYPE_FLOAT16, (int64_t[]){9000, 33}, 2);
  quantize(&f, s, 1, false, codes);
  check(&f, codes, &(struct matrix){f.halfs, KERNELS_F16, 9000, 33, 1}, 1);
  close_fixture(&f);
}

static void test_middle_axis(void **state) {
  (void)state;
  struct fixture f = {0};
  uint32_t codes[KINDS];
  open_fixture(&f);
  const uint32_t w = tensor(&f, DTYPE_FLOAT, (int64_t[]){7, 300, 150}, 3);
  quantize(&f, w, 1, true, codes);
  check(&f, codes, &(struct matrix){f.data, KERNELS_F32, 7, 300, 150}, 1);
  close_fixture(&f);
}

// The searches, beside each other and the default; K is no multiple of most blocks.
static void test_algorithms(void **state) {
  (void)state;
  static const enum recipe_format formats[KINDS] = {
      FORMAT_NBITS_RTN, FORMAT_NBITS_RTN, FORMAT_NBITS_KQUANT, FORMAT_NBITS_KQUANT,
      FORMAT_NBITS_HQQ, FORMAT_NBITS_RTN, FORMAT_NBITS,        FORMAT_NBITS_HQQ};
  struct fixture f = {0};
  uint32_t codes[KINDS];
  open_fixture(&f);
  const uint32_t w = tensor(&f, DTYPE_FLOAT, (int64_t[]){300, 250}, 2);
  quantize_as(&f, w, 0, formats, codes);
  check(&f, codes, &(struct matrix){f.data, KERNELS_F32, 1, 300, 250}, 1);
  quantize_as(&f, recipe_transpose(&f.r, w, (int64_t[]){1, 0}), 0, formats, codes);
  check(&f, codes, &(struct matrix){f.data, KERNELS_F32, 300, 250, 1}, 1);
  const uint32_t h = tensor(&f, DTYPE_FLOAT16, (int64_t[]){600, 70}, 2);
  quantize_as(&f, h, 0, formats, codes);
  check(&f, codes, &(struct matrix){f.halfs, KERNELS_F16, 1, 600, 70}, 1);
  close_fixture(&f);
}

// Tables: of rank 2 along the last axis, of rank 3 along the middle one.
static void test_gather(void **state) {
  (void)state;
  static const enum recipe_format formats[KINDS] = {FORMAT_GATHER, FORMAT_GATHER, FORMAT_GATHER,
                                                    FORMAT_GATHER, FORMAT_GATHER, FORMAT_GATHER,
                                                    FORMAT_QDQ,    FORMAT_GATHER};
  struct fixture f = {0};
  uint32_t codes[KINDS];
  open_fixture(&f);
  const uint32_t w = tensor(&f, DTYPE_FLOAT, (int64_t[]){601, 300}, 2);
  quantize_as(&f, w, 1, formats, codes);
  check(&f, codes, &(struct matrix){f.data, KERNELS_F32, 601, 300, 1}, 1);
  const uint32_t h = tensor(&f, DTYPE_BFLOAT16, (int64_t[]){5, 300, 70}, 3);
  quantize_as(&f, h, 1, formats, codes);
  check(&f, codes, &(struct matrix){f.halfs, KERNELS_BF16, 5, 300, 70}, 1);
  close_fixture(&f);
}

// Several operands in one call, some asked for twice, one empty: answers come in the order of the
// questions, and every operand is read once.
static void test_many(void **state) {
  (void)state;
  struct fixture f = {0};
  uint32_t a[KINDS], b[KINDS], mixed[2 * KINDS + 2];
  struct figures fa[KINDS], fb[KINDS], all[2 * KINDS + 2];
  struct measure_stats stats;
  const struct work_options options = {.jobs = 2, .mode = IO_SYNC, .memory = 8 << 20};
  open_fixture(&f);
  quantize(&f, tensor(&f, DTYPE_FLOAT, (int64_t[]){200, 300}, 2), 0, false, a);
  quantize(&f, tensor(&f, DTYPE_FLOAT, (int64_t[]){300, 200}, 2), 1, false, b);
  measure(&f, a, KINDS, &options, fa, &stats);
  measure(&f, b, KINDS, &options, fb, &stats);
  for (int i = 0; i < KINDS; i++) {
    mixed[2 * i] = b[KINDS - 1 - i];
    mixed[2 * i + 1] = a[i];
  }
  uint32_t none[KINDS];
  quantize(&f, tensor(&f, DTYPE_FLOAT, (int64_t[]){0, 40}, 2), 0, false, none);
  mixed[2 * KINDS] = a[0];
  mixed[2 * KINDS + 1] = none[0];
  measure(&f, mixed, 2 * KINDS + 2, &options, all, &stats);
  assert_int_equal(stats.source_bytes_read, 2 * 200 * 300 * 4);
  for (int i = 0; i < KINDS; i++) {
    assert_memory_equal(&all[2 * i], &fb[KINDS - 1 - i], sizeof *all);
    assert_memory_equal(&all[2 * i + 1], &fa[i], sizeof *all);
  }
  assert_memory_equal(&all[2 * KINDS], &fa[0], sizeof *all);
  assert_memory_equal(&all[2 * KINDS + 1], &(struct figures){0}, sizeof *all);
  measure(&f, NULL, 0, &options, NULL, &stats);
  assert_int_equal(stats.source_bytes_read, 0);
  close_fixture(&f);
}

// Elements that are not finite are counted, whatever the format, and make the sums NaN or infinite.
static void test_not_finite(void **state) {
  (void)state;
  struct fixture f = {0};
  uint32_t codes[2 * KINDS];
  struct figures out[2 * KINDS];
  struct measure_stats stats;
  const struct work_options options = {.jobs = 2, .mode = IO_SYNC, .memory = 8 << 20};
  open_fixture(&f);
  f.data[12345] = INFINITY;
  f.data[54321] = NAN;
  toy_write(f.toy.src, "w.data", f.data, FLOATS * sizeof *f.data);
  struct err err = {0};
  char path[200];
  uint32_t file;
  sources_close(f.sources);
  snprintf(path, sizeof path, "%s/in.onnx", f.toy.src);
  toy_must(sources_open(&f.sources, path, &(struct sources_options){0}, &err) == 0, err.msg);
  toy_must(sources_add(f.sources, span_str("w.data"), &file, &err) == 0, err.msg);
  const uint32_t w = tensor(&f, DTYPE_FLOAT, (int64_t[]){300, 400}, 2);
  quantize(&f, w, 0, false, codes);
  quantize(&f, w, 1, true, codes + KINDS);
  measure(&f, codes, 2 * KINDS, &options, out, &stats);
  for (int i = 0; i < 2 * KINDS; i++) {
    assert_int_equal(out[i].nonfinite, 2);
    assert_int_equal(out[i].elements, 300 * 400);
    assert_false(isfinite(out[i].vv) || isfinite(out[i].ee));
  }
  close_fixture(&f);
}

static void test_stop_and_change(void **state) {
  (void)state;
  struct fixture f = {0};
  uint32_t codes[KINDS];
  struct figures out[KINDS];
  struct measure_stats stats;
  struct err err = {0};
  int stop = 1;
  struct work_options options = {.jobs = 2, .mode = IO_SYNC, .memory = 8 << 20, .stop = &stop};
  open_fixture(&f);
  quantize(&f, tensor(&f, DTYPE_FLOAT, (int64_t[]){200, 300}, 2), 0, false, codes);
  assert_int_equal(measure_run(&f.r, f.sources, codes, KINDS, &options, out, &stats, &err), -1);
  assert_int_equal(err.kind, ERR_RETRY);
  stop = 0;
  err = (struct err){0};
  toy_write(f.toy.src, "w.data", f.data, 1000); // shorter than the tensor
  assert_int_equal(measure_run(&f.r, f.sources, codes, KINDS, &options, out, &stats, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT);
  close_fixture(&f);
}

int test_measure(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_columns),     cmocka_unit_test(test_rows),
      cmocka_unit_test(test_middle_axis), cmocka_unit_test(test_algorithms),
      cmocka_unit_test(test_gather),      cmocka_unit_test(test_many),
      cmocka_unit_test(test_not_finite),  cmocka_unit_test(test_stop_and_change),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
