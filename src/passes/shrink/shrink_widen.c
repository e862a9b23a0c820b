// f16_to_f32: everything that is float16 becomes float32.
//
//   constants     initializers and Constant nodes get elements of twice the size; tensors in other
//                 attributes (ConstantOfShape) too
//   Cast          to float16 or float32, of a value known to be one of them: would convert float32 to
//                 itself afterwards, and goes; any other Cast to float16 (of integers, of what is not
//                 known) casts to float32 instead
//   attributes    that name a type, in any operator: float16 becomes float32
//   declarations  inputs, outputs and value_info of all graphs
//
// A Cast whose output is an output of its graph stays, as one to float32, because the output's name
// does. So does one whose input has a name that means something else where the output is used.
//
// What cannot be seen from here stays: sequences, optionals and maps of float16 tensors.
#include "shrink_parts.h"

// ---- types -------------------------------------------------------------------------------------

static enum dtype declared_type(const struct model *m, uint32_t value) {
  for (uint32_t i = m->values[value].info; i != NO_ID; i = m->infos[i].next)
    if (!(m->infos[i].flags & INFO_DEAD) && m->infos[i].flags & INFO_TENSOR)
      return (enum dtype)m->infos[i].dtype;
  return DTYPE_UNDEFINED;
}

// What is known of a value's type without inference.
static enum dtype known_type(const struct model *m, uint32_t value) {
  const struct model_value *v = &m->values[value];
  struct model_constant c;
  int64_t to;
  if (v->kind == VALUE_INITIALIZER) return (enum dtype)m->tensors[v->def].dtype;
  if (model_resolve_constant(m, value, &c)) return (enum dtype)m->tensors[c.tensor].dtype;
  if (v->kind == VALUE_NODE_OUTPUT && model_op_is(m, v->def, "Cast") &&
      model_attr_int(m, v->def, "to", DTYPE_UNDEFINED, &to) && dtype_known(to))
    return (enum dtype)to;
  return declared_type(m, value);
}

// ---- casts -------------------------------------------------------------------------------------

// Does the name of `value` mean it wherever `of` is used?
static bool seen_by_users(const struct model *m, uint32_t value, uint32_t of) {
  for (uint32_t u = m->values[of].first_use; u != NO_ID; u = m->refs[u].next) {
    const uint32_t graph = m->nodes[m->refs[u].node].graph;
    if (model_lookup(m, graph, m->values[value].name) != value) return false;
  }
  return true;
}

static bool can_bypass(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  const uint32_t x = model_input(m, n, 0), y = model_output(m, n, 0);
  if (n->n_in != 1 || n->n_out != 1 || x == NO_ID || y == NO_ID) return false;
  const enum dtype from = known_type(m, x);
  if (from != DTYPE_FLOAT16 && from != DTYPE_FLOAT) return false;
  return m->values[y].n_graph_outputs == 0 && seen_by_users(m, x, y);
}

static void report_cast(const struct shrinking *s, uint32_t node, const char *reason) {
  const struct model *m = s->env->m;
  const struct pass_site site = {.node = node,
                                 .index = NO_ID,
                                 .graph = m->nodes[node].graph,
                                 .op_type = "Cast",
                                 .status = "converted",
                                 .reason = reason,
                                 .node_name = model_name(m, m->nodes[node].name),
                                 .codes = NO_ID};
  if (s->env->site) s->env->site(s->env->site_ctx, &site);
}

static void bypass(struct shrinking *s, uint32_t node) {
  struct edits *e = s->env->edits;
  const uint32_t x = model_input(e->m, &e->m->nodes[node], 0);
  const uint32_t y = model_output(e->m, &e->m->nodes[node], 0);
  report_cast(s, node, "cast_bypassed");
  edit_group(e, "shrink", node, "cast_bypassed");
  if (e->m->values[y].first_use != NO_ID) edit_replace_uses(e, y, x);
  edit_remove_node(e, node);
  s->result->casts++;
}

// ---- attributes --------------------------------------------------------------------------------

static bool names_a_type(struct span attr) {
  static const char *const names[] = {
      "to", "dtype", "output_dtype", "output_datatype", "precision", "softmax_precision"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (span_is(attr, names[i])) return true;
  return false;
}

static void retarget(struct shrinking *s, uint32_t node, const char *attr) {
  const struct edit_attr to = {.name = attr, .type = ATTR_INT, .i = DTYPE_FLOAT};
  edit_group(s->env->edits, "shrink", node, "type_attribute");
  edit_set_attr(s->env->edits, node, &to);
}

static void widen_attributes(struct shrinking *s, uint32_t node) {
  const struct model *m = s->env->m;
  for (uint32_t i = 0; i < m->nodes[node].n_attrs; i++) {
    const struct model_attr *a = &m->attrs[m->nodes[node].attrs + i];
    if (a->flags & ATTR_DEAD || a->type != ATTR_INT || a->ref_name != m->empty) continue;
    if (a->u.i != DTYPE_FLOAT16 || !names_a_type(model_name(m, a->name))) continue;
    if (model_op_is(m, node, "Cast")) {
      report_cast(s, node, "cast_to_float32");
      s->result->casts++;
    }
    retarget(s, node, arena_string(s->env->site_scratch, model_name(m, a->name)));
  }
}

static void widen_node(struct shrinking *s, uint32_t node) {
  const struct model *m = s->env->m;
  int64_t to;
  const bool cast = model_op_is(m, node, "Cast") && model_attr_int(m, node, "to", 0, &to) &&
                    (to == DTYPE_FLOAT16 || to == DTYPE_FLOAT);
  if (cast && can_bypass(m, node))
    bypass(s, node);
  else
    widen_attributes(s, node);
}

// ---- constants and declarations ----------------------------------------------------------------

static void widen_tensor(struct shrinking *s, uint32_t tensor) {
  struct edits *e = s->env->edits;
  struct weight w;
  const bool is_weight = weights_at(e->m, tensor, &w);
  const uint32_t recipe = recipe_cast(e->r, edit_tensor_recipe(e, tensor), DTYPE_FLOAT);
  const char *why = is_weight ? weights_obstacle(e, &w) : "attribute";
  arena_reset(s->env->site_scratch);
  edit_group(e, "shrink", NO_ID, "f16_to_f32");
  if (!is_weight || why) {
    edit_replace_tensor(e, tensor, recipe);
    return;
  }
  weights_report(s->env, &w, "f16_to_f32", recipe);
  shrink_exchange(s, &w, recipe, "_f32");
  s->result->converted++;
}

static bool is_half(const struct model *m, uint32_t tensor) {
  const struct model_tensor *t = &m->tensors[tensor];
  return t->dtype == DTYPE_FLOAT16 && !(t->flags & TENSOR_DEAD) && t->graph != NO_ID &&
         !weights_in_training(m, t->graph);
}

static void widen_declarations(struct shrinking *s) {
  struct edits *e = s->env->edits;
  edit_group(e, "shrink", NO_ID, "f16_to_f32");
  for (uint32_t i = 0; i < e->m->n_infos; i++) {
    const struct model_info *x = &e->m->infos[i];
    if (x->flags & INFO_DEAD || !(x->flags & INFO_TENSOR) || x->dtype != DTYPE_FLOAT16) continue;
    if (x->value == NO_ID || weights_in_training(e->m, e->m->values[x->value].graph)) continue;
    const bool shaped = x->flags & INFO_SHAPED;
    edit_retype_value(e, x->value, DTYPE_FLOAT, shaped ? e->m->info_dims + x->dims : NULL,
                      shaped ? x->rank : NO_ID);
  }
}

static int check_tensors(const struct edits *e, struct err *err) {
  const struct model *m = e->m;
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    if (!is_half(m, i)) continue;
    const struct quoted name = quote(model_name(m, m->tensors[i].name));
    if (m->tensors[i].flags & TENSOR_SPARSE)
      return err_set(
          err, ERR_FAIL,
          "tensor '%s' is sparse and float16, and f16_to_f32 cannot widen sparse tensors", name.s);
    if (!edit_tensor_readable(e, i))
      return err_set(err, ERR_FAIL, "tensor '%s' has %u dims; f16_to_f32 can widen up to %d",
                     name.s, m->tensors[i].rank, RECIPE_MAX_RANK);
  }
  return 0;
}

int shrink_widen_model(struct shrinking *s, struct err *err) {
  const struct model *m = s->env->m;
  const uint32_t n_tensors = m->n_tensors, n_nodes = m->n_nodes;
  if (check_tensors(s->env->edits, err)) return -1;
  for (uint32_t i = 0; i < n_nodes; i++)
    if (!(m->nodes[i].flags & NODE_DEAD) && !weights_in_training(m, m->nodes[i].graph))
      widen_node(s, i);
  for (uint32_t i = 0; i < n_tensors; i++)
    if (is_half(m, i)) widen_tensor(s, i);
  widen_declarations(s);
  return 0;
}
