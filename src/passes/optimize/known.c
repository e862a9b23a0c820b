// What inference knows of a value, in short.
#include "passes/optimize/inside/known.h"

bool known_list(struct kit *k, uint32_t value, dim_id *list, uint32_t most, uint32_t *n) {
  const struct infer_number *at;
  if (value == NO_ID || infer_leads_to_stuck(k->env->infer, value) ||
      !infer_numbers(k->env->infer, value, &at, n) || *n > most)
    return false;
  for (uint32_t i = 0; i < *n; i++) {
    if (at[i].num == NO_ID || at[i].den != 1) return false;
    list[i] = dims_find(infer_dims(k->env->infer), at[i].num);
  }
  return true;
}

bool known_number(struct kit *k, uint32_t value, int64_t *out) {
  dim_id e;
  uint32_t n;
  return known_list(k, value, &e, 1, &n) && n == 1 &&
         dims_is_number(infer_dims(k->env->infer), e, out);
}

bool known_all(struct kit *k, uint32_t value, int64_t number) {
  enum { MOST = 2 * RECIPE_MAX_RANK };
  dim_id list[MOST];
  uint32_t n;
  int64_t x;
  if (!known_list(k, value, list, MOST, &n)) return false;
  for (uint32_t i = 0; i < n; i++)
    if (!known_size(k, list[i], &x) || x != number) return false;
  return true;
}

bool known_dims(struct kit *k, uint32_t value, struct infer_type *out) {
  return value != NO_ID && !infer_dims_lead_to_stuck(k->env->infer, value) &&
         infer_type_of(k->env->infer, value, out) && out->kind == INFER_TENSOR && out->ranked;
}

bool known_size(struct kit *k, dim_id d, int64_t *n) {
  return d != NO_ID && dims_is_number(infer_dims(k->env->infer), d, n);
}

bool known_one(struct kit *k, dim_id d) {
  int64_t n;
  return known_size(k, d, &n) && n == 1;
}

bool known_along_last(struct kit *k, uint32_t node, int64_t absent, uint32_t rank) {
  int64_t axis;
  return kit_attr_int(k, node, "axis", absent, &axis) && (axis == -1 || axis == (int64_t)rank - 1);
}

bool known_same(struct kit *k, dim_id a, dim_id b) {
  return a != NO_ID && b != NO_ID && dims_equal(infer_dims(k->env->infer), a, b) == DIMS_YES;
}

bool known_alike(struct kit *k, uint32_t a, uint32_t b) {
  struct infer_type x, y;
  if (!known_dims(k, a, &x) || !known_dims(k, b, &y)) return false;
  if (x.rank != y.rank || x.dtype != y.dtype || x.dtype == DTYPE_UNDEFINED) return false;
  for (uint32_t i = 0; i < x.rank; i++)
    if (!known_same(k, x.dims[i], y.dims[i])) return false;
  return true;
}

// The axis of a Reshape's operand that is the result's: all before it are the same too.
static bool kept_by_reshape(struct kit *k, uint32_t node, uint32_t axis) {
  struct infer_type x, y;
  if (!known_dims(k, kit_in(k, node, 0), &x) || !known_dims(k, kit_out(k, node, 0), &y) ||
      axis >= x.rank || axis >= y.rank)
    return false;
  for (uint32_t i = 0; i <= axis; i++)
    if (!known_same(k, x.dims[i], y.dims[i])) return false;
  return true;
}

void known_source(struct kit *k, uint32_t *value, uint32_t *axis) {
  enum { STEPS = 8 };
  for (uint32_t i = 0; i < STEPS; i++) {
    const uint32_t node = kit_maker(k, *value), from = kit_in(k, node, 0);
    const int64_t *perm;
    uint32_t n;
    if (from == NO_ID || kit_may_be_left_out(k->m, from) || !kit_sees(k, k->graph, from)) return;
    if (kit_op(k, node) == OP_Transpose) {
      if (!kit_perm(k, node, &perm, &n) || *axis >= n || perm[*axis] < 0 || perm[*axis] >= n)
        return;
      *axis = (uint32_t)perm[*axis];
    } else if (kit_op(k, node) != OP_Reshape || !kept_by_reshape(k, node, *axis)) {
      return;
    }
    *value = from;
  }
}
