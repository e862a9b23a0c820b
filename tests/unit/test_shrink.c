// What the pass `shrink` makes of axes that are given, and the options that it refuses. Everything else is
// in tests/passes/shrink; that the numbers are right is for the end-to-end tests.
#include "pass_bench.h"
#include "passes/shrink/shrink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void run(struct pass_bench *t, struct shrink_options o) {
  struct err err = {0};
  pass_bench_ready(t);
  const int rc = pass_shrink(&t->env, &o, &err);
  assert_string_equal(err.msg, "");
  assert_int_equal(rc, 0);
  build_check(&t->m);
}

static void refuses(struct pass_bench *t, struct shrink_options o, enum err_kind kind,
                    const char *part) {
  struct err err = {0};
  pass_bench_ready(t);
  assert_int_equal(pass_shrink(&t->env, &o, &err), -1);
  assert_int_equal(err.kind, kind);
  assert_non_null(strstr(err.msg, part));
  assert_int_equal(t->e.n, 0);
}

// x -> MatMul(w [128,128]) -> Add(b [128]) -> y
static void one_layer(struct pass_bench *t, enum dtype dtype) {
  build_input(&t->b, "x", dtype, "1,128");
  pass_bench_large(t, "w", dtype, "128,128");
  pass_bench_large(t, "b", dtype, "128");
  build_node(&t->b, "MatMul", "mm", "x w", "h");
  build_node(&t->b, "Add", "add", "h b", "y");
  build_output(&t->b, "y", dtype, "1,128");
}

static void channels_along_the_axis_given(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,64,T");
  pass_bench_large(t, "w", DTYPE_FLOAT, "32,64,8");
  pass_bench_large(t, "flat", DTYPE_FLOAT, "16384");
  build_node(&t->b, "Conv", "c", "x w", "y");
  build_node(&t->b, "Identity", "i", "flat", "z");
  run(t, (struct shrink_options){
             .per_channel = true, .axes = (uint32_t[]){1, RECIPE_PER_TENSOR}, .n_axes = 2});
  assert_string_equal(pass_bench_tensors(t, 0), "w_quantized int8[32,64,8]\n"
                                                "w_scale float[1,64,1]\n"
                                                "w_zero_point float[1,64,1]\n"
                                                "flat_quantized int8[16384]\n"
                                                "flat_scale float[1]\n"
                                                "flat_zero_point float[1]\n");
}

static void channels_of_dequantize_linear(void **state) {
  struct pass_bench *t = *state;
  one_layer(t, DTYPE_FLOAT);
  run(t, (struct shrink_options){
             .form = SHRINK_DEQUANTIZE, .per_channel = true, .axes = (uint32_t[]){1}, .n_axes = 1});
  assert_string_equal(pass_bench_tensors(t, 0), "b float[128]\n"
                                                "w_quantized uint8[128,128]\n"
                                                "w_scale float[128]\n"
                                                "w_zero_point uint8[128]\n");
  int64_t axis;
  assert_true(model_attr_int(&t->m, t->m.graphs[0].first_node, "axis", 0, &axis));
  assert_int_equal(axis, 1);
}

static void levels_have_limits(void **state) {
  one_layer(*state, DTYPE_FLOAT);
  refuses(*state, (struct shrink_options){.method = SHRINK_FLOAT_WEIGHTS, .levels = 1}, ERR_USAGE,
          "--levels must be from 2");
}

static void channels_need_their_axes(void **state) {
  one_layer(*state, DTYPE_FLOAT);
  refuses(*state, (struct shrink_options){.per_channel = true}, ERR_USAGE, "axis_unresolved");
}

static void channels_are_for_integers(void **state) {
  one_layer(*state, DTYPE_FLOAT);
  refuses(
      *state,
      (struct shrink_options){.method = SHRINK_FLOAT_WEIGHTS, .levels = 256, .per_channel = true},
      ERR_USAGE, "integer_weights");
}

// A model that is older is none to refuse: its weights stay.
static void dequantize_needs_opset_10(void **state) {
  struct pass_bench *t = *state;
  t->m.opsets[0].version = 9;
  one_layer(t, DTYPE_FLOAT);
  run(t, (struct shrink_options){.form = SHRINK_DEQUANTIZE});
  assert_int_equal(t->e.n, 0);
}

int test_shrink(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, pass_bench_setup, pass_bench_teardown)
  const struct CMUnitTest tests[] = {
      CASE(channels_along_the_axis_given),
      CASE(channels_of_dequantize_linear),
      CASE(levels_have_limits),
      CASE(channels_need_their_axes),
      CASE(channels_are_for_integers),
      CASE(dequantize_needs_opset_10),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
