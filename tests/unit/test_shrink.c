// The pass `shrink` on small graphs: what nodes and tensors come out, under which names, and the
// reason of every weight. That the numbers are right is for the end-to-end tests.
#include "pass_bench.h"
#include "shrink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct shrink_result run(struct pass_bench *t, struct shrink_options o) {
  struct shrink_result result;
  struct err err = {0};
  pass_bench_ready(t);
  const int rc = pass_shrink(&t->env, &o, &result, &err);
  assert_string_equal(err.msg, "");
  assert_int_equal(rc, 0);
  build_check(&t->m);
  return result;
}

static void refuses(struct pass_bench *t, struct shrink_options o, enum err_kind kind,
                    const char *part) {
  struct shrink_result result;
  struct err err = {0};
  pass_bench_ready(t);
  assert_int_equal(pass_shrink(&t->env, &o, &result, &err), -1);
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

static uint32_t large_constant(struct pass_bench *t, const char *node, const char *value) {
  static const float x[16384];
  const uint32_t k = build_node(&t->b, "Constant", node, "", value);
  build_attr_tensor(&t->b, k, "value", DTYPE_FLOAT, "128,128", x);
  return k;
}

// ---- integer_weights ---------------------------------------------------------------------------

static void codes_cast_mul_add(void **state) {
  struct pass_bench *t = *state;
  one_layer(t, DTYPE_FLOAT);
  const struct shrink_result result = run(t, (struct shrink_options){0});
  assert_string_equal(pass_bench_nodes(t, 0),
                      "Cast w_cast_node(w_quantized)->w_cast_tensor\n"
                      "Mul w_mul_node(w_cast_tensor,w_scale)->w_mul_tensor\n"
                      "Add w_add_node(w_mul_tensor,w_zero_point)->w_add_tensor\n"
                      "MatMul mm(x,w_add_tensor)->h\n"
                      "Add add(h,b)->y\n");
  assert_string_equal(pass_bench_tensors(t, 0), "b float[128]\n"
                                                "w_quantized int8[128,128]\n"
                                                "w_scale float[1]\n"
                                                "w_zero_point float[1]\n");
  assert_string_equal(t->sites, "w:converted:integer_weights\n"
                                "b:skipped:fewer_than_16384_elements\n");
  assert_int_equal(result.converted, 1);
  assert_int_equal(result.skipped, 1);
}

static void half_and_double_keep_their_type(void **state) {
  struct pass_bench *t = *state;
  one_layer(t, DTYPE_FLOAT16);
  pass_bench_large(t, "d", DTYPE_DOUBLE, "16384");
  build_node(&t->b, "Identity", "i", "d", "e");
  run(t, (struct shrink_options){0});
  assert_string_equal(pass_bench_tensors(t, 0), "b float16[128]\n"
                                                "w_quantized int8[128,128]\n"
                                                "w_scale float16[1]\n"
                                                "w_zero_point float16[1]\n"
                                                "d_quantized int8[16384]\n"
                                                "d_scale double[1]\n"
                                                "d_zero_point double[1]\n");
  int64_t to;
  const uint32_t cast = t->m.graphs[0].first_node;
  assert_true(model_attr_int(&t->m, cast, "to", 0, &to));
  assert_int_equal(to, DTYPE_FLOAT16);
}

static void dequantize_linear(void **state) {
  struct pass_bench *t = *state;
  one_layer(t, DTYPE_FLOAT);
  run(t, (struct shrink_options){.form = SHRINK_DEQUANTIZE});
  assert_string_equal(pass_bench_nodes(t, 0),
                      "DequantizeLinear w_dequantized_node(w_quantized,w_scale,w_zero_point)"
                      "->w_dequantized\n"
                      "MatMul mm(x,w_dequantized)->h\n"
                      "Add add(h,b)->y\n");
  assert_string_equal(pass_bench_tensors(t, 0), "b float[128]\n"
                                                "w_quantized uint8[128,128]\n"
                                                "w_scale float[]\n"
                                                "w_zero_point uint8[]\n");
}

static void dequantize_leaves_what_it_cannot_give(void **state) {
  struct pass_bench *t = *state;
  one_layer(t, DTYPE_FLOAT16);
  pass_bench_large(t, "d", DTYPE_DOUBLE, "16384");
  build_node(&t->b, "Identity", "i", "d", "e");
  run(t, (struct shrink_options){.form = SHRINK_DEQUANTIZE});
  assert_string_equal(t->sites, "w:skipped:float16_needs_opset_19\n"
                                "b:skipped:fewer_than_16384_elements\n"
                                "d:skipped:no_dequantize_to_double\n");
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

// ---- constants anywhere ------------------------------------------------------------------------

static void constants_are_called_by_their_nodes(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,128");
  large_constant(t, "node", "a");
  large_constant(t, "", "b");
  large_constant(t, "", "c");
  large_constant(t, "node", "d");
  build_node(&t->b, "Sum", "s", "a b c d", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "128,128");
  run(t, (struct shrink_options){0});
  const char *const nodes = pass_bench_nodes(t, 0);
  assert_non_null(strstr(nodes, "Sum s(node_add_tensor,b_add_tensor,c_add_tensor,"
                                "node_1_add_tensor)->y\n"));
  assert_null(strstr(nodes, "Constant"));
}

static void equal_names_in_two_branches(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,128");
  build_input(&t->b, "c", DTYPE_BOOL, "");
  const uint32_t cond = build_node(&t->b, "If", "if", "c", "y");
  uint32_t graphs[2];
  for (int i = 0; i < 2; i++) {
    graphs[i] = build_enter(&t->b, cond, i ? "else_branch" : "then_branch", i ? "else" : "then");
    pass_bench_large(t, "w", DTYPE_FLOAT, "128,128");
    build_node(&t->b, "MatMul", "mm", "x w", "r");
    build_output(&t->b, "r", DTYPE_FLOAT, "1,128");
    build_leave(&t->b);
  }
  build_output(&t->b, "y", DTYPE_FLOAT, "1,128");
  run(t, (struct shrink_options){0});
  assert_string_equal(pass_bench_tensors(t, graphs[0]), "w_quantized int8[128,128]\n"
                                                        "w_scale float[1]\n"
                                                        "w_zero_point float[1]\n");
  assert_string_equal(pass_bench_tensors(t, graphs[1]), "w_1_quantized int8[128,128]\n"
                                                        "w_1_scale float[1]\n"
                                                        "w_1_zero_point float[1]\n");
  assert_non_null(strstr(pass_bench_nodes(t, graphs[1]), "MatMul mm(x,w_1_add_tensor)->r\n"));
  assert_string_equal(pass_bench_nodes(t, 0), "If if(c)->y\n");
}

static void functions_get_their_own(void **state) {
  struct pass_bench *t = *state;
  const uint32_t body = build_enter_function(&t->b, "local", "f", "a", "r");
  large_constant(t, "k", "w");
  build_node(&t->b, "MatMul", "mm", "a w", "r");
  build_leave(&t->b);
  run(t, (struct shrink_options){0});
  assert_string_equal(pass_bench_nodes(t, body),
                      "Constant k_zero_point()->k_zero_point\n"
                      "Constant k_scale()->k_scale\n"
                      "Constant k_quantized()->k_quantized\n"
                      "Cast k_cast_node(k_quantized)->k_cast_tensor\n"
                      "Mul k_mul_node(k_cast_tensor,k_scale)->k_mul_tensor\n"
                      "Add k_add_node(k_mul_tensor,k_zero_point)->k_add_tensor\n"
                      "MatMul mm(a,k_add_tensor)->r\n");
}

static void outputs_keep_their_names(void **state) {
  struct pass_bench *t = *state;
  one_layer(t, DTYPE_FLOAT);
  build_output(&t->b, "w", DTYPE_FLOAT, "128,128");
  run(t, (struct shrink_options){0});
  assert_string_equal(pass_bench_outputs(t, 0), "y float\nw float\n");
  const char *const nodes = pass_bench_nodes(t, 0);
  assert_non_null(strstr(nodes, "Add w_add_node(w_mul_tensor,w_zero_point)->w\n"));
  assert_non_null(strstr(nodes, "MatMul mm(x,w)->h\n"));
}

static void reasons(void **state) {
  struct pass_bench *t = *state;
  one_layer(t, DTYPE_FLOAT);
  pass_bench_large(t, "none", DTYPE_FLOAT, "128,128");
  pass_bench_large(t, "given", DTYPE_FLOAT, "128,128");
  build_input(&t->b, "given", DTYPE_FLOAT, "128,128");
  pass_bench_large(t, "empty", DTYPE_FLOAT, "0,16384");
  pass_bench_large(t, "ids", DTYPE_INT64, "16384");
  build_node(&t->b, "F", "f", "given empty ids", "z");
  run(t, (struct shrink_options){0});
  assert_string_equal(t->sites, "w:converted:integer_weights\n"
                                "b:skipped:fewer_than_16384_elements\n"
                                "none:skipped:unused\n"
                                "given:skipped:graph_input\n"
                                "empty:skipped:fewer_than_16384_elements\n");
}

static void old_opsets_do_not_broadcast(void **state) {
  struct pass_bench *t = *state;
  t->m.opsets[0].version = 6;
  one_layer(t, DTYPE_FLOAT);
  run(t, (struct shrink_options){0});
  assert_string_equal(t->sites, "w:skipped:opset_too_old\n"
                                "b:skipped:fewer_than_16384_elements\n");
}

static void old_models_are_freed_of_inputs(void **state) {
  struct pass_bench *t = *state;
  t->m.ir_version = 3;
  one_layer(t, DTYPE_FLOAT);
  build_input(&t->b, "w", DTYPE_FLOAT, "128,128");
  const uint32_t b = build_input(&t->b, "b", DTYPE_FLOAT, "128");
  run(t, (struct shrink_options){0});
  assert_int_equal(t->m.graphs[0].n_inputs, 1); // b, which stays, was no less constant
  assert_int_equal(t->m.values[b].kind, VALUE_INITIALIZER);
  assert_int_equal(t->m.ir_version, 4);
}

// ---- float_weights -----------------------------------------------------------------------------

static void levels_make_one_tensor(void **state) {
  struct pass_bench *t = *state;
  one_layer(t, DTYPE_FLOAT);
  large_constant(t, "k", "v");
  pass_bench_large(t, "o", DTYPE_FLOAT, "128,128");
  build_output(&t->b, "o", DTYPE_FLOAT, "128,128");
  build_node(&t->b, "MatMul", "last", "y v", "z");
  run(t, (struct shrink_options){.method = SHRINK_FLOAT_WEIGHTS, .levels = 100});
  assert_string_equal(pass_bench_nodes(t, 0), "MatMul mm(x,w_dequantized)->h\n"
                                              "Add add(h,b)->y\n"
                                              "MatMul last(y,k_dequantized)->z\n");
  assert_string_equal(pass_bench_tensors(t, 0), "b float[128]\n"
                                                "o float[128,128]\n"
                                                "w_dequantized float[128,128]\n"
                                                "k_dequantized float[128,128]\n");
}

// ---- f16_to_f32 --------------------------------------------------------------------------------

static void everything_becomes_float32(void **state) {
  struct pass_bench *t = *state;
  static const uint16_t one = 0x3c00;
  one_layer(t, DTYPE_FLOAT16);
  build_value_info(&t->b, "h", DTYPE_FLOAT16, "1,128");
  build_attr_tensor(&t->b, build_node(&t->b, "Constant", "k", "", "v"), "value", DTYPE_FLOAT16, "",
                    &one);
  const uint32_t fill = build_node(&t->b, "ConstantOfShape", "fill", "s", "q");
  build_attr_tensor(&t->b, fill, "value", DTYPE_FLOAT16, "1", &one);
  build_node(&t->b, "Sum", "sum", "y v q", "z");
  build_output(&t->b, "z", DTYPE_FLOAT16, "1,128");
  run(t, (struct shrink_options){.method = SHRINK_F16_TO_F32});
  assert_string_equal(pass_bench_nodes(t, 0), "MatMul mm(x,w_f32)->h\n"
                                              "Add add(h,b_f32)->y\n"
                                              "ConstantOfShape fill(s)->q\n"
                                              "Sum sum(y,k_f32,q)->z\n");
  assert_string_equal(pass_bench_tensors(t, 0), "w_f32 float[128,128]\n"
                                                "b_f32 float[128]\n"
                                                "k_f32 float[]\n");
  assert_string_equal(pass_bench_outputs(t, 0), "y float\nz float\n");
  for (uint32_t i = 0; i < t->m.n_infos; i++)
    assert_true(t->m.infos[i].flags & INFO_DEAD || t->m.infos[i].dtype != DTYPE_FLOAT16);
  for (uint32_t i = 0; i < t->m.n_tensors; i++)
    assert_true(t->m.tensors[i].flags & TENSOR_DEAD || t->m.tensors[i].dtype == DTYPE_FLOAT);
}

static void cast_to(struct pass_bench *t, const char *name, const char *in, const char *out,
                    int64_t to) {
  build_attr_int(&t->b, build_node(&t->b, "Cast", name, in, out), "to", to);
}

static void casts_between_floats_go(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "N");
  build_input(&t->b, "i", DTYPE_INT64, "N");
  cast_to(t, "down", "x", "a", DTYPE_FLOAT16);
  cast_to(t, "up", "a", "c", DTYPE_FLOAT);
  cast_to(t, "ints", "i", "d", DTYPE_FLOAT16);
  cast_to(t, "more_ints", "i", "e", DTYPE_FLOAT);
  build_node(&t->b, "Sum", "sum", "c d e", "f");
  cast_to(t, "unknown", "f", "g", DTYPE_FLOAT16);
  cast_to(t, "last", "g", "y", DTYPE_FLOAT);
  build_output(&t->b, "y", DTYPE_FLOAT, "N");
  const struct shrink_result result = run(t, (struct shrink_options){.method = SHRINK_F16_TO_F32});
  assert_string_equal(pass_bench_nodes(t, 0), "Cast ints(i)->d\n"
                                              "Cast more_ints(i)->e\n"
                                              "Sum sum(x,d,e)->f\n"
                                              "Cast unknown(f)->g\n"
                                              "Cast last(g)->y\n");
  for (uint32_t i = t->m.graphs[0].first_node; i != NO_ID; i = t->m.nodes[i].next) {
    int64_t to;
    assert_true(model_attr_int(&t->m, i, "to", DTYPE_FLOAT, &to));
    assert_int_equal(to, DTYPE_FLOAT);
  }
  assert_string_equal(t->sites, "down:converted:cast_bypassed\n"
                                "up:converted:cast_bypassed\n"
                                "ints:converted:cast_to_float32\n"
                                "unknown:converted:cast_to_float32\n");
  assert_int_equal(result.casts, 4);
}

static void shadowed_names_keep_their_cast(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "N");
  cast_to(t, "down", "x", "a", DTYPE_FLOAT16);
  build_input(&t->b, "c", DTYPE_BOOL, "");
  const uint32_t cond = build_node(&t->b, "If", "if", "c", "y");
  const uint32_t inner = build_enter(&t->b, cond, "then_branch", "then");
  pass_bench_large(t, "x", DTYPE_FLOAT16, "1");
  build_node(&t->b, "Add", "add", "a x", "r");
  build_output(&t->b, "r", DTYPE_FLOAT16, "N");
  build_leave(&t->b);
  build_output(&t->b, "y", DTYPE_FLOAT16, "N");
  run(t, (struct shrink_options){.method = SHRINK_F16_TO_F32});
  assert_string_equal(pass_bench_nodes(t, 0), "Cast down(x)->a\nIf if(c)->y\n");
  assert_string_equal(pass_bench_nodes(t, inner), "Add add(a,x_f32)->r\n");
}

static void type_attributes_change(void **state) {
  struct pass_bench *t = *state;
  const uint32_t noise = build_node(&t->b, "RandomNormal", "noise", "", "y");
  build_attr_int(&t->b, noise, "dtype", DTYPE_FLOAT16);
  build_attr_int(&t->b, noise, "count", 10);
  build_output(&t->b, "y", DTYPE_FLOAT16, "N");
  run(t, (struct shrink_options){.method = SHRINK_F16_TO_F32});
  int64_t dtype, count;
  assert_true(model_attr_int(&t->m, noise, "dtype", 0, &dtype));
  assert_true(model_attr_int(&t->m, noise, "count", 0, &count));
  assert_int_equal(dtype, DTYPE_FLOAT);
  assert_int_equal(count, 10);
}

// ---- options -----------------------------------------------------------------------------------

static void levels_have_limits(void **state) {
  one_layer(*state, DTYPE_FLOAT);
  refuses(*state, (struct shrink_options){.method = SHRINK_FLOAT_WEIGHTS, .levels = 1}, ERR_USAGE,
          "levels is 1");
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

static void dequantize_needs_opset_10(void **state) {
  struct pass_bench *t = *state;
  t->m.opsets[0].version = 9;
  one_layer(t, DTYPE_FLOAT);
  refuses(t, (struct shrink_options){.form = SHRINK_DEQUANTIZE}, ERR_USAGE, "opset 9");
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, pass_bench_setup, pass_bench_teardown)
  const struct CMUnitTest tests[] = {
      CASE(codes_cast_mul_add),
      CASE(half_and_double_keep_their_type),
      CASE(dequantize_linear),
      CASE(dequantize_leaves_what_it_cannot_give),
      CASE(channels_along_the_axis_given),
      CASE(channels_of_dequantize_linear),
      CASE(constants_are_called_by_their_nodes),
      CASE(equal_names_in_two_branches),
      CASE(functions_get_their_own),
      CASE(outputs_keep_their_names),
      CASE(reasons),
      CASE(old_opsets_do_not_broadcast),
      CASE(old_models_are_freed_of_inputs),
      CASE(levels_make_one_tensor),
      CASE(everything_becomes_float32),
      CASE(casts_between_floats_go),
      CASE(shadowed_names_keep_their_cast),
      CASE(type_attributes_change),
      CASE(levels_have_limits),
      CASE(channels_need_their_axes),
      CASE(channels_are_for_integers),
      CASE(dequantize_needs_opset_10),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
