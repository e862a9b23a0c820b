// Constant folding without a rule: every operator over constants becomes a constant, as rules_fold.c does with the
// operators in results of rules.
//
//   w [512,256] ── Transpose ──▶ t ── MatMul        t' = transpose(w)      a recipe: no weight is read
//
// One walk in the order of the nodes: a constant that it makes is a constant for the nodes after it. It makes no result
// that is larger than the constants that are removed with the node and larger than the limit, and it makes no floats of
// the codes of quantized weights, which would undo the quantization. The cap says how exactly numbers must stay, as it
// does for a rule.
#include "passes/rules/inside/rules_inside.h"

#include "base/table.h"
#include "infer/infer.h"

enum { SPLIT_PARTS = 1024 };

static bool is_plain_node(struct rules_run *run, uint32_t node) {
  struct kit *k = &run->k;
  const enum op op = kit_op(k, node);
  const struct kit_op_row *row = kit_op_row(op);
  if (op == OP_NONE || op == OP_Constant || op == OP_Identity || op == OP_DequantizeLinear ||
      row->domain != KIT_ONNX || kit_op_has(op, KIT_RANDOM) || kit_op_has(op, KIT_GRAPHS) ||
      kit_refers(k->m, node))
    return false;
  const uint32_t value = kit_out(k, node, 0);
  if (op == OP_Split)
    return run->opset >= 2; // its lengths and its outputs are looked at one by one
  // Of reductions only the form of the axes was changed, and both are read.
  if (!kit_op_has(op, KIT_REDUCES) && !rules_meant(run, op, node)) return false;
  return value != NO_ID && k->m->nodes[node].n_out == 1 && !kit_is_output(k, value) &&
         !kit_unused(k, value);
}

// An Expand of a constant is left as it is, since its result is larger. A node that takes the result has a constant result too, if all elements
// can be computed at once. UNKNOWN: they cannot, or the value is made by another operator.
static struct rules_value expanded(struct rules_run *run, uint32_t value) {
  struct kit *k = &run->k;
  if (kit_maker_op(k, value) != OP_Expand) return rules_unknown();
  const uint32_t maker = kit_maker(k, value);
  const struct rules_value args[2] = {rules_tensor(kit_in(k, maker, 0)),
                                      rules_tensor(kit_in(k, maker, 1))};
  const struct rules_term t = rules_node_term(run, maker, args, 2);
  if (!rules_is_constant(run, &args[0]) || !rules_is_constant(run, &args[1]))
    return rules_unknown();
  const struct rules_type type = rules_infer(run, &t);
  return type.ranked ? rules_step_expand(run, &args[0], type.dims, type.rank) : rules_unknown();
}

// The node as a term over constants. False: an operand is no constant.
static bool as_term(struct rules_run *run, uint32_t node, struct rules_term *t) {
  struct kit *k = &run->k;
  const uint32_t n = kit_n_in(k, node);
  struct rules_value *args = arena_alloc(&run->match, (n + (size_t)1) * sizeof *args);
  for (uint32_t i = 0; i < n; i++) {
    args[i] = rules_tensor(kit_in(k, node, i));
    if (args[i].kind == RULES_ABSENT || rules_const(run, args[i].id)) continue;
    args[i] = expanded(run, args[i].id);
    if (args[i].kind == RULES_UNKNOWN) return false;
  }
  *t = rules_node_term(run, node, args, n);
  return n > 0;
}

// The bytes of constants that only this node uses.
static uint64_t freed(struct rules_run *run, uint32_t node) {
  struct kit *k = &run->k;
  uint64_t bytes = 0;
  uint32_t tensor;
  for (uint32_t i = 0; i < kit_n_in(k, node); i++) {
    const uint32_t value = kit_in(k, node, i);
    if (value != NO_ID && kit_constant(k, value, &tensor) &&
        kit_constant_use_count(k, value, 2) == 1)
      bytes += k->m->tensors[tensor].bytes;
  }
  return bytes;
}

static bool fits(struct rules_run *run, uint32_t node, const struct rules_value *made,
                 uint64_t limit) {
  const struct rules_type t = rules_type_of(run, made);
  uint64_t count, bytes;
  if (!t.ranked || !dims_product(t.dims, t.rank, &count) || count == 0 ||
      !dtype_bytes(t.dtype, count, &bytes))
    return false;
  return bytes <= limit || bytes <= freed(run, node);
}

// The operand that is a weight, if there is one only: the result is another form of it, and messages about the
// result name it.
static uint32_t only_weight(struct rules_run *run, const struct rules_term *t) {
  uint32_t tensor, found = NO_ID;
  for (uint32_t i = 0; i < t->n_args; i++) {
    if (t->args[i].kind != RULES_TENSOR || !kit_constant(&run->k, t->args[i].id, &tensor) ||
        run->k.m->tensors[tensor].bytes <= SMALL_ANY_BYTES)
      continue;
    if (found != NO_ID) return NO_ID;
    found = tensor;
  }
  return found;
}

// A constant of this recipe, which stands for `weight` if there is one.
static uint32_t new_constant(struct kit *k, uint32_t recipe, uint32_t weight) {
  const uint32_t value = kit_new_tensor(k, "constant", recipe);
  // The newest tensor: an initializer, or in the body of a function the value of a Constant node.
  if (weight != NO_ID)
    edit_stands_for(k->e, k->m->n_tensors - 1, weight, k->m->tensors[weight].name);
  return value;
}

static void fold_one(struct rules_run *run, const struct rules_fold_limits *limits, uint32_t node,
                     const struct rules_term *t) {
  struct kit *k = &run->k;
  struct rules_value made;
  if (rules_fold(run, t, &made) != RULES_FOLDED || made.kind != RULES_TERM ||
      !fits(run, node, &made, limits->bytes))
    return;
  const uint32_t recipe = rules_recipe_of(run, &made);
  if (recipe == NO_ID) return;
  kit_begin(k, node, "constant");
  kit_bypass(k, node, new_constant(k, recipe, only_weight(run, t)));
}

// The lengths of the parts of a Split: those it is given, by an input or before opset 13 an attribute, or equal ones of which the last may be
// shorter. False: not known.
static bool part_lengths(struct rules_run *run, const struct rules_term *t, uint32_t n,
                         int64_t whole, int64_t *lengths) {
  const int64_t *given;
  uint32_t count;
  int64_t left = whole;
  bool has = t->n_args > 1 && t->args[1].kind != RULES_ABSENT;
  if (has && !rules_constant_ints(run, &t->args[1], &given, &count)) return false;
  if (!has && run->opset < 13)
    has = kit_attr_ints(&run->k, t->attrs_of, "split", &given, &count) && count > 0;
  if (has && count != n) return false;
  for (uint32_t i = 0; i < n; i++) {
    const int64_t even = (whole + n - 1) / n;
    lengths[i] = has ? given[i] : even < left ? even : left;
    if (lengths[i] < 1 || lengths[i] > left) return false;
    left -= lengths[i];
  }
  return left == 0;
}

// A Split of a constant: each part that is used is a slice of it.
static void fold_split(struct rules_run *run, const struct rules_fold_limits *limits, uint32_t node,
                       const struct rules_term *t) {
  struct kit *k = &run->k;
  const uint32_t n = kit_n_out(k, node);
  const struct rules_type of = rules_type_of(run, &t->args[0]);
  int64_t axis, lengths[SPLIT_PARTS], starts[RECIPE_MAX_RANK] = {0}, steps[RECIPE_MAX_RANK],
                                      dims[RECIPE_MAX_RANK];
  uint32_t recipes[SPLIT_PARTS];
  if (n == 0 || n > SPLIT_PARTS || !of.ranked || !rules_attr_int(run, t, "axis", 0, &axis)) return;
  if (axis < 0) axis += of.rank;
  if (axis < 0 || axis >= of.rank || !part_lengths(run, t, n, of.dims[axis], lengths)) return;
  for (uint32_t i = 0; i < of.rank; i++)
    steps[i] = 1, dims[i] = of.dims[i];
  for (uint32_t i = 0; i < n; starts[axis] += lengths[i++]) {
    const uint32_t value = kit_out(k, node, i);
    recipes[i] = NO_ID;
    if (value == NO_ID || kit_unused(k, value)) continue;
    dims[axis] = lengths[i];
    const struct rules_value made = rules_step_slice(run, &t->args[0], starts, steps, dims);
    recipes[i] = rules_recipe_of(run, &made);
    if (recipes[i] == NO_ID || kit_is_output(k, value) || !fits(run, node, &made, limits->bytes))
      return;
  }
  kit_begin(k, node, "constant");
  for (uint32_t i = 0; i < n; i++)
    if (recipes[i] != NO_ID)
      edit_replace_uses(k->e, kit_out(k, node, i), new_constant(k, recipes[i], NO_ID));
  kit_sweep(k, node);
}

static void visit(struct rules_run *run, const struct rules_fold_limits *limits, uint32_t node) {
  struct kit *k = &run->k;
  struct rules_term t;
  if (!is_plain_node(run, node)) return;
  arena_reset(&run->match);
  arena_reset(&k->site);
  run->n_terms = run->n_wanted = 0;
  if (name_filter_refuses(limits->nodes, model_name_str(k->m, k->m->nodes[node].name))) return;
  if (!as_term(run, node, &t))
    rules_fold_filled(run, node);
  else if (t.op == OP_Split)
    fold_split(run, limits, node, &t);
  else
    fold_one(run, limits, node, &t);
}

static bool has_bodies(const struct model *m) {
  for (uint32_t g = 0; g < m->n_graphs; g++)
    if (m->graphs[g].kind == GRAPH_SUB && !(m->graphs[g].flags & GRAPH_DEAD)) return true;
  return false;
}

// The facts of the model: those of earlier passes, or new ones where no earlier pass infers. NULL: they are not needed.
static struct infer *facts_of(const struct pass_env *env) {
  if (env->infer || !has_bodies(env->m)) return env->infer;
  struct infer *own = infer_new(env->m, NULL);
  infer_all(own, NULL);
  return own;
}

int rules_fold_constants(struct pass_env *env, const struct rules_fold_limits *limits,
                         struct err *err) {
  // Without questions about weights.
  const struct rules_options options = {.cap = env->exactness, .once = true};
  const struct rules_rule rule = {.exactness = (uint8_t)env->exactness};
  struct rules_run run = {.book = &rules_house, .options = &options, .rule = &rule};
  struct infer *const facts = facts_of(env);
  kit_init(&run.k, env, env->pass->name);
  for (uint32_t g = 0; kit_graph(&run.k, &g); g++) {
    run.graph = g;
    run.opset = kit_opset(&run.k, g);
    if (run.opset == 0) continue;
    for (uint32_t n = env->m->graphs[g].first_node, next; n != NO_ID; n = next) {
      next = env->m->nodes[n].next;
      const uint32_t value = kit_out(&run.k, n, 0);
      if (!facts || value == NO_ID || !infer_leads_to_stuck(facts, value)) visit(&run, limits, n);
    }
  }
  if (facts != env->infer) infer_free(facts);
  TABLES_FREE(&run, sizes, fact_of, facts, wanted, asking, terms);
  arena_free(&run.match);
  arena_free(&run.lists);
  return kit_done(&run.k, err);
}
