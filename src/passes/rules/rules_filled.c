// Operators over values of one number, which ConstantOfShape or an Expand makes: the number is computed, the shape stays.
//
//   ConstantOfShape<value=int64 1>(s) ─ Cast<to=float>   ──▶   ConstantOfShape<value=float 1>(s)
//   Expand(1, s) ─ ReduceMin                             ──▶   a constant, if the dims are known
//
// Elementwise operators and Cast, whose other operands are constants of rank 0; ReduceMin and ReduceMax. The node that
// makes the value stays if others use it.
#include "passes/rules/inside/rules_inside.h"

#include "schema/schema.h"

// The number of a value, as a constant of one element. False: neither of the two makes it.
static bool filled_with(struct rules_run *run, uint32_t value, struct rules_value *out) {
  static const int64_t one = 1;
  struct kit *k = &run->k;
  uint32_t tensor;
  struct span raw;
  if (value == NO_ID) return false;
  const uint32_t maker = kit_maker(k, value);
  if (kit_maker_op(k, value) == OP_Expand) {
    *out = rules_tensor(kit_in(k, maker, 0));
    const struct rules_type t = rules_type_of(run, out);
    uint64_t count;
    return rules_is_constant(run, out) && t.ranked && dims_product(t.dims, t.rank, &count) &&
           count == 1;
  }
  if (kit_maker_op(k, value) != OP_ConstantOfShape) return false;
  if (!kit_attr_tensor(k, maker, "value", &tensor)) {
    if (k->m->nodes[maker].n_attrs > 0) return false;
    const struct rules_literal zero = {.kind = RULES_REAL, .d = 0};
    const struct rules_value number = rules_new_scalar(run, DTYPE_FLOAT, &zero);
    *out = rules_step_reshape(run, &number, &one, 1);
    return out->kind == RULES_TERM;
  }
  const struct model_tensor *t = &k->m->tensors[tensor];
  const enum dtype dtype = (enum dtype)t->dtype;
  if (!dtype_is_plain_number(dtype) || !model_small_value(k->m, tensor, &raw) ||
      raw.n != dtype_bits(dtype) / 8)
    return false;
  *out = rules_new_const(run, dtype, &one, 1, raw);
  return true;
}

// The node with the number in the place of the one operand that is filled with it; *maker: of that operand.
static bool as_number(struct rules_run *run, uint32_t node, struct rules_term *t, uint32_t *maker) {
  struct kit *k = &run->k;
  const uint32_t n = kit_n_in(k, node);
  struct rules_value *args = arena_alloc(&run->match, (n + (size_t)1) * sizeof *args);
  *maker = NO_ID;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t value = kit_in(k, node, i);
    args[i] = rules_tensor(value);
    if (value == NO_ID) continue;
    const struct rules_type of = rules_type_of(run, &args[i]);
    if (rules_const(run, value) && of.ranked && of.rank == 0) continue;
    if (*maker != NO_ID || !filled_with(run, value, &args[i])) return false;
    *maker = kit_maker(k, value);
  }
  *t = rules_node_term(run, node, args, n);
  return *maker != NO_ID;
}

static bool refill(struct rules_run *run, uint32_t node, uint32_t maker,
                   const struct rules_value *number) {
  struct kit *k = &run->k;
  const struct rules_type type = rules_type_of(run, number);
  const struct schema_signature *s = schema_signature_of(span_str(""), span_str("ConstantOfShape"),
                                                         kit_opset(k, k->m->nodes[node].graph));
  const uint32_t recipe = rules_recipe_of(run, number);
  if (recipe == NO_ID) return false;
  if (kit_op(k, maker) == OP_Expand) {
    kit_begin(k, node, "filled");
    const uint32_t value = kit_new_tensor(k, "filled", recipe);
    kit_replace(k, node, OP_Expand, KIT_IN(value, kit_in(k, maker, 1)));
    return true;
  }
  if (!s || !schema_takes(schema_output(s, 0)->types, type.dtype) || type.rank != 1) return false;
  kit_begin(k, node, "filled");
  kit_replace(k, node, OP_ConstantOfShape, KIT_IN(kit_in(k, maker, 0)),
              KIT_TENSOR("value", recipe));
  return true;
}

static bool is_static(const struct rules_type *t) {
  for (uint32_t i = 0; i < t->rank; i++)
    if (!rules_is_number(t->dims[i]) || t->dims[i] < 1) return false;
  return t->ranked;
}

// The least and the largest of one number.
static bool fold_extreme(struct rules_run *run, uint32_t node) {
  struct kit *k = &run->k;
  const struct rules_value x = rules_tensor(kit_in(k, node, 0));
  const struct rules_value args[2] = {x, rules_tensor(kit_in(k, node, 1))};
  const struct rules_term t = rules_node_term(run, node, args, kit_n_in(k, node) > 1 ? 2 : 1);
  struct rules_value number;
  uint64_t axes, count;
  int64_t keeps, dims[RECIPE_MAX_RANK];
  uint32_t rank = 0;
  if (x.kind != RULES_TENSOR || !filled_with(run, x.id, &number)) return false;
  const struct rules_type of = rules_type_of(run, &x);
  if (!is_static(&of) || !rules_reduced_axes(run, &t, &of, &axes, &count) ||
      !rules_attr_int(run, &t, "keepdims", 1, &keeps))
    return false;
  for (uint32_t i = 0; i < of.rank; i++)
    if (!(axes >> i & 1))
      dims[rank++] = of.dims[i];
    else if (keeps)
      dims[rank++] = 1;
  const struct rules_value scalar = rules_step_reshape(run, &number, NULL, 0);
  if (scalar.kind == RULES_UNKNOWN) return false;
  const struct rules_value made = rules_step_expand(run, &scalar, dims, rank);
  const uint32_t recipe = made.kind == RULES_TERM ? rules_recipe_of(run, &made) : NO_ID;
  if (recipe == NO_ID) return false;
  kit_begin(k, node, "filled");
  kit_bypass(k, node, kit_new_tensor(k, "filled", recipe));
  return true;
}

bool rules_fold_filled(struct rules_run *run, uint32_t node) {
  struct kit *k = &run->k;
  const enum op op = kit_op(k, node);
  struct rules_term t;
  struct rules_value made;
  uint32_t maker;
  if (op == OP_ReduceMin || op == OP_ReduceMax) return fold_extreme(run, node);
  return (op == OP_Cast || kit_op_has(op, KIT_ELEMENTWISE)) && as_number(run, node, &t, &maker) &&
         rules_fold(run, &t, &made) == RULES_FOLDED && made.kind == RULES_TERM &&
         refill(run, node, maker, &made);
}
