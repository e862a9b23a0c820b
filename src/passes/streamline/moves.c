// What passes ask of elementwise nodes before they move them past a Split or a Concat.
#include "passes/streamline/inside/streamline.h"

#include "passes/rules/rules.h"

bool moves_constant(const struct kit *k, uint32_t value) {
  uint32_t tensor;
  return kit_constant(k, value, &tensor);
}

// Of 0 and -0 runtimes take either for the least or the largest, as it suits what the operands look like.
static bool keeps_bits(const struct kit *k, enum op op) {
  return (op != OP_Min && op != OP_Max) || k->env->exactness >= EXACTNESS_ZERO;
}

bool moves_can(struct kit *k, uint32_t node, uint32_t graph) {
  return node != NO_ID && keeps_bits(k, kit_op(k, node)) &&
         kit_op_has(kit_op(k, node), KIT_ELEMENTWISE) && k->m->nodes[node].graph == graph &&
         kit_n_in(k, node) > 0 && kit_n_out(k, node) == 1 && kit_attrs_copyable(k, node);
}

bool moves_alike(struct kit *k, uint32_t a, uint32_t b) {
  if (a == b) return true;
  if (kit_op(k, a) != kit_op(k, b) || kit_n_in(k, a) != kit_n_in(k, b) || !kit_same_attrs(k, a, b))
    return false;
  for (uint32_t i = 0; i < kit_n_in(k, a); i++)
    if ((kit_in(k, a, i) == NO_ID) != (kit_in(k, b, i) == NO_ID)) return false;
  return true;
}

struct model_dim moves_dim(struct kit *k, uint32_t operand, uint32_t axis, uint32_t rank) {
  uint32_t own;
  if (!kit_rank(k, operand, &own) || own > rank) return (struct model_dim){-1, NO_ID};
  const uint32_t missing = rank - own;
  return axis < missing ? (struct model_dim){1, k->m->empty} : kit_dim(k, operand, axis - missing);
}

bool moves_axis(struct kit *k, uint32_t node, uint32_t value, uint32_t *axis, uint32_t *rank) {
  int64_t given;
  if (!kit_attr_int(k, node, "axis", 0, &given) || !kit_rank(k, value, rank)) return false;
  if (given < 0) given += *rank;
  *axis = (uint32_t)given;
  return given >= 0 && given < *rank && *rank <= RECIPE_MAX_RANK;
}

uint32_t moves_expand(struct kit *k, uint32_t value, const int64_t *dims, uint32_t rank) {
  uint32_t recipe = moves_constant(k, value) ? rules_constant(k, value) : NO_ID;
  if (recipe != NO_ID) recipe = rules_constant_expand(k, recipe, dims, rank);
  if (recipe != NO_ID) return kit_new_tensor(k, "constant", recipe);
  const uint32_t shape = kit_new_ints(k, "shape", dims, rank);
  return kit_make(k, OP_Expand, KIT_IN(value, shape));
}
