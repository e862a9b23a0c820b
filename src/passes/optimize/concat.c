// The pass optimize/concat: a Concat of Concats along one axis as one Concat.
//
//   Concat(Concat(a, b), c) ──▶ Concat(a, b, c)
//
// Only of what nothing else uses. All that become one node do so at once: joined one by one, a chain would be written
// once for each of its nodes. It runs behind the rounds, since steps that look for the spelling of an operator
// look for a Concat in its place.
#include "passes/optimize/optimize.h"

#include "base/table.h"
#include "passes/optimize/inside/known.h"
#include "passes/questions/name_filter.h"

struct opened {
  uint32_t node, at; // at: the operand that comes next
  bool takes;        // others in
};

struct run {
  struct kit k; // first: a visit is given it
  const struct name_filter *nodes;
  TABLE(uint8_t, taken);       // by node: another Concat takes it in
  TABLE(uint32_t, concats);    // those that take others in, in order
  TABLE(struct opened, open);  // Concats in one another
  TABLE(uint32_t, list);       // what the one at hand will join
  TABLE(uint32_t, takers);     // in it, those that take others in
  TABLE(uint32_t, taken_here); // its own operands that it takes in
};

// Along which axis a Concat joins; where the rank is known, counted from the front.
static bool axis_of(struct kit *k, uint32_t node, int64_t *axis) {
  struct infer_type t;
  if (!kit_attr_int(k, node, "axis", 1, axis)) return false;
  if (*axis < 0 && known_dims(k, kit_out(k, node, 0), &t)) *axis += t.rank;
  return true;
}

// The Concat whose result is that operand of `node`, if it can be joined with it; or NO_ID.
static uint32_t inner(struct run *r, uint32_t node, uint32_t operand) {
  struct kit *k = &r->k;
  const uint32_t value = kit_in(k, node, operand), maker = kit_maker(k, value);
  int64_t outside, inside;
  if (kit_op(k, maker) != OP_Concat || k->m->nodes[maker].graph != k->m->nodes[node].graph ||
      kit_use_count(k, value, 2) != 1 || kit_is_output(k, value) ||
      name_filter_refuses(r->nodes, model_name_str(k->m, k->m->nodes[maker].name)) ||
      !axis_of(k, node, &outside) || !axis_of(k, maker, &inside))
    return NO_ID;
  return outside == inside ? maker : NO_ID;
}

static void look(struct kit *k, uint32_t node) {
  struct run *r = (struct run *)k;
  bool takes = false;
  if (kit_op(k, node) != OP_Concat) return;
  for (uint32_t i = 0; i < kit_n_in(k, node); i++) {
    const uint32_t concat = inner(r, node, i);
    if (concat == NO_ID) continue;
    takes = true;
    r->taken[concat] = 1;
  }
  if (takes) *TABLE_PUSH(r, concats) = node;
}

// What the node and those that it takes in join, in order.
static void flatten(struct run *r, uint32_t node) {
  r->n_list = r->n_takers = r->n_taken_here = 0;
  *TABLE_PUSH(r, open) = (struct opened){.node = node};
  while (r->n_open > 0) {
    struct opened *p = &r->open[r->n_open - 1];
    if (p->at == kit_n_in(&r->k, p->node)) {
      if (p->takes) *TABLE_PUSH(r, takers) = p->node;
      r->n_open--;
      continue;
    }
    const uint32_t concat = inner(r, p->node, p->at++);
    if (concat == NO_ID) {
      *TABLE_PUSH(r, list) = kit_in(&r->k, p->node, p->at - 1);
      continue;
    }
    p->takes = true;
    if (p->node == node) *TABLE_PUSH(r, taken_here) = concat;
    *TABLE_PUSH(r, open) = (struct opened){.node = concat};
  }
}

static void join(struct run *r, uint32_t node) {
  struct kit *k = &r->k;
  int64_t axis;
  if (kit_op(k, node) == OP_NONE) return; // it was in the body of one that went
  if (r->taken[node] || !kit_attr_int(k, node, "axis", 1, &axis)) return;
  flatten(r, node);
  kit_site(k, node, "concat");
  for (uint32_t i = 0; i < r->n_takers; i++)
    kit_converted(k, r->takers[i], "concat");
  kit_replace(k, node, OP_Concat, KIT_INPUTS(r->list, r->n_list), KIT_INT("axis", axis));
  for (uint32_t i = 0; i < r->n_taken_here; i++)
    kit_sweep(k, r->taken_here[i]); // and with it what it takes in
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct run r = {.nodes = with};
  kit_init(&r.k, env, env->pass->name);
  kit_infer(&r.k);
  TABLE_ADD(&r, taken, r.k.m->n_nodes);
  kit_visit(&r.k, with, look);
  for (uint32_t i = 0; i < r.n_concats; i++)
    join(&r, r.concats[i]);
  TABLES_FREE(&r, taken, concats, open, list, takers, taken_here);
  return kit_done(&r.k, err);
}

const struct pass optimize_concat = {
    .name = "optimize/concat",
    .summary = "merge nested Concats along one axis into one",
    .about = "Replaces a Concat of Concats along the same axis by one Concat of all inputs. The "
             "inner Concats must have no other users.",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = run,
};
