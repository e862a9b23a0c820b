// Nodes of every operator of the table, whatever they can take or cannot, with bodies and functions, small constants,
// names of dims: a choice is a byte, and 0 where there are no more.
#include "made_model.h"

#include "model/model_calls.h"
#include "schema/schema.h"

enum { NODES = 48, BODIES = 4 };

struct making {
  struct build b;
  struct made_bytes in;
  struct arena a;
  uint32_t n_values; // v0 … have been made, in this graph or around it
  uint32_t n_nodes, depth, n_functions;
  bool rewritten;
};

uint32_t made_choose(struct made_bytes *in, uint32_t n) {
  const uint32_t x = in->at < in->end ? *in->at++ : 0;
  return n ? x % n : x;
}

// ---- what a model is made of ---------------------------------------------------------------------

static const int64_t numbers[] = {
    0,  1,  2,  3,  4,  -1, -2, -3,        5,         7,
    8,  16, 64, 11, 13, 10, 17, INT32_MAX, INT64_MAX, INT64_MIN,
    -5, -9, 6,  9,  12, 32, 48, 1 << 24,   1 << 30,   INT64_C(1) << 62};

static int64_t number(struct made_bytes *in) {
  return numbers[made_choose(in, sizeof numbers / sizeof *numbers)];
}

static const char *dims(struct making *k) {
  static const char *const all[] = {"",        "n",   "n,2",          "2,n,t", "1,3,t,8",   "n,n",
                                    "0",       "?",   "t,1",          "4",     "2,3",       "3",
                                    "1,8,4,4", "n,0", "(t + 1)//2,4", "m",     "n*n",       "t,t,t",
                                    "1",       "5,1", "b,2,4,t",      "2,2",   "4096,4096", NULL};
  return all[made_choose(&k->in, sizeof all / sizeof *all)];
}

static const char *value_name(struct making *k, uint32_t i) {
  return arena_printf(&k->a, "v%u", i);
}

static const char *new_name(struct making *k) {
  return value_name(k, k->n_values++);
}

static void make_constant(struct making *k) {
  int64_t list[8];
  float floats[8];
  const uint32_t n = made_choose(&k->in, 9);
  const char *shape = made_choose(&k->in, 4) == 0 ? (n == 1 ? "" : NULL) : NULL;
  if (!shape) shape = arena_printf(&k->a, "%u", n);
  const bool whole = made_choose(&k->in, 3) > 0;
  for (uint32_t i = 0; i < n; i++) {
    list[i] = number(&k->in);
    floats[i] = (float)list[i] * 0.25f;
  }
  if (whole)
    build_ints(&k->b, new_name(k), shape, list);
  else
    build_floats(&k->b, new_name(k), shape, floats);
}

static const char *operands(struct making *k, uint32_t n) {
  const char *list = "";
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t back = made_choose(&k->in, 0);
    const bool none = back == 255 || k->n_values == 0;
    const uint32_t near = k->rewritten && back < 128 && k->n_values > 4 ? 4 : k->n_values;
    const char *name = none ? "-" : value_name(k, k->n_values - 1 - back % near);
    list = arena_printf(&k->a, "%s%s%s", list, i ? " " : "", name);
  }
  return list;
}

static const char *results(struct making *k, uint32_t n) {
  const char *list = "";
  for (uint32_t i = 0; i < n; i++)
    list = arena_printf(&k->a, "%s%s%s", list, i ? " " : "", new_name(k));
  return list;
}

// ---- nodes ---------------------------------------------------------------------------------------

static void make_nodes(struct making *k, uint32_t n);

// What is made inside is not seen outside, though its name stays taken.
static void make_body(struct making *k, uint32_t node, const char *attr) {
  const uint32_t around = k->n_values;
  build_enter(&k->b, node, attr, attr);
  k->depth++;
  for (uint32_t i = made_choose(&k->in, 6); i-- > 0;)
    build_input(&k->b, new_name(k), made_choose(&k->in, 3) ? DTYPE_FLOAT : DTYPE_INT64, dims(k));
  make_nodes(k, made_choose(&k->in, 8));
  for (uint32_t i = made_choose(&k->in, 5); i-- > 0 && k->n_values > around;)
    build_output(&k->b, value_name(k, k->n_values - 1 - made_choose(&k->in, k->n_values - around)),
                 DTYPE_UNDEFINED, NULL);
  k->depth--;
  build_leave(&k->b);
}

// Load makes tensors of the numbers of a Constant, which the builder does not.
static bool is_made_by_load(const struct making *k, uint32_t node, uint8_t type) {
  return type != ATTR_TENSOR &&
         span_is(model_name(k->b.m, k->b.m->nodes[node].op_type), "Constant");
}

static void make_attribute(struct making *k, uint32_t node, const struct schema_attribute *a) {
  if (is_made_by_load(k, node, a->type)) return;
  const float floats[4] = {0.5f, 2, -1, 0};
  const char *list = "";
  switch (a->type) {
  case ATTR_INT: build_attr_int(&k->b, node, a->name, number(&k->in)); break;
  case ATTR_FLOAT: build_attr_float(&k->b, node, a->name, floats[made_choose(&k->in, 4)]); break;
  case ATTR_STRING:
    build_attr_string(&k->b, node, a->name,
                      (const char *[]){"SAME_UPPER", "VALID", "none", "bij,bjk->bik", "max",
                                       "...ii->i", "SAME_LOWER",
                                       "bidirectional"}[made_choose(&k->in, 8)]);
    break;
  case ATTR_INTS:
    for (uint32_t i = made_choose(&k->in, 7), first = i; i-- > 0;)
      list = arena_printf(&k->a, "%s%s%lld", list, i + 1 == first ? "" : ",",
                          (long long)number(&k->in));
    if (*list) build_attr_ints(&k->b, node, a->name, list);
    break;
  case ATTR_TENSOR:
    build_attr_tensor(&k->b, node, a->name, DTYPE_INT64, "2", (const int64_t[2]){1, 3});
    break;
  case ATTR_GRAPH:
    if (k->depth < BODIES) make_body(k, node, a->name);
    break;
  default: break;
  }
}

static const char *const sought[] = {"Add",
                                     "Sub",
                                     "Mul",
                                     "Div",
                                     "Pow",
                                     "Neg",
                                     "Abs",
                                     "Relu",
                                     "Clip",
                                     "Min",
                                     "Max",
                                     "Sqrt",
                                     "Cast",
                                     "Identity",
                                     "Dropout",
                                     "Transpose",
                                     "Reshape",
                                     "Squeeze",
                                     "Unsqueeze",
                                     "Flatten",
                                     "Slice",
                                     "Concat",
                                     "Split",
                                     "Expand",
                                     "Pad",
                                     "Shape",
                                     "Size",
                                     "Gather",
                                     "Where",
                                     "Equal",
                                     "Not",
                                     "Constant",
                                     "Sigmoid",
                                     "Erf",
                                     "Tanh",
                                     "ReduceMean",
                                     "ReduceSum",
                                     "Softmax",
                                     "MatMul",
                                     "Gemm",
                                     "Conv",
                                     "ConvTranspose",
                                     "MaxPool",
                                     "If",
                                     "AveragePool",
                                     "Loop",
                                     "Range",
                                     "ConstantOfShape",
                                     "Tile",
                                     "Scan",
                                     "Reciprocal",
                                     "LayerNormalization",
                                     "BatchNormalization",
                                     "DequantizeLinear"};

static const struct schema_operator *operator_of(struct making *k) {
  uint32_t n_operators;
  const struct schema_operator *ops = schema_all(&n_operators);
  const uint32_t first = made_choose(&k->in, 0);
  if (k->rewritten && first >= 128)
    for (uint32_t i = 0; i < n_operators; i++)
      if (strcmp(ops[i].name, sought[first % (sizeof sought / sizeof *sought)]) == 0)
        return &ops[i];
  return &ops[(first << 8 | made_choose(&k->in, 0)) % n_operators];
}

static void make_node(struct making *k) {
  const struct schema_operator *op = operator_of(k);
  const uint32_t shape = made_choose(&k->in, 0), n_in = shape % 6, n_out = 1 + shape / 6 % 3;
  const char *in = operands(k, n_in);
  if (k->n_functions && shape > 240) {
    const char *f = arena_printf(&k->a, "f%u", shape % k->n_functions);
    build_domain(&k->b, build_node(&k->b, f, "", in, results(k, n_out)), "local");
    return;
  }
  const uint32_t first = k->n_values;
  k->n_values += n_out; // bodies come first, and have names of their own
  const char *out = "";
  for (uint32_t i = 0; i < n_out; i++)
    out = arena_printf(&k->a, "%s%s%s", out, i ? " " : "", value_name(k, first + i));
  const uint32_t node = build_node(&k->b, op->name, "", in, out);
  if (*op->domain) build_domain(&k->b, node, op->domain);
  const struct schema_signature *s = schema_at(op, 18);
  if (!s && op->n_versions) s = &op->versions[op->n_versions - 1];
  for (uint32_t i = 0; s && i < s->n_attributes; i++)
    if (s->attributes[i].type == ATTR_GRAPH || made_choose(&k->in, 3) == 1)
      make_attribute(k, node, &s->attributes[i]);
}

static void make_nodes(struct making *k, uint32_t n) {
  for (uint32_t i = 0; i < n && k->n_nodes < NODES && k->in.at < k->in.end; i++) {
    k->n_nodes++;
    const uint32_t kind = made_choose(&k->in, 8);
    if (kind == 0)
      make_constant(k);
    else
      make_node(k);
    if (kind == 1 && k->n_values)
      build_value_info(&k->b, value_name(k, k->n_values - 1), DTYPE_FLOAT, dims(k));
  }
}

static void make_function(struct making *k, uint32_t i) {
  const uint32_t around = k->n_values;
  const char *inputs = results(k, 2), *outputs;
  // Of earlier functions a body may call any.
  build_enter_function(&k->b, "local", arena_printf(&k->a, "f%u", i), inputs, "r");
  build_node(&k->b, "Identity", "", value_name(k, around), value_name(k, k->n_values++));
  make_nodes(k, made_choose(&k->in, 6));
  outputs = value_name(k, k->n_values - 1);
  build_node(&k->b, "Identity", "", outputs, "r");
  build_leave(&k->b);
  k->n_values = around;
}

void made_model(struct model *m, struct made_bytes *in, bool rewritten) {
  struct making making = {.in = *in, .rewritten = rewritten}, *k = &making;
  build_begin(&k->b, m);
  build_opset(&k->b, "local", 1);
  build_opset(&k->b, "com.microsoft", 1);
  build_opset(&k->b, "ai.onnx.ml", 3);
  for (uint32_t n = made_choose(&k->in, 4), i = 0; i < n; i++) {
    make_function(k, i);
    k->n_functions++;
    k->n_nodes = 0;
  }
  k->n_values = 0;
  for (uint32_t i = 0; i < 3; i++)
    build_input(&k->b, new_name(k), i == 2 ? DTYPE_INT64 : DTYPE_FLOAT, dims(k));
  make_nodes(k, NODES);
  build_end(&k->b);
  model_calls_mark(m);
  *in = k->in;
  arena_free(&k->a);
}
