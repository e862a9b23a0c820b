// The pass optimize/concat: a Concat of Concats along one axis as one Concat.
//
//   Concat(Concat(a, b), c) ──▶ Concat(a, b, c)
//
// Only of what nothing else uses. It runs behind the rounds, since steps that look for the spelling of an operator
// look for a Concat in its place.
#include "optimize.h"

#include "known.h"
#include "name_filter.h"

struct run {
  struct kit k; // first: a visit is given it
  const struct name_filter *nodes;
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

static void visit(struct kit *k, uint32_t node) {
  struct run *r = (struct run *)k;
  uint32_t n = 0, found = 0;
  int64_t axis;
  if (kit_op(k, node) != OP_Concat) return;
  const uint32_t n_in = kit_n_in(k, node);
  for (uint32_t i = 0; i < n_in; i++) {
    const uint32_t concat = inner(r, node, i);
    found += concat != NO_ID;
    n += concat == NO_ID ? 1 : kit_n_in(k, concat);
  }
  if (found == 0 || !kit_attr_int(k, node, "axis", 1, &axis)) return;
  kit_site(k, node, "concat");
  uint32_t *list = arena_alloc(&k->site, n * sizeof *list);
  uint32_t *gone = arena_alloc(&k->site, found * sizeof *gone);
  n = found = 0;
  for (uint32_t i = 0; i < n_in; i++) {
    const uint32_t concat = inner(r, node, i);
    if (concat == NO_ID) {
      list[n++] = kit_in(k, node, i);
      continue;
    }
    for (uint32_t j = 0; j < kit_n_in(k, concat); j++)
      list[n++] = kit_in(k, concat, j);
    gone[found++] = concat;
  }
  kit_converted(k, node, "concat");
  kit_replace(k, node, OP_Concat, KIT_INPUTS(list, n), KIT_INT("axis", axis));
  for (uint32_t i = 0; i < found; i++)
    kit_sweep(k, gone[i]);
}

static int run(struct pass_env *env, void *with, struct pass_result *result, struct err *err) {
  struct run r = {.nodes = with};
  (void)result;
  kit_init(&r.k, env, env->pass->name);
  kit_infer(&r.k);
  kit_visit(&r.k, with, visit);
  return kit_done(&r.k, err);
}

const struct pass optimize_concat = {
    .name = "optimize/concat",
    .summary = "make one Concat of Concats along one axis",
    .about = "Joins in one node what Concats that nothing else uses join one after the other.",
    .needs = "nothing",
    .promises = "all outputs of the model are unchanged",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = run,
};
