// The pass on small graphs: the nodes that come out as "Op(inputs)->output" lines, their
// attributes, the tensors with type and dims, and the reason of every node that was looked at. That
// bytes and numbers are right is for the kernels' and the end-to-end tests.
#include "matmulnbits.h"
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
  struct matmulnbits_options o;
  struct name_pattern patterns[4];
  struct matmulnbits_override overrides[4];
  struct matmulnbits_result result;
  struct arena arena;
  struct err err;
  char reasons[512], warnings[1024]; // a blank, a line feed behind each
};

static const float zeros[4096];

static int setup(void **state) {
  static struct bench t;
  t = (struct bench){0};
  t.o = (struct matmulnbits_options){.scheme = {.bits = 4, .block = 32},
                                     .op_types = MATMULNBITS_MATMUL};
  build_begin(&t.b, &t.m);
  recipes_init(&t.r);
  *state = &t;
  return 0;
}

static int teardown(void **state) {
  struct bench *t = *state;
  for (size_t i = 0; i < 4; i++) {
    name_pattern_done(&t->patterns[i]);
    name_pattern_done(&t->overrides[i].pattern);
  }
  edits_free(&t->e);
  recipes_free(&t->r);
  model_free(&t->m);
  arena_free(&t->arena);
  return 0;
}

static void note(void *ctx, const struct pass_site *site) {
  struct bench *t = ctx;
  size_t n = strlen(t->reasons);
  bool converted = strcmp(site->status, "converted") == 0;
  assert_int_equal(converted, strcmp(site->reason, "quantized") == 0);
  assert_int_equal(converted, site->codes != NO_ID);
  if (converted) assert_int_equal(t->r.rows[site->codes].kind != RECIPE_EXTENT, 1);
  snprintf(t->reasons + n, sizeof t->reasons - n, "%s ", site->reason);
}

static void warn(void *ctx, const char *sentence, const char *hint) {
  struct bench *t = ctx;
  size_t n = strlen(t->warnings);
  snprintf(t->warnings + n, sizeof t->warnings - n, "%s; %s\n", sentence, hint ? hint : "");
}

static int attempt(struct bench *t) {
  struct arena scratch = {0}, site_scratch = {0};
  build_end(&t->b);
  edits_init(&t->e, &t->m, &t->r);
  struct pass_env env = {.m = &t->m,
                         .edits = &t->e,
                         .scratch = &scratch,
                         .site_scratch = &site_scratch,
                         .site = note,
                         .site_ctx = t,
                         .warn = warn,
                         .warn_ctx = t};
  int rc = pass_matmulnbits(&env, &t->o, &t->result, &t->err);
  build_check(&t->m);
  arena_free(&scratch);
  arena_free(&site_scratch);
  return rc;
}

static void run(struct bench *t) {
  assert_int_equal(attempt(t), 0);
}

static const char *nodes(struct bench *t, uint32_t graph) {
  return build_nodes(&t->m, graph, false, &t->arena);
}

// "name=1,…" of a node's integer attributes, in order.
static const char *attributes(struct bench *t, const char *op) {
  const struct model *m = &t->m;
  char *text = arena_zalloc(&t->arena, 512);
  size_t n = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    if (m->nodes[i].flags & NODE_DEAD || !span_is(model_name(m, m->nodes[i].op_type), op)) continue;
    for (uint32_t k = 0; k < m->nodes[i].n_attrs; k++) {
      const struct model_attr *a = &m->attrs[m->nodes[i].attrs + k];
      n += (size_t)snprintf(text + n, 512 - n, "%s=%lld ", model_name_str(m, a->name),
                            (long long)a->u.i);
    }
  }
  return text;
}

// "uint8[2,3]" of an initializer.
static const char *tensor(struct bench *t, const char *initializer) {
  const struct model *m = &t->m;
  uint32_t id = NO_ID;
  for (uint32_t i = 0; i < m->n_values; i++)
    if (!(m->values[i].flags & VALUE_DEAD) && m->values[i].kind == VALUE_INITIALIZER &&
        span_is(model_value_name(m, i), initializer))
      id = m->values[i].def;
  if (id == NO_ID) return "none";
  const struct model_tensor *x = &m->tensors[id];
  return arena_printf(&t->arena, "%s%s", dtype_name((enum dtype)x->dtype),
                      quote_dims(model_dims(m, x), x->rank).s);
}

static bool alive(struct bench *t, const char *initializer) {
  return strcmp(tensor(t, initializer), "none") != 0;
}

static void override(struct bench *t, const char *text) {
  t->o.overrides = t->overrides;
  assert_int_equal(
      matmulnbits_override_parse(text, &t->overrides[t->o.n_overrides++], &t->arena, &t->err), 0);
}

// x [2,64] -> MatMul(W [64,3]) -> y
static void one_matmul(struct bench *t) {
  build_input(&t->b, "x", DTYPE_FLOAT, "2,64");
  build_floats(&t->b, "W", "64,3", zeros);
  build_node(&t->b, "MatMul", "fc", "x W", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2,3");
}

static void matmul(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y\n");
  assert_string_equal(attributes(t, "MatMulNBits"), "K=64 N=3 bits=4 block_size=32 ");
  assert_string_equal(tensor(t, "W_Q4"), "uint8[3,2,16]");
  assert_string_equal(tensor(t, "W_scales"), "float[3,2]");
  assert_string_equal(tensor(t, "W_zero_points"), "uint8[3,1]");
  assert_false(alive(t, "W"));
  assert_string_equal(t->reasons, "quantized ");
  assert_int_equal(model_opset_version(&t->m, 0, span_str("com.microsoft")), 1);
  assert_int_equal(t->m.ir_version, 8);
  assert_int_equal(t->result.converted, 1);
}

static void symmetric_with_accuracy_level(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  t->o.scheme.symmetric = true;
  t->o.accuracy_level = 4;
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales)->y\n");
  assert_string_equal(attributes(t, "MatMulNBits"),
                      "K=64 N=3 accuracy_level=4 bits=4 block_size=32 ");
}

static void rtn_names(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  t->o.scheme.algorithm = MATMULNBITS_RTN;
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4G32,W_scale,W_zp)->y\n");
  assert_string_equal(tensor(t, "W_Q4G32"), "uint8[3,2,16]");
}

static void k_quant_always_has_zero_points(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  t->o.scheme.algorithm = MATMULNBITS_K_QUANT;
  t->o.scheme.symmetric = true;
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4G32,W_scale,W_zp)->y\n");
}

static void hqq_has_float_zero_points(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  t->o.scheme.algorithm = MATMULNBITS_HQQ;
  run(t);
  assert_string_equal(tensor(t, "W_zero_points"), "float[6]");
  assert_string_equal(tensor(t, "W_scales"), "float[6]");
}

static void a_shared_weight_is_quantized_once(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  build_node(&t->b, "MatMul", "fc2", "x W", "z");
  build_output(&t->b, "z", DTYPE_FLOAT, "2,3");
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y\n"
                                   "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->z\n");
  assert_false(alive(t, "W"));
  assert_false(alive(t, "W_Q4_1"));
}

static void a_shared_weight_in_two_forms(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,64");
  build_floats(&t->b, "W", "64,64", zeros);
  uint32_t swap = build_node(&t->b, "Transpose", "swap", "W", "V");
  build_attr_ints(&t->b, swap, "perm", "1,0");
  build_node(&t->b, "MatMul", "fc", "x W", "y");
  build_node(&t->b, "MatMul", "turned", "x V", "z");
  build_node(&t->b, "MatMul", "other", "x W", "u");
  for (const char *const *out = (const char *const[]){"y", "z", "u", NULL}; *out; out++)
    build_output(&t->b, *out, DTYPE_FLOAT, "2,64");
  override(t, "other=bits8");
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y\n"
                                   "MatMulNBits(x,V_Q4,V_scales,V_zero_points)->z\n"
                                   "MatMulNBits(x,W_Q8,W_scales_1,W_zero_points_1)->u\n");
  assert_false(alive(t, "W"));
}

static void a_weight_used_elsewhere_stays(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  build_node(&t->b, "Relu", "r", "W", "z");
  build_output(&t->b, "z", DTYPE_FLOAT, "64,3");
  run(t);
  assert_true(alive(t, "W"));
  assert_true(alive(t, "W_Q4"));
}

static void tied_embeddings(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "i", DTYPE_INT64, "5");
  build_floats(&t->b, "E", "10,32", zeros);
  build_node(&t->b, "Gather", "embed", "E i", "x");
  uint32_t swap = build_node(&t->b, "Transpose", "swap", "E", "Et");
  build_attr_ints(&t->b, swap, "perm", "1,0");
  build_node(&t->b, "MatMul", "head", "x Et", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "5,10");
  t->o.op_types |= MATMULNBITS_GATHER;
  run(t);
  assert_string_equal(nodes(t, 0), "GatherBlockQuantized(E_Q4,i,E_scales,E_zero_points)->x\n"
                                   "MatMulNBits(x,Et_Q4,Et_scales,Et_zero_points)->y\n");
  assert_string_equal(tensor(t, "E_Q4"), "uint4[10,32]");
  assert_string_equal(tensor(t, "Et_Q4"), "uint8[10,1,16]");
  assert_false(alive(t, "E"));
  assert_int_equal(t->m.ir_version, 10);
  assert_int_equal(model_opset_version(&t->m, 0, span_str("")), 18); // no need to raise it
}

static void gather_of_bytes(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "i", DTYPE_INT64, "5");
  build_floats(&t->b, "E", "10,64", zeros);
  build_node(&t->b, "Gather", "embed", "E i", "x");
  build_output(&t->b, "x", DTYPE_FLOAT, "5,64");
  t->o.op_types = MATMULNBITS_GATHER;
  t->o.scheme.bits = 2;
  run(t);
  assert_string_equal(attributes(t, "GatherBlockQuantized"),
                      "bits=2 block_size=32 gather_axis=0 quantize_axis=1 ");
  assert_string_equal(tensor(t, "E_Q2"), "uint8[10,16]");
  assert_string_equal(tensor(t, "E_zero_points"), "uint8[10,1]");
}

static void leading_dims_of_1(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,64");
  build_input(&t->b, "v", DTYPE_FLOAT, "1,2,64");
  build_floats(&t->b, "W", "1,64,3", zeros);
  build_node(&t->b, "MatMul", "fc", "v W", "z");
  build_node(&t->b, "MatMul", "", "x W", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "1,2,3");
  build_output(&t->b, "z", DTYPE_FLOAT, "1,2,3");
  run(t);
  assert_string_equal(
      nodes(t, 0),
      "MatMulNBits(v,W_Q4,W_scales,W_zero_points)->z\n"
      "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y_pre_reshape\n"
      "Shape(x)->W_Q4_y_a_shape\n"
      "Shape(W_Q4_y_a_shape)->W_Q4_y_a_shape_of_shape\n"
      "Gather(W_Q4_y_a_shape_of_shape,W_Q4_y_zero)->W_Q4_y_a_rank\n"
      "Max(W_Q4_y_a_rank,W_Q4_y_two)->W_Q4_y_a_rank_eff\n"
      "Sub(W_Q4_y_rank_b,W_Q4_y_a_rank_eff)->W_Q4_y_extra_raw\n"
      "Max(W_Q4_y_extra_raw,W_Q4_y_zero)->W_Q4_y_extra_count\n"
      "Reshape(W_Q4_y_extra_count,W_Q4_y_one_vec)->W_Q4_y_extra_count_vec\n"
      "ConstantOfShape(W_Q4_y_extra_count_vec)->W_Q4_y_extra_ones\n"
      "Sub(W_Q4_y_a_rank,W_Q4_y_one)->W_Q4_y_a_rank_m1\n"
      "Reshape(W_Q4_y_a_rank_m1,W_Q4_y_one_vec)->W_Q4_y_a_rank_m1_vec\n"
      "Slice(W_Q4_y_a_shape,W_Q4_y_zero_vec,W_Q4_y_a_rank_m1_vec,W_Q4_y_zero_vec)->W_Q4_y_a_prefix_"
      "shape\n"
      "Concat(W_Q4_y_extra_ones,W_Q4_y_a_prefix_shape,W_Q4_y_n_vec)->W_Q4_y_target_shape\n"
      "Reshape(y_pre_reshape,W_Q4_y_target_shape)->y\n");
}

// ---- Gemm --------------------------------------------------------------------------------------

static uint32_t one_gemm(struct bench *t, const char *in) {
  build_input(&t->b, "x", DTYPE_FLOAT, "2,64");
  build_floats(&t->b, "W", "3,64", zeros);
  build_floats(&t->b, "c", "3", zeros);
  uint32_t gemm = build_node(&t->b, "Gemm", "fc", in, "y");
  build_attr_int(&t->b, gemm, "transB", 1);
  build_output(&t->b, "y", DTYPE_FLOAT, "2,3");
  t->o.op_types = MATMULNBITS_GEMM;
  return gemm;
}

static void gemm(void **state) {
  struct bench *t = *state;
  one_gemm(t, "x W c");
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y_product\n"
                                   "Add(y_product,c)->y\n");
  assert_string_equal(attributes(t, "MatMulNBits"), "K=64 N=3 bits=4 block_size=32 ");
  assert_string_equal(tensor(t, "W_Q4"), "uint8[3,2,16]");
}

static void gemm_without_bias(void **state) {
  struct bench *t = *state;
  one_gemm(t, "x W");
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y\n");
}

static void gemm_with_factors(void **state) {
  struct bench *t = *state;
  uint32_t node = one_gemm(t, "x W c");
  build_attr_float(&t->b, node, "alpha", 0.5f);
  build_attr_float(&t->b, node, "beta", -2);
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y_product\n"
                                   "Mul(y_product,y_alpha)->y_scaled\n"
                                   "Mul(c,y_beta)->y_bias\n"
                                   "Add(y_scaled,y_bias)->y\n");
}

static void gemm_with_beta_0_drops_the_bias(void **state) {
  struct bench *t = *state;
  build_attr_float(&t->b, one_gemm(t, "x W c"), "beta", 0);
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y\n");
  assert_false(alive(t, "c"));
}

static void gemm_refusals(void **state) {
  struct bench *t = *state;
  build_attr_float(&t->b, one_gemm(t, "x W c"), "alpha", 0.3f);
  uint32_t two = build_node(&t->b, "Gemm", "g2", "x W c", "a");
  build_attr_int(&t->b, two, "transA", 1);
  uint32_t three = build_node(&t->b, "Gemm", "g3", "x W c", "b");
  build_attr_float(&t->b, three, "beta", 0.3f);
  run(t);
  assert_string_equal(t->reasons, "inexact_alpha transposed_activation inexact_beta ");
  assert_int_equal(t->e.n, 0);
}

// ---- qdq ---------------------------------------------------------------------------------------

static void qdq_matmul(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  build_node(&t->b, "MatMul", "fc2", "x W", "z");
  build_output(&t->b, "z", DTYPE_FLOAT, "2,3");
  t->o.qdq = true;
  run(t);
  assert_string_equal(nodes(t, 0),
                      "DequantizeLinear(W_DQ_Q4,W_DQ_scales,W_DQ_zero_points)->W_DQ_Q4_"
                      "output\n"
                      "MatMul(x,W_DQ_Q4_output)->y\n"
                      "MatMul(x,W_DQ_Q4_output)->z\n");
  assert_string_equal(attributes(t, "DequantizeLinear"), "axis=0 block_size=32 ");
  assert_string_equal(tensor(t, "W_DQ_Q4"), "uint4[64,3]");
  assert_string_equal(tensor(t, "W_DQ_scales"), "float[2,3]");
  assert_string_equal(tensor(t, "W_DQ_zero_points"), "uint4[2,3]");
  assert_int_equal(model_opset_version(&t->m, 0, span_str("")), 21);
  assert_int_equal(model_opset_version(&t->m, 0, span_str("com.microsoft")), 0);
  assert_int_equal(t->m.ir_version, 10);
}

static void qdq_per_channel_symmetric_is_transposed(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  t->o.qdq = true;
  t->o.scheme = (struct matmulnbits_scheme){.bits = 4, .block = 0, .symmetric = true};
  run(t);
  assert_string_equal(nodes(t, 0), "DequantizeLinear(W_DQ_Q4,W_DQ_scales)->W_DQ_Q4_output\n"
                                   "Transpose(W_DQ_Q4_output)->W_DQ_Q4_output_transposed\n"
                                   "MatMul(x,W_DQ_Q4_output_transposed)->y\n");
  assert_string_equal(attributes(t, "DequantizeLinear"), "axis=1 block_size=64 ");
  assert_string_equal(tensor(t, "W_DQ_Q4"), "int4[3,64]");
  assert_string_equal(tensor(t, "W_DQ_scales"), "float[3,1]");
}

static void qdq_gemm_stays_as_it_is(void **state) {
  struct bench *t = *state;
  build_attr_float(&t->b, one_gemm(t, "x W c"), "alpha", 0.3f);
  t->o.qdq = true;
  t->o.scheme.bits = 2;
  t->o.scheme.symmetric = true;
  run(t);
  assert_string_equal(nodes(t, 0), "DequantizeLinear(W_DQ_Q2,W_DQ_scales)->W_DQ_Q2_output\n"
                                   "Gemm(x,W_DQ_Q2_output,c)->y\n");
  assert_string_equal(attributes(t, "DequantizeLinear"), "axis=1 block_size=32 ");
  assert_string_equal(tensor(t, "W_DQ_Q2"), "int2[3,64]");
  assert_int_equal(model_opset_version(&t->m, 0, span_str("")), 25);
  assert_int_equal(t->m.ir_version, 13);
}

static void qdq_refuses_a_raise_that_changes_a_node(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  t->m.opsets[0].version = 11; // build_begin made it
  uint32_t soft = build_node(&t->b, "Softmax", "probabilities", "y", "p");
  build_attr_int(&t->b, soft, "axis", 0);
  build_output(&t->b, "p", DTYPE_FLOAT, "2,3");
  t->o.qdq = true;
  assert_int_equal(attempt(t), -1);
  assert_int_equal(t->err.kind, ERR_MODEL);
  assert_non_null(
      strstr(t->err.msg, "node 'probabilities' (Softmax) changed between opset 11 and 21"));
  assert_int_equal(t->e.n, 0);
}

// A node that opset 21 changed is looked for wherever it is: inside another one, and in a function,
// whose own import counts.
static void qdq_looks_at_every_graph_before_a_raise(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  t->m.opsets[0].version = 11;
  build_input(&t->b, "c", DTYPE_BOOL, "");
  uint32_t node = build_node(&t->b, "If", "choose", "c", "p");
  build_enter(&t->b, node, "then_branch", "then");
  uint32_t soft = build_node(&t->b, "Softmax", "inner", "y", "q");
  build_attr_int(&t->b, soft, "axis", 0);
  build_output(&t->b, "q", DTYPE_FLOAT, "2,3");
  build_leave(&t->b);
  t->o.qdq = true;
  assert_int_equal(attempt(t), -1);
  assert_int_equal(t->err.kind, ERR_MODEL);
  assert_non_null(strstr(t->err.msg, "node 'inner' (Softmax) changed between opset 11 and 21"));
  assert_int_equal(t->e.n, 0);
}

static void qdq_looks_at_functions_before_a_raise(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  build_enter_function(&t->b, "local", "f", "a", "b"); // its opset is 17
  uint32_t mean = build_node(&t->b, "ReduceMean", "mean", "a", "b");
  build_attr_ints(&t->b, mean, "axes", "1");
  build_leave(&t->b);
  t->o.qdq = true;
  assert_int_equal(attempt(t), -1);
  assert_int_equal(t->err.kind, ERR_MODEL);
  assert_non_null(strstr(t->err.msg, "node 'mean' (ReduceMean) changed between opset 17 and 21"));
  assert_int_equal(t->e.n, 0);
}

// Below IR version 4 every initializer is an input too, and constant all the same: the weight's
// input goes with it, and the new tensors need no inputs.
static void initializers_that_are_inputs(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  build_input(&t->b, "W", DTYPE_FLOAT, "64,3");
  t->m.ir_version = 3;
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y\n");
  assert_int_equal(t->m.ir_version, 4);
  assert_int_equal(t->m.graphs[0].n_inputs, 1);
}

// ---- where weights are -------------------------------------------------------------------------

static void constants_and_identities(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,64");
  uint32_t c = build_node(&t->b, "Constant", "", "", "W");
  build_attr_tensor(&t->b, c, "value", DTYPE_FLOAT, "64,3", zeros);
  build_node(&t->b, "Identity", "", "W", "V");
  build_node(&t->b, "MatMul", "fc", "x V", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2,3");
  run(t);
  assert_string_equal(nodes(t, 0), "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y\n");
}

static void subgraphs_use_weights_of_outer_graphs(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "c", DTYPE_BOOL, "");
  build_input(&t->b, "x", DTYPE_FLOAT, "2,64");
  build_floats(&t->b, "W", "64,3", zeros);
  uint32_t node = build_node(&t->b, "If", "choose", "c", "z");
  uint32_t inner = build_enter(&t->b, node, "then_branch", "then");
  build_node(&t->b, "MatMul", "inner", "x W", "a");
  build_output(&t->b, "a", DTYPE_FLOAT, "2,3");
  build_leave(&t->b);
  build_node(&t->b, "MatMul", "outer", "x W", "y");
  build_output(&t->b, "z", DTYPE_FLOAT, "2,3");
  build_output(&t->b, "y", DTYPE_FLOAT, "2,3");
  t->o.qdq = true;
  run(t);
  assert_string_equal(nodes(t, inner), "MatMul(x,W_DQ_Q4_output)->a\n");
  assert_string_equal(nodes(t, 0),
                      "DequantizeLinear(W_DQ_Q4,W_DQ_scales,W_DQ_zero_points)->W_DQ_Q4_"
                      "output\n"
                      "If(c)->z\n"
                      "MatMul(x,W_DQ_Q4_output)->y\n");
}

static void functions_import_what_they_use(void **state) {
  struct bench *t = *state;
  uint32_t body = build_enter_function(&t->b, "local", "f", "x", "y");
  uint32_t c = build_node(&t->b, "Constant", "", "", "W");
  build_attr_tensor(&t->b, c, "value", DTYPE_FLOAT, "64,3", zeros);
  build_node(&t->b, "MatMul", "fc", "x W", "y");
  build_leave(&t->b);
  run(t);
  assert_string_equal(nodes(t, body), "Constant()->W_zero_points\nConstant()->W_scales\n"
                                      "Constant()->W_Q4\n"
                                      "MatMulNBits(x,W_Q4,W_scales,W_zero_points)->y\n");
  assert_int_equal(model_opset_version(&t->m, body, span_str("com.microsoft")), 1);
  assert_int_equal(model_opset_version(&t->m, 0, span_str("com.microsoft")), 1);
}

// ---- what is left alone ------------------------------------------------------------------------

static void refusals(void **state) {
  struct bench *t = *state;
  static const double doubles[8];
  build_input(&t->b, "x", DTYPE_FLOAT, "2,64");
  build_floats(&t->b, "left", "2,64", zeros);
  build_floats(&t->b, "batch", "2,64,3", zeros);
  build_floats(&t->b, "vector", "64", zeros);
  build_floats(&t->b, "empty", "64,0", zeros);
  build_tensor(&t->b, "double", DTYPE_DOUBLE, "2,2", doubles);
  build_floats(&t->b, "open", "64,3", zeros);
  build_input(&t->b, "open", DTYPE_FLOAT, "64,3");
  build_node(&t->b, "DequantizeLinear", "", "x x", "d");
  static const char *const inputs[] = {"x x",      "left x", "x batch", "x vector", "x empty",
                                       "x double", "x open", "x d",     "x"};
  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
    build_node(&t->b, "MatMul", "n", inputs[i], arena_printf(&t->arena, "y%zu", i));
  uint32_t done = build_node(&t->b, "MatMulNBits", "done", "x left left", "q");
  build_domain(&t->b, done, "com.microsoft");
  run(t);
  assert_string_equal(
      t->reasons, "non_constant_weight weight_on_the_left batched_weight weight_rank empty_weight "
                  "weight_dtype overridable_weight already_quantized invalid_inputs "
                  "already_quantized ");
  assert_int_equal(t->e.n, 0);
}

static void small_ones(void **state) {
  struct bench *t = *state;
  one_matmul(t);
  t->o.min_elements = 193;
  run(t);
  assert_string_equal(t->reasons, "too_small ");
}

static void gathers_that_packed_bytes_cannot_do(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "i", DTYPE_INT64, "5");
  build_floats(&t->b, "E", "10,64", zeros);
  build_floats(&t->b, "F", "10,40", zeros);
  build_attr_int(&t->b, build_node(&t->b, "Gather", "g", "E i", "a"), "axis", 1);
  build_node(&t->b, "Gather", "h", "F i", "b");
  t->o.op_types = MATMULNBITS_GATHER;
  t->o.scheme.bits = 8;
  run(t);
  assert_string_equal(t->reasons, "gather_shape gather_shape ");
}

// ---- selection ---------------------------------------------------------------------------------

static void compile(struct bench *t, uint32_t at, const char *text) {
  assert_int_equal(name_pattern_compile(&t->patterns[at], text, "--exclude", &t->err), 0);
}

static void three_matmuls(struct bench *t) {
  build_input(&t->b, "x", DTYPE_FLOAT, "2,64");
  for (const char *const *w = (const char *const[]){"A", "B", "C", NULL}; *w; w++) {
    build_floats(&t->b, *w, "64,3", zeros);
    build_node(&t->b, "MatMul", arena_printf(&t->arena, "fc_%s", *w),
               arena_printf(&t->arena, "x %s", *w), arena_printf(&t->arena, "y%s", *w));
    build_output(&t->b, arena_printf(&t->arena, "y%s", *w), DTYPE_FLOAT, "2,3");
  }
}

static void exclude_beats_tensor_beats_include(void **state) {
  struct bench *t = *state;
  three_matmuls(t);
  compile(t, 0, "A");
  compile(t, 1, "re:^fc_[A]$");
  t->o.exclude = &t->patterns[0];
  t->o.include = &t->patterns[1];
  t->o.n_exclude = t->o.n_include = 1;
  override(t, "?=bits8:g16");
  override(t, "fc_B=bits2");
  override(t, "A=sym");
  run(t);
  assert_string_equal(t->reasons, "excluded quantized quantized ");
  assert_string_equal(tensor(t, "B_Q2"), "uint8[3,2,8]"); // the last that matches, alone
  assert_string_equal(tensor(t, "C_Q8"), "uint8[3,4,16]");
  assert_string_equal(t->warnings, "");
}

static void include_is_the_rest_of_nothing(void **state) {
  struct bench *t = *state;
  three_matmuls(t);
  compile(t, 0, "fc_C");
  t->o.include = t->patterns;
  t->o.n_include = 1;
  run(t);
  assert_string_equal(t->reasons, "not_included not_included quantized ");
}

static void patterns_without_a_match_are_told(void **state) {
  struct bench *t = *state;
  three_matmuls(t);
  compile(t, 0, "fc_AB");
  t->o.exclude = t->patterns;
  t->o.n_exclude = 1;
  run(t);
  assert_string_equal(t->warnings, "--exclude 'fc_AB' matches no weight and no node that could be "
                                   "quantized; the nearest names: 'fc_A', 'fc_B', 'fc_C'\n");
}

static void overrides_are_parsed(void **state) {
  struct bench *t = *state;
  struct matmulnbits_override o;
  assert_int_equal(matmulnbits_override_parse("re:a=b=asym:channel", &o, &t->arena, &t->err), 0);
  assert_string_equal(o.pattern.text, "re:a=b");
  assert_true(o.has_symmetric && !o.scheme.symmetric && o.has_block && o.scheme.block == 0);
  assert_false(o.has_bits);
  name_pattern_done(&o.pattern);
  static const char *const bad[] = {"w",        "w=",        "w=bits3",       "w=g20", "w=sym:asym",
                                    "w=bits4:", "w=bits4:x", "w=bits4:bits4", "=sym",  "re:(=sym"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct err err = {0};
    assert_int_equal(matmulnbits_override_parse(bad[i], &o, &t->arena, &err), -1);
    assert_int_equal(err.kind, ERR_USAGE);
    assert_non_null(strstr(err.msg, "--tensor"));
  }
}

static void candidate_words(void **state) {
  struct bench *t = *state;
  // Text, the algorithm of those that name none, and the words that it stands for (NULL: refused).
  static const struct {
    const char *text;
    enum matmulnbits_algorithm preset;
    const char *means;
  } cases[] = {{"4:64", MATMULNBITS_DEFAULT, "4:64"},
               {"4:64:rtn", MATMULNBITS_DEFAULT, "4:64:rtn"},
               {"2:16:k_quant", MATMULNBITS_DEFAULT, "2:16:k_quant"},
               {"4:256:hqq", MATMULNBITS_RTN, "4:256:hqq"},
               {"8:128:sym:rtn", MATMULNBITS_DEFAULT, "8:128:sym:rtn"},
               {"8:128:rtn:sym", MATMULNBITS_DEFAULT, "8:128:sym:rtn"},
               {"4:64:asym:rtn", MATMULNBITS_DEFAULT, "4:64:rtn"},
               {"4:64", MATMULNBITS_RTN, "4:64:rtn"},
               {"4:64:default", MATMULNBITS_RTN, "4:64"},
               {"8:64", MATMULNBITS_K_QUANT, "8:64:k_quant"},
               {"8:64", MATMULNBITS_HQQ, "8:64"},
               {"8:64:hqq", MATMULNBITS_DEFAULT, "8:64:hqq"}, // options_check refuses it
               {"4:channel:sym", MATMULNBITS_DEFAULT, "4:channel:sym"},
               {"4:64:rtn:hqq", MATMULNBITS_DEFAULT, NULL},
               {"4:64:sym:asym", MATMULNBITS_DEFAULT, NULL},
               {"4:64:RTN", MATMULNBITS_DEFAULT, NULL},
               {"4:64:", MATMULNBITS_DEFAULT, NULL},
               {"rtn:4:64", MATMULNBITS_DEFAULT, NULL},
               {"4:rtn", MATMULNBITS_DEFAULT, NULL},
               {"4", MATMULNBITS_DEFAULT, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct matmulnbits_scheme s = {.algorithm = cases[i].preset};
    struct err err = {0};
    const int rc = matmulnbits_candidate_parse(span_str(cases[i].text), &s, &err);
    assert_int_equal(rc, cases[i].means ? 0 : -1);
    if (cases[i].means)
      assert_string_equal(matmulnbits_scheme_text(&s, &t->arena), cases[i].means);
    else
      assert_int_equal(err.kind, ERR_USAGE);
  }
}

static void options_that_do_not_go_together(void **state) {
  struct bench *t = *state;
  const struct matmulnbits_options good = t->o;
  struct matmulnbits_scheme other[2] = {{.bits = 4, .block = 64},
                                        {.bits = 4, .block = 64, .algorithm = MATMULNBITS_RTN}};
  struct matmulnbits_scheme bytes = {.bits = 8, .block = 64, .algorithm = MATMULNBITS_HQQ};
  struct matmulnbits_scheme symmetric = {
      .bits = 4, .block = 64, .symmetric = true, .algorithm = MATMULNBITS_HQQ};
  struct matmulnbits_options bad[12];
  for (size_t i = 0; i < 12; i++)
    bad[i] = good;
  bad[8].candidates = bad[9].candidates = other, bad[8].n_candidates = bad[9].n_candidates = 2;
  bad[8].qdq = true;
  bad[9].op_types |= MATMULNBITS_GATHER;
  bad[10].candidates = &bytes, bad[10].n_candidates = 1;
  bad[11].candidates = &symmetric, bad[11].n_candidates = 1;
  bad[0].scheme.block = 0;
  bad[1].qdq = true, bad[1].scheme.algorithm = MATMULNBITS_RTN;
  bad[2].qdq = true, bad[2].accuracy_level = 4;
  bad[3].scheme.algorithm = MATMULNBITS_HQQ, bad[3].op_types |= MATMULNBITS_GATHER;
  bad[4].scheme.algorithm = MATMULNBITS_HQQ, bad[4].scheme.symmetric = true;
  bad[5].op_types = 0;
  bad[6].accuracy_level = 5;
  bad[7].scheme.algorithm = MATMULNBITS_HQQ, bad[7].scheme.bits = 8;
  assert_int_equal(matmulnbits_options_check(&good, &t->err), 0);
  struct matmulnbits_options mixed = good;
  mixed.candidates = other, mixed.n_candidates = 2, mixed.budget = 1;
  assert_int_equal(matmulnbits_options_check(&mixed, &t->err), 0);
  for (size_t i = 0; i < 12; i++) {
    struct err err = {0};
    assert_int_equal(matmulnbits_options_check(&bad[i], &err), -1);
    assert_int_equal(err.kind, ERR_USAGE);
  }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(matmul),
      TEST(symmetric_with_accuracy_level),
      TEST(rtn_names),
      TEST(k_quant_always_has_zero_points),
      TEST(hqq_has_float_zero_points),
      TEST(a_shared_weight_is_quantized_once),
      TEST(a_shared_weight_in_two_forms),
      TEST(a_weight_used_elsewhere_stays),
      TEST(tied_embeddings),
      TEST(gather_of_bytes),
      TEST(leading_dims_of_1),
      TEST(gemm),
      TEST(gemm_without_bias),
      TEST(gemm_with_factors),
      TEST(gemm_with_beta_0_drops_the_bias),
      TEST(gemm_refusals),
      TEST(qdq_matmul),
      TEST(qdq_per_channel_symmetric_is_transposed),
      TEST(qdq_gemm_stays_as_it_is),
      TEST(qdq_refuses_a_raise_that_changes_a_node),
      TEST(qdq_looks_at_every_graph_before_a_raise),
      TEST(qdq_looks_at_functions_before_a_raise),
      TEST(initializers_that_are_inputs),
      TEST(constants_and_identities),
      TEST(subgraphs_use_weights_of_outer_graphs),
      TEST(functions_import_what_they_use),
      TEST(refusals),
      TEST(small_ones),
      TEST(gathers_that_packed_bytes_cannot_do),
      TEST(exclude_beats_tensor_beats_include),
      TEST(include_is_the_rest_of_nothing),
      TEST(patterns_without_a_match_are_told),
      TEST(overrides_are_parsed),
      TEST(candidate_words),
      TEST(options_that_do_not_go_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
