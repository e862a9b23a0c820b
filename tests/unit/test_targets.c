// The tables of targets: rows are sound, names are found, forms need what the rows say.
#include "targets/targets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static void test_rows(void **state) {
  (void)state;
  struct arena a = {0};
  const struct target *t;
  uint32_t n = 0;
  size_t names = 0;
  for (; (t = targets_at(n)); n++) {
    assert_ptr_equal(targets_find(span_str(t->name)), t); // no two of a name
    assert_true(t->about[0]);
    assert_int_equal(target_presets(t, TARGET_SETS_ALL, &a)[0] != 0, t->block != NULL);
    assert_true(t->ort == 0 || (t->ort >= TARGET_OLDEST && t->ort <= TARGET_NEWEST));
    assert_int_equal(t->refuses & t->warns, 0);
    assert_true(t->level == 0 || t->level == 4);
    names += strlen(t->name) + 1;
  }
  assert_true(n > 12);
  assert_int_equal(strlen(targets_names()), names - 1);
  assert_null(targets_find(span_str("ort-1.2")));
  for (uint32_t f = 0; f < TARGET_FEATURES; f++) {
    const struct target_feature_row *row = target_feature_row((enum target_feature)f);
    assert_true(row->ort == 0 || (row->ort >= TARGET_OLDEST && row->ort <= TARGET_NEWEST));
    assert_true(row->words[0] && row->instead[0]);
  }
  arena_free(&a);
}

static void test_presets(void **state) {
  (void)state;
  struct arena a = {0};
  const struct target *cpu = targets_find(span_str("cpu"));
  const struct target *tensorrt = targets_find(span_str("tensorrt"));
  const uint32_t block = target_preset_of("block-size"), level = target_preset_of("accuracy-level");
  assert_string_equal(target_presets(cpu, TARGET_SETS_ALL, &a),
                      "blocks of 32, symmetric, accuracy level 4 on 4-bit nodes");
  assert_string_equal(target_presets(cpu, level, &a), "accuracy level 4 on 4-bit nodes");
  assert_string_equal(target_presets(cpu, 0, &a), "");
  assert_string_equal(target_presets(tensorrt, level | block, &a),
                      "blocks of 128 (columns of up to 128 elements: by channel)");
  const uint32_t candidates = target_preset_of("candidates");
  assert_string_equal(target_presets(tensorrt, target_preset_of("format") | candidates, &a),
                      "--format qdq, --candidates 4:128:sym,4:64:sym,4:32:sym");
  assert_int_equal(target_preset_of("bits"), 0);
  arena_free(&a);
}

static bool lacks(const char *name, enum target_feature f) {
  return target_lacks(targets_find(span_str(name))) >> f & 1;
}

static void test_what_versions_lack(void **state) {
  (void)state;
  assert_true(lacks("ort-1.22", TARGET_MATMUL_8));
  assert_false(lacks("ort-1.23", TARGET_MATMUL_8));
  assert_false(lacks("ort-1.20", TARGET_MATMUL_4));
  assert_true(lacks("webgpu", TARGET_FLOAT_ZEROS)); // by its own row
  assert_false(lacks("webgpu", TARGET_MATMUL_2_HALF));
  assert_int_equal(target_lacks(targets_find(span_str("ort-1.31"))), 1u << TARGET_BFLOAT16_MATH);
  assert_false(lacks("openvino", TARGET_BFLOAT16_MATH));
}

#define BIT(id) (1u << TARGET_##id)

static void test_forms(void **state) {
  (void)state;
  struct target_form x = {.op = TARGET_MATMUL, .bits = 8, .block = 32};
  assert_int_equal(target_form_needs(&x), BIT(MATMUL_8));
  x = (struct target_form){.op = TARGET_MATMUL, .bits = 2, .block = 64, .half = true};
  assert_int_equal(target_form_needs(&x), BIT(MATMUL_2) | BIT(MATMUL_2_HALF));
  x.zeros = x.float_zeros = true;
  assert_int_equal(target_form_needs(&x),
                   BIT(MATMUL_2) | BIT(MATMUL_2_FLOAT_ZEROS) | BIT(FLOAT_ZEROS));
  x = (struct target_form){.op = TARGET_QDQ, .bits = 8, .zeros = true};
  assert_int_equal(target_form_needs(&x), BIT(QDQ_ZEROS)); // by channel: everywhere
  x.block = 32;
  assert_int_equal(target_form_needs(&x), BIT(QDQ_8) | BIT(QDQ_ZEROS));
  x = (struct target_form){.op = TARGET_GATHER, .bits = 3};
  assert_int_equal(target_form_needs(&x), 0); // of no row
}

static void test_an_empty_model_needs_nothing(void **state) {
  (void)state;
  struct model m;
  struct target_needs needs;
  model_init(&m);
  target_needs(&m, &needs);
  assert_int_equal(needs.ort, TARGET_OLDEST);
  m.ir_version = 12;
  target_needs(&m, &needs);
  assert_int_equal(needs.ort, 24);
  assert_int_equal(needs.ir_version, 12);
  m.ir_version = 11;
  target_needs(&m, &needs);
  assert_int_equal(needs.ort, 23);
  model_free(&m);
}

// A 4-bit MatMulNBits in a graph, and a bfloat16 tensor that is the default of a function's attribute.
static void make_two_needs(struct model *m, enum graph_kind kind) {
  model_init(m);
  TABLE_ADD(m, graphs, 2);
  TABLE_ADD(m, functions, 1);
  TABLE_ADD(m, attrs, 1);
  TABLE_ADD(m, tensors, 1);
  TABLE_ADD(m, nodes, 1);
  m->main_graph = 0;
  m->graphs[0] = (struct model_graph){.kind = (uint8_t)kind, .parent = NO_ID, .owner = NO_ID};
  m->graphs[1] =
      (struct model_graph){.kind = GRAPH_FUNCTION, .parent = NO_ID, .src = {.off = 100, .len = 50}};
  m->functions[0] = (struct model_function){.graph = 1};
  m->nodes[0] = (struct model_node){.op_type = model_intern(m, span_str("MatMulNBits")),
                                    .domain = model_intern(m, span_str("com.microsoft"))};
  m->attrs[0] = (struct model_attr){
      .node = NO_ID, .type = ATTR_TENSOR, .count = 1, .src = {.off = 120, .len = 9}};
  m->tensors[0] = (struct model_tensor){
      .home = HOME_ATTRIBUTE, .dtype = DTYPE_BFLOAT16, .graph = 1, .owner = 0};
}

static void test_what_hangs_in_nothing_needs_nothing(void **state) {
  (void)state;
  struct model m;
  struct target_needs needs;
  make_two_needs(&m, GRAPH_MAIN);
  target_needs(&m, &needs);
  assert_int_equal(needs.features, BIT(MATMUL_4) | BIT(BFLOAT16));
  m.functions[0].flags = FUNCTION_DEAD; // its defaults have no flag of their own
  target_needs(&m, &needs);
  assert_int_equal(needs.features, BIT(MATMUL_4));
  model_free(&m);
  make_two_needs(&m, GRAPH_SUB); // that no attribute holds
  target_needs(&m, &needs);
  assert_int_equal(needs.features, BIT(BFLOAT16));
  model_free(&m);
}

int test_targets(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),
                                     cmocka_unit_test(test_presets),
                                     cmocka_unit_test(test_what_versions_lack),
                                     cmocka_unit_test(test_forms),
                                     cmocka_unit_test(test_an_empty_model_needs_nothing),
                                     cmocka_unit_test(test_what_hangs_in_nothing_needs_nothing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
