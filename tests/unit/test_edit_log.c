// The log: the line of every kind of edit, replay that gives the same model and the same log, and
// lines that do not fit.
#include "edit/edit_log.h"
#include "edit_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static uint32_t value(const struct edit_sample *s, const char *name) {
  return edit_sample_value(s, 0, name);
}

// ---- one of every kind -------------------------------------------------------------------------

static void edit_nodes(struct edit_sample *s) {
  const uint32_t y = value(s, "y"), in[] = {value(s, "x"), NO_ID, value(s, "w")};
  const uint32_t nan_bits = 0x7fc00001, negative_nan = 0xffffffff;
  float floats[] = {0.1f, -0.0f, 1e-45f, 3.4028234663852886e38f, 0, 0, 1 / 3.0f};
  memcpy(&floats[4], &nan_bits, 4);
  memcpy(&floats[5], &negative_nan, 4);
  const int64_t ints[] = {1, -2, INT64_MAX, INT64_MIN};
  const int64_t two = 2;
  const uint32_t bytes = recipe_bytes(&s->r, DTYPE_FLOAT, &two, 1, span_of(floats, 8));
  edit_group(&s->e, "conv2matmul", SAMPLE_CONV, "pointwise");
  edit_remove_node(&s->e, SAMPLE_CONV);
  const struct edit_output out[] = {
      {y, span_of("", 0)}, {NO_ID, span_of("", 0)}, {NO_ID, span_str("new \"1\"\n")}};
  const struct edit_attr attrs[] = {
      {.name = "i", .type = ATTR_INT, .i = INT64_MAX},
      {.name = "f", .type = ATTR_FLOAT, .f = -1.0f / 0.0f},
      {.name = "s", .type = ATTR_STRING, .s = span_of("a\0\xff\xc3\xa9\"", 6)},
      {.name = "is", .type = ATTR_INTS, .ints = ints, .n = 4},
      {.name = "fs", .type = ATTR_FLOATS, .floats = floats, .n = 7},
      {.name = "none", .type = ATTR_FLOATS},
      {.name = "t", .type = ATTR_TENSOR, .recipe = bytes},
  };
  const struct edit_node spec = {0,
                                 SAMPLE_RELU,
                                 span_str("mm"),
                                 span_str("Gemm"),
                                 span_str("com.microsoft"),
                                 in,
                                 3,
                                 out,
                                 3,
                                 attrs,
                                 7};
  const uint32_t node = edit_add_node(&s->e, &spec);
  edit_move_node(&s->e, node, NO_ID);
  edit_move_node(&s->e, node, SAMPLE_RELU);
  edit_set_input(&s->e, node, 1, value(s, "b"));
  edit_set_input(&s->e, node, 3, value(s, "big"));
  edit_set_input(&s->e, node, 3, NO_ID);
  edit_set_output(&s->e, node, 1, (struct edit_output){NO_ID, span_of("\xff\xfe", 2)});
  edit_set_output(&s->e, node, 3, (struct edit_output){NO_ID, span_str("last")});
  edit_set_output(&s->e, node, 1, (struct edit_output){NO_ID, span_of("", 0)});
  edit_set_attr(&s->e, node, &(struct edit_attr){.name = "is"});
  edit_set_attr(&s->e, node, &(struct edit_attr){.name = "f", .type = ATTR_FLOAT, .f = 0.7f});
  edit_set_attr(&s->e, SAMPLE_CONSTANT,
                &(struct edit_attr){.name = "value", .type = ATTR_TENSOR, .recipe = bytes});
}

// A file beside the model, and a recipe that reads it.
static void edit_sources(struct edit_sample *s) {
  const uint32_t file = s->m.n_files;
  const int64_t two = 2;
  const struct piece piece = {.at = {8, 16, file}, .count = 16, .checkpoint = NO_ID};
  const struct edit_source source = {.file = file, .name = "r.data", .size = 24, .sha256 = {0xab}};
  edit_source(&s->e, &source);
  edit_source(&s->e, &source); // it has its line
  assert_int_equal(s->m.n_files, file + 1);
  edit_add_tensor(&s->e, 0, span_str("moments"),
                  recipe_extent(&s->r, DTYPE_DOUBLE, &two, 1, ENCODING_RAW, &piece, 1, NULL));
}

static void edit_tensors(struct edit_sample *s) {
  const int64_t perm[] = {1, 0}, flat = 4096, befores[] = {1, 0}, afters[] = {0, 2};
  const float zero = 0;
  edit_group(&s->e, "other", NO_ID, "");
  const uint32_t big = edit_tensor_recipe(&s->e, SAMPLE_BIG);
  const uint32_t turned = recipe_transpose(&s->r, big, perm);
  const uint32_t w = edit_tensor_recipe(&s->e, SAMPLE_W);
  edit_add_tensor(&s->e, 0, span_str("big_t"), turned);
  edit_add_tensor(&s->e, 2, span_str("flat"), edit_tensor_recipe_as(&s->e, SAMPLE_BIG, &flat, 1));
  edit_add_tensor(&s->e, 3, span_str("in_function"), recipe_cast(&s->r, w, DTYPE_FLOAT16));
  edit_add_tensor(&s->e, 0, span_str("padded"),
                  recipe_pad(&s->r, turned, befores, afters, span_of(&zero, sizeof zero)));
  edit_replace_tensor(&s->e, SAMPLE_BIG, turned);
  // What the tensor held is still named by its address.
  edit_add_tensor(&s->e, 0, span_str("twice"),
                  recipe_concat(&s->r, (const uint32_t[]){big, turned}, 2, 0));
  const uint32_t copy =
      edit_add_tensor(&s->e, 0, span_str("copy"), edit_tensor_recipe(&s->e, SAMPLE_BIG));
  edit_remove_tensor(&s->e, s->m.values[copy].def);
  edit_replace_tensor(&s->e, model_attr_named(&s->m, SAMPLE_FLOATS, "value_floats")->first,
                      edit_tensor_recipe(&s->e, SAMPLE_OWN));
}

static void edit_values(struct edit_sample *s) {
  struct model *m = &s->m;
  const struct model_dim dims[] = {
      {3, 0}, {-1, model_intern(m, span_str("5"))}, {-1, m->empty}, {((int64_t)1 << 53) + 1, 0}};
  edit_rename_value(&s->e, value(s, "z"), span_str("zz:z"));
  edit_retype_value(&s->e, value(s, "y"), DTYPE_BFLOAT16, dims, 4);
  edit_retype_value(&s->e, value(s, "k"), DTYPE_STRING, NULL, NO_ID);
  edit_retype_value(&s->e, value(s, "k"), DTYPE_UNDEFINED, NULL, NO_ID);
  edit_say_range(&s->e, value(s, "k"), span_str("[0, 1]"));
  edit_say_range(&s->e, value(s, "k"), span_of("", 0));
  edit_replace_uses(&s->e, value(s, "zz:z"), value(s, "y"));
  edit_add_graph_input(&s->e, 0, span_str("mask"), DTYPE_BOOL, dims, 2);
  edit_add_graph_input(&s->e, 0, span_str("any"), DTYPE_UNDEFINED, NULL, NO_ID);
  edit_remove_graph_input(&s->e, value(s, "mask"));
  edit_set_graph_output(&s->e, 0, 1, value(s, "y"));
  edit_set_graph_output(&s->e, 0, 2, value(s, "x"));
}

static void edit_graphs(struct edit_sample *s) {
  const uint32_t g = edit_add_subgraph(&s->e, 0, span_str("body"));
  const uint32_t cond = value(s, "cond");
  const struct edit_attr attr = {.name = "then_branch", .type = ATTR_GRAPH, .graph = g};
  const struct edit_node spec = {.graph = 0,
                                 .before = NO_ID,
                                 .op_type = span_str("If"),
                                 .in = &cond,
                                 .n_in = 1,
                                 .attrs = &attr,
                                 .n_attrs = 1};
  edit_add_node(&s->e, &spec);
  edit_remove_node(&s->e, SAMPLE_IF);
  edit_add_subgraph(&s->e, g, span_of("", 0));
  const uint32_t f = edit_add_function(&s->e, span_str("local"), span_str("f"), NULL, 0);
  edit_add_graph_input(&s->e, s->m.functions[f].graph, span_str("a"), DTYPE_UNDEFINED, NULL, NO_ID);
  edit_set_function_opset(&s->e, 0, span_str("com.microsoft"), 1);
  edit_remove_function(&s->e, 0);
  edit_set_function_opset(&s->e, f, span_str("ai.onnx"), 21);
  edit_set_opset(&s->e, span_str("ai.onnx"), 21);
  edit_set_opset(&s->e, span_str("com.microsoft"), 1);
  edit_set_opset(&s->e, span_str("local"), 3);
  edit_set_opset(&s->e, span_str("com.microsoft"), 0);
  edit_set_function_opset(&s->e, f, span_str("local"), 1);
  edit_set_function_opset(&s->e, f, span_str("local"), 0);
  edit_rename_node(&s->e, 8, span_str("called"));
  edit_rename_node(&s->e, 8, span_of("", 0));
  edit_set_ir_version(&s->e, 10);
  edit_set_metadata(&s->e, span_str("key"), span_str("v\xc3\xa9"));
  edit_set_metadata(&s->e, span_str("key"), span_of("", 0));
}

// A function with attributes, and a node in it that refers to one.
static void edit_function(struct edit_sample *s) {
  const struct span words[] = {span_of("N\0", 2), span_str("")};
  const struct edit_attr attrs[] = {
      {.name = "must"},
      {.name = "alpha", .type = ATTR_FLOAT, .f = 0.5f},
      {.name = "axes", .type = ATTR_INTS},
      {.name = "words", .type = ATTR_STRINGS, .strings = words, .n = 2},
  };
  const uint32_t f = edit_add_function(&s->e, span_str("local"), span_str("leaky"), attrs, 4);
  const struct edit_attr refers = {.name = "alpha", .type = ATTR_FLOAT, .ref = "alpha"};
  const struct edit_output out = {NO_ID, span_str("r")};
  edit_add_node(&s->e, &(struct edit_node){.graph = s->m.functions[f].graph,
                                           .before = NO_ID,
                                           .op_type = span_str("LeakyRelu"),
                                           .out = &out,
                                           .n_out = 1,
                                           .attrs = &refers,
                                           .n_attrs = 1});
}

static void edit_everything(struct edit_sample *s) {
  edit_nodes(s);
  edit_tensors(s);
  edit_values(s);
  edit_graphs(s);
  edit_function(s);
  edit_sources(s);
}

// ---- the lines ---------------------------------------------------------------------------------

static const char *const lines_of_everything[] = {
    "{\"edit\":\"group\",\"group\":1,\"pass\":\"conv2matmul\",\"site\":\"g0/n0\","
    "\"name\":\"conv1\",\"reason\":\"pointwise\"}",
    "{\"edit\":\"node.remove\",\"node\":\"g0/n0\",\"name\":\"conv1\",\"op\":\"Conv\"}",
    "{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"name\":\"mm\",\"op\":\"Gemm\","
    "\"domain\":\"com.microsoft\",\"in\":[\"g0/v0:x\",null,\"g0/v2:w\"],"
    "\"out\":[\"g0/v5:y\",null,\"g0/v15:new \\\"1\\\"\\n\"],\"attrs\":{"
    "\"i\":{\"int\":\"9223372036854775807\"},\"f\":{\"float\":\"-Infinity\"},"
    "\"s\":{\"string\":\"a\\u0000\\udcff\xc3\xa9\\\"\"},"
    "\"is\":{\"ints\":[1,-2,\"9223372036854775807\",\"-9223372036854775808\"]},"
    "\"fs\":{\"floats\":[0.1,-0.0,1e-45,3.4028235e+38,{\"bits\":\"7fc00001\"},"
    "{\"bits\":\"ffffffff\"},0.33333334]},\"none\":{\"floats\":[]},"
    "\"t\":{\"tensor\":\"g0/t6:\",\"dtype\":\"float\",\"dims\":[2],"
    "\"recipe\":{\"bytes\":\"cdcccc3d00000080\",\"dtype\":\"float\",\"dims\":[2]}}},"
    "\"before\":\"g0/n1\"}",
    "{\"edit\":\"node.move\",\"node\":\"g0/n8\"}",
    "{\"edit\":\"node.move\",\"node\":\"g0/n8\",\"before\":\"g0/n1\"}",
    "{\"edit\":\"node.set_input\",\"node\":\"g0/n8\",\"slot\":1,\"value\":\"g0/v3:b\"}",
    "{\"edit\":\"node.set_input\",\"node\":\"g0/n8\",\"slot\":3,\"value\":\"g0/v4:big\"}",
    "{\"edit\":\"node.set_input\",\"node\":\"g0/n8\",\"slot\":3}",
    "{\"edit\":\"node.set_output\",\"node\":\"g0/n8\",\"slot\":1,"
    "\"value\":\"g0/v16:\\udcff\\udcfe\"}",
    "{\"edit\":\"node.set_output\",\"node\":\"g0/n8\",\"slot\":3,\"value\":\"g0/v17:last\"}",
    "{\"edit\":\"node.set_output\",\"node\":\"g0/n8\",\"slot\":1}",
    "{\"edit\":\"node.set_attr\",\"node\":\"g0/n8\",\"attr\":\"is\",\"value\":null}",
    "{\"edit\":\"node.set_attr\",\"node\":\"g0/n8\",\"attr\":\"f\",\"value\":{\"float\":0.7}}",
    "{\"edit\":\"node.set_attr\",\"node\":\"g0/n5\",\"attr\":\"value\",\"value\":{"
    "\"tensor\":\"g0/t7:\",\"dtype\":\"float\",\"dims\":[2],"
    "\"recipe\":{\"bytes\":\"cdcccc3d00000080\",\"dtype\":\"float\",\"dims\":[2]}}}",
    "{\"edit\":\"group\",\"group\":2,\"pass\":\"other\"}",
    "{\"edit\":\"tensor.add\",\"value\":\"g0/v18:big_t\",\"tensor\":\"g0/t8:big_t\","
    "\"dtype\":\"float\",\"dims\":[64,64],\"recipe\":{\"transpose\":{\"tensor\":\"g0/t2:big\","
    "\"dims\":[64,64]},\"perm\":[1,0]}}",
    "{\"edit\":\"tensor.add\",\"value\":\"g2/v19:flat\",\"tensor\":\"g2/t9:flat\","
    "\"dtype\":\"float\",\"dims\":[4096],\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[4096]}}",
    "{\"edit\":\"tensor.add\",\"value\":\"g3/v20:in_function\",\"node\":\"g3/n9\","
    "\"tensor\":\"g3/t10:in_function\",\"dtype\":\"float16\",\"dims\":[4,4,1],"
    "\"recipe\":{\"cast\":{\"tensor\":\"g0/t0:w\",\"dims\":[4,4,1]},\"to\":\"float16\"}}",
    "{\"edit\":\"tensor.add\",\"value\":\"g0/v21:padded\",\"tensor\":\"g0/t11:padded\","
    "\"dtype\":\"float\",\"dims\":[65,66],\"recipe\":{\"pad\":{\"transpose\":{"
    "\"tensor\":\"g0/t2:big\",\"dims\":[64,64]},\"perm\":[1,0]},\"befores\":[1,0],"
    "\"afters\":[0,2],\"value\":\"00000000\"}}",
    "{\"edit\":\"tensor.replace\",\"tensor\":\"g0/t2:big\",\"dtype\":\"float\",\"dims\":[64,64],"
    "\"recipe\":{\"transpose\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]},\"perm\":[1,0]}}",
    "{\"edit\":\"tensor.add\",\"value\":\"g0/v22:twice\",\"tensor\":\"g0/t12:twice\","
    "\"dtype\":\"float\",\"dims\":[128,64],\"recipe\":{\"concat\":[{\"tensor\":\"g0/t2:big\","
    "\"dims\":[64,64]},{\"transpose\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]},"
    "\"perm\":[1,0]}],\"axis\":0}}",
    "{\"edit\":\"tensor.add\",\"value\":\"g0/v23:copy\",\"tensor\":\"g0/t13:copy\","
    "\"dtype\":\"float\",\"dims\":[64,64],\"recipe\":{\"transpose\":{\"tensor\":\"g0/t2:big\","
    "\"dims\":[64,64]},\"perm\":[1,0]}}",
    "{\"edit\":\"tensor.remove\",\"tensor\":\"g0/t13:copy\"}",
    "{\"edit\":\"tensor.replace\",\"tensor\":\"g0/t5:\",\"dtype\":\"float\",\"dims\":[2],"
    "\"recipe\":{\"tensor\":\"g2/t3:own\",\"dims\":[2]}}",
    "{\"edit\":\"value.rename\",\"value\":\"g0/v6:z\",\"to\":\"zz:z\"}",
    "{\"edit\":\"value.retype\",\"value\":\"g0/v5:y\",\"dtype\":\"bfloat16\","
    "\"dims\":[3,\"5\",null,{\"size\":\"9007199254740993\"}]}",
    "{\"edit\":\"value.retype\",\"value\":\"g0/v11:k\",\"dtype\":\"string\"}",
    "{\"edit\":\"value.retype\",\"value\":\"g0/v11:k\",\"dtype\":null}",
    "{\"edit\":\"value.say_range\",\"value\":\"g0/v11:k\",\"range\":\"[0, 1]\"}",
    "{\"edit\":\"value.say_range\",\"value\":\"g0/v11:k\",\"range\":\"\"}",
    "{\"edit\":\"value.replace_uses\",\"from\":\"g0/v6:zz:z\",\"to\":\"g0/v5:y\"}",
    "{\"edit\":\"graph.add_input\",\"graph\":\"g0\",\"value\":\"g0/v24:mask\",\"dtype\":\"bool\","
    "\"dims\":[3,\"5\"]}",
    "{\"edit\":\"graph.add_input\",\"graph\":\"g0\",\"value\":\"g0/v25:any\",\"dtype\":null}",
    "{\"edit\":\"graph.remove_input\",\"value\":\"g0/v24:mask\"}",
    "{\"edit\":\"graph.set_output\",\"graph\":\"g0\",\"position\":1,\"value\":\"g0/v5:y\"}",
    "{\"edit\":\"graph.set_output\",\"graph\":\"g0\",\"position\":2,\"value\":\"g0/v0:x\"}",
    "{\"edit\":\"subgraph.add\",\"graph\":\"g4\",\"parent\":\"g0\",\"name\":\"body\"}",
    "{\"edit\":\"node.add\",\"node\":\"g0/n10\",\"op\":\"If\",\"in\":[\"g0/v1:cond\"],\"out\":[],"
    "\"attrs\":{\"then_branch\":{\"graph\":\"g4\"}}}",
    "{\"edit\":\"node.remove\",\"node\":\"g0/n2\",\"name\":\"if\",\"op\":\"If\"}",
    "{\"edit\":\"subgraph.add\",\"graph\":\"g5\",\"parent\":\"g4\"}",
    "{\"edit\":\"function.add\",\"function\":\"f1\",\"graph\":\"g6\",\"domain\":\"local\","
    "\"name\":\"f\"}",
    "{\"edit\":\"graph.add_input\",\"graph\":\"g6\",\"value\":\"g6/v26:a\",\"dtype\":null}",
    "{\"edit\":\"function.opset\",\"function\":\"f0\",\"graph\":\"g3\",\"domain\":\"local\","
    "\"name\":\"scale\",\"import\":\"com.microsoft\",\"version\":1}",
    "{\"edit\":\"function.remove\",\"function\":\"f0\",\"graph\":\"g3\",\"domain\":\"local\","
    "\"name\":\"scale\"}",
    "{\"edit\":\"function.opset\",\"function\":\"f1\",\"graph\":\"g6\",\"domain\":\"local\","
    "\"name\":\"f\",\"import\":\"\",\"version\":21}",
    "{\"edit\":\"opset\",\"domain\":\"\",\"version\":21}",
    "{\"edit\":\"opset\",\"domain\":\"com.microsoft\",\"version\":1}",
    "{\"edit\":\"opset\",\"domain\":\"local\",\"version\":3}",
    "{\"edit\":\"opset\",\"domain\":\"com.microsoft\",\"version\":0}",
    "{\"edit\":\"function.opset\",\"function\":\"f1\",\"graph\":\"g6\",\"domain\":\"local\","
    "\"name\":\"f\",\"import\":\"local\",\"version\":1}",
    "{\"edit\":\"function.opset\",\"function\":\"f1\",\"graph\":\"g6\",\"domain\":\"local\","
    "\"name\":\"f\",\"import\":\"local\",\"version\":0}",
    "{\"edit\":\"node.rename\",\"node\":\"g0/n8\",\"to\":\"called\"}",
    "{\"edit\":\"node.rename\",\"node\":\"g0/n8\"}",
    "{\"edit\":\"ir_version\",\"version\":10}",
    "{\"edit\":\"metadata\",\"key\":\"key\",\"value\":\"v\xc3\xa9\"}",
    "{\"edit\":\"metadata\",\"key\":\"key\",\"value\":\"\"}",
    "{\"edit\":\"function.add\",\"function\":\"f2\",\"graph\":\"g7\",\"domain\":\"local\","
    "\"name\":\"leaky\",\"attrs\":{\"must\":null,\"alpha\":{\"float\":0.5},\"axes\":{\"ints\":[]},"
    "\"words\":{\"strings\":[\"N\\u0000\",\"\"]}}}",
    "{\"edit\":\"node.add\",\"node\":\"g7/n11\",\"op\":\"LeakyRelu\",\"in\":[],"
    "\"out\":[\"g7/v27:r\"],\"attrs\":{\"alpha\":{\"ref\":\"alpha\",\"type\":\"float\"}}}",
    "{\"edit\":\"source\",\"file\":2,\"name\":\"r.data\",\"size\":24,"
    "\"sha256\":\"ab00000000000000000000000000000000000000000000000000000000000000\"}",
    "{\"edit\":\"tensor.add\",\"value\":\"g0/v28:moments\",\"tensor\":\"g0/t14:moments\","
    "\"dtype\":\"double\",\"dims\":[2],\"recipe\":{\"extent\":[[2,8,16]],"
    "\"encoding\":\"raw\",\"dtype\":\"double\",\"dims\":[2]}}",
};
enum { N_LINES = sizeof lines_of_everything / sizeof lines_of_everything[0] };

static void test_lines(void **state) {
  (void)state;
  struct edit_sample s;
  edit_sample_open(&s);
  edit_everything(&s);
  const char *at = s.log;
  for (int i = 0; i < N_LINES; i++) {
    const char *end = strchr(at, '\n');
    assert_non_null(end);
    const size_t n = (size_t)(end - at);
    if (strlen(lines_of_everything[i]) != n || memcmp(at, lines_of_everything[i], n) != 0)
      fail_msg("line %d\n  is     %.*s\n  not    %s", i, (int)n, at, lines_of_everything[i]);
    at = end + 1;
  }
  assert_string_equal(at, "");
  assert_int_equal(s.e.group, 2);
  assert_int_equal(s.e.n, N_LINES - 3);
  edit_sample_close(&s);
}

// ---- replay ------------------------------------------------------------------------------------

static void replay(struct edit_sample *s, const char *log) {
  struct err err = {0};
  uint64_t number = 2;
  for (const char *end; (end = strchr(log, '\n')); log = end + 1, number++) {
    if (edit_log_replay_line(&s->e, span_of(log, (size_t)(end - log)), number, &err) < 0)
      fail_msg("%s\n%.*s", err.msg, (int)(end - log), log);
    build_check(&s->m);
  }
}

static void test_replay(void **state) {
  (void)state;
  struct edit_sample made, again;
  struct arena a = {0};
  edit_sample_open(&made);
  edit_sample_open(&again);
  edit_everything(&made);
  const char *before = build_dump(&again.m, &a);
  replay(&again, made.log);
  assert_string_equal(again.log, made.log);
  assert_string_equal(build_dump(&again.m, &a), build_dump(&made.m, &a));
  assert_string_not_equal(build_dump(&again.m, &a), before); // the dump sees edits
  assert_int_equal(again.e.n, made.e.n);
  edit_sample_close(&made);
  edit_sample_close(&again);
  arena_free(&a);
}

// Floats come back bit by bit, whatever they are.
static void test_floats_come_back(void **state) {
  (void)state;
  struct edit_sample made, again;
  edit_sample_open(&made);
  edit_sample_open(&again);
  float list[2048];
  uint32_t seed = 1;
  for (int i = 0; i < 2048; i++) {
    seed = seed * 1664525u + 1013904223u;
    const uint32_t bits = i < 512 ? (seed & 0x800fffffu) : i < 1024 ? seed | 0x7f800000u : seed;
    memcpy(&list[i], &bits, 4);
  }
  edit_set_attr(&made.e, SAMPLE_RELU,
                &(struct edit_attr){.name = "x", .type = ATTR_FLOATS, .floats = list, .n = 2048});
  replay(&again, made.log);
  const struct model_attr *a = model_attr_named(&again.m, SAMPLE_RELU, "x");
  assert_memory_equal(again.m.floats + a->first, list, sizeof list);
  assert_string_equal(again.log, made.log);
  edit_sample_close(&made);
  edit_sample_close(&again);
}

// ---- lines that do not fit ---------------------------------------------------------------------

struct bad_line {
  const char *line, *why;
};

static const struct bad_line bad_lines[] = {
    {"", "not JSON"},
    {"[]", "key 'edit'"},
    {"{\"edit\":\"node.paint\"}", "'node.paint' is not a kind of edit"},
    {"{\"edit\":\"node.remove\",\"node\":\"g0/n0\",\"op\":\"Conv\",\"op\":\"Conv\"}",
     "duplicate key"},
    {"{\"edit\":\"node.remove\",\"node\":\"g0/n0\",\"op\":\"Conv\",\"x\":1}", "unknown key 'x'"},
    {"{\"edit\":\"node.remove\",\"node\":\"g0/n0\"}", "'op' is not a string"},
    {"{\"edit\":\"node.remove\",\"op\":\"Conv\"}", "not an address"},
    {"{\"edit\":\"node.remove\",\"node\":\"g0/n0\",\"op\":\"Relu\"}", "n0 is a Conv, not a Relu"},
    {"{\"edit\":\"node.remove\",\"node\":\"g0/n0\",\"name\":\"conv2\",\"op\":\"Conv\"}",
     "not named 'conv2'"},
    {"{\"edit\":\"node.set_attr\",\"node\":\"g0/n5\",\"attr\":\"a\",\"value\":{\"ref\":\"alpha\","
     "\"type\":\"float\"}}",
     "attribute 'a' refers to 'alpha', but graph g0 is in no function"},
    {"{\"edit\":\"node.set_attr\",\"node\":\"g0/n5\",\"attr\":\"a\",\"value\":{\"ref\":\"alpha\","
     "\"type\":\"tensors\"}}",
     "'tensors' is not a type of attributes"},
    {"{\"edit\":\"node.set_attr\",\"node\":\"g0/n5\",\"attr\":\"a\",\"value\":{\"ref\":\"alpha\"}}",
     "'type' is not a string"},
    {"{\"edit\":\"node.set_attr\",\"node\":\"g0/n5\",\"attr\":\"a\",\"value\":{\"strings\":[1]}}",
     "'strings' is not a list of strings"},
    {"{\"edit\":\"function.add\",\"function\":\"f1\",\"graph\":\"g4\",\"domain\":\"local\","
     "\"name\":\"b\","
     "\"attrs\":{\"g\":{\"graph\":\"g2\"}}}",
     "attribute 'g' of a function has a default that edits do not support"},
    {"{\"edit\":\"node.remove\",\"node\":\"g0/n99\",\"op\":\"Conv\"}", "no 'g0/n99'"},
    {"{\"edit\":\"node.remove\",\"node\":\"g1/n0\",\"op\":\"Conv\"}", "no 'g1/n0'"},
    {"{\"edit\":\"node.remove\",\"node\":\"g0/n00\",\"op\":\"Conv\"}", "not an address"},
    {"{\"edit\":\"node.remove\",\"node\":\"g0/n4294967295\",\"op\":\"Conv\"}", "not an address"},
    {"{\"edit\":\"node.remove\",\"node\":\"g0/n0:x\",\"op\":\"Conv\"}", "not an address"},
    {"{\"edit\":\"group\",\"group\":2,\"pass\":\"p\"}", "group 2 follows group 0"},
    {"{\"edit\":\"group\",\"group\":1,\"site\":\"g0/n77\"}", "no 'g0/n77'"},
    {"{\"edit\":\"group\",\"group\":1,\"pass\":\"a\\u0000\"}", "NUL"},

    {"{\"edit\":\"node.add\",\"node\":\"g0/n9\",\"op\":\"A\",\"in\":[],\"out\":[]}",
     "must have the number 8"},
    {"{\"edit\":\"node.add\",\"node\":\"g9/n8\",\"op\":\"A\",\"in\":[],\"out\":[]}", "no graph g9"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"\",\"in\":[],\"out\":[]}", "is empty"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\\u0000\",\"in\":[],\"out\":[]}", "NUL"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"out\":[]}", "'in' is not"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[]}", "'out' is not"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[\"g0/v0:y\"],\"out\":[]}",
     "no 'g0/v0:y'"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[\"g1/v8:t\"],\"out\":[]}",
     "cannot be seen from graph g0"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[\"g0/v5:y\"]}",
     "already has a producer"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[\"g0/v15:y\"]}",
     "is taken"},
    {"{\"edit\":\"node.add\",\"node\":\"g1/n8\",\"op\":\"A\",\"in\":[],\"out\":[\"g1/v15:y\"]}",
     "is taken"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[\"g0/v16:n\"]}",
     "must have the number 15"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[\"g0/v15:\"]}",
     "has no name"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],"
     "\"out\":[\"g0/v15:n\",\"g0/v16:n\"]}",
     "two outputs"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],"
     "\"before\":\"g1/n3\"}",
     "is not in graph g0"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],"
     "\"attrs\":{\"a\":{\"int\":1.5}}}",
     "'int' is not"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],"
     "\"attrs\":{\"a\":{\"int\":1,\"float\":2}}}",
     "not of the form"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],"
     "\"attrs\":{\"a\":null}}",
     "is null"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],"
     "\"attrs\":{\"a\":{\"float\":1e39}}}",
     "float32"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],"
     "\"attrs\":{\"a\":{\"floats\":[{\"bits\":\"7fc0000\"}]}}}",
     "float32"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],"
     "\"attrs\":{\"\":{\"int\":1}}}",
     "is empty"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],"
     "\"attrs\":{\"a\":{\"graph\":\"g1\"}}}",
     "already belongs to a node"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],"
     "\"attrs\":{\"a\":{\"graph\":\"g0\"}}}",
     "already belongs to a node"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],\"attrs\":{\"a\":"
     "{\"tensor\":\"g0/t7:\",\"dtype\":\"bool\",\"dims\":[1],"
     "\"recipe\":{\"bytes\":\"01\",\"dtype\":\"bool\",\"dims\":[1]}}}}",
     "must have the number 6"},
    {"{\"edit\":\"node.add\",\"node\":\"g0/n8\",\"op\":\"A\",\"in\":[],\"out\":[],\"attrs\":{\"a\":"
     "{\"tensor\":\"g0/t6:x\",\"dtype\":\"bool\",\"dims\":[1],"
     "\"recipe\":{\"bytes\":\"01\",\"dtype\":\"bool\",\"dims\":[1]}}}}",
     "named ''"},

    {"{\"edit\":\"node.move\",\"node\":\"g0/n0\",\"before\":\"g0/n0\"}", "before itself"},
    {"{\"edit\":\"node.move\",\"node\":\"g0/n0\",\"before\":\"g1/n3\"}", "is not in graph g0"},
    {"{\"edit\":\"node.set_input\",\"node\":\"g0/n0\",\"slot\":4,\"value\":\"g0/v0:x\"}",
     "input slot 4 does not follow the 3"},
    {"{\"edit\":\"node.set_input\",\"node\":\"g0/n0\",\"slot\":-1,\"value\":\"g0/v0:x\"}",
     "'slot' is not"},
    {"{\"edit\":\"node.set_input\",\"node\":\"g0/n0\",\"slot\":4294967295}", "'slot' is not"},
    {"{\"edit\":\"node.set_input\",\"node\":\"g0/n0\",\"slot\":0,\"value\":null}",
     "not an address"},
    {"{\"edit\":\"node.set_output\",\"node\":\"g0/n0\",\"slot\":0,\"value\":\"g0/v6:z\"}",
     "already has a producer"},
    {"{\"edit\":\"node.set_output\",\"node\":\"g0/n0\",\"slot\":2,\"value\":\"g0/v15:n\"}",
     "output slot 2"},
    {"{\"edit\":\"node.set_output\",\"node\":\"g0/n0\",\"slot\":0,\"value\":\"g1/v15:n\"}",
     "not of graph g0"},
    {"{\"edit\":\"node.set_attr\",\"node\":\"g0/n0\",\"attr\":\"pads\"}", "'value' is missing"},
    {"{\"edit\":\"node.set_attr\",\"node\":\"g0/n0\",\"attr\":\"no\",\"value\":null}",
     "has no attribute 'no'"},
    {"{\"edit\":\"node.set_attr\",\"node\":\"g0/n0\",\"attr\":\"no\",\"value\":{}}",
     "not of the form"},
    {"{\"edit\":\"node.set_attr\",\"node\":\"g0/n0\",\"attr\":\"pads\",\"value\":{\"ints\":3}}",
     "'ints' is not"},

    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"tensor\":\"g0/t6:n\",\"dtype\":\"float\","
     "\"dims\":[65,64],\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[65,64]}}",
     "do not match the 4096 elements"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"tensor\":\"g0/t6:n\",\"dtype\":\"float\","
     "\"dims\":[32,128],\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]}}",
     "the line says float [32,128]"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"tensor\":\"g0/t6:n\",\"dtype\":\"int8\","
     "\"dims\":[64,64],\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]}}",
     "makes float"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"tensor\":\"g0/t6:n\",\"dtype\":\"float\","
     "\"dims\":[64,64],\"recipe\":{\"tensor\":\"g0/t2:bog\",\"dims\":[64,64]}}",
     "no 'g0/t2:bog'"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"tensor\":\"g0/t6:n\",\"dtype\":\"float\","
     "\"dims\":[64,-64],\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,-64]}}",
     "do not match"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"tensor\":\"g0/t6:m\",\"dtype\":\"float\","
     "\"dims\":[64,64],\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]}}",
     "named 'n'"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"tensor\":\"g0/t6:n\",\"dtype\":\"float\","
     "\"dims\":[4],\"recipe\":{\"extent\":[[1,65532,16]],\"encoding\":\"raw\","
     "\"dtype\":\"float\",\"dims\":[4]}}",
     "outside the source files"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"tensor\":\"g0/t6:n\",\"dtype\":\"float\","
     "\"dims\":[4]}",
     "recipe"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"node\":\"g0/n8\",\"tensor\":\"g0/t6:n\","
     "\"dtype\":\"float\",\"dims\":[64,64],\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]}}",
     "'node' does not belong"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g3/v15:n\",\"tensor\":\"g3/t6:n\","
     "\"dtype\":\"float\",\"dims\":[64,64],\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]}}",
     "not an address"},
    {"{\"edit\":\"tensor.add\",\"value\":\"g0/v15:y\",\"tensor\":\"g0/t6:y\",\"dtype\":\"float\","
     "\"dims\":[64,64],\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]}}",
     "is taken"},
    {"{\"edit\":\"tensor.replace\",\"tensor\":\"g0/t99:big\",\"dtype\":\"float\",\"dims\":[64,64],"
     "\"recipe\":{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]}}",
     "no 'g0/t99:big'"},
    {"{\"edit\":\"tensor.remove\",\"tensor\":\"g0/t0:w\"}", "still has 2 uses"},
    {"{\"edit\":\"tensor.remove\",\"tensor\":\"g0/t4:\"}", "is not an initializer"},

    {"{\"edit\":\"value.rename\",\"value\":\"g0/v5:y\",\"to\":\"z\"}", "is taken"},
    {"{\"edit\":\"value.rename\",\"value\":\"g0/v6:z\",\"to\":\"t\"}",
     "refers to another value in graph g1"},
    {"{\"edit\":\"value.rename\",\"value\":\"g0/v5:y\",\"to\":\"\"}", "is empty"},
    {"{\"edit\":\"value.retype\",\"value\":\"g0/v5:y\"}", "'dtype' is not"},
    {"{\"edit\":\"value.retype\",\"value\":\"g0/v5:y\",\"dtype\":\"flaot\"}",
     "not an element type"},
    {"{\"edit\":\"value.retype\",\"value\":\"g0/v5:y\",\"dtype\":\"float\",\"dims\":[-1]}",
     "'dims'"},
    {"{\"edit\":\"value.retype\",\"value\":\"g0/v5:y\",\"dtype\":\"float\",\"dims\":3}", "'dims'"},
    {"{\"edit\":\"value.replace_uses\",\"from\":\"g0/v5:y\",\"to\":\"g0/v5:y\"}", "replace itself"},
    {"{\"edit\":\"value.replace_uses\",\"from\":\"g0/v5:y\",\"to\":\"g1/v8:t\"}", "cannot be seen"},
    {"{\"edit\":\"graph.add_input\",\"graph\":\"g0\",\"value\":\"g1/v15:n\",\"dtype\":null}",
     "is in graph g1, not g0"},
    {"{\"edit\":\"graph.add_input\",\"graph\":\"g77\",\"value\":\"g77/v15:n\",\"dtype\":null}",
     "no graph g77"},
    {"{\"edit\":\"graph.remove_input\",\"value\":\"g0/v5:y\"}", "not a graph input"},
    {"{\"edit\":\"graph.set_output\",\"graph\":\"g0\",\"position\":3,\"value\":\"g0/v5:y\"}",
     "output 3 does not follow"},
    {"{\"edit\":\"graph.set_output\",\"graph\":\"g1\",\"position\":0,\"value\":\"g0/v5:y\"}",
     "is not in graph g1"},
    {"{\"edit\":\"subgraph.add\",\"graph\":\"g5\",\"parent\":\"g0\"}", "must have the number 4"},
    {"{\"edit\":\"subgraph.add\",\"graph\":\"g4\",\"parent\":\"g4\"}", "no graph g4"},
    {"{\"edit\":\"function.add\",\"function\":\"f1\",\"graph\":\"g4\",\"domain\":\"local\","
     "\"name\":\"scale\"}",
     "exists already"},
    {"{\"edit\":\"function.remove\",\"function\":\"f0\",\"graph\":\"g3\",\"domain\":\"local\","
     "\"name\":\"other\"}",
     "is 'scale'"},
    {"{\"edit\":\"function.remove\",\"function\":\"f7\",\"graph\":\"g3\",\"domain\":\"local\","
     "\"name\":\"scale\"}",
     "no function f7"},
    {"{\"edit\":\"function.opset\",\"function\":\"f0\",\"graph\":\"g3\",\"domain\":\"local\","
     "\"name\":\"other\",\"import\":\"\",\"version\":21}",
     "is 'scale'"},
    {"{\"edit\":\"function.opset\",\"function\":\"f0\",\"graph\":\"g3\",\"domain\":\"local\","
     "\"name\":\"scale\",\"import\":\"\",\"version\":0}",
     "less than 1"},
    {"{\"edit\":\"opset\",\"domain\":\"\",\"version\":0}", "less than 1"},
    {"{\"edit\":\"opset\",\"version\":1}", "'domain' is not"},
    {"{\"edit\":\"opset\",\"domain\":\"x\",\"version\":0}", "'x' is not imported"},
    {"{\"edit\":\"node.rename\",\"node\":\"g0/n99\",\"to\":\"a\"}", "n99"},
    {"{\"edit\":\"ir_version\",\"version\":\"x\"}", "'version' is not"},
    {"{\"edit\":\"metadata\",\"key\":\"\",\"value\":\"v\"}", "is empty"},
};

static void test_bad_lines(void **state) {
  (void)state;
  struct edit_sample s;
  struct arena a = {0};
  edit_sample_open(&s);
  const char *before = build_dump(&s.m, &a);
  for (size_t i = 0; i < sizeof bad_lines / sizeof bad_lines[0]; i++) {
    struct err err = {0};
    const struct bad_line *b = &bad_lines[i];
    if (edit_log_replay_line(&s.e, span_str(b->line), 7, &err) == 0) fail_msg("taken: %s", b->line);
    assert_int_equal(err.kind, ERR_MODEL);
    if (!strstr(err.msg, b->why) || !strstr(err.msg, "edit log, line 7: "))
      fail_msg("%s\n  '%s' does not say '%s'", b->line, err.msg, b->why);
    if (strcmp(before, build_dump(&s.m, &a)) != 0) fail_msg("something changed: %s", b->line);
  }
  assert_int_equal(s.e.n, 0);
  assert_int_equal(s.e.group, 0);
  assert_int_equal(s.n, 0);
  edit_sample_close(&s);
  arena_free(&a);
}

static void expect(struct edit_sample *s, const char *line, const char *why) {
  struct err err = {0};
  const int rc = edit_log_replay_line(&s->e, span_str(line), 2, &err);
  if (!why) {
    if (rc < 0) fail_msg("%s: %s", line, err.msg);
    return;
  }
  if (rc == 0) fail_msg("taken: %s", line);
  if (!strstr(err.msg, why)) fail_msg("%s\n  '%s' does not say '%s'", line, err.msg, why);
}

// A value of a body that hid another comes back, unless what is read there would be another then.
static void test_names_that_hide(void **state) {
  static const struct bad_line lines[] = {
      {"{\"edit\":\"node.remove\",\"node\":\"g1/n3\",\"op\":\"Abs\"}", NULL},
      {"{\"edit\":\"node.remove\",\"node\":\"g1/n2\",\"op\":\"Neg\"}", NULL},
      {"{\"edit\":\"node.add\",\"node\":\"g1/n4\",\"op\":\"Relu\",\"in\":[\"g0/v1:v\"],"
       "\"out\":[\"g1/v3:v\"]}",
       "is taken"},
      {"{\"edit\":\"node.add\",\"node\":\"g1/n4\",\"op\":\"Relu\",\"in\":[\"g0/v0:x\"],"
       "\"out\":[\"g1/v3:v\"]}",
       NULL},
      {"{\"edit\":\"node.remove\",\"node\":\"g1/n4\",\"op\":\"Relu\"}", NULL},
      {"{\"edit\":\"node.add\",\"node\":\"g1/n5\",\"op\":\"Abs\",\"in\":[\"g0/v1:v\"],"
       "\"out\":[\"g1/v4:t\"]}",
       NULL},
      {"{\"edit\":\"node.add\",\"node\":\"g1/n6\",\"op\":\"Relu\",\"in\":[\"g0/v0:x\"],"
       "\"out\":[\"g1/v3:v\"]}",
       "is taken"},
  };
  struct build b;
  struct edit_sample s = {0};
  (void)state;
  build_begin(&b, &s.m);
  build_input(&b, "x", DTYPE_FLOAT, "2");
  build_node(&b, "Relu", "", "x", "v");
  const uint32_t branch = build_node(&b, "If", "", "x", "y");
  build_enter(&b, branch, "then_branch", "then");
  build_node(&b, "Neg", "", "x", "v");
  build_node(&b, "Abs", "", "v", "t");
  build_output(&b, "t", DTYPE_FLOAT, "2");
  build_leave(&b);
  build_output(&b, "y", DTYPE_FLOAT, "2");
  build_end(&b);
  recipes_init(&s.r);
  edits_init(&s.e, &s.m, &s.r);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    expect(&s, lines[i].line, lines[i].why);
  build_check(&s.m);
  edits_free(&s.e);
  recipes_free(&s.r);
  model_free(&s.m);
}

// What was removed or made by an edit cannot be used as if it were there, or as a source.
static void test_gone_and_new(void **state) {
  (void)state;
  struct edit_sample s;
  edit_sample_open(&s);
  expect(&s, "{\"edit\":\"node.remove\",\"node\":\"g0/n2\",\"op\":\"If\"}", NULL);
  expect(&s, "{\"edit\":\"node.remove\",\"node\":\"g0/n2\",\"op\":\"If\"}", "g0/n2 was removed");
  expect(&s, "{\"edit\":\"node.remove\",\"node\":\"g1/n3\",\"op\":\"Mul\"}", "was removed");
  expect(&s, "{\"edit\":\"node.set_input\",\"node\":\"g0/n0\",\"slot\":0,\"value\":\"g1/v8:t\"}",
         "was removed");
  expect(&s, "{\"edit\":\"subgraph.add\",\"graph\":\"g4\",\"parent\":\"g1\"}", "g1 was removed");
  expect(&s, "{\"edit\":\"tensor.remove\",\"tensor\":\"g2/t3:own\"}", "was removed");
  expect(
      &s,
      "{\"edit\":\"tensor.add\",\"value\":\"g0/v15:n\",\"tensor\":\"g0/t6:n\",\"dtype\":\"bool\","
      "\"dims\":[1],\"recipe\":{\"bytes\":\"01\",\"dtype\":\"bool\",\"dims\":[1]}}",
      NULL);
  expect(
      &s,
      "{\"edit\":\"tensor.add\",\"value\":\"g0/v16:o\",\"tensor\":\"g0/t7:o\",\"dtype\":\"bool\","
      "\"dims\":[1],\"recipe\":{\"tensor\":\"g0/t6:n\",\"dims\":[1]}}",
      "no elements in the source");
  // Elements of a removed tensor of the source are still in the source.
  expect(
      &s,
      "{\"edit\":\"tensor.add\",\"value\":\"g0/v16:o\",\"tensor\":\"g0/t7:o\",\"dtype\":\"float\","
      "\"dims\":[2],\"recipe\":{\"tensor\":\"g2/t3:own\",\"dims\":[2]}}",
      NULL);
  build_check(&s.m);
  edit_sample_close(&s);
}

// ---- artifacts ---------------------------------------------------------------------------------

struct asked {
  uint32_t calls, n, first;
  uint8_t sha256[32];
  int answer;
};

static int on_artifact(void *ctx, const struct edit_artifact *a, struct err *err) {
  struct asked *asked = ctx;
  asked->calls++;
  asked->n = a->n;
  asked->first = a->n ? a->of[0] : NO_ID;
  memcpy(asked->sha256, a->sha256, sizeof asked->sha256);
  assert_string_equal(a->stage, "measure");
  return asked->answer ? err_set(err, ERR_INPUT, "another answer") : 0;
}

static uint32_t codes_of_big(struct edit_sample *s) {
  const struct recipe_quantization q = {.format = FORMAT_NBITS, .bits = 4, .block = 32};
  return recipe_quantize(&s->r, edit_tensor_recipe(&s->e, SAMPLE_BIG), &q, PART_CODES);
}

// The line, and a replay that asks for the artifact, records the same line, and stops at a refusal.
static void test_artifact(void **state) {
  (void)state;
  struct edit_sample s, again;
  struct asked asked = {0};
  struct err err = {0};
  edit_sample_open(&s);
  const uint32_t codes = codes_of_big(&s);
  struct edit_artifact a = {.stage = "measure", .of = &codes, .n = 1};
  for (int i = 0; i < 32; i++)
    a.sha256[i] = (uint8_t)(i * 7);
  edit_artifact(&s.e, &a);
  assert_int_equal(s.e.n, 0); // no change of the model
  assert_non_null(strstr(s.log,
                         "{\"edit\":\"artifact\",\"stage\":\"measure\",\"of\":[{\"quantize\":"
                         "{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]},\"part\":\"codes\""));
  edit_sample_open(&again);
  again.e.artifact = on_artifact;
  again.e.replay_ctx = &asked;
  const struct span line = span_of(s.log, s.n - 1);
  assert_int_equal(edit_log_replay_line(&again.e, line, 2, &err), 0);
  assert_true(asked.calls == 1 && asked.n == 1 && asked.first == codes_of_big(&again));
  assert_memory_equal(asked.sha256, a.sha256, sizeof a.sha256);
  assert_true(again.n == s.n && memcmp(again.log, s.log, s.n) == 0);
  asked.answer = -1;
  assert_int_equal(edit_log_replay_line(&again.e, line, 3, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT);
  assert_true(again.n == s.n); // not recorded
  edit_sample_close(&again);
  edit_sample_close(&s);
}

static uint32_t roots(struct recipes *r, uint32_t of, uint32_t n) {
  for (; n > 0; n--)
    of = recipe_map(r, n % 2 ? RECIPE_MAP_SQRT : RECIPE_MAP_NEG, (uint32_t[]){of});
  return of;
}

// As deep as a log writes recipes, it reads them; one deeper it does neither.
static void test_deepest_recipe(void **state) {
  (void)state;
  struct edit_sample s, again;
  struct err err = {0};
  char line[2048], *at = line;
  edit_sample_open(&s);
  edit_sample_open(&again);
  const uint32_t leaf = edit_tensor_recipe(&s.e, SAMPLE_BIG);
  edit_add_tensor(&s.e, 0, span_str("deepest"), roots(&s.r, leaf, RECIPE_MAX_DEPTH - 1));
  assert_int_equal(edits_finish(&s.e, &err), 0);
  assert_int_equal(edit_log_replay_line(&again.e, span_of(s.log, s.n - 1), 2, &err), 0);
  assert_true(again.n == s.n && memcmp(again.log, s.log, s.n) == 0);
  at +=
      snprintf(at, 256,
               "{\"edit\":\"tensor.add\",\"value\":\"g0/v%u:deeper\",\"tensor\":\"g0/t%u:deeper\","
               "\"dtype\":\"float\",\"dims\":[64,64],\"recipe\":",
               again.m.n_values, again.m.n_tensors);
  for (uint32_t i = 0; i < RECIPE_MAX_DEPTH; i++)
    at = stpcpy(at, "{\"map\":[");
  at = stpcpy(at, "{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]}");
  for (uint32_t i = 0; i < RECIPE_MAX_DEPTH; i++)
    at = stpcpy(at, i % 2 ? "],\"op\":\"sqrt\"}" : "],\"op\":\"neg\"}");
  stpcpy(at, "}");
  expect(&again, line, "recipes are nested more than 31 deep");
  edit_add_tensor(&s.e, 0, span_str("deeper"), roots(&s.r, leaf, RECIPE_MAX_DEPTH));
  assert_int_equal(edits_finish(&s.e, &err), -1);
  assert_string_equal(err.msg, "a weight is computed in 32 nested steps; the limit is 31");
  edit_sample_close(&again);
  edit_sample_close(&s);
}

// A recipe elsewhere than in the line being written leaves the line alone.
static void test_artifact_recipe(void **state) {
  (void)state;
  struct edit_sample s;
  struct json_out j = {0};
  edit_sample_open(&s);
  edit_artifact_recipe(&s.e, &j, edit_tensor_recipe(&s.e, SAMPLE_BIG));
  assert_string_equal(j.text, "{\"tensor\":\"g0/t2:big\",\"dims\":[64,64]}");
  assert_int_equal(s.e.line.n, 0);
  json_done(&j);
  edit_sample_close(&s);
}

// ---- the head ----------------------------------------------------------------------------------

static void test_head(void **state) {
  (void)state;
  struct edit_sample s;
  struct err err = {0};
  struct edit_log_info info;
  bool truth = false;
  edit_sample_open(&s);
  const struct edit_log_head head = {"conv2matmul", "{\"form\":\"auto\"}", "{\"inline\":true}",
                                     "out.onnx"};
  assert_int_equal(edit_log_begin(&s.e, &head, &err), 0);
  assert_string_equal(
      s.log, "{\"weir_edit_log\":2,\"command\":\"conv2matmul\",\"options\":{\"form\":\"auto\"},"
             "\"source\":{\"name\":\"m.onnx\",\"meta_sha256\":"
             "\"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\","
             "\"files\":[{\"name\":\"m.data\",\"size\":65536}]},"
             "\"layout\":{\"inline\":true},\"output\":\"out.onnx\"}\n");
  assert_int_equal(edit_log_read_head(span_of(s.log, s.n), &info, &err), 0);
  assert_true(span_is(info.command, "conv2matmul"));
  assert_true(span_is(info.output, "out.onnx"));
  assert_true(span_is(info.source_name, "m.onnx"));
  assert_int_equal(info.meta_sha256.n, 64);
  assert_true(json_as_bool(json_get(info.layout, "inline"), &truth) && truth);
  assert_non_null(json_get(info.options, "form"));
  json_free(info.doc);
  edit_sample_close(&s);
}

static void test_bad_heads(void **state) {
  (void)state;
  static const struct bad_line heads[] = {
      {"", "not JSON"},
      {"{\"edit\":\"opset\"}", "not the header"},
      {"{\"weir_edit_log\":3}", "version 3 is not supported"},
      {"{\"weir_edit_log\":0}", "version 0 is not supported"},
      {"{\"weir_edit_log\":1,\"command\":\"c\",\"output\":\"o\"}", "lacks one of"},
      {"{\"weir_edit_log\":1,\"command\":\"c\",\"output\":\"o\",\"source\":{\"name\":\"n\","
       "\"meta_sha256\":\"00\",\"files\":[]},\"options\":{},\"layout\":{}}",
       "64 hex digits"},
  };
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    struct err err = {0};
    struct edit_log_info info;
    assert_int_equal(edit_log_read_head(span_str(heads[i].line), &info, &err), -1);
    assert_int_equal(err.kind, ERR_MODEL);
    if (!strstr(err.msg, heads[i].why)) fail_msg("'%s' does not say '%s'", err.msg, heads[i].why);
    assert_null(info.doc);
  }
}

int test_edit_log(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_replay),
      cmocka_unit_test(test_floats_come_back),
      cmocka_unit_test(test_bad_lines),
      cmocka_unit_test(test_names_that_hide),
      cmocka_unit_test(test_gone_and_new),
      cmocka_unit_test(test_artifact),
      cmocka_unit_test(test_deepest_recipe),
      cmocka_unit_test(test_artifact_recipe),
      cmocka_unit_test(test_head),
      cmocka_unit_test(test_bad_heads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
