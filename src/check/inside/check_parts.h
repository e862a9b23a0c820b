// What the parts of check_structure share, and check_operators with them.
//
//   check.c            names made once, inputs defined, imports present; the story
//   check_order.c      order and cycles, of nodes and of functions; names that hide earlier ones
//   check_extents.c    what ranges of files do to each other
//   check_operators.c  what operators want of their nodes: asked apart from the others
#ifndef WEIR_CHECK_PARTS_H
#define WEIR_CHECK_PARTS_H

#include "check/check.h"

struct check {
  const struct model *m;
  const struct fault_sink *faults;
  struct check_found *found; // or NULL
  struct err *err;
  struct arena scratch;
};

// 0 if the check goes on, -1 after an error that nobody collects.
int check_report(struct check *c, enum fault_level level, const char *place, const char *fmt, ...)
    ERR_PRINTF(4, 5);
// Warnings are only worth computing if somebody collects or counts them.
static inline bool check_warns(const struct check *c) {
  return c->faults || c->found;
}

// "node 'conv1' (Conv)", or "node g0/n12 (Conv)" if it has no name.
struct check_place {
  char s[448];
};
struct check_place check_node_place(const struct check *c, uint32_t node);
// "graph 'main'".
struct check_place check_graph_place(const struct check *c, uint32_t graph);

// Domains of nodes, by the graph whose imports count for them: check_imports_push takes the domain of a
// node down, check_imports_sort leaves each once, with its first node.
struct check_import {
  uint32_t root, domain, node;
};
struct check_imports {
  TABLE(struct check_import, at);
};
void check_imports_push(struct check_imports *used, const struct model *m, uint32_t node);
void check_imports_sort(struct check_imports *used);

// Edges of a graph of `n` vertices; check_cycle gives the vertices of a cycle in `cycle` (up to 8,
// *length says how many it has) or false.
struct check_edges {
  uint32_t (*at)[2]; // from, to
  size_t n, cap;
};

// Where the nodes stand, and which uses come before what they use.
struct check_order {
  const struct check *c;
  uint32_t *position; // in its graph, from 1; of nodes that were seen
  uint32_t backward;  // uses of what is made later
  uint32_t from, to;  // the first of them
};
struct check_order check_order_begin(struct check *c);
// The nodes of a graph, one after the other in list order, and then its outputs. Graphs come in the order
// of their ids: a graph is older than those in it.
void check_order_node(struct check_order *o, uint32_t node);
void check_order_outputs(struct check_order *o, uint32_t graph);
// What all of them together show.
int check_order_report(struct check *c, const struct check_order *o);
int check_hidden(struct check *c, const struct check_order *o);
int check_function_recursion(struct check *c);
int check_extents(struct check *c);

#endif
