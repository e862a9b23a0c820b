// tidy/common-subexpressions: of nodes that compute the same from the same, one stays.
//
//   x ─┬─ Relu ─ a ─ Add ─ y          x ── Relu ─ a ─┬─ Add ─ y
//      └─ Relu ─ b ─ Mul ─ z    ──▶                  └─ Mul ─ z
//
// One walk in the order in which nodes stand, with a table of those met: a node that has an equal in
// it gives way at once, so that what uses both sees one value by the time that it is met, and chains
// fall together from front to end.
//
//   graph            table of those met
//   n1 n2 If n4      n1 n2 │ m1 …          the nodes of a branch come on top, and are taken off
//         └ m1 m2           └ scope         behind its end
//
// So a node in a branch finds those around it that stand before, which it may use, and nobody finds
// those of a branch that was left. A node with graphs of its own gives way to none: its graphs are
// walked. Nodes are equal if they have the same operator, attributes, inputs and the same slots among
// their outputs; two operands that may change places count in either order, where the sign of a
// zero or the bits of a NaN may depend on it only as far as the cap on exactness allows. Constants
// are equal if their elements are, which must be at hand: as nodes, and as inputs of nodes, where
// each stays.
//
// What may be random, and what nobody here knows, stays (effects.h). The names of outputs stay:
// the node that stays takes over the name; where it has to keep one of its own both stay.
#include "passes/tidy/inside/common_subexpressions.h"

#include "passes/questions/name_filter.h"
#include "passes/questions/value_set.h"
#include "passes/tidy/inside/effects.h"
#include "passes/tidy/inside/tidy.h"

enum { DEEPEST = 101 }; // graphs lie at most 100 deep (load)

struct met {
  uint64_t hash;
  uint32_t node, before; // `before`: met + 1 of the same slot
};

struct step {
  uint32_t node;        // at hand
  uint32_t attr, graph; // of it, whose turn is next
  uint32_t n_met;       // before its graph began
};

struct walk {
  struct kit *k;
  struct effects effects;
  const struct name_filter *nodes;
  struct common_subexpressions_result *result;
  TABLE(struct met, met);
  TABLE(uint32_t, slots);     // met + 1
  TABLE(uint32_t, stand_ins); // by value: the first constant met with its elements + 1, or 0
  struct value_set constants; // those
};

// ---- equal nodes -------------------------------------------------------------------------------

static uint32_t domain_of(const struct model *m, uint32_t domain) {
  return span_is(model_name(m, domain), "ai.onnx") ? m->empty : domain;
}

// Two operands, in either order?
static bool commutes(struct kit *k, uint32_t node) {
  return kit_n_in(k, node) == 2 && kit_op_has(kit_op(k, node), KIT_COMMUTATIVE);
}

// Is that so to the last bit? Sums and products of NaNs may have the bits of the first, and of 0
// and -0 the larger may be the first.
static bool commutes_exactly(struct kit *k, uint32_t node) {
  const enum op op = kit_op(k, node);
  if (op == OP_And || op == OP_Or || op == OP_Xor || op == OP_Equal) return true;
  if (op == OP_BitwiseAnd || op == OP_BitwiseOr || op == OP_BitwiseXor) return true;
  const enum dtype dtype = kit_dtype(k, kit_in(k, node, 0));
  return dtype_is_integer(dtype);
}

// The elements of a constant, if they are at hand.
static bool constant(const struct kit *k, uint32_t value, const struct model_tensor **tensor,
                     struct span *raw) {
  uint32_t id;
  if (value == NO_ID || !kit_constant(k, value, &id)) return false;
  *tensor = &k->m->tensors[id];
  return model_small_value(k->m, id, raw);
}

static bool same_constant(const struct kit *k, uint32_t a, uint32_t b) {
  const struct model_tensor *x, *y;
  struct span p, q;
  if (!constant(k, a, &x, &p) || !constant(k, b, &y, &q)) return false;
  return x->dtype == y->dtype && model_same_dims(k->m, x, k->m, y) && span_eq(p, q);
}

static uint64_t mix(uint64_t h, const void *bytes, size_t n) {
  return (h ^ span_hash(span_of(bytes, n))) * 0x9e3779b97f4a7c15u;
}

static uint64_t constant_hash(const struct model *m, const struct model_tensor *t,
                              struct span raw) {
  const uint64_t h = mix(0, model_dims(m, t), t->rank * sizeof(int64_t)) + t->dtype;
  return mix(h, raw.at, raw.n);
}

static bool constant_start(void *ctx, uint32_t value, uint64_t *at) {
  const struct kit *k = ctx;
  const struct model_tensor *t;
  struct span raw;
  if (!constant(k, value, &t, &raw)) return false;
  const uint64_t hash = constant_hash(k->m, t, raw);
  *at = hash ^ hash >> 32;
  return true;
}

// What the input of a node is compared by: of constants with equal elements the first.
static uint32_t stand_in(struct walk *w, uint32_t value) {
  uint64_t start;
  if (value == NO_ID || value >= w->n_stand_ins) return value;
  if (w->stand_ins[value]) return w->stand_ins[value] - 1;
  w->stand_ins[value] = value + 1;
  if (!constant_start(w->k, value, &start)) return value;
  value_set_room(&w->constants, constant_start, w->k);
  for (uint64_t at = start;; at++) {
    const uint32_t slot = *value_set_slot(&w->constants, at);
    if (!slot) break;
    if (!same_constant(w->k, slot - 1, value)) continue;
    w->stand_ins[value] = slot;
    return slot - 1;
  }
  value_set_put(&w->constants, start, value);
  return value;
}

static uint32_t input(struct walk *w, uint32_t node, uint32_t slot) {
  return stand_in(w, kit_in(w->k, node, slot));
}

// False for a node that is equal to none.
static bool hash_of(struct walk *w, uint32_t node, uint64_t *out) {
  struct kit *k = w->k;
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[node];
  const uint32_t head[4] = {n->op_type, domain_of(m, n->domain), n->overload, kit_n_in(k, node)};
  if (n->n_out == 0 || effects_has(&w->effects, node, EFFECTS_UNKNOWN | EFFECTS_RANDOM))
    return false;
  uint64_t h = mix(0, head, sizeof head);
  if (kit_op(k, node) == OP_Constant) {
    const struct model_tensor *t;
    struct span raw;
    if (!constant(k, kit_out(k, node, 0), &t, &raw)) return false;
    *out = h + constant_hash(m, t, raw);
    return true;
  }
  if (commutes(k, node)) {
    uint32_t in[2] = {input(w, node, 0), input(w, node, 1)};
    if (in[0] > in[1]) in[0] = input(w, node, 1), in[1] = input(w, node, 0);
    h = mix(h, in, sizeof in);
  } else {
    for (uint32_t i = 0; i < head[3]; i++) {
      const uint32_t value = input(w, node, i);
      h = mix(h, &value, sizeof value);
    }
  }
  *out = h + kit_attrs_hash(k, node);
  return true;
}

static bool same_slots(const struct kit *k, uint32_t a, uint32_t b) {
  if (kit_n_out(k, a) != kit_n_out(k, b)) return false;
  for (uint32_t i = 0; i < kit_n_out(k, a); i++)
    if ((kit_out(k, a, i) == NO_ID) != (kit_out(k, b, i) == NO_ID)) return false;
  return true;
}

static bool same_inputs(struct walk *w, uint32_t a, uint32_t b) {
  if (kit_n_in(w->k, a) != kit_n_in(w->k, b)) return false;
  for (uint32_t i = 0; i < kit_n_in(w->k, a); i++)
    if (input(w, a, i) != input(w, b, i)) return false;
  return true;
}

// Do both mean the same? `exactly`: to the last bit.
static bool same(struct walk *w, uint32_t a, uint32_t b, bool *exactly) {
  struct kit *k = w->k;
  const struct model *m = k->m;
  const struct model_node *x = &m->nodes[a], *y = &m->nodes[b];
  *exactly = true;
  if (x->op_type != y->op_type || domain_of(m, x->domain) != domain_of(m, y->domain) ||
      x->overload != y->overload || !same_slots(k, a, b))
    return false;
  if (kit_op(k, a) == OP_Constant) return same_constant(k, kit_out(k, a, 0), kit_out(k, b, 0));
  if (!same_inputs(w, a, b)) {
    if (!commutes(k, a) || input(w, a, 0) != input(w, b, 1) || input(w, a, 1) != input(w, b, 0))
      return false;
    *exactly = commutes_exactly(k, a);
  }
  return kit_same_attrs(k, a, b);
}

// ---- one node ----------------------------------------------------------------------------------

// Why `node` cannot give way to `other`, or NULL.
static const char *obstacle(struct kit *k, uint32_t node, uint32_t other) {
  const struct model *m = k->m;
  const uint32_t home = kit_home(k, m->nodes[node].graph);
  uint32_t tensor;
  if (m->graphs[m->nodes[other].graph].depth < m->graphs[home].depth) return "foreign_body";
  if (m->nodes[other].graph != m->nodes[node].graph &&
      kit_constant(k, kit_out(k, node, 0), &tensor) && kit_is_empty(k, tensor))
    return "empty_weight";
  for (uint32_t i = 0; i < k->m->nodes[node].n_out; i++) {
    const uint32_t from = kit_out(k, node, i), to = kit_out(k, other, i);
    if (from == NO_ID || edit_can_forward(k->e, from, to)) continue;
    if (!kit_is_output(k, from)) return "hidden";
    if (k->m->values[from].graph != k->m->values[to].graph) return "output_of_body";
    return kit_is_output(k, to) ? "both_outputs" : "hidden";
  }
  return NULL;
}

static void give_way(struct kit *k, uint32_t node, uint32_t other) {
  struct model_type of, known;
  kit_begin(k, node, "equal");
  for (uint32_t i = 0; i < k->m->nodes[node].n_out; i++) {
    const uint32_t from = kit_out(k, node, i), to = kit_out(k, other, i);
    if (from == NO_ID) continue;
    // What was declared of the one holds of the other: it would be forgotten with its value.
    if (kit_type(k, from, &of) && (!kit_type(k, to, &known) || (of.ranked && !known.ranked)))
      kit_note_type(k, to, &of);
    edit_forward(k->e, from, to);
  }
  edit_remove_node(k->e, node);
}

static void put(struct walk *w, uint32_t node, uint64_t hash, uint32_t *slot) {
  *TABLE_PUSH(w, met) = (struct met){hash, node, *slot};
  *slot = w->n_met;
}

static void visit(struct walk *w, uint32_t node) {
  struct kit *k = w->k;
  uint64_t hash;
  bool exactly;
  w->result->visited++;
  if (!hash_of(w, node, &hash)) return;
  uint32_t *slot = &w->slots[(hash ^ hash >> 32) & (w->n_slots - 1)];
  for (uint32_t i = *slot; i != 0; i = w->met[i - 1].before) {
    const struct met *x = &w->met[i - 1];
    if (x->hash != hash) continue;
    w->result->compared++;
    if (!same(w, x->node, node, &exactly)) continue;
    if (!exactly && k->env->exactness < EXACTNESS_ZERO) {
      w->result->held_back++;
      continue;
    }
    const char *why = name_filter_refuses(w->nodes, model_name_str(k->m, k->m->nodes[node].name));
    if (!why) why = obstacle(k, node, x->node);
    if (!why) {
      give_way(k, node, x->node);
      w->result->merged++;
      return;
    }
    kit_skipped(k, node, why);
    // In a graph further in, it stands for what could not be seen or used from there.
    if (k->m->nodes[x->node].graph == k->m->nodes[node].graph) return;
    break;
  }
  put(w, node, hash, slot);
}

// ---- the walk ----------------------------------------------------------------------------------

// The next graph in the node's attributes, or NO_ID.
static uint32_t next_graph(const struct model *m, struct step *p) {
  const struct model_node *n = &m->nodes[p->node];
  for (; p->attr < n->n_attrs; p->attr++, p->graph = 0) {
    const struct model_attr *a = &m->attrs[n->attrs + p->attr];
    if (a->flags & ATTR_DEAD || (a->type != ATTR_GRAPH && a->type != ATTR_GRAPHS)) continue;
    if (a->first != NO_ID && p->graph < a->count) return a->first + p->graph++;
  }
  return NO_ID;
}

static void leave(struct walk *w, uint32_t n_met) {
  while (w->n_met > n_met) {
    const struct met *x = &w->met[--w->n_met];
    w->slots[(x->hash ^ x->hash >> 32) & (w->n_slots - 1)] = x->before;
  }
}

// A node with graphs is left while they are walked, and come back to.
static void walk_from(struct walk *w, uint32_t graph) {
  const struct model *m = w->k->m;
  struct step stack[DEEPEST + 1];
  uint32_t depth = 0;
  stack[depth++] = (struct step){.node = m->graphs[graph].first_node};
  while (depth > 0) {
    struct step *p = &stack[depth - 1];
    if (p->node == NO_ID) {
      leave(w, p->n_met);
      depth--;
      continue;
    }
    const uint32_t next = m->nodes[p->node].next;
    if (!model_has_bodies(m, p->node)) {
      visit(w, p->node);
      *p = (struct step){.node = next, .n_met = p->n_met};
      continue;
    }
    const uint32_t inner = next_graph(m, p);
    if (inner == NO_ID || depth > DEEPEST)
      *p = (struct step){.node = next, .n_met = p->n_met};
    else
      stack[depth++] = (struct step){.node = m->graphs[inner].first_node, .n_met = w->n_met};
  }
}

int common_subexpressions(struct pass_env *env, const struct name_filter *nodes,
                          struct common_subexpressions_result *result, struct err *err) {
  struct kit k;
  struct walk w = {.k = &k, .nodes = nodes, .result = result};
  uint32_t n = 16;
  *result = (struct common_subexpressions_result){0};
  kit_init(&k, env, env->pass->name);
  effects_find(&w.effects, &k);
  while (n < env->m->n_nodes)
    n *= 2;
  TABLE_ADD(&w, slots, n);
  if (env->m->n_values) TABLE_ADD(&w, stand_ins, env->m->n_values);
  for (uint32_t g = 0; kit_graph(&k, &g); g++)
    if (env->m->graphs[g].parent == NO_ID) walk_from(&w, g);
  effects_done(&w.effects);
  TABLES_FREE(&w, met, slots, stand_ins);
  value_set_free(&w.constants);
  return kit_done(&k, err);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct common_subexpressions_result counts;
  name_filter_warn(&(const struct name_filter *){with}, 1, env);
  const int rc = common_subexpressions(env, with, &counts, err);
  env->result->held_back = counts.held_back;
  return rc;
}

const struct pass tidy_common_subexpressions = {
    .name = "tidy/common-subexpressions",
    .keys = "eliminate eliminate-common-subexpression",
    .classes = "EliminateCommonSubexpression",
    .summary = "merge nodes that compute the same values",
    .about = "Replaces nodes with the same operator, attributes and inputs by the first of them, "
             "including Constants with equal elements. Constants that nodes use are equal if "
             "their elements are equal.",
    .promises = "all outputs of the model are unchanged, including their names",
    .exactness = EXACTNESS_EXACT,
    .loosest = EXACTNESS_ZERO,
    NAME_FILTER_ALONE,
    .run = run,
};
