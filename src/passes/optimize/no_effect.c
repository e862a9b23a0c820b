// The pass optimize/no-effect: nodes that give what they are given, by what inference knows of dims and small values.
//
//   x [b,s,64] ── Slice [0:s] ──▶ y [b,s,64]        x ──▶ (all users of y)
//
// Expand, Reshape, Flatten, Squeeze, Unsqueeze   the dims stay
// Slice                                          the dims stay, and no step goes backward
// Transpose                                      only axes of length 1 change places, and the dims stay;
//                                                where they do not: a Reshape, if its target is a constant
// Pad                                            all pads are 0
// Tile                                           all repeats are 1
// Concat, Split, Sum, Max, Min, Mean             of one
//
// Where names forbid it (from an input of the graph to an output) the node stays.
#include "passes/optimize/optimize.h"

#include "passes/optimize/inside/known.h"
#include "passes/questions/name_filter.h"

// No step of a Slice is known to be, or may be, below 0.
static bool goes_forward(struct kit *k, uint32_t node) {
  dim_id steps[RECIPE_MAX_RANK];
  uint32_t n;
  if (kit_in(k, node, 4) == NO_ID) return true;
  if (!known_list(k, kit_in(k, node, 4), steps, RECIPE_MAX_RANK, &n)) return false;
  for (uint32_t i = 0; i < n; i++)
    if (dims_least(infer_dims(k->env->infer), steps[i]) < 1) return false;
  return true;
}

// Do the axes that may be longer than 1 keep their order?
static bool moves_nothing(struct kit *k, uint32_t node) {
  struct infer_type t;
  const int64_t *perm;
  uint32_t n;
  int64_t last = -1;
  if (!known_dims(k, kit_in(k, node, 0), &t) || !kit_perm(k, node, &perm, &n) || n != t.rank)
    return false;
  for (uint32_t i = 0; i < n; i++) {
    if (perm[i] < 0 || perm[i] >= n) return false;
    if (known_one(k, t.dims[perm[i]])) continue;
    if (perm[i] < last) return false;
    last = perm[i];
  }
  return true;
}

static bool zero_pads(struct kit *k, uint32_t node) {
  const int64_t *pads;
  uint32_t n;
  if (kit_in(k, node, 1) != NO_ID) return known_all(k, kit_in(k, node, 1), 0);
  if (kit_opset(k, k->m->nodes[node].graph) >= 11 || !kit_attr_ints(k, node, "pads", &pads, &n))
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (pads[i] != 0) return false;
  return true;
}

static bool has_no_effect(struct kit *k, uint32_t node) {
  const uint32_t x = kit_in(k, node, 0), y = kit_out(k, node, 0);
  switch (kit_op(k, node)) {
  case OP_Expand:
  case OP_Reshape:
  case OP_Flatten:
  case OP_Squeeze:
  case OP_Unsqueeze: return known_alike(k, x, y);
  case OP_Slice: return known_alike(k, x, y) && goes_forward(k, node);
  case OP_Transpose: return known_alike(k, x, y) && moves_nothing(k, node);
  case OP_Pad: return known_alike(k, x, y) && zero_pads(k, node);
  case OP_Tile: return known_alike(k, x, y) && known_all(k, kit_in(k, node, 1), 1);
  case OP_Concat:
  case OP_Sum:
  case OP_Max:
  case OP_Min:
  case OP_Mean: return kit_n_in(k, node) == 1;
  case OP_Split: return k->m->nodes[node].n_out == 1 && known_alike(k, x, y);
  default: return false;
  }
}

// A target of Reshape from x to y: numbers, dims of x that stay in their place (0), and one more (-1).
static bool target(struct kit *k, uint32_t x, uint32_t y, int64_t *list, uint32_t *n) {
  struct infer_type from, to;
  uint32_t open = 0;
  if (!known_dims(k, x, &from) || !known_dims(k, y, &to) || to.rank > RECIPE_MAX_RANK) return false;
  *n = to.rank;
  for (uint32_t i = 0; i < to.rank; i++) {
    if (known_size(k, to.dims[i], &list[i])) {
      if (list[i] == 0) return false;
      continue;
    }
    list[i] = i < from.rank && known_same(k, from.dims[i], to.dims[i]) ? 0 : -1;
    open += list[i] == -1;
  }
  return open <= 1;
}

static bool reshapes(struct kit *k, uint32_t node) {
  int64_t list[RECIPE_MAX_RANK];
  uint32_t n;
  if (kit_op(k, node) != OP_Transpose || !moves_nothing(k, node) ||
      kit_opset(k, k->m->nodes[node].graph) < 5 ||
      !target(k, kit_in(k, node, 0), kit_out(k, node, 0), list, &n))
    return false;
  kit_begin(k, node, "moves_nothing");
  const uint32_t shape = kit_new_ints(k, "shape", list, n);
  kit_replace(k, node, OP_Reshape, KIT_IN(kit_in(k, node, 0), shape));
  return true;
}

static void visit(struct kit *k, uint32_t node) {
  const uint32_t x = kit_in(k, node, 0);
  if (x == NO_ID || kit_out(k, node, 0) == NO_ID || kit_may_be_left_out(k->m, x)) return;
  const bool nothing = has_no_effect(k, node) && kit_can_bypass(k, node, x);
  if (!nothing && kit_op(k, node) != OP_Transpose) return;
  if (!nothing) {
    reshapes(k, node);
    return;
  }
  kit_begin(k, node, "no_effect");
  kit_bypass(k, node, x);
}

const struct pass optimize_no_effect = {
    .name = "optimize/no-effect",
    .summary = "remove nodes that return their input unchanged, by inferred dims",
    .about =
        "Removes Expand, Reshape, Slice, Transpose, Pad, Tile, Concat, Split and similar nodes, "
        "if the inferred dims and small values show that they have no effect. A Transpose that "
        "only moves axes of length 1 becomes a Reshape.",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = kit_run,
    .visit = visit,
};
