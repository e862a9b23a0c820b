// A larger part around a site. What is added is the same in both models, so it computes the same from the same, and every
// value of it that other sites make is a boundary value that both have:
//
//   x ─▶ Shape ─▶ Mul ─▶ n           the site reads x and n: drawn one by one they would not fit
//   └──────────────────────▶ site    with Shape and Mul it reads x alone
//
// A part that differs with its surroundings differs in the model; one that agrees with them is right where it stands.
#include "sites_parts.h"

#include <stdlib.h>

enum { GROWN_NODES = 400, GROWN_READS = 4096 };
static const uint64_t grown_bytes = 64 << 20; // of constants that are added

struct side {
  TABLE(uint32_t, nodes);
  TABLE(struct model_constant, constants);
};

struct grown {
  const struct model *m[2];
  const struct sites *all;
  struct side side[2];
  TABLE(struct site_pair, inputs);
  TABLE(struct site_pair, next);
  uint32_t n_added;
  uint64_t bytes;
};

static bool has_node(const struct grown *g, int side, uint32_t node) {
  for (uint32_t i = 0; i < g->side[side].n_nodes; i++)
    if (g->side[side].nodes[i] == node) return true;
  return false;
}

static void add_constant(struct grown *g, int side, uint32_t value) {
  struct model_constant c;
  struct side *x = &g->side[side];
  for (uint32_t i = 0; i < x->n_constants; i++)
    if (x->constants[i].value == value) return;
  if (!model_resolve_constant(g->m[side], value, &c)) return;
  c.value = value;
  *TABLE_PUSH(x, constants) = c;
  g->bytes += g->m[side]->tensors[c.tensor].bytes;
}

// The node of that graph that makes a value, and may be added: one with bodies reads what it likes. NO_ID: none.
static uint32_t maker_of(const struct grown *g, int side, uint32_t value, uint32_t graph) {
  const struct model *m = g->m[side];
  if (value == NO_ID) return NO_ID;
  const struct model_value *v = &m->values[value];
  if (v->kind != VALUE_NODE_OUTPUT || m->nodes[v->def].graph != graph) return NO_ID;
  for (uint32_t i = 0; i < m->nodes[v->def].n_attrs; i++) {
    const struct model_attr *a = &m->attrs[m->nodes[v->def].attrs + i];
    if (!(a->flags & ATTR_DEAD) && (a->type == ATTR_GRAPH || a->type == ATTR_GRAPHS)) return NO_ID;
  }
  return v->def;
}

// NO_ID: there is nothing to be made.
static bool made_by(const struct grown *g, int side, uint32_t value) {
  if (value == NO_ID) return true;
  const struct model_value *v = &g->m[side]->values[value];
  return v->kind == VALUE_NODE_OUTPUT && has_node(g, side, v->def);
}

static bool is_there(const struct model *m, uint32_t value) {
  return value < m->n_values && !(m->values[value].flags & VALUE_DEAD) &&
         m->values[value].kind != VALUE_UNDEFINED;
}

// The value of the other side that stands for this one.
static uint32_t counterpart(const struct grown *g, int side, uint32_t value) {
  if (is_there(g->m[!side], value)) return value;
  const uint32_t other = side == BEFORE ? g->all->to[value] : g->all->from[value];
  return other != NO_ID && is_there(g->m[!side], other) ? other : NO_ID;
}

// Has all that a node reads something on the other side that stands for it?
static bool can_add(const struct grown *g, int side, uint32_t node) {
  const struct model *m = g->m[side];
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++) {
    const uint32_t value = model_input(m, &m->nodes[node], i);
    struct model_constant c;
    if (value == NO_ID || made_by(g, side, value) || model_resolve_constant(m, value, &c)) continue;
    const uint32_t other = counterpart(g, side, value);
    if (other == NO_ID || model_resolve_constant(g->m[!side], other, &c)) return false;
  }
  return true;
}

// What the node reads becomes inputs, and constants of its side.
static void add_node(struct grown *g, int side, uint32_t node) {
  const struct model *m = g->m[side];
  if (has_node(g, side, node)) return;
  *TABLE_PUSH(&g->side[side], nodes) = node;
  g->n_added++;
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++) {
    const uint32_t value = model_input(m, &m->nodes[node], i);
    struct model_constant c;
    if (value == NO_ID || made_by(g, side, value)) continue;
    if (model_resolve_constant(m, value, &c)) {
      add_constant(g, side, value);
      continue;
    }
    const uint32_t other = counterpart(g, side, value);
    *TABLE_PUSH(g, next) =
        side == BEFORE ? (struct site_pair){value, other} : (struct site_pair){other, value};
  }
}

// Inputs that are made inside of both by now go, and so do those that are listed already.
static void settle(struct grown *g) {
  g->n_inputs = 0;
  for (uint32_t i = 0; i < g->n_next; i++) {
    const struct site_pair p = g->next[i];
    bool listed = made_by(g, BEFORE, p.before) && made_by(g, AFTER, p.after);
    for (uint32_t k = 0; k < g->n_inputs && !listed; k++)
      listed = g->inputs[k].before == p.before && g->inputs[k].after == p.after;
    if (!listed) *TABLE_PUSH(g, inputs) = p;
  }
}

static bool is_half_made(const struct grown *g, struct site_pair p) {
  if (p.before == NO_ID || p.after == NO_ID) return false;
  return made_by(g, BEFORE, p.before) != made_by(g, AFTER, p.after);
}

// One level: what makes an input comes in, on both sides, and what it reads are the inputs. all: of every input; else of those
// that one side makes already. False: it cannot be.
static bool grow_level(struct grown *g, uint32_t graph, bool all) {
  bool fits = true;
  g->n_next = 0;
  for (uint32_t i = 0; i < g->n_inputs && fits; i++) {
    const struct site_pair p = g->inputs[i];
    const bool half = is_half_made(g, p);
    const uint32_t x = maker_of(g, BEFORE, p.before, graph), y = maker_of(g, AFTER, p.after, graph);
    const bool can = x != NO_ID && y != NO_ID && can_add(g, BEFORE, x) && can_add(g, AFTER, y);
    if (can && (all || half)) {
      add_node(g, BEFORE, x);
      add_node(g, AFTER, y);
    }
    fits = can || !half;
    *TABLE_PUSH(g, next) = p;
  }
  settle(g);
  return fits && g->n_added <= GROWN_NODES && g->n_inputs <= GROWN_READS;
}

static bool is_half(const struct grown *g) {
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (is_half_made(g, g->inputs[i])) return true;
  return false;
}

static const uint32_t *sorting; // places: qsort has no context

static int by_place(const void *x, const void *y) {
  const uint32_t a = sorting[*(const uint32_t *)x], b = sorting[*(const uint32_t *)y];
  return (a > b) - (a < b);
}

static void *kept(struct arena *a, const void *rows, size_t bytes) {
  void *copy = arena_alloc(a, bytes + 1);
  return bytes ? memcpy(copy, rows, bytes) : copy;
}

static void begin(struct grown *g, const struct site *s) {
  const uint32_t *nodes[2] = {s->before, s->after};
  const uint32_t n[2] = {s->n_before, s->n_after};
  for (int side = 0; side < 2; side++) {
    for (uint32_t i = 0; i < n[side]; i++)
      *TABLE_PUSH(&g->side[side], nodes) = nodes[side][i];
    for (uint32_t i = 0; i < s->n_constants[side]; i++)
      *TABLE_PUSH(&g->side[side], constants) = s->constants[side][i];
  }
  for (uint32_t i = 0; i < s->n_inputs; i++)
    *TABLE_PUSH(g, inputs) = s->inputs[i];
}

static void end(struct grown *g, const struct site *s, struct arena *a, struct site *out) {
  const uint32_t **nodes[2] = {&out->before, &out->after};
  *out = *s;
  for (int side = 0; side < 2; side++) {
    struct side *x = &g->side[side];
    sorting = g->all->place[side];
    if (x->n_nodes) qsort(x->nodes, x->n_nodes, sizeof *x->nodes, by_place);
    *nodes[side] = kept(a, x->nodes, x->n_nodes * sizeof *x->nodes);
    out->constants[side] = kept(a, x->constants, x->n_constants * sizeof *x->constants);
    out->n_constants[side] = x->n_constants;
  }
  out->n_before = g->side[BEFORE].n_nodes;
  out->n_after = g->side[AFTER].n_nodes;
  out->inputs = kept(a, g->inputs, g->n_inputs * sizeof *g->inputs);
  out->n_inputs = g->n_inputs;
}

bool sites_grow(const struct model *source, const struct model *result, const struct sites *all,
                const struct site *s, uint32_t levels, struct arena *a, struct site *out) {
  struct grown g = {.m = {source, result}, .all = all};
  bool fits = !s->why_not;
  begin(&g, s);
  for (uint32_t level = 0; level < levels && fits; level++)
    fits = grow_level(&g, s->graph, true);
  while (fits && is_half(&g))
    fits = grow_level(&g, s->graph, false);
  fits = fits && g.n_added > 0 && g.bytes <= grown_bytes;
  if (fits) end(&g, s, a, out);
  for (int side = 0; side < 2; side++) {
    TABLE_FREE(&g.side[side], nodes);
    TABLE_FREE(&g.side[side], constants);
  }
  TABLE_FREE(&g, inputs);
  TABLE_FREE(&g, next);
  return fits;
}
