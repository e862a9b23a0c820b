// What a model has of parameters, and what of them is quantized already.
//
//   codes ─▶ MatMulNBits, GatherBlockQuantized, DequantizeLinear, …     quantized: bits and block
//   float tensors                                                      the rest
//
// Parameters are elements of weights as a runtime has them: of codes as many as they stand for, their
// scales and zero points not at all. A tensor counts once, however many nodes use it. Where weights that
// are stored as Cast, Mul and Add (weir shrink) begin is told by the Cast of an int8 constant.
#include "inspect.h"

#include <stdio.h>

// Operators that take codes, and where. `shaped`: the codes have the weight's own dims; else attributes
// say them.
static const struct taker {
  const char *op_type;
  uint32_t weight; // which input
  bool shaped;
} takers[] = {
    {"MatMulNBits", 1, false},
    {"GatherBlockQuantized", 0, false},
    {"DequantizeLinear", 0, true},
    {"QLinearConv", 3, true},
    {"QLinearMatMul", 3, true},
    {"MatMulInteger", 1, true},
    {"ConvInteger", 1, true},
    {"MatMulIntegerToFloat", 1, true},
    {"DynamicQuantizeMatMul", 1, true},
    {"QGemm", 3, true},
    {"QAttention", 1, true},
    {"Cast", 0, true},
};

static const struct taker *taker_of(const struct model *m, uint32_t node) {
  const char *op_type = model_name_str(m, m->nodes[node].op_type);
  for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
    if (strcmp(op_type, takers[i].op_type) == 0) return &takers[i];
  return NULL;
}

// Elements of what a tensor's codes stand for, 0 if it holds none.
static uint64_t elements_of(const struct model *m, uint32_t node, const struct taker *t,
                            uint32_t tensor, int64_t bits) {
  const struct model_tensor *codes = &m->tensors[tensor];
  int64_t rows = 0, columns = 0;
  uint64_t n;
  if (!dims_product(model_dims(m, codes), codes->rank, &n)) return 0;
  if (t->weight == 1 && !t->shaped) {
    model_attr_int(m, node, "K", 0, &rows);
    model_attr_int(m, node, "N", 0, &columns);
    return rows > 0 && columns > 0 && columns <= INT64_MAX / rows
               ? (uint64_t)rows * (uint64_t)columns
               : 0;
  }
  const uint64_t stored = dtype_bits((enum dtype)codes->dtype);
  return t->shaped || stored <= (uint64_t)bits ? n : n * (stored / (uint64_t)bits);
}

// One block for all of an axis is a scale a channel.
static bool is_whole_axis(const struct model *m, uint32_t node, uint32_t tensor, int64_t block) {
  const struct model_tensor *t = &m->tensors[tensor];
  int64_t axis = 1;
  model_attr_int(m, node, "axis", 1, &axis);
  if (axis < 0) axis += t->rank;
  return axis >= 0 && axis < t->rank && block >= model_dims(m, t)[axis];
}

static void add_quantized(struct inspect *in, const char *op_type, uint64_t bits, uint64_t block,
                          uint64_t elements) {
  uint32_t k = 0;
  while (k < in->n_quantized && (strcmp(in->quantized[k].op_type, op_type) != 0 ||
                                 in->quantized[k].bits != bits || in->quantized[k].block != block))
    k++;
  if (k == INSPECT_QUANTIZED) return;
  if (k == in->n_quantized)
    in->quantized[in->n_quantized++] =
        (struct inspect_quantized){.op_type = op_type, .bits = bits, .block = block};
  in->quantized[k].weights++;
  in->quantized[k].parameters += elements;
}

enum { SEEN_PART = 1, SEEN_CODES };

static void look_at_node(struct inspect *in, uint32_t node, uint8_t *seen) {
  const struct model *m = in->m;
  const struct model_node *n = &m->nodes[node];
  const struct taker *t = taker_of(m, node);
  struct model_constant c;
  if (!t || t->weight >= n->n_in || !model_resolve_constant(m, model_input(m, n, t->weight), &c))
    return;
  const enum dtype dtype = (enum dtype)m->tensors[c.tensor].dtype;
  int64_t bits = 4, block = 0;
  if (!t->shaped)
    model_attr_int(m, node, "bits", 4, &bits);
  else
    bits = (int64_t)dtype_bits(dtype);
  model_attr_int(m, node, "block_size", t->shaped ? 0 : 128, &block);
  if (t->shaped && is_whole_axis(m, node, c.tensor, block)) block = 0;
  if (!dtype_is_integer(dtype) || bits < 1 || bits > 8 || block < 0) return; // a bias of int32, say
  const bool cast = strcmp(t->op_type, "Cast") == 0;
  if (cast && dtype != DTYPE_INT8) return;
  for (uint32_t i = 0; i < n->n_in; i++) {
    struct model_constant part;
    const uint32_t value = model_input(m, n, i);
    if (i == t->weight || value == NO_ID || !model_resolve_constant(m, value, &part)) continue;
    if (seen[part.tensor] == 0) seen[part.tensor] = SEEN_PART;
  }
  if (seen[c.tensor] == SEEN_CODES) return;
  seen[c.tensor] = SEEN_CODES;
  const uint64_t elements = elements_of(m, node, t, c.tensor, bits);
  if (elements == 0) return;
  in->parameters += elements;
  add_quantized(in, t->op_type, (uint64_t)bits, (uint64_t)block, elements);
}

void inspect_weights(struct inspect *in) {
  const struct model *m = in->m;
  size_t cap = 0;
  uint8_t *seen = table_grow(NULL, &cap, (size_t)m->n_tensors + 1, sizeof *seen); // by tensor
  memset(seen, 0, (size_t)m->n_tensors + 1);
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (!(m->nodes[i].flags & NODE_DEAD)) look_at_node(in, i, seen);
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    uint64_t n;
    if ((t->flags & TENSOR_DEAD) || seen[i] || !dtype_is_float((enum dtype)t->dtype)) continue;
    if (inspect_uses(m, i) > 0 && dims_product(model_dims(m, t), t->rank, &n)) in->parameters += n;
  }
  table_free(seen, cap, sizeof *seen);
}

struct quoted inspect_count(uint64_t n) {
  static const char *const unit[] = {" k", " M", " B", " T"};
  struct quoted q;
  double x = (double)n / 1000;
  size_t u = 0;
  if (n < 1000) {
    snprintf(q.s, sizeof q.s, "%u", (unsigned)n);
    return q;
  }
  for (; x >= 999.5 && u < 3; u++)
    x /= 1000;
  snprintf(q.s, sizeof q.s, x < 9.995 ? "%.2f%s" : x < 99.95 ? "%.1f%s" : "%.0f%s", x, unit[u]);
  return q;
}
