// After the pass: names become values.
//
// While the file goes by, an input of a node is a name, because what makes it may come later (an
// initializer, a function's input) or lie in a graph around. Now every graph is complete: a name is
// looked up in the node's graph and outwards through the enclosing ones; a function body ends at
// itself; a training graph may also see the main graph. What is found nowhere becomes a value of
// kind UNDEFINED, which check.c reports.
//
// Nodes are walked backwards, because a use goes to the front of its value's list: so the lists end
// up in file order.
#include "model/model_calls.h"
#include "stream/load/inside/loader.h"

#include <stdlib.h>

static uint32_t resolve(struct loader *l, uint32_t graph, uint32_t name) {
  const uint32_t value = model_lookup(l->m, graph, name);
  return value != NO_ID ? value : load_value(l, graph, name);
}

static int resolve_inputs(struct loader *l) {
  struct model *m = l->m;
  for (uint32_t id = m->n_nodes; id-- > 0;) {
    const struct model_node n = m->nodes[id];
    for (uint32_t i = n.n_in; i-- > 0;) {
      struct model_ref *ref = &m->refs[n.refs + i];
      if (ref->value == NO_ID) continue;
      if (load_room(l, m->n_values, 1, "values")) return -1;
      ref->value = resolve(l, n.graph, ref->value);
      model_link_use(m, n.refs + i);
    }
  }
  return 0;
}

static int resolve_outputs(struct loader *l) {
  struct model *m = l->m;
  for (uint32_t graph = 0; graph < m->n_graphs; graph++) {
    const struct model_graph *g = &m->graphs[graph];
    for (uint32_t i = 0; i < g->n_outputs; i++) {
      if (load_room(l, m->n_values, 1, "values")) return -1;
      uint32_t *slot = &m->graph_io[g->outputs + i];
      *slot = resolve(l, graph, *slot);
      struct model_value *v = &m->values[*slot];
      v->flags |= VALUE_IS_OUTPUT;
      if (v->n_graph_outputs == VALUE_OUTPUTS_MAX)
        return load_fatal(l, g->src.off, "value '%s' is listed as an output more than %u times",
                          quote(model_value_name(m, *slot)).s, VALUE_OUTPUTS_MAX);
      v->n_graph_outputs++;
    }
  }
  return 0;
}

// ---- value infos --------------------------------------------------------------------------------

// Until now row->value was a name. A value_info about a name of an enclosing graph, or about
// nothing, is about no value of this graph; an output may be an outer value.
//
// Backwards, so that the lists end up in file order.
static void link_infos(struct loader *l) {
  struct model *m = l->m;
  for (uint32_t graph = m->n_graphs; graph-- > 0;) {
    const struct model_graph *g = &m->graphs[graph];
    for (uint32_t i = g->n_items; i-- > 0;) {
      const struct model_item *item = &m->items[g->items + i];
      if (item->kind != ITEM_INFOS) continue;
      for (uint32_t k = item->count; k-- > 0;) {
        struct model_info *row = &m->infos[item->first + k];
        row->value = row->home == INFO_OUTPUT ? model_lookup(l->m, graph, row->value)
                                              : model_value_in(m, graph, row->value);
        if (row->value == NO_ID) continue;
        struct model_value *v = &m->values[row->value];
        row->next = v->info;
        v->info = item->first + k;
      }
    }
  }
}

// ---- tables -------------------------------------------------------------------------------------

static int compare_kept(const void *a, const void *b) {
  const struct model_kept_field *x = a, *y = b;
  if (x->of != y->of) return x->of < y->of ? -1 : 1;
  if (x->id != y->id) return x->id < y->id ? -1 : 1;
  return x->at.off < y->at.off ? -1 : x->at.off > y->at.off;
}

int load_resolve(struct loader *l) {
  struct model *m = l->m;
  m->n_model_opsets = m->n_opsets;
  const uint32_t first = TABLE_ADD(m, opsets, l->n_function_opsets);
  for (uint32_t i = 0; i < l->n_function_opsets; i++)
    m->opsets[first + i] = l->function_opsets[i];
  for (uint32_t i = 0; i < m->n_functions; i++)
    m->functions[i].opsets += first;
  if (resolve_inputs(l) || resolve_outputs(l)) return -1;
  link_infos(l);
  model_calls_mark(m);
  if (m->n_kept_fields)
    qsort(m->kept_fields, m->n_kept_fields, sizeof *m->kept_fields, compare_kept);
  return 0;
}
