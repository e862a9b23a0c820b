// topological-sort: nodes are put in an order in which each comes after what it uses.
//
//   D  A  C  B        A ──▶ B ──▶ D,  C            A  B  D  C
//                     of those that are free, the one that came first in the file
//
// A use in a graph inside a node is a use by that node. A graph that is sorted is left as it is; one that has a
// cycle has no order, and is left too.
#include "passes/kit/kit.h"
#include "passes/tidy/inside/tidy.h"

struct edge {
  uint32_t to, next; // next: of those that begin at the same node, or NO_ID
};

struct sort {
  struct kit *k;
  TABLE(struct edge, edges);
  uint32_t *first; // by node id: its first edge, or NO_ID
  uint32_t *waits; // by node id: how many uses it still waits for
  uint32_t *place; // by node id: its place in its graph, from 0
  bool *backward;  // by graph id: some edge points backwards
};

// `value` is used in `graph`, by `node` (NO_ID: as an output of that graph).
static void see_use(struct sort *s, uint32_t graph, uint32_t node, uint32_t value) {
  const struct model *m = s->k->m;
  if (value == NO_ID || m->values[value].kind != VALUE_NODE_OUTPUT) return;
  const uint32_t from = m->values[value].def, home = m->nodes[from].graph;
  if (node == NO_ID) {
    if (graph == home || m->graphs[graph].kind != GRAPH_SUB) return;
    node = m->attrs[m->graphs[graph].owner].node;
  }
  const uint32_t to = kit_node_around(s->k, node, home);
  if (to == NO_ID) return;
  const uint32_t edge = TABLE_ADD(s, edges, 1);
  s->edges[edge] = (struct edge){to, s->first[from]};
  s->first[from] = edge;
  s->waits[to]++;
  if (s->place[from] >= s->place[to]) s->backward[home] = true;
}

static void collect(struct sort *s) {
  const struct model *m = s->k->m;
  struct arena *a = &s->k->site;
  const size_t bytes = m->n_nodes * sizeof(uint32_t);
  s->first = memset(arena_alloc(a, bytes), 0xff, bytes);
  s->waits = arena_zalloc(a, bytes);
  s->place = arena_alloc(a, bytes);
  s->backward = arena_zalloc(a, m->n_graphs * sizeof *s->backward);
  for (uint32_t g = 0; kit_graph(s->k, &g); g++)
    for (uint32_t n = m->graphs[g].first_node, i = 0; n != NO_ID; n = m->nodes[n].next)
      s->place[n] = i++;
  for (uint32_t g = 0; kit_graph(s->k, &g); g++) {
    for (uint32_t n = m->graphs[g].first_node; n != NO_ID; n = m->nodes[n].next)
      for (uint32_t i = 0; i < m->nodes[n].n_in; i++)
        see_use(s, g, n, model_input(m, &m->nodes[n], i));
    for (uint32_t i = 0; i < m->graphs[g].n_outputs; i++)
      see_use(s, g, NO_ID, m->graph_io[m->graphs[g].outputs + i]);
  }
}

// ---- the order -----------------------------------------------------------------------------------

// Nodes that wait for nothing, the one of the lowest place on top.
struct heap {
  const uint32_t *place;
  uint32_t *nodes, n;
};

static void swap(uint32_t *a, uint32_t *b) {
  const uint32_t c = *a;
  *a = *b;
  *b = c;
}

static void heap_put(struct heap *h, uint32_t node) {
  uint32_t i = h->n++;
  h->nodes[i] = node;
  for (; i > 0 && h->place[h->nodes[i]] < h->place[h->nodes[(i - 1) / 2]]; i = (i - 1) / 2)
    swap(&h->nodes[i], &h->nodes[(i - 1) / 2]);
}

static uint32_t heap_take(struct heap *h) {
  const uint32_t top = h->nodes[0];
  h->nodes[0] = h->nodes[--h->n];
  for (uint32_t i = 0, least;; i = least) {
    least = i;
    for (uint32_t c = 2 * i + 1; c <= 2 * i + 2 && c < h->n; c++)
      if (h->place[h->nodes[c]] < h->place[h->nodes[least]]) least = c;
    if (least == i) return top;
    swap(&h->nodes[i], &h->nodes[least]);
  }
}

// The nodes of a graph in order: how many there are. Fewer than the graph has: there is a cycle.
static uint32_t order_of(struct sort *s, uint32_t graph, uint32_t *order, struct heap *free) {
  const struct model *m = s->k->m;
  uint32_t n = 0;
  free->n = 0;
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next)
    if (s->waits[i] == 0) heap_put(free, i);
  while (free->n > 0) {
    const uint32_t node = order[n++] = heap_take(free);
    for (uint32_t e = s->first[node]; e != NO_ID; e = s->edges[e].next)
      if (--s->waits[s->edges[e].to] == 0) heap_put(free, s->edges[e].to);
  }
  return n;
}

static void put_in_order(struct kit *k, uint32_t graph, const uint32_t *order, uint32_t n) {
  uint32_t at = k->m->graphs[graph].first_node;
  for (uint32_t i = 0; i < n; i++) {
    if (order[i] == at) {
      at = k->m->nodes[at].next;
      continue;
    }
    kit_report(k, &(struct kit_report){.node = order[i], .reason = "order"});
    kit_move(k, order[i], at);
  }
}

static uint32_t node_count(const struct model *m, uint32_t graph) {
  uint32_t n = 0;
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next)
    n++;
  return n;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  struct sort s = {.k = &k};
  (void)with;
  kit_init(&k, env, env->pass->name);
  kit_site(&k, NO_ID, "order");
  collect(&s);
  uint32_t *order = arena_alloc(&k.site, k.m->n_nodes * sizeof *order);
  struct heap free = {s.place, arena_alloc(&k.site, k.m->n_nodes * sizeof *order), 0};
  for (uint32_t g = 0; kit_graph(&k, &g); g++) {
    if (!s.backward[g]) continue;
    const uint32_t n = order_of(&s, g, order, &free);
    if (n == node_count(k.m, g))
      put_in_order(&k, g, order, n);
    else
      kit_skipped(&k, k.m->graphs[g].first_node, "cycle");
  }
  TABLE_FREE(&s, edges);
  return kit_done(&k, err);
}

const struct pass tidy_topological_sort = {
    .name = "topological-sort",
    .keys = "cleanup topological-sort",
    .classes = "TopologicalSort",
    .summary = "sort nodes so that each comes after the nodes whose outputs it uses",
    .about = "Sorts the nodes of each graph that is not in topological order. If several nodes can "
             "come next, they keep their order. Sorted graphs, and graphs with a cycle, are not "
             "changed.",
    .exactness = EXACTNESS_EXACT,
    .run = run,
};
