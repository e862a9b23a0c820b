// The boundary of a site: what its two parts are given, and what is compared.
//
//   before   a ─▶ n2 ─▶ y2         after   a ─▶ n1 ─▶ y1            claim (y2, y1): n2 did what n1 does
//            └──▶ n1 ─▶ y1
//
// Both parts are given the same arrays, whatever these are. So an input that only one of them reads is a
// question: y1 above is a value that both models have, but before reads a alone. What it has to do with
// the other inputs, nodes that did not change say; they are added to both parts, the last one first,
// until both read the same (n1), or too many came: then none stays. If each part reads something that the
// other does not, and sites make that, they are joined instead.
//
// What is read and constant is a constant of the part. Two pairs may share a value: both are given one
// array.
#include "sites_parts.h"

#include <stdlib.h>

enum {
  ADDED_MOST = 48,  // nodes that did not change, in a part
  READS_MOST = 512, // inputs of a part that nodes are added to
};

struct sites_boundary {
  struct sites_cut *c;
  struct arena scratch;
  const struct sites_draft *draft;
  uint32_t stamp;
  uint32_t *read[2],
      *fixed[2];    // by value: stamp of the part that reads it, as an input or a constant
  uint32_t *paired; // by value after
  uint32_t *added;  // by node
  TABLE(uint32_t, before);
  TABLE(uint32_t, after); // what the sides read: values that lost their stamp count no more
  struct {
    TABLE(struct model_constant, list);
  } constants[2];
  TABLE(uint32_t, nodes); // added
  TABLE(struct site_pair, pairs);
  TABLE(uint32_t, alone); // values that one side reads: before's first
  uint32_t alone_before;
};

static uint32_t *zeros(struct arena *a, size_t n) {
  return arena_zalloc(a, (n + 1) * sizeof(uint32_t));
}

struct sites_boundary *sites_boundary_new(struct sites_cut *c) {
  const size_t values = c->m[AFTER]->n_values;
  struct arena scratch = {0};
  struct sites_boundary *b = arena_zalloc(&scratch, sizeof *b);
  b->c = c;
  for (int side = 0; side < 2; side++) {
    b->read[side] = zeros(&scratch, values);
    b->fixed[side] = zeros(&scratch, values);
  }
  b->paired = zeros(&scratch, values);
  b->added = zeros(&scratch, c->m[AFTER]->n_nodes);
  b->scratch = scratch;
  return b;
}

void sites_boundary_free(struct sites_boundary *b) {
  TABLE_FREE(b, before);
  TABLE_FREE(b, after);
  TABLE_FREE(&b->constants[BEFORE], list);
  TABLE_FREE(&b->constants[AFTER], list);
  TABLE_FREE(b, nodes);
  TABLE_FREE(b, pairs);
  TABLE_FREE(b, alone);
  struct arena scratch = b->scratch; // *b lies in it
  arena_free(&scratch);
}

// ---- what is read ------------------------------------------------------------------------------

static bool made_inside(struct sites_boundary *b, int side, uint32_t value) {
  const struct model_value *v = &b->c->m[side]->values[value];
  const uint32_t maker = sites_maker(b->c, side, value);
  if (maker != NO_ID) return sites_join_root(b->c, maker) == b->draft->root;
  return v->kind == VALUE_NODE_OUTPUT && b->added[v->def] == b->stamp;
}

static void read_value(struct sites_boundary *b, int side, uint32_t value) {
  struct model_constant found;
  b->c->looked++;
  if (b->read[side][value] == b->stamp || b->fixed[side][value] == b->stamp) return;
  if (made_inside(b, side, value)) return;
  if (sites_constant(b->c, side, value, &found)) {
    b->fixed[side][value] = b->stamp;
    found.value = value;
    *TABLE_PUSH(&b->constants[side], list) = found;
    return;
  }
  b->read[side][value] = b->stamp;
  if (side == BEFORE)
    *TABLE_PUSH(b, before) = value;
  else
    *TABLE_PUSH(b, after) = value;
}

static void read_all(struct sites_boundary *b) {
  struct sites_cut *c = b->c;
  const struct sites_draft *d = b->draft;
  b->stamp++;
  b->n_before = b->n_after = b->n_nodes = 0;
  b->constants[BEFORE].n_list = b->constants[AFTER].n_list = 0;
  for (int side = 0; side < 2; side++)
    for (uint32_t i = 0; i < d->n[side]; i++) {
      sites_reads(c, side, d->nodes[side][i]);
      for (uint32_t k = 0; k < c->n_reads; k++)
        read_value(b, side, c->reads[k]);
    }
  for (uint32_t i = 0; i < d->n_claims; i++) {
    read_value(b, BEFORE, c->claims[d->claims[i]].before);
    read_value(b, AFTER, c->claims[d->claims[i]].after);
  }
}

// ---- pairs -------------------------------------------------------------------------------------

static bool is_read(const struct sites_boundary *b, int side, uint32_t value) {
  return value != NO_ID && b->read[side][value] == b->stamp;
}

static void pair_before(struct sites_boundary *b, uint32_t value) {
  const uint32_t now = sites_forward(b->c, value);
  uint32_t after = is_read(b, AFTER, value) ? value : is_read(b, AFTER, now) ? now : NO_ID;
  if (after != NO_ID) {
    b->paired[after] = b->stamp;
  } else {
    *TABLE_PUSH(b, alone) = value;
    after = sites_there(b->c, AFTER, value) ? value : now;
  }
  *TABLE_PUSH(b, pairs) = (struct site_pair){value, after};
}

static void pair_after(struct sites_boundary *b, uint32_t value) {
  if (b->paired[value] == b->stamp) return;
  const bool there = sites_there(b->c, BEFORE, value);
  *TABLE_PUSH(b, alone) = value;
  *TABLE_PUSH(b, pairs) = (struct site_pair){there ? value : b->c->from[value], value};
}

static void pair_all(struct sites_boundary *b) {
  b->n_pairs = b->n_alone = 0;
  for (uint32_t i = 0; i < b->n_after; i++)
    b->paired[b->after[i]] = 0;
  for (uint32_t i = 0; i < b->n_before; i++)
    if (is_read(b, BEFORE, b->before[i])) pair_before(b, b->before[i]);
  b->alone_before = b->n_alone;
  for (uint32_t i = 0; i < b->n_after; i++)
    if (is_read(b, AFTER, b->after[i])) pair_after(b, b->after[i]);
}

// ---- nodes around ------------------------------------------------------------------------------

// Is the value one of two that are given one array by other names?
static bool is_renamed(const struct sites_boundary *b, uint32_t value) {
  const uint32_t now = sites_forward(b->c, value), was = b->c->from[value];
  return (is_read(b, BEFORE, value) && is_read(b, AFTER, now)) ||
         (is_read(b, AFTER, value) && is_read(b, BEFORE, was) && was != value);
}

// The node that makes it on both sides, if it may be added; else NO_ID.
static uint32_t addable(const struct sites_boundary *b, int side, uint32_t value) {
  const struct sites_cut *c = b->c;
  const struct model *s = c->m[BEFORE];
  if (value >= c->m[side]->n_values || c->m[side]->values[value].kind != VALUE_NODE_OUTPUT)
    return NO_ID;
  const uint32_t node = c->m[side]->values[value].def;
  if (node >= s->n_nodes || c->el[side][node] != NO_ID) return NO_ID;
  if (c->m[AFTER]->nodes[node].flags & NODE_DEAD || s->nodes[node].graph != b->draft->graph)
    return NO_ID;
  if (sites_has_bodies(s, node)) return NO_ID;
  for (uint32_t i = 0; i < s->nodes[node].n_out; i++) {
    const uint32_t out = model_output(s, &s->nodes[node], i);
    if (out != NO_ID && is_renamed(b, out)) return NO_ID;
  }
  return node;
}

static void add_node(struct sites_boundary *b, uint32_t node) {
  b->added[node] = b->stamp;
  *TABLE_PUSH(b, nodes) = node;
  for (int side = 0; side < 2; side++) {
    const struct model *m = b->c->m[side];
    const struct model_node *n = &m->nodes[node];
    for (uint32_t i = 0; i < n->n_out; i++)
      if (model_output(m, n, i) != NO_ID) b->read[side][model_output(m, n, i)] = 0;
    for (uint32_t i = 0; i < n->n_in; i++)
      if (model_input(m, n, i) != NO_ID) read_value(b, side, model_input(m, n, i));
  }
}

// True: both sides read the same now, as far as nodes of the graph make it.
static bool add_around(struct sites_boundary *b) {
  for (;;) {
    uint32_t last = NO_ID;
    pair_all(b);
    for (uint32_t i = 0; i < b->n_alone; i++) {
      const uint32_t node = addable(b, i < b->alone_before ? BEFORE : AFTER, b->alone[i]);
      if (node == NO_ID) continue;
      if (last == NO_ID || b->c->place[BEFORE][node] > b->c->place[BEFORE][last]) last = node;
    }
    if (b->n_alone == 0) return true;
    if (last == NO_ID || b->n_nodes == ADDED_MOST || b->n_pairs > READS_MOST) return false;
    add_node(b, last);
  }
}

// Joins sites that make what one side alone reads.
static bool join_alone(struct sites_boundary *b) {
  bool any = false;
  if (b->alone_before == 0 || b->alone_before == b->n_alone) return false;
  for (uint32_t i = 0; i < b->n_alone; i++) {
    const int side = i < b->alone_before ? BEFORE : AFTER;
    const uint32_t maker = sites_maker(b->c, side, b->alone[i]);
    if (maker == NO_ID || b->c->m[AFTER]->nodes[maker].graph != b->draft->graph) continue;
    if (sites_join_root(b->c, maker) == sites_join_root(b->c, b->draft->root)) continue;
    any |= sites_join(b->c, b->draft->root, maker);
  }
  return any;
}

// ---- the site ----------------------------------------------------------------------------------

static const struct sites_cut *sorting; // qsort has no context
static int sorting_side;

static int by_place(const void *x, const void *y) {
  const uint32_t a = sorting->place[sorting_side][*(const uint32_t *)x];
  const uint32_t b = sorting->place[sorting_side][*(const uint32_t *)y];
  return (a > b) - (a < b);
}

// The nodes of a side in order, those around among them.
static const uint32_t *nodes_of(struct sites_boundary *b, int side, struct arena *a, uint32_t *n) {
  const struct sites_draft *d = b->draft;
  *n = d->n[side] + b->n_nodes;
  uint32_t *list = arena_alloc(a, *n * sizeof *list + 1);
  if (d->n[side]) memcpy(list, d->nodes[side], d->n[side] * sizeof *list);
  if (b->n_nodes == 0) return list;
  memcpy(list + d->n[side], b->nodes, b->n_nodes * sizeof *list);
  sorting = b->c;
  sorting_side = side;
  qsort(list, *n, sizeof *list, by_place);
  return list;
}

static void *keep(struct arena *a, const void *rows, size_t bytes) {
  void *at = arena_alloc(a, bytes + 1);
  if (bytes) memcpy(at, rows, bytes);
  return at;
}

static void find_outputs(struct sites_boundary *b, struct arena *a, struct site *out) {
  const struct sites_cut *c = b->c;
  const struct sites_draft *d = b->draft;
  const struct model *s = c->m[BEFORE];
  uint32_t most = d->n_claims;
  for (uint32_t i = 0; i < d->n[BEFORE]; i++)
    most += s->nodes[d->nodes[BEFORE][i]].n_out;
  struct site_pair *list = arena_alloc(a, most * sizeof *list + 1);
  for (uint32_t i = 0; i < d->n[BEFORE]; i++) {
    const struct model_node *n = &s->nodes[d->nodes[BEFORE][i]];
    for (uint32_t k = 0; k < n->n_out; k++) {
      const uint32_t v = model_output(s, n, k);
      if (v != NO_ID && c->demanded[v] && sites_maker(c, AFTER, v) != NO_ID)
        list[out->n_outputs++] = (struct site_pair){v, v};
    }
  }
  for (uint32_t i = 0; i < d->n_claims; i++)
    list[out->n_outputs++] =
        (struct site_pair){c->claims[d->claims[i]].before, c->claims[d->claims[i]].after};
  out->outputs = list;
}

// Is what one side reads a constant of the other?
static bool fixed_elsewhere(const struct sites_boundary *b, struct site_pair p) {
  const uint32_t now = p.before != NO_ID ? sites_forward(b->c, p.before) : NO_ID;
  return (p.before != NO_ID && is_read(b, BEFORE, p.before) &&
          ((b->fixed[AFTER][p.before] == b->stamp) ||
           (now != NO_ID && b->fixed[AFTER][now] == b->stamp))) ||
         (p.after != NO_ID && is_read(b, AFTER, p.after) && p.before != NO_ID &&
          b->fixed[BEFORE][p.before] == b->stamp);
}

static const char *why_not(const struct sites_boundary *b, const struct site *s) {
  const bool no_nodes = s->n_before == 0 && s->n_after == 0;
  for (uint32_t i = 0; i < s->n_inputs; i++) {
    if (s->inputs[i].before == NO_ID) return "it reads a value that only the result has";
    if (s->inputs[i].after == NO_ID) return "it reads a value that only the source has";
    if (fixed_elsewhere(b, s->inputs[i])) return "it reads a value that is a constant on one side";
  }
  if (no_nodes && b->n_alone > 0)
    return "one value took the place of another, and what both come from is too far away";
  return NULL;
}

bool sites_boundary_find(struct sites_boundary *b, const struct sites_draft *draft, bool join,
                         struct arena *a, struct site *out) {
  b->draft = draft;
  read_all(b);
  if (!add_around(b)) {
    if (b->n_nodes > 0) {
      read_all(b);
      pair_all(b);
    }
    if (join && join_alone(b)) return true;
  }
  *out = (struct site){.graph = draft->graph};
  out->before = nodes_of(b, BEFORE, a, &out->n_before);
  out->after = nodes_of(b, AFTER, a, &out->n_after);
  out->inputs = keep(a, b->pairs, b->n_pairs * sizeof *b->pairs);
  out->n_inputs = b->n_pairs;
  for (int side = 0; side < 2; side++) {
    out->n_constants[side] = b->constants[side].n_list;
    out->constants[side] =
        keep(a, b->constants[side].list, out->n_constants[side] * sizeof *out->constants[side]);
  }
  find_outputs(b, a, out);
  out->why_not = why_not(b, out);
  return false;
}
