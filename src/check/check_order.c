// Order and cycles.
//
// A node must come after what it uses. A use inside a subgraph counts as a use by the node that
// holds the subgraph:
//
//   g0:  A ──▶ If                       c uses A's output: the edge is A -> If
//              └ g1: … c …
//
// Files are nearly always sorted, and then one walk over the inputs proves that there is no cycle.
// Only if some edge points backwards are all edges collected and taken apart (Kahn's algorithm):
// what can be removed was merely out of order, which runtimes accept and we say; what remains waits
// for itself.
//
// The same order says which names of outer graphs are there for a body to hide.
#include "check/inside/check_parts.h"
#include "model/model_calls.h"

#include <stdio.h>

// ---- cycles -------------------------------------------------------------------------------------

static bool find_cycle(const struct check_edges *edges, uint32_t n, uint32_t cycle[8],
                       uint32_t *length) {
  struct arena scratch = {0};
  size_t *start = arena_zalloc(&scratch, ((size_t)n + 1) * sizeof *start);
  uint32_t *to = arena_alloc(&scratch, edges->n * sizeof *to);
  uint32_t *queue = arena_alloc(&scratch, n * sizeof *queue);
  uint32_t *waits = arena_zalloc(&scratch, n * sizeof *waits); // of each, what is not removed yet
  uint32_t *before = arena_zalloc(&scratch, n * sizeof *before);
  *length = 0;
  // Vertices without incoming edges are removed until none is left.
  for (size_t i = 0; i < edges->n; i++) {
    start[edges->at[i][0]]++;
    waits[edges->at[i][1]]++;
  }
  for (uint32_t v = 0; v < n; v++)
    start[v + 1] += start[v];
  for (size_t i = edges->n; i-- > 0;)
    to[--start[edges->at[i][0]]] = edges->at[i][1];
  uint32_t head = 0, tail = 0;
  for (uint32_t v = 0; v < n; v++)
    if (waits[v] == 0) queue[tail++] = v;
  while (head < tail) {
    const uint32_t v = queue[head++];
    for (size_t i = start[v]; i < (v + 1 < n ? start[v + 1] : edges->n); i++)
      if (--waits[to[i]] == 0) queue[tail++] = to[i];
  }
  if (tail < n) {
    // Whatever remains has a predecessor that remains: going backwards ends in a cycle.
    uint32_t v = 0;
    for (size_t i = 0; i < edges->n; i++)
      if (waits[edges->at[i][0]] && waits[edges->at[i][1]])
        before[edges->at[i][1]] = v = edges->at[i][0];
    for (uint32_t i = 0; i < n; i++)
      v = before[v];
    uint32_t at = v;
    do {
      if (*length < 8) cycle[*length] = at;
      ++*length;
      at = before[at];
    } while (at != v);
  }
  arena_free(&scratch);
  return tail < n;
}

static void add_edge(struct check_edges *edges, uint32_t from, uint32_t to) {
  edges->at = table_grow(edges->at, &edges->cap, edges->n + 1, sizeof *edges->at);
  edges->at[edges->n][0] = from;
  edges->at[edges->n][1] = to;
  edges->n++;
}

// ---- nodes --------------------------------------------------------------------------------------

// The node of graph `target` that is, or holds, what lies in `graph` under `node`; NO_ID if `graph`
// is not inside `target`.
static uint32_t holder(const struct model *m, uint32_t graph, uint32_t node, uint32_t target) {
  while (graph != target) {
    node = model_graph_node(m, graph);
    if (node == NO_ID) return NO_ID;
    graph = m->nodes[node].graph;
  }
  return node;
}

// `value` is used in `graph`, by `node` (NO_ID: as the graph's output): which node waits for which?
static bool edge_of(const struct model *m, uint32_t graph, uint32_t node, uint32_t value,
                    uint32_t *from, uint32_t *to) {
  if (value == NO_ID || m->values[value].kind != VALUE_NODE_OUTPUT) return false;
  *from = m->values[value].def;
  *to = holder(m, graph, node, m->nodes[*from].graph);
  return *to != NO_ID;
}

struct check_order check_order_begin(struct check *c) {
  return (struct check_order){
      .c = c, .position = arena_zalloc(&c->scratch, c->m->n_nodes * sizeof(uint32_t))};
}

// What was not seen yet comes later: in this graph, since those around it have been seen.
static void see_use(struct check_order *o, uint32_t graph, uint32_t node, uint32_t value) {
  uint32_t from, to;
  if (!edge_of(o->c->m, graph, node, value, &from, &to)) return;
  if (o->position[from] != 0 && o->position[from] < o->position[to]) return;
  if (o->backward++ > 0) return;
  o->from = from;
  o->to = to;
}

void check_order_node(struct check_order *o, uint32_t node) {
  const struct model *m = o->c->m;
  const struct model_node *n = &m->nodes[node];
  o->position[node] = n->prev == NO_ID ? 1 : o->position[n->prev] + 1;
  for (uint32_t i = 0; i < n->n_in; i++)
    see_use(o, n->graph, node, m->refs[n->refs + i].value);
}

void check_order_outputs(struct check_order *o, uint32_t graph) {
  const struct model_graph *g = &o->c->m->graphs[graph];
  for (uint32_t i = 0; i < g->n_outputs; i++)
    see_use(o, graph, NO_ID, o->c->m->graph_io[g->outputs + i]);
}

static void collect(const struct model *m, uint32_t graph, uint32_t node, uint32_t value,
                    struct check_edges *edges) {
  uint32_t from, to;
  if (edge_of(m, graph, node, value, &from, &to)) add_edge(edges, from, to);
}

static void collect_all(const struct model *m, struct check_edges *edges) {
  for (uint32_t graph = 0; graph < m->n_graphs; graph++) {
    const struct model_graph *g = &m->graphs[graph];
    if (g->flags & GRAPH_DEAD) continue;
    for (uint32_t id = g->first_node; id != NO_ID; id = m->nodes[id].next)
      for (uint32_t i = 0; i < m->nodes[id].n_in; i++)
        collect(m, graph, id, m->refs[m->nodes[id].refs + i].value, edges);
    for (uint32_t i = 0; i < g->n_outputs; i++)
      collect(m, graph, NO_ID, m->graph_io[g->outputs + i], edges);
  }
}

static int report_cycle(struct check *c, const uint32_t *cycle, uint32_t length) {
  char list[512];
  size_t n = 0;
  for (uint32_t i = length < 4 ? length : 4; i-- > 0;) {
    const struct check_place place = check_node_place(c, cycle[i]);
    const int more = snprintf(list + n, sizeof list - n, "%.100s%s", place.s, i ? " -> " : "");
    n += (size_t)more < sizeof list - n ? (size_t)more : 0;
  }
  return check_report(c, FAULT_ERROR, check_node_place(c, cycle[0]).s,
                      "is part of a cycle of %u node%s: %s%s", length, length == 1 ? "" : "s",
                      length > 4 ? "... -> " : "", list);
}

int check_order_report(struct check *c, const struct check_order *o) {
  if (o->backward == 0) return 0;
  struct check_edges edges = {0};
  uint32_t cycle[8], length;
  collect_all(c->m, &edges);
  const bool turns = find_cycle(&edges, c->m->n_nodes, cycle, &length);
  table_free(edges.at, edges.cap, sizeof *edges.at);
  if (turns) return report_cycle(c, cycle, length);
  return check_report(c, FAULT_WARNING, check_node_place(c, o->to).s,
                      "comes before %s, whose output it uses (%u such use%s): the nodes are not in "
                      "topological order, though there is no cycle",
                      check_node_place(c, o->from).s, o->backward, plural(o->backward));
}

// ---- names of the graphs around -----------------------------------------------------------------

// Is the value of an outer graph there when the node runs that holds what makes `v`? Of nodes that are not in order, who
// knows: any may be.
static bool is_earlier(const struct check_order *o, uint32_t outer, const struct model_value *v) {
  const struct model *m = o->c->m;
  if (m->values[outer].kind == VALUE_UNDEFINED) return false;
  if (m->values[outer].kind != VALUE_NODE_OUTPUT) return true;
  const uint32_t from = m->values[outer].def;
  const uint32_t to = holder(m, v->graph, v->def, m->nodes[from].graph);
  return to != NO_ID && from != to && (o->backward > 0 || o->position[from] < o->position[to]);
}

// The value of a graph around it that an output of a node in a body takes the name of, or NO_ID.
static uint32_t hidden_by(const struct check_order *o, uint32_t value) {
  const struct model *m = o->c->m;
  const struct model_value *v = &m->values[value];
  if (v->kind != VALUE_NODE_OUTPUT || v->flags & VALUE_DEAD) return NO_ID;
  uint32_t graph = v->graph;
  while ((graph = m->graphs[graph].parent) != NO_ID) {
    const uint32_t outer = model_lookup(m, graph, v->name);
    if (outer == NO_ID || is_earlier(o, outer, v)) return outer;
    graph = m->values[outer].graph;
  }
  return NO_ID;
}

// ONNX wants a name once in a graph and those around it. Here the inner one counts, as for inputs
// and initializers of a body, which runtimes let pass; outputs of nodes they refuse. What comes
// later outside, as the outputs of the node itself that has the body, they let pass too: a branch
// often calls its result what the If does.
int check_hidden(struct check *c, const struct check_order *o) {
  const struct model *m = c->m;
  uint64_t count = 0;
  uint32_t first = NO_ID, outer = NO_ID;
  bool nested = false;
  for (uint32_t graph = 0; graph < m->n_graphs; graph++)
    nested |= m->graphs[graph].parent != NO_ID;
  if (!check_warns(c) || !nested) return 0;
  for (uint32_t id = 0; id < m->n_values; id++) {
    const uint32_t hidden = hidden_by(o, id);
    if (hidden == NO_ID || count++ > 0) continue;
    first = id;
    outer = hidden;
  }
  if (count == 0) return 0;
  return check_report(c, FAULT_WARNING, check_node_place(c, m->values[first].def).s,
                      "its output '%s' reuses the name of a value of the enclosing %s (%s such "
                      "output%s): runtimes refuse the model",
                      quote(model_value_name(m, first)).s,
                      check_graph_place(c, m->values[outer].graph).s, decimal(count).s,
                      plural(count));
}

// ---- functions ----------------------------------------------------------------------------------

int check_function_recursion(struct check *c) {
  const struct model *m = c->m;
  if (m->n_functions == 0) return 0;
  struct model_calls calls = {0};
  struct check_edges edges = {0};
  uint32_t cycle[8], length;
  int rc = 0;
  model_calls_init(&calls, m);
  for (uint32_t i = 0; i < m->n_functions && rc == 0; i++) {
    const struct model_function *f = &m->functions[i];
    if (f->flags & FUNCTION_DEAD || model_calls_named(&calls, f->domain, f->name, f->overload) == i)
      continue;
    rc = check_report(c, FAULT_ERROR, "model", "function '%s' of domain '%s' is defined twice",
                      quote(model_name(m, f->name)).s, quote(model_name(m, f->domain)).s);
  }
  // Calls from the body of a function, and from subgraphs in it.
  for (uint32_t graph = 0; graph < m->n_graphs; graph++) {
    const uint32_t root = model_root_graph(m, graph);
    if (m->graphs[root].kind != GRAPH_FUNCTION) continue;
    for (uint32_t id = m->graphs[graph].first_node; id != NO_ID; id = m->nodes[id].next) {
      const uint32_t callee = model_calls_callee(&calls, id);
      if (callee != NO_ID) add_edge(&edges, m->graphs[root].owner, callee);
    }
  }
  if (rc == 0 && find_cycle(&edges, m->n_functions, cycle, &length))
    rc = check_report(c, FAULT_ERROR, "model", "function '%s' calls itself, through %u function%s",
                      quote(model_name(m, m->functions[cycle[0]].name)).s, length,
                      length == 1 ? "" : "s");
  table_free(edges.at, edges.cap, sizeof *edges.at);
  model_calls_done(&calls);
  return rc;
}
