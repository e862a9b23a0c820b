//   y ◀── Add ◀── Mul ◀── x      y, then what Add reads, then what Mul reads; a node with two readers once
//          ▲
//          └── If { … }          what the nodes of its bodies read too
#include "verify/models/verify_walk.h"

void verify_walk_begin(struct verify_walk *w, const struct verify_random *r) {
  *w = (struct verify_walk){.r = r};
  w->seen = arena_zalloc(&w->arena, (r->m->n_nodes + (size_t)1) * sizeof *w->seen);
}

void verify_walk_end(struct verify_walk *w) {
  TABLE_FREE(w, list);
  arena_free(&w->arena);
}

static void see(struct verify_walk *w, uint32_t node) {
  if (w->seen[node]) return;
  w->seen[node] = true;
  *TABLE_PUSH(w, list) = node;
}

void verify_walk_see(struct verify_walk *w, uint32_t value) {
  const struct model *m = w->r->m;
  if (value == NO_ID) return;
  const struct model_value *v = &m->values[value];
  if (v->kind == VALUE_NODE_OUTPUT) see(w, v->def);
  if (v->kind == VALUE_INPUT && m->graphs[v->graph].kind == GRAPH_SUB)
    see(w, m->attrs[m->graphs[v->graph].owner].node);
}

void verify_walk_see_before(struct verify_walk *w, uint32_t node) {
  const struct model *m = w->r->m;
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++)
    verify_walk_see(w, model_input(m, &m->nodes[node], i));
  for (uint32_t i = w->r->inner[node]; i != 0; i = w->r->next[i - 1])
    see(w, i - 1);
}

uint32_t verify_walk_output(const struct verify_random *r, uint32_t place) {
  if (r->m->main_graph == NO_ID) return NO_ID;
  const struct model_graph *g = &r->m->graphs[r->m->main_graph];
  return place < g->n_outputs ? r->m->graph_io[g->outputs + place] : NO_ID;
}

bool verify_walk_knows(const struct verify_random *r, dim_id d) {
  return d != NO_ID && dims_unbound(infer_dims(r->in), d, r->symbols, r->n_symbols) == NO_ID;
}

// Are all dims of what the node reads known? Else numbers that are drawn may decide them.
static bool reads_known_dims(const struct verify_random *r, uint32_t node) {
  const struct model *m = r->m;
  struct infer_type t;
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++) {
    const uint32_t value = model_input(m, &m->nodes[node], i);
    if (value == NO_ID) continue;
    if (!infer_type_of(r->in, value, &t) || t.kind != INFER_TENSOR || !t.ranked) return false;
    for (uint32_t k = 0; k < t.rank; k++)
      if (!verify_walk_knows(r, t.dims[k])) return false;
  }
  return true;
}

bool verify_walk_ends(const struct verify_random *r, uint32_t node) {
  return r->does[node] & VERIFY_BY_DIMS && reads_known_dims(r, node);
}
