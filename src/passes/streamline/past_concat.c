// The pass reorder/MoveElementwisePastConcat: like elementwise nodes before a Concat become one behind it.
//
//   Mul(x, c), Mul(y, d) ──▶ Concat          Concat(x, y) ──▶ Mul(…, [c d])
//   Mul(x, c), y         ──▶ Concat          Concat(x, y) ──▶ Mul(…, [c 1])
//
// What is before the Concat and no such node gets the number that changes nothing (1 for Mul and Div, 0 for Sub, -0 for
// Add, to which only that adds nothing): where the node computes with a constant, which is then joined with that number.
// Operands are joined as joins.c says. What else uses one of the nodes keeps it. What is joined anew is looked at again.
#include "passes/streamline/inside/streamline.h"

#include "passes/questions/name_filter.h"

struct run {
  struct kit k;             // first: a visit is given it
  TABLE(uint32_t, pending); // Concats
};

struct concat {
  struct kit *k;
  uint32_t node, n;    // the Concat and its inputs
  uint32_t model;      // the elementwise node that the others are like
  uint32_t n_in;       // its operands
  bool plain;          // its first operand has the dims of its result, and others have one element
  uint32_t axis, rank; // of the Concat; not known of plain ones
  double neutral;      // what changes nothing
};

static uint32_t input(const struct concat *c, uint32_t i) {
  return kit_in(c->k, c->node, i);
}

// Operand `slot` of a node, the one that is no constant first where operands may change places.
static uint32_t operand(const struct concat *c, uint32_t node, uint32_t slot) {
  const bool turned = kit_op_has(kit_op(c->k, node), KIT_COMMUTATIVE) &&
                      kit_n_in(c->k, node) == 2 && moves_constant(c->k, kit_in(c->k, node, 0)) &&
                      !moves_constant(c->k, kit_in(c->k, node, 1));
  return kit_in(c->k, node, turned ? 1 - slot : slot);
}

static bool has_neutral(enum op op, double *neutral) {
  switch (op) {
  case OP_Add: *neutral = -0.0; return true;
  case OP_Sub: *neutral = 0; return true;
  case OP_Mul:
  case OP_Div: *neutral = 1; return true;
  default: return false;
  }
}

// The first node that all inputs may be made by: as it is with all of them, or one with a neutral number.
static bool find(struct concat *c) {
  struct kit *k = c->k;
  const uint32_t graph = k->m->nodes[c->node].graph;
  const uint32_t first = kit_maker(k, input(c, 0));
  bool all = moves_can(k, first, graph);
  for (uint32_t i = 1; i < c->n && all; i++) {
    const uint32_t other = kit_maker(k, input(c, i));
    all = moves_can(k, other, graph) && moves_alike(k, first, other);
  }
  c->model = all ? first : NO_ID;
  for (uint32_t i = 0; i < c->n && c->model == NO_ID; i++) {
    const uint32_t maker = kit_maker(k, input(c, i));
    if (moves_can(k, maker, graph) && has_neutral(kit_op(k, maker), &c->neutral) &&
        !moves_constant(k, operand(c, maker, 0)) && moves_constant(k, operand(c, maker, 1)))
      c->model = maker;
  }
  return c->model != NO_ID;
}

// The operands in one slot of all nodes. Where there is no such node: the input, and the neutral number.
static void collect(const struct concat *c, uint32_t slot, uint32_t *values) {
  struct kit *k = c->k;
  for (uint32_t i = 0; i < c->n; i++) {
    const uint32_t maker = kit_maker(k, input(c, i));
    const bool like =
        moves_can(k, maker, k->m->nodes[c->node].graph) && moves_alike(k, maker, c->model);
    values[i] = like ? operand(c, maker, slot) : slot == 0 ? input(c, i) : NO_ID;
  }
}

// Operands of one type go through a Concat like the one at hand.
static bool of_one_type(const struct concat *c, const uint32_t *values) {
  const enum dtype first = kit_dtype(c->k, values[0]);
  for (uint32_t i = 1; i < c->n; i++)
    if (kit_dtype(c->k, values[i]) != first) return false;
  return first != DTYPE_UNDEFINED;
}

static struct joins joins_of(const struct concat *c, uint32_t slot, uint32_t *lists) {
  uint32_t *values = lists + (size_t)slot * c->n, *results = lists + (size_t)c->n_in * c->n;
  collect(c, slot, values);
  for (uint32_t i = 0; i < c->n; i++)
    results[i] = input(c, i);
  return (struct joins){.values = values,
                        .results = results,
                        .n = c->n,
                        .axis = c->axis,
                        .rank = c->rank,
                        .scalar = c->plain && slot > 0,
                        .spread = moves_leads(kit_op(c->k, c->model), slot),
                        .neutral = c->neutral};
}

// A Concat that was made is looked at, too.
static void make(struct run *r, const struct concat *c, const struct joins *joins,
                 const struct joins_plan *plans) {
  struct kit *k = c->k;
  const uint32_t n_before = k->m->n_nodes;
  uint32_t *in = arena_alloc(k->env->scratch, c->n_in * sizeof *in);
  uint32_t *gone = arena_alloc(k->env->scratch, c->n * sizeof *gone);
  kit_begin(k, c->node, "past_concat");
  for (uint32_t slot = 0; slot < c->n_in; slot++)
    in[slot] =
        joins[slot].values[0] == NO_ID && plans[slot].how == JOINS_NONE ? NO_ID
        : c->plain && slot == 0
            ? kit_make(k, OP_Concat, KIT_INPUTS(joins[slot].values, c->n), KIT_ATTRS_OF(c->node))
            : joins_make(k, &joins[slot], &plans[slot]);
  for (uint32_t i = 0; i < c->n; i++)
    gone[i] = kit_maker(k, input(c, i));
  kit_replace(k, c->node, kit_op(k, c->model), KIT_INPUTS(in, c->n_in), KIT_ATTRS_OF(c->model));
  for (uint32_t i = 0; i < c->n; i++)
    if (gone[i] != NO_ID) kit_sweep(k, gone[i]);
  for (uint32_t node = n_before; node < k->m->n_nodes; node++)
    if (kit_op(k, node) == OP_Concat) *TABLE_PUSH(r, pending) = node;
}

// How the operands become one each. False: one of them cannot.
static bool decide(const struct concat *c, struct joins *joins, struct joins_plan *plans,
                   uint32_t *lists) {
  struct kit *k = c->k;
  bool joined = c->plain || c->n == 1;
  uint32_t first = NO_ID; // no constant
  for (uint32_t slot = 0; slot < c->n_in; slot++) {
    joins[slot] = joins_of(c, slot, lists);
    if (kit_in(k, c->model, slot) == NO_ID) continue; // left out by all of them
    if (c->plain && slot == 0 ? !of_one_type(c, joins[slot].values)
                              : (plans[slot] = joins_decide(k, &joins[slot])).how == JOINS_NONE)
      return false;
    joined |= plans[slot].how == JOINS_CONCAT;
    if (first == NO_ID && !moves_constant(k, joins[slot].values[0])) first = slot;
  }
  if (joined) return true;
  // Like nodes whose operands all have length 1 along the axis: it gets its length from one of them.
  if (first == NO_ID) first = 0;
  joins[first].spread = true;
  return (plans[first] = joins_decide(k, &joins[first])).how != JOINS_NONE;
}

static void look(struct run *r, uint32_t node) {
  struct kit *k = &r->k;
  struct concat c = {.k = k, .node = node, .n = kit_n_in(k, node)};
  if (kit_op(k, node) != OP_Concat || c.n == 0 || !kit_attrs_copyable(k, node) || !find(&c)) return;
  const enum op op = kit_op(k, c.model);
  c.n_in = kit_n_in(k, c.model);
  c.plain = kit_op_has(op, KIT_UNARY) || op == OP_Clip;
  if (!c.plain && !moves_axis(k, node, kit_out(k, node, 0), &c.axis, &c.rank)) return;
  struct joins *joins = arena_alloc(k->env->scratch, c.n_in * sizeof *joins);
  struct joins_plan *plans = arena_zalloc(k->env->scratch, c.n_in * sizeof *plans);
  uint32_t *lists = arena_alloc(k->env->scratch, ((size_t)c.n_in + 1) * c.n * sizeof *lists);
  if (decide(&c, joins, plans, lists)) make(r, &c, joins, plans);
}

static void visit(struct kit *k, uint32_t node) {
  struct run *r = (struct run *)k;
  look(r, node);
  while (r->n_pending > 0) {
    kit_infer_more(k);
    look(r, r->pending[--r->n_pending]);
  }
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct run r = {0};
  kit_init(&r.k, env, env->pass->name);
  kit_infer(&r.k);
  kit_visit(&r.k, with, visit);
  TABLE_FREE(&r, pending);
  return kit_done(&r.k, err);
}

const struct pass streamline_past_concat = {
    .name = "reorder/MoveElementwisePastConcat",
    .summary = "apply elementwise operators after a Concat instead of before it",
    .about = "If the inputs of a Concat are results of the same elementwise operator, applies "
             "that operator once, after the Concat. If the operator scales or shifts by "
             "constants, an input without it gets the factor 1 or the summand 0.",
    .needs = "types and shapes, which the pass infers",
    .promises = "the same bits for all inputs, except the sign of zeros from Min and Max",
    .exactness = EXACTNESS_EXACT,
    .loosest = EXACTNESS_ZERO,
    NAME_FILTER_ALONE,
    .run = run,
};
