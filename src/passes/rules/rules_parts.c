// Parts of constants, and constants of parts, for passes in C: the steps of rules (rules_steps.c), from recipe to
// recipe. A recipe of literal bytes has its elements at hand, and so has what is made of it while it is small:
// what passes behind look at stays to be seen.
#include "passes/rules/inside/rules_inside.h"

// A step needs the state of a run; the kit is lent to it.
static struct rules_run borrow(struct kit *k) {
  static const struct rules_options options = {.once = true}; // nothing is asked
  static const struct rules_rule rule = {.exactness = EXACTNESS_EXACT};
  return (struct rules_run){.book = &rules_house, .options = &options, .rule = &rule, .k = *k};
}

static uint32_t give_back(struct rules_run *run, struct kit *k, const struct rules_value *made) {
  const uint32_t recipe = rules_recipe_of(run, made);
  TABLES_FREE(run, sizes, terms);
  arena_free(&run->match);
  *k = run->k;
  return recipe;
}

static struct rules_value operand(struct rules_run *run, uint32_t recipe) {
  const struct recipes *r = run->k.r;
  const struct recipe *row = &r->rows[recipe];
  if (row->kind != RECIPE_BYTES) return rules_new_recipe(run, recipe);
  int64_t *dims = arena_copy(&run->match, recipe_dims(r, recipe), row->rank * sizeof *dims);
  const struct span raw = recipe_elements(r, recipe);
  return rules_new_const(run, (enum dtype)row->dtype, dims, row->rank,
                         span_of(arena_string(&run->match, raw), raw.n));
}

uint32_t rules_constant(struct kit *k, uint32_t value) {
  enum dtype dtype;
  struct span raw;
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t rank;
  if (kit_elements(k, value, &dtype, &raw) && dtype_is_plain_number(dtype) &&
      raw.n <= RULES_FOLD_BYTES && kit_static_dims(k, value, dims, RECIPE_MAX_RANK, &rank)) {
    uint64_t count, bytes;
    if (dims_product(dims, rank, &count) && dtype_bytes(dtype, count, &bytes) && bytes == raw.n)
      return recipe_bytes(k->r, dtype, dims, rank, raw);
  }
  return kit_recipe(k, value);
}

uint32_t rules_constant_slice(struct kit *k, uint32_t of, uint32_t axis, int64_t start,
                              int64_t count) {
  const uint32_t rank = k->r->rows[of].rank;
  const int64_t dim = axis < rank ? recipe_dims(k->r, of)[axis] : 0;
  if (axis >= rank || start < 0 || count < 1 || start > dim || count > dim - start) return NO_ID;
  struct rules_run run = borrow(k);
  int64_t starts[RECIPE_MAX_RANK] = {0}, steps[RECIPE_MAX_RANK], dims[RECIPE_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) {
    steps[i] = 1;
    dims[i] = recipe_dims(k->r, of)[i];
  }
  starts[axis] = start;
  dims[axis] = count;
  const struct rules_value x = operand(&run, of);
  const struct rules_value made =
      x.kind == RULES_UNKNOWN ? x : rules_step_slice(&run, &x, starts, steps, dims);
  return give_back(&run, k, &made);
}

uint32_t rules_constant_concat(struct kit *k, const uint32_t *of, uint32_t n, uint32_t axis) {
  struct rules_run run = borrow(k);
  struct rules_value *all = arena_alloc(&run.match, n * sizeof *all), made = rules_unknown();
  bool known = true;
  for (uint32_t i = 0; i < n; i++) {
    all[i] = operand(&run, of[i]);
    known = known && all[i].kind != RULES_UNKNOWN;
  }
  if (known) made = rules_step_concat(&run, all, n, axis);
  return give_back(&run, k, &made);
}

uint32_t rules_constant_expand(struct kit *k, uint32_t of, const int64_t *dims, uint32_t rank) {
  struct rules_run run = borrow(k);
  const struct rules_value x = operand(&run, of);
  const struct rules_value made =
      x.kind == RULES_UNKNOWN ? x : rules_step_expand(&run, &x, dims, rank);
  return give_back(&run, k, &made);
}

uint32_t rules_constant_reshape(struct kit *k, uint32_t of, const int64_t *dims, uint32_t rank) {
  struct rules_run run = borrow(k);
  const struct rules_value x = operand(&run, of);
  const struct rules_value made =
      x.kind == RULES_UNKNOWN ? x : rules_step_reshape(&run, &x, dims, rank);
  return give_back(&run, k, &made);
}
