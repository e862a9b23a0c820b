// See edit_sample.h for the drawing.
#include "edit_sample.h"

#include <assert.h>

static int keep_line(void *ctx, struct span line) {
  struct edit_sample *s = ctx;
  s->log = table_grow(s->log, &s->cap, s->n + line.n + 1, 1);
  memcpy(s->log + s->n, line.at, line.n);
  s->n += line.n;
  s->log[s->n] = '\0';
  return 0;
}

static void build_branches(struct build *b) {
  const float own[] = {0.5f, 1.5f};
  const uint32_t node = build_node(b, "If", "if", "cond", "out");
  build_enter(b, node, "then_branch", "then");
  build_node(b, "Mul", "mul", "z w", "t");
  build_output(b, "t", DTYPE_FLOAT, NULL);
  build_leave(b);
  build_enter(b, node, "else_branch", "else");
  build_floats(b, "own", "2", own);
  build_node(b, "Add", "add", "z own", "e");
  build_output(b, "e", DTYPE_FLOAT, NULL);
  build_leave(b);
}

static void build_sample(struct model *m) {
  struct build b;
  const float w[16] = {1, 2, 3, 4, 5, 6, 7, 8}, bias[4] = {0.25f};
  build_begin(&b, m);
  build_opset(&b, "local", 1);
  build_file(&b, "m.onnx", 1000);
  build_file(&b, "m.data", 65536);
  build_input(&b, "x", DTYPE_FLOAT, "1,4,T");
  build_input(&b, "cond", DTYPE_BOOL, "");
  build_floats(&b, "w", "4,4,1", w);
  build_floats(&b, "b", "4", bias);
  build_extent(&b, "big", DTYPE_FLOAT, "64,64", 1, 4096);
  const uint32_t conv = build_node(&b, "Conv", "conv1", "x w b", "y");
  build_attr_ints(&b, conv, "pads", "0,0");
  build_attr_int(&b, conv, "group", 1);
  build_value_info(&b, "y", DTYPE_FLOAT, "1,4,T");
  build_node(&b, "Relu", "relu", "y", "z");
  build_branches(&b);
  const uint32_t k = build_node(&b, "Constant", "const", "", "k");
  build_attr_tensor(&b, k, "value", DTYPE_INT64, "2", (const int64_t[]){7, -1});
  const uint32_t f = build_node(&b, "Constant", "floats", "", "f");
  build_constant_list(&b, f, "value_floats", ATTR_FLOATS, DTYPE_FLOAT, "2", w);
  build_output(&b, "out", DTYPE_FLOAT, NULL);
  build_output(&b, "z", DTYPE_FLOAT, "1,4,T");
  build_enter_function(&b, "local", "scale", "a", "r");
  build_node(&b, "Relu", "body", "a", "r");
  build_leave(&b);
  build_end(&b);
  for (uint32_t i = 0; i < sizeof m->meta_sha256; i++)
    m->meta_sha256[i] = (uint8_t)i;
}

void edit_sample_open(struct edit_sample *s) {
  *s = (struct edit_sample){0};
  build_sample(&s->m);
  recipes_init(&s->r);
  edits_init(&s->e, &s->m, &s->r);
  s->e.sink = keep_line;
  s->e.sink_ctx = s;
}

void edit_sample_close(struct edit_sample *s) {
  edits_free(&s->e);
  recipes_free(&s->r);
  model_free(&s->m);
  table_free(s->log, s->cap, 1);
}

uint32_t edit_sample_value(const struct edit_sample *s, uint32_t graph, const char *name) {
  const uint32_t id = model_find_name(&s->m, span_str(name));
  assert(id != NO_ID);
  return model_value_in(&s->m, graph, id);
}
