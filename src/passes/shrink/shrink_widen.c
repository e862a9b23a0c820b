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
#include "passes/shrink/inside/shrink_parts.h"

// ---- casts -------------------------------------------------------------------------------------

// A Cast that would convert float32 to itself, and can go.
static bool is_idle(struct kit *k, uint32_t node) {
  const struct model_node *n = &k->m->nodes[node];
  const uint32_t x = kit_in(k, node, 0);
  const enum dtype from = kit_dtype(k, x);
  int64_t to;
  return kit_op(k, node) == OP_Cast && kit_attr_int(k, node, "to", 0, &to) &&
         (to == DTYPE_FLOAT16 || to == DTYPE_FLOAT) && n->n_in == 1 && n->n_out == 1 &&
         (from == DTYPE_FLOAT16 || from == DTYPE_FLOAT) && !kit_is_output(k, kit_out(k, node, 0)) &&
         kit_can_bypass(k, node, x);
}

// ---- attributes --------------------------------------------------------------------------------

static bool names_a_type(struct span attr) {
  static const char *const names[] = {
      "to", "dtype", "output_dtype", "output_datatype", "precision", "softmax_precision"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (span_is(attr, names[i])) return true;
  return false;
}

static void widen_attributes(struct shrinking *s, uint32_t node) {
  const struct model *m = s->k.m;
  for (uint32_t i = 0; i < m->nodes[node].n_attrs; i++) {
    const struct model_attr *a = &m->attrs[m->nodes[node].attrs + i];
    if (a->flags & ATTR_DEAD || a->type != ATTR_INT || a->ref_name != m->empty) continue;
    if (a->u.i != DTYPE_FLOAT16 || !names_a_type(model_name(m, a->name))) continue;
    if (kit_op(&s->k, node) == OP_Cast) kit_converted(&s->k, node, "cast_to_float32");
    kit_site(&s->k, node, "type_attribute");
    edit_set_attr(s->k.e, node,
                  &(struct edit_attr){.name = arena_string(&s->k.site, model_name(m, a->name)),
                                      .type = ATTR_INT,
                                      .i = DTYPE_FLOAT});
  }
}

static void widen_node(struct shrinking *s, uint32_t node) {
  struct kit *k = &s->k;
  if (!is_idle(k, node)) {
    widen_attributes(s, node);
    return;
  }
  kit_converted(k, node, "cast_bypassed");
  kit_site(k, node, "cast_bypassed");
  kit_bypass(k, node, kit_in(k, node, 0));
}

// ---- constants and declarations ----------------------------------------------------------------

static void widen_tensor(struct shrinking *s, uint32_t tensor) {
  struct edits *e = s->k.e;
  struct weight w;
  const bool is_weight = weights_at(e->m, tensor, &w);
  const uint32_t recipe = recipe_cast(e->r, edit_tensor_recipe(e, tensor), DTYPE_FLOAT);
  const char *why = is_weight ? weights_obstacle(e, &w) : "attribute";
  kit_site(&s->k, NO_ID, "f16_to_f32");
  if (!is_weight || why) {
    edit_replace_tensor(e, tensor, recipe);
    return;
  }
  weights_report(&s->k, &w, "f16_to_f32", recipe);
  shrink_exchange(s, &w, recipe, "_f32");
}

static bool is_half(const struct model *m, uint32_t tensor) {
  const struct model_tensor *t = &m->tensors[tensor];
  return t->dtype == DTYPE_FLOAT16 && !(t->flags & TENSOR_DEAD) && t->graph != NO_ID &&
         !weights_in_training(m, t->graph);
}

static void widen_declarations(struct shrinking *s) {
  struct edits *e = s->k.e;
  kit_site(&s->k, NO_ID, "f16_to_f32");
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
      return err_set(err, ERR_FAIL, "tensor '%s' has %u dims; f16_to_f32 supports at most %d",
                     name.s, m->tensors[i].rank, RECIPE_MAX_RANK);
  }
  return 0;
}

int shrink_widen_model(struct shrinking *s, struct err *err) {
  const struct model *m = s->k.m;
  const uint32_t n_tensors = m->n_tensors, n_nodes = m->n_nodes;
  if (check_tensors(s->k.e, err)) return -1;
  for (uint32_t i = 0; i < n_nodes; i++)
    if (!(m->nodes[i].flags & NODE_DEAD) && !weights_in_training(m, m->nodes[i].graph))
      widen_node(s, i);
  for (uint32_t i = 0; i < n_tensors; i++)
    if (is_half(m, i)) widen_tensor(s, i);
  widen_declarations(s);
  return 0;
}
