// `cast --graph`: float32 becomes float16 or bfloat16 (or either of these float32) in the whole graph.
//
//   x float32 ─▶ MatMul ─▶ TopK ─▶ Add ─▶ y      x float16 ─▶ MatMul ─▶ Cast ─▶ TopK ─▶ Cast ─▶ Add ─▶ y
//                  ▲ w                                          ▲ w float16
//
// Three steps. First every node is said to change or to stay: what the operator's signature allows, the
// table of operators that the runtime has no kernels for (cast_graph_kept.def), and the user's words.
// Then every value gets one type: that which its node makes, or for a constant the one that those who
// use it want. Then both are written: types, recipes of weights, attributes that name a type, and where
// a node wants a value in the other type one Cast behind the value, whoever else wants it too.
//
// Types are those that inference finds, and a value of which none is known keeps its node as it is. The
// body of a function is seen once, whatever calls it: what holds of its values holds in all calls, and if a
// call must stay, so does the function, with what it calls.
//
// Nothing is read: weights become casts of themselves, which the stream checks for overflow. Only of small
// constants, whose elements are at hand, three habits are known: the lowest float32, which stands for
// minus infinity in masks, becomes the lowest of the type; what bounds or masks saturates (cast_graph_masks.c);
// and a number alone (an epsilon) that would become 0 becomes the least number that is not.
#include "passes/cast/inside/cast_graph.h"
#include "passes/cast/inside/cast_graph_masks.h"
#include "passes/cast/inside/cast_graph_ranges.h"

#include "base/table.h"
#include "model/model_calls.h"
#include "passes/kit/kit.h"
#include "passes/kit/weights.h"
#include "schema/schema.h"

#include <math.h>

enum { COPIED_ELEMENTS = 1024 };
#define LOWEST 1e38 // magnitudes from here on are bounds, not numbers

enum wish { WISH_ANY, WISH_OLD, WISH_NEW };

struct half {
  struct kit k;
  const struct cast_graph_options *o;
  struct model_calls calls;
  struct schema_names names;
  struct cast_graph_masks *masks;   // FLOAT16: what saturates; else NULL
  struct cast_graph_ranges *ranges; // NULL: none are given
  TABLE(uint8_t, old);         // by value id: its dtype, of tensors whose dtype changes; else 0
  TABLE(uint8_t, now);         // the dtype that it gets
  TABLE(uint8_t, held);        // it holds such tensors without being one: a sequence, an optional
  TABLE(const char *, stays);  // by node id: why it stays as it is, or NULL
  TABLE(uint32_t, unfit);      // by node id: 1 + the value by whose range it stays
  TABLE(uint8_t, graph_stays); // by graph id: a function's, with all inside, whose calls stay
  TABLE(uint32_t, first);      // by graph id: its first node, before any Cast was put there
  uint32_t n_before;           // values that the model had
};

static bool changes(const struct half *h, enum dtype dtype) {
  if (h->o->to == DTYPE_FLOAT) return dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16;
  return dtype == DTYPE_FLOAT;
}

// ---- what is there -------------------------------------------------------------------------------

static void note_types(struct half *h) {
  struct infer *in = kit_infer(&h->k);
  const struct model *m = h->k.m;
  h->n_before = m->n_values;
  TABLE_ADD(h, old, m->n_values);
  TABLE_ADD(h, now, m->n_values);
  TABLE_ADD(h, held, m->n_values);
  for (uint32_t v = 0; v < m->n_values; v++) {
    struct infer_type t;
    if (m->values[v].flags & VALUE_DEAD) continue;
    if (infer_type_of(in, v, &t) && t.kind != INFER_TENSOR) {
      h->held[v] = changes(h, t.dtype) || t.dtype == DTYPE_UNDEFINED;
      continue;
    }
    const enum dtype dtype = kit_dtype(&h->k, v);
    // Elements of another type than the one that is declared, which no runtime takes, stay.
    if (m->values[v].kind == VALUE_INITIALIZER && m->tensors[m->values[v].def].dtype != dtype)
      continue;
    if (changes(h, dtype)) h->old[v] = h->now[v] = (uint8_t)dtype;
  }
}

static bool is_flow(enum op op) {
  return op == OP_If || op == OP_Loop || op == OP_Scan;
}

// ---- nodes that stay -----------------------------------------------------------------------------

static const struct {
  const char *name;
  enum op op;
} kept[] = {
#define KEPT(id) {#id, OP_##id},
#include "passes/cast/cast_graph_kept.def"
#undef KEPT
};

static bool is_kept_operator(const struct half *h, uint32_t node) {
  const struct model *m = h->k.m;
  const struct span name = model_name(m, m->nodes[node].op_type);
  for (uint32_t i = 0; i < h->o->n_keep_op; i++)
    if (span_is(name, h->o->keep_op[i])) return true;
  return false;
}

// Of an operator without kernels of the narrow type in ONNX Runtime. Not asked on the way back.
static bool is_in_table(struct half *h, uint32_t node) {
  const enum op op = kit_op(&h->k, node);
  for (size_t i = 0; h->o->to != DTYPE_FLOAT && op != OP_NONE && i < sizeof kept / sizeof *kept;
       i++)
    if (kept[i].op == op) return true;
  return false;
}

// Scatter that adds, multiplies or compares has no kernel of float16.
static bool scatters_with(struct half *h, uint32_t node) {
  const enum op op = kit_op(&h->k, node);
  struct span how;
  if (h->o->to == DTYPE_FLOAT || (op != OP_ScatterElements && op != OP_ScatterND)) return false;
  return !kit_attr_string(&h->k, node, "reduction", "none", &how) || !span_is(how, "none");
}

static bool is_excluded(const struct half *h, const char *name) {
  for (uint32_t i = 0; *name && i < h->o->exclude->n; i++)
    if (name_pattern_matches(&h->o->exclude->at[i], name)) return true;
  return false;
}

// Does it make whichever type its attribute says?
static bool makes_any_type(enum op op) {
  return op == OP_Cast || op == OP_ConstantOfShape || op == OP_ms_GatherPacked;
}

// Is an attribute absent whose absence means a type that changes?
static bool implies_type(const struct half *h, uint32_t node, const struct schema_signature *s) {
  for (uint32_t i = 0; i < s->n_attributes; i++) {
    const struct schema_attribute *a = &s->attributes[i];
    if (a->says && a->kind == SCHEMA_INT && !model_attr_named(h->k.m, node, a->name))
      return changes(h, (enum dtype)a->u.i);
  }
  return false;
}

// Does an attribute name the type of what the node makes, in a way that is not known here?
static bool makes_type(struct half *h, uint32_t node, const struct schema_signature *s) {
  static const char *const names[] = {"to", "dtype", "output_dtype", "output_datatype"};
  static const char *const flags[] = {"output_bf16", "output_fp16"};
  const enum op op = kit_op(&h->k, node);
  const bool constant = model_op_is(h->k.m, node, "Constant");
  if (op == OP_Cast || op == OP_DequantizeLinear || op == OP_ms_GatherPacked || constant)
    return kit_refers(h->k.m, node);
  if (implies_type(h, node, s)) return true;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    const struct model_attr *a = model_attr_named(h->k.m, node, flags[i]);
    if (a && (a->type != ATTR_INT || a->u.i)) return true;
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const struct model_attr *a = model_attr_named(h->k.m, node, names[i]);
    if (a && (a->type != ATTR_INT || changes(h, (enum dtype)a->u.i))) return true;
  }
  if (op == OP_ConstantOfShape) return kit_refers(h->k.m, node);
  // Tensors of a node's own, as a TreeEnsemble has, are of the type that it computes in.
  const struct model_node *n = &h->k.m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &h->k.m->attrs[n->attrs + i];
    if (a->type != ATTR_TENSOR) continue;
    if (a->first == NO_ID) return true; // the call of the function says which
    if (changes(h, (enum dtype)h->k.m->tensors[a->first].dtype)) return true;
  }
  return false;
}

// Is a value among them that a narrower type may be of, and of which no type is known?
static bool has_unknown(struct half *h, uint32_t node, const struct schema_signature *s) {
  struct kit *k = &h->k;
  const uint32_t n_in = kit_n_in(k, node), n_out = kit_n_out(k, node);
  for (uint32_t i = 0; i < n_in + n_out; i++) {
    const uint32_t v = i < n_in ? kit_in(k, node, i) : kit_out(k, node, i - n_in);
    const struct schema_formal *f = i < n_in ? schema_input(s, i) : schema_output(s, i - n_in);
    if (v == NO_ID || !f || h->held[v] || kit_dtype(k, v) != DTYPE_UNDEFINED) continue;
    if (schema_takes(f->types, DTYPE_FLOAT)) return true;
  }
  return false;
}

static bool has_held(struct half *h, uint32_t node) {
  for (uint32_t i = 0; i < kit_n_in(&h->k, node); i++)
    if (kit_in(&h->k, node, i) != NO_ID && h->held[kit_in(&h->k, node, i)]) return true;
  for (uint32_t i = 0; i < kit_n_out(&h->k, node); i++)
    if (kit_out(&h->k, node, i) != NO_ID && h->held[kit_out(&h->k, node, i)]) return true;
  return false;
}

// Does control flow carry a tensor that changes, and does its operator not take the type? All that it carries is of one
// list of types, whatever each is.
static bool flow_stays(struct half *h, uint32_t node, const struct schema_signature *s) {
  struct kit *k = &h->k;
  const uint32_t n_in = kit_n_in(k, node), n_out = kit_n_out(k, node);
  for (uint32_t i = 0; i < n_in + n_out; i++) {
    const uint32_t v = i < n_in ? kit_in(k, node, i) : kit_out(k, node, i - n_in);
    const struct schema_formal *f = i < n_in ? schema_input(s, i) : schema_output(s, i - n_in);
    if (v != NO_ID && f && h->old[v] && !schema_takes(f->types, h->o->to)) return true;
  }
  return false;
}

static const char *why_it_stays(struct half *h, uint32_t node) {
  const struct model *m = h->k.m;
  if (is_kept_operator(h, node)) return "kept_operator";
  if (is_excluded(h, model_name_str(m, m->nodes[node].name))) return "excluded";
  if (model_calls_callee(&h->calls, node) != NO_ID) return NULL;
  if (is_in_table(h, node) || scatters_with(h, node)) return "kept_operator";
  const struct schema_signature *s = schema_of_node_at(&h->names, node);
  if (!s) return "unknown_operator";
  if (is_flow(kit_op(&h->k, node))) return flow_stays(h, node, s) ? "type_not_allowed" : NULL;
  if (kit_op_has(kit_op(&h->k, node), KIT_GRAPHS)) return "kept_operator";
  if (has_held(h, node)) return "sequence";
  if (makes_type(h, node, s)) return "makes_type";
  return has_unknown(h, node, s) ? "type_unknown" : NULL;
}

// From which there is a Cast of the types.
static int64_t least_opset(const struct half *h) {
  return h->o->to == DTYPE_BFLOAT16 ? 13 : 6;
}

// A function stays if a call of it does, or one of its inputs or outputs is of one type here and of another there.
static bool function_stays(struct half *h, uint32_t function) {
  const struct model *m = h->k.m;
  const struct model_graph *g = &m->graphs[m->functions[function].graph];
  if (kit_opset(&h->k, m->functions[function].graph) < least_opset(h)) return true;
  for (uint32_t i = 0; i < g->n_inputs + g->n_outputs; i++) {
    const uint32_t v =
        i < g->n_inputs ? m->graph_io[g->inputs + i] : m->graph_io[g->outputs + i - g->n_inputs];
    if (v != NO_ID && (h->held[v] || kit_dtype(&h->k, v) == DTYPE_UNDEFINED)) return true;
  }
  return false;
}

static void settle_functions(struct half *h) {
  const struct model *m = h->k.m;
  for (uint32_t f = 0; f < m->n_functions; f++)
    if (!(m->functions[f].flags & FUNCTION_DEAD))
      h->graph_stays[m->functions[f].graph] = function_stays(h, f);
  for (bool more = m->n_functions > 0; more;) {
    more = false;
    for (uint32_t n = 0; n < m->n_nodes; n++) {
      if (m->nodes[n].flags & NODE_DEAD) continue;
      const uint32_t f = model_calls_callee(&h->calls, n);
      if (f == NO_ID) continue;
      uint8_t *callee = &h->graph_stays[m->functions[f].graph];
      const bool stays = h->stays[n] || h->graph_stays[model_root_graph(m, m->nodes[n].graph)];
      if (stays && !*callee) *callee = 1, more = true;
      if (*callee && !h->stays[n]) h->stays[n] = "function", more = true;
    }
  }
}

static void settle_nodes(struct half *h) {
  const struct model *m = h->k.m;
  TABLE_ADD(h, stays, m->n_nodes);
  TABLE_ADD(h, unfit, m->n_nodes);
  TABLE_ADD(h, graph_stays, m->n_graphs);
  TABLE_ADD(h, first, m->n_graphs);
  for (uint32_t n = 0; n < m->n_nodes; n++)
    if (!(m->nodes[n].flags & NODE_DEAD)) h->stays[n] = why_it_stays(h, n);
  for (uint32_t n = 0; n < m->n_nodes && h->ranges; n++) {
    uint32_t value;
    if (h->stays[n] || m->nodes[n].flags & NODE_DEAD) continue;
    h->stays[n] = cast_graph_range_keeps(h->ranges, n, &value);
    h->unfit[n] = h->stays[n] ? value + 1 : 0;
  }
  settle_functions(h);
  for (uint32_t n = 0; n < m->n_nodes; n++)
    if (!h->stays[n] && !(m->nodes[n].flags & NODE_DEAD)) {
      const uint32_t root = model_root_graph(m, m->nodes[n].graph);
      if (h->graph_stays[root] || weights_in_training(m, m->nodes[n].graph))
        h->stays[n] = "function";
    }
  for (uint32_t g = 0; g < m->n_graphs; g++)
    h->first[g] = m->graphs[g].first_node;
}

// ---- what nodes want -----------------------------------------------------------------------------

static enum wish formal_wish(const struct half *h, const struct schema_formal *f) {
  return f && schema_takes(f->types, h->o->to) ? WISH_NEW : WISH_OLD;
}

// Of an input. One that stands apart from the first stays a float: it may have the type of the first one, but need not.
static enum wish input_wish(struct half *h, uint32_t node, uint32_t slot) {
  const struct schema_signature *s = schema_of_node_at(&h->names, node);
  const struct schema_formal *f = schema_input(s, slot);
  const bool apart =
      h->o->to != DTYPE_FLOAT && schema_of_node(&h->names, node)->flags & SCHEMA_APART;
  return apart && f && f->variable != s->inputs[0].variable ? WISH_OLD : formal_wish(h, f);
}

// Of what the node uses in the slot.
static enum wish wish_of(struct half *h, uint32_t node, uint32_t slot) {
  if (h->stays[node]) return WISH_OLD;
  const enum op op = kit_op(&h->k, node);
  if (op == OP_Cast || op == OP_Shape || op == OP_Size || (op == OP_CastLike && slot == 0))
    return WISH_ANY;
  if (is_flow(op) || model_calls_callee(&h->calls, node) != NO_ID) return WISH_NEW;
  return input_wish(h, node, slot);
}

// Of what a graph lists as an output, and of its inputs.
static enum wish graph_wish(struct half *h, uint32_t graph) {
  const struct model *m = h->k.m;
  const uint32_t owner = model_graph_node(m, graph);
  if (m->graphs[graph].kind == GRAPH_TRAINING || h->graph_stays[model_root_graph(m, graph)])
    return WISH_OLD;
  if (owner != NO_ID)
    return h->stays[owner] || !is_flow(kit_op(&h->k, owner)) ? WISH_OLD : WISH_NEW;
  if (m->graphs[graph].kind == GRAPH_MAIN && h->o->keep_io) return WISH_OLD;
  return WISH_NEW;
}

static bool is_unfit(const struct half *h, uint32_t value) {
  return h->ranges && cast_graph_is_unfit(h->ranges, value);
}

static enum wish listing_wish(struct half *h, uint32_t value) {
  if (!kit_is_output(&h->k, value)) return WISH_ANY;
  if (is_unfit(h, value)) return WISH_OLD;
  return graph_wish(h, h->k.m->values[value].graph);
}

// Do all who use the value want it as it was?
static bool all_want_old(struct half *h, uint32_t value) {
  const enum wish listing = listing_wish(h, value);
  bool any = listing == WISH_OLD;
  if (listing == WISH_NEW) return false;
  for (struct kit_use u = kit_uses(&h->k, value); kit_use(&h->k, &u);) {
    const enum wish w = wish_of(h, u.node, u.slot);
    if (w == WISH_NEW) return false;
    any = any || w == WISH_OLD;
  }
  return any;
}

static bool some_want(struct half *h, uint32_t value, enum wish wish) {
  for (struct kit_use u = kit_uses(&h->k, value); kit_use(&h->k, &u);)
    if (wish_of(h, u.node, u.slot) == wish) return true;
  return listing_wish(h, value) == wish;
}

// ---- types of values -----------------------------------------------------------------------------

static bool is_weight(const struct model *m, uint32_t value, struct weight *w) {
  const struct model_value *v = &m->values[value];
  if (v->kind == VALUE_INITIALIZER) return weights_at(m, v->def, w);
  if (v->kind != VALUE_NODE_OUTPUT || !model_op_is(m, v->def, "Constant")) return false;
  const struct model_node *n = &m->nodes[v->def];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (a->first == NO_ID) continue; // an argument of the function
    if ((a->type == ATTR_TENSOR || model_attr_is_constant(m, a)) && weights_at(m, a->first, w))
      return w->value == value;
  }
  return false;
}

static enum wish made_by(struct half *h, uint32_t value) {
  struct kit *k = &h->k;
  const uint32_t node = k->m->values[value].def;
  const enum op op = kit_op(k, node);
  uint32_t slot = 0;
  if (h->stays[node]) return WISH_OLD;
  if (makes_any_type(op)) {
    if (formal_wish(h, schema_output(schema_of_node_at(&h->names, node), 0)) == WISH_OLD)
      return WISH_OLD;
    return is_unfit(h, value) || all_want_old(h, value) ? WISH_OLD : WISH_NEW;
  }
  if (is_flow(op) || model_calls_callee(&h->calls, node) != NO_ID) return WISH_NEW;
  while (kit_out(k, node, slot) != value)
    slot++;
  // Its statistics are of the type that stash_type says.
  if (op == OP_LayerNormalization && slot > 0) return WISH_OLD;
  return formal_wish(h, schema_output(schema_of_node_at(&h->names, node), slot));
}

static enum wish weight_type(struct half *h, const struct weight *w) {
  const enum wish listing = listing_wish(h, w->value);
  const bool overridable = kit_is_overridable(h->k.m, w->value);
  if (weights_named(&h->k, h->o->exclude, w) && !some_want(h, w->value, WISH_NEW)) return WISH_OLD;
  if (!edit_tensor_readable(h->k.e, w->tensor) || is_unfit(h, w->value)) return WISH_OLD;
  if (overridable) return graph_wish(h, w->graph);
  if (listing != WISH_ANY) return listing;
  return some_want(h, w->value, WISH_OLD) ? WISH_OLD : WISH_NEW;
}

static enum wish type_of(struct half *h, uint32_t value) {
  const struct model *m = h->k.m;
  const struct model_value *v = &m->values[value];
  struct weight w;
  if (h->graph_stays[model_root_graph(m, v->graph)] || weights_in_training(m, v->graph))
    return WISH_OLD;
  if (is_weight(m, value, &w)) return weight_type(h, &w);
  switch ((enum value_kind)v->kind) {
  case VALUE_INPUT: return is_unfit(h, value) ? WISH_OLD : graph_wish(h, v->graph);
  case VALUE_NODE_OUTPUT: return made_by(h, value);
  default: return WISH_OLD;
  }
}

static void settle_values(struct half *h) {
  for (uint32_t v = 0; v < h->n_before; v++)
    if (h->old[v] && type_of(h, v) == WISH_NEW) h->now[v] = (uint8_t)h->o->to;
}

// ---- weights -------------------------------------------------------------------------------------

// Are the elements at hand, without a look at weights?
static bool is_at_hand(const struct half *h, const struct weight *w) {
  struct span raw;
  return model_small_value(h->k.m, w->tensor, &raw);
}

// The only element of a float32 tensor, at hand: is it one?
static bool is_a_bound(const struct half *h, uint32_t tensor) {
  struct span raw;
  float x;
  if (h->k.m->tensors[tensor].dtype != DTYPE_FLOAT || !model_small_value(h->k.m, tensor, &raw) ||
      raw.n != sizeof x)
    return false;
  memcpy(&x, raw.at, sizeof x);
  return isfinite(x) && fabsf(x) >= (float)LOWEST;
}

// Does it have elements that the type does not hold, each of them a bound, such as the lowest float32?
static bool is_bounds(struct half *h, const struct weight *w) {
  const double most = dtype_largest(h->o->to);
  const double *x;
  uint32_t n, bounds = 0;
  if (!is_at_hand(h, w) || !kit_const_floats(&h->k, w->value, &x, &n)) return false;
  for (uint32_t i = 0; i < n; i++) {
    if (!isfinite(x[i]) || fabs(x[i]) <= most) continue;
    if (fabs(x[i]) < LOWEST) return false;
    bounds++;
  }
  return bounds > 0;
}

// The least number that is not 0, in place of a number alone that would be.
static uint32_t least(struct half *h, const struct weight *w) {
  struct model *m = h->k.m;
  double x;
  if (h->o->to != DTYPE_FLOAT16 || !is_at_hand(h, w)) return NO_ID;
  if (!kit_const_scalar(&h->k, w->value, &x)) return NO_ID;
  if (x == 0 || fabs(x) > ldexp(1, -25)) return NO_ID;
  const struct model_tensor *t = &m->tensors[w->tensor];
  return recipe_reshape(h->k.r, kit_scalar_recipe(&h->k, h->o->to, copysign(ldexp(1, -24), x)),
                        model_dims(m, t), t->rank);
}

// *mask: its numbers became others than the type would have.
static uint32_t narrow(struct half *h, const struct weight *w, bool *mask) {
  const uint32_t of = edit_tensor_recipe(h->k.e, w->tensor), small = least(h, w);
  *mask = false;
  if (small != NO_ID) return small;
  const uint32_t bound =
      h->masks ? cast_graph_bounded(h->masks, w->value, w->tensor, of, mask) : NO_ID;
  if (bound != NO_ID) return bound;
  return h->o->clips || is_bounds(h, w) ? recipe_cast_clipped(h->k.r, of, h->o->to)
                                        : recipe_cast(h->k.r, of, h->o->to);
}

static void cast_weight(struct half *h, const struct weight *w) {
  bool mask;
  const uint32_t recipe = narrow(h, w, &mask);
  kit_site(&h->k, NO_ID, mask ? "mask" : "cast");
  weights_report(&h->k, w, "cast", recipe);
  edit_replace_tensor(h->k.e, w->tensor, recipe);
}

// ---- Casts ---------------------------------------------------------------------------------------

static const char *suffix_of(enum dtype dtype) {
  return dtype == DTYPE_FLOAT16 ? "_float16" : dtype == DTYPE_BFLOAT16 ? "_bfloat16" : "_float32";
}

static void retype(struct half *h, uint32_t value, uint32_t like, enum dtype dtype) {
  struct model *m = h->k.m;
  uint32_t info = model_live_info(m, m->values[like].info);
  while (info != NO_ID && !(m->infos[info].flags & INFO_TENSOR))
    info = model_live_info(m, m->infos[info].next);
  kit_note_like(&h->k, value, like);
  kit_note_type(&h->k, value, &(struct model_type){.dtype = dtype});
  if (info == NO_ID) return;
  const struct model_info i = m->infos[info];
  const uint32_t rank = i.flags & INFO_SHAPED ? i.rank : NO_ID;
  struct model_dim *dims = arena_alloc(&h->k.site, ((size_t)i.rank + 1) * sizeof *dims);
  if (i.rank) memcpy(dims, &m->info_dims[i.dims], i.rank * sizeof *dims);
  edit_retype_value(h->k.e, value, dtype, dims, rank);
}

static struct span name_of(struct half *h, uint32_t value, enum dtype dtype) {
  const char *const suffix = suffix_of(dtype);
  struct span name;
  kit_name_family(&h->k, model_value_name(h->k.m, value), &suffix, 1, &name);
  return name;
}

// New nodes go behind what makes the value.
static void stand_behind(struct half *h, uint32_t value) {
  struct kit *k = &h->k;
  const struct model_value *v = &k->m->values[value];
  kit_site(k, v->kind == VALUE_NODE_OUTPUT ? v->def : NO_ID, "border");
  k->graph = v->graph;
  k->before = v->kind == VALUE_NODE_OUTPUT ? k->m->nodes[v->def].next : h->first[v->graph];
}

// What a node makes in float32 of a number that masks would be infinite in float16, and a row of it NaN behind a Softmax.
// `value` holds what `like` did before.
static uint32_t saturated(struct half *h, uint32_t value, uint32_t like, enum dtype to) {
  struct kit *k = &h->k;
  const double most = dtype_largest(DTYPE_FLOAT16);
  if (!h->masks || to != DTYPE_FLOAT16 || cast_graph_far(h->masks, like) == 0) return value;
  const int64_t opset = kit_opset(k, k->graph);
  const uint32_t clipped =
      opset < 11 ? kit_make(k, OP_Clip, KIT_IN(value), KIT_FLOAT("min", (float)-most),
                            KIT_FLOAT("max", (float)most))
                 : kit_make(k, OP_Clip,
                            KIT_IN(value, kit_new_scalar(k, "least", DTYPE_FLOAT, -most),
                                   kit_new_scalar(k, "most", DTYPE_FLOAT, most)));
  retype(h, clipped, value, DTYPE_FLOAT);
  return clipped;
}

// The same value in the other type: a Cast of it, or for a constant that is small, or masks, another one.
static uint32_t other(struct half *h, uint32_t value, enum dtype to) {
  struct kit *k = &h->k;
  struct weight w;
  const struct span name = name_of(h, value, to);
  uint64_t count;
  if (is_weight(k->m, value, &w) && to == h->o->to && edit_tensor_readable(k->e, w.tensor)) {
    const struct model_tensor *t = &k->m->tensors[w.tensor];
    bool mask;
    const uint32_t recipe = narrow(h, &w, &mask);
    if (!kit_is_overridable(k->m, value) && dims_product(model_dims(k->m, t), t->rank, &count) &&
        (mask || count <= COPIED_ELEMENTS)) {
      if (mask) edit_group(k->e, "cast", NO_ID, "mask");
      return edit_add_tensor_for(k->e, w.graph, name, recipe, w.tensor, k->m->values[value].name);
    }
  }
  const uint32_t cast =
      kit_make(k, OP_Cast, KIT_CALLED(name), KIT_OUT(((struct edit_output){NO_ID, name})),
               KIT_IN(saturated(h, value, value, to)), KIT_INT("to", to));
  retype(h, cast, value, to);
  return cast;
}

static void hand_over(struct half *h, uint32_t value, uint32_t to, enum wish wish) {
  struct kit *k = &h->k;
  for (struct kit_use u = kit_uses(k, value); kit_use(k, &u);)
    if (u.node < h->n_stays && wish_of(h, u.node, u.slot) == wish)
      edit_set_input(k->e, u.node, u.slot, to);
}

// A node's result is listed as an output in the other type: the node gets a new one, and a Cast makes the
// value, which so keeps its name.
static void split_output(struct half *h, uint32_t value, enum dtype made, enum dtype listed) {
  struct kit *k = &h->k;
  const uint32_t node = k->m->values[value].def;
  const enum wish wish = listed == h->o->to ? WISH_NEW : WISH_OLD;
  static const char *const cast_suffix = "_cast";
  const struct span name = name_of(h, value, made);
  struct span cast;
  uint32_t slot = 0;
  kit_name_family(k, model_value_name(k->m, value), &cast_suffix, 1, &cast);
  while (kit_out(k, node, slot) != value)
    slot++;
  edit_set_output(k->e, node, slot, (struct edit_output){NO_ID, name});
  const uint32_t inner = kit_out(k, node, slot);
  retype(h, inner, value, made);
  hand_over(h, value, inner, wish == WISH_NEW ? WISH_OLD : WISH_NEW);
  hand_over(h, value, inner, WISH_ANY);
  kit_make(k, OP_Cast, KIT_CALLED(cast), KIT_OUT(((struct edit_output){value, {0}})),
           KIT_IN(saturated(h, inner, value, listed)), KIT_INT("to", listed));
  retype(h, value, value, listed);
  h->now[value] = (uint8_t)listed;
}

static void make_border(struct half *h, uint32_t value) {
  const bool is_new = h->now[value] == h->o->to;
  const enum dtype old = (enum dtype)h->old[value], now = (enum dtype)h->now[value];
  const enum dtype opposite = is_new ? old : h->o->to;
  const enum wish other_wish = is_new ? WISH_OLD : WISH_NEW;
  if (!some_want(h, value, other_wish)) return;
  stand_behind(h, value);
  if (listing_wish(h, value) == other_wish && h->k.m->values[value].kind == VALUE_NODE_OUTPUT)
    split_output(h, value, now, opposite);
  else
    hand_over(h, value, other(h, value, opposite), other_wish);
}

// ---- writing -------------------------------------------------------------------------------------

static void write_attributes(struct half *h, uint32_t node) {
  struct kit *k = &h->k;
  const enum op op = kit_op(k, node);
  const uint32_t out = kit_out(k, node, 0);
  uint32_t tensor;
  int64_t given;
  if (h->stays[node] || out == NO_ID || h->now[out] == h->old[out]) return;
  if (!makes_any_type(op) && op != OP_DequantizeLinear) return;
  kit_site(k, node, "cast");
  struct edit_attr attr = {.type = ATTR_INT, .i = h->o->to};
  if (op == OP_Cast) {
    attr.name = "to";
  } else if (op == OP_ms_GatherPacked) {
    attr.name = "output_dtype";
  } else if (op == OP_DequantizeLinear) {
    if (!kit_attr_int(k, node, "output_dtype", 0, &given) || given == 0) return;
    attr.name = "output_dtype";
  } else {
    if (kit_attr_tensor(k, node, "value", &tensor)) {
      const uint32_t of = edit_tensor_recipe(k->e, tensor);
      const bool clips = h->o->clips || is_a_bound(h, tensor);
      bool mask = false;
      const uint32_t bound =
          h->masks ? cast_graph_bounded(h->masks, out, tensor, of, &mask) : NO_ID;
      if (mask) edit_group(k->e, "cast", node, "mask");
      edit_replace_tensor(k->e, tensor,
                          bound != NO_ID ? bound
                          : clips        ? recipe_cast_clipped(k->r, of, h->o->to)
                                         : recipe_cast(k->r, of, h->o->to));
      return;
    }
    attr = (struct edit_attr){.name = "value", .type = ATTR_TENSOR};
    attr.recipe = recipe_reshape(k->r, kit_scalar_recipe(k, h->o->to, 0), (const int64_t[]){1}, 1);
  }
  edit_set_attr(k->e, node, &attr);
}

static void write_types(struct half *h) {
  for (uint32_t v = 0; v < h->n_before; v++) {
    struct weight w;
    if (h->now[v] == h->old[v]) continue;
    if (is_weight(h->k.m, v, &w))
      cast_weight(h, &w);
    else
      kit_site(&h->k, NO_ID, "cast");
    retype(h, v, v, (enum dtype)h->now[v]);
  }
}

// Casts to the type that a value has now.
static void drop_casts(struct half *h, uint32_t n_nodes) {
  struct kit *k = &h->k;
  for (uint32_t n = 0; n < n_nodes; n++) {
    int64_t to;
    if (kit_op(k, n) != OP_Cast || h->stays[n]) continue;
    const uint32_t in = kit_in(k, n, 0), out = kit_out(k, n, 0);
    if (in == NO_ID || out == NO_ID || !kit_attr_int(k, n, "to", 0, &to)) continue;
    const bool touched = (in >= h->n_before || h->now[in] != h->old[in]) ||
                         (out < h->n_before && h->now[out] != h->old[out]);
    if (!touched || kit_dtype(k, in) != (enum dtype)to) continue;
    kit_site(k, n, "cast");
    kit_bypass(k, n, in);
  }
}

static bool touches(struct half *h, uint32_t node) {
  for (uint32_t i = 0; i < kit_n_in(&h->k, node); i++)
    if (kit_in(&h->k, node, i) != NO_ID && h->old[kit_in(&h->k, node, i)]) return true;
  for (uint32_t i = 0; i < kit_n_out(&h->k, node); i++)
    if (kit_out(&h->k, node, i) != NO_ID && h->old[kit_out(&h->k, node, i)]) return true;
  return false;
}

// Of all that it takes and makes nothing changes, since its operator has no such type.
static bool has_no_such_type(struct half *h, uint32_t node) {
  for (uint32_t i = 0; i < kit_n_in(&h->k, node); i++) {
    const uint32_t v = kit_in(&h->k, node, i);
    if (v != NO_ID && h->old[v] && wish_of(h, node, i) != WISH_OLD) return false;
  }
  for (uint32_t i = 0; i < kit_n_out(&h->k, node); i++) {
    const uint32_t v = kit_out(&h->k, node, i);
    if (v != NO_ID && h->old[v] && h->now[v] != h->old[v]) return false;
  }
  // These stay as they are where all who use what they make want it so.
  if (!makes_any_type(kit_op(&h->k, node))) return true;
  return formal_wish(h, schema_output(schema_of_node_at(&h->names, node), 0)) == WISH_OLD;
}

static void report_kept(struct half *h) {
  const struct model *m = h->k.m;
  for (uint32_t n = 0; n < h->n_stays; n++) {
    if (m->nodes[n].flags & NODE_DEAD || model_op_is(m, n, "Constant") || !touches(h, n)) continue;
    if (h->stays[n])
      kit_report(&h->k,
                 &(struct kit_report){.node = n,
                                      .reason = h->stays[n],
                                      .skipped = true,
                                      .tensor = h->unfit[n] ? model_value_name(m, h->unfit[n] - 1)
                                                            : span_of(NULL, 0)});
    else if (has_no_such_type(h, n))
      kit_skipped(&h->k, n, "type_not_allowed");
  }
}

static void warn_of_ranges(struct half *h) {
  const uint32_t n = h->ranges ? cast_graph_unknown(h->ranges) : 0;
  if (h->ranges && cast_graph_ranges_cut(h->ranges))
    kit_warn(&h->k,
             "the ranges may not include the largest values, and float16 may not be able "
             "to hold those",
             "'weir calibrate' with --method minmax records all of them");
  if (n == 0) return;
  kit_warn(&h->k,
           arena_printf(&h->k.site,
                        "%u float32 value%s ha%s no range, and %s assumed to fit float16", n,
                        plural(n), n == 1 ? "s" : "ve", n == 1 ? "is" : "are"),
           "'weir calibrate' measures values of the main graph only, and reports those that it "
           "skips");
}

// Casts are of ai.onnx, which a model of other operators need not import.
static int see_to_opset(struct half *h, struct err *err) {
  const int64_t opset = kit_opset(&h->k, h->k.m->main_graph), least = least_opset(h);
  if (opset == 0) edit_set_opset(h->k.e, span_of("", 0), 13);
  if (opset == 0 || opset >= least) return 0;
  err_fill(err, ERR_MODEL, "the model has opset %s, but Cast supports the type only from opset %s",
           integer(opset).s, integer(least).s);
  return err_hint(err,
                  "raise it first: weir optimize IN OUT --opset %s (in a pipeline: the pass "
                  "opset:version=%s)",
                  integer(least).s, integer(least).s);
}

int cast_graph_run(struct pass_env *env, const struct cast_graph_options *o, struct err *err) {
  struct half h = {.o = o};
  uint32_t n_nodes = env->m->n_nodes;
  kit_init(&h.k, env, "cast");
  model_calls_init(&h.calls, env->m);
  schema_names_init(&h.names, env->m);
  if (env->m->main_graph == NO_ID || see_to_opset(&h, err)) goto out;
  // Before IR version 4 constants are inputs too, which would keep their types with --keep-io.
  weights_free_initializers(env->edits);
  note_types(&h);
  if (kit_drop_misdeclared(env, err)) goto out; // while what was inferred is at hand
  if (o->to == DTYPE_FLOAT16) h.masks = cast_graph_masks_of(&h.k, &h.calls);
  if (o->ranges) h.ranges = cast_graph_ranges_of(&h.k, o->ranges, h.masks, o->headroom);
  settle_nodes(&h);
  settle_values(&h);
  warn_of_ranges(&h);
  report_kept(&h);
  for (uint32_t n = 0; n < n_nodes; n++)
    if (kit_op(&h.k, n) != OP_NONE) write_attributes(&h, n);
  for (uint32_t v = 0; v < h.n_before; v++)
    if (h.old[v]) make_border(&h, v);
  write_types(&h);
  drop_casts(&h, n_nodes);
  // What was inferred is of the types before.
  infer_free(env->infer);
  env->infer = NULL;
out:
  if (h.masks) cast_graph_masks_free(h.masks);
  model_calls_done(&h.calls);
  schema_names_done(&h.names);
  TABLES_FREE(&h, old, now, held, stays, unfit, graph_stays, first);
  const int rc = err->kind == ERR_NONE ? 0 : -1;
  return kit_done(&h.k, err) || rc ? -1 : 0;
}
