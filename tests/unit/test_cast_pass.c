// The pass `cast` on small graphs: what nodes and tensors come out, and the reason of every weight.
#include "cast.h"
#include "pass_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct cast_result run_with(struct pass_bench *t, const struct cast_options *o) {
  struct cast_result result;
  pass_bench_ready(t);
  pass_cast(&t->env, o, &result);
  build_check(&t->m);
  return result;
}

static struct cast_result run(struct pass_bench *t, enum dtype to) {
  return run_with(t, &(struct cast_options){.to = to, .min_elements = CAST_MIN_ELEMENTS});
}

// x -> MatMul(w [16,16]) -> Add(b [16]) -> y
static void one_layer(struct pass_bench *t) {
  build_input(&t->b, "x", DTYPE_FLOAT, "1,16");
  pass_bench_large(t, "w", DTYPE_FLOAT, "16,16");
  pass_bench_large(t, "b", DTYPE_FLOAT, "16");
  build_node(&t->b, "MatMul", "mm", "x w", "h");
  build_node(&t->b, "Add", "add", "h b", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "1,16");
}

static void one_cast_a_weight(void **state) {
  struct pass_bench *t = *state;
  one_layer(t);
  build_node(&t->b, "MatMul", "again", "x w", "z");
  const struct cast_result result = run(t, DTYPE_FLOAT16);
  assert_string_equal(pass_bench_nodes(t, 0), "Cast w_cast(w_float16)->w\n"
                                              "MatMul mm(x,w)->h\n"
                                              "Add add(h,b)->y\n"
                                              "MatMul again(x,w)->z\n");
  assert_string_equal(pass_bench_tensors(t, 0), "b float[16]\n"
                                                "w_float16 float16[16,16]\n");
  assert_string_equal(t->sites, "w:converted:cast\nb:skipped:small\n");
  assert_int_equal(result.converted, 1);
  assert_int_equal(result.skipped, 1);
}

static void constants_and_taken_names(void **state) {
  struct pass_bench *t = *state;
  static const float x[256];
  build_input(&t->b, "w_bfloat16", DTYPE_FLOAT, "1,16");
  build_attr_tensor(&t->b, build_node(&t->b, "Constant", "", "", "w"), "value", DTYPE_FLOAT,
                    "16,16", x);
  build_node(&t->b, "MatMul", "mm", "w_bfloat16 w", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "1,16");
  run(t, DTYPE_BFLOAT16);
  assert_string_equal(pass_bench_nodes(t, 0), "Cast w_1_cast(w_1_bfloat16)->w\n"
                                              "MatMul mm(w_bfloat16,w)->y\n");
  assert_string_equal(pass_bench_tensors(t, 0), "w_1_bfloat16 bfloat16[16,16]\n");
}

// Casts of initializers go before the first node; when that is a Constant that goes, before the one
// behind it.
static void casts_come_first_without_the_constant_that_was(void **state) {
  struct pass_bench *t = *state;
  static const float values[256];
  build_input(&t->b, "x", DTYPE_FLOAT, "1,16");
  pass_bench_large(t, "a", DTYPE_FLOAT, "16,16");
  build_attr_tensor(&t->b, build_node(&t->b, "Constant", "", "", "c"), "value", DTYPE_FLOAT,
                    "16,16", values);
  pass_bench_large(t, "b", DTYPE_FLOAT, "16,16");
  build_node(&t->b, "MatMul", "one", "x a", "h");
  build_node(&t->b, "MatMul", "two", "h c", "i");
  build_node(&t->b, "MatMul", "three", "i b", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "1,16");
  run(t, DTYPE_FLOAT16);
  assert_string_equal(pass_bench_nodes(t, 0), "Cast a_cast(a_float16)->a\n"
                                              "Cast c_cast(c_float16)->c\n"
                                              "Cast b_cast(b_float16)->b\n"
                                              "MatMul one(x,a)->h\n"
                                              "MatMul two(h,c)->i\n"
                                              "MatMul three(i,b)->y\n");
}

static void outputs_keep_their_names(void **state) {
  struct pass_bench *t = *state;
  one_layer(t);
  build_output(&t->b, "w", DTYPE_FLOAT, "16,16");
  run(t, DTYPE_FLOAT16);
  assert_string_equal(pass_bench_outputs(t, 0), "y float\nw float\n");
  assert_string_equal(pass_bench_tensors(t, 0), "b float[16]\n"
                                                "w_float16 float16[16,16]\n");
}

static void subgraphs_keep_their_weights(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,16");
  build_input(&t->b, "c", DTYPE_BOOL, "");
  pass_bench_large(t, "w", DTYPE_FLOAT, "16,16");
  const uint32_t cond = build_node(&t->b, "If", "if", "c", "y");
  const uint32_t inner = build_enter(&t->b, cond, "then_branch", "then");
  pass_bench_large(t, "v", DTYPE_FLOAT, "16,16");
  build_node(&t->b, "MatMul", "a", "x w", "h");
  build_node(&t->b, "MatMul", "b", "h v", "r");
  build_output(&t->b, "r", DTYPE_FLOAT, "1,16");
  build_leave(&t->b);
  build_output(&t->b, "y", DTYPE_FLOAT, "1,16");
  run(t, DTYPE_FLOAT16);
  assert_string_equal(pass_bench_nodes(t, 0), "Cast w_cast(w_float16)->w\n"
                                              "If if(c)->y\n");
  assert_string_equal(pass_bench_nodes(t, inner), "Cast v_cast(v_float16)->v\n"
                                                  "MatMul a(x,w)->h\n"
                                                  "MatMul b(h,v)->r\n");
}

static void functions_get_constants(void **state) {
  struct pass_bench *t = *state;
  static const float x[256];
  const uint32_t body = build_enter_function(&t->b, "local", "f", "a", "r");
  build_attr_tensor(&t->b, build_node(&t->b, "Constant", "k", "", "w"), "value", DTYPE_FLOAT,
                    "16,16", x);
  build_node(&t->b, "MatMul", "mm", "a w", "r");
  build_leave(&t->b);
  run(t, DTYPE_FLOAT16);
  assert_string_equal(pass_bench_nodes(t, body), "Constant w_float16()->w_float16\n"
                                                 "Cast w_cast(w_float16)->w\n"
                                                 "MatMul mm(a,w)->r\n");
}

static bool is(const void *ctx, struct span name) {
  return span_is(name, ctx);
}

static void excluded_by_tensor_or_user(void **state) {
  struct pass_bench *t = *state;
  one_layer(t);
  pass_bench_large(t, "v", DTYPE_FLOAT, "16,16");
  build_node(&t->b, "MatMul", "other", "y v", "z");
  run_with(t, &(struct cast_options){
                  .to = DTYPE_FLOAT16, .min_elements = 1, .excluded = is, .ctx = "mm"});
  assert_string_equal(t->sites, "w:skipped:excluded\nb:converted:cast\nv:converted:cast\n");
}

static void excluded_by_name(void **state) {
  struct pass_bench *t = *state;
  one_layer(t);
  run_with(t, &(struct cast_options){
                  .to = DTYPE_FLOAT16, .min_elements = 1, .excluded = is, .ctx = "w"});
  assert_string_equal(t->sites, "w:skipped:excluded\nb:converted:cast\n");
}

static void reasons(void **state) {
  struct pass_bench *t = *state;
  one_layer(t);
  pass_bench_large(t, "none", DTYPE_FLOAT, "16,16");
  pass_bench_large(t, "given", DTYPE_FLOAT, "16,16");
  build_input(&t->b, "given", DTYPE_FLOAT, "16,16");
  build_node(&t->b, "MatMul", "other", "y given", "z");
  pass_bench_large(t, "half", DTYPE_FLOAT16, "16,16");
  build_node(&t->b, "Identity", "i", "half", "same");
  run(t, DTYPE_FLOAT16);
  assert_string_equal(t->sites, "w:converted:cast\nb:skipped:small\nnone:skipped:unused\n"
                                "given:skipped:graph_input\n");
}

static void bfloat16_needs_a_newer_cast(void **state) {
  struct pass_bench *t = *state;
  t->m.opsets[0].version = 12;
  one_layer(t);
  run(t, DTYPE_BFLOAT16);
  assert_string_equal(t->sites, "w:skipped:opset_too_old\nb:skipped:small\n");
}

static void old_models_are_freed_of_inputs(void **state) {
  struct pass_bench *t = *state;
  t->m.ir_version = 3;
  one_layer(t);
  build_input(&t->b, "w", DTYPE_FLOAT, "16,16");
  run(t, DTYPE_FLOAT16);
  assert_int_equal(t->m.graphs[0].n_inputs, 1);
  assert_int_equal(t->m.ir_version, 4);
  assert_string_equal(pass_bench_tensors(t, 0), "b float[16]\n"
                                                "w_float16 float16[16,16]\n");
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, pass_bench_setup, pass_bench_teardown)
  const struct CMUnitTest tests[] = {
      CASE(one_cast_a_weight),
      CASE(constants_and_taken_names),
      CASE(casts_come_first_without_the_constant_that_was),
      CASE(outputs_keep_their_names),
      CASE(subgraphs_keep_their_weights),
      CASE(functions_get_constants),
      CASE(excluded_by_tensor_or_user),
      CASE(excluded_by_name),
      CASE(reasons),
      CASE(bfloat16_needs_a_newer_cast),
      CASE(old_models_are_freed_of_inputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
