// The family tidy beyond its golden cases: that it looks at every node once, and compares only what is
// likely to be equal; forms of Constants; functions of one name.
#include "pass_bench.h"
#include "passes/catalogue/pass_values.h"
#include "passes/tidy/inside/common_subexpressions.h"
#include "passes/tidy/inside/effects.h"
#include "passes/tidy/inside/tidy.h"

#include <stdio.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { MANY = 5000 };

static const struct pass row = {.name = "tidy/common-subexpressions"};

static struct common_subexpressions_result merge(struct pass_bench *t) {
  struct common_subexpressions_result result;
  struct err err = {0};
  pass_bench_ready(t);
  t->env.pass = &row;
  t->env.site = NULL;
  t->env.exactness = EXACTNESS_ROUNDING;
  assert_int_equal(common_subexpressions(&t->env, &(struct name_filter){0}, &result, &err), 0);
  build_check(&t->m);
  return result;
}

static void add_node(struct pass_bench *t, const char *op, const char *in, const char *out, int i) {
  char from[64], to[64];
  snprintf(from, sizeof from, in, i, i);
  snprintf(to, sizeof to, out, i + 1);
  build_node(&t->b, op, "", from, to);
}

// ---- cost ----------------------------------------------------------------------------------------

static void test_a_chain_is_compared_with_nothing(void **state) {
  struct pass_bench *t = *state;
  for (int i = 0; i < MANY; i++)
    add_node(t, "Relu", "x%d", "x%d", i);
  const struct common_subexpressions_result result = merge(t);
  assert_int_equal(result.visited, MANY);
  assert_int_equal(result.compared, 0);
  assert_int_equal(result.merged, 0);
}

static void test_two_equal_chains_are_compared_node_by_node(void **state) {
  struct pass_bench *t = *state;
  build_node(&t->b, "Relu", "", "x", "a0");
  build_node(&t->b, "Relu", "", "x", "b0");
  for (int i = 0; i < MANY; i++) {
    add_node(t, "Neg", "a%d", "a%d", i);
    add_node(t, "Neg", "b%d", "b%d", i);
  }
  const struct common_subexpressions_result result = merge(t);
  assert_int_equal(result.visited, 2 * MANY + 2);
  assert_int_equal(result.compared, MANY + 1);
  assert_int_equal(result.merged, MANY + 1);
}

static void test_outputs_that_must_all_stay_are_compared_once_each(void **state) {
  struct pass_bench *t = *state;
  char name[32];
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "y%d", i);
    build_node(&t->b, "Relu", "", "x", name);
    build_output(&t->b, name, DTYPE_FLOAT, "2");
  }
  const struct common_subexpressions_result result = merge(t);
  assert_int_equal(result.compared, MANY - 1);
  assert_int_equal(result.merged, 0);
}

// Constants, and nodes with a tensor among their attributes: of one type, each of another number.
static void test_elements_tell_attributes_apart(void **state) {
  struct pass_bench *t = *state;
  char name[32];
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "c%d", i);
    const uint32_t c = build_node(&t->b, "Constant", "", "", name);
    const int64_t number = i;
    build_attr_tensor(&t->b, c, "value", DTYPE_INT64, "1", &number);
    snprintf(name, sizeof name, "f%d", i);
    const uint32_t f = build_node(&t->b, "ConstantOfShape", "", "x", name);
    build_attr_tensor(&t->b, f, "value", DTYPE_INT64, "1", &number);
  }
  const struct common_subexpressions_result result = merge(t);
  assert_int_equal(result.visited, 2 * MANY);
  assert_int_equal(result.compared, 0);
}

// ---- constants -----------------------------------------------------------------------------------

static void test_constants_are_equal_however_they_say_it(void **state) {
  struct pass_bench *t = *state;
  const int64_t numbers[2] = {4, 5};
  const uint32_t a = build_node(&t->b, "Constant", "a", "", "a");
  build_attr_tensor(&t->b, a, "value", DTYPE_INT64, "2", numbers);
  const uint32_t b = build_node(&t->b, "Constant", "b", "", "b");
  build_constant_list(&t->b, b, "value_ints", ATTR_INTS, DTYPE_INT64, "2", numbers);
  const uint32_t c = build_node(&t->b, "Constant", "c", "", "c");
  build_constant_list(&t->b, c, "value_int", ATTR_INT, DTYPE_INT64, "", numbers);
  build_node(&t->b, "My", "use", "a b c", "y");
  assert_int_equal(merge(t).merged, 1);
  assert_string_equal(pass_bench_nodes(t, t->m.main_graph),
                      "Constant a()->a\nConstant c()->c\nMy use(a,a,c)->y\n");
}

// ---- effects -------------------------------------------------------------------------------------

static void test_functions_are_told_apart_by_domain(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  struct effects x = {0};
  struct err err = {0};
  build_enter_function(&t->b, "one", "f", "a", "b");
  build_node(&t->b, "Relu", "", "a", "b");
  build_leave(&t->b);
  build_enter_function(&t->b, "two", "f", "a", "b");
  const uint32_t noise = build_node(&t->b, "RandomNormalLike", "", "a", "b");
  build_leave(&t->b);
  build_enter_function(&t->b, "ai.onnx", "Relu6", "a", "b");
  build_node(&t->b, "Relu", "", "a", "b");
  build_leave(&t->b);
  const uint32_t pure = build_node(&t->b, "f", "", "x", "p");
  const uint32_t random = build_node(&t->b, "f", "", "x", "q");
  const uint32_t nowhere = build_node(&t->b, "f", "", "x", "r");
  const uint32_t ours = build_node(&t->b, "Relu6", "", "x", "s");
  build_domain(&t->b, pure, "one");
  build_domain(&t->b, random, "two");
  build_domain(&t->b, nowhere, "three");
  pass_bench_ready(t);
  kit_init(&k, &t->env, "test");
  effects_find(&x, &k);
  assert_false(effects_has(&x, pure, EFFECTS_UNKNOWN | EFFECTS_RANDOM));
  assert_true(effects_has(&x, noise, EFFECTS_RANDOM));
  assert_true(effects_has(&x, random, EFFECTS_RANDOM));
  assert_false(effects_has(&x, random, EFFECTS_UNKNOWN));
  assert_true(effects_has(&x, nowhere, EFFECTS_UNKNOWN));
  assert_false(effects_has(&x, ours, EFFECTS_UNKNOWN | EFFECTS_RANDOM));
  effects_done(&x);
  assert_int_equal(kit_done(&k, &err), 0);
}

static void test_a_node_without_outputs_stays(void **state) {
  struct pass_bench *t = *state;
  struct err err = {0};
  struct pass_values v;
  build_node(&t->b, "Relu", "none", "x", "");
  build_node(&t->b, "Relu", "out", "x", "-");
  build_node(&t->b, "TopK", "used", "x n", "- y");
  build_output(&t->b, "y", DTYPE_INT64, "2");
  pass_bench_ready(t);
  t->env.pass = &tidy_unused_nodes;
  pass_values_start(&v, &tidy_unused_nodes, &t->arena);
  assert_int_equal(pass_values_parse(&v, span_str("any_domain"), &t->arena, &err), 0);
  assert_int_equal(pass_values_read(&v, &t->arena, &err), 0);
  assert_int_equal(tidy_unused_nodes.run(&t->env, v.options, &err), 0);
  pass_values_done(&v);
  assert_string_equal(t->sites, "out:converted:unused\n");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, pass_bench_setup, pass_bench_teardown)

int test_tidy(void) {
  const struct CMUnitTest tests[] = {
      CASE(test_a_chain_is_compared_with_nothing),
      CASE(test_two_equal_chains_are_compared_node_by_node),
      CASE(test_outputs_that_must_all_stay_are_compared_once_each),
      CASE(test_elements_tell_attributes_apart),
      CASE(test_constants_are_equal_however_they_say_it),
      CASE(test_functions_are_told_apart_by_domain),
      CASE(test_a_node_without_outputs_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
