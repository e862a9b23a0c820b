// The pass on small graphs: the nodes that come out, as "Op(inputs)->output" lines in order, and
// the reason of every Conv. That the numbers are right is for the end-to-end tests.
#include "conv2matmul.h"
#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct bench {
  struct model m;
  struct recipes r;
  struct edits e;
  struct build b;
  struct conv2matmul_options o;
  struct conv2matmul_result result;
  struct arena arena;
  char reasons[512]; // of all Convs, a blank behind each
};

static const float zeros[64];

static int setup(void **state) {
  static struct bench t;
  t = (struct bench){.o.form = CONV2MATMUL_AUTO};
  build_begin(&t.b, &t.m);
  recipes_init(&t.r);
  *state = &t;
  return 0;
}

static int teardown(void **state) {
  struct bench *t = *state;
  edits_free(&t->e);
  recipes_free(&t->r);
  model_free(&t->m);
  arena_free(&t->arena);
  return 0;
}

static void note(void *ctx, const struct pass_site *site) {
  struct bench *t = ctx;
  size_t n = strlen(t->reasons);
  snprintf(t->reasons + n, sizeof t->reasons - n, "%s ", site->reason);
}

static void run(struct bench *t) {
  struct arena scratch = {0}, site_scratch = {0};
  build_end(&t->b);
  edits_init(&t->e, &t->m, &t->r);
  struct pass_env env = {.m = &t->m,
                         .edits = &t->e,
                         .scratch = &scratch,
                         .site_scratch = &site_scratch,
                         .site = note,
                         .site_ctx = t};
  pass_conv2matmul(&env, &t->o, &t->result);
  build_check(&t->m);
  arena_free(&scratch);
  arena_free(&site_scratch);
}

static const char *nodes(struct bench *t, uint32_t graph) {
  return build_nodes(&t->m, graph, false, &t->arena);
}

static bool alive(const struct bench *t, const char *value) {
  uint32_t id = model_value_in(&t->m, t->m.main_graph, model_find_name(&t->m, span_str(value)));
  return id != NO_ID && !(t->m.values[id].flags & VALUE_DEAD);
}

// x [1,4,T] -> Conv(w [2,4,1], b) -> y
static uint32_t one_conv(struct bench *t) {
  build_input(&t->b, "x", DTYPE_FLOAT, "1,4,T");
  build_floats(&t->b, "w", "2,4,1", zeros);
  build_floats(&t->b, "b", "2", zeros);
  uint32_t conv = build_node(&t->b, "Conv", "c", "x w b", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "1,2,T");
  return conv;
}

static void batched(void **state) {
  struct bench *t = *state;
  one_conv(t);
  run(t);
  assert_string_equal(nodes(t, 0), "Transpose(x)->c_x_nwc\n"
                                   "MatMul(c_x_nwc,c_w_t)->c_mm\n"
                                   "Add(c_mm,b)->c_mm_bias\n"
                                   "Transpose(c_mm_bias)->y\n");
  assert_string_equal(t->reasons, "converted_strict_mode ");
  assert_false(alive(t, "w"));
  assert_true(alive(t, "b"));
}

static void flat_with_a_dynamic_shape(void **state) {
  struct bench *t = *state;
  one_conv(t);
  t->o.form = CONV2MATMUL_FLAT;
  run(t);
  assert_string_equal(nodes(t, 0), "Transpose(x)->c_x_nwc\n"
                                   "Reshape(c_x_nwc,c_flat_shape)->c_x_flat\n"
                                   "MatMul(c_x_flat,c_w_t)->c_mm\n"
                                   "Add(c_mm,b)->c_mm_bias\n"
                                   "Shape(c_x_nwc)->c_shape_x\n"
                                   "Gather(c_shape_x,c_idx0)->c_n\n"
                                   "Gather(c_shape_x,c_idx1)->c_w\n"
                                   "Concat(c_n,c_w,c_m)->c_out_shape\n"
                                   "Reshape(c_mm_bias,c_out_shape)->c_nwc_out\n"
                                   "Transpose(c_nwc_out)->y\n");
}

static void strict_compat_keeps_everything(void **state) {
  struct bench *t = *state;
  one_conv(t);
  t->o.strict_compat = true;
  run(t);
  assert_string_equal(nodes(t, 0), "Transpose(x)->c_x_nwc\n"
                                   "Reshape(c_x_nwc,c_flat_shape)->c_x_flat\n"
                                   "MatMul(c_x_flat,c_w_t)->c_mm\n"
                                   "Add(c_mm,b)->c_mm_bias\n"
                                   "Shape(x)->c_shape_x\n"
                                   "Gather(c_shape_x,c_idx0)->c_n\n"
                                   "Gather(c_shape_x,c_idx2)->c_w\n"
                                   "Concat(c_n,c_w,c_m)->c_out_shape\n"
                                   "Reshape(c_mm_bias,c_out_shape)->c_nwc_out\n"
                                   "Transpose(c_nwc_out)->y\n");
  assert_true(alive(t, "w"));
}

static void static_shapes_need_no_shape_node(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,4,7,9");
  build_floats(&t->b, "w", "2,4,1,1", zeros);
  uint32_t conv = build_node(&t->b, "Conv", "c", "x w", "y");
  build_attr_ints(&t->b, conv, "strides", "2,3");
  build_output(&t->b, "y", DTYPE_FLOAT, "1,2,4,3");
  t->o.form = CONV2MATMUL_FLAT;
  t->o.extended = true;
  run(t);
  assert_string_equal(
      nodes(t, 0),
      "Slice(x,c_slice_starts_hw,c_slice_ends_hw,c_slice_axes_hw,c_slice_steps_hw)->c_x_strided\n"
      "Transpose(c_x_strided)->c_x_nhwc\n"
      "Reshape(c_x_nhwc,c_flat_shape)->c_x_flat\n"
      "MatMul(c_x_flat,c_w_t)->c_mm\n"
      "Reshape(c_mm,c_out_shape)->c_nhwc_out\n"
      "Transpose(c_nhwc_out)->y\n");
  struct span shape;
  uint32_t value = build_value(&t->b, "c_out_shape");
  assert_true(model_small_value(&t->m, t->m.values[value].def, &shape));
  static const int64_t want[4] = {1, 4, 3, 2};
  assert_int_equal(shape.n, sizeof want);
  assert_memory_equal(shape.at, want, sizeof want);
  assert_string_equal(t->reasons, "converted_extended_mode ");
}

static void old_opsets_take_attributes_and_a_pool(void **state) {
  struct bench *t = *state;
  uint32_t conv = one_conv(t);
  build_attr_ints(&t->b, conv, "pads", "1,2");
  build_attr_ints(&t->b, conv, "strides", "2");
  t->m.opsets[0].version = 9;
  t->o.extended = true;
  run(t);
  assert_string_equal(nodes(t, 0), "Pad(x)->c_x_padded\n"
                                   "MaxPool(c_x_padded)->c_x_strided\n"
                                   "Transpose(c_x_strided)->c_x_nwc\n"
                                   "MatMul(c_x_nwc,c_w_t)->c_mm\n"
                                   "Add(c_mm,b)->c_mm_bias\n"
                                   "Transpose(c_mm_bias)->y\n");
}

static void transposes_between_two_convs_cancel(void **state) {
  struct bench *t = *state;
  one_conv(t);
  build_floats(&t->b, "w2", "3,2,1", zeros);
  build_node(&t->b, "Conv", "d", "y w2", "z");
  build_output(&t->b, "z", DTYPE_FLOAT, "1,3,T");
  // y is a graph output as well: its way back stays, the second way in does not.
  run(t);
  assert_string_equal(nodes(t, 0), "Transpose(x)->c_x_nwc\n"
                                   "MatMul(c_x_nwc,c_w_t)->c_mm\n"
                                   "Add(c_mm,b)->c_mm_bias\n"
                                   "Transpose(c_mm_bias)->y\n"
                                   "MatMul(c_mm_bias,d_w_t)->d_mm\n"
                                   "Transpose(d_mm)->z\n");
}

static void transposes_of_the_source_cancel(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,T,4");
  build_floats(&t->b, "w", "2,4,1", zeros);
  uint32_t in = build_node(&t->b, "Transpose", "in", "x", "xt");
  build_attr_ints(&t->b, in, "perm", "0,2,1");
  build_node(&t->b, "Conv", "c", "xt w", "yt");
  uint32_t out = build_node(&t->b, "Transpose", "out", "yt", "y");
  build_attr_ints(&t->b, out, "perm", "0,2,1");
  build_node(&t->b, "Relu", "r", "y", "z");
  build_output(&t->b, "z", DTYPE_FLOAT, NULL);
  run(t);
  assert_string_equal(nodes(t, 0), "MatMul(x,c_w_t)->c_mm\n"
                                   "Relu(c_mm)->z\n");
}

static void shared_weight_is_transposed_once(void **state) {
  struct bench *t = *state;
  one_conv(t);
  build_node(&t->b, "Conv", "d", "x w b", "z");
  build_output(&t->b, "z", DTYPE_FLOAT, NULL);
  run(t);
  assert_non_null(strstr(nodes(t, 0), "MatMul(d_x_nwc,c_w_t)->d_mm\n"));
  uint32_t transposes = 0;
  for (uint32_t i = 0; i < t->r.n_rows; i++)
    transposes += t->r.rows[i].kind == RECIPE_TRANSPOSE;
  assert_int_equal(transposes, 1);
}

static void weight_used_elsewhere_stays(void **state) {
  struct bench *t = *state;
  one_conv(t);
  build_node(&t->b, "Relu", "r", "w", "z");
  build_output(&t->b, "z", DTYPE_FLOAT, NULL);
  run(t);
  assert_true(alive(t, "w"));
  assert_true(alive(t, "c_w_t"));
}

static void constants_behind_identity(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,4,T");
  uint32_t k = build_node(&t->b, "Constant", "k", "", "w0");
  build_attr_tensor(&t->b, k, "value", DTYPE_FLOAT, "2,4,1", zeros);
  build_node(&t->b, "Identity", "i", "w0", "w");
  build_node(&t->b, "Conv", "c", "x w", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, NULL);
  run(t);
  assert_string_equal(nodes(t, 0), "Transpose(x)->c_x_nwc\n"
                                   "MatMul(c_x_nwc,c_w_t)->c_mm\n"
                                   "Transpose(c_mm)->y\n");
}

static void function_bodies_get_constants(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,4,T");
  build_output(&t->b, "x", DTYPE_FLOAT, "1,4,T");
  uint32_t body = build_enter_function(&t->b, "local", "f", "a", "r");
  uint32_t k = build_node(&t->b, "Constant", "k", "", "w");
  build_attr_tensor(&t->b, k, "value", DTYPE_FLOAT, "2,4,1", zeros);
  build_node(&t->b, "Conv", "c", "a w", "r");
  build_leave(&t->b);
  (void)body;
  run(t);
  uint32_t graph = t->m.functions[0].graph;
  assert_string_equal(nodes(t, graph), "Constant()->c_w_t\n"
                                       "Transpose(a)->c_x_nwc\n"
                                       "MatMul(c_x_nwc,c_w_t)->c_mm\n"
                                       "Transpose(c_mm)->r\n");
}

// What is left alone, one property changed at a time.
struct refusal {
  const char *attr, *value; // an INTS attribute of the Conv
  const char *reason;
};

static void reasons(void **state) {
  static const struct refusal cases[] = {
      {"pads", "0,1", "strict_mode_requires_unit_stride_and_zero_pad "},
      {"strides", "2", "strict_mode_requires_unit_stride_and_zero_pad "},
      {"pads", "0,0,0,0", "invalid_pads "},
      {"pads", "0,-1", "invalid_pads "},
      {"strides", "0", "invalid_strides "},
      {"strides", "1,1", "invalid_strides "},
      {"dilations", "0", "invalid_dilations "},
      {"dilations", "2", "non_unit_dilation_requires_opt_in "},
      {"group", "1", "group_not_1 "}, // a list where an int belongs
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct bench *t;
    teardown(state);
    setup(state);
    t = *state;
    uint32_t conv = one_conv(t);
    build_attr_ints(&t->b, conv, cases[i].attr, cases[i].value);
    run(t);
    assert_string_equal(t->reasons, cases[i].reason);
    assert_int_equal(t->result.skipped, 1);
    assert_int_equal(t->e.n, 0);
  }
}

static void auto_pad_is_no_obstacle_to_a_unit_kernel(void **state) {
  struct bench *t = *state;
  uint32_t conv = one_conv(t);
  build_attr_string(&t->b, conv, "auto_pad", "SAME_LOWER");
  run(t);
  assert_int_equal(t->result.converted, 1);
}

static void compat_refuses_auto_pad(void **state) {
  struct bench *t = *state;
  uint32_t conv = one_conv(t);
  build_attr_string(&t->b, conv, "auto_pad", "SAME_LOWER");
  t->o.strict_compat = true;
  run(t);
  assert_string_equal(t->reasons, "auto_pad_not_notset ");
}

static void dilation_guard(void **state) {
  struct bench *t = *state;
  uint32_t conv = one_conv(t);
  build_attr_ints(&t->b, conv, "dilations", "3");
  t->o.allow_dilation = true;
  t->o.max_dilation = 2;
  run(t);
  assert_string_equal(t->reasons, "dilation_exceeds_max_guardrail ");
}

static void initializers_of_old_ir_are_freed(void **state) {
  struct bench *t = *state;
  one_conv(t);
  t->m.ir_version = 3;
  run(t);
  assert_int_equal(t->m.ir_version, 4);
}

// The Transpose right behind the Conv is what new nodes stand before, until it goes.
static void a_transpose_behind_goes_and_the_rest_stays(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,4,T");
  build_floats(&t->b, "w", "2,4,1", zeros);
  build_node(&t->b, "Conv", "c", "x w", "y");
  uint32_t in = build_node(&t->b, "Transpose", "t", "y", "z");
  build_attr_ints(&t->b, in, "perm", "0,2,1");
  build_node(&t->b, "Relu", "r", "y", "a");
  build_node(&t->b, "Relu", "s", "z", "b");
  build_output(&t->b, "a", DTYPE_FLOAT, "1,2,T");
  build_output(&t->b, "b", DTYPE_FLOAT, "1,T,2");
  run(t);
  assert_string_equal(nodes(t, 0), "Transpose(x)->c_x_nwc\n"
                                   "MatMul(c_x_nwc,c_w_t)->c_mm\n"
                                   "Transpose(c_mm)->y\n"
                                   "Relu(y)->a\n"
                                   "Relu(c_mm)->b\n");
}

// Convs without a name share one stem: each still gets a name of its own, whatever is taken.
static void unnamed_convs_get_names_in_turn(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,4,T");
  build_floats(&t->b, "w", "4,4,1", zeros);
  build_floats(&t->b, "conv1x1_mm_2", "1", zeros);
  build_node(&t->b, "Conv", "", "x w", "a");
  build_node(&t->b, "Conv", "", "a w", "b");
  build_node(&t->b, "Conv", "", "b w", "c");
  build_output(&t->b, "c", DTYPE_FLOAT, "1,4,T");
  run(t);
  assert_string_equal(nodes(t, 0), "Transpose(x)->conv1x1_x_nwc\n"
                                   "MatMul(conv1x1_x_nwc,conv1x1_w_t)->conv1x1_mm\n"
                                   "MatMul(conv1x1_mm,conv1x1_w_t)->conv1x1_mm_1\n"
                                   "MatMul(conv1x1_mm_1,conv1x1_w_t)->conv1x1_mm_3\n"
                                   "Transpose(conv1x1_mm_3)->c\n");
}

// A shape that pads bring past any number is not known.
static void pads_past_any_number_give_no_static_shape(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,4,8");
  build_floats(&t->b, "w", "2,4,1", zeros);
  uint32_t conv = build_node(&t->b, "Conv", "c", "x w", "y");
  build_attr_ints(&t->b, conv, "pads", "9223372036854775807,9223372036854775807");
  build_output(&t->b, "y", DTYPE_FLOAT, "1,2,T");
  t->o.form = CONV2MATMUL_FLAT;
  t->o.extended = true;
  run(t);
  assert_non_null(strstr(nodes(t, 0), "Shape("));
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(batched),
      CASE(flat_with_a_dynamic_shape),
      CASE(strict_compat_keeps_everything),
      CASE(static_shapes_need_no_shape_node),
      CASE(old_opsets_take_attributes_and_a_pool),
      CASE(transposes_between_two_convs_cancel),
      CASE(transposes_of_the_source_cancel),
      CASE(shared_weight_is_transposed_once),
      CASE(weight_used_elsewhere_stays),
      CASE(constants_behind_identity),
      CASE(function_bodies_get_constants),
      CASE(reasons),
      CASE(auto_pad_is_no_obstacle_to_a_unit_kernel),
      CASE(compat_refuses_auto_pad),
      CASE(dilation_guard),
      CASE(initializers_of_old_ir_are_freed),
      CASE(a_transpose_behind_goes_and_the_rest_stays),
      CASE(unnamed_convs_get_names_in_turn),
      CASE(pads_past_any_number_give_no_static_shape),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
