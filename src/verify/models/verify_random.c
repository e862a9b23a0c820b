// Numbers that the runtime draws while it runs. Without a seed they depend on where their node stands among the others, so that a
// model with one Identity less has others: outputs that are made of them and differ show nothing.
//
//   RandomNormalLike ─▶ Add ─▶ y        y depends on them, and z does not
//   x ─▶ Mul ─▶ z
//
// Where numbers have no part in what a node makes (Shape), what comes before it shows nothing of them either.
//
// A node around bodies depends on all that the nodes of these do, and a node that calls a function on all of its nodes.
#include "verify/models/verify_random.h"

#include "verify/models/verify_walk.h"

#include "model/model_calls.h"

#include <string.h>

// The slot of a formal input; NO_ID: there is none of that name.
static uint32_t slot_of(const struct schema_signature *s, const char *name) {
  for (uint32_t i = 0; i < s->n_inputs; i++)
    if (strcmp(s->inputs[i].name, name) == 0) return i;
  return NO_ID;
}

// Is the input left out, or a constant of zeros (no ratio, not training)?
static bool is_zero(const struct model *m, uint32_t node, uint32_t slot, bool unwritten) {
  const uint32_t value = slot < m->nodes[node].n_in ? model_input(m, &m->nodes[node], slot) : NO_ID;
  struct model_constant c;
  struct span raw;
  if (value == NO_ID) return unwritten;
  if (!model_resolve_constant(m, value, &c) || !model_small_value(m, c.tensor, &raw)) return false;
  for (size_t i = 0; i < raw.n; i++)
    if (raw.at[i] != 0) return false;
  return raw.n > 0;
}

// An operator that drops elements in training has, in its newest version, an input that says whether it trains.
static bool is_random(struct schema_names *names, uint32_t node) {
  const struct schema_operator *op = schema_of_node(names, node);
  const struct schema_signature *s;
  if (!op || !(op->flags & SCHEMA_RANDOM) || model_attr_named(names->m, node, "seed")) return false;
  if (!op->n_versions || slot_of(&op->versions[op->n_versions - 1], "training_mode") == NO_ID)
    return true;
  s = schema_of_node_at(names, node);
  const uint32_t mode = s ? slot_of(s, "training_mode") : NO_ID;
  return mode != NO_ID && !is_zero(names->m, node, mode, true) &&
         !is_zero(names->m, node, slot_of(s, "ratio"), false);
}

// ---- functions -----------------------------------------------------------------------------------

struct calls {
  struct verify_random *r;
  uint32_t *caller,
      *before; // by function: 1 + the last node that calls it; by node: 1 + the caller before it
  TABLE(uint32_t, list); // functions that do more than their callers are marked with
  uint8_t *does;         // by function: enum verify_does
};

// BY_DIMS is said of a node alone.
static void mark(struct calls *c, uint32_t node, uint8_t does) {
  const struct model *m = c->r->m;
  const struct model_graph *root = &m->graphs[model_root_graph(m, m->nodes[node].graph)];
  c->r->does[node] |= does;
  c->r->any = c->r->any || does & VERIFY_DRAWS;
  does &= (uint8_t)~VERIFY_BY_DIMS;
  if (root->kind != GRAPH_FUNCTION || !(does & ~c->does[root->owner])) return;
  c->does[root->owner] |= does;
  *TABLE_PUSH(c, list) = root->owner;
}

// Where a node stands, and which function it calls.
static void place_node(struct calls *c, const struct model_calls *calls, uint32_t node) {
  struct verify_random *r = c->r;
  const struct model *m = r->m;
  const struct model_graph *g = &m->graphs[m->nodes[node].graph];
  if (g->kind == GRAPH_SUB) {
    const uint32_t around = m->attrs[g->owner].node;
    r->next[node] = r->inner[around];
    r->inner[around] = node + 1;
  }
  const uint32_t f = model_calls_callee(calls, node);
  if (f == NO_ID) return;
  r->calls[node] = true;
  c->before[node] = c->caller[f];
  c->caller[f] = node + 1;
}

// Symbols of the inputs' dims: sizes that nothing draws.
static void find_symbols(struct verify_random *r, struct arena *a) {
  if (r->m->main_graph == NO_ID) return;
  const struct model_graph *g = &r->m->graphs[r->m->main_graph];
  struct dims *d = infer_dims(r->in);
  struct infer_type t;
  size_t most = 0;
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (infer_type_of(r->in, r->m->graph_io[g->inputs + i], &t) && t.ranked) most += t.rank;
  r->symbols = arena_zalloc(a, (most + 1) * sizeof *r->symbols);
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    if (!infer_type_of(r->in, r->m->graph_io[g->inputs + i], &t) || !t.ranked) continue;
    for (uint32_t k = 0; k < t.rank; k++)
      if (t.dims[k] != NO_ID && dims_is_symbol(d, t.dims[k], NULL))
        r->symbols[r->n_symbols++] = (struct dims_binding){t.dims[k], 1};
  }
}

void verify_random_find(struct verify_random *r, const struct model *m, struct infer *in,
                        struct arena *a) {
  const size_t nodes = m->n_nodes + (size_t)1, functions = m->n_functions + (size_t)1;
  *r = (struct verify_random){.m = m,
                              .in = in,
                              .does = arena_zalloc(a, nodes * sizeof *r->does),
                              .calls = arena_zalloc(a, nodes * sizeof *r->calls),
                              .inner = arena_zalloc(a, nodes * sizeof *r->inner),
                              .next = arena_zalloc(a, nodes * sizeof *r->next)};
  struct calls c = {.r = r,
                    .caller = arena_zalloc(a, functions * sizeof *c.caller),
                    .before = arena_zalloc(a, nodes * sizeof *c.before),
                    .does = arena_zalloc(a, functions * sizeof *c.does)};
  struct model_calls calls = {.m = NULL};
  struct schema_names names;
  model_calls_init(&calls, m);
  schema_names_init(&names, m);
  find_symbols(r, a);
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (!(m->nodes[i].flags & NODE_DEAD)) place_node(&c, &calls, i);
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    if (m->nodes[i].flags & NODE_DEAD || r->calls[i]) continue;
    // A node around bodies does what the nodes of these do.
    const uint8_t does = r->inner[i] ? 0 : verify_whole_does(&names, in, i);
    mark(&c, i, is_random(&names, i) ? does | VERIFY_DRAWS : does);
  }
  while (c.n_list > 0) {
    const uint32_t f = c.list[--c.n_list];
    for (uint32_t i = c.caller[f]; i != 0; i = c.before[i - 1])
      mark(&c, i - 1, c.does[f]);
  }
  TABLE_FREE(&c, list);
  schema_names_done(&names);
  model_calls_done(&calls);
}

// ---- an output -----------------------------------------------------------------------------------

uint32_t verify_random_behind(const struct verify_random *r, uint32_t place) {
  struct verify_walk w;
  uint32_t found = NO_ID;
  if (!r->any) return NO_ID;
  verify_walk_begin(&w, r);
  verify_walk_see(&w, verify_walk_output(r, place));
  while (w.n_list > 0 && found == NO_ID) {
    const uint32_t node = w.list[--w.n_list];
    if (r->does[node] & VERIFY_DRAWS) found = node;
    if (!verify_walk_ends(r, node)) verify_walk_see_before(&w, node);
  }
  verify_walk_end(&w);
  return found;
}

bool verify_random_forms(const struct verify_random *r, uint32_t place, const struct array *a,
                         const struct array *b) {
  const uint32_t value = verify_walk_output(r, place);
  struct infer_type t;
  if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank) return false;
  if (a->kind != ARRAY_TENSOR || value == NO_ID || !infer_type_of(r->in, value, &t) || !t.ranked ||
      t.rank != a->rank)
    return true;
  for (uint32_t k = 0; k < a->rank; k++)
    if (a->dims[k] != b->dims[k] && verify_walk_knows(r, t.dims[k])) return false;
  return true;
}
