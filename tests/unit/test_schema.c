// The table of operators: it is sorted, operators are found, and each rule tells nodes that keep
// their meaning from those that do not. That its rows are true is compared with the onnx package
// (tests/e2e).
#include "schema/schema.h"

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
  bool yes = schema_same(&t->m, NULL, node, from, to, &t->arena, &t->change);
  if (!yes) assert_non_null(t->change.why);
  return yes;
}

static uint32_t node(struct bench *t, const char *op, const char *in) {
  return build_node(&t->b, op, "n", in, arena_printf(&t->arena, "y%u", t->m.n_nodes));
}

static int compare(const struct schema_operator *a, const struct schema_operator *b) {
  const int order = strcmp(a->domain, b->domain);
  return order ? order : strcmp(a->name, b->name);
}

static void the_table_is_sorted(void **state) {
  uint32_t n;
  const struct schema_operator *ops = schema_all(&n);
  (void)state;
  assert_true(n > 300);
  for (uint32_t i = 0; i < n; i++) {
    if (i > 0) assert_true(compare(&ops[i - 1], &ops[i]) < 0);
    assert_true(ops[i].n_versions > 0 || ops[i].flags & SCHEMA_WITHDRAWN);
    if (ops[i].n_versions) assert_int_equal(ops[i].versions[0].change, CHANGE_same);
    assert_true(ops[i].rule < SCHEMA_RULES);
    for (uint32_t v = 1; v < ops[i].n_versions; v++)
      assert_true(ops[i].versions[v - 1].since < ops[i].versions[v].since);
  }
}

static const struct schema_signature *of(const char *domain, const char *op, int64_t version) {
  return schema_signature_of(span_str(domain), span_str(op), version);
}

static void operators_are_found(void **state) {
  (void)state;
  assert_int_equal(of("", "MatMul", 12)->since, 9);
  assert_int_equal(of("ai.onnx", "MatMul", 13)->since, 13);
  assert_int_equal(of("", "Abs", 99)->since, 13);
  assert_int_equal(of("", "Xor", 7)->since, 7);
  assert_int_equal(of("com.microsoft", "MatMulNBits", 1)->least_in, 3);
  assert_int_equal(of("onnx_passes.ops", "Im2Col", 1)->more, true);
  assert_null(of("", "LayerNormalization", 16));
  assert_non_null(of(SCHEMA_RUNTIME_DOMAIN, "LayerNormalization", 16));
  assert_null(of("", "Mat", 13));
  assert_null(of("", "", 13));
  assert_null(of("", "MatMulNBits", 13));
  assert_null(of("local", "MatMul", 13));
  assert_int_equal(schema_newest(span_str("ai.onnx")), 28);
  assert_int_equal(schema_newest(span_str("com.microsoft")), 1);
  assert_int_equal(schema_newest(span_str("local")), 0);
}

static void signatures_say_what_a_node_has(void **state) {
  (void)state;
  const struct schema_signature *conv = of("", "Conv", 11), *loop = of("", "Loop", 16);
  assert_int_equal(conv->n_inputs, 3);
  assert_int_equal(schema_input(conv, 2)->option, SCHEMA_OPTIONAL_ONE);
  assert_null(schema_input(conv, 3));
  assert_int_equal(conv->least_in, 2);
  assert_int_equal(conv->most_in, 3);
  const struct schema_variable *t = &conv->variables[schema_output(conv, 0)->variable];
  assert_string_equal(t->name, "T");
  assert_true(schema_takes(t->types, DTYPE_FLOAT16) && !schema_takes(t->types, DTYPE_BFLOAT16));
  assert_ptr_equal(t->types, schema_input(conv, 1)->types);
  const struct schema_attribute *group = schema_attribute_of(conv, span_str("group"));
  assert_int_equal(group->type, ATTR_INT);
  assert_int_equal(group->kind, SCHEMA_INT);
  assert_int_equal(group->u.i, 1);
  assert_int_equal(schema_attribute_of(conv, span_str("strides"))->kind, SCHEMA_ONES);
  assert_string_equal(schema_attribute_of(conv, span_str("auto_pad"))->u.s, "NOTSET");
  assert_null(schema_attribute_of(conv, span_str("axis")));
  assert_int_equal(loop->most_out, SCHEMA_ANY);
  assert_false(schema_input(loop, 70)->same);
  assert_true(schema_attribute_of(loop, span_str("body"))->required);
  const struct schema_types *v = schema_input(loop, 2)->types;
  assert_true(v->dtypes[SCHEMA_SEQUENCE] >> DTYPE_FLOAT & 1);
  assert_true(v->dtypes[SCHEMA_OPTIONAL_SEQUENCE] >> DTYPE_STRING & 1);
  assert_false(v->dtypes[SCHEMA_MAP_INT64]);
  assert_true(of("", "Upsample", 10)->deprecated && !of("", "Upsample", 9)->deprecated);
  const struct schema_attribute *axes =
      schema_attribute_of(of("", "MeanVarianceNormalization", 9), span_str("axes"));
  assert_int_equal(axes->n, 3);
  assert_int_equal(axes->u.ints[2], 3);
}

static void rules_have_a_family(void **state) {
  (void)state;
  const struct schema_operator *equal = schema_operator_of(span_str(""), span_str("Equal"));
  assert_int_equal(equal->rule, SCHEMA_RULE_broadcast_bool);
  assert_string_equal(schema_rule_row(equal->rule)->family, "broadcast");
  assert_string_equal(schema_rule_row(equal->rule)->parameter, "bool");
  assert_string_equal(schema_rule_row(SCHEMA_RULE_none)->family, "none");
  assert_int_equal(equal->flags, SCHEMA_BINARY | SCHEMA_ELEMENTWISE | SCHEMA_COMMUTATIVE |
                                     SCHEMA_JUMPS | SCHEMA_UNROUNDED);
  const struct schema_operator *random = schema_operator_of(span_str(""), span_str("RandomNormal"));
  assert_int_equal(random->flags, SCHEMA_RANDOM);
  const struct schema_operator *shape = schema_operator_of(span_str(""), span_str("Shape"));
  assert_int_equal(shape->flags, SCHEMA_UNROUNDED | SCHEMA_DIMS);
}

static void nodes_find_their_operators(void **state) {
  struct bench *t = *state;
  struct schema_names names;
  schema_names_init(&names, &t->m);
  const uint32_t add = node(t, "Add", "x x"), mine = node(t, "Add", "x x");
  const uint32_t unheard = node(t, "Unheard", "x");
  build_domain(&t->b, mine, "local");
  assert_string_equal(schema_of_node(&names, add)->name, "Add");
  assert_int_equal(schema_of_node_at(&names, add)->since, 14);
  assert_null(schema_of_node(&names, mine));
  assert_null(schema_of_node(&names, unheard));
  uint32_t n;
  const struct schema_operator *ops = schema_all(&n);
  for (uint32_t i = 0; i < n; i++) { // the table grows
    const uint32_t id = node(t, ops[i].name, "x");
    build_domain(&t->b, id, ops[i].domain);
    assert_ptr_equal(schema_of_node(&names, id), &ops[i]);
  }
  assert_ptr_equal(schema_of_node(&names, unheard), NULL);
  assert_int_equal(names.n, n + 2);
  schema_names_done(&names);
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
  build_attr_int(&t->b, pool, "count_include_pad", 1);
  assert_true(same(t, pool, 11, 21));
  assert_true(same(t, ceil, 11, 21)); // only counted pads were cut off differently
  build_attr_int(&t->b, ceil, "count_include_pad", 1);
  assert_false(same(t, ceil, 11, 21));
  uint32_t asks = node(t, "AveragePool", "x"); // a function's attribute, which may be anything
  build_attr_int(&t->b, asks, "count_include_pad", 1);
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

int test_schema(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(the_table_is_sorted),
      TEST(operators_are_found),
      TEST(signatures_say_what_a_node_has),
      TEST(rules_have_a_family),
      TEST(nodes_find_their_operators),
      TEST(unknown_operators_and_other_domains),
      TEST(attributes_that_became_inputs),
      TEST(softmax_over_the_last_axis),
      TEST(inputs_outputs_and_types),
      TEST(attribute_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
