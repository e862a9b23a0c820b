// Quantized tensors against a naive model of the formats, block by block from the formulas of
// kernels.h: random shapes, types, axes and operands, read whole, in pieces and at random ranges,
// with boxes down to less than a column and with and without the statistics of the run. Then what
// it costs: source bytes read for weights far larger than the budget, with control arms.
#include "chance.h"
#include "fake_io.h"
#include "kernels/kernels.h"
#include "platform/descriptor.h"
#include "stream/eval/core/eval_parts.h"
#include "stream/eval/eval.h"
#include "stream/staging/figure_sums.h"
#include "tensor_stats/second_moments.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

static const struct eval_cache_file nowhere;

enum { FILE_BYTES = 8 << 20, CASES = 1500, FAULT_CASES = 60, SIDE_MAX = 90 };

// ---- the model ---------------------------------------------------------------------------------

// A tensor as [outer, k, inner], all elements as float32, and what its quantization must be.
struct weight {
  enum dtype dtype;
  uint64_t outer, k, inner;
  float *v;
  struct recipe_quantization q;
  uint64_t block, blocks;
};

static float stored(enum dtype t, float x) {
  uint16_t half;
  if (t != DTYPE_FLOAT16) return x;
  kernels_f32_to_f16(&half, &x, 1);
  kernels_f16_to_f32(&x, &half, 1);
  return x;
}

static float at(const struct weight *w, uint64_t o, uint64_t k, uint64_t i) {
  return w->v[(o * w->k + k) * w->inner + i];
}

static double clamped(double x, double lo, double hi) {
  return x < lo ? lo : x > hi ? hi : x;
}

static void block_scale(const struct weight *w, uint64_t o, uint64_t b, uint64_t i, float *scale,
                        int *zero) {
  const bool nbits = w->q.format == FORMAT_NBITS;
  const float qmax = (float)((1 << w->q.bits) - 1), half = (float)(1 << (w->q.bits - 1));
  float lo = FLT_MAX, hi = -FLT_MAX;
  for (uint64_t k = b * w->block; k < w->k && k < (b + 1) * w->block; k++) {
    if (at(w, o, k, i) < lo) lo = at(w, o, k, i);
    if (at(w, o, k, i) > hi) hi = at(w, o, k, i);
  }
  if (w->q.symmetric) {
    *scale = stored(w->dtype, -(fabsf(hi) > fabsf(lo) ? hi : lo) / half);
    *zero = nbits ? (int)half : 0;
    return;
  }
  lo = lo < 0 ? lo : 0;
  hi = hi > 0 ? hi : 0;
  const float s = (hi - lo) / qmax;
  *zero = s != 0 ? (int)clamped(roundf((0 - lo) / s), 0, qmax) : 0;
  *scale = stored(w->dtype, s);
}

static int code_of(const struct weight *w, float v, float scale, int zero) {
  const float r = scale != 0 ? 1 / scale : 0, p = v * r;
  const int qmax = (1 << w->q.bits) - 1, half = 1 << (w->q.bits - 1);
  if (w->q.format == FORMAT_NBITS) return (int)clamped(roundf(p + (float)zero), 0, qmax);
  return w->q.symmetric ? (int)clamped(roundf(p), -half, half - 1)
                        : (int)clamped(roundf(p) + (float)zero, 0, qmax);
}

static void put_bits(uint8_t *out, uint64_t index, uint32_t bits, int x) {
  const uint64_t bit = index * bits;
  const int mask = (1 << bits) - 1;
  out[bit / 8] = (uint8_t)((out[bit / 8] & ~(mask << bit % 8)) | (x & mask) << bit % 8);
}

static void put_scale(const struct weight *w, uint8_t *out, uint64_t index, float x) {
  uint16_t half;
  if (w->dtype == DTYPE_FLOAT) {
    memcpy(out + index * 4, &x, 4);
    return;
  }
  if (w->dtype == DTYPE_FLOAT16)
    kernels_f32_to_f16(&half, &x, 1);
  else
    kernels_f32_to_bf16(&half, &x, 1);
  memcpy(out + index * 2, &half, 2);
}

// One column into the NBITS parts.
static void nbits_column(const struct weight *w, uint64_t o, uint64_t i, enum recipe_part part,
                         uint8_t *out) {
  const uint64_t n = o * w->inner + i, per = 8 / w->q.bits, blob = w->block * w->q.bits / 8;
  uint8_t *column = out + n * w->blocks * blob;
  uint8_t *zeros = out + n * ((w->blocks + per - 1) / per);
  for (uint64_t b = 0; part == PART_ZEROS && b < round_up(w->blocks, per); b++)
    put_bits(zeros, b, w->q.bits, 1 << (w->q.bits - 1));
  for (uint64_t b = 0; b < w->blocks; b++) {
    float scale;
    int zero;
    block_scale(w, o, b, i, &scale, &zero);
    if (part == PART_SCALES) put_scale(w, out, n * w->blocks + b, scale);
    if (part == PART_ZEROS) put_bits(zeros, b, w->q.bits, zero);
    for (uint64_t k = b * w->block; part == PART_CODES && k < w->k && k < (b + 1) * w->block; k++)
      put_bits(column, k, w->q.bits, code_of(w, at(w, o, k, i), scale, zero));
  }
  if (part != PART_CODES || w->k % per == 0 || w->k / per % (w->block) == 0) return;
  const uint8_t before = column[w->k / per - 1];
  const uint32_t keep = (uint32_t)(w->k % per) * w->q.bits;
  column[w->k / per] =
      (uint8_t)((column[w->k / per] & ((1u << keep) - 1)) | (before & ~((1u << keep) - 1)));
}

static void qdq_column(const struct weight *w, uint64_t o, uint64_t i, enum recipe_part part,
                       uint8_t *out) {
  for (uint64_t b = 0; b < w->blocks; b++) {
    float scale;
    int zero;
    block_scale(w, o, b, i, &scale, &zero);
    const uint64_t s = (o * w->blocks + b) * w->inner + i;
    if (part == PART_SCALES) put_scale(w, out, s, scale);
    if (part == PART_ZEROS) put_bits(out, s, w->q.bits, zero);
    for (uint64_t k = b * w->block; part == PART_CODES && k < w->k && k < (b + 1) * w->block; k++)
      put_bits(out, (o * w->k + k) * w->inner + i, w->q.bits,
               code_of(w, at(w, o, k, i), scale, zero));
  }
}

static uint8_t *model(const struct weight *w, enum recipe_part part, uint64_t bytes) {
  uint8_t *out = calloc(1, bytes + 1);
  for (uint64_t o = 0; o < w->outer; o++)
    for (uint64_t i = 0; i < w->inner; i++)
      if (w->q.format == FORMAT_NBITS)
        nbits_column(w, o, i, part, out);
      else
        qdq_column(w, o, i, part, out);
  return out;
}

// ---- cases -------------------------------------------------------------------------------------

struct world {
  struct recipes r;
  struct io io;
  struct weight w;
  uint32_t operand;
  int64_t dims[3];
  uint32_t rank;
};

static uint8_t *file_memory;

static float random_value(void) {
  static const float special[] = {0, -0.0f, 0.5f, -0.5f, 1.5f, 8, -8, 1e-30f, 65000};
  const uint32_t kind = chance_below(20);
  if (kind == 0) return special[chance_below(sizeof special / sizeof *special)];
  if (kind < 4) return (float)((int)chance_below(31) - 15) * 0.125f;
  return ((float)chance_below(1 << 20) / (1 << 19) - 1) * 3;
}

static void store(enum dtype t, const float *x, size_t n, uint8_t *out) {
  uint16_t half;
  for (size_t i = 0; i < n; i++) {
    if (t == DTYPE_FLOAT) {
      memcpy(out + i * 4, &x[i], 4);
      continue;
    }
    if (t == DTYPE_FLOAT16)
      kernels_f32_to_f16(&half, &x[i], 1);
    else
      kernels_f32_to_bf16(&half, &x[i], 1);
    memcpy(out + i * 2, &half, 2);
  }
}

static void widen(enum dtype t, const uint8_t *in, size_t n, float *out) {
  uint16_t half;
  for (size_t i = 0; i < n; i++) {
    memcpy(&half, in + i * 2, 2);
    if (t == DTYPE_FLOAT) memcpy(&out[i], in + i * 4, 4);
    if (t == DTYPE_FLOAT16) kernels_f16_to_f32(&out[i], &half, 1);
    if (t == DTYPE_BFLOAT16) kernels_bf16_to_f32(&out[i], &half, 1);
  }
}

// The elements in the file, in one raw piece, two, or (as float32) below a cast.
static void make_operand(struct world *s, uint64_t count) {
  struct weight *w = &s->w;
  const uint32_t width = w->dtype == DTYPE_FLOAT ? 4 : 2, kind = chance_below(4);
  const uint64_t off = 64 + chance_below(64);
  uint8_t *to = file_memory + off;
  store(w->dtype, w->v, (size_t)count, to);
  widen(w->dtype, to, (size_t)count, w->v);
  enum dtype dtype = w->dtype;
  uint64_t bytes = count * width;
  if (kind == 0 && dtype != DTYPE_FLOAT) {
    dtype = DTYPE_FLOAT;
    bytes = count * 4;
    memcpy(to, w->v, bytes);
  }
  const uint64_t cut = kind == 1 ? chance_below(bytes + 1) : bytes;
  struct piece p[2] = {
      {.at = {off, cut, 0}, .count = cut, .checkpoint = NO_ID},
      {.at = {off + cut, bytes - cut, 0}, .first = cut, .count = bytes - cut, .checkpoint = NO_ID}};
  fake_allow(&s->io, (struct extent){off, bytes, 0});
  s->operand =
      recipe_extent(&s->r, dtype, s->dims, s->rank, ENCODING_RAW, p, kind == 1 ? 2 : 1, NULL);
  s->operand = recipe_cast(&s->r, s->operand, w->dtype);
}

static void choose_shape(struct world *s) {
  struct weight *w = &s->w;
  const bool nbits = chance_below(2);
  s->rank = nbits ? 2 : 1 + chance_below(3);
  w->q = (struct recipe_quantization){.format = nbits ? FORMAT_NBITS : FORMAT_QDQ,
                                      .bits = 2u << chance_below(3),
                                      .symmetric = chance_below(2),
                                      .axis = chance_below(s->rank),
                                      .block = 16u << chance_below(chance_below(2) ? 5 : 2)};
  if (!nbits && chance_below(2)) w->q.block = chance_below(3) ? 1 + chance_below(20) : 0;
  for (uint32_t i = 0; i < s->rank; i++) {
    s->dims[i] = 1 + chance_below(s->rank == 3 ? 30 : SIDE_MAX);
    if (i == w->q.axis && chance_below(2)) s->dims[i] = 1 + chance_below(400);
    if (chance_below(30) == 0) s->dims[i] = 0;
  }
  w->outer = w->inner = 1;
  for (uint32_t i = 0; i < s->rank; i++) {
    if (i < w->q.axis) w->outer *= (uint64_t)s->dims[i];
    if (i > w->q.axis) w->inner *= (uint64_t)s->dims[i];
  }
  w->k = (uint64_t)s->dims[w->q.axis];
  w->block = w->q.block ? w->q.block : max_u64(w->k, 1);
  w->blocks = (w->k + w->block - 1) / w->block;
}

static void world_open(struct world *s, uint64_t number) {
  static const enum dtype floats[] = {DTYPE_FLOAT, DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16};
  memset(s, 0, sizeof *s);
  chance_seed = number * 7919;
  recipes_init(&s->r);
  s->io.memory = file_memory;
  s->w.dtype = floats[chance_below(4)];
  choose_shape(s);
  const uint64_t count = s->w.outer * s->w.k * s->w.inner;
  s->w.v = calloc(count + 1, sizeof *s->w.v);
  const bool zeros = chance_below(10) == 0;
  for (uint64_t i = 0; i < count && !zeros; i++)
    s->w.v[i] = random_value();
  make_operand(s, count);
}

static void world_close(struct world *s) {
  free(s->w.v);
  recipes_free(&s->r);
}

static struct eval *open_small(struct world *s) {
  struct eval *ev;
  struct err err = {0};
  assert_int_equal(eval_open(&ev, &s->r, &s->io, EVAL_BUDGET_MIN, &err), 0);
  if (chance_below(4))
    ev->box_memory_bytes = EVAL_BOXES * 512 + chance_below(chance_below(2) ? 2048 : 200000);
  return ev;
}

// By task t, or by none (NULL).
static void check_range(struct eval *ev, struct eval_task *t, uint32_t id, const uint8_t *want,
                        uint64_t off, size_t n, uint64_t number) {
  struct err err = {0};
  uint8_t *buf = malloc(n + 8);
  memset(buf, 0xa5, n + 8);
  if ((t ? eval_read(t, off, buf, n, &err) : recipe_read(ev, id, off, buf, n, &err)) != 0)
    fail_msg("case %llu: %s", (unsigned long long)number, err.msg);
  for (size_t i = 0; i < n; i++)
    if (buf[i] != want[off + i])
      fail_msg("case %llu: byte %llu of a read at %llu of %zu: %02x, not %02x",
               (unsigned long long)number, (unsigned long long)i, (unsigned long long)off, n,
               buf[i], want[off + i]);
  for (size_t i = n; i < n + 8; i++)
    assert_int_equal(buf[i], 0xa5);
  free(buf);
}

static void check_part(struct eval *ev, const struct world *s, enum recipe_part part, uint32_t id,
                       uint64_t number) {
  const uint64_t n = s->r.rows[id].bytes;
  uint8_t *want = model(&s->w, part, n);
  struct eval_task *t = NULL;
  if (chance_below(2))
    t = eval_begin(ev, id, 0, chance_below(2) ? n : n / 2, (struct eval_watcher){0});
  check_range(ev, t, id, want, 0, (size_t)n, number);
  for (uint64_t from = 0; from < n;) {
    const uint64_t some = min_u64(1 + chance_below(chance_below(2) ? 40 : n), n - from);
    check_range(ev, t, id, want, from, (size_t)some, number);
    from += some;
  }
  for (int i = 0; i < 4; i++) {
    const uint64_t from = chance_below(n + 1);
    check_range(ev, t, id, want, from, chance_below(n - from + 1), number);
  }
  free(want);
}

static void test_random_weights(void **state) {
  (void)state;
  static struct world s;
  for (uint64_t number = 0; number < CASES; number++) {
    world_open(&s, number);
    uint32_t ids[3];
    const uint32_t parts = s.w.q.symmetric ? 2 : 3;
    for (uint32_t i = 0; i < parts; i++)
      ids[i] = recipe_quantize(&s.r, s.operand, &s.w.q, (enum recipe_part)i);
    struct eval *ev = open_small(&s);
    struct eval_cache *cache =
        chance_below(2)
            ? eval_cache_open(chance_below(2) ? 100000 : 100 + chance_below(3000), nowhere)
            : NULL;
    eval_share(ev, cache);
    for (uint32_t i = 0; i < parts; i++)
      check_part(ev, &s, (enum recipe_part)i, ids[i], number);
    check_part(ev, &s, PART_SCALES, ids[PART_SCALES], number);
    eval_close(ev);
    eval_cache_close(cache);
    world_close(&s);
  }
}

// Fails the first, second, third … read until nothing is left to fail.
static void test_faults(void **state) {
  (void)state;
  static struct world s;
  for (uint64_t number = 0; number < FAULT_CASES; number++) {
    world_open(&s, number);
    const enum recipe_part part = chance_below(2) ? PART_CODES : PART_SCALES;
    const uint32_t id = recipe_quantize(&s.r, s.operand, &s.w.q, part);
    struct eval *ev = open_small(&s);
    const uint64_t n = s.r.rows[id].bytes;
    uint8_t *want = model(&s.w, part, n), *buf = malloc(n + 1);
    for (uint64_t k = 1;; k++) {
      struct err err = {0};
      s.io.calls = 0;
      s.io.fail_at = k;
      const int failed = recipe_read(ev, id, 0, buf, (size_t)n, &err);
      const bool injected = s.io.calls >= k;
      s.io.fail_at = 0;
      assert_int_equal(failed, injected ? -1 : 0);
      assert_int_equal(err.kind, injected ? ERR_IO : ERR_NONE);
      check_range(ev, NULL, id, want, 0, (size_t)n, number);
      if (!injected || k > 50) break;
      ev->root = NO_ID; // forget the boxes
    }
    free(want);
    free(buf);
    eval_close(ev);
    world_close(&s);
  }
}

// ---- rules without a model here ----------------------------------------------------------------
//
// Their arithmetic is tested with the kernels; here it is that pieces are the same as all at once.

static const struct {
  enum recipe_format format;
  enum kernels_rule rule;
} others[] = {{FORMAT_NBITS_RTN, KERNELS_RTN},
              {FORMAT_NBITS_KQUANT, KERNELS_K_QUANT},
              {FORMAT_NBITS_KQUANT_BEST, KERNELS_K_QUANT_BEST},
              {FORMAT_NBITS_HQQ, KERNELS_HQQ},
              {FORMAT_GATHER, KERNELS_GATHER}};

struct all_at_once {
  uint8_t *codes, *zeros;
  float *scales, *float_zeros;
};

// A matrix [k, inner] in one panel.
static void quantize_at_once(const struct weight *w, enum kernels_rule rule, const uint8_t *in,
                             struct all_at_once *x) {
  const enum kernels_float type = w->dtype == DTYPE_FLOAT     ? KERNELS_F32
                                  : w->dtype == DTYPE_FLOAT16 ? KERNELS_F16
                                                              : KERNELS_BF16;
  const struct kernels_block_format f = {.rule = (uint8_t)rule,
                                         .bits = (uint8_t)w->q.bits,
                                         .symmetric = w->q.symmetric,
                                         .in_type = (uint8_t)type,
                                         .scale_type = (uint8_t)type,
                                         .block = (size_t)w->block};
  const bool gather = rule == KERNELS_GATHER;
  const size_t n = (size_t)(w->blocks * w->inner), blob = (size_t)(w->block * w->q.bits / 8);
  x->codes = calloc(1, gather ? (size_t)(w->k * w->inner) + 1 : n * blob + 1);
  x->scales = calloc(n + 1, sizeof *x->scales);
  x->float_zeros = calloc(n + 1, sizeof *x->float_zeros);
  x->zeros = calloc(1, n + 1);
  const struct kernels_panel p = {.in = in,
                                  .in_stride = (size_t)w->inner,
                                  .n = (size_t)w->inner,
                                  .k = (size_t)w->k,
                                  .codes = x->codes,
                                  .codes_stride =
                                      gather ? (size_t)w->inner : (size_t)w->blocks * blob,
                                  .scales = x->scales,
                                  .zeros = rule == KERNELS_HQQ ? NULL : x->zeros,
                                  .float_zeros = rule == KERNELS_HQQ ? x->float_zeros : NULL,
                                  .blocks_stride = (size_t)w->blocks};
  kernels_quantize_columns(&p, &f);
}

// The part's bytes from what the kernel gave, column by column.
static uint8_t *arrange(const struct weight *w, enum kernels_rule rule, enum recipe_part part,
                        const struct all_at_once *x, uint64_t bytes) {
  uint8_t *out = calloc(1, bytes + 1);
  const bool gather = rule == KERNELS_GATHER;
  const uint64_t per = 8 / w->q.bits, row = (w->blocks + per - 1) / per;
  if (part == PART_CODES && !gather) memcpy(out, x->codes, bytes);
  for (uint64_t i = 0; part == PART_CODES && gather && i < w->k * w->inner; i++)
    put_bits(out, i, w->q.bits, x->codes[i]);
  for (uint64_t c = 0; part == PART_ZEROS && !gather && rule != KERNELS_HQQ && c < w->inner; c++)
    for (uint64_t b = 0; b < round_up(w->blocks, per); b++)
      put_bits(out + c * row, b, w->q.bits, 1 << (w->q.bits - 1));
  for (uint64_t c = 0; part != PART_CODES && c < w->inner; c++)
    for (uint64_t b = 0; b < w->blocks; b++) {
      const uint64_t from = c * w->blocks + b, to = gather ? b * w->inner + c : from;
      if (part == PART_SCALES || rule == KERNELS_HQQ)
        put_scale(w, out, to, part == PART_SCALES ? x->scales[from] : x->float_zeros[from]);
      else if (gather)
        put_bits(out, to, w->q.bits, x->zeros[from]);
      else
        put_bits(out + c * row, b, w->q.bits, x->zeros[from]);
    }
  return out;
}

static void check_other(struct world *s, size_t which, uint64_t number) {
  struct weight *w = &s->w;
  const enum kernels_rule rule = others[which].rule;
  struct all_at_once x;
  w->q.format = others[which].format;
  w->q.axis = 0;
  w->q.symmetric = rule != KERNELS_HQQ && chance_below(2);
  w->k = (uint64_t)s->dims[0];
  w->inner = (uint64_t)s->dims[1];
  w->block = w->q.block = 16u << chance_below(3);
  w->blocks = (w->k + w->block - 1) / w->block;
  uint8_t *in = malloc(w->k * w->inner * 4 + 1);
  store(w->dtype, w->v, (size_t)(w->k * w->inner), in);
  quantize_at_once(w, rule, in, &x);
  struct eval *ev = open_small(s);
  if (rule == KERNELS_GATHER) ev->box_memory_bytes = max_u64(ev->box_memory_bytes, 100000);
  for (int part = PART_CODES; part <= PART_ZEROS; part++) {
    if (!recipe_can_quantize(&s->r, s->operand, &w->q, (enum recipe_part)part)) continue;
    const uint32_t id = recipe_quantize(&s->r, s->operand, &w->q, (enum recipe_part)part);
    const uint64_t n = s->r.rows[id].bytes;
    uint8_t *want = arrange(w, rule, (enum recipe_part)part, &x, n);
    check_range(ev, NULL, id, want, 0, (size_t)n, number);
    for (uint64_t from = 0, some; from < n; from += some) {
      some = min_u64(1 + chance_below(n), n - from);
      check_range(ev, NULL, id, want, from, (size_t)some, number);
    }
    free(want);
  }
  eval_close(ev);
  free(in);
  free(x.codes);
  free(x.scales);
  free(x.zeros);
  free(x.float_zeros);
}

static void test_other_rules(void **state) {
  (void)state;
  static struct world s;
  uint32_t tried = 0;
  for (uint64_t number = 0; number < 300; number++) {
    world_open(&s, number);
    if (s.rank == 2 && s.dims[0] > 0 && s.dims[1] > 1) {
      check_other(&s, number % 4, number);
      tried++;
    }
    world_close(&s);
  }
  assert_true(tried > 100);
}

// A line of GATHER must fit: its codes cannot be made without their whole block.
static void test_gather_needs_room(void **state) {
  (void)state;
  static struct world s;
  static const int64_t dims[2] = {64, 300};
  static float w[64 * 300];
  struct err err = {0};
  struct eval *ev;
  uint8_t byte;
  memset(&s, 0, sizeof s);
  recipes_init(&s.r);
  const struct recipe_quantization q = {.format = FORMAT_GATHER, .bits = 4, .axis = 0};
  const uint32_t id = recipe_quantize(
      &s.r, recipe_bytes(&s.r, DTYPE_FLOAT, dims, 2, span_of(w, sizeof w)), &q, PART_CODES);
  assert_int_equal(eval_open(&ev, &s.r, &s.io, EVAL_BUDGET_MIN, &err), 0);
  assert_int_equal(recipe_read(ev, id, 0, &byte, 1, &err), 0);
  ev->box_memory_bytes = 4096;
  ev->root = NO_ID;
  assert_int_equal(recipe_read(ev, id, 0, &byte, 1, &err), -1);
  assert_int_equal(err.kind, ERR_USAGE);
  assert_int_equal(err.reason, REASON_LONG_BLOCKS);
  eval_close(ev);
  recipes_free(&s.r);
}

// ---- error figures -----------------------------------------------------------------------------

static void add_leaf(void *ctx, uint64_t leaf, const struct figures *f) {
  figure_sums_push(ctx, 7, leaf, f);
}

// A file that is gone when it is closed.
static struct file open_file(void *ctx) {
  (void)ctx;
  char name[] = "/tmp/weir-kept-XXXXXX";
  const int fd = mkstemp(name);
  assert_true(fd >= 0);
  unlink(name);
  return file_of_descriptor(fd);
}

// Codes made in `units` random ranges, in any order, and what they were told to be worth together;
// evaluators share a cache, or NULL.
static struct figures figures_with(struct world *s, uint32_t id, uint32_t units, bool small,
                                   struct eval_cache *cache) {
  struct err err = {0};
  struct figure_sums all = {0};
  struct eval *ev;
  const uint64_t n = s->r.rows[id].bytes;
  uint64_t cuts[8] = {0};
  uint8_t *buf = malloc(n + 1);
  for (uint32_t i = 1; i < units; i++)
    cuts[i] = cuts[i - 1] + chance_below(n - cuts[i - 1] + 1);
  cuts[units] = n;
  for (uint32_t k = 0; k < units; k++) {
    const uint32_t i = units - 1 - k;
    struct figure_sums one = {0};
    if (small)
      ev = open_small(s);
    else
      assert_int_equal(eval_open(&ev, &s->r, &s->io, 8 << 20, &err), 0);
    eval_share(ev, cache);
    const uint64_t len = cuts[i + 1] - cuts[i];
    struct eval_task *t = eval_begin(ev, id, cuts[i], len, (struct eval_watcher){add_leaf, &one});
    for (uint64_t at_byte = 0; at_byte < len;) {
      const uint64_t some = min_u64(1 + chance_below(n), len - at_byte);
      if (eval_read(t, cuts[i] + at_byte, buf, (size_t)some, &err) != 0) fail_msg("%s", err.msg);
      at_byte += some;
    }
    if (eval_end(t, &err) != 0) fail_msg("%s", err.msg);
    figure_sums_put_unit(&all, units - i, &one);
    figure_sums_free(&one);
    eval_close(ev);
  }
  struct figures f = {0};
  uint32_t segment;
  size_t at_sum = 0;
  bool whole;
  figure_sums_sort(&all);
  assert_true(figure_sums_next(&all, &at_sum, &segment, &f, &whole));
  assert_true(whole);
  assert_int_equal(segment, 7);
  assert_false(figure_sums_next(&all, &at_sum, &segment, &f, &whole));
  figure_sums_free(&all);
  free(buf);
  return f;
}

static struct figures figures_of(struct world *s, uint32_t id, uint32_t units, bool small) {
  return figures_with(s, id, units, small, NULL);
}

// Codes moved about behind: the same chunks, whether they are kept or not, or some of them.
static void check_turned(struct world *s, uint32_t id, const struct figures *want) {
  const uint32_t turned = recipe_transpose(&s->r, id, (const int64_t[]){1, 0});
  for (int i = 0; i < 3; i++) {
    const struct eval_cache_file file = {i == 1 ? open_file : NULL, NULL};
    struct eval_cache *cache = i ? eval_cache_open(40 + chance_below(6000), file) : NULL;
    const struct figures got = figures_with(s, turned, 1 + chance_below(5), chance_below(2), cache);
    assert_memory_equal(&got, want, sizeof got);
    eval_cache_close(cache);
  }
}

// The same from the formulas, in any order: close, not equal.
static struct figures naive_figures(const struct weight *w) {
  struct figures f = {.elements = w->outer * w->k * w->inner};
  for (uint64_t o = 0; o < w->outer; o++)
    for (uint64_t i = 0; i < w->inner; i++)
      for (uint64_t k = 0; k < w->k; k++) {
        float scale;
        int zero;
        block_scale(w, o, k / w->block, i, &scale, &zero);
        const float v = at(w, o, k, i);
        const float back = (float)(code_of(w, v, scale, zero) - zero) * scale;
        const double e =
            w->q.format == FORMAT_NBITS ? (double)(v - back) : (double)v - (double)back;
        f.vv += (double)v * (double)v;
        f.ee += e * e;
        f.ve += (double)v * e;
        if (fabs(e) > f.max_error) f.max_error = fabs(e);
      }
  return f;
}

static void test_figures(void **state) {
  (void)state;
  static struct world s;
  uint32_t tried = 0, n_turned = 0;
  for (uint64_t number = 0; number < 900; number++) {
    world_open(&s, number);
    const uint64_t count = s.w.outer * s.w.k * s.w.inner;
    if (count > 0) {
      const uint32_t id = recipe_quantize(&s.r, s.operand, &s.w.q, PART_CODES);
      const struct figures want = figures_of(&s, id, 1, false), naive = naive_figures(&s.w);
      assert_int_equal(want.elements, naive.elements);
      assert_true(fabs(want.vv - naive.vv) <= 1e-5 * naive.vv);
      assert_true(fabs(want.ee - naive.ee) <= 1e-5 * naive.vv);
      assert_true(fabs(want.ve - naive.ve) <= 1e-5 * naive.vv);
      assert_true(fabs(want.max_error - naive.max_error) <= 1e-6 * naive.max_error);
      for (uint32_t units = 1; units < 6; units++) {
        const struct figures got = figures_of(&s, id, units, true);
        if (memcmp(&got, &want, sizeof got) != 0)
          fail_msg("case %llu: figures of %u units differ", (unsigned long long)number, units);
      }
      if (s.rank == 2 && s.w.q.format == FORMAT_QDQ) {
        check_turned(&s, id, &want);
        n_turned++;
      }
      tried++;
    }
    world_close(&s);
  }
  assert_true(tried > 600 && n_turned > 50);
}

static void test_not_finite(void **state) {
  (void)state;
  static struct world s;
  static const int64_t dims[2] = {40, 50};
  for (uint32_t axis = 0; axis < 2; axis++) {
    struct err err = {0};
    struct eval *ev;
    struct figure_sums sums = {0};
    static uint8_t codes[40 * 50 * 4];
    float w[40 * 50];
    for (int i = 0; i < 40 * 50; i++)
      w[i] = (float)i;
    w[23 * 50 + 41] = axis ? NAN : INFINITY;
    memset(&s, 0, sizeof s);
    recipes_init(&s.r);
    const struct recipe_quantization q = {
        .format = FORMAT_NBITS, .bits = 4, .axis = axis, .block = 16};
    const uint32_t id = recipe_quantize(
        &s.r, recipe_bytes(&s.r, DTYPE_FLOAT, dims, 2, span_of(w, sizeof w)), &q, PART_CODES);
    assert_int_equal(eval_open(&ev, &s.r, &s.io, EVAL_BUDGET_MIN, &err), 0);
    struct eval_task *t =
        eval_begin(ev, id, 0, s.r.rows[id].bytes, (struct eval_watcher){add_leaf, &sums});
    assert_int_equal(eval_read(t, 0, codes, (size_t)s.r.rows[id].bytes, &err), -1);
    assert_int_equal(err.kind, ERR_FAIL);
    assert_non_null(strstr(err.msg, "element [23,41]"));
    figure_sums_free(&sums);
    eval_close(ev);
    recipes_free(&s.r);
  }
}

// ---- sums as text ------------------------------------------------------------------------------

static void test_sums_as_text(void **state) {
  (void)state;
  struct figure_sums sums = {0}, back = {0};
  struct json_out a = {0}, b = {0};
  struct err err = {0};
  for (uint64_t i = 5; i < 12; i++)
    figure_sums_push(
        &sums, 3, i,
        &(struct figures){
            .elements = i, .overflows = 2, .vv = 1.0 / 3, .ee = 1e-300, .max_error = 7});
  assert_int_equal(sums.n, 3); // 5, 6..7, 8..11
  figure_sums_write(&a, &sums);
  struct json_value *v = json_parse(span_of(a.text, a.n), "sums", &err);
  assert_true(figure_sums_read(v, &back));
  figure_sums_write(&b, &back);
  assert_string_equal(a.text, b.text);
  json_free(v);
  static const char *const bad[] = {
      "{}",
      "[1]",
      "[[1,2,3,4,5,6,7,8,9]]",
      "[[1,63,0,4,5,0,6,7,8,9]]",
      "[[1,40,\"1099511627776\",4,5,0,6,7,8,9]]",
      "[[4294967296,0,0,4,5,0,6,7,8,9]]",
      "[[0,0,0,4,5,0,6,7,8,\"x\"]]",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct figure_sums none = {0};
    v = json_parse(span_str(bad[i]), "sums", &err);
    assert_non_null(v);
    if (figure_sums_read(v, &none)) fail_msg("accepted: %s", bad[i]);
    assert_null(none.rows);
    json_free(v);
  }
  figure_sums_free(&sums);
  figure_sums_free(&back);
  json_done(&a);
  json_done(&b);
}

// ---- strided views of codes --------------------------------------------------------------------

static void test_turned_codes(void **state) {
  (void)state;
  static struct world s;
  static const int64_t swap[2] = {1, 0};
  for (uint64_t number = 0; number < 200; number++) {
    world_open(&s, number);
    if (s.rank == 2 && s.w.q.format == FORMAT_QDQ) {
      const uint32_t id = recipe_quantize(&s.r, s.operand, &s.w.q, PART_CODES);
      const uint32_t turned = recipe_transpose(&s.r, id, swap);
      const uint64_t n = s.r.rows[id].bytes, rows = (uint64_t)s.dims[0];
      uint8_t *codes = model(&s.w, PART_CODES, n), *want = calloc(1, n + 1);
      for (uint64_t i = 0; i < s.r.rows[id].count; i++) {
        const uint64_t from = i % rows * (uint64_t)s.dims[1] + i / rows;
        const uint32_t bits = s.w.q.bits;
        put_bits(want, i, bits, codes[from * bits / 8] >> from * bits % 8);
      }
      struct eval *ev = open_small(&s);
      struct eval_cache *cache = eval_cache_open(40 + chance_below(6000), nowhere);
      eval_share(ev, chance_below(2) ? cache : NULL);
      struct eval_task *t = NULL;
      if (chance_below(2)) t = eval_begin(ev, turned, 0, n, (struct eval_watcher){0});
      check_range(ev, t, turned, want, 0, (size_t)n, number);
      for (uint64_t at_byte = 0; at_byte < n; at_byte += 7)
        check_range(ev, t, turned, want, at_byte, (size_t)min_u64(7, n - at_byte), number);
      eval_close(ev);
      eval_cache_close(cache);
      free(codes);
      free(want);
    }
    world_close(&s);
  }
}

// ---- source bytes ------------------------------------------------------------------------------

enum { MIB = 1 << 20 };
static uint8_t tile[MIB];

static uint64_t calls, questions; // of the last reads(): of sources, and of the cache

// Source bytes read to make codes, scales and zeros of a made-up weight, as a multiple of the
// weight, in units of `unit` bytes of codes.
static double reads(int64_t rows, int64_t columns, uint32_t axis, size_t cache_bytes,
                    uint64_t unit) {
  static struct io io;
  struct recipes r;
  struct err err = {0};
  memset(&io, 0, sizeof io);
  recipes_init(&r);
  const int64_t dims[2] = {rows, columns};
  const uint64_t bytes = (uint64_t)(rows * columns) * 4;
  const struct piece p = {.at = {4096, bytes, FAKE_MADE_UP}, .count = bytes, .checkpoint = NO_ID};
  fake_allow(&io, p.at);
  const uint32_t w = recipe_extent(&r, DTYPE_FLOAT, dims, 2, ENCODING_RAW, &p, 1, NULL);
  const struct recipe_quantization q = {
      .format = FORMAT_NBITS, .bits = 4, .axis = axis, .block = 64};
  struct eval_cache *cache = cache_bytes ? eval_cache_open(cache_bytes, nowhere) : NULL;
  struct eval *ev;
  uint32_t ids[3];
  for (int i = 0; i < 3; i++)
    ids[i] = recipe_quantize(&r, w, &q, (enum recipe_part)i);
  assert_int_equal(eval_open(&ev, &r, &io, 2 * MIB, &err), 0);
  eval_share(ev, cache);
  for (int i = 0; i < 3; i++) {
    const uint64_t all = r.rows[ids[i]].bytes;
    for (uint64_t from = 0; from < all; from += unit) {
      const uint64_t end = min_u64(from + unit, all);
      struct eval_task *t = eval_begin(ev, ids[i], from, end - from, (struct eval_watcher){0});
      for (uint64_t off = from; off < end; off += MIB) {
        const size_t n = (size_t)min_u64(MIB, end - off);
        if (eval_read(t, off, tile, n, &err) != 0) fail_msg("%s", err.msg);
      }
    }
  }
  calls = io.calls;
  questions = cache ? eval_cache_questions(cache) : 0;
  eval_close(ev);
  eval_cache_close(cache);
  recipes_free(&r);
  return (double)io.bytes / (double)bytes;
}

// Tall thin weights whose columns are too large for a box: many short rows come with one read. Flat
// ones, of a million columns: a box asks about its neighbours, not about all that follow, and what it found
// goes to the cache, and comes from there, many columns at a time.
static void test_tall_and_flat(void **state) {
  (void)state;
  enum { LONG = 1 << 20 };
  (void)reads(2 * LONG, 3, 0, 0, 64 * MIB);
  const uint64_t half = calls;
  assert_true(half < LONG / 64);
  (void)reads(4 * LONG, 3, 0, 0, 64 * MIB);
  assert_true(calls <= 2 * half + half / 4);
  for (int64_t n = LONG / 2; n <= 2 * LONG; n *= 2) {
    assert_true(reads(1, n, 0, MIB, 64 * MIB) <= 3.01);
    assert_true(questions <= (uint64_t)n / 64);
  }
}

// Reads of a weight of rows x columns, cut along the axis, to make its codes turned, in two units
// by evaluators of their own that have a cache of so many bytes, or none, and tell figures.
static double turned_reads(int64_t rows, int64_t columns, uint32_t axis, uint32_t block,
                           size_t cache_bytes, bool has_file) {
  static struct io io;
  struct recipes r;
  struct err err = {0};
  memset(&io, 0, sizeof io);
  recipes_init(&r);
  const int64_t dims[2] = {rows, columns};
  const uint64_t bytes = (uint64_t)(rows * columns) * 4;
  const struct piece p = {.at = {0, bytes, FAKE_MEMORY}, .count = bytes, .checkpoint = NO_ID};
  assert_true(bytes <= FILE_BYTES);
  for (uint64_t i = 0; i < bytes / 4; i++)
    ((float *)(void *)file_memory)[i] = (float)chance_below(1 << 20) / (1 << 19) - 1;
  io.memory = file_memory;
  io.memory_bytes = bytes;
  fake_allow(&io, p.at);
  const struct recipe_quantization q = {
      .format = FORMAT_QDQ, .bits = 4, .axis = axis, .block = block, .symmetric = true};
  const uint32_t w = recipe_extent(&r, DTYPE_FLOAT, dims, 2, ENCODING_RAW, &p, 1, NULL);
  const uint32_t id =
      recipe_transpose(&r, recipe_quantize(&r, w, &q, PART_CODES), (const int64_t[]){1, 0});
  const struct eval_cache_file file = {has_file ? open_file : NULL, NULL};
  struct eval_cache *cache = cache_bytes ? eval_cache_open(cache_bytes, file) : NULL;
  struct figure_sums sums = {0};
  for (uint64_t unit = 0; unit < 2; unit++) {
    struct eval *ev;
    const uint64_t half = r.rows[id].bytes / 2, from = unit * half;
    assert_int_equal(eval_open(&ev, &r, &io, 2 * MIB, &err), 0);
    eval_share(ev, cache);
    struct eval_task *t = eval_begin(ev, id, from, half, (struct eval_watcher){add_leaf, &sums});
    for (uint64_t off = from; off < from + half; off += MIB) {
      const size_t n = (size_t)min_u64(MIB, from + half - off);
      if (eval_read(t, off, tile, n, &err) != 0) fail_msg("%s", err.msg);
    }
    assert_int_equal(eval_end(t, &err), 0);
    eval_close(ev);
  }
  figure_sums_free(&sums);
  eval_cache_close(cache);
  recipes_free(&r);
  return (double)io.bytes / (double)bytes;
}

static void test_turned_source_bytes(void **state) {
  (void)state;
  for (int file = 0; file < 2; file++) { // 1 MiB of codes, packed
    const size_t kept = file ? 64 << 10 : 3 * MIB;
    assert_true(turned_reads(1024, 2048, 1, 128, kept, file) <= 1.02);
    assert_true(turned_reads(1024, 2048, 1, 0, kept, file) <= 1.02);
    assert_true(turned_reads(1024, 2048, 0, 0, kept, file) <= 2.02); // ranges, then codes
  }
  assert_true(turned_reads(1024, 2048, 1, 128, 0, false) >= 2.9); // the controls: none, no room
  assert_true(turned_reads(1024, 2048, 1, 128, 64 << 10, false) >= 2.9);
}

static void test_source_bytes(void **state) {
  (void)state;
  for (uint32_t axis = 0; axis < 2; axis++) {
    // Scales of 2048 x 4096: 512 KiB, zeros 64 KiB.
    assert_true(reads(2048, 4096, axis, MIB, 64 * MIB) <= 1.0);
    assert_true(reads(2048, 4096, axis, MIB, MIB) <= 1.01); // columns that two units share
    assert_true(reads(2048, 4096, axis, 128 << 10, 64 * MIB) <= 2.1);
    assert_true(reads(2048, 4096, axis, 0, 64 * MIB) > 2.9); // the control: nothing is remembered
  }
}

// The factor of gptq, where nobody keeps its tiles: a gigabyte beside the memory that was given is refused before a tile is read.
static void test_a_factor_needs_room(void **state) {
  (void)state;
  struct recipes r = {0};
  struct io io = {0};
  struct eval *ev = NULL;
  struct err err = {0};
  uint8_t buf[64];
  enum { K = SECOND_MOMENTS_MOST, N = 16 };
  static const double one = 1;
  static const float w = 1;
  recipes_init(&r);
  const int64_t elements = (int64_t)second_moments_elements(K), dims[2] = {K, N};
  const struct recipe_quantization q = {
      .format = FORMAT_NBITS_GPTQ, .bits = 4, .axis = 0, .block = 32};
  const struct recipe_statistics by = {
      recipe_fill(&r, DTYPE_DOUBLE, &elements, 1, span_of(&one, sizeof one)), NO_ID};
  const uint32_t of = recipe_fill(&r, DTYPE_FLOAT, dims, 2, span_of(&w, sizeof w));
  assert_true(recipe_can_quantize_by(&r, of, &by, &q, PART_CODES));
  const uint32_t codes = recipe_quantize_by(&r, of, &by, &q, PART_CODES);
  assert_int_equal(eval_open(&ev, &r, &io, 64 * MIB, &err), 0);
  assert_int_equal(recipe_read(ev, codes, 0, buf, sizeof buf, &err), -1);
  assert_int_equal(err.kind, ERR_NOSPACE);
  assert_int_equal(err.reason, REASON_FACTOR);
  assert_non_null(strstr(err.msg, "16384 columns of second moments needs 1107296256 bytes"));
  eval_close(ev);
  recipes_free(&r);
}

int test_eval_quantize(void) {
  file_memory = malloc(FILE_BYTES);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_weights),
      cmocka_unit_test(test_faults),
      cmocka_unit_test(test_other_rules),
      cmocka_unit_test(test_gather_needs_room),
      cmocka_unit_test(test_figures),
      cmocka_unit_test(test_not_finite),
      cmocka_unit_test(test_sums_as_text),
      cmocka_unit_test(test_turned_codes),
      cmocka_unit_test(test_tall_and_flat),
      cmocka_unit_test(test_source_bytes),
      cmocka_unit_test(test_a_factor_needs_room),
      cmocka_unit_test(test_turned_source_bytes),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  free(file_memory);
  return failed;
}
