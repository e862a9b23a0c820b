// Choosing by measurements: budgets on small cases against all picks there are, ties, gates.
#include "passes/nbits/size_budget.h"

#include <math.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { TENSORS = 5, OPTIONS = 4, PICKS = 1024 }; // OPTIONS^TENSORS

struct sample {
  struct size_budget_option options[TENSORS][OPTIONS];
  struct size_budget_tensor tensors[TENSORS];
};

static uint64_t next(uint64_t *x) {
  *x = *x * 6364136223846793005u + 1442695040888963407u;
  return *x >> 40;
}

static void make(struct sample *s, uint64_t seed) {
  static const char *const names[TENSORS] = {"e", "a", "d", "b", "c"};
  for (uint32_t t = 0; t < TENSORS; t++) {
    for (uint32_t o = 0; o < OPTIONS; o++)
      s->options[t][o] = (struct size_budget_option){.bytes = 10 + next(&seed) % 90,
                                                     .error = (double)(next(&seed) % 1000)};
    s->tensors[t] =
        (struct size_budget_tensor){.name = names[t], .options = s->options[t], .n = OPTIONS};
  }
}

struct sum {
  uint64_t bytes;
  double error;
};

static struct sum sum_of(const struct sample *s, uint32_t pick, bool picked) {
  struct sum sum = {0};
  for (uint32_t t = 0; t < TENSORS; t++, pick /= OPTIONS) {
    const uint32_t o = picked ? s->tensors[t].picked : pick % OPTIONS;
    sum.bytes += s->options[t][o].bytes;
    sum.error += s->options[t][o].error;
  }
  return sum;
}

static uint64_t least_bytes(const struct sample *s) {
  uint64_t least = UINT64_MAX;
  for (uint32_t pick = 0; pick < PICKS; pick++)
    least = min_u64(least, sum_of(s, pick, false).bytes);
  return least;
}

// Fits, is not worse than any uniform pick that fits, and on average close to the best of all
// picks.
static void test_budget(void **state) {
  (void)state;
  double ours = 0, best_of_all = 0;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    struct sample s;
    uint64_t bytes;
    make(&s, seed);
    const uint64_t least = least_bytes(&s), budget = least + seed % 7 * 25;
    assert_true(size_budget_budget(s.tensors, TENSORS, budget, &bytes));
    const struct sum got = sum_of(&s, 0, true);
    assert_true(got.bytes <= budget && got.bytes == bytes);
    double best = INFINITY;
    for (uint32_t pick = 0; pick < PICKS; pick++) {
      const struct sum sum = sum_of(&s, pick, false);
      if (sum.bytes > budget) continue;
      if (sum.error < best) best = sum.error;
      if (pick % (PICKS / (OPTIONS - 1)) == 0) // 0, 341, 682, 1023: the same for all
        assert_true(got.error <= sum.error);
    }
    assert_true(got.error >= best);
    ours += got.error;
    best_of_all += best;
    assert_false(size_budget_budget(s.tensors, TENSORS, least - 1, &bytes));
    assert_int_equal(bytes, least);
  }
  assert_true(ours <= 1.1 * best_of_all);
}

// The order of tensors does not matter; ties go by name.
static void test_ties(void **state) {
  (void)state;
  static const struct size_budget_option same[] = {{10, 5}, {20, 1}};
  struct size_budget_tensor forth[] = {{"b", same, 2, 9}, {"a", same, 2, 9}};
  struct size_budget_tensor back[] = {{"a", same, 2, 9}, {"b", same, 2, 9}};
  uint64_t bytes;
  assert_true(size_budget_budget(forth, 2, 35, &bytes) && size_budget_budget(back, 2, 35, &bytes));
  assert_int_equal(bytes, 30);
  assert_true(forth[1].picked == 1 && forth[0].picked == 0);
  assert_true(back[0].picked == 1 && back[1].picked == 0);
}

static void test_edges(void **state) {
  (void)state;
  uint64_t bytes = 7;
  assert_true(size_budget_budget(NULL, 0, 0, &bytes));
  assert_int_equal(bytes, 0);
  // More bytes and more error: never. Fewer of both: always.
  static const struct size_budget_option options[] = {{50, 3}, {60, 4}, {40, 3}};
  struct size_budget_tensor t = {"x", options, 3, 9};
  assert_true(size_budget_budget(&t, 1, UINT64_MAX, &bytes));
  assert_true(t.picked == 2 && bytes == 40);
  // What saves little for its bytes is taken too, where it fills the room to the last byte.
  static const struct size_budget_option little[] = {{10, 9}, {30, 0}, {20, 8}}, only[] = {{5, 1}};
  struct size_budget_tensor two[] = {{"x", little, 3, 9}, {"y", only, 1, 9}};
  assert_true(size_budget_budget(two, 2, 25, &bytes));
  assert_true(two[0].picked == 2 && bytes == 25);
  assert_true(size_budget_budget(two, 2, 24, &bytes));
  assert_true(two[0].picked == 0 && bytes == 15);
}

static void test_gates(void **state) {
  (void)state;
  struct size_budget_gate g[3];
  struct err err = {0};
  assert_int_equal(size_budget_gate_parse("sqnr=20dB", &g[0], &err), 0);
  assert_int_equal(size_budget_gate_parse("cosine=0.99", &g[1], &err), 0);
  assert_int_equal(size_budget_gate_parse("maxabs=0.1", &g[2], &err), 0);
  struct figures f = {.elements = 4, .vv = 100, .ee = 1, .ve = 0, .max_error = 0.1};
  assert_false(size_budget_passes(g, 3, &f, &(double){19.5})); // the output's counts instead
  assert_true(size_budget_passes(g, 3, &f, NULL)); // 20 dB, cosine 0.995, 0.1: all just reached
  f.max_error = 0.2;
  assert_true(size_budget_passes(g, 2, &f, NULL));
  assert_false(size_budget_passes(g, 3, &f, NULL));
  f.ee = 1.01;
  assert_false(size_budget_passes(g, 1, &f, NULL));
  f.ee = 5;
  assert_false(size_budget_passes(&g[1], 1, &f, NULL));
  f.ee = f.vv = f.max_error = NAN;
  for (int i = 0; i < 3; i++)
    assert_false(size_budget_passes(&g[i], 1, &f, NULL));
  static const char *const bad[] = {"",         "sqnr",       "sqnr=", "sqnr=x",     "sqnr=20db2",
                                    "sqnr=nan", "cosine=1dB", "max=1", "cosine=1.5", "maxabs=-1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct err why = {0};
    assert_int_equal(size_budget_gate_parse(bad[i], &g[0], &why), -1);
    assert_int_equal(why.kind, ERR_USAGE);
  }
}

int test_size_budget(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_budget),
      cmocka_unit_test(test_ties),
      cmocka_unit_test(test_edges),
      cmocka_unit_test(test_gates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
