// Which of what changed is one site.
//
// Elements are nodes that changed, and claims: that a value of the source and one of the result are
// equal. A claim comes where a node that did not change, or a list of outputs, has one where it had the
// other. Elements are joined
//
//   where both sides make a value of the same id            Conv ─▶ y   │   MatMul ─▶ y
//   where a value of one side alone is between them         A ─▶ t ─▶ B │   AB
//   a claim with who makes a value that one side alone has  y = Identity(x) gone: (y, x)
//   where a constant of one side is computed on the other, with who computes it
//
// All of it is by values, never by the groups of edits: those say what the edits were for, and a group may
// reach through the whole model. What is left between two sites is a value of the same id in both, or a
// claim of one of them; so if each site is right by itself, for whatever inputs, all outputs are equal
// (both models being without cycles, by induction over either).
//
// A site lies in one graph. Where a join would cross a body's border, the node around it is forced to
// count as changed, and all is found again.
#include "verify/cut/inside/sites_parts.h"

uint32_t sites_join_root(struct sites_cut *c, uint32_t element) {
  uint32_t at = element;
  while (c->parent[at] != at) {
    c->parent[at] = c->parent[c->parent[at]];
    at = c->parent[at];
    c->looked++;
  }
  return at;
}

// ---- bodies ------------------------------------------------------------------------------------

// The node in graph `around` whose body holds `graph`, or NO_ID.
static void force_within(struct sites_cut *c, uint32_t graph, uint32_t around) {
  const struct model *m = c->m[AFTER];
  uint32_t node = NO_ID;
  for (; graph != around && graph != NO_ID; graph = m->graphs[graph].parent)
    if (m->graphs[graph].kind == GRAPH_SUB && m->graphs[graph].owner != NO_ID)
      node = m->attrs[m->graphs[graph].owner].node;
  if (node == NO_ID || c->forced[node]) return;
  c->forced[node] = true;
  c->lifted = true;
}

// False: no node is around both.
static bool lift(struct sites_cut *c, uint32_t a, uint32_t b) {
  const struct model *m = c->m[AFTER];
  uint32_t x = a, y = b;
  while (x != y && x != NO_ID && y != NO_ID) // those around have lower numbers
    if (x > y)
      x = m->graphs[x].parent;
    else
      y = m->graphs[y].parent;
  if (x == NO_ID || y == NO_ID) return false;
  force_within(c, a, x);
  force_within(c, b, x);
  return c->lifted;
}

// Where they lie in different graphs, and a node around them is forced, or there is none: both are torn.
static void join(struct sites_cut *c, uint32_t a, uint32_t b) {
  const uint32_t x = sites_join_root(c, a), y = sites_join_root(c, b);
  if (x == y) return;
  if (c->graph[x] != NO_ID && c->graph[y] != NO_ID && c->graph[x] != c->graph[y]) {
    if (!lift(c, c->graph[x], c->graph[y])) {
      *TABLE_PUSH(c, torn) = x;
      *TABLE_PUSH(c, torn) = y;
    }
    return;
  }
  if (c->graph[x] == NO_ID) c->graph[x] = c->graph[y];
  c->parent[y] = x;
}

// ---- claims ------------------------------------------------------------------------------------

static void join_maker(struct sites_cut *c, int side, uint32_t value, uint32_t element) {
  const uint32_t maker = sites_maker(c, side, value);
  if (maker != NO_ID) join(c, element, maker);
}

static uint32_t add_claim(struct sites_cut *c, uint32_t before, uint32_t after) {
  struct model_constant found;
  for (uint32_t i = c->claim_of[before]; i != NO_ID; i = c->claims[i].next)
    if (c->claims[i].after == after) return i;
  const uint32_t claim = TABLE_ADD(c, claims, 1), el = TABLE_ADD(c, parent, 1);
  c->claims[claim] = (struct sites_claim){before, after, c->claim_of[before], false};
  c->claim_of[before] = claim;
  c->parent[el] = el;
  *TABLE_PUSH(c, graph) = NO_ID;
  const bool fixed[2] = {sites_constant(c, BEFORE, before, &found),
                         sites_constant(c, AFTER, after, &found)};
  const bool same = before == after;
  if (!fixed[BEFORE] && (same || fixed[AFTER] || !sites_there(c, AFTER, before)))
    join_maker(c, BEFORE, before, el);
  if (!fixed[AFTER] && (same || fixed[BEFORE] || !sites_there(c, BEFORE, after)))
    join_maker(c, AFTER, after, el);
  return claim;
}

// Is it made on both sides by a node that did not change? Then what that reads is what must be equal.
static bool made_alike(const struct sites_cut *c, uint32_t value) {
  const struct model *s = c->m[BEFORE], *e = c->m[AFTER];
  if (value >= s->n_values || s->values[value].kind != VALUE_NODE_OUTPUT) return false;
  const uint32_t node = s->values[value].def;
  return e->values[value].kind == VALUE_NODE_OUTPUT && e->values[value].def == node &&
         c->el[BEFORE][node] == NO_ID && !(e->nodes[node].flags & NODE_DEAD) &&
         s->nodes[node].n_in > 0;
}

// The same place reads `before` in the source and `after` in the result, and nothing there changed.
static void demand_pair(struct sites_cut *c, uint32_t before, uint32_t after) {
  struct model_constant s, e;
  if (before == NO_ID || after == NO_ID) return;
  const bool fixed = sites_constant(c, BEFORE, before, &s);
  const bool fixed_after = sites_constant(c, AFTER, after, &e);
  if (before == after && ((!fixed && !fixed_after) || made_alike(c, before))) {
    c->demanded[before] = true;
    return;
  }
  const bool same = fixed && fixed_after && s.tensor == e.tensor;
  if (same && !(c->m[AFTER]->tensors[e.tensor].flags & TENSOR_REPLACED)) return;
  const uint32_t claim = add_claim(c, before, after); // the table may move
  c->claims[claim].demanded = true;
}

static void demand_all(struct sites_cut *c) {
  const struct model *s = c->m[BEFORE], *e = c->m[AFTER];
  for (uint32_t n = 0; n < s->n_nodes; n++) {
    if (c->el[BEFORE][n] != NO_ID || e->nodes[n].flags & NODE_DEAD) continue;
    for (uint32_t i = 0; i < s->nodes[n].n_in; i++)
      demand_pair(c, model_input(s, &s->nodes[n], i), model_input(e, &e->nodes[n], i));
  }
  for (uint32_t g = 0; g < s->n_graphs; g++) {
    const struct model_graph *a = &s->graphs[g], *b = &e->graphs[g];
    if (c->cover[BEFORE][g] != NO_ID || c->cover[AFTER][g] != NO_ID || !c->live[g]) continue;
    for (uint32_t i = 0; i < a->n_outputs && i < b->n_outputs; i++)
      demand_pair(c, s->graph_io[a->outputs + i], e->graph_io[b->outputs + i]);
  }
}

// ---- what nodes read ---------------------------------------------------------------------------

static void join_read_before(struct sites_cut *c, uint32_t node, uint32_t value) {
  struct model_constant found;
  if (sites_constant(c, BEFORE, value, &found)) return;
  const uint32_t now = sites_forward(c, value);
  const bool there = sites_there(c, AFTER, value);
  const bool lost = !there && now == NO_ID;
  if (lost || sites_constant(c, AFTER, there ? value : now, &found))
    join_maker(c, BEFORE, value, node);
  if (now != NO_ID) add_claim(c, value, now);
}

// The value of the source whose place it took, if it still has it.
static uint32_t place_of(const struct sites_cut *c, uint32_t value) {
  const uint32_t of = c->from[value];
  return of != NO_ID && sites_forward(c, of) == value ? of : NO_ID;
}

static void join_read_after(struct sites_cut *c, uint32_t node, uint32_t value) {
  struct model_constant found;
  if (sites_constant(c, AFTER, value, &found)) return;
  const bool there = sites_there(c, BEFORE, value);
  const uint32_t was = there ? value : place_of(c, value);
  if (was == NO_ID || sites_constant(c, BEFORE, was, &found))
    join_maker(c, AFTER, value, node);
  else if (!there)
    add_claim(c, was, value);
}

static void join_nodes(struct sites_cut *c) {
  const struct model *s = c->m[BEFORE], *e = c->m[AFTER];
  for (uint32_t n = 0; n < e->n_nodes; n++) {
    if (n < s->n_nodes && c->el[BEFORE][n] == n) {
      for (uint32_t i = 0; i < s->nodes[n].n_out; i++) {
        const uint32_t v = model_output(s, &s->nodes[n], i);
        if (v != NO_ID && sites_there(c, AFTER, v)) join_maker(c, AFTER, v, n);
      }
      sites_reads(c, BEFORE, n);
      for (uint32_t i = 0; i < c->n_reads; i++)
        join_read_before(c, n, c->reads[i]);
    }
    if (c->el[AFTER][n] != n) continue;
    sites_reads(c, AFTER, n);
    for (uint32_t i = 0; i < c->n_reads; i++)
      join_read_after(c, n, c->reads[i]);
  }
}

// ---- what sites want of each other -------------------------------------------------------------

static void demand_value(struct sites_cut *c, int side, uint32_t node, uint32_t value) {
  const uint32_t maker = sites_maker(c, side, value);
  if (maker == NO_ID || sites_join_root(c, maker) == sites_join_root(c, node)) return;
  c->demanded[value] = true;
}

static void demand_claim(struct sites_cut *c, uint32_t node, uint32_t before, uint32_t after) {
  for (uint32_t i = c->claim_of[before]; i != NO_ID; i = c->claims[i].next)
    if (c->claims[i].after == after &&
        sites_join_root(c, c->m[AFTER]->n_nodes + i) != sites_join_root(c, node))
      c->claims[i].demanded = true;
}

static void demand_read(struct sites_cut *c, int side, uint32_t node, uint32_t value) {
  struct model_constant found;
  if (sites_constant(c, side, value, &found)) return;
  if (sites_there(c, !side, value)) demand_value(c, side, node, value);
  const uint32_t other = side == BEFORE ? sites_forward(c, value) : place_of(c, value);
  if (other != NO_ID && side == BEFORE) demand_claim(c, node, value, other);
  if (other != NO_ID && side == AFTER) demand_claim(c, node, other, value);
}

static void demand_between(struct sites_cut *c) {
  for (uint32_t n = 0; n < c->m[AFTER]->n_nodes; n++)
    for (int side = 0; side < 2; side++) {
      if (n >= c->m[side]->n_nodes || c->el[side][n] != n) continue;
      sites_reads(c, side, n);
      for (uint32_t i = 0; i < c->n_reads; i++)
        demand_read(c, side, n, c->reads[i]);
    }
}

void sites_join_all(struct sites_cut *c) {
  const struct model *e = c->m[AFTER];
  c->n_parent = c->n_graph = c->n_claims = c->n_torn = 0;
  TABLE_ADD(c, parent, e->n_nodes);
  TABLE_ADD(c, graph, e->n_nodes);
  for (uint32_t n = 0; n < e->n_nodes; n++) {
    c->parent[n] = n;
    c->graph[n] = e->nodes[n].graph;
  }
  memset(c->claim_of, 0xff, (e->n_values + (size_t)1) * sizeof *c->claim_of);
  memset(c->demanded, 0, e->n_values + (size_t)1);
  demand_all(c);
  join_nodes(c);
  if (!c->lifted) demand_between(c);
}
