// The pass reorder/MoveElementwisePastSplit: an elementwise node before a Split becomes one after each of its outputs.
//
//   Mul ──▶ Split ──▶ y, z          Split ──▶ Mul ──▶ y        x is split; each Mul gets its part of c, or all of c
//   x c                             x    └──▶ Mul ──▶ z        where it has length 1 along the axis
//
// At most one operand is not constant, so that no node splits more than one did before. Other users of the elementwise node
// keep it. The new Split is looked at again, so that a whole chain of elementwise nodes moves.
#include "passes/streamline/inside/streamline.h"

#include "passes/questions/name_filter.h"
#include "passes/rules/rules.h"

enum part { PART_NONE, PART_WHOLE, PART_OWN, PART_EXPANDED };

struct split {
  struct kit *k;
  uint32_t node, moved, n; // the elementwise node; how many outputs
  bool plain;           // its first operand has the dims of its result, and others have one element
  uint32_t axis, rank;  // of the value that is split; not known where plain is set
  const int64_t *sizes; // of the outputs along the axis; NULL: not known
};

static const int64_t *sizes_of(struct split *s) {
  struct kit *k = s->k;
  const uint32_t input = kit_in(k, s->node, 1);
  const int64_t *given;
  uint32_t n;
  int64_t *sizes = arena_alloc(k->env->scratch, s->n * sizeof *sizes);
  if (input != NO_ID ? kit_const_ints(k, input, &given, &n)
                     : kit_attr_ints(k, s->node, "split", &given, &n)) {
    if (n == s->n) memcpy(sizes, given, n * sizeof *sizes);
    return n == s->n ? sizes : NULL;
  }
  // Parts of one length, of which the last may be shorter.
  int64_t left = kit_dim(k, kit_in(k, s->node, 0), s->axis).value;
  if (input != NO_ID || left < 0) return NULL;
  const int64_t each = (left + s->n - 1) / s->n;
  for (uint32_t i = 0; i < s->n; i++) {
    sizes[i] = each <= left ? each : left;
    left -= sizes[i];
  }
  return sizes;
}

// Which elements of an operand a new node gets: all, a part, or a part of the operand after broadcasting.
static enum part part_of(struct split *s, uint32_t slot) {
  struct kit *k = s->k;
  const uint32_t operand = kit_in(k, s->moved, slot), result = kit_in(k, s->node, 0);
  if (operand == NO_ID) return PART_WHOLE;
  if (s->plain) return slot == 0 ? PART_OWN : PART_WHOLE;
  const struct model_dim has = moves_dim(k, operand, s->axis, s->rank),
                         all = kit_dim(k, result, s->axis);
  if (moves_is_one(has) && !moves_is_one(all)) return PART_WHOLE;
  uint32_t own;
  if (kit_dim_equal(has, all) && kit_rank(k, operand, &own) && own >= s->rank - s->axis)
    return PART_OWN;
  return kit_static(k, result) ? PART_EXPANDED : PART_NONE;
}

// Of a constant: the parts are constants too.
static bool cut(struct split *s, uint32_t value, uint32_t axis, uint32_t *out) {
  struct kit *k = s->k;
  if (s->plain || !s->sizes || !moves_constant(k, value)) return false;
  const uint32_t recipe = rules_constant(k, value);
  int64_t start = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    out[i] = recipe == NO_ID || s->sizes[i] <= 0
                 ? NO_ID
                 : rules_constant_slice(k, recipe, axis, start, s->sizes[i]);
    if (out[i] == NO_ID) return false; // also where the sizes add up to more than the axis has
    start += s->sizes[i];
  }
  for (uint32_t i = 0; i < s->n; i++)
    out[i] = kit_new_tensor(k, "part", out[i]);
  return true;
}

// Of another operand: a Split like the first one, along the axis that corresponds.
static void split(struct split *s, uint32_t value, uint32_t axis, uint32_t *out) {
  struct kit *k = s->k;
  const uint32_t in[2] = {value, kit_in(k, s->node, 1)};
  const uint32_t n_in = in[1] == NO_ID ? 1 : 2;
  out[0] = s->plain ? kit_make(k, OP_Split, KIT_INPUTS(in, n_in), KIT_ATTRS_OF(s->node),
                               KIT_OUTPUTS(s->n))
                    : kit_make(k, OP_Split, KIT_INPUTS(in, n_in), KIT_ATTRS_OF(s->node),
                               KIT_INT("axis", axis), KIT_OUTPUTS(s->n));
  for (uint32_t i = 1; i < s->n; i++)
    out[i] = kit_out(k, kit_maker(k, out[0]), i);
}

static void take_parts(struct split *s, uint32_t slot, enum part part, uint32_t *out) {
  struct kit *k = s->k;
  uint32_t value = kit_in(k, s->moved, slot), rank = s->rank;
  int64_t dims[RECIPE_MAX_RANK];
  for (uint32_t i = 0; i < s->n; i++)
    out[i] = value;
  if (part == PART_WHOLE) return;
  if (part == PART_EXPANDED) {
    kit_static_dims(k, kit_in(k, s->node, 0), dims, RECIPE_MAX_RANK, &rank);
    value = moves_expand(k, value, dims, rank);
  } else if (!s->plain) {
    kit_rank(k, value, &rank);
  }
  const uint32_t axis = s->axis - (s->rank - rank);
  if (!cut(s, value, axis, out)) split(s, value, axis, out);
}

// Is there an elementwise node before the Split that may move after it?
static bool find(struct split *s) {
  struct kit *k = s->k;
  const uint32_t value = kit_in(k, s->node, 0);
  uint32_t variables = 0;
  s->moved = kit_maker(k, value);
  if (!moves_can(k, s->moved, k->m->nodes[s->node].graph) || !kit_attrs_copyable(k, s->node))
    return false;
  for (uint32_t i = 0; i < kit_n_in(k, s->moved); i++)
    variables += kit_in(k, s->moved, i) != NO_ID && !moves_constant(k, kit_in(k, s->moved, i));
  const enum op op = kit_op(k, s->moved);
  s->plain = kit_op_has(op, KIT_UNARY) || op == OP_Clip;
  return variables == 1 && !(s->plain && moves_constant(k, kit_in(k, s->moved, 0))) &&
         (s->plain || moves_axis(k, s->node, value, &s->axis, &s->rank));
}

// Makes the nodes after the Split; they take the place of its outputs. Returns the Split of the operand that is not constant.
static uint32_t place(struct split *s, uint32_t n_in, const uint32_t *parts) {
  struct kit *k = s->k;
  const uint32_t old = s->node, moved = s->moved, graph = k->m->nodes[old].graph;
  uint32_t *out = arena_alloc(&k->site, s->n * sizeof *out);
  uint32_t *in = arena_alloc(&k->site, n_in * sizeof *in), next = NO_ID;
  for (uint32_t i = 0; i < s->n; i++)
    out[i] = kit_out(k, old, i);
  k->before = k->m->nodes[old].next;
  bool *used = arena_zalloc(&k->site, s->n * sizeof *used);
  for (uint32_t i = 0; i < s->n; i++)
    used[i] = out[i] != NO_ID && !kit_unused(k, out[i]);
  edit_remove_node(k->e, old);
  for (uint32_t i = 0; i < s->n; i++) {
    for (uint32_t slot = 0; slot < n_in; slot++) {
      in[slot] = parts[(size_t)slot * s->n + i];
      const uint32_t maker = kit_maker(k, in[slot]);
      if (kit_op(k, maker) == OP_Split && k->m->nodes[maker].graph == graph &&
          !moves_constant(k, kit_in(k, maker, 0)))
        next = maker;
    }
    if (used[i])
      kit_make(k, kit_op(k, moved), KIT_INPUTS(in, n_in), KIT_ATTRS_OF(moved),
               KIT_OUT(((struct edit_output){.value = out[i]})));
  }
  kit_sweep(k, moved);
  return next;
}

// Returns the Split to look at next; NO_ID: nothing moved.
static uint32_t move(struct kit *k, uint32_t node) {
  struct split s = {.k = k, .node = node, .n = k->m->nodes[node].n_out};
  if (s.n == 0 || !find(&s)) return NO_ID;
  const uint32_t n_in = kit_n_in(k, s.moved);
  enum part *part = arena_alloc(k->env->scratch, n_in * sizeof *part);
  uint32_t *parts = arena_alloc(k->env->scratch, (size_t)n_in * s.n * sizeof *parts);
  for (uint32_t i = 0; i < n_in; i++)
    if ((part[i] = part_of(&s, i)) == PART_NONE) return NO_ID;
  s.sizes = s.plain ? NULL : sizes_of(&s);
  kit_begin(k, node, "past_split");
  for (uint32_t i = 0; i < n_in; i++)
    take_parts(&s, i, part[i], parts + (size_t)i * s.n);
  return place(&s, n_in, parts);
}

static void visit(struct kit *k, uint32_t node) {
  while (node != NO_ID && kit_op(k, node) == OP_Split)
    node = move(k, node);
}

const struct pass streamline_past_split = {
    .name = "reorder/MoveElementwisePastSplit",
    .summary = "apply elementwise operators after a Split instead of before it",
    .about = "If the result of an elementwise operator is the input of a Split, applies the "
             "operator to each output of the Split instead. At most one operand of the operator "
             "may be non-constant.",
    .needs = "types and shapes, which the pass infers",
    .promises = "the same bits for all inputs, except the sign of zeros from Min and Max",
    .exactness = EXACTNESS_EXACT,
    .loosest = EXACTNESS_ZERO,
    NAME_FILTER_ALONE,
    .run = kit_run,
    .visit = visit,
};
