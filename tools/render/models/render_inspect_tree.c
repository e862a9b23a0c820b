// Graphs as an outline:
//
//   graph 'main' (g0): 3 nodes
//      0  If 'choose' (cond) -> y
//         then_branch: graph 'then' (g1): 1 node
//            0  Conv (x, w, b) -> y1
//      1  …
//
// Subgraphs hang in attributes of nodes, to a depth that the file decides, so the walk keeps its
// own stack. A line shows a few inputs and outputs and says how many more there are: however large
// the model, every line is short and is printed as it is reached.
#include "cli/report.h"
#include "render/models/render_inspect.h"

#include "base/table.h"

#include <stdio.h>

enum { SLOTS_SHOWN = 6, INDENT_MAX = 120 };

// A graph being printed: the next node, and within the node above it the next subgraph.
struct frame {
  uint32_t graph;
  uint32_t node;         // the next one to print, NO_ID: none
  uint64_t index;        // its position
  uint32_t holder;       // the node printed last, whose subgraphs come next; NO_ID: none
  uint32_t attr, within; // the next attribute of it, and the next graph in that
};

struct walk {
  const struct model *m;
  TABLE(struct frame, stack);
};

// Of a graph's own line at this depth; its nodes' numbers stand below, their operators 6 further
// in.
static int indent_of(size_t depth) {
  size_t columns = depth * 6;
  return (int)(columns < INDENT_MAX ? columns : INDENT_MAX);
}

static void enter(struct walk *w, uint32_t graph, const char *label) {
  const struct model_graph *g = &w->m->graphs[graph];
  uint64_t n = 0;
  for (uint32_t i = g->first_node; i != NO_ID; i = w->m->nodes[i].next)
    n++;
  printf("%*s%s%s'%s' (g%u): %s node%s\n", indent_of(w->n_stack), "", label,
         *label ? ": graph " : "graph ", quote_str(model_name_str(w->m, g->name)).s, graph,
         decimal(n).s, plural(n));
  *TABLE_PUSH(w, stack) = (struct frame){.graph = graph, .node = g->first_node, .holder = NO_ID};
}

static void print_slots(const struct model *m, uint32_t first, uint32_t n) {
  for (uint32_t i = 0; i < n && i < SLOTS_SHOWN; i++)
    printf("%s%.60s", i ? ", " : "", quote(model_value_name(m, m->refs[first + i].value)).s);
  if (n > SLOTS_SHOWN) printf(", +%u", n - SLOTS_SHOWN);
}

// Of the first output, as far as the model declares it.
static void print_type(const struct model *m, const struct model_node *node) {
  const uint32_t value = node->n_out ? m->refs[node->refs + node->n_in].value : NO_ID;
  if (value == NO_ID || m->values[value].info == NO_ID) return;
  if (m->infos[m->values[value].info].flags & INFO_TENSOR)
    printf("  %s", render_inspect_type(m, value).s);
}

// The next subgraph of the frame's holder, or NO_ID when there is none left.
static uint32_t next_subgraph(const struct model *m, struct frame *f, const char **label) {
  const struct model_node *node = &m->nodes[f->holder];
  for (; f->attr < node->n_attrs; f->attr++, f->within = 0) {
    const struct model_attr *a = &m->attrs[node->attrs + f->attr];
    bool graphs = a->type == ATTR_GRAPH || a->type == ATTR_GRAPHS;
    if (!graphs || (a->flags & ATTR_DEAD) || f->within >= a->count) continue;
    *label = model_name_str(m, a->name);
    return a->first + f->within++;
  }
  return NO_ID;
}

// One line: a subgraph of the node above, the next node, or back to the graph around.
static void step(struct walk *w) {
  struct frame *f = &w->stack[w->n_stack - 1];
  if (f->holder != NO_ID) {
    const char *label = "";
    uint32_t graph = next_subgraph(w->m, f, &label);
    if (graph != NO_ID) {
      enter(w, graph, quote_str(label).s);
      return;
    }
    f->holder = NO_ID;
  }
  if (f->node == NO_ID) {
    w->n_stack--;
    return;
  }
  const struct model *m = w->m;
  const struct model_node *node = &m->nodes[f->node];
  printf("%*s%4s  ", indent_of(w->n_stack - 1), "", decimal(f->index).s);
  if (node->domain != m->empty) printf("%s::", quote_str(model_name_str(m, node->domain)).s);
  printf("%s", quote_str(model_name_str(m, node->op_type)).s);
  if (node->name != m->empty) printf(" '%s'", quote_str(model_name_str(m, node->name)).s);
  printf(" (");
  print_slots(m, node->refs, node->n_in);
  printf(") -> ");
  print_slots(m, node->refs + node->n_in, node->n_out);
  print_type(m, node);
  putchar('\n');
  f->holder = f->node;
  f->attr = f->within = 0;
  f->node = w->m->nodes[f->node].next;
  f->index++;
}

void render_inspect_tree(const struct model *m) {
  struct walk w = {.m = m};
  for (uint32_t i = 0; i < m->n_graphs; i++) {
    const struct model_graph *g = &m->graphs[i];
    if (g->kind == GRAPH_SUB || (g->flags & GRAPH_DEAD)) continue;
    if (g->kind == GRAPH_FUNCTION && g->owner < m->n_functions)
      printf("function %s::%s\n", quote_str(model_name_str(m, m->functions[g->owner].domain)).s,
             quote_str(model_name_str(m, m->functions[g->owner].name)).s);
    else if (g->kind == GRAPH_TRAINING)
      printf("training\n");
    enter(&w, i, "");
    while (w.n_stack > 0 && report_stdout_alive())
      step(&w);
    w.n_stack = 0;
  }
  TABLE_FREE(&w, stack);
}
