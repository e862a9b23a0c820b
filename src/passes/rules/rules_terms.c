// Functions of the rule language that give terms: what a rule makes of constants and values (rules_functions.h).
#include "passes/rules/inside/rules_functions.h"

static bool static_dims(const struct rules_type *t) {
  for (uint32_t i = 0; i < t->rank; i++)
    if (!rules_is_number(t->dims[i])) return false;
  return t->ranked;
}

static struct rules_value expanded(struct rules_run *run, const struct rules_value *x,
                                   const int64_t *dims, uint32_t rank) {
  const struct rules_value args[2] = {*x, rules_new_ints(run, dims, rank)};
  return rules_new_node(run, OP_Expand, args, 2, NO_ID, NULL, 0);
}

struct rules_value rules_call_like(struct rules_run *run, const struct rules_value *a) {
  const enum dtype t = rules_type_of(run, a + 1).dtype;
  struct rules_literal number = {.kind = RULES_WHOLE};
  if (a->kind == RULES_INT)
    number.i = a->i, number.d = (double)a->i;
  else if (a->kind == RULES_FLOAT)
    number.kind = RULES_REAL, number.d = a->d;
  else if (a->kind == RULES_WORD)
    number = *a->literal;
  else
    return rules_unknown();
  return dtype_is_plain_number(t) ? rules_new_scalar(run, t, &number) : rules_unknown();
}

// The tensor itself, or if it is the one that goes another of the match with the same dims.
static const struct rules_value *stays(struct rules_run *run, const struct rules_value *x) {
  const uint32_t goes = kit_out(&run->k, run->nodes[0], 0);
  if (x->kind != RULES_TENSOR || x->id != goes) return x->kind == RULES_TENSOR ? x : NULL;
  const struct rules_value dims = rules_call_dims(run, x);
  for (uint32_t i = 0; i < run->rule->n_registers; i++) {
    const struct rules_value *other = &run->registers[i];
    if (other->kind != RULES_TENSOR || other->id == goes) continue;
    const struct rules_value has = rules_call_dims(run, other);
    if (rules_equal(&dims, &has) == 1) return other;
  }
  return NULL;
}

// true and false are bool, whatever x is. Dims that are not all known are taken from a tensor that
// has them.
struct rules_value rules_call_fill(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type t = rules_type_of(run, a + 1);
  const bool truths = a->kind == RULES_WORD && a->literal->kind == RULES_TRUTH;
  const struct rules_value scalar =
      truths ? rules_new_scalar(run, DTYPE_BOOL, a->literal) : rules_call_like(run, a);
  if (scalar.kind == RULES_UNKNOWN) return scalar;
  if (static_dims(&t)) return expanded(run, &scalar, t.dims, t.rank);
  const struct rules_value *like = stays(run, a + 1);
  if (!like) return rules_unknown();
  const struct rules_value args[2] = {scalar,
                                      rules_new_node(run, OP_Shape, like, 1, NO_ID, NULL, 0)};
  return args[1].kind == RULES_UNKNOWN ? args[1]
                                       : rules_new_node(run, OP_Expand, args, 2, NO_ID, NULL, 0);
}

// Is o what an elementwise operator of two makes of x, with a y that widens nothing of it? Then o has
// the dims of x, whether they are known or not.
static bool widens_nothing(struct rules_run *run, uint32_t x, uint32_t o) {
  const uint32_t maker = kit_maker(&run->k, o);
  if (!kit_op_has(kit_op(&run->k, maker), KIT_BINARY | KIT_ELEMENTWISE)) return false;
  const uint32_t left = kit_in(&run->k, maker, 0), right = kit_in(&run->k, maker, 1);
  return (left == x && kit_broadcasts(&run->k, right, x)) ||
         (right == x && kit_broadcasts(&run->k, left, x));
}

struct rules_value rules_call_expand(struct rules_run *run, const struct rules_value *a) {
  const struct rules_value same = rules_call_same(run, a);
  if (a->kind == RULES_UNKNOWN || rules_truth(&same) == 1) return *a;
  if (a->kind == RULES_TENSOR && a[1].kind == RULES_TENSOR && widens_nothing(run, a->id, a[1].id))
    return *a;
  const struct rules_type o = rules_type_of(run, a + 1);
  return static_dims(&o) ? expanded(run, a, o.dims, o.rank) : rules_unknown();
}

// To the dims of o, but for the batch: that of x where it has one.
struct rules_value rules_call_spread(struct rules_run *run, const struct rules_value *a) {
  const struct rules_value same = rules_call_same(run, a);
  if (rules_truth(&same) == 1 || kit_n_in(&run->k, run->nodes[run->n_nodes - 1]) == 1) return *a;
  const struct rules_type x = rules_type_of(run, a), o = rules_type_of(run, a + 1);
  if (!x.ranked || !o.ranked || o.rank == 0) return rules_unknown();
  int64_t *dims = rules_room(run, o.rank);
  memcpy(dims, o.dims, o.rank * sizeof *dims);
  dims[0] = x.rank == o.rank ? x.dims[0] : 1;
  for (uint32_t i = 0; i < o.rank; i++)
    if (!rules_is_number(dims[i])) return rules_unknown();
  // What Im2Col takes of a small constant is computed too.
  const struct rules_value small =
      rules_is_constant(run, a) ? rules_step_expand(run, a, dims, o.rank) : rules_unknown();
  return small.kind == RULES_UNKNOWN ? expanded(run, a, dims, o.rank) : small;
}

struct rules_value rules_call_int(struct rules_run *run, const struct rules_value *a) {
  if (a->kind != RULES_INT || !rules_is_number(a->i)) return rules_unknown();
  const struct rules_literal number = {.kind = RULES_WHOLE, .i = a->i, .d = (double)a->i};
  return rules_new_scalar(run, DTYPE_INT64, &number);
}

static struct rules_value padded(struct rules_run *run, const struct rules_value *x,
                                 uint32_t rank) {
  const struct rules_type t = rules_type_of(run, x);
  if (!t.ranked) return rules_unknown();
  if (t.rank >= rank || t.rank == 0) return *x;
  int64_t axes[RECIPE_MAX_RANK];
  for (uint32_t i = 0; i < rank - t.rank; i++)
    axes[i] = i;
  const struct rules_value args[2] = {*x, rules_new_ints(run, axes, rank - t.rank)};
  return rules_new_node(run, OP_Unsqueeze, args, 2, NO_ID, NULL, 0);
}

struct rules_value rules_call_padded(struct rules_run *run, const struct rules_value *a) {
  int64_t rank;
  if (a[1].kind == RULES_UNKNOWN) return *a; // one operand: it has the rank itself
  return rules_number_of(a + 1, RECIPE_MAX_RANK, &rank) ? padded(run, a, (uint32_t)rank)
                                                        : rules_unknown();
}

struct rules_value rules_call_turned(struct rules_run *run, const struct rules_value *a) {
  if (a->kind == RULES_ABSENT || rules_is_scalar(run, a) == 1) return *a;
  const struct rules_value inverse = rules_call_inv(run, a + 1);
  if (inverse.kind != RULES_LIST) return rules_unknown();
  const struct rules_value x = padded(run, a, inverse.n);
  if (x.kind == RULES_UNKNOWN) return x;
  const struct edit_attr perm = {.name = "perm",
                                 .type = ATTR_INTS,
                                 .ints = inverse.list,
                                 .n = inverse.n,
                                 .recipe = NO_ID,
                                 .graph = NO_ID};
  return rules_new_node(run, OP_Transpose, &x, 1, NO_ID, &perm, 1);
}

// A Slice of o = f(x, …) becomes one of x on those of its axes that x has, and has longer than 1.
struct rules_value rules_call_sliced(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type x = rules_type_of(run, a), o = rules_type_of(run, a + 1);
  struct rules_value given[4], parts[4];
  int64_t *lists[4];
  for (uint32_t i = 0; i < 4; i++) {
    given[i] = rules_call_ints(run, a + 2 + i);
    const bool absent = i >= 2 && a[2 + i].kind == RULES_ABSENT;
    if ((given[i].kind != RULES_LIST && !absent) || (!absent && given[i].n != given[0].n))
      return rules_unknown();
    lists[i] = rules_room(run, given[0].n);
  }
  if (!x.ranked || !o.ranked || x.rank > o.rank) return rules_unknown();
  uint32_t kept = 0;
  for (uint32_t i = 0; i < given[0].n; i++) {
    int64_t axis = given[2].kind == RULES_LIST ? given[2].list[i] : i;
    if (axis < 0) axis += o.rank;
    if (axis < 0 || axis >= o.rank || o.dims[axis] == 1) return rules_unknown();
    axis -= o.rank - x.rank;
    if (axis < 0 || x.dims[axis] == 1) continue;
    lists[0][kept] = given[0].list[i];
    lists[1][kept] = given[1].list[i];
    lists[2][kept] = axis;
    lists[3][kept++] = given[3].kind == RULES_LIST ? given[3].list[i] : 1;
  }
  if (kept == 0) return *a;
  for (uint32_t i = 0; i < 4; i++) // where all axes are sliced, as they are
    parts[i] =
        kept == given[0].n && x.rank == o.rank ? a[2 + i] : rules_new_ints(run, lists[i], kept);
  const struct rules_value args[5] = {a[0], parts[0], parts[1], parts[2], parts[3]};
  return rules_new_node(run, OP_Slice, args, 5, NO_ID, NULL, 0);
}
