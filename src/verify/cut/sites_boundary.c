// The boundary of a site: what its two parts are given, and what is compared.
//
//   before   a ─▶ n2 ─▶ y2         after   a ─▶ n1 ─▶ y1            claim (y2, y1): n2 did what n1 does
//
// Both parts are given the same arrays, whatever these are. So inputs that only one of them reads are a
// question: y1 above is a value that both models have, n1 did not change, and before reads a alone. So is
// a value that a part hands on while the other computes what it stands for from something else, and one
// that a part reads while the other computes it. What such a value has to do with the other inputs, the nodes
// say that make it, whether they changed or not: they come into the part of that side, the last one first,
// until no question is left (n1), or what is left is a shape, which is the same whoever asks: of a value that neither
// part has; of one that a part has, the Shape comes in. If too many came, none stays, and the site is in doubt.
//
// What is read and constant is a constant of the part. Two pairs may share a value: both are given one
// array.
#include "verify/cut/inside/sites_parts.h"

#include "base/table.h"

#include <stdlib.h>

enum {
  ADDED_MOST = 64, // nodes of others, in both parts
  READS_MOST = 512,
  WALK_MOST = 512, // nodes within a part that a claim is followed through
  AROUND_MOST = 64 // nodes outside of it that an input is followed through
};

struct sites_boundary {
  struct sites_cut *c;
  struct arena scratch;
  const struct sites_draft *draft;
  uint32_t stamp;
  uint32_t *read[2],
      *fixed[2];      // by value: stamp of the part that reads it, as an input or a constant
  uint32_t *paired;   // by value after
  uint32_t *added[2]; // by node
  TABLE(uint32_t, before);
  TABLE(uint32_t, after); // what the sides read: values that lost their stamp count no more
  struct {
    TABLE(struct model_constant, list);
  } constants[2];
  TABLE(struct site_pair, pairs);
  struct {
    TABLE(uint32_t, list);
  } alone[2]; // values that one side reads, or hands on
  struct {
    TABLE(uint32_t, list);
  } nodes[2]; // added
  bool asked; // of what is handed on, or computed on the other side
  // Of walks within the part, from what a claim is about.
  uint32_t walk;
  uint32_t *walked; // by node
  TABLE(uint32_t, way);
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
    b->added[side] = zeros(&scratch, c->m[AFTER]->n_nodes);
  }
  b->paired = zeros(&scratch, values);
  b->walked = zeros(&scratch, c->m[AFTER]->n_nodes);
  b->scratch = scratch;
  return b;
}

void sites_boundary_free(struct sites_boundary *b) {
  TABLES_FREE(b, before, after, pairs, way);
  TABLE_FREE(&b->constants[BEFORE], list);
  TABLE_FREE(&b->constants[AFTER], list);
  TABLE_FREE(&b->nodes[BEFORE], list);
  TABLE_FREE(&b->nodes[AFTER], list);
  TABLE_FREE(&b->alone[BEFORE], list);
  TABLE_FREE(&b->alone[AFTER], list);
  struct arena scratch = b->scratch; // *b lies in it
  arena_free(&scratch);
}

// ---- what is read ------------------------------------------------------------------------------

static bool made_inside(struct sites_boundary *b, int side, uint32_t value) {
  const struct model_value *v = &b->c->m[side]->values[value];
  if (v->kind != VALUE_NODE_OUTPUT) return false;
  if (b->added[side][v->def] == b->stamp) return true;
  const uint32_t maker = sites_maker(b->c, side, value);
  return maker != NO_ID && sites_join_root(b->c, maker) == b->draft->root;
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
  b->n_before = b->n_after = 0;
  b->nodes[BEFORE].n_list = b->nodes[AFTER].n_list = 0;
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
    *TABLE_PUSH(&b->alone[BEFORE], list) = value;
    after = sites_there(b->c, AFTER, value) ? value : now;
    if (after != NO_ID && made_inside(b, AFTER, after)) after = NO_ID;
  }
  *TABLE_PUSH(b, pairs) = (struct site_pair){value, after};
}

static void pair_after(struct sites_boundary *b, uint32_t value) {
  if (b->paired[value] == b->stamp) return;
  const bool there = sites_there(b->c, BEFORE, value);
  uint32_t before = there ? value : b->c->from[value];
  *TABLE_PUSH(&b->alone[AFTER], list) = value;
  if (before != NO_ID && made_inside(b, BEFORE, before)) before = NO_ID;
  *TABLE_PUSH(b, pairs) = (struct site_pair){before, value};
}

// Is `at`, read on that side, given the same array as `from`, which the other one reads?
static bool in_place(const struct sites_boundary *b, int side, uint32_t at, uint32_t from) {
  if (!is_read(b, side, at)) return false;
  return sites_forward(b->c, side == BEFORE ? at : from) == (side == BEFORE ? from : at);
}

static void begin_walk(struct sites_boundary *b, uint32_t value) {
  b->walk++;
  b->n_way = 0;
  *TABLE_PUSH(b, way) = value;
}

// On to what the node reads: so many values.
static uint32_t walk_on(struct sites_boundary *b, int side, uint32_t node) {
  struct sites_cut *c = b->c;
  b->walked[node] = b->walk;
  sites_reads(c, side, node);
  for (uint32_t i = 0; i < c->n_reads; i++)
    *TABLE_PUSH(b, way) = c->reads[i];
  return c->n_reads;
}

// Is `value`, which the part computes on that side, computed from what the other reads as `from`?
static bool comes_from(struct sites_boundary *b, int side, uint32_t value, uint32_t from) {
  struct sites_cut *c = b->c;
  uint32_t steps = 0;
  begin_walk(b, value);
  while (b->n_way > 0) {
    const uint32_t at = b->way[--b->n_way];
    if (at == from || in_place(b, side, at, from) || steps == WALK_MOST) return true;
    if (!made_inside(b, side, at)) continue;
    const uint32_t maker = sites_maker(c, side, at);
    const uint32_t node = maker != NO_ID ? maker : c->m[side]->values[at].def;
    if (b->walked[node] == b->walk) continue;
    steps++;
    walk_on(b, side, node);
  }
  return false;
}

// Of a claim of which a side hands on what it reads, and the other computes from something else.
static void ask_for_claim(struct sites_boundary *b, const struct sites_claim *claim) {
  const uint32_t of[2] = {claim->before, claim->after};
  for (int side = 0; side < 2; side++) {
    if (!is_read(b, side, of[side]) || !made_inside(b, !side, of[!side])) continue;
    if (side == AFTER && b->paired[of[side]] != b->stamp) continue; // asked for already
    if (!comes_from(b, !side, of[!side], of[side])) *TABLE_PUSH(&b->alone[side], list) = of[side];
  }
}

// Is it computed on the other side, or a constant there?
static bool settled_across(struct sites_boundary *b, int side, uint32_t value) {
  struct model_constant found;
  return sites_there(b->c, side, value) &&
         (sites_constant(b->c, side, value, &found) || made_inside(b, side, value));
}

// Does the other side settle what it is, or what takes its place there?
static bool made_across(struct sites_boundary *b, int side, uint32_t value) {
  const uint32_t other = side == BEFORE ? sites_forward(b->c, value) : b->c->from[value];
  return settled_across(b, !side, value) || (other != NO_ID && settled_across(b, !side, other));
}

// Is it computed from what the part computes, by nodes that are not of the part?
//
//   before   n1 ─▶ y ─▶ (Transpose) ─▶ z ─▶ n2       after   n1 ─▶ y ─▶ n3
static bool hangs_on_part(struct sites_boundary *b, int side, uint32_t value) {
  struct sites_cut *c = b->c;
  uint32_t steps = 0;
  begin_walk(b, value);
  while (b->n_way > 0) {
    const uint32_t at = b->way[--b->n_way];
    if (made_inside(b, side, at)) return true;
    const struct model_value *v = &c->m[side]->values[at];
    if (v->kind != VALUE_NODE_OUTPUT || b->walked[v->def] == b->walk) continue;
    if (++steps > AROUND_MOST) return false;
    walk_on(b, side, v->def);
  }
  return false;
}

static void pair_all(struct sites_boundary *b) {
  b->n_pairs = b->alone[BEFORE].n_list = b->alone[AFTER].n_list = 0;
  for (uint32_t i = 0; i < b->n_after; i++)
    b->paired[b->after[i]] = 0;
  for (uint32_t i = 0; i < b->n_before; i++)
    if (is_read(b, BEFORE, b->before[i])) pair_before(b, b->before[i]);
  for (uint32_t i = 0; i < b->n_after; i++)
    if (is_read(b, AFTER, b->after[i])) pair_after(b, b->after[i]);
  b->asked = b->alone[BEFORE].n_list > 0 && b->alone[AFTER].n_list > 0;
  for (int side = 0; side < 2; side++)
    for (uint32_t i = 0; i < b->alone[side].n_list && !b->asked; i++)
      b->asked = made_across(b, side, b->alone[side].list[i]) ||
                 hangs_on_part(b, side, b->alone[side].list[i]);
  for (uint32_t i = 0; i < b->draft->n_claims; i++)
    ask_for_claim(b, &b->c->claims[b->draft->claims[i]]);
}

// ---- nodes around ------------------------------------------------------------------------------

enum addable {
  ADD,
  ADD_NEVER,
  ADD_NOT
}; // NEVER: there is nothing to add; NOT: what there is cannot be added

// Does a part have it, made or given?
static bool at_hand(struct sites_boundary *b, int side, uint32_t value) {
  return is_read(b, side, value) || (sites_there(b->c, side, value) && made_inside(b, side, value));
}

// Does the node say the shape of what neither part has?
static bool shape_elsewhere(struct sites_boundary *b, const struct model *m, uint32_t node) {
  if (!model_op_is(m, node, "Shape") && !model_op_is(m, node, "Size")) return false;
  const uint32_t of = m->nodes[node].n_in ? model_input(m, &m->nodes[node], 0) : NO_ID;
  return of == NO_ID || (!at_hand(b, BEFORE, of) && !at_hand(b, AFTER, of));
}

// Do nodes make it of constants alone, as of a weight that is stored in another type or layout?
static bool is_of_constants(struct sites_boundary *b, int side, uint32_t value) {
  struct sites_cut *c = b->c;
  struct model_constant found;
  uint32_t steps = 0;
  begin_walk(b, value);
  while (b->n_way > 0) {
    const uint32_t at = b->way[--b->n_way];
    const struct model_value *v = &c->m[side]->values[at];
    if (sites_constant(c, side, at, &found)) continue;
    if (v->kind != VALUE_NODE_OUTPUT || model_has_bodies(c->m[side], v->def)) return false;
    if (b->walked[v->def] == b->walk) continue;
    if (++steps > AROUND_MOST) return false;
    if (walk_on(b, side, v->def) == 0) return false; // it draws numbers, maybe
  }
  return true;
}

// A node of a graph around that of the part says nothing of other inputs, but where it makes a weight.
static enum addable addable(struct sites_boundary *b, int side, uint32_t value, uint32_t *node) {
  const struct model *m = b->c->m[side];
  if (m->values[value].kind != VALUE_NODE_OUTPUT) return ADD_NEVER;
  *node = m->values[value].def;
  if (m->nodes[*node].graph != b->draft->graph && !is_of_constants(b, side, value))
    return ADD_NEVER;
  if (shape_elsewhere(b, m, *node)) return ADD_NEVER;
  return model_has_bodies(m, *node) ? ADD_NOT : ADD;
}

static void add_node(struct sites_boundary *b, int side, uint32_t node) {
  const struct model *m = b->c->m[side];
  const struct model_node *n = &m->nodes[node];
  b->added[side][node] = b->stamp;
  *TABLE_PUSH(&b->nodes[side], list) = node;
  for (uint32_t i = 0; i < n->n_out; i++)
    if (model_output(m, n, i) != NO_ID) b->read[side][model_output(m, n, i)] = 0;
  sites_reads(b->c, side, node);
  for (uint32_t i = 0; i < b->c->n_reads; i++)
    read_value(b, side, b->c->reads[i]);
}

// Both sides, where both read it: a value that is handed on is made on the other side too.
static void add_maker(struct sites_boundary *b, int side, uint32_t value) {
  uint32_t node;
  add_node(b, side, b->c->m[side]->values[value].def);
  const uint32_t other = value;
  if (!is_read(b, !side, other) || addable(b, !side, other, &node) != ADD) return;
  add_node(b, !side, node);
}

// Where the nodes of both sides stand, as far as that can be compared.
static uint32_t rank_of(const struct sites_boundary *b, int side, uint32_t node) {
  return b->c->rank[side][node];
}

// True: no question is left.
static bool add_around(struct sites_boundary *b) {
  const uint32_t most = b->nodes[BEFORE].n_list + b->nodes[AFTER].n_list + ADDED_MOST;
  for (;;) {
    uint32_t last = NO_ID, at = 0, node;
    int last_side = 0;
    bool left = false;
    pair_all(b);
    if (!b->asked) return true;
    for (int side = 0; side < 2; side++)
      for (uint32_t i = 0; i < b->alone[side].n_list; i++) {
        const enum addable may = addable(b, side, b->alone[side].list[i], &node);
        left |= may == ADD_NOT;
        if (may != ADD || (last != NO_ID && rank_of(b, side, node) <= at)) continue;
        last = b->alone[side].list[i];
        last_side = side;
        at = rank_of(b, side, node);
      }
    if (last == NO_ID) return !left;
    if (b->nodes[BEFORE].n_list + b->nodes[AFTER].n_list >= most || b->n_pairs > READS_MOST)
      return false;
    add_maker(b, last_side, last);
  }
}

// ---- the site ----------------------------------------------------------------------------------

struct one_side {
  const struct model_node *nodes;
  const uint32_t *place;
};

// The outer one of two graphs has the smaller number, and comes first.
static int by_place(const void *x, const void *y, const void *with) {
  const uint32_t n[2] = {*(const uint32_t *)x, *(const uint32_t *)y};
  const struct one_side *s = with;
  const bool apart = s->nodes[n[0]].graph != s->nodes[n[1]].graph;
  const uint32_t a = apart ? s->nodes[n[0]].graph : s->place[n[0]];
  const uint32_t b = apart ? s->nodes[n[1]].graph : s->place[n[1]];
  return (a > b) - (a < b);
}

// The nodes of a side in order, those around among them.
static const uint32_t *nodes_of(struct sites_boundary *b, int side, struct arena *a, uint32_t *n) {
  const struct sites_draft *d = b->draft;
  const uint32_t added = b->nodes[side].n_list;
  *n = d->n[side] + added;
  uint32_t *list = arena_alloc(a, *n * sizeof *list + 1);
  if (d->n[side]) memcpy(list, d->nodes[side], d->n[side] * sizeof *list);
  if (added == 0) return list;
  memcpy(list + d->n[side], b->nodes[side].list, added * sizeof *list);
  const struct one_side sorted = {b->c->m[side]->nodes, b->c->place[side]};
  table_sort(list, *n, sizeof *list, by_place, &sorted);
  return list;
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
  struct model_constant found;
  const bool before = is_read(b, BEFORE, p.before), after = is_read(b, AFTER, p.after);
  return (before && !after && sites_constant(b->c, AFTER, p.after, &found)) ||
         (after && !before && sites_constant(b->c, BEFORE, p.before, &found));
}

// An initializer that callers may override is an input with a default, which it keeps in a part.
static bool is_default(const struct sites_boundary *b, int side, uint32_t value) {
  const struct model *m = b->c->m[side];
  const struct model_value *v = &m->values[value];
  return v->kind == VALUE_INITIALIZER && !(m->tensors[v->def].flags & TENSOR_SPARSE);
}

static const char *doubt_of(const struct sites_boundary *b, bool settled) {
  if (!settled) return "the relation between its inputs is decided too far away";
  for (uint32_t i = 0; i < b->n_pairs; i++)
    if (b->pairs[i].before != NO_ID && b->pairs[i].after != NO_ID &&
        !is_default(b, BEFORE, b->pairs[i].before) && fixed_elsewhere(b, b->pairs[i]))
      return "one of its inputs is a constant on the other side";
  return NULL;
}

// Takes in the makers of all inputs. False: there is none to take in.
static bool add_layer(struct sites_boundary *b) {
  const uint32_t n = b->n_pairs;
  uint32_t node;
  bool any = false;
  for (uint32_t i = 0; i < n; i++)
    for (int side = 0; side < 2; side++) {
      const uint32_t value = side == BEFORE ? b->pairs[i].before : b->pairs[i].after;
      if (!is_read(b, side, value) || addable(b, side, value, &node) == ADD_NEVER) continue;
      if (b->added[side][node] == b->stamp) continue;
      add_node(b, side, node);
      any = true;
    }
  return any;
}

// What a side makes itself it is not given, whatever the other reads.
static void leave_made(struct sites_boundary *b) {
  for (uint32_t i = 0; i < b->n_pairs; i++) {
    struct site_pair *p = &b->pairs[i];
    if (p->before != NO_ID && made_inside(b, BEFORE, p->before)) p->before = NO_ID;
    if (p->after != NO_ID && made_inside(b, AFTER, p->after)) p->after = NO_ID;
  }
}

static void keep_defaults(struct sites_boundary *b) {
  for (uint32_t i = 0; i < b->n_pairs; i++)
    for (int side = 0; side < 2; side++) {
      const uint32_t value = side == BEFORE ? b->pairs[i].before : b->pairs[i].after;
      if (value == NO_ID || b->fixed[side][value] == b->stamp || !is_default(b, side, value))
        continue;
      b->fixed[side][value] = b->stamp;
      const uint32_t tensor = b->c->m[side]->values[value].def;
      *TABLE_PUSH(&b->constants[side], list) = (struct model_constant){tensor, value, NO_ID};
    }
}

void sites_boundary_find(struct sites_boundary *b, const struct sites_draft *draft, uint32_t layers,
                         struct arena *a, struct site *out) {
  b->draft = draft;
  read_all(b);
  bool settled = add_around(b);
  for (uint32_t i = 0; i < layers && add_layer(b); i++)
    pair_all(b);
  if (layers > 0) settled = add_around(b);
  if (!settled && layers == 0 && b->nodes[BEFORE].n_list + b->nodes[AFTER].n_list > 0) {
    read_all(b);
    pair_all(b);
  }
  leave_made(b);
  *out = (struct site){.graph = draft->graph, .doubt = doubt_of(b, settled)};
  keep_defaults(b);
  out->before = nodes_of(b, BEFORE, a, &out->n_before);
  out->after = nodes_of(b, AFTER, a, &out->n_after);
  out->inputs = arena_copy(a, b->pairs, b->n_pairs * sizeof *b->pairs);
  out->n_inputs = b->n_pairs;
  for (int side = 0; side < 2; side++) {
    out->n_constants[side] = b->constants[side].n_list;
    out->constants[side] = arena_copy(a, b->constants[side].list,
                                      out->n_constants[side] * sizeof *out->constants[side]);
  }
  find_outputs(b, a, out);
}
