// The pass reorder-back/MoveSplitPastElementwise: like elementwise nodes behind all outputs of a Split become one before it.
//
//   Split ──▶ Mul(…, c) ──▶ y          Mul ──▶ Split ──▶ y
//   x    └──▶ Mul(…, d) ──▶ z          x [c d]      └──▶ z
//
// The opposite of past_split.c: where there is one node for each output, one in front of them may cost less. No other
// node uses an output, and all take theirs in the same slot; where it is an output of the graph too, the old Split stays for
// that. The other operands are joined as joins.c says; they must be there before the first of the nodes.
#include "passes/streamline/inside/streamline.h"

#include "passes/kit/dead_ends.h"
#include "passes/questions/name_filter.h"

struct run {
  struct kit k; // first: a visit is given it
  TABLE(uint32_t, splits);
};

struct split {
  struct kit *k;
  uint32_t node, n;    // the Split and its outputs
  uint32_t *users;     // the node behind each
  uint32_t first;      // of them
  uint32_t slot, n_in; // where they take the outputs; operands
  uint32_t axis, rank;
};

// The only node that uses the value, and in one slot.
static uint32_t user_of(struct kit *k, uint32_t value, uint32_t *slot) {
  uint32_t node = NO_ID, times = 0;
  for (struct kit_use u = kit_uses(k, value); times < 2 && kit_use(k, &u); times++) {
    node = u.node;
    *slot = u.slot;
  }
  return times == 1 ? node : NO_ID;
}

static bool find(struct split *s) {
  struct kit *k = s->k;
  const uint32_t graph = k->m->nodes[s->node].graph;
  if (!kit_attrs_copyable(k, s->node)) return false;
  for (uint32_t i = 0; i < s->n; i++) {
    const uint32_t value = kit_out(k, s->node, i);
    uint32_t slot = NO_ID;
    const uint32_t user = value == NO_ID ? NO_ID : user_of(k, value, &slot);
    if (!moves_can(k, user, graph)) return false;
    if (i > 0 && (slot != s->slot || !moves_alike(k, user, s->users[0]))) return false;
    // It must not be made wider.
    if (!kit_op_has(kit_op(k, user), KIT_UNARY) && !kit_same_dims(k, value, kit_out(k, user, 0)))
      return false;
    s->users[i] = user;
    s->slot = slot;
    if (i == 0 || kit_before(k, user, s->first)) s->first = user;
  }
  s->n_in = kit_n_in(k, s->users[0]);
  return true;
}

// Operands besides those that are split: how they become one.
static bool decide(struct split *s, struct joins *joins, struct joins_plan *plans,
                   uint32_t *lists) {
  struct kit *k = s->k;
  const bool clip = kit_op(k, s->users[0]) == OP_Clip;
  uint32_t *results = lists + (size_t)s->n_in * s->n;
  if (clip && s->slot != 0) return false;
  for (uint32_t i = 0; i < s->n; i++)
    results[i] = kit_out(k, s->users[i], 0);
  for (uint32_t slot = 0; slot < s->n_in; slot++) {
    uint32_t *values = lists + (size_t)slot * s->n;
    if (slot == s->slot || kit_in(k, s->users[0], slot) == NO_ID) continue;
    for (uint32_t i = 0; i < s->n; i++) {
      values[i] = kit_in(k, s->users[i], slot);
      if (!kit_available(k, values[i], k->m->nodes[s->node].graph, s->first)) return false;
    }
    joins[slot] = (struct joins){.values = values,
                                 .results = results,
                                 .n = s->n,
                                 .axis = s->axis,
                                 .rank = s->rank,
                                 .scalar = clip,
                                 .spread = moves_leads(kit_op(k, s->users[0]), slot)};
    plans[slot] = joins_decide(k, &joins[slot]);
    if (plans[slot].how == JOINS_NONE) return false;
  }
  return true;
}

// Gives the new Split, which has the outputs of the nodes.
static uint32_t make(struct split *s, const struct joins *joins, const struct joins_plan *plans) {
  struct kit *k = s->k;
  const uint32_t like = s->users[0], sizes = kit_in(k, s->node, 1);
  uint32_t *in = arena_alloc(k->env->scratch, s->n_in * sizeof *in);
  struct edit_output *out = arena_zalloc(k->env->scratch, s->n * sizeof *out);
  kit_begin(k, s->node, "split_past");
  k->before = s->first;
  for (uint32_t slot = 0; slot < s->n_in; slot++)
    in[slot] = slot == s->slot                  ? kit_in(k, s->node, 0)
               : kit_in(k, like, slot) == NO_ID ? NO_ID
                                                : joins_make(k, &joins[slot], &plans[slot]);
  const uint32_t all = kit_make(k, kit_op(k, like), KIT_INPUTS(in, s->n_in), KIT_ATTRS_OF(like));
  const uint32_t first =
      kit_make(k, OP_Split, KIT_INPUTS(((const uint32_t[]){all, sizes}), sizes == NO_ID ? 1 : 2),
               KIT_ATTRS_OF(s->node), KIT_OUTPUTS(s->n));
  const uint32_t made = kit_maker(k, first);
  for (uint32_t i = 0; i < s->n; i++) {
    out[i].value = kit_out(k, s->users[i], 0);
    edit_remove_node(k->e, s->users[i]);
  }
  for (uint32_t i = 0; i < s->n; i++)
    edit_set_output(k->e, made, i, out[i]);
  for (uint32_t slot = 0; slot < s->n_in; slot++) // what only the old nodes took
    for (uint32_t i = 0; i < s->n && joins[slot].values; i++)
      dead_ends_drop(k->e, joins[slot].values[i]);
  kit_sweep(k, s->node);
  return made;
}

static void move(struct kit *k, uint32_t node) {
  struct split s = {.k = k, .node = node, .n = k->m->nodes[node].n_out};
  s.users = arena_alloc(k->env->scratch, s.n * sizeof *s.users);
  while (find(&s)) {
    const bool unary = kit_op_has(kit_op(k, s.users[0]), KIT_UNARY);
    struct joins *joins = arena_zalloc(k->env->scratch, s.n_in * sizeof *joins);
    struct joins_plan *plans = arena_zalloc(k->env->scratch, s.n_in * sizeof *plans);
    uint32_t *lists = arena_alloc(k->env->scratch, ((size_t)s.n_in + 1) * s.n * sizeof *lists);
    if (!unary && !moves_axis(k, s.node, kit_in(k, s.node, 0), &s.axis, &s.rank)) return;
    if (!decide(&s, joins, plans, lists)) return;
    s.node = make(&s, joins, plans);
    kit_infer_more(k);
  }
}

// Nodes behind a Split go: what there is to look at is listed before.
static void visit(struct kit *k, uint32_t node) {
  struct run *r = (struct run *)k;
  if (kit_op(k, node) == OP_Split && k->m->nodes[node].n_out > 0) *TABLE_PUSH(r, splits) = node;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct run r = {0};
  kit_init(&r.k, env, env->pass->name);
  kit_infer(&r.k);
  kit_visit(&r.k, with, visit);
  for (uint32_t i = 0; i < r.n_splits; i++) // one in the body of a node that went is gone too
    if (kit_op(&r.k, r.splits[i]) != OP_NONE) move(&r.k, r.splits[i]);
  TABLE_FREE(&r, splits);
  return kit_done(&r.k, err);
}

const struct pass streamline_split_past = {
    .name = "reorder-back/MoveSplitPastElementwise",
    .summary = "apply elementwise operators before a Split instead of after it",
    .about = "If all outputs of a Split are inputs of the same elementwise operator, applies that "
             "operator once, before the Split.",
    .needs = "types and shapes, which the pass infers",
    .promises = "the same bits for all inputs, except the sign of zeros from Min and Max",
    .exactness = EXACTNESS_EXACT,
    .loosest = EXACTNESS_ZERO,
    NAME_FILTER_ALONE,
    .run = run,
};
