// Weights that nodes make of constants.
//
//   w_float16 ── Cast ── Transpose ──▶ w ──▶ MatMul          w = transpose(cast(w_float16))
//
// Exporters, and `weir cast`, store a weight in fewer bits or in another layout, and nodes turn it into what an operator reads. It is
// a weight all the same, for every pass that asks here. Its elements are a recipe over those of the constant, and the nodes go with
// their last use (dead_ends.h).
//
// Only nodes that move or convert elements count. Arithmetic is left alone: a recipe that computed a weight anew for each of its
// ranges would cost more than the weight, and optimize/constants folds what is worth it. Integers are left too: they are codes, and
// what converts them belongs to a quantized weight.
#include "passes/kit/inside/kit_inside.h"

#include "passes/kit/weights.h"

#include <string.h>

enum { WAY_MOST = 16 }; // nodes between the constant and the value

static bool to_dims(struct kit *k, const int64_t *dims, uint32_t rank, uint32_t *of) {
  uint64_t now, then;
  const uint32_t had = k->r->rows[*of].rank;
  if (rank > RECIPE_MAX_RANK || !dims_product(dims, rank, &then) ||
      !dims_product(recipe_dims(k->r, *of), had, &now) || now != then)
    return false;
  *of = recipe_reshape(k->r, *of, dims, rank);
  return true;
}

static bool cast(struct kit *k, uint32_t node, uint32_t *of) {
  int64_t to;
  if (!kit_attr_int(k, node, "to", DTYPE_UNDEFINED, &to) || !dtype_known(to) ||
      !dtype_is_plain_float((enum dtype)to))
    return false;
  *of = recipe_cast(k->r, *of, (enum dtype)to);
  return true;
}

static bool transpose(struct kit *k, uint32_t node, uint32_t *of) {
  const uint32_t rank = k->r->rows[*of].rank;
  struct kit_attr perm;
  const enum kit_state state = kit_attr(k, node, "perm", &perm);
  int64_t order[RECIPE_MAX_RANK];
  bool seen[RECIPE_MAX_RANK] = {false};
  const bool given = state == KIT_GIVEN;
  if (state == KIT_UNKNOWN || (given && (perm.type != ATTR_INTS || perm.n != rank))) return false;
  for (uint32_t i = 0; i < rank; i++)
    order[i] = given ? perm.ints[i] : (int64_t)(rank - 1 - i);
  for (uint32_t i = 0; i < rank; i++) {
    if (order[i] < 0 || order[i] >= rank || seen[order[i]]) return false;
    seen[order[i]] = true;
  }
  *of = recipe_transpose(k->r, *of, order);
  return true;
}

static bool reshape(struct kit *k, uint32_t node, uint32_t *of) {
  const int64_t *shape, *had = recipe_dims(k->r, *of);
  int64_t dims[RECIPE_MAX_RANK], zero_is_zero;
  uint32_t n, open = NO_ID;
  uint64_t count, others = 1;
  const uint32_t rank = k->r->rows[*of].rank;
  if (!kit_const_ints(k, kit_in(k, node, 1), &shape, &n) || n > RECIPE_MAX_RANK ||
      !kit_attr_int(k, node, "allowzero", 0, &zero_is_zero) || !dims_product(had, rank, &count))
    return false;
  for (uint32_t i = 0; i < n; i++) {
    dims[i] = shape[i] == 0 && !zero_is_zero && i < rank ? had[i] : shape[i];
    if (dims[i] < -1 || (dims[i] == -1 && open != NO_ID)) return false;
    if (dims[i] == -1)
      open = i;
    else if (mul_overflows(others, (uint64_t)dims[i], &others))
      return false;
  }
  if (open != NO_ID && (others == 0 || count % others)) return false;
  if (open != NO_ID) dims[open] = (int64_t)(count / others);
  return to_dims(k, dims, n, of);
}

enum { RANK_MOST = 2 * RECIPE_MAX_RANK }; // with the dims that an Unsqueeze adds

// Which axes a Squeeze names, or an Unsqueeze (which counts in the dims that it adds), and how many; false if they are not known or not
// there.
static bool axes_of(struct kit *k, uint32_t node, uint32_t rank, bool added,
                    bool is_axis[RANK_MOST], uint32_t *n) {
  const int64_t *axes;
  memset(is_axis, 0, RANK_MOST * sizeof *is_axis);
  if (!kit_axes(k, node, &axes, n) || *n > RECIPE_MAX_RANK) return false;
  if (added) rank += *n;
  for (uint32_t i = 0; i < *n; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank || is_axis[axis]) return false;
    is_axis[axis] = true;
  }
  return true;
}

static bool unsqueeze(struct kit *k, uint32_t node, uint32_t *of) {
  const uint32_t rank = k->r->rows[*of].rank;
  const int64_t *had = recipe_dims(k->r, *of);
  int64_t dims[RANK_MOST];
  bool is_axis[RANK_MOST];
  uint32_t n, at = 0;
  if (!axes_of(k, node, rank, true, is_axis, &n)) return false;
  for (uint32_t i = 0; i < rank + n; i++)
    dims[i] = is_axis[i] ? 1 : had[at++];
  return to_dims(k, dims, rank + n, of);
}

static bool squeeze(struct kit *k, uint32_t node, uint32_t *of) {
  const uint32_t rank = k->r->rows[*of].rank;
  const int64_t *had = recipe_dims(k->r, *of);
  int64_t dims[RECIPE_MAX_RANK];
  bool is_axis[RANK_MOST];
  uint32_t n, left = 0;
  if (!axes_of(k, node, rank, false, is_axis, &n)) return false;
  for (uint32_t i = 0; i < rank; i++) {
    const bool goes = n == 0 ? had[i] == 1 : is_axis[i];
    if (goes && had[i] != 1) return false;
    if (!goes) dims[left++] = had[i];
  }
  return to_dims(k, dims, left, of);
}

static bool flatten(struct kit *k, uint32_t node, uint32_t *of) {
  const uint32_t rank = k->r->rows[*of].rank;
  const int64_t *had = recipe_dims(k->r, *of);
  int64_t axis, dims[2];
  uint64_t rows, columns;
  if (!kit_attr_int(k, node, "axis", 1, &axis)) return false;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank || !dims_product(had, (uint32_t)axis, &rows) ||
      !dims_product(had + axis, rank - (uint32_t)axis, &columns))
    return false;
  dims[0] = (int64_t)rows, dims[1] = (int64_t)columns;
  return to_dims(k, dims, 2, of);
}

static bool keep(struct kit *k, uint32_t node, uint32_t *of) {
  (void)k, (void)node, (void)of;
  return true;
}

static const struct {
  enum op op;
  const char *name;
  bool (*move)(struct kit *k, uint32_t node, uint32_t *of);
} movers[] = {{OP_Identity, "Identity", keep},        {OP_Cast, "Cast", cast},
              {OP_Transpose, "Transpose", transpose}, {OP_Reshape, "Reshape", reshape},
              {OP_Unsqueeze, "Unsqueeze", unsqueeze}, {OP_Squeeze, "Squeeze", squeeze},
              {OP_Flatten, "Flatten", flatten}};
enum { MOVERS = sizeof movers / sizeof *movers };

bool kit_moved(struct kit *k, uint32_t node, uint32_t *of) {
  const enum op op = kit_op(k, node);
  for (uint32_t i = 0; i < MOVERS; i++)
    if (movers[i].op == op) return movers[i].move(k, node, of);
  return false;
}

bool weights_moved_by(const struct model *m, uint32_t node) {
  for (uint32_t i = 0; i < MOVERS; i++)
    if (model_op_is(m, node, movers[i].name)) return true;
  return false;
}

// The nodes that the value comes through, the last first, and how many; NO_ID if they do not begin at a constant (*c).
static uint32_t way_to(const struct model *m, uint32_t value, uint32_t way[WAY_MOST],
                       struct model_constant *c) {
  uint32_t n = 0;
  for (; !model_resolve_constant(m, value, c); n++) {
    if (n == WAY_MOST || value == NO_ID || m->values[value].kind != VALUE_NODE_OUTPUT) return NO_ID;
    way[n] = m->values[value].def;
    if (!weights_moved_by(m, way[n])) return NO_ID;
    value = model_input(m, &m->nodes[way[n]], 0);
  }
  return n;
}

bool weights_lead_to(const struct model *m, uint32_t value) {
  uint32_t way[WAY_MOST];
  struct model_constant c;
  return way_to(m, value, way, &c) != NO_ID;
}

uint32_t weights_stored_in(const struct model *m, const struct model_constant *w) {
  uint32_t way[WAY_MOST];
  struct model_constant c;
  return way_to(m, w->value, way, &c) == NO_ID ? w->tensor : c.tensor;
}

// Conversions come last, so that who sees the value knows what is stored (kit_stored).
uint32_t kit_moved_weight(struct kit *k, uint32_t value) {
  uint32_t way[WAY_MOST];
  struct model_constant c;
  const uint32_t n = way_to(k->m, value, way, &c);
  if (n == NO_ID) return NO_ID;
  const struct model_tensor *t = &k->m->tensors[c.tensor];
  if (!dtype_is_plain_float((enum dtype)t->dtype) || t->rank == 0 ||
      !edit_tensor_readable(k->e, c.tensor))
    return NO_ID;
  uint32_t of = edit_tensor_recipe(k->e, c.tensor);
  for (uint32_t i = n; i-- > 0;)
    if (kit_op(k, way[i]) != OP_Cast && !kit_moved(k, way[i], &of)) return NO_ID;
  for (uint32_t i = n; i-- > 0;)
    if (kit_op(k, way[i]) == OP_Cast && !kit_moved(k, way[i], &of)) return NO_ID;
  return recipe_can_grow(k->r, of) ? of : NO_ID;
}

uint32_t kit_stored(struct kit *k, uint32_t tensor) {
  const uint32_t recipe = edit_tensor_recipe(k->e, tensor);
  const struct recipe *x = &k->r->rows[recipe];
  if (!(k->m->tensors[tensor].flags & TENSOR_SEEN) || x->kind != RECIPE_CAST) return recipe;
  const uint32_t of = k->r->args[x->args];
  const bool widens =
      dtype_bits((enum dtype)k->r->rows[of].dtype) < dtype_bits((enum dtype)x->dtype);
  return widens ? of : recipe;
}

bool kit_weight(struct kit *k, uint32_t value, struct model_constant *out) {
  if (value == NO_ID || model_resolve_constant(k->m, value, out)) return value != NO_ID;
  const uint32_t recipe = kit_moved_weight(k, value);
  if (recipe == NO_ID) {
    model_saw(k->m, value, NO_ID);
    return false;
  }
  if (!model_resolve_weight(k->m, value, out) || k->m->tensors[out->tensor].recipe != recipe)
    model_saw(k->m, value, edit_see(k->e, value, recipe));
  return model_resolve_weight(k->m, value, out);
}

void weights_ask(struct model *m, void (*ask)(void *ctx), void *ctx) {
  const uint32_t n_tensors = m->n_tensors;
  struct arena scratch = {0};
  struct recipes recipes;
  struct edits edits;
  struct kit k;
  struct model_constant c;
  struct err err = {.kind = ERR_NONE};
  recipes_init(&recipes);
  edits_init(&edits, m, &recipes);
  struct pass_env env = {.m = m, .edits = &edits, .scratch = &scratch};
  kit_init(&k, &env, "weights");
  for (uint32_t n = 0; n < m->n_nodes; n++)
    for (uint32_t i = 0; kit_op(&k, n) != OP_NONE && i < kit_n_in(&k, n); i++)
      if (kit_maker_op(&k, kit_in(&k, n, i)) != OP_NONE) kit_weight(&k, kit_in(&k, n, i), &c);
  ask(ctx);
  (void)kit_done(&k, &err); // nothing was read
  edits_free(&edits);
  recipes_free(&recipes);
  arena_free(&scratch);
  model_saw_nothing(m);
  m->n_tensors = n_tensors;
}
