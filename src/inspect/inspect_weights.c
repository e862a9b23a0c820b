// What a model has of parameters, and what of them is quantized already.
//
//   codes ─▶ MatMulNBits, GatherBlockQuantized, DequantizeLinear, …     quantized: bits and block
//   float tensors                                                      the rest
//
// Parameters are elements of weights as a runtime has them: of codes as many as they stand for, their
// scales and zero points not at all. A tensor counts once, however many nodes use it. Where weights that
// are stored as Cast, Mul and Add (weir shrink) begin is told by the Cast of an int8 constant.
#include "inspect/inside/inspect_steps.h"

#define SLOT(k) (1ull << (k))
// Of QLinearConcat, from its third input on: codes, their scale, their zero point, again and again.
#define EVERY_THIRD 0x4924924924924924ull

// Operators that take codes: which inputs may hold those of a weight, and which hold scales and zero points. What is neither
// (a float bias, a mask) counts as what it is. `shaped`: the codes have the weight's own dims; else attributes say them.
static const struct taker {
  const char *op_type;
  uint64_t weights, parts;
  bool shaped;
} takers[] = {
    {"MatMulNBits", SLOT(1), SLOT(2) | SLOT(3) | SLOT(4), false},
    {"MatMulBnb4", SLOT(1), SLOT(2), false},
    {"GatherBlockQuantized", SLOT(0), SLOT(2) | SLOT(3), false},
    {"DequantizeLinear", SLOT(0), SLOT(1) | SLOT(2), true},
    {"QLinearConv", SLOT(3) | SLOT(8), SLOT(1) | SLOT(2) | SLOT(4) | SLOT(5) | SLOT(6) | SLOT(7),
     true},
    {"QLinearMatMul", SLOT(0) | SLOT(3), ~(SLOT(0) | SLOT(3)), true},
    {"QLinearAdd", SLOT(0) | SLOT(3), ~(SLOT(0) | SLOT(3)), true},
    {"QLinearMul", SLOT(0) | SLOT(3), ~(SLOT(0) | SLOT(3)), true},
    {"QLinearWhere", SLOT(1) | SLOT(4), ~(SLOT(0) | SLOT(1) | SLOT(4)), true},
    {"QLinearConcat", EVERY_THIRD, ~EVERY_THIRD, true},
    {"MatMulInteger", SLOT(0) | SLOT(1), SLOT(2) | SLOT(3), true},
    {"ConvInteger", SLOT(1), SLOT(2) | SLOT(3), true},
    {"MatMulIntegerToFloat", SLOT(0) | SLOT(1), SLOT(2) | SLOT(3) | SLOT(4) | SLOT(5), true},
    {"DynamicQuantizeMatMul", SLOT(1), SLOT(2) | SLOT(3), true},
    {"DynamicQuantizeLSTM", SLOT(1) | SLOT(2), SLOT(8) | SLOT(9) | SLOT(10) | SLOT(11), true},
    {"QGemm", SLOT(0) | SLOT(3) | SLOT(6),
     SLOT(1) | SLOT(2) | SLOT(4) | SLOT(5) | SLOT(7) | SLOT(8), true},
    {"QAttention", SLOT(1), SLOT(3) | SLOT(4) | SLOT(6) | SLOT(7), true},
    {"QEmbedLayerNormalization", SLOT(2) | SLOT(3) | SLOT(4) | SLOT(5) | SLOT(6), ~0xffull, true},
    {"Cast", SLOT(0), 0, true},
};

static const struct taker *taker_of(const struct model *m, uint32_t node) {
  const char *op_type = model_name_str(m, m->nodes[node].op_type);
  for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
    if (strcmp(op_type, takers[i].op_type) == 0) return &takers[i];
  return NULL;
}

// Elements of what a tensor's codes stand for, 0 if it holds none.
static uint64_t elements_of(const struct model *m, uint32_t node, const struct taker *t,
                            uint32_t slot, uint32_t tensor, int64_t bits) {
  const struct model_tensor *codes = &m->tensors[tensor];
  int64_t rows = 0, columns = 0;
  uint64_t n;
  if (!dims_product(model_dims(m, codes), codes->rank, &n)) return 0;
  if (slot == 1 && !t->shaped) {
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
enum { MOVES_MOST = 16 }; // operators between codes and who takes them

// The constant that a value holds elements of: itself, or what operators that only move elements took it from (a table of
// codes that is gathered from).
static bool constant_of(const struct model *m, uint32_t value, struct model_constant *c) {
  static const char *const movers[] = {"Gather",  "Transpose", "Reshape", "Squeeze", "Unsqueeze",
                                       "Flatten", "Slice",     "Expand",  "Identity"};
  for (uint32_t moves = 0; moves < MOVES_MOST && value != NO_ID; moves++) {
    if (model_resolve_constant(m, value, c)) return true;
    const struct model_value *v = &m->values[value];
    const uint32_t node = v->def;
    bool moved = false;
    if (v->kind != VALUE_NODE_OUTPUT || m->nodes[node].n_in == 0) return false;
    for (size_t i = 0; i < sizeof movers / sizeof *movers && !moved; i++)
      moved = model_op_is(m, node, movers[i]);
    if (!moved) return false;
    value = model_input(m, &m->nodes[node], 0);
  }
  return false;
}

// Codes of more than 16 bits are a bias: as many parameters, and no quantized weight.
static void look_at_codes(struct inspect *in, uint32_t node, const struct taker *t, uint32_t slot,
                          uint8_t *seen) {
  const struct model *m = in->m;
  struct model_constant c;
  if (!constant_of(m, model_input(m, &m->nodes[node], slot), &c) || seen[c.tensor] == SEEN_CODES)
    return;
  const enum dtype dtype = (enum dtype)m->tensors[c.tensor].dtype;
  const bool cast = strcmp(t->op_type, "Cast") == 0,
             small_float = dtype_is_float(dtype) && dtype_bits(dtype) <= 8;
  int64_t bits = (int64_t)dtype_bits(dtype), block = 0;
  if (cast ? dtype != DTYPE_INT8 : !dtype_is_integer(dtype) && !small_float) return;
  if (!t->shaped) model_attr_int(m, node, "bits", 4, &bits);
  model_attr_int(m, node, "block_size", t->shaped ? 0 : 128, &block);
  if (t->shaped && is_whole_axis(m, node, c.tensor, block)) block = 0;
  if (bits < 1 || block < 0) return;
  seen[c.tensor] = SEEN_CODES;
  const uint64_t elements = elements_of(m, node, t, slot, c.tensor, bits);
  in->parameters += elements;
  if (elements > 0 && bits <= 16)
    add_quantized(in, t->op_type, (uint64_t)bits, (uint64_t)block, elements);
}

// The scale of a weight whose activations are quantized at run time: it is multiplied with the scale found for them.
static void look_at_scale(const struct model *m, uint32_t node, uint8_t *seen) {
  const struct model_node *n = &m->nodes[node];
  struct model_constant c;
  for (uint32_t i = 0; i < n->n_in && n->n_in == 2; i++) {
    const uint32_t found = model_input(m, n, i), other = model_input(m, n, 1 - i);
    if (found == NO_ID || other == NO_ID || m->values[found].kind != VALUE_NODE_OUTPUT) continue;
    if (model_op_is(m, m->values[found].def, "DynamicQuantizeLinear") &&
        model_resolve_constant(m, other, &c) && seen[c.tensor] == 0)
      seen[c.tensor] = SEEN_PART;
  }
}

static void look_at_node(struct inspect *in, uint32_t node, uint8_t *seen) {
  const struct model *m = in->m;
  const struct model_node *n = &m->nodes[node];
  const struct taker *t = taker_of(m, node);
  if (model_op_is(m, node, "Mul")) look_at_scale(m, node, seen);
  for (uint32_t i = 0; t && i < n->n_in && i < 64; i++) {
    struct model_constant part;
    const uint32_t value = model_input(m, n, i);
    if (value == NO_ID) continue;
    if (t->weights & SLOT(i)) look_at_codes(in, node, t, i, seen);
    if (t->parts & SLOT(i) && model_resolve_constant(m, value, &part) && seen[part.tensor] == 0)
      seen[part.tensor] = SEEN_PART;
  }
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
