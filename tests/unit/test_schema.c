// The table of operators: it is sorted, operators are found, and each rule tells nodes that keep
// their meaning from those that do not. That its rows are true is compared with the onnx package
// (tests/e2e).
#include "schema.h"

#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct bench {
  struct model m;
  struct build b;
  struct arena arena;
  struct schema_change change;
};

static int setup(void **state) {
  static struct bench t;
  t = (struct bench){0};
  build_begin(&t.b, &t.m);
  build_input(&t.b, "x", DTYPE_FLOAT, "2,3,4");
  build_input(&t.b, "matrix", DTYPE_FLOAT, "2,3");
  build_input(&t.b, "n", DTYPE_INT64, "2");
  *state = &t;
  return 0;
}

static int teardown(void **state) {
  struct bench *t = *state;
  model_free(&t->m);
  arena_free(&t->arena);
  return 0;
}

static bool same(struct bench *t, uint32_t node, int64_t from, int64_t to) {
  bool yes = schema_same(&t->m, node, from, to, &t->arena, &t->change);
  if (!yes) assert_non_null(t->change.why);
  return yes;
}

static uint32_t node(struct bench *t, const char *op, const char *in) {
  return build_node(&t->b, op, "n", in, arena_printf(&t->arena, "y%u", t->m.n_nodes));
}

static void the_table_is_sorted(void **state) {
  uint32_t n;
  const struct schema_row *rows = schema_rows(&n);
  (void)state;
  for (uint32_t i = 0; i < n; i++) {
    const struct schema_version *v = rows[i].versions;
    if (i > 0) assert_true(strcmp(rows[i - 1].op_type, rows[i].op_type) < 0);
    assert_true(v->since > 0 && !v->obstacle);
    for (; v[1].since; v++)
      assert_true(v[0].since < v[1].since);
  }
}

static void operators_are_found(void **state) {
  (void)state;
  const struct schema_row *row = schema_of(span_str("MatMul"));
  assert_int_equal(row->versions[0].since, 1);
  assert_int_equal(row->versions[2].since, 13);
  assert_int_equal(row->versions[3].since, 0);
  assert_non_null(schema_of(span_str("Abs")));
  assert_non_null(schema_of(span_str("Xor")));
  assert_null(schema_of(span_str("Mat")));
  assert_null(schema_of(span_str("")));
}

static void unknown_operators_and_other_domains(void **state) {
  struct bench *t = *state;
  uint32_t x = node(t, "Unheard", "x");
  assert_false(same(t, x, 18, 21));
  assert_int_equal(t->change.since_version, 0);
  build_domain(&t->b, x, "local");
  assert_true(same(t, x, 18, 21));
}

static void attributes_that_became_inputs(void **state) {
  struct bench *t = *state;
  uint32_t plain = node(t, "ReduceMean", "x"), axes = node(t, "ReduceMean", "x");
  build_attr_ints(&t->b, axes, "axes", "1");
  assert_true(same(t, plain, 13, 21));
  assert_true(same(t, axes, 18, 21));
  assert_false(same(t, axes, 13, 21));
  assert_int_equal(t->change.since_version, 18);
  assert_true(same(t, axes, 13, 17));
  assert_false(same(t, axes, 17, 18)); // the version asked for counts
  assert_non_null(strstr(t->change.why, "'axes'"));
  uint32_t add = node(t, "Add", "x x");
  build_attr_int(&t->b, add, "broadcast", 1);
  assert_false(same(t, add, 6, 21));
}

static void softmax_over_the_last_axis(void **state) {
  struct bench *t = *state;
  struct {
    const char *in;
    int64_t axis; // 9: absent
    bool same;
  } cases[] = {{"x", -1, true},     {"x", 2, true},      {"x", 1, false},  {"x", 9, false},
               {"matrix", 9, true}, {"matrix", 1, true}, {"y0", -1, true}, {"y0", 2, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint32_t s = node(t, "Softmax", cases[i].in);
    if (cases[i].axis != 9) build_attr_int(&t->b, s, "axis", cases[i].axis);
    assert_int_equal(same(t, s, 11, 21), cases[i].same);
    assert_true(same(t, s, 13, 21));
  }
}

static void inputs_outputs_and_types(void **state) {
  struct bench *t = *state;
  assert_false(same(t, node(t, "Split", "x"), 13, 21));
  assert_true(same(t, node(t, "Split", "x n"), 13, 21));
  uint32_t one = build_node(&t->b, "Dropout", "", "x", "d"),
           two = build_node(&t->b, "Dropout", "", "x", "e mask");
  assert_true(same(t, one, 7, 11));
  assert_false(same(t, two, 7, 11));
  assert_true(same(t, node(t, "Erf", "x"), 9, 21));
  assert_false(same(t, node(t, "Erf", "n"), 9, 21));
  assert_false(same(t, node(t, "Unsqueeze", "x"), 11, 21));
  assert_true(same(t, node(t, "Resize", "x - - n"), 11, 21));
  assert_false(same(t, node(t, "Resize", "x - n n"), 11, 21));
}

static void attribute_values(void **state) {
  struct bench *t = *state;
  uint32_t pool = node(t, "AveragePool", "x"), ceil = node(t, "AveragePool", "x");
  build_attr_int(&t->b, pool, "ceil_mode", 0);
  build_attr_int(&t->b, ceil, "ceil_mode", 1);
  assert_true(same(t, pool, 11, 21));
  assert_false(same(t, ceil, 11, 21));
  uint32_t asks = node(t, "AveragePool", "x"); // a function's attribute, which may be anything
  uint32_t row = build_attr_int(&t->b, asks, "ceil_mode", 0);
  t->m.attrs[row].ref_name = model_intern(&t->m, span_str("mode"));
  assert_false(same(t, asks, 11, 21));
  uint32_t soft = node(t, "Softmax", "x");
  row = build_attr_int(&t->b, soft, "axis", -1);
  assert_true(same(t, soft, 11, 21));
  t->m.attrs[row].ref_name = model_intern(&t->m, span_str("axis"));
  assert_false(same(t, soft, 11, 21));
  uint32_t conv = node(t, "ConvTranspose", "x x"), grid = node(t, "GridSample", "x x");
  assert_true(same(t, conv, 1, 21));
  assert_true(same(t, grid, 16, 21));
  build_attr_string(&t->b, conv, "auto_pad", "SAME_UPPER");
  build_attr_string(&t->b, grid, "mode", "bilinear");
  assert_false(same(t, conv, 1, 21));
  assert_false(same(t, grid, 16, 21));
  uint32_t concat = node(t, "Concat", "x x");
  assert_false(same(t, concat, 1, 21));
  build_attr_int(&t->b, concat, "axis", 1);
  assert_true(same(t, concat, 1, 21));
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(the_table_is_sorted),
      TEST(operators_are_found),
      TEST(unknown_operators_and_other_domains),
      TEST(attributes_that_became_inputs),
      TEST(softmax_over_the_last_axis),
      TEST(inputs_outputs_and_types),
      TEST(attribute_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
