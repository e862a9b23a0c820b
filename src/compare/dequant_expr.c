// What a node computes with, as a recipe over constants, so that a weight and what it became can be
// compared element by element:
//
//   w                                                      float32 [K,N]
//   DequantizeLinear(codes, scales, zeros) ─ Transpose     the same dims, after them
//   QuantizeLinear(w, scales, zeros) ─ DequantizeLinear    what a weight in training stands for
//   Cast(w16), Add(Mul(Cast(codes), scale), offset)        likewise
//   MatMulNBits(x, codes, scales, zeros)                   its transpose [N,K], of its blocks
//   GatherBlockQuantized(codes, …, scales, zeros)          the table
//   DynamicQuantizeMatMul(x, codes, scales, zeros)         the matrix, as stored; QAttention's likewise
//   MatMulInteger(x, codes, …) ─ Cast ─ Mul(x_s * scales)  the same, ConvInteger's too; the product of the scales may be a
//                                                          constant, and an Add of codes may stand before Cast
//   QLinearConv(…, codes, scales, zeros, …)                the filters; QLinearMatMul's, QGemm's matrix, MatMulIntegerToFloat's
//   Gather(codes, …) ─ DequantizeLinear(scale, zero)       the table
//
// Chains are followed for a few nodes, down the operand that is no constant itself. Any other node
// has no recipe, and its values are not compared.
#include "compare/dequant_expr.h"

#include "compare/diff.h"

enum { CHAIN_MAX = 8 };

static bool op_is(const struct model *m, uint32_t node, const char *domain, const char *op) {
  const struct model_node *n = &m->nodes[node];
  return span_is(model_name(m, n->op_type), op) && span_is(model_name(m, n->domain), domain);
}

static bool add_root(struct dequant_expr *e, uint32_t tensor) {
  for (uint32_t i = 0; i < DEQUANT_EXPR_ROOTS; i++) {
    if (e->roots[i] == tensor) return true;
    if (e->roots[i] != NO_ID) continue;
    e->roots[i] = tensor;
    return true;
  }
  return false;
}

// The recipe of a constant value.
static bool constant(struct dequant_model *x, uint32_t value, struct dequant_expr *e,
                     uint32_t *recipe) {
  const uint32_t tensor = diff_value_tensor(x->m, value);
  if (tensor == NO_ID || !edit_tensor_readable(x->edits, tensor)) return false;
  if (x->m->tensors[tensor].bytes == 0 || !add_root(e, tensor)) return false;
  *recipe = edit_tensor_recipe(x->edits, tensor);
  return true;
}

static const struct recipe *row(const struct dequant_model *x, uint32_t recipe) {
  return &x->r->rows[recipe];
}

static bool is_code(enum dtype t) {
  return dtype_is_integer(t) && dtype_bits(t) <= 8;
}

static void share(struct dequant_expr *e, uint32_t bits, uint32_t axis, uint64_t block) {
  e->bits = bits;
  e->axis = axis;
  e->block = block;
}

// ---- chains ------------------------------------------------------------------------------------

static bool is_binary(const struct model *m, uint32_t node) {
  return model_op_is(m, node, "Mul") || model_op_is(m, node, "Add") ||
         model_op_is(m, node, "Sub") || model_op_is(m, node, "Div");
}

// The input slot at which the chain continues.
static uint32_t link_slot(const struct model *m, uint32_t node) {
  if (!is_binary(m, node)) return 0;
  const uint32_t first = model_input(m, &m->nodes[node], 0);
  return diff_value_tensor(m, first) != NO_ID &&
                 diff_value_tensor(m, model_input(m, &m->nodes[node], 1)) == NO_ID
             ? 1
             : 0;
}

bool dequant_expr_is_link(const struct model *m, uint32_t node) {
  static const char *const words[] = {"Identity", "Cast", "Transpose", "QuantizeLinear",
                                      "DequantizeLinear"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (model_op_is(m, node, words[i])) return true;
  return is_binary(m, node);
}

// Scales, zero points, axis and block of a QuantizeLinear or DequantizeLinear.
static bool parameters_of(struct dequant_model *x, uint32_t node, struct dequant_expr *e,
                          struct recipe_dequantization *q) {
  const struct model *m = x->m;
  const struct model_node *n = &m->nodes[node];
  int64_t axis, block;
  *q = (struct recipe_dequantization){.zeros = NO_ID};
  if (!model_attr_int(m, node, "axis", 1, &axis) ||
      !model_attr_int(m, node, "block_size", 0, &block))
    return false;
  if (!constant(x, model_input(m, n, 1), e, &q->scales)) return false;
  if (model_input(m, n, 2) != NO_ID && !constant(x, model_input(m, n, 2), e, &q->zeros))
    return false;
  const uint32_t rank = row(x, e->recipe)->rank;
  if (axis < 0) axis += rank;
  if (block < 0) return false;
  const bool one = row(x, q->scales)->count == 1;
  if (!one && (axis < 0 || axis >= rank)) return false;
  q->axis = one ? RECIPE_PER_TENSOR : (uint32_t)axis;
  q->block = (uint64_t)block;
  if (q->axis == RECIPE_PER_TENSOR) {
    const int64_t none[1] = {1};
    q->block = 0;
    q->scales = recipe_reshape(x->r, q->scales, none, 0);
    if (q->zeros != NO_ID && row(x, q->zeros)->count == 1)
      q->zeros = recipe_reshape(x->r, q->zeros, none, 0);
  }
  return true;
}

// The scale of each element: what codes of 1 stand for.
static uint32_t scales_of_each(struct dequant_model *x, uint32_t codes,
                               struct recipe_dequantization q) {
  const uint8_t one = 1;
  const uint32_t ones = recipe_fill(x->r, DTYPE_UINT8, recipe_dims(x->r, codes),
                                    row(x, codes)->rank, span_of(&one, 1));
  q.zeros = NO_ID;
  return recipe_can_dequantize(x->r, ones, &q) ? recipe_dequantize(x->r, ones, &q) : NO_ID;
}

static bool dequantize(struct dequant_model *x, uint32_t node, struct dequant_expr *e) {
  struct recipe_dequantization q;
  if (!parameters_of(x, node, e, &q) || !recipe_can_dequantize(x->r, e->recipe, &q)) return false;
  const uint32_t bits = dtype_bits((enum dtype)row(x, e->recipe)->dtype);
  e->computed = true;
  share(e, bits <= 16 ? bits : 0, q.axis, q.block); // steps of a bias are not those of its range
  e->scales = scales_of_each(x, e->recipe, q);
  e->recipe = recipe_dequantize(x->r, e->recipe, &q);
  return true;
}

// What a weight is trained with: codes by parameters that are there.
static bool quantize(struct dequant_model *x, uint32_t node, struct dequant_expr *e) {
  struct recipe_dequantization q;
  int64_t type, saturates;
  if (!model_attr_int(x->m, node, "output_dtype", 0, &type) ||
      !model_attr_int(x->m, node, "saturate", 1, &saturates) || saturates != 1 ||
      !parameters_of(x, node, e, &q))
    return false;
  struct recipe_linear by = {
      .type = DTYPE_UINT8, .scales = q.scales, .zeros = q.zeros, .axis = q.axis, .block = q.block};
  if (q.zeros != NO_ID)
    by.type = (enum dtype)row(x, q.zeros)->dtype;
  else if (dtype_known(type))
    by.type = (enum dtype)type;
  if (!recipe_can_quantize_linear(x->r, e->recipe, &by)) return false;
  e->computed = true;
  e->recipe = recipe_quantize_linear(x->r, e->recipe, &by);
  return true;
}

// Which axis a factor of the codes is spread along; those of one axis alone have channels.
static void share_factor(const struct dequant_model *x, uint32_t factor, struct dequant_expr *e) {
  const struct recipe *f = row(x, factor), *codes = row(x, e->recipe);
  uint32_t axis = RECIPE_PER_TENSOR;
  e->bits = dtype_bits(e->stored);
  for (uint32_t i = 0; i < f->rank; i++) {
    if (recipe_dims(x->r, factor)[i] == 1) continue;
    if (axis != RECIPE_PER_TENSOR || f->rank > codes->rank) e->bits = 0;
    axis = i + codes->rank - f->rank;
  }
  e->axis = axis;
  e->block = 0;
}

static bool binary(struct dequant_model *x, uint32_t node, struct dequant_expr *e) {
  const struct model *m = x->m;
  const uint32_t slot = link_slot(m, node);
  uint32_t of[3] = {NO_ID, NO_ID, NO_ID}, other;
  if (!constant(x, model_input(m, &m->nodes[node], !slot), e, &other)) return false;
  e->computed = true;
  e->scales = NO_ID;
  if (model_op_is(m, node, "Mul") && is_code(e->stored)) share_factor(x, other, e);
  of[slot] = e->recipe;
  of[!slot] = other;
  const enum recipe_map_op op = model_op_is(m, node, "Mul")   ? RECIPE_MAP_MUL
                                : model_op_is(m, node, "Add") ? RECIPE_MAP_ADD
                                : model_op_is(m, node, "Sub") ? RECIPE_MAP_SUB
                                                              : RECIPE_MAP_DIV;
  if (!recipe_can_map(x->r, op, of)) return false;
  e->recipe = recipe_map(x->r, op, of);
  return true;
}

static bool link_on(struct dequant_model *x, uint32_t node, struct dequant_expr *e) {
  const struct model *m = x->m;
  const uint32_t rank = row(x, e->recipe)->rank;
  int64_t to, perm[RECIPE_MAX_RANK];
  const int64_t *given;
  uint32_t n;
  if (!recipe_can_grow(x->r, e->recipe)) return false;
  if (model_op_is(m, node, "Identity")) return true;
  if (model_op_is(m, node, "Cast")) {
    if (!model_attr_int(m, node, "to", 0, &to) || !dtype_known(to) ||
        !recipe_can_convert((enum dtype)row(x, e->recipe)->dtype, (enum dtype)to))
      return false;
    e->recipe = recipe_cast(x->r, e->recipe, (enum dtype)to);
    return true;
  }
  if (model_op_is(m, node, "Transpose")) {
    uint64_t seen = 0;
    if (!model_attr_ints(m, node, "perm", &given, &n) || (n && n != rank)) return false;
    for (uint32_t i = 0; i < rank; i++) {
      perm[i] = n ? given[i] : (int64_t)(rank - 1 - i);
      if (perm[i] < 0 || perm[i] >= (int64_t)rank || seen >> perm[i] & 1) return false;
      seen |= 1ull << perm[i];
    }
    for (uint32_t i = 0, was = e->axis; i < rank; i++)
      if (perm[i] == (int64_t)was) e->axis = i;
    e->recipe = recipe_transpose(x->r, e->recipe, perm);
    if (e->scales != NO_ID) e->scales = recipe_transpose(x->r, e->scales, perm);
    return true;
  }
  if (model_op_is(m, node, "QuantizeLinear")) return quantize(x, node, e);
  return model_op_is(m, node, "DequantizeLinear") ? dequantize(x, node, e) : binary(x, node, e);
}

static bool chain(struct dequant_model *x, uint32_t value, struct arena *arena,
                  struct dequant_expr *e) {
  const struct model *m = x->m;
  uint32_t nodes[CHAIN_MAX], n = 0;
  while (diff_value_tensor(m, value) == NO_ID) {
    if (value == NO_ID || m->values[value].kind != VALUE_NODE_OUTPUT || n == CHAIN_MAX)
      return false;
    const uint32_t node = m->values[value].def;
    if (!dequant_expr_is_link(m, node)) return false;
    nodes[n++] = node;
    value = model_input(m, &m->nodes[node], link_slot(m, node));
    if (value == NO_ID) return false;
  }
  if (!constant(x, value, e, &e->recipe)) return false;
  const enum dtype stored = (enum dtype)row(x, e->recipe)->dtype;
  e->stored = stored;
  if (n == 0) return true;
  const char *way = "";
  for (uint32_t i = n; i-- > 0;) {
    if (!link_on(x, nodes[i], e)) return false;
    const char *op = model_name_str(m, m->nodes[nodes[i]].op_type);
    way = arena_printf(arena, "%s%s%s", way, *way ? ", " : "", op);
    int64_t block;
    if (model_op_is(m, nodes[i], "DequantizeLinear") &&
        model_attr_int(m, nodes[i], "block_size", 0, &block) && block > 0)
      way = arena_printf(arena, "%s in blocks of %s", way, integer(block).s);
  }
  e->form = arena_printf(arena, "%s with %s", dtype_name(stored), way);
  return true;
}

// ---- operators that hold codes -----------------------------------------------------------------

// The bytes of a tensor as elements of another type.
static bool reinterpret(struct dequant_model *x, uint32_t tensor, enum dtype type,
                        const int64_t *dims, uint32_t rank, uint32_t *recipe) {
  uint64_t count, bytes;
  struct span small;
  struct extent at;
  if (!dims_product(dims, rank, &count) || !dtype_bytes(type, count, &bytes) ||
      bytes != x->m->tensors[tensor].bytes || bytes == 0)
    return false;
  if (model_small_value(x->m, tensor, &small)) {
    *recipe = recipe_bytes(x->r, type, dims, rank, small);
    return true;
  }
  if (!model_plain_place(x->m, tensor, &at)) return false;
  const struct piece piece = {.at = at, .count = bytes, .checkpoint = NO_ID};
  *recipe = recipe_extent(x->r, type, dims, rank, ENCODING_RAW, &piece, 1, NULL);
  return true;
}

static enum dtype code_type(int64_t bits) {
  return bits == 2   ? DTYPE_UINT2
         : bits == 4 ? DTYPE_UINT4
         : bits == 8 ? DTYPE_UINT8
                     : DTYPE_UNDEFINED;
}

static uint32_t middle(struct dequant_model *x, int64_t bits, const int64_t *dims, uint32_t rank) {
  const uint8_t code = (uint8_t)(1u << (bits - 1));
  return recipe_fill(x->r, code_type(bits), dims, rank, span_of(&code, 1));
}

static uint32_t first_columns(struct dequant_model *x, uint32_t of, int64_t rows, int64_t columns) {
  const int64_t starts[] = {0, 0}, steps[] = {1, 1}, dims[] = {rows, columns};
  return recipe_slice(x->r, of, starts, steps, dims);
}

static uint32_t tensor_at(const struct model *m, uint32_t node, uint32_t slot) {
  return diff_value_tensor(m, model_input(m, &m->nodes[node], slot));
}

// (code - zero) * scale with a zero point of the scales' type, as hqq has it.
static bool float_zeros(struct dequant_model *x, uint32_t codes, uint32_t scales, uint32_t zeros,
                        const int64_t grid[3], uint32_t *out) {
  struct recipes *r = x->r;
  const int64_t one[] = {grid[0], grid[1], 1}, flat[] = {grid[0], grid[1] * grid[2]};
  if (!recipe_can_convert((enum dtype)row(x, codes)->dtype, DTYPE_FLOAT) ||
      !dtype_is_plain_float((enum dtype)row(x, scales)->dtype))
    return false;
  uint32_t of[3] = {recipe_cast(r, recipe_reshape(r, codes, grid, 3), DTYPE_FLOAT),
                    recipe_cast(r, recipe_reshape(r, zeros, one, 3), DTYPE_FLOAT), NO_ID};
  if (!recipe_can_map(r, RECIPE_MAP_SUB, of)) return false;
  of[0] = recipe_map(r, RECIPE_MAP_SUB, of);
  of[1] = recipe_cast(r, recipe_reshape(r, scales, one, 3), DTYPE_FLOAT);
  if (!recipe_can_map(r, RECIPE_MAP_MUL, of)) return false;
  *out = recipe_reshape(r, recipe_map(r, RECIPE_MAP_MUL, of), flat, 2);
  return true;
}

static bool nbits(struct dequant_model *x, uint32_t node, struct arena *arena,
                  struct dequant_expr *e) {
  const struct model *m = x->m;
  const uint32_t codes = tensor_at(m, node, 1), scales = tensor_at(m, node, 2),
                 zeros = tensor_at(m, node, 3);
  const bool has_zeros = model_input(m, &m->nodes[node], 3) != NO_ID;
  int64_t k, n, bits, block;
  if (!model_attr_int(m, node, "K", 0, &k) || !model_attr_int(m, node, "N", 0, &n) ||
      !model_attr_int(m, node, "bits", 4, &bits) ||
      !model_attr_int(m, node, "block_size", 0, &block))
    return false;
  if (codes == NO_ID || scales == NO_ID || (has_zeros && zeros == NO_ID)) return false;
  if (k <= 0 || n <= 0 || block <= 0 || k > INT32_MAX || n > INT32_MAX || block > INT32_MAX ||
      code_type(bits) == DTYPE_UNDEFINED || model_input(m, &m->nodes[node], 4) != NO_ID)
    return false;
  const int64_t blocks = (k + block - 1) / block, grid[] = {n, blocks, block},
                flat[] = {n, blocks * block}, each[] = {n, blocks};
  struct recipe_dequantization q = {.zeros = NO_ID, .axis = 1, .block = (uint64_t)block};
  uint32_t packed;
  if (!reinterpret(x, codes, code_type(bits), flat, 2, &packed)) return false;
  if (!edit_tensor_readable(x->edits, scales)) return false;
  if (row(x, edit_tensor_recipe(x->edits, scales))->count != (uint64_t)(n * blocks)) return false;
  q.scales = edit_tensor_recipe_as(x->edits, scales, each, 2);
  (void)(add_root(e, codes) && add_root(e, scales) && (!has_zeros || add_root(e, zeros)));
  const char *kind = "without zero points";
  if (has_zeros && dtype_is_plain_float((enum dtype)m->tensors[zeros].dtype)) {
    const uint32_t z = edit_tensor_recipe(x->edits, zeros);
    if (row(x, z)->count != (uint64_t)(n * blocks)) return false;
    if (!float_zeros(x, packed, q.scales, z, grid, &e->recipe)) return false;
    kind = "with float zero points";
  } else {
    const int64_t per_byte = 8 / bits, line[] = {n, (blocks + per_byte - 1) / per_byte * per_byte};
    q.zeros = middle(x, bits, each, 2);
    if (has_zeros) {
      uint32_t all;
      if (!reinterpret(x, zeros, code_type(bits), line, 2, &all)) return false;
      q.zeros = first_columns(x, all, n, blocks);
      kind = "with zero points";
    }
    if (!recipe_can_dequantize(x->r, packed, &q)) return false;
    e->recipe = recipe_dequantize(x->r, packed, &q);
  }
  if (blocks * block != k) e->recipe = first_columns(x, e->recipe, n, k);
  e->transposed = true;
  share(e, (uint32_t)bits, 1, (uint64_t)block);
  e->form = arena_printf(arena, "%s bits in blocks of %s (MatMulNBits, %s)", integer(bits).s,
                         integer(block).s, kind);
  return true;
}

static bool gather(struct dequant_model *x, uint32_t node, struct arena *arena,
                   struct dequant_expr *e) {
  const struct model *m = x->m;
  const uint32_t codes = tensor_at(m, node, 0), scales = tensor_at(m, node, 2),
                 zeros = tensor_at(m, node, 3);
  const bool has_zeros = model_input(m, &m->nodes[node], 3) != NO_ID;
  int64_t bits, block, axis, dims[RECIPE_MAX_RANK];
  if (!model_attr_int(m, node, "bits", 4, &bits) ||
      !model_attr_int(m, node, "block_size", 128, &block) ||
      !model_attr_int(m, node, "quantize_axis", 1, &axis) || block <= 0)
    return false;
  if (codes == NO_ID || scales == NO_ID || (has_zeros && zeros == NO_ID)) return false;
  const struct model_tensor *t = &m->tensors[codes];
  if (t->rank == 0 || t->rank > RECIPE_MAX_RANK || !edit_tensor_readable(x->edits, codes) ||
      !edit_tensor_readable(x->edits, scales))
    return false;
  struct recipe_dequantization q = {.zeros = NO_ID, .block = (uint64_t)block};
  if (axis < 0) axis += t->rank;
  if (axis < 0 || axis >= t->rank) return false;
  q.axis = (uint32_t)axis;
  q.scales = edit_tensor_recipe(x->edits, scales);
  memcpy(dims, model_dims(m, t), t->rank * sizeof *dims);
  e->recipe = edit_tensor_recipe(x->edits, codes);
  if (t->dtype == DTYPE_UINT8) {
    if (code_type(bits) == DTYPE_UNDEFINED || dims[t->rank - 1] > INT32_MAX) return false;
    dims[t->rank - 1] *= 8 / bits;
    if (!reinterpret(x, codes, code_type(bits), dims, t->rank, &e->recipe)) return false;
    const int64_t *each = recipe_dims(x->r, q.scales);
    const uint32_t rank = row(x, q.scales)->rank;
    if (rank != t->rank) return false;
    memcpy(dims, each, rank * sizeof *dims);
    if (has_zeros && bits < 8 && dims[rank - 1] % (8 / bits)) return false;
    q.zeros = middle(x, bits, dims, rank);
    if (has_zeros && !reinterpret(x, zeros, code_type(bits), dims, rank, &q.zeros)) return false;
  } else if (has_zeros) {
    q.zeros = edit_tensor_recipe(x->edits, zeros);
  }
  if (!recipe_can_dequantize(x->r, e->recipe, &q)) return false;
  e->recipe = recipe_dequantize(x->r, e->recipe, &q);
  (void)(add_root(e, codes) && add_root(e, scales) && (!has_zeros || add_root(e, zeros)));
  share(e, (uint32_t)bits, q.axis, q.block);
  e->form = arena_printf(arena, "%s bits in blocks of %s (GatherBlockQuantized)", integer(bits).s,
                         integer(block).s);
  return true;
}

// ---- operators over codes, with their scales as inputs or after them ------------------------------

// Where a node's constant codes are, and the values of their scales and zero points.
struct beside {
  uint32_t slot, scales, zeros;
  uint32_t divisor; // a value that the scales are a multiple of; NO_ID: none
  bool filters;     // scales lie along the first axis, else along the last
};

static uint32_t only_user(const struct model *m, uint32_t value, const char *op) {
  const uint32_t use = value == NO_ID ? NO_ID : m->values[value].first_use;
  if (use == NO_ID || m->refs[use].next != NO_ID) return NO_ID;
  return model_op_is(m, m->refs[use].node, op) ? m->refs[use].node : NO_ID;
}

static uint32_t first_output(const struct model *m, uint32_t node) {
  return node == NO_ID ? NO_ID : model_output(m, &m->nodes[node], 0);
}

// The scale of codes that a QuantizeLinear produces; else NO_ID.
static uint32_t scale_of_codes(const struct model *m, uint32_t codes) {
  if (codes == NO_ID || m->values[codes].kind != VALUE_NODE_OUTPUT) return NO_ID;
  const uint32_t node = m->values[codes].def;
  return model_op_is(m, node, "QuantizeLinear") ? model_input(m, &m->nodes[node], 1) : NO_ID;
}

// The scales in the Mul after a product of codes and its Cast: the constant one of two, or the constant product of both.
static void scales_behind(const struct model *m, uint32_t node, struct beside *b) {
  const uint32_t product = first_output(m, node), sum = only_user(m, product, "Add");
  const uint32_t cast = only_user(m, sum == NO_ID ? product : first_output(m, sum), "Cast");
  const uint32_t mul = only_user(m, first_output(m, cast), "Mul");
  if (mul == NO_ID) return;
  const uint32_t both = model_input(m, &m->nodes[mul], 1);
  if (both != NO_ID && diff_value_tensor(m, both) != NO_ID) {
    b->divisor = scale_of_codes(m, model_input(m, &m->nodes[node], 0));
    b->scales = b->divisor == NO_ID ? NO_ID : both;
  } else if (both != NO_ID && m->values[both].kind == VALUE_NODE_OUTPUT &&
             model_op_is(m, m->values[both].def, "Mul")) {
    b->scales = model_input(m, &m->nodes[m->values[both].def], 1);
  }
}

static void at_slots(const struct model *m, uint32_t node, uint32_t codes, uint32_t scales,
                     uint32_t zeros, struct beside *b) {
  const struct model_node *n = &m->nodes[node];
  b->slot = codes;
  b->scales = model_input(m, n, scales);
  b->zeros = model_input(m, n, zeros);
}

static bool beside_of(const struct model *m, uint32_t node, struct beside *b) {
  const struct model_node *n = &m->nodes[node];
  int64_t transposed = 0;
  *b = (struct beside){.slot = 1, .scales = NO_ID, .zeros = NO_ID, .divisor = NO_ID};
  if (op_is(m, node, "com.microsoft", "DynamicQuantizeMatMul")) {
    at_slots(m, node, 1, 2, 3, b);
  } else if (op_is(m, node, "com.microsoft", "QAttention")) {
    at_slots(m, node, 1, 4, 7, b);
  } else if (op_is(m, node, "com.microsoft", "MatMulIntegerToFloat")) {
    at_slots(m, node, 1, 3, 5, b);
  } else if (model_op_is(m, node, "QLinearMatMul") || model_op_is(m, node, "QLinearConv")) {
    at_slots(m, node, 3, 4, 5, b);
    b->filters = model_op_is(m, node, "QLinearConv");
  } else if (op_is(m, node, "com.microsoft", "QGemm")) {
    if (!model_attr_int(m, node, "transB", 0, &transposed)) return false;
    at_slots(m, node, 3, 4, 5, b);
    b->filters = transposed != 0;
  } else if (model_op_is(m, node, "MatMulInteger") || model_op_is(m, node, "ConvInteger")) {
    scales_behind(m, node, b);
    b->zeros = model_input(m, n, 3);
    b->filters = model_op_is(m, node, "ConvInteger");
  } else if (model_op_is(m, node, "Gather")) {
    const uint32_t behind = only_user(m, first_output(m, node), "DequantizeLinear");
    b->slot = 0;
    if (behind == NO_ID) return false;
    b->scales = model_input(m, &m->nodes[behind], 1);
    b->zeros = model_input(m, &m->nodes[behind], 2);
  }
  const uint32_t codes =
      b->scales == NO_ID ? NO_ID : diff_value_tensor(m, model_input(m, n, b->slot));
  return codes != NO_ID && diff_value_tensor(m, b->scales) != NO_ID &&
         is_code((enum dtype)m->tensors[codes].dtype);
}

// Zero points as the scales lie: one for all is as many of it.
static bool spread_zeros(struct dequant_model *x, uint32_t zeros, uint32_t scales,
                         struct dequant_expr *e, uint32_t *out) {
  const uint32_t tensor = diff_value_tensor(x->m, zeros);
  const struct recipe s = *row(x, scales);
  int64_t dims[1] = {(int64_t)s.count};
  struct span one;
  if (!constant(x, zeros, e, out)) return false;
  if (row(x, *out)->count == s.count) {
    *out = recipe_reshape(x->r, *out, dims, s.rank);
    return true;
  }
  if (row(x, *out)->count != 1 || !model_small_value(x->m, tensor, &one)) return false;
  *out = recipe_fill(x->r, (enum dtype)row(x, *out)->dtype, dims, s.rank, one);
  return true;
}

static bool divided(struct dequant_model *x, uint32_t by, struct dequant_expr *e,
                    uint32_t *scales) {
  uint32_t of[3] = {*scales, NO_ID, NO_ID};
  if (!constant(x, by, e, &of[1]) || row(x, of[1])->count != 1) return false;
  of[1] = recipe_reshape(x->r, of[1], NULL, 0);
  if (!recipe_can_map(x->r, RECIPE_MAP_DIV, of)) return false;
  *scales = recipe_map(x->r, RECIPE_MAP_DIV, of);
  return true;
}

static bool over_codes(struct dequant_model *x, uint32_t node, const struct beside *b,
                       struct arena *arena, struct dequant_expr *e) {
  const struct model *m = x->m;
  struct recipe_dequantization q = {.zeros = NO_ID, .axis = RECIPE_PER_TENSOR};
  if (!constant(x, model_input(m, &m->nodes[node], b->slot), e, &e->recipe) ||
      !constant(x, b->scales, e, &q.scales))
    return false;
  const uint32_t rank = row(x, e->recipe)->rank;
  const int64_t count[1] = {(int64_t)row(x, q.scales)->count};
  const bool one = count[0] == 1;
  if (!one && rank == 0) return false;
  if (!one) q.axis = b->filters ? 0 : rank - 1;
  q.scales = recipe_reshape(x->r, q.scales, count, !one);
  if (b->divisor != NO_ID && !divided(x, b->divisor, e, &q.scales)) return false;
  if (b->zeros != NO_ID && !spread_zeros(x, b->zeros, q.scales, e, &q.zeros)) return false;
  if (!recipe_can_dequantize(x->r, e->recipe, &q)) return false;
  e->stored = (enum dtype)row(x, e->recipe)->dtype;
  share(e, dtype_bits(e->stored), q.axis, 0);
  e->form = arena_printf(arena, "%s%s (%s)", dtype_name(e->stored), one ? "" : " by channel",
                         model_name_str(m, m->nodes[node].op_type));
  e->scales = scales_of_each(x, e->recipe, q);
  e->recipe = recipe_dequantize(x->r, e->recipe, &q);
  e->computed = true;
  return true;
}

// ---- slots -------------------------------------------------------------------------------------

uint32_t dequant_expr_codes_slot(const struct model *m, uint32_t node) {
  if (op_is(m, node, "com.microsoft", "MatMulNBits")) return 1;
  if (op_is(m, node, "com.microsoft", "GatherBlockQuantized")) return 0;
  struct beside b;
  return beside_of(m, node, &b) ? b.slot : NO_ID;
}

static struct dequant_expr nothing(void) {
  struct dequant_expr e = {.recipe = NO_ID, .axis = RECIPE_PER_TENSOR, .scales = NO_ID};
  for (uint32_t i = 0; i < DEQUANT_EXPR_ROOTS; i++)
    e.roots[i] = NO_ID;
  return e;
}

bool dequant_expr_value(struct dequant_model *x, uint32_t value, struct arena *arena,
                        struct dequant_expr *out) {
  *out = nothing();
  return chain(x, value, arena, out);
}

bool dequant_expr_slot(struct dequant_model *x, uint32_t node, uint32_t slot, struct arena *arena,
                       struct dequant_expr *out) {
  const struct model *m = x->m;
  struct dequant_expr e = nothing();
  struct beside b;
  bool ok;
  if (op_is(m, node, "com.microsoft", "MatMulNBits") && slot == 1)
    ok = nbits(x, node, arena, &e);
  else if (op_is(m, node, "com.microsoft", "GatherBlockQuantized") && slot == 0)
    ok = gather(x, node, arena, &e);
  else if (beside_of(m, node, &b) && slot == b.slot)
    ok = over_codes(x, node, &b, arena, &e);
  else
    ok = chain(x, model_input(m, &m->nodes[node], slot), arena, &e);
  if (!ok) return false;
  // A Conv's pointwise kernel and a Gemm's transposed weight stand as [N,K] too.
  int64_t transposed = 0;
  const bool weight = slot == 1;
  if (weight && model_op_is(m, node, "Gemm") && model_attr_int(m, node, "transB", 0, &transposed))
    e.transposed = transposed != 0;
  if (weight && model_op_is(m, node, "Conv") && row(x, e.recipe)->rank >= 2) {
    const int64_t *dims = recipe_dims(x->r, e.recipe);
    const int64_t flat[] = {dims[0], dims[1]};
    if ((uint64_t)flat[0] * (uint64_t)flat[1] == row(x, e.recipe)->count) {
      e.recipe = recipe_reshape(x->r, e.recipe, flat, 2);
      if (e.scales != NO_ID) e.scales = recipe_reshape(x->r, e.scales, flat, 2);
      e.transposed = true;
    }
  }
  *out = e;
  return true;
}
