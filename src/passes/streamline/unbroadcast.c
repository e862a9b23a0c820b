// The pass unbroadcast/UnbroadcastElementwise: constants without what broadcasting gives back.
//
//   Add(x, c)                  Add(x, c')                  c[2,3] with two equal rows is c'[3]
//   [2,3] [2,3]
//
// Along an axis all elements of which are alike one is enough, if another operand has the length there, so that the result
// keeps it; and axes of length 1 in front are not needed where another operand has as many axes. Both are looked at for one
// operand after the other: of two constants that hold a length for each other, the second keeps it.
//
// Bits are compared. Of constants that are not at hand the stage "facts" is asked whether they equal their own first slice,
// of all of them at once; that takes 0 and -0 for one number, so where there are zeros the cap must allow that.
#include "passes/streamline/inside/streamline.h"

#include "base/table.h"
#include "passes/kit/dead_ends.h"
#include "passes/questions/findings.h"
#include "passes/questions/name_filter.h"
#include "passes/rules/rules.h"

struct question {
  uint32_t recipe;
  struct tensor_stats facts;
};

struct made {                        // a constant that took the place of another
  uint32_t graph, value, rank, next; // next: of the same constant, + 1
  uint64_t axes;
};

struct run {
  struct kit k;
  const struct name_filter *nodes;
  TABLE(struct question, questions);
  TABLE(uint32_t, question_of); // by recipe: + 1
  TABLE(struct made, made);
  TABLE(uint32_t, made_of); // by value: + 1
  uint64_t held_back;
};

// ---- what the operands of a node hold ------------------------------------------------------------

// The dim that an operand has at an axis counted from the last, which is 0, as a number; -1: none, or it is not known.
static int64_t length_at(struct kit *k, uint32_t value, uint32_t from_end) {
  uint32_t rank;
  return kit_rank(k, value, &rank) && from_end < rank
             ? kit_dim(k, value, -(int64_t)from_end - 1).value
             : -1;
}

// Does another operand give the result that length at the axis?
static bool is_held(struct kit *k, uint32_t node, uint32_t slot, uint32_t from_end,
                    int64_t length) {
  for (uint32_t i = 0; i < kit_n_in(k, node); i++)
    if (kit_in(k, node, i) != kit_in(k, node, slot) &&
        length_at(k, kit_in(k, node, i), from_end) == length)
      return true;
  return false;
}

static bool is_rank_held(struct kit *k, uint32_t node, uint32_t slot, uint32_t rank) {
  uint32_t other;
  for (uint32_t i = 0; i < kit_n_in(k, node); i++)
    if (kit_in(k, node, i) != kit_in(k, node, slot) && kit_rank(k, kit_in(k, node, i), &other) &&
        other >= rank)
      return true;
  return false;
}

// May the operand be given fewer elements, as far as the operator goes? Bounds of a Clip are scalars.
static bool may_broadcast(struct kit *k, uint32_t node, uint32_t slot) {
  const enum op op = kit_op(k, node);
  return kit_op_has(op, KIT_ELEMENTWISE) && !kit_op_has(op, KIT_UNARY) && op != OP_Clip &&
         !moves_leads(op, slot);
}

// ---- which axes of a constant are alike ----------------------------------------------------------

// Is every slice along the axis the same bytes as the first?
static bool even_bytes(struct span raw, size_t each, const int64_t *dims, uint32_t rank,
                       uint32_t axis) {
  size_t behind = each;
  for (uint32_t i = axis + 1; i < rank; i++)
    behind *= (size_t)dims[i];
  const size_t block = behind * (size_t)dims[axis];
  for (size_t at = 0; at < raw.n; at += behind)
    if (memcmp(raw.at + at, raw.at + at / block * block, behind) != 0) return false;
  return true;
}

// Where elements are not at hand: the constant beside its first slice, as a question. NO_ID: it cannot be asked.
static uint32_t comparison(struct kit *k, uint32_t recipe, uint32_t axis) {
  const uint32_t first = rules_constant_slice(k, recipe, axis, 0, 1);
  if (first == NO_ID) return NO_ID;
  const uint32_t of[2] = {recipe, first};
  return recipe_can_map(k->r, RECIPE_MAP_EQUAL, of) && recipe_can_grow(k->r, recipe)
             ? recipe_map(k->r, RECIPE_MAP_EQUAL, of)
             : NO_ID;
}

static struct question *question_about(struct run *r, uint32_t recipe, bool add) {
  const uint32_t n = r->k.r->n_rows;
  if (r->n_question_of < n) TABLE_ADD(r, question_of, n - r->n_question_of);
  if (r->question_of[recipe] == 0 && add) {
    *TABLE_PUSH(r, questions) = (struct question){.recipe = recipe};
    r->question_of[recipe] = r->n_questions;
  }
  return r->question_of[recipe] ? &r->questions[r->question_of[recipe] - 1] : NULL;
}

static bool even_by_facts(struct run *r, uint32_t recipe, uint32_t axis) {
  struct kit *k = &r->k;
  const uint32_t compared = comparison(k, recipe, axis);
  const struct question *all = question_about(r, recipe, false);
  const struct question *even = compared == NO_ID ? NULL : question_about(r, compared, false);
  if (!all || !even || even->facts.zeros > 0) return false;
  const bool exact = all->facts.zeros == 0 || !dtype_is_float((enum dtype)k->r->rows[recipe].dtype);
  if (exact || k->env->exactness >= EXACTNESS_ZERO) return true;
  r->held_back++;
  return false;
}

struct constant {
  uint32_t value, recipe, rank;
  enum dtype dtype;
  const int64_t *dims;
  struct span raw; // n 0: not at hand
};

static bool constant_of(struct kit *k, uint32_t value, struct constant *c) {
  *c = (struct constant){.value = value};
  if (!moves_constant(k, value) || (c->recipe = rules_constant(k, value)) == NO_ID) return false;
  const struct recipe *row = &k->r->rows[c->recipe];
  c->rank = row->rank;
  c->dtype = (enum dtype)row->dtype;
  if (row->count == 0 || !dtype_is_plain_number(c->dtype)) return false;
  int64_t *dims = arena_copy(&k->site, recipe_dims(k->r, c->recipe), row->rank * sizeof *dims);
  c->dims = dims;
  if (row->kind == RECIPE_BYTES)
    c->raw = span_of(arena_string(&k->site, recipe_elements(k->r, c->recipe)), row->bytes);
  return true;
}

// Axes that may go to length 1, as bits, if they are alike.
static uint64_t held_axes(struct kit *k, uint32_t node, uint32_t slot, const struct constant *c) {
  uint64_t axes = 0;
  for (uint32_t i = 0; i < c->rank; i++)
    if (c->dims[i] > 1 && is_held(k, node, slot, c->rank - 1 - i, c->dims[i]))
      axes |= (uint64_t)1 << i;
  return axes;
}

static uint64_t even_axes(struct run *r, const struct constant *c, uint64_t axes) {
  struct kit *k = &r->k;
  const bool fill = k->r->rows[c->recipe].kind == RECIPE_FILL;
  for (uint32_t i = 0; i < c->rank; i++) {
    const uint64_t bit = (uint64_t)1 << i;
    if (!(axes & bit) || fill) continue;
    const bool even = c->raw.n > 0
                          ? even_bytes(c->raw, dtype_bits(c->dtype) / 8, c->dims, c->rank, i)
                          : even_by_facts(r, c->recipe, i);
    if (!even) axes &= ~bit;
  }
  return axes;
}

// ---- questions -----------------------------------------------------------------------------------

static void wonder(struct run *r, uint32_t node, uint32_t slot) {
  struct kit *k = &r->k;
  struct constant c;
  arena_reset(&k->site);
  if (!constant_of(k, kit_in(k, node, slot), &c) || c.raw.n > 0 ||
      k->r->rows[c.recipe].kind == RECIPE_FILL)
    return;
  const uint64_t axes = held_axes(k, node, slot, &c);
  for (uint32_t i = 0; i < c.rank; i++) {
    const uint32_t compared = axes >> i & 1 ? comparison(k, c.recipe, i) : NO_ID;
    if (compared == NO_ID) continue;
    question_about(r, c.recipe, true);
    question_about(r, compared, true);
  }
}

static int ask(struct run *r, struct err *err) {
  struct arena *a = r->k.env->scratch;
  if (r->n_questions == 0) return 0;
  uint32_t *of = arena_alloc(a, r->n_questions * sizeof *of);
  struct tensor_stats *found = arena_alloc(a, r->n_questions * sizeof *found);
  for (uint32_t i = 0; i < r->n_questions; i++)
    of[i] = r->questions[i].recipe;
  if (findings_ask(r->k.env, of, r->n_questions, false, found, err)) return -1;
  for (uint32_t i = 0; i < r->n_questions; i++)
    r->questions[i].facts = found[i];
  return 0;
}

// ---- changes -------------------------------------------------------------------------------------

// The constant with these axes as 1 and without axes in front, one for all nodes of a graph that want it so.
static uint32_t lessened(struct run *r, const struct constant *c, uint64_t axes, uint32_t rank) {
  struct kit *k = &r->k;
  uint32_t recipe = c->recipe, tensor;
  int64_t dims[RECIPE_MAX_RANK];
  if (r->n_made_of <= c->value) TABLE_ADD(r, made_of, c->value + 1 - r->n_made_of);
  for (uint32_t i = r->made_of[c->value]; i != 0; i = r->made[i - 1].next) {
    const struct made *m = &r->made[i - 1];
    if (m->axes == axes && m->rank == rank && m->graph == k->graph) return m->value;
  }
  for (uint32_t i = 0; i < c->rank && recipe != NO_ID; i++) {
    dims[i] = axes >> i & 1 ? 1 : c->dims[i];
    if (axes >> i & 1) recipe = rules_constant_slice(k, recipe, i, 0, 1);
  }
  if (recipe != NO_ID && rank < c->rank)
    recipe = rules_constant_reshape(k, recipe, dims + (c->rank - rank), rank);
  if (recipe == NO_ID) return NO_ID;
  const uint32_t value = kit_new_tensor(k, "unbroadcast", recipe);
  if (kit_constant(k, c->value, &tensor) && k->m->tensors[tensor].bytes > SMALL_ANY_BYTES)
    edit_stands_for(k->e, k->m->n_tensors - 1, tensor, k->m->tensors[tensor].name);
  *TABLE_PUSH(r, made) = (struct made){k->graph, value, rank, r->made_of[c->value], axes};
  r->made_of[c->value] = r->n_made;
  return value;
}

static void lessen(struct run *r, uint32_t node, uint32_t slot) {
  struct kit *k = &r->k;
  struct constant c;
  const uint32_t old = kit_in(k, node, slot);
  arena_reset(&k->site);
  if (!constant_of(k, old, &c)) return;
  const uint64_t axes = even_axes(r, &c, held_axes(k, node, slot, &c));
  uint32_t front = 0;
  while (front < c.rank && (c.dims[front] == 1 || axes >> front & 1) &&
         is_rank_held(k, node, slot, c.rank))
    front++;
  if (axes == 0 && front == 0) return;
  const struct constant kept = c; // the site is emptied
  int64_t dims[RECIPE_MAX_RANK];
  memcpy(dims, c.dims, c.rank * sizeof *dims);
  kit_site(k, node, "unbroadcast");
  c = kept;
  c.dims = dims;
  const uint32_t value = lessened(r, &c, axes, c.rank - front);
  if (value == NO_ID) return;
  kit_converted(k, node, "unbroadcast");
  for (uint32_t i = 0; i < kit_n_in(k, node); i++)
    if (kit_in(k, node, i) == old) edit_set_input(k->e, node, i, value);
  dead_ends_drop(k->e, old);
}

static void walk(struct run *r, uint32_t graph,
                 void (*look)(struct run *r, uint32_t node, uint32_t slot)) {
  struct kit *k = &r->k;
  for (uint32_t n = k->m->graphs[graph].first_node; n != NO_ID; n = k->m->nodes[n].next) {
    if (name_filter_refuses(r->nodes, model_name_str(k->m, k->m->nodes[n].name))) continue;
    for (uint32_t slot = 0; slot < kit_n_in(k, n); slot++)
      if (may_broadcast(k, n, slot)) look(r, n, slot);
  }
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct run r = {.nodes = with};
  kit_init(&r.k, env, env->pass->name);
  kit_infer(&r.k);
  name_filter_warn(&r.nodes, 1, env);
  for (uint32_t g = 0; env->ask && kit_graph(&r.k, &g); g++)
    walk(&r, g, wonder);
  const int rc = ask(&r, err);
  for (uint32_t g = 0; rc == 0 && kit_graph(&r.k, &g); g++)
    walk(&r, g, lessen);
  env->result->held_back = r.held_back;
  TABLES_FREE(&r, questions, question_of, made, made_of);
  return kit_done(&r.k, err) || rc ? -1 : 0;
}

const struct pass streamline_unbroadcast = {
    .name = "unbroadcast/UnbroadcastElementwise",
    .summary = "shrink constants of elementwise operators to what broadcasting restores",
    .about = "Shrinks constant operands of elementwise operators: keeps one element along each "
             "axis where all elements are equal, if another operand determines the length of the "
             "result along that axis.",
    .needs = "types and shapes, which the pass infers",
    .exactness = EXACTNESS_EXACT,
    .loosest = EXACTNESS_ZERO,
    NAME_FILTER_ALONE,
    .run = run,
};
