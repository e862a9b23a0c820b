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

static bool is_listed(const struct site_pair *list, uint32_t n, uint32_t value) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i].before == value && list[i].after == value) return true;
  return false;
}

// The node that makes both of a pair, and may be added; NO_ID: none.
static uint32_t maker_of(const struct grown *g, struct site_pair p, uint32_t graph) {
  if (p.before != p.after || p.before >= g->m[BEFORE]->n_values) return NO_ID;
  const struct model_value *v = &g->m[BEFORE]->values[p.before];
  if (v->kind != VALUE_NODE_OUTPUT || v->graph != graph || !g->all->same[v->def]) return NO_ID;
  for (uint32_t i = 0; i < g->m[BEFORE]->nodes[v->def].n_attrs; i++) { // bodies read what they like
    const struct model_attr *a = &g->m[BEFORE]->attrs[g->m[BEFORE]->nodes[v->def].attrs + i];
    if (a->type == ATTR_GRAPH || a->type == ATTR_GRAPHS) return NO_ID;
  }
  return v->def;
}

static void add_node(struct grown *g, uint32_t node) {
  for (int side = 0; side < 2; side++)
    if (!has_node(g, side, node)) *TABLE_PUSH(&g->side[side], nodes) = node;
  g->n_added++;
}

static bool made_by(const struct grown *g, int side, uint32_t value) {
  const struct model_value *v = &g->m[side]->values[value];
  return v->kind == VALUE_NODE_OUTPUT && has_node(g, side, v->def);
}

static void add_reads(struct grown *g, uint32_t node) {
  const struct model *m = g->m[BEFORE];
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++) {
    const uint32_t value = model_input(m, &m->nodes[node], i);
    struct model_constant c;
    if (value == NO_ID) continue;
    if (model_resolve_constant(m, value, &c)) {
      add_constant(g, BEFORE, value);
      add_constant(g, AFTER, value);
    } else if (!is_listed(g->next, g->n_next, value)) {
      *TABLE_PUSH(g, next) = (struct site_pair){value, value};
    }
  }
}

// One level: whatever makes an input comes in, and what it reads are the inputs. False: nothing was added.
static bool grow_level(struct grown *g, uint32_t graph) {
  const uint32_t before = g->n_added;
  g->n_next = 0;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t node = maker_of(g, g->inputs[i], graph);
    if (node != NO_ID && !has_node(g, BEFORE, node)) {
      add_node(g, node);
      add_reads(g, node);
    } else if (node == NO_ID) {
      *TABLE_PUSH(g, next) = g->inputs[i];
    }
  }
  g->n_inputs = 0;
  for (uint32_t i = 0; i < g->n_next; i++) {
    const struct site_pair p = g->next[i];
    bool there = made_by(g, BEFORE, p.before) && made_by(g, AFTER, p.after);
    for (uint32_t k = 0; k < g->n_inputs && !there; k++)
      there = g->inputs[k].before == p.before && g->inputs[k].after == p.after;
    if (!there) *TABLE_PUSH(g, inputs) = p;
  }
  return g->n_added > before;
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
  uint32_t level = 0;
  begin(&g, s);
  while (level < levels && g.n_inputs < GROWN_READS && grow_level(&g, s->graph))
    level++;
  const bool fits =
      g.n_added > 0 && g.n_added <= GROWN_NODES && g.bytes <= grown_bytes && !s->why_not;
  if (fits) end(&g, s, a, out);
  for (int side = 0; side < 2; side++) {
    TABLE_FREE(&g.side[side], nodes);
    TABLE_FREE(&g.side[side], constants);
  }
  TABLE_FREE(&g, inputs);
  TABLE_FREE(&g, next);
  return fits;
}
