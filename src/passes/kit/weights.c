// Weights as passes over all of a model's weights meet them.
//
//   initializer w ─┬─▶ uses            initializer w_new ─▶ nodes ─▶ to ─┬─▶ uses
//                  └─▶ graph output                                      └─▶ graph output, called w
//
// Every weight is changed where it is: new tensors and nodes go into the graph that holds it, so
// that all that saw the weight sees them, and nothing else does. Uses are replaced wherever they
// are (load resolved them through the scopes). The names of a graph's outputs are promises to
// somebody outside: they stay.
//
//   first        the node before which everything new of a graph stands
//   [cast mul add] [cast mul add] first …
//
// An initializer is at hand before the first node; a Constant is replaced in its own place. When
// the Constant that goes is the `first` of its graph, the node behind it becomes that.
#include "passes/kit/weights.h"

#include "passes/kit/inside/kit_inside.h"

enum { CONSTANT_INTEGERS_OPSET = 9 };

bool weights_in_training(const struct model *m, uint32_t graph) {
  while (m->graphs[graph].parent != NO_ID)
    graph = m->graphs[graph].parent;
  return m->graphs[graph].kind == GRAPH_TRAINING;
}

static bool constant_at(const struct model *m, uint32_t tensor, struct weight *out) {
  const struct model_attr *a = &m->attrs[m->tensors[tensor].owner];
  if (a->node == NO_ID || !model_op_is(m, a->node, "Constant")) return false;
  const uint32_t value = model_output(m, &m->nodes[a->node], 0);
  struct model_constant c;
  if (value == NO_ID || !model_resolve_constant(m, value, &c) || c.tensor != tensor) return false;
  *out = (struct weight){tensor, value, m->nodes[a->node].graph, a->node};
  return true;
}

bool weights_at(const struct model *m, uint32_t tensor, struct weight *out) {
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->flags & (TENSOR_DEAD | TENSOR_SPARSE) || t->graph == NO_ID) return false;
  if (weights_in_training(m, t->graph)) return false;
  if (t->home == HOME_ATTRIBUTE) return t->owner != NO_ID && constant_at(m, tensor, out);
  if (t->home != HOME_INITIALIZER || m->values[t->owner].kind != VALUE_INITIALIZER) return false;
  if (m->values[t->owner].def != tensor) return false; // a duplicate name: another one counts
  *out = (struct weight){tensor, t->owner, t->graph, NO_ID};
  return true;
}

bool weights_takes_integers(const struct model *m, uint32_t graph) {
  if (m->graphs[graph].kind != GRAPH_FUNCTION) return true;
  const int64_t opset = model_opset_version(m, graph, span_str(""));
  return opset == 0 || opset >= CONSTANT_INTEGERS_OPSET; // 0: it does not say
}

// Do all its users have no other value of its name, made further on in a body?
static bool is_seen(const struct model *m, uint32_t value) {
  for (uint32_t u = m->values[value].first_use; u != NO_ID; u = m->refs[u].next)
    if (model_lookup(m, m->nodes[m->refs[u].node].graph, m->values[value].name) != value)
      return false;
  return true;
}

const char *weights_obstacle(const struct edits *e, const struct weight *w) {
  const struct model *m = e->m;
  const struct model_value *v = &m->values[w->value];
  struct model_constant c;
  if (!model_resolve_weight(m, w->value, &c)) return "graph_input";
  if (v->first_use == NO_ID && v->n_graph_outputs == 0) return "unused";
  if (!model_listed_at_home(m, w->value)) return "output_of_body";
  if (v->n_graph_outputs > 0 && !is_seen(m, w->value)) return "hidden";
  return edit_tensor_readable(e, w->tensor) ? NULL : "unreadable";
}

// Does its name hide a value of a graph around it? An edit makes no such value.
static bool hides(const struct model *m, const struct weight *w) {
  const uint32_t around = model_graph_around(m, w->graph);
  return around != NO_ID && model_lookup(m, around, m->values[w->value].name) != NO_ID;
}

struct edit_output weights_output(struct kit *k, const struct weight *w, struct span made,
                                  struct span spare, bool keep) {
  if (!(keep || kit_is_output(k, w->value)) || hides(k->m, w) || !is_seen(k->m, w->value))
    return (struct edit_output){NO_ID, made};
  const struct span own = model_value_name(k->m, w->value);
  const struct span copy = span_of(arena_string(&k->site, own), own.n);
  edit_rename_value(k->e, w->value, spare);
  return (struct edit_output){NO_ID, copy};
}

void weights_site(struct kit *k, const struct weight *w, const char *reason) {
  struct kit_inside *in = k->in;
  kit_site(k, w->node, reason);
  k->graph = w->graph;
  if (w->node != NO_ID) return;
  if (w->graph >= in->n_fronts) TABLE_ADD(in, fronts, w->graph + 1 - in->n_fronts);
  if (in->fronts[w->graph] == 0) in->fronts[w->graph] = k->m->graphs[w->graph].first_node + 1;
  k->before = in->fronts[w->graph] - 1;
}

// ---- taking a weight's place -------------------------------------------------------------------

static void replace_outputs(struct edits *e, const struct weight *w, uint32_t to) {
  const struct model *m = e->m;
  while (m->values[w->value].n_graph_outputs > 0)
    edit_set_graph_output(e, w->graph, model_next_listing(m, w->value), to);
}

void weights_replace(struct kit *k, const struct weight *w, uint32_t to) {
  const struct model *m = k->m;
  struct kit_inside *in = k->in;
  if (m->values[w->value].first_use != NO_ID) edit_replace_uses(k->e, w->value, to);
  replace_outputs(k->e, w, to);
  if (w->node != NO_ID) {
    if (w->graph < in->n_fronts && in->fronts[w->graph] == w->node + 1)
      in->fronts[w->graph] = m->nodes[w->node].next + 1;
    edit_remove_node(k->e, w->node);
    return;
  }
  const bool is_input = m->values[w->value].flags & VALUE_IS_INPUT;
  edit_remove_tensor(k->e, w->tensor);
  if (is_input) edit_remove_graph_input(k->e, w->value);
}

// Backwards, so that nothing behind an input has to move up for it.
static void drop_inputs_of_initializers(struct edits *e) {
  const struct model *m = e->m;
  const struct model_graph *g = &m->graphs[m->main_graph];
  for (uint32_t i = g->n_inputs; i-- > 0;) {
    const uint32_t value = m->graph_io[g->inputs + i];
    const struct model_value *v = &m->values[value];
    if (v->kind == VALUE_INITIALIZER && v->flags & VALUE_IS_INPUT)
      edit_remove_graph_input(e, value);
  }
}

void weights_raise_ir(struct edits *e, int64_t version) {
  if (e->m->ir_version >= version) return;
  if (e->m->ir_version < WEIGHTS_FREE_IR) drop_inputs_of_initializers(e);
  edit_set_ir_version(e, version);
}

void weights_free_initializers(struct edits *e) {
  weights_raise_ir(e, WEIGHTS_FREE_IR);
}

// ---- reports -----------------------------------------------------------------------------------

void weights_report(struct kit *k, const struct weight *w, const char *reason, uint32_t recipe) {
  kit_report(k, &(struct kit_report){.node = w->node,
                                     .reason = reason,
                                     .skipped = recipe == NO_ID,
                                     .weight = w->value + 1,
                                     .codes = recipe + 1,
                                     .of = w->tensor});
}
