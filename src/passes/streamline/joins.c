// Operands of like nodes as one, for the one node that takes their place.
//
//   Mul(x, c), Mul(y, d)      x and y: a Concat            c and d: a constant, where c[3] and d[2] broadcast to
//   [2,3]      [2,2]          [2,5]                        their rows [5]; or c itself, where it is the same for both and
//                                                          no longer than 1 along the axis
//
// One operand at least has to be joined, or nothing says how long the result is along the axis: who asks for the last of
// them says so (`spread`).
//
// What is joined needs the dims of the result along the axis, and elsewhere those that all operands have; only where
// they differ are they broadcast to the result's. So scales by row stay as short as they were.
#include "passes/streamline/inside/streamline.h"

#include "passes/rules/rules.h"

#include <math.h>

static bool is_constant(const struct kit *k, uint32_t value) {
  return value == NO_ID || moves_constant(k, value);
}

// Two constants of one element, with the same bits.
static bool equal_scalars(struct kit *k, uint32_t a, uint32_t b) {
  struct kit_number x, y;
  uint32_t rank_a, rank_b;
  return a != NO_ID && b != NO_ID && is_constant(k, a) && is_constant(k, b) &&
         kit_const_number(k, a, &x) && kit_const_number(k, b, &y) && x.dtype == y.dtype &&
         x.d == y.d && signbit(x.d) == signbit(y.d) && kit_rank(k, a, &rank_a) &&
         kit_rank(k, b, &rank_b) && rank_a == rank_b;
}

static bool is_shared(struct kit *k, const struct joins *j) {
  if (j->spread) return false;
  for (uint32_t i = 0; i < j->n; i++)
    if (j->values[i] == NO_ID ||
        (j->values[i] != j->values[0] && !equal_scalars(k, j->values[i], j->values[0])))
      return false;
  return j->scalar || moves_is_one(moves_dim(k, j->values[0], j->axis, j->rank));
}

// All have one type that is known.
static bool of_one_type(struct kit *k, const struct joins *j, enum dtype *dtype) {
  *dtype = DTYPE_UNDEFINED;
  for (uint32_t i = 0; i < j->n; i++) {
    if (j->values[i] == NO_ID) continue;
    const enum dtype one = kit_dtype(k, j->values[i]);
    if (one == DTYPE_UNDEFINED || (*dtype != DTYPE_UNDEFINED && one != *dtype)) return false;
    *dtype = one;
  }
  return *dtype != DTYPE_UNDEFINED;
}

static struct model_dim dim_of(struct kit *k, const struct joins *j, uint32_t i, uint32_t axis) {
  return j->values[i] == NO_ID ? (struct model_dim){1, k->m->empty}
                               : moves_dim(k, j->values[i], axis, j->rank);
}

// The number of axes that what is joined needs, counted from the last.
static bool rank_of(struct kit *k, const struct joins *j, uint32_t *rank) {
  *rank = j->rank - j->axis;
  for (uint32_t i = 0; i < j->n; i++) {
    uint32_t own;
    if (j->values[i] == NO_ID) continue;
    if (!kit_rank(k, j->values[i], &own) || own > j->rank) return false;
    if (own > *rank) *rank = own;
  }
  return true;
}

// The dims of one axis: those that the operands have, or of the results. False where one must become what is no number.
static bool decide_axis(struct kit *k, const struct joins *j, struct joins_plan *p, uint32_t axis) {
  const uint32_t place = axis - (j->rank - p->rank); // in what is joined
  bool own = axis != j->axis;
  for (uint32_t i = 1; i < j->n && own; i++)
    own = kit_dim_equal(dim_of(k, j, i, axis), dim_of(k, j, 0, axis));
  for (uint32_t i = 0; i < j->n; i++) {
    const struct model_dim has = dim_of(k, j, i, axis);
    const struct model_dim wants = own ? has : kit_dim(k, j->results[i], axis);
    p->dims[(size_t)i * p->rank + place] = wants.value;
    if (kit_dim_equal(has, wants)) continue;
    if (wants.value < 0) return false;
    p->expands[i] = true;
  }
  return true;
}

// Neutral numbers are new bytes: as many as their axes say, but no more than this.
enum { NEUTRAL_BYTES = 1 << 20 };

static bool is_small(enum dtype dtype, const int64_t *dims, uint32_t rank) {
  uint64_t count, bytes;
  return rank <= RECIPE_MAX_RANK && dims_product(dims, rank, &count) &&
         dtype_bytes(dtype, count, &bytes) && bytes <= NEUTRAL_BYTES;
}

struct joins_plan joins_decide(struct kit *k, const struct joins *j) {
  struct joins_plan p = {.how = JOINS_NONE};
  if (is_shared(k, j)) return (struct joins_plan){.how = JOINS_SHARED};
  if (j->scalar || !of_one_type(k, j, &p.dtype) || !rank_of(k, j, &p.rank)) return p;
  if (!dtype_is_plain_number(p.dtype) && p.dtype != DTYPE_BOOL) return p;
  p.axis = j->axis - (j->rank - p.rank);
  p.dims = arena_alloc(k->env->scratch, ((size_t)j->n * p.rank + 1) * sizeof *p.dims);
  p.expands = arena_zalloc(k->env->scratch, j->n * sizeof *p.expands);
  for (uint32_t axis = j->rank - p.rank; axis < j->rank; axis++)
    if (!decide_axis(k, j, &p, axis)) return p;
  for (uint32_t i = 0; i < j->n; i++) {
    uint32_t own;
    // A value with fewer axes than the others is given them.
    if (j->values[i] == NO_ID || (kit_rank(k, j->values[i], &own) && own < p.rank))
      p.expands[i] = true;
    for (uint32_t d = 0; d < p.rank && p.expands[i]; d++)
      if (p.dims[(size_t)i * p.rank + d] < 0) return p;
    if (j->values[i] == NO_ID && !is_small(p.dtype, p.dims + (size_t)i * p.rank, p.rank)) return p;
  }
  p.how = JOINS_CONCAT;
  return p;
}

// One operand before it is joined, as a recipe. NO_ID: it is none.
static uint32_t recipe_of(struct kit *k, const struct joins *j, const struct joins_plan *p,
                          uint32_t i) {
  const int64_t *dims = p->dims + (size_t)i * p->rank;
  const uint32_t value = j->values[i];
  if (value == NO_ID) {
    uint8_t raw[8];
    const size_t n = kit_number_put(p->dtype, j->neutral, raw);
    const uint32_t few =
        rules_constant_expand(k, kit_scalar_recipe(k, p->dtype, j->neutral), dims, p->rank);
    return few != NO_ID ? few : recipe_fill(k->r, p->dtype, dims, p->rank, span_of(raw, n));
  }
  const uint32_t recipe = rules_constant(k, value);
  return recipe == NO_ID || !p->expands[i] ? recipe
                                           : rules_constant_expand(k, recipe, dims, p->rank);
}

static uint32_t joined_constants(struct kit *k, const struct joins *j, const struct joins_plan *p) {
  uint32_t *of = arena_alloc(&k->site, j->n * sizeof *of);
  for (uint32_t i = 0; i < j->n; i++)
    if (!is_constant(k, j->values[i]) || (of[i] = recipe_of(k, j, p, i)) == NO_ID) return NO_ID;
  const uint32_t recipe = rules_constant_concat(k, of, j->n, p->axis);
  return recipe == NO_ID ? NO_ID : kit_new_tensor(k, "constant", recipe);
}

uint32_t joins_make(struct kit *k, const struct joins *j, const struct joins_plan *p) {
  if (p->how == JOINS_SHARED) return j->values[0];
  const uint32_t constant = joined_constants(k, j, p);
  if (constant != NO_ID) return constant;
  uint32_t *of = arena_alloc(&k->site, j->n * sizeof *of);
  for (uint32_t i = 0; i < j->n; i++) {
    of[i] = j->values[i];
    if (of[i] == NO_ID)
      of[i] = kit_new_tensor(k, "neutral", recipe_of(k, j, p, i));
    else if (p->expands[i])
      of[i] = moves_expand(k, of[i], p->dims + (size_t)i * p->rank, p->rank);
  }
  return kit_make(k, OP_Concat, KIT_INPUTS(of, j->n), KIT_INT("axis", p->axis));
}
