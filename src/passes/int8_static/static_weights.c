// Constants that nodes make of others, for the nodes that are quantized:
//
//   w_float16 ─▶ Cast ─▶ w ─▶ MatMul          w ─▶ MatMul          w: an initializer of its own
//
// A weight that is stored in another type or layout (kit_weight) is one for all that follows: ranges, biases, codes. Nodes that are not
// asked for keep what they read. The initializer takes the value's name where nothing else reads that. One that others read too, and these
// nodes through an Identity (tied weights), is quantized once for all:
//
//   e ─┬─▶ Gather                     e ─┬─▶ Gather
//      └─▶ Identity ─▶ MatMul            └─▶ MatMul
//
// At that time it is not known which of these nodes stay float. Such a node gets back its input: the value that nodes made, if it is still
// there, or else the constant that is stored in fewer bits, and a Cast.
//
// (compat: constants are initializers alone, and the rest activations, as the existing tool has it.)
#include "passes/int8_static/inside/static.h"

#include "passes/kit/dead_ends.h"
#include "passes/kit/weights.h"

struct bringing {
  struct static_run *s;
  struct static_brought *to;
  TABLE(uint32_t, made); // by value: 1 + the initializer
};

static uint32_t initializer_of(struct bringing *b, uint32_t value, uint32_t tensor) {
  struct static_run *s = b->s;
  struct kit *k = &s->k;
  if (value >= b->n_made) TABLE_ADD(b, made, k->m->n_values - b->n_made);
  if (b->made[value]) return b->made[value] - 1;
  if (k->m->ir_version < WEIGHTS_FREE_IR) weights_free_initializers(k->e);
  const uint32_t called = k->m->values[value].name;
  const struct span name = kit_names_take(
      &k->names, KIT_VALUES, s->graph,
      kit_names_join(model_value_name(k->m, value), "_constant", &k->site), &k->site);
  const uint32_t stored = kit_stored(k, tensor);
  const uint32_t made =
      edit_add_tensor_for(k->e, s->graph, name, edit_tensor_recipe(k->e, tensor), tensor, called);
  b->made[value] = made + 1;
  *TABLE_PUSH(b->to, list) = (struct static_weight){value, made, stored};
  return made;
}

// Is it a constant of this graph, read through Identity nodes and by others too? (Biases are of a node each: static_mark.c.)
static bool is_tied(struct static_run *s, uint32_t value, const struct model_constant *c) {
  return c->value != value && s->k.m->tensors[c->tensor].rank > 1 &&
         s->k.m->values[c->value].graph == s->graph && kit_use_count(&s->k, c->value, 2) > 1;
}

static void bring(struct bringing *b, uint32_t node, uint32_t slot) {
  struct static_run *s = b->s;
  struct kit *k = &s->k;
  const uint32_t value = kit_in(k, node, slot);
  struct model_constant c;
  if (!kit_weight(k, value, &c)) return;
  const enum dtype dtype = (enum dtype)k->m->tensors[c.tensor].dtype;
  const bool constant = static_is_constant(s, value);
  if ((dtype != DTYPE_FLOAT && dtype != DTYPE_FLOAT16) || (constant && !is_tied(s, value, &c)))
    return;
  kit_site(k, node, "own_weight");
  const struct span own = kit_stem_of(k, value);
  const uint32_t made = constant ? c.value : initializer_of(b, value, c.tensor);
  edit_set_input(k->e, node, slot, made);
  dead_ends_drop(k->e, value);
  if (!constant && k->m->values[value].flags & VALUE_DEAD) edit_rename_value(k->e, made, own);
}

// Is it a node that only brings a constant to others?
static bool only_brings(struct kit *k, uint32_t node) {
  struct model_constant c;
  return weights_moved_by(k->m, node) && kit_weight(k, kit_out(k, node, 0), &c);
}

void static_bring_weights(struct static_run *s, struct static_brought *brought) {
  struct bringing b = {.s = s, .to = brought};
  uint32_t *nodes;
  const char *why;
  if (s->o->compat) return;
  const uint32_t n = static_nodes(s, &nodes);
  for (uint32_t i = 0; i < n; i++)
    if (static_takes(s, nodes[i], &why) && !only_brings(&s->k, nodes[i]))
      for (uint32_t slot = 0; slot < kit_n_in(&s->k, nodes[i]); slot++)
        bring(&b, nodes[i], slot);
  TABLE_FREE(&b, made);
}

// ---- back ----------------------------------------------------------------------------------------

// A constant whose elements are stored in fewer bits than it has:   stored ─▶ Cast ─▶ w
static void narrow(struct static_run *s, const struct static_weight *w) {
  struct kit *k = &s->k;
  const uint32_t tensor = k->m->values[w->made].def;
  const struct weight whole = {tensor, w->made, s->graph, NO_ID};
  weights_site(k, &whole, "float_weight");
  const struct span own = kit_stem_of(k, w->made);
  const struct span name = kit_names_take(&k->names, KIT_VALUES, s->graph,
                                          kit_names_join(own, "_stored", &k->site), &k->site);
  const struct span spare = kit_names_take(&k->names, KIT_VALUES, s->graph,
                                           kit_names_join(own, "_wide", &k->site), &k->site);
  const uint32_t in = edit_add_tensor_for(k->e, s->graph, name, w->stored, tensor, k->m->empty);
  const struct edit_output out = weights_output(k, &whole, spare, spare, true);
  const uint32_t y =
      kit_make(k, OP_Cast, KIT_IN(in), KIT_OUT(out), KIT_INT("to", k->m->tensors[tensor].dtype));
  weights_replace(k, &whole, y);
}

void static_take_back(struct static_run *s, const struct static_brought *brought) {
  struct kit *k = &s->k;
  if (s->o->add_qdq_pair_to_weight) return; // which are floats there
  for (uint32_t i = 0; i < brought->n_list; i++) {
    const struct static_weight *w = &brought->list[i];
    const struct model_value *v = &k->m->values[w->made];
    if (v->flags & VALUE_DEAD || v->kind != VALUE_INITIALIZER || kit_unused(k, w->made)) continue;
    if (!(k->m->values[w->from].flags & VALUE_DEAD)) {
      kit_site(k, NO_ID, "float_weight");
      edit_replace_uses(k->e, w->made, w->from);
      dead_ends_drop(k->e, w->made);
    } else if (k->r->rows[w->stored].dtype != k->m->tensors[v->def].dtype) {
      narrow(s, w);
    }
  }
}
