// Numbers that the runtime draws while it runs. Without a seed they depend on where their node stands among the others, so that a
// model with one Identity less has others: outputs that are made of them and differ show nothing.
//
//   RandomNormalLike ─▶ Add ─▶ y        y depends on them, and z does not
//   x ─▶ Mul ─▶ z
//
// A node around bodies depends on all that the nodes of these do, and a node that calls a function on all of its nodes.
#include "verify_random.h"

#include "model_calls.h"
#include "schema.h"

#include <stdlib.h>

// Does a Dropout drop? With a third input that is not known to be false.
static bool trains(const struct model *m, uint32_t node) {
  const uint32_t mode = m->nodes[node].n_in > 2 ? model_input(m, &m->nodes[node], 2) : NO_ID;
  struct model_constant c;
  struct span raw;
  if (mode == NO_ID) return false;
  return !model_resolve_constant(m, mode, &c) || !model_small_value(m, c.tensor, &raw) ||
         raw.n != 1 || raw.at[0] != 0;
}

static bool is_random(struct schema_names *names, uint32_t node) {
  const struct schema_operator *op = schema_of_node(names, node);
  if (!op || !(op->flags & SCHEMA_RANDOM) || model_attr_named(names->m, node, "seed")) return false;
  return !model_op_is(names->m, node, "Dropout") || trains(names->m, node);
}

// ---- functions -----------------------------------------------------------------------------------

struct calls {
  struct verify_random *r;
  uint32_t *caller,
      *before; // by function: 1 + the last node that calls it; by node: 1 + the caller before it
  uint32_t *list, n; // functions that draw numbers, of which the callers are not marked yet
  bool *seen;        // by function: it was in the list
};

static void mark(struct calls *c, uint32_t node) {
  const struct model *m = c->r->m;
  const struct model_graph *root = &m->graphs[model_root_graph(m, m->nodes[node].graph)];
  c->r->draws[node] = c->r->any = true;
  if (root->kind != GRAPH_FUNCTION || c->seen[root->owner]) return;
  c->seen[root->owner] = true;
  c->list[c->n++] = root->owner;
}

void verify_random_find(struct verify_random *r, const struct model *m, struct arena *a) {
  const size_t nodes = m->n_nodes + (size_t)1, functions = m->n_functions + (size_t)1;
  *r = (struct verify_random){.m = m,
                              .draws = arena_zalloc(a, nodes * sizeof *r->draws),
                              .inner = arena_zalloc(a, nodes * sizeof *r->inner),
                              .next = arena_zalloc(a, nodes * sizeof *r->next)};
  struct calls c = {.r = r,
                    .caller = arena_zalloc(a, functions * sizeof *c.caller),
                    .before = arena_zalloc(a, nodes * sizeof *c.before),
                    .list = arena_alloc(a, functions * sizeof *c.list),
                    .seen = arena_zalloc(a, functions * sizeof *c.seen)};
  struct model_calls calls = {.m = NULL};
  struct schema_names names;
  model_calls_init(&calls, m);
  schema_names_init(&names, m);
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    if (m->nodes[i].flags & NODE_DEAD) continue;
    const struct model_graph *g = &m->graphs[m->nodes[i].graph];
    if (g->kind == GRAPH_SUB) {
      const uint32_t around = m->attrs[g->owner].node;
      r->next[i] = r->inner[around];
      r->inner[around] = i + 1;
    }
    const uint32_t f = model_calls_callee(&calls, i);
    if (f != NO_ID) {
      c.before[i] = c.caller[f];
      c.caller[f] = i + 1;
    } else if (is_random(&names, i)) {
      mark(&c, i);
    }
  }
  while (c.n > 0)
    for (uint32_t i = c.caller[c.list[--c.n]]; i != 0; i = c.before[i - 1])
      mark(&c, i - 1);
  schema_names_done(&names);
  model_calls_done(&calls);
}

// ---- an output -----------------------------------------------------------------------------------

struct walk {
  const struct model *m;
  bool *seen; // by node
  TABLE(uint32_t, list);
};

static void see(struct walk *w, uint32_t node) {
  if (w->seen[node]) return;
  w->seen[node] = true;
  *TABLE_PUSH(w, list) = node;
}

static void see_maker(struct walk *w, uint32_t value) {
  if (value != NO_ID && w->m->values[value].kind == VALUE_NODE_OUTPUT)
    see(w, w->m->values[value].def);
}

uint32_t verify_random_behind(const struct verify_random *r, uint32_t place) {
  const struct model *m = r->m;
  const struct model_graph *g = &m->graphs[m->main_graph];
  struct arena a = {0};
  struct walk w = {.m = m, .seen = NULL};
  uint32_t found = NO_ID;
  if (!r->any || place >= g->n_outputs) return NO_ID;
  w.seen = arena_zalloc(&a, m->n_nodes * sizeof *w.seen);
  see_maker(&w, m->graph_io[g->outputs + place]);
  while (w.n_list > 0 && found == NO_ID) {
    const uint32_t node = w.list[--w.n_list];
    if (r->draws[node]) found = node;
    for (uint32_t i = 0; i < m->nodes[node].n_in; i++)
      see_maker(&w, model_input(m, &m->nodes[node], i));
    for (uint32_t i = r->inner[node]; i != 0; i = r->next[i - 1])
      see(&w, i - 1);
  }
  TABLE_FREE(&w, list);
  arena_free(&a);
  return found;
}
