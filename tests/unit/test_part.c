// Parts as files: read back by the loader they are whole models, hold what was asked for and nothing of the
// source's files; and what cannot be cut is said. (What they compute: tests/e2e/test_cut.py.)
#include "verify/cut/part.h"

#include "model_builder.h"
#include "stream/load/load.h"
#include "toy.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

struct fixture {
  struct toy toy;
  struct model m;
  struct build b;
  struct recipes r;
  struct sources *sources;
  struct part_cutter *cutter;
  struct arena a;
  struct folder folder;
  struct err err;
};

static void begin(struct fixture *f) {
  *f = (struct fixture){0};
  toy_open(&f->toy);
  build_begin(&f->b, &f->m);
}

static void ready(struct fixture *f) {
  char path[200];
  build_end(&f->b);
  recipes_init(&f->r);
  snprintf(path, sizeof path, "%s/in.onnx", f->toy.src);
  toy_must(sources_open(&f->sources, path, NULL, &f->err) == 0, f->err.msg);
  f->folder = folder_open(HERE, f->toy.dest, 0);
  toy_must(part_cutter_open(&f->cutter, &f->m, &f->r, f->sources, 1 << 20, &f->err) == 0,
           f->err.msg);
}

static void done(struct fixture *f) {
  part_cutter_close(f->cutter);
  folder_close(&f->folder);
  sources_close(f->sources);
  recipes_free(&f->r);
  model_free(&f->m);
  arena_free(&f->a);
  toy_close(&f->toy);
}

// Writes the part as "p" and reads it back; the text of its rows.
static const char *there(struct fixture *f, const struct part *part) {
  char path[200];
  uint64_t bytes = 0;
  struct sources *s;
  struct model m;
  struct stat at;
  toy_must(part_write(f->cutter, part, f->folder, "p", &bytes, &f->err) == 0, f->err.msg);
  snprintf(path, sizeof path, "%s/p.onnx", f->toy.dest);
  toy_must(sources_open(&s, path, NULL, &f->err) == 0 && stat(path, &at) == 0, path);
  assert_int_equal(bytes, (uint64_t)at.st_size);
  model_init(&m);
  if (load_model(&m, s, NULL, &f->err)) fail_msg("%s", f->err.msg);
  const struct model_graph *g = &m.graphs[m.main_graph];
  const char *text = "";
  for (uint32_t i = 0; i < g->n_inputs; i++)
    text = arena_printf(&f->a, "%s%s ", text,
                        model_name_str(&m, m.values[m.graph_io[g->inputs + i]].name));
  for (uint32_t i = 0; i < m.n_tensors; i++)
    text = arena_printf(&f->a, "%s[%s]", text, model_name_str(&m, m.tensors[i].name));
  text = arena_printf(&f->a, "%s ir%lld %s ->", text, (long long)m.ir_version,
                      build_nodes(&m, m.main_graph, false, &f->a));
  for (uint32_t i = 0; i < g->n_outputs; i++)
    text = arena_printf(&f->a, "%s %s", text,
                        model_name_str(&m, m.values[m.graph_io[g->outputs + i]].name));
  model_free(&m);
  sources_close(s);
  return text;
}

// ---- a chain -----------------------------------------------------------------------------------

static void test_some_nodes(void **state) {
  (void)state;
  struct fixture f;
  const float w[] = {1, 2};
  const int64_t dims[] = {2};
  begin(&f);
  build_input(&f.b, "x", DTYPE_FLOAT, "2");
  build_floats(&f.b, "w", "2", w);
  build_floats(&f.b, "other", "2", w);
  build_node(&f.b, "Neg", "neg", "x", "a");
  const uint32_t mul = build_node(&f.b, "Mul", "mul", "a w", "b");
  const uint32_t exp = build_node(&f.b, "Exp", "exp", "b", "y");
  build_output(&f.b, "y", DTYPE_FLOAT, "2");
  const uint32_t a = build_value(&f.b, "a"), v = build_value(&f.b, "w");
  const uint32_t outputs[] = {build_value(&f.b, "y"), a, v, build_value(&f.b, "y")};
  f.m.ir_version = 3;
  ready(&f);
  f.m.nodes[mul].flags |= NODE_NEW; // the builder's rows have no bytes to copy
  f.m.nodes[exp].flags |= NODE_NEW;
  const uint32_t nodes[] = {mul, exp};
  struct model_constant constant;
  assert_true(model_resolve_constant(&f.m, v, &constant));
  const struct part_input inputs[] = {{a, DTYPE_FLOAT, dims, 1}, {a, DTYPE_FLOAT, dims, 1}};
  const struct part part = {.m = &f.m,
                            .graph = f.m.main_graph,
                            .nodes = nodes,
                            .n_nodes = 2,
                            .inputs = inputs,
                            .n_inputs = 2,
                            .constants = &constant,
                            .n_constants = 1,
                            .outputs = outputs,
                            .n_outputs = 4};
  const char *text = there(&f, &part);
  assert_non_null(strstr(text, "a [w] ir4 "));
  assert_non_null(strstr(text, "Mul(a,w)->b"));
  assert_non_null(strstr(text, "-> y a_out1 w_out2 y_out3"));
  assert_null(strstr(text, "Neg"));
  assert_null(strstr(text, "other"));
  // The cutter is as it was: the same again, and a part of nothing but a constant.
  assert_string_equal(there(&f, &part), text);
  const struct part alone = {.m = &f.m,
                             .graph = f.m.main_graph,
                             .constants = &constant,
                             .n_constants = 1,
                             .outputs = outputs + 2,
                             .n_outputs = 1};
  assert_non_null(strstr(there(&f, &alone), "-> w_out0"));
  done(&f);
}

static void test_elements_of_a_file(void **state) {
  (void)state;
  struct fixture f;
  begin(&f);
  build_file(&f.b, "in.onnx", TOY_ONNX);
  const uint32_t file = build_file(&f.b, "in.data", TOY_DATA);
  build_extent(&f.b, "w", DTYPE_UINT8, "2000000", file, 1000);
  build_extent(&f.b, "v", DTYPE_UINT8, "500000", file, 4000);
  const uint32_t outputs[] = {build_value(&f.b, "w"), build_value(&f.b, "v")};
  ready(&f);
  uint32_t same;
  toy_must(sources_add(f.sources, span_str("in.data"), &same, &f.err) == 0, f.err.msg);
  assert_int_equal(same, file);
  struct model_constant constants[2];
  for (int i = 0; i < 2; i++)
    assert_true(model_resolve_constant(&f.m, outputs[i], &constants[i]));
  const struct part part = {.m = &f.m,
                            .graph = f.m.main_graph,
                            .constants = constants,
                            .n_constants = 2,
                            .outputs = outputs,
                            .n_outputs = 2};
  assert_non_null(strstr(there(&f, &part), "[w][v]"));
  size_t n;
  uint8_t *bytes = toy_read(f.toy.dest, "p.onnx", &n);
  assert_true(n > 2500000 && n < 2501000);
  assert_non_null(memmem(bytes, n, f.toy.data + 1000, 2000000));
  assert_non_null(memmem(bytes, n, f.toy.data + 4000, 500000));
  free(bytes);
  done(&f);
}

static void test_an_attribute_of_the_function(void **state) {
  (void)state;
  struct fixture f;
  uint64_t bytes;
  begin(&f);
  build_enter_function(&f.b, "local", "F", "p", "q");
  const uint32_t node = build_node(&f.b, "LeakyRelu", "leaky", "p", "q");
  const uint32_t attr = build_attr_float(&f.b, node, "alpha", 0);
  f.m.attrs[attr].ref_name = model_intern(&f.m, span_str("slope"));
  const uint32_t graph = f.m.nodes[node].graph, in = build_value(&f.b, "p");
  const uint32_t out = build_value(&f.b, "q");
  build_leave(&f.b);
  ready(&f);
  const struct part_input input = {.value = in, .dtype = DTYPE_FLOAT};
  const struct part part = {.m = &f.m,
                            .graph = graph,
                            .nodes = &node,
                            .n_nodes = 1,
                            .inputs = &input,
                            .n_inputs = 1,
                            .outputs = &out,
                            .n_outputs = 1};
  assert_int_equal(part_write(f.cutter, &part, f.folder, "p", &bytes, &f.err), -1);
  assert_int_equal(f.err.kind, ERR_FAIL);
  assert_string_equal(f.err.msg, "node 'leaky' (LeakyRelu) gets its attribute 'alpha' from the "
                                 "call of its function");
  done(&f);
}

static void test_a_folder_that_takes_nothing(void **state) {
  (void)state;
  struct fixture f;
  uint64_t bytes;
  begin(&f);
  build_input(&f.b, "x", DTYPE_FLOAT, "");
  const uint32_t x = build_value(&f.b, "x");
  ready(&f);
  const struct part_input input = {.value = x, .dtype = DTYPE_FLOAT};
  const struct part part = {
      .m = &f.m, .inputs = &input, .n_inputs = 1, .outputs = &x, .n_outputs = 1};
  toy_must(folder_make(f.folder, "p.onnx", 0700) == 0, "p.onnx");
  assert_int_equal(part_write(f.cutter, &part, f.folder, "p", &bytes, &f.err), -1);
  assert_non_null(strstr(f.err.msg, "cannot make 'p.onnx'"));
  done(&f);
}

int test_part(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_some_nodes),
      cmocka_unit_test(test_elements_of_a_file),
      cmocka_unit_test(test_an_attribute_of_the_function),
      cmocka_unit_test(test_a_folder_that_takes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
