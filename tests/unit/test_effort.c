// The time that is left, told of runs that never ran: a clock that is only counted on goes as whole runs
// went (processor time of one worker, by kind of work), and what effort.h and progress.h make of it must
// come true within a factor of 1.5 from the first tenth of the time on. Counted in bytes it does not: that
// is the control.
#include "cli/progress.h"
#include "stream/run/effort.h"
#include "tensor_stats/second_moments.h"
#include "toy.h"

#include <setjmp.h>
#include <stdarg.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

enum { MIB = 1 << 20, K = 4096, N = 1024, WEIGHTS = 20 };

// Nanoseconds for each byte of the operand, of a run that does nothing else: its reading, the search, and
// hashing and writing what comes of it.
static const struct kind {
  const char *name;
  enum recipe_format format;
  uint32_t bits, block;
  bool cast;
  double ns;
} kinds[] = {
    {"default 2", FORMAT_NBITS, 2, 64, false, 0.37},
    {"default 4", FORMAT_NBITS, 4, 64, false, 0.45},
    {"default 4, blocks of 16", FORMAT_NBITS, 4, 16, false, 0.57},
    {"default 8", FORMAT_NBITS, 8, 64, false, 0.61},
    {"rtn 4", FORMAT_NBITS_RTN, 4, 64, false, 1.38},
    {"rtn 8", FORMAT_NBITS_RTN, 8, 64, false, 1.61},
    {"k_quant 2", FORMAT_NBITS_KQUANT, 2, 64, false, 3.55},
    {"k_quant 4", FORMAT_NBITS_KQUANT, 4, 64, false, 3.73},
    {"k_quant 4, blocks of 16", FORMAT_NBITS_KQUANT, 4, 16, false, 5.30},
    {"k_quant 8", FORMAT_NBITS_KQUANT, 8, 64, false, 4.20},
    {"hqq 4", FORMAT_NBITS_HQQ, 4, 64, false, 1.82},
    {"hqq 4, blocks of 256", FORMAT_NBITS_HQQ, 4, 256, false, 2.61},
    {"qdq 4", FORMAT_QDQ, 4, 64, false, 0.81},
    {"shrink", FORMAT_SHRINK, 8, 0, false, 0.63},
    {"shrink, dequantize", FORMAT_AFFINE, 8, 0, false, 2.74},
    {"levels", FORMAT_LEVELS, 8, 0, false, 3.50},
    {"linear", FORMAT_LINEAR, 8, 0, false, 0.65},
    {"cast", FORMAT_NBITS, 0, 0, true, 0.67},
};
static const double ns_of_copying = 0.93; // a byte

struct sim {
  struct plan p;
  struct arena arena;
  double *ns; // by segment, for each byte of the output
};

static uint32_t weight(struct recipes *r, uint64_t off) {
  const int64_t dims[2] = {K, N};
  const struct piece piece = {.at = {.file = 0, .off = off, .len = (uint64_t)K * N * 4}};
  return recipe_extent(r, DTYPE_FLOAT, dims, 2, ENCODING_RAW, &piece, 1, NULL);
}

static void add(struct sim *s, enum segment_kind kind, uint32_t ref, uint64_t len, double ns) {
  toy_segment(&s->p, kind, ref, 0, len);
  s->ns[s->p.n_segments - 1] = ns;
}

static void add_weight(struct sim *s, const struct kind *kind, uint64_t off) {
  struct recipes *r = s->p.recipes;
  const uint32_t of = weight(r, off);
  const double source = (double)r->rows[of].bytes;
  const bool blocks = kind->block > 0;
  const struct recipe_quantization q = {
      .format = kind->format,
      .bits = kind->format == FORMAT_LEVELS ? 0 : kind->bits,
      .block = kind->block,
      .axis = blocks ? 0 : RECIPE_PER_TENSOR,
      .levels = kind->format == FORMAT_LEVELS ? 256 : 0,
      .type = kind->format == FORMAT_LINEAR ? DTYPE_UINT8 : DTYPE_UNDEFINED,
  };
  const uint32_t codes =
      kind->cast ? recipe_cast(r, of, DTYPE_FLOAT16) : recipe_quantize(r, of, &q, PART_CODES);
  const uint64_t bytes = r->rows[codes].bytes;
  uint64_t small = 0;
  uint32_t scales = NO_ID;
  if (!kind->cast && kind->format != FORMAT_LEVELS) {
    scales = recipe_quantize(r, of, &q, PART_SCALES);
    small = r->rows[scales].bytes;
  }
  const double written = (double)small * ns_of_copying;
  add(s, SEGMENT_RECIPE, codes, bytes, (kind->ns * source - written) / (double)bytes);
  if (small) add(s, SEGMENT_RECIPE, scales, small, ns_of_copying);
}

// `copied` in ten of the bytes are copied, before, behind or in turn.
static void build(struct sim *s, const struct kind *kind, uint32_t copied, uint32_t order) {
  *s = (struct sim){0};
  plan_own_recipes(&s->p);
  s->ns = arena_alloc(&s->arena, 16 * WEIGHTS * sizeof *s->ns);
  toy_output(&s->p, "x.data");
  for (uint32_t i = 0; i < WEIGHTS; i++) {
    const uint64_t len = (uint64_t)K * N * 4;
    const bool copies = order == 0   ? i < WEIGHTS * copied / 10
                        : order == 1 ? i >= WEIGHTS - WEIGHTS * copied / 10
                                     : i % 10 < copied;
    if (copies)
      add(s, SEGMENT_EXTENT, 0, len, ns_of_copying);
    else
      add_weight(s, kind, i * len);
  }
}

static void demolish(struct sim *s) {
  plan_free(&s->p);
  arena_free(&s->arena);
}

static double seconds_of(const struct sim *s, uint64_t off, uint64_t n) {
  double ns = 0;
  while (n > 0) {
    const uint32_t i = plan_segment_at(&s->p, 0, off);
    const struct segment *segment = &s->p.segments[i];
    const uint64_t here = min_u64(n, segment->off + segment->len - off);
    ns += s->ns[i] * (double)here;
    off += here;
    n -= here;
  }
  return ns / 1e9;
}

// The worst factor between what was told and what came, from a tenth of the time on. The clock is slowed
// down, so that whole seconds do not round.
static double worst_factor(const struct sim *s, bool by_work) {
  const struct effort effort = effort_of_plan(&s->p, (struct arena *)&s->arena);
  const uint64_t size = s->p.outputs[0].size;
  const double all = 1e4, scale = all / seconds_of(s, 0, size);
  struct progress p = {.told = {.bytes_total = size}};
  double worst = 1;
  p.told.work_total = by_work ? effort_total(&effort) : (double)size;
  for (uint64_t off = 0; off < size;) {
    const uint64_t n = min_u64(MIB, size - off);
    p.seconds += seconds_of(s, off, n) * scale;
    p.told.bytes_done += n;
    p.told.work_done += by_work ? effort_between(&effort, 0, off, n) : (double)n;
    off += n;
    const uint64_t left = progress_left(&p);
    if (p.seconds < all / 10 || p.seconds > 0.99 * all || left == UINT64_MAX) continue;
    const double factor = (double)left / (all - p.seconds);
    worst = factor > worst ? factor : 1 / factor > worst ? 1 / factor : worst;
  }
  return worst;
}

static void test_time_left_comes_true(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (uint32_t copied = 0; copied < 10; copied += 3)
      for (uint32_t order = 0; order < 3; order++) {
        struct sim s;
        build(&s, &kinds[k], copied, order);
        const double worst = worst_factor(&s, true);
        if (worst > 1.5)
          fail_msg("%s, %u0 %% copied, order %u: off by a factor of %.2f", kinds[k].name, copied,
                   order, worst);
        demolish(&s);
      }
}

// What the figures are for: a search behind weights that are copied.
static void test_bytes_are_no_measure(void **state) {
  (void)state;
  struct sim s;
  build(&s, &kinds[8], 3, 0);
  assert_int_equal(kinds[8].format, FORMAT_NBITS_KQUANT);
  assert_true(worst_factor(&s, false) > 4);
  demolish(&s);
}

// ---- a range that is read first ----------------------------------------------------------------

// The time that the first read takes of each byte of the operand, of the kinds that have one.
static double ns_of_look(const struct kind *kind) {
  return kind->block > 0 || kind->cast ? 0 : 0.25;
}

// One weight, of which no byte is there for the first part of the time: what is told, and the worst
// factor from a tenth of the time on. Looks that are not told of are the control.
static double worst_of_giant(const struct kind *kind, bool told) {
  enum { PARTS = 4096 };
  struct sim s = {0};
  plan_own_recipes(&s.p);
  s.ns = arena_alloc(&s.arena, 4 * sizeof *s.ns);
  toy_output(&s.p, "x.data");
  add_weight(&s, kind, 0);
  struct effort e = effort_of_plan(&s.p, &s.arena);
  const struct recipes *r = s.p.recipes;
  const uint32_t of = r->args[r->rows[s.p.segments[0].ref].args];
  const uint64_t bytes = r->rows[of].bytes, size = s.p.outputs[0].size;
  const double look = ns_of_look(kind) / kind->ns, all = 1e4;
  struct progress p = {.told = {.bytes_total = size, .work_total = effort_total(&e)}};
  double worst = 1, last = 0;
  for (uint64_t i = 0; i < 2 * PARTS; i++) {
    const bool looks = i < PARTS;
    const uint64_t at = size * (i % PARTS) / PARTS, n = size * (i % PARTS + 1) / PARTS - at;
    if (looks && told) p.told.work_done += effort_looked(&e, of, bytes / PARTS);
    if (!looks) p.told.work_done += effort_made(&e, 0, at, n);
    p.seconds += all / PARTS * (looks ? look : 1 - look);
    assert_true(p.told.work_done >= last);
    last = p.told.work_done;
    const uint64_t left = progress_left(&p);
    if (p.seconds < all / 10 || p.seconds > 0.99 * all) continue;
    const double factor = left == UINT64_MAX ? 1e9 : (double)left / (all - p.seconds);
    worst = factor > worst ? factor : 1 / factor > worst ? 1 / factor : worst;
  }
  const double whole = effort_total(&e);
  assert_true(last > whole * 0.999999 && last < whole * 1.000001);
  demolish(&s);
  return worst;
}

static void test_looks_come_true(void **state) {
  (void)state;
  unsigned n = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (ns_of_look(&kinds[k]) == 0) continue;
    const double worst = worst_of_giant(&kinds[k], true);
    if (worst > 1.5) fail_msg("%s: off by a factor of %.2f", kinds[k].name, worst);
    n++;
  }
  assert_int_equal(n, 4);
  assert_int_equal(kinds[13].format, FORMAT_SHRINK);
  assert_true(worst_of_giant(&kinds[13], false) > 2);
}

// A look at what was made already (a resumed run looks again), and one past the end, count nothing.
static void test_looks_never_count_twice(void **state) {
  (void)state;
  struct sim s = {0};
  plan_own_recipes(&s.p);
  s.ns = arena_alloc(&s.arena, 4 * sizeof *s.ns);
  toy_output(&s.p, "x.data");
  add_weight(&s, &kinds[13], 0);
  struct effort e = effort_of_plan(&s.p, &s.arena);
  const struct recipes *r = s.p.recipes;
  const uint32_t of = r->args[r->rows[s.p.segments[0].ref].args];
  const uint64_t bytes = r->rows[of].bytes, codes = s.p.segments[0].len;
  assert_int_equal(e.n_looks, 1);
  const double half = effort_made(&e, 0, 0, codes / 2);
  assert_true(effort_looked(&e, of, bytes / 2) == 0);
  assert_true(effort_looked(&e, of, bytes / 4) > 0);
  assert_true(effort_looked(&e, of, bytes) > 0);
  assert_true(effort_looked(&e, of, bytes) == 0);
  assert_true(effort_looked(&e, of + 1, bytes) == 0);
  assert_true(effort_made(&e, 0, codes / 2, codes - codes / 2) < half);
  demolish(&s);
}

// ---- weights by statistics ---------------------------------------------------------------------

// Two weights of one value, by GPTQ, or behind AWQ's scales.
static void add_by_statistics(struct sim *s, bool awq, uint32_t *gram, uint32_t of[2]) {
  *s = (struct sim){0};
  plan_own_recipes(&s->p);
  s->ns = arena_alloc(&s->arena, 8 * sizeof *s->ns);
  toy_output(&s->p, "x.data");
  struct recipes *r = s->p.recipes;
  const int64_t elements = (int64_t)second_moments_elements(K), rows = K, column[2] = {K, 1};
  const struct piece piece = {.at = {.file = 0, .off = 0, .len = (uint64_t)elements * 8}};
  *gram = recipe_extent(r, DTYPE_DOUBLE, &elements, 1, ENCODING_RAW, &piece, 1, NULL);
  uint32_t weights[2] = {weight(r, UINT64_C(1) << 30), weight(r, UINT64_C(1) << 31)};
  const float means[K] = {0};
  const struct recipe_awq a = {
      .means = recipe_bytes(r, DTYPE_FLOAT, &rows, 1, span_of(means, sizeof means)),
      .gram = *gram,
      .bits = 4,
      .block = 64};
  const uint32_t scales = awq ? recipe_awq(r, &a, weights, 2) : NO_ID;
  const struct recipe_quantization q = {
      .format = awq ? FORMAT_NBITS_CLIPPED : FORMAT_NBITS_GPTQ, .bits = 4, .block = 64};
  for (int i = 0; i < 2; i++) {
    of[i] = weights[i];
    if (awq)
      of[i] = recipe_map(r, RECIPE_MAP_MUL,
                         (uint32_t[]){weights[i], recipe_reshape(r, scales, column, 2)});
    const struct recipe_statistics by = {.gram = *gram, .rows = scales};
    const uint32_t codes = recipe_quantize_by(r, of[i], &by, &q, PART_CODES);
    add(s, SEGMENT_RECIPE, codes, r->rows[codes].bytes, 1);
  }
  if (awq) *gram = scales;
}

// What all weights of a value wait for is counted once, and as it is found.
static void test_what_weights_wait_for(void **state) {
  (void)state;
  for (int awq = 0; awq < 2; awq++) {
    struct sim s;
    uint32_t found, of[2];
    add_by_statistics(&s, awq, &found, of);
    struct effort e = effort_of_plan(&s.p, &s.arena);
    const double all = effort_total(&e), first = e.before[1], second = all - first;
    const double wait = awq ? 0.055 * K * K * 10 * (2 * 512) : 0.055 * K * K * K / 6;
    assert_true(first - second > 0.999 * wait && first - second < 1.001 * wait);
    double done = 0;
    const uint64_t steps = awq ? 2 * 512 : second_moments_all_steps(K);
    for (int i = 0; i < 4; i++) {
      const double more = effort_looked(&e, found, steps / 4);
      assert_true(more > 0.2499 * wait && more < 0.2501 * wait);
      done += more;
    }
    assert_true(effort_looked(&e, found, steps) < 0.001 * wait);
    // Columns that are made together, before the first byte of them is there.
    const double looked = effort_looked(&e, of[1], (uint64_t)K * N * 4);
    assert_true(awq ? looked == 0 : looked > 0.5 * second && looked < second);
    done += looked;
    done += effort_made(&e, 0, 0, s.p.outputs[0].size);
    assert_true(done > 0.9999 * all && done < 1.0001 * all);
    demolish(&s);
  }
}

// However it is cut, the work adds up to the total.
static void test_adds_up(void **state) {
  (void)state;
  struct sim s;
  build(&s, &kinds[7], 3, 2);
  toy_output(&s.p, "x.onnx");
  add(&s, SEGMENT_LITERAL, 0, 1000, 1);
  add(&s, SEGMENT_ZERO, 0, 0, 1);
  add(&s, SEGMENT_EXTENT, 0, 5000, 1);
  const struct effort e = effort_of_plan(&s.p, &s.arena);
  double sum = 0;
  for (uint32_t o = 0; o < 2; o++)
    for (uint64_t off = 0, step = 777; off < s.p.outputs[o].size;
         off += step, step = step * 3 % 9999991) {
      const uint64_t n = min_u64(step, s.p.outputs[o].size - off);
      sum += effort_between(&e, o, off, n);
    }
  assert_true(sum > effort_total(&e) * 0.999999 && sum < effort_total(&e) * 1.000001);
  assert_true(effort_between(&e, 0, 0, 0) == 0);
  assert_true(effort_between(&e, 1, 1000, 5000) == 5000);
  demolish(&s);
}

int test_effort(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_time_left_comes_true),  cmocka_unit_test(test_bytes_are_no_measure),
      cmocka_unit_test(test_looks_come_true),       cmocka_unit_test(test_looks_never_count_twice),
      cmocka_unit_test(test_what_weights_wait_for), cmocka_unit_test(test_adds_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
