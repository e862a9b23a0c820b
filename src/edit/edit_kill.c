// Removal with everything that hangs below.
//
//   node ─▶ attributes ─▶ tensors
//                      └▶ graphs ─▶ nodes … , values, initializers, value_infos
//
// Graphs in graphs are a work list, not a recursion. The nodes of all dying graphs go first, so
// that no slot is left on the use list of a value outside; then the values and tensors that lay in
// them. These are found by lists, one a graph, which are begun when the first graph of a model dies
// and then only taken up to date, a row at a time: a thousand graphs that die one after the other
// cost one walk over the tables together.
//
//   graph_values   by graph   the newest value of it
//   value_before   by value   the one before of the same graph; as long as the lists go
#include "edit/edit_rows.h"

struct dying {
  TABLE(uint32_t, graphs); // found so far; the first `done` have lost their nodes
  uint32_t done;
};

static void add_graph(struct dying *d, uint32_t graph) {
  *TABLE_PUSH(d, graphs) = graph;
}

static void kill_tensor(struct model *m, uint32_t tensor) {
  if (tensor != NO_ID) m->tensors[tensor].flags |= TENSOR_DEAD;
}

static void kill_content(struct model *m, const struct model_attr *a, struct dying *d) {
  const bool constant = model_attr_is_constant(m, a);
  if (constant && a->first != NO_ID) kill_tensor(m, a->first);
  for (uint32_t i = 0; i < a->count && !constant && a->first != NO_ID; i++) {
    const uint32_t id = a->first + i;
    switch ((enum attr_type)a->type) {
    case ATTR_TENSOR:
    case ATTR_TENSORS: kill_tensor(m, id); break;
    case ATTR_GRAPH:
    case ATTR_GRAPHS: add_graph(d, id); break;
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
      kill_tensor(m, m->sparses[id].values);
      kill_tensor(m, m->sparses[id].indices);
      break;
    default: return;
    }
  }
}

static void kill_attr(struct model *m, uint32_t attr, struct dying *d) {
  struct model_attr *a = &m->attrs[attr];
  if (a->flags & ATTR_DEAD) return;
  kill_content(m, a, d);
  a->flags |= ATTR_DEAD;
}

static void kill_node(struct model *m, uint32_t node, struct dying *d) {
  edit_rows_mark_node(m, node);
  edit_rows_unlink_node(m, node);
  const struct model_node n = m->nodes[node];
  for (uint32_t i = 0; i < n.n_attrs; i++)
    kill_attr(m, n.attrs + i, d);
  for (uint32_t i = 0; i < n.n_in; i++) {
    const uint32_t value = m->refs[n.refs + i].value;
    model_unlink_use(m, n.refs + i);
    if (value != NO_ID) edit_rows_forget(m, value);
  }
  for (uint32_t i = 0; i < n.n_out; i++) {
    const uint32_t value = m->refs[n.refs + n.n_in + i].value;
    if (value != NO_ID) edit_rows_release(m, value);
  }
  m->nodes[node].flags |= NODE_DEAD;
}

// Puts a row at the head of its graph's list.
static void link_row(struct model *m, uint32_t *heads, uint32_t *before, uint32_t graph,
                     uint32_t id) {
  m->work.kill_rows++;
  before[id] = NO_ID;
  if (graph == NO_ID) return;
  before[id] = heads[graph];
  heads[graph] = id;
}

static void bring_up_to_date(struct model *m) {
  const uint32_t graphs = m->n_graph_values, values = m->n_value_before;
  const uint32_t tensors = m->n_tensor_before;
  TABLE_ADD(m, graph_values, m->n_graphs - graphs);
  TABLE_ADD(m, graph_tensors, m->n_graphs - graphs);
  for (uint32_t i = graphs; i < m->n_graphs; i++)
    m->graph_values[i] = m->graph_tensors[i] = NO_ID;
  TABLE_ADD(m, value_before, m->n_values - values);
  for (uint32_t i = values; i < m->n_values; i++)
    link_row(m, m->graph_values, m->value_before, m->values[i].graph, i);
  TABLE_ADD(m, tensor_before, m->n_tensors - tensors);
  for (uint32_t i = tensors; i < m->n_tensors; i++)
    link_row(m, m->graph_tensors, m->tensor_before, m->tensors[i].graph, i);
}

static void kill_rows(struct model *m, uint32_t graph) {
  for (uint32_t i = m->graph_values[graph]; i != NO_ID; i = m->value_before[i]) {
    struct model_value *v = &m->values[i];
    m->work.kill_rows++;
    if (v->flags & VALUE_DEAD) continue;
    v->kind = VALUE_UNDEFINED;
    v->n_graph_outputs = 0;
    v->flags = 0;
    edit_rows_forget(m, i);
  }
  for (uint32_t i = m->graph_tensors[graph]; i != NO_ID; i = m->tensor_before[i]) {
    m->work.kill_rows++;
    kill_tensor(m, i);
  }
}

// Values around the graph are outputs no longer where it alone lists them.
static void kill_listings(struct model *m, const struct model_graph *g) {
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const uint32_t value = m->graph_io[g->outputs + i];
    edit_rows_count_output(m, value, -1);
    edit_rows_forget(m, value);
  }
}

// Graphs die from outside in: the list grows while it is walked.
static void finish(struct model *m, struct dying *d) {
  for (; d->done < d->n_graphs; d->done++) {
    struct model_graph *g = &m->graphs[d->graphs[d->done]];
    g->flags |= GRAPH_DEAD;
    while (g->first_node != NO_ID)
      kill_node(m, g->first_node, d);
    kill_listings(m, g);
    g->n_inputs = g->n_outputs = 0;
  }
  if (d->n_graphs > 0) bring_up_to_date(m);
  for (uint32_t i = 0; i < d->n_graphs; i++)
    kill_rows(m, d->graphs[i]);
  TABLE_FREE(d, graphs);
}

void edit_kill_node(struct model *m, uint32_t node) {
  struct dying d = {0};
  kill_node(m, node, &d);
  finish(m, &d);
}

void edit_kill_attr(struct model *m, uint32_t attr) {
  struct dying d = {0};
  kill_attr(m, attr, &d);
  finish(m, &d);
}

void edit_kill_graph(struct model *m, uint32_t graph) {
  struct dying d = {0};
  add_graph(&d, graph);
  finish(m, &d);
}
