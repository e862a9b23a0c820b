// Units and parts of units: every byte is dealt once, whoever asks when, and cuts are made where
// they may be.
#include "stream/run/inside/schedule.h"

#include "chance.h"
#include "toy.h"

#include <setjmp.h>
#include <stdarg.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

enum { MIB = 1 << 20, WORKERS_MAX = 9, LINES_MAX = 3, RANGES_MAX = 4096 };

static void free_plan(struct plan *p) {
  TABLE_FREE(p, outputs);
  TABLE_FREE(p, segments);
  arena_free(&p->arena);
}

// A data file of every kind of segment in all sizes, and a metadata file of many small ones.
static void random_plan(struct plan *p) {
  *p = (struct plan){0};
  toy_output(p, "x.data");
  const uint64_t size = (uint64_t)(1 + chance_below(600)) * MIB;
  while (p->outputs[0].size < size) {
    static const enum segment_kind kinds[] = {SEGMENT_RECIPE, SEGMENT_EXTENT, SEGMENT_ZERO};
    const uint64_t most = chance_below(2) ? 40 << 20 : 1 << 20;
    toy_segment(p, kinds[chance_below(3)], 0, 0, 1 + chance_below(most));
  }
  toy_output(p, "x.onnx");
  for (uint32_t i = 0; i < 300; i++)
    toy_segment(p, SEGMENT_EXTENT, 0, 0, chance_below(100));
}

struct range {
  uint32_t unit;
  uint64_t off, end;
};

struct sim {
  struct plan p;
  struct schedule *deal;
  uint8_t *skip;
  struct range made[RANGES_MAX]; // and over
  uint32_t n_made, n_parts, n_beside, lines;
  struct sim_worker {
    enum { IDLE, MAKING, WAITING, GONE } state;
    uint32_t n; // units beside each other
    struct schedule_part part[LINES_MAX];
    uint64_t pos[LINES_MAX];
  } w[WORKERS_MAX];
};

static void add_made(struct sim *s, uint32_t unit, uint64_t off, uint64_t end) {
  assert_true(s->n_made < RANGES_MAX);
  s->made[s->n_made++] = (struct range){.unit = unit, .off = off, .end = end};
}

static bool is_made(const struct sim *s, uint32_t unit, uint64_t off) {
  for (uint32_t i = 0; i < s->n_made; i++)
    if (s->made[i].unit == unit && s->made[i].off == off) return true;
  return false;
}

// Scales behind codes that are made elsewhere would cost a second look at the weight.
static void expect_fair_cut(const struct sim *s, const struct schedule_part *part) {
  const struct segment *x =
      &s->p.segments[plan_segment_at(&s->p, part->range.output, part->range.off)];
  const uint64_t end = part->range.off + part->range.len;
  assert_true(part->range.len >= 2 * MIB);
  if (x->off == part->range.off) assert_true(x->len >= 64 << 10 || x->kind != SEGMENT_RECIPE);
  if (x->off < part->range.off && x->kind == SEGMENT_RECIPE) assert_true(x->off + x->len >= end);
}

// Behind its own part an owner finds the others, one after the other up to the end of the unit. False: it would wait.
static bool follow(struct sim *s, const struct schedule_part *own) {
  const struct plan_unit unit = plan_unit_at(&s->p, own->unit);
  uint64_t at = own->range.off + own->range.len;
  while (at < unit.off + unit.len) {
    uint64_t end;
    struct figure_sums errors;
    if (!is_made(s, own->unit, at)) return false;
    assert_true(schedule_wait(s->deal, own, at, &end, &errors));
    assert_true(end > at);
    if (errors.n) assert_int_equal(errors.rows[0].index, at); // the first time we come by
    figure_sums_free(&errors);
    at = end;
  }
  assert_int_equal(at, unit.off + unit.len);
  return true;
}

// One of those that are not made yet goes on.
static void make_some(struct sim *s, struct sim_worker *w) {
  uint32_t k = chance_below(w->n), tried = 0;
  while (w->pos[k] == UINT64_MAX && tried++ < w->n)
    k = (k + 1) % w->n;
  if (w->pos[k] == UINT64_MAX) {
    w->state = WAITING;
    return;
  }
  struct schedule_part *part = &w->part[k];
  uint64_t end = part->range.off + part->range.len;
  if (w->pos[k] < end) {
    const uint64_t want = w->pos[k] + 1 + chance_below(end - w->pos[k]);
    const uint64_t got = schedule_claim(s->deal, part, w->pos[k], want);
    assert_true(got > w->pos[k] && got <= want);
    end = part->range.off + part->range.len;
    assert_true(got <= end);
    w->pos[k] = got;
  }
  if (w->pos[k] < end) return;
  add_made(s, part->unit, part->range.off, end);
  w->pos[k] = UINT64_MAX;
  if (part->owned) return;
  struct figure_sums errors = {0};
  figure_sums_push(&errors, 0, part->range.off, &(struct figures){.elements = 1});
  schedule_made(s->deal, part, errors, true);
  w->state = IDLE;
}

static void begin_some(struct sim *s, uint32_t i) {
  struct sim_worker *w = &s->w[i];
  w->n = 1;
  w->state = MAKING;
  while (w->n < s->lines && schedule_beside(s->deal, i, w->n, w->part, &w->part[w->n])) {
    assert_true(w->part[0].owned && w->part[w->n].owned);
    assert_int_equal(w->part[w->n].range.output, w->part[0].range.output);
    w->n++;
    s->n_beside++;
  }
  for (uint32_t k = 0; k < w->n; k++)
    w->pos[k] = w->part[k].range.off;
  if (w->part[0].owned) return;
  s->n_parts++;
  expect_fair_cut(s, w->part);
}

static void turn(struct sim *s, uint32_t i) {
  struct sim_worker *w = &s->w[i];
  switch (w->state) {
  case IDLE:
    if (schedule_next(s->deal, i, w->part))
      begin_some(s, i);
    else
      w->state = GONE;
    return;
  case MAKING: make_some(s, w); return;
  case WAITING:
    for (; w->n > 0 && follow(s, &w->part[w->n - 1]); w->n--) {
    }
    if (w->n == 0) w->state = IDLE;
    return;
  case GONE: return;
  }
}

static int by_place(const void *a, const void *b) {
  const struct range *x = a, *y = b;
  if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
  return x->off < y->off ? -1 : x->off > y->off;
}

// Each unit that was not to be skipped, from end to end, each byte once.
static void expect_tiled(struct sim *s) {
  uint32_t at = 0;
  qsort(s->made, s->n_made, sizeof *s->made, by_place);
  for (uint32_t unit = 0; unit < plan_unit_count(&s->p); unit++) {
    const struct plan_unit range = plan_unit_at(&s->p, unit);
    if (s->skip[unit]) continue;
    for (uint64_t off = range.off; off < range.off + range.len; at++) {
      assert_true(at < s->n_made && s->made[at].unit == unit);
      assert_int_equal(s->made[at].off, off);
      off = s->made[at].end;
      assert_true(off <= range.off + range.len);
    }
  }
  assert_int_equal(at, s->n_made);
}

static struct sim simulate(uint32_t workers, uint32_t lines, bool parts) {
  static struct sim s;
  memset(&s, 0, sizeof s);
  s.lines = lines;
  random_plan(&s.p);
  s.skip = calloc(plan_unit_count(&s.p), 1);
  assert_non_null(s.skip);
  for (uint32_t i = 0; i < plan_unit_count(&s.p); i++)
    s.skip[i] = chance_below(5) == 0;
  schedule_open(&s.deal, &s.p, s.skip, workers, lines, parts);
  for (uint32_t gone = 0; gone < workers;) {
    turn(&s, chance_below(workers));
    gone = 0;
    for (uint32_t i = 0; i < workers; i++)
      gone += s.w[i].state == GONE;
  }
  expect_tiled(&s);
  schedule_close(s.deal);
  free(s.skip);
  free_plan(&s.p);
  return s;
}

static void test_every_byte_once(void **state) {
  (void)state;
  uint32_t parts = 0, beside = 0;
  for (uint32_t i = 0; i < 600; i++) {
    chance_seed = i;
    const struct sim s = simulate(1 + i % WORKERS_MAX, 1 + i / 7 % LINES_MAX, true);
    parts += s.n_parts;
    beside += s.n_beside;
  }
  if (parts <= 600 || beside <= 60) fail_msg("%u parts, %u units beside others", parts, beside);
}

static void test_whole_units(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 100; i++) {
    chance_seed = i;
    assert_int_equal(simulate(1 + i % WORKERS_MAX, 1 + i / 7 % LINES_MAX, false).n_parts, 0);
  }
}

// ---- single decisions --------------------------------------------------------------------------

// Two workers, one unit: where is it cut?
static uint64_t cut_of(struct plan *p, uint64_t claimed) {
  const uint8_t skip[2] = {0, 0};
  struct schedule_part a, b;
  struct schedule *deal;
  uint64_t cut = 0;
  schedule_open(&deal, p, skip, 2, 1, true);
  assert_true(schedule_next(deal, 0, &a) && a.owned);
  if (claimed) assert_int_equal(schedule_claim(deal, &a, 0, claimed), claimed);
  if (schedule_next(deal, 1, &b)) {
    assert_false(b.owned);
    cut = b.range.off;
    assert_int_equal(b.range.off + b.range.len, p->outputs[0].size);
    (void)schedule_claim(deal, &a, claimed, claimed + 1); // the owner hears of it
    assert_int_equal(a.range.len, cut);
  }
  schedule_close(deal);
  free_plan(p);
  return cut;
}

static struct plan plan_of(const struct segment *segments, uint32_t n) {
  struct plan p = {0};
  toy_output(&p, "x.data");
  for (uint32_t i = 0; i < n; i++)
    toy_segment(&p, segments[i].kind, 0, 0, segments[i].len);
  return p;
}

#define CUT(claimed, ...)                                                                          \
  cut_of(&(struct plan[]){plan_of((const struct segment[]){__VA_ARGS__},                           \
                                  sizeof((const struct segment[]){__VA_ARGS__}) /                  \
                                      sizeof(struct segment))}[0],                                 \
         claimed)
#define RECIPE(mib)                                                                                \
  { .kind = SEGMENT_RECIPE, .len = (uint64_t)((mib)*MIB) }
#define COPY(mib)                                                                                  \
  { .kind = SEGMENT_EXTENT, .len = (uint64_t)((mib)*MIB) }

static void test_cuts(void **state) {
  (void)state;
  // Copies divide anywhere, on the grid, in the middle of what is not claimed.
  assert_int_equal(CUT(0, COPY(40)), 20 * MIB);
  assert_int_equal(CUT(8 * MIB, COPY(40)), 24 * MIB);
  assert_int_equal(CUT(8 * MIB - 5, COPY(40)), 24 * MIB);
  // Codes with their scales do not; what begins nearest to the middle is taken.
  assert_int_equal(CUT(0, RECIPE(30), RECIPE(1)), 0);
  assert_int_equal(CUT(0, RECIPE(6), RECIPE(1), RECIPE(12), RECIPE(1)), 7 * MIB);
  // Not in front of small things.
  assert_int_equal(CUT(0, RECIPE(10), RECIPE(0.01), RECIPE(8)), 10.01 * MIB);
  // Neither side is tiny.
  assert_int_equal(CUT(0, COPY(4)), 0);
  assert_int_equal(CUT(0, RECIPE(1), RECIPE(20), RECIPE(1)), 0);
  // What nothing follows divides.
  assert_int_equal(CUT(0, RECIPE(1), RECIPE(20)), 11 * MIB);
}

// One that goes on in the next unit divides: its scales are made elsewhere in any case.
static void test_cut_of_what_goes_on(void **state) {
  (void)state;
  struct plan p = plan_of((const struct segment[]){RECIPE(100)}, 1);
  const uint8_t skip[2] = {0, 1};
  struct schedule_part a, b;
  struct schedule *deal;
  schedule_open(&deal, &p, skip, 2, 1, true);
  assert_true(schedule_next(deal, 1, &a) && a.owned && a.unit == 0);
  assert_true(schedule_next(deal, 0, &b) && !b.owned);
  assert_int_equal(b.range.off, 32 * MIB);
  assert_int_equal(b.range.len, 32 * MIB);
  schedule_close(deal);
  free_plan(&p);
}

// Neighbours of one output that are mostly copied, as many as leave the other worker as many.
static void test_beside(void **state) {
  (void)state;
  static const struct {
    struct segment segments[3];
    uint32_t most; // of unit 0 and those beside it, of two workers
  } cases[] = {
      {{COPY(64 * 4)}, 2},
      {{COPY(64 * 2)}, 1},
      {{COPY(64 * 9)}, 3},
      {{COPY(64), RECIPE(64), COPY(64 * 7)}, 1},
      {{RECIPE(64), COPY(64 * 8)}, 1},
      {{COPY(64), RECIPE(31), COPY(64 * 8)}, 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct plan p = plan_of(cases[i].segments, 3);
    const uint8_t skip[16] = {0};
    struct schedule_part part[LINES_MAX];
    struct schedule *deal;
    uint32_t n = 1;
    schedule_open(&deal, &p, skip, 2, LINES_MAX, true);
    assert_true(schedule_next(deal, 0, part) && part->unit == 0);
    while (n < LINES_MAX && schedule_beside(deal, 0, n, part, &part[n]))
      assert_int_equal(part[n].unit, n), n++;
    if (n != cases[i].most) fail_msg("case %zu: %u", i, n);
    schedule_close(deal);
    free_plan(&p);
  }
}

static void test_given_up(void **state) {
  (void)state;
  struct plan p = plan_of((const struct segment[]){COPY(40)}, 1);
  const uint8_t skip[1] = {0};
  struct schedule_part a, b, c;
  struct schedule *deal;
  uint64_t end;
  struct figure_sums errors = {0};
  schedule_open(&deal, &p, skip, 3, 1, true);
  assert_true(schedule_next(deal, 0, &a) && schedule_next(deal, 1, &b));
  assert_int_equal(schedule_claim(deal, &a, 0, 8 * MIB), 8 * MIB);
  assert_int_equal(schedule_claim(deal, &a, 8 * MIB, 20 * MIB), 16 * MIB); // by steps, at the end
  figure_sums_push(&errors, 0, 7, &(struct figures){.elements = 1});
  schedule_made(deal, &b, errors, false);
  assert_false(schedule_next(deal, 2, &c)); // nothing of it is dealt again
  assert_false(schedule_wait(deal, &a, 20 * MIB, &end, &errors));
  assert_int_equal(errors.n, 1);
  figure_sums_free(&errors);
  schedule_close(deal);
  free_plan(&p);
}

static void test_useful(void **state) {
  (void)state;
  const uint8_t all[3] = {0, 0, 0}, last[3] = {1, 1, 0};
  struct plan p = plan_of((const struct segment[]){COPY(130)}, 1);
  assert_int_equal(schedule_useful(&p, all, false), 3);
  assert_int_equal(schedule_useful(&p, all, true), 8 + 8 + 1);
  assert_int_equal(schedule_useful(&p, last, true), 1);
  free_plan(&p);
}

int test_schedule(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_byte_once),
      cmocka_unit_test(test_whole_units),
      cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_cut_of_what_goes_on),
      cmocka_unit_test(test_beside),
      cmocka_unit_test(test_given_up),
      cmocka_unit_test(test_useful),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
