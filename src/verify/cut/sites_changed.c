// Which nodes changed.
//
//   id below those loaded, row as loaded          unchanged, but what it reads may have another name
//   id below, alive, other slots or attributes    changed: a node before, and one after
//   id below, dead                                a node before
//   id above                                      a node after
//
// Marks of edits (NODE_DIRTY) go up to the outermost graph and stay when a change is undone, so a marked
// row is compared with the source's. A slot that reads what took the place of its value (a forward) is
// no change of the node: the claim that both are equal is (sites_join.c).
//
// Bodies: a node that changed, came or went covers what lies in the graphs inside it. One that stayed
// does not: what changed there are nodes of that graph. Nodes of functions are never elements, since
// only a call says of what types they are: calls of a function that changed are, in the graph where
// they stand.
#include "model/model_calls.h"
#include "verify/cut/inside/sites_parts.h"

// ---- values ------------------------------------------------------------------------------------

bool sites_there(const struct sites_cut *c, int side, uint32_t value) {
  const struct model *m = c->m[side];
  if (value >= m->n_values || m->values[value].flags & VALUE_DEAD) return false;
  const struct model_value *v = &m->values[value];
  return v->kind != VALUE_UNDEFINED || v->flags & VALUE_IS_INPUT;
}

uint32_t sites_maker(const struct sites_cut *c, int side, uint32_t value) {
  const struct model *m = c->m[side];
  if (value >= m->n_values || m->values[value].kind != VALUE_NODE_OUTPUT) return NO_ID;
  const uint32_t el = c->el[side][m->values[value].def];
  return el == SITES_IN_FUNCTION ? NO_ID : el;
}

bool sites_constant(struct sites_cut *c, int side, uint32_t value, struct model_constant *out) {
  c->looked++;
  return sites_there(c, side, value) && model_resolve_constant(c->m[side], value, out);
}

// The end of every chain of forwards, found once: those on the way learn it too.
static uint32_t chain_end(struct sites_cut *c, uint32_t value) {
  uint32_t end = value, steps = 0;
  const uint32_t most = c->m[AFTER]->n_values;
  while (c->to[end] != NO_ID && c->to[end] != end && steps++ < most)
    end = c->to[end];
  for (uint32_t at = value; at != end && c->to[at] != NO_ID;) {
    const uint32_t next = c->to[at];
    c->to[at] = end;
    at = next;
    c->looked++;
  }
  return end;
}

void sites_changed_forwards(struct sites_cut *c) {
  const struct model *e = c->m[AFTER];
  const size_t n = e->n_values + (size_t)1;
  c->to = arena_alloc(&c->scratch, n * sizeof *c->to);
  c->from = arena_alloc(&c->scratch, n * sizeof *c->from);
  memset(c->to, 0xff, n * sizeof *c->to);
  memset(c->from, 0xff, n * sizeof *c->from);
  // The last forward of a value counts. One that leads back to where its chain began says that the
  // value has its place again.
  for (uint32_t i = 0; i < c->groups->n_forwards; i++) {
    const struct edit_forwarded *f = &c->groups->forwards[i];
    c->to[f->to] = NO_ID;
    c->to[f->from] = f->to;
  }
  for (uint32_t v = 0; v < c->m[BEFORE]->n_values; v++) {
    if (c->to[v] == NO_ID) continue;
    const uint32_t end = chain_end(c, v);
    if (end != v && sites_there(c, BEFORE, v)) c->from[end] = v;
  }
}

uint32_t sites_forward(const struct sites_cut *c, uint32_t value) {
  const uint32_t to = c->to[value];
  return to != NO_ID && to != value && sites_there(c, AFTER, to) ? to : NO_ID;
}

// ---- rows --------------------------------------------------------------------------------------

static bool same_input(const struct sites_cut *c, uint32_t before, uint32_t after) {
  if (before == after) return true;
  return before != NO_ID && after != NO_ID && sites_forward(c, before) == after;
}

static bool same_slots(struct sites_cut *c, const struct model_node *s,
                       const struct model_node *e) {
  if (s->n_in != e->n_in || s->n_out != e->n_out) return false;
  c->looked += s->n_in + (uint64_t)s->n_out;
  for (uint32_t i = 0; i < s->n_in; i++)
    if (!same_input(c, model_input(c->m[BEFORE], s, i), model_input(c->m[AFTER], e, i)))
      return false;
  for (uint32_t i = 0; i < s->n_out; i++)
    if (model_output(c->m[BEFORE], s, i) != model_output(c->m[AFTER], e, i)) return false;
  return true;
}

static bool same_inputs_of_graph(const struct sites_cut *c, uint32_t graph) {
  const struct model_graph *s = &c->m[BEFORE]->graphs[graph], *e = &c->m[AFTER]->graphs[graph];
  if (s->n_inputs != e->n_inputs || s->n_outputs != e->n_outputs) return false;
  for (uint32_t i = 0; i < s->n_inputs; i++)
    if (c->m[BEFORE]->graph_io[s->inputs + i] != c->m[AFTER]->graph_io[e->inputs + i]) return false;
  return true;
}

// Of a marked attribute: is it as it was? Graphs inside are, whatever changed in them.
static bool same_value(const struct sites_cut *c, const struct model_attr *s,
                       const struct model_attr *e) {
  const struct model *b = c->m[BEFORE], *m = c->m[AFTER];
  if (s->type != e->type || s->ref_name != e->ref_name) return false;
  switch ((enum attr_type)e->type) {
  case ATTR_INT: return s->u.i == e->u.i;
  case ATTR_FLOAT: return memcmp(&s->u.f, &e->u.f, sizeof s->u.f) == 0;
  case ATTR_STRING: return s->u.s == e->u.s && s->u.s != NO_ID;
  case ATTR_INTS:
    return s->count == e->count && s->first != NO_ID && e->first != NO_ID &&
           (s->count == 0 ||
            memcmp(b->longs + s->first, m->longs + e->first, s->count * sizeof *b->longs) == 0);
  case ATTR_GRAPH:
  case ATTR_GRAPHS:
    if (s->first != e->first || s->count != e->count) return false;
    for (uint32_t i = 0; i < s->count; i++)
      if (!same_inputs_of_graph(c, s->first + i)) return false;
    return true;
  default: return false;
  }
}

static uint32_t live_attrs(const struct model *m, const struct model_node *n) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n->n_attrs; i++)
    count += !(m->attrs[n->attrs + i].flags & ATTR_DEAD);
  return count;
}

static bool same_attrs(struct sites_cut *c, uint32_t node) {
  const struct model *b = c->m[BEFORE], *m = c->m[AFTER];
  const struct model_node *s = &b->nodes[node], *e = &m->nodes[node];
  if (live_attrs(b, s) != live_attrs(m, e)) return false;
  for (uint32_t i = 0; i < e->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[e->attrs + i];
    c->looked++;
    if (a->flags & ATTR_DEAD || !(a->flags & (ATTR_DIRTY | ATTR_NEW))) continue;
    const struct model_attr *was = model_attr_named(b, node, model_name_str(m, a->name));
    if (!was || !same_value(c, was, a)) return false;
  }
  return true;
}

// Does it compute in another type?
static bool retyped(const struct sites_cut *c, const struct model_node *n) {
  for (uint32_t i = 0; c->retyped && i < n->n_in + n->n_out; i++) {
    const uint32_t value = c->m[BEFORE]->refs[n->refs + i].value;
    if (value != NO_ID && c->retyped[value]) return true;
  }
  return false;
}

static bool changed(struct sites_cut *c, uint32_t node) {
  const struct model_node *s = &c->m[BEFORE]->nodes[node], *e = &c->m[AFTER]->nodes[node];
  c->looked++;
  if (c->forced[node] || retyped(c, s)) return true;
  if (!(e->flags & NODE_DIRTY)) return false;
  return !same_slots(c, s, e) || !same_attrs(c, node);
}

// ---- bodies ------------------------------------------------------------------------------------

static uint32_t owner_of(const struct model *m, uint32_t graph) {
  const struct model_graph *g = &m->graphs[graph];
  return g->kind == GRAPH_SUB && g->owner != NO_ID ? m->attrs[g->owner].node : NO_ID;
}

// A Constant node is not one of the nodes that a part runs: what it makes is a constant there.
static bool is_constant(const struct model *m, uint32_t node) {
  struct model_constant found;
  return m->nodes[node].n_in == 0 && model_op_is(m, node, "Constant") &&
         model_resolve_constant(m, model_output(m, &m->nodes[node], 0), &found);
}

// Graphs in order: those around come first.
static void find_side(struct sites_cut *c, int side) {
  const struct model *m = c->m[side], *e = c->m[AFTER];
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    const struct model_graph *graph = &m->graphs[g];
    const uint32_t owner = owner_of(m, g);
    c->cover[side][g] = graph->kind == GRAPH_MAIN || owner == NO_ID ? NO_ID : c->el[side][owner];
    if (graph->kind == GRAPH_FUNCTION || graph->kind == GRAPH_TRAINING)
      c->cover[side][g] = SITES_IN_FUNCTION;
    if (side == AFTER && !c->live[g]) continue;
    uint32_t place = 0, rank = 0;
    for (uint32_t n = graph->first_node; n != NO_ID; n = m->nodes[n].next) {
      const bool loaded = n < c->m[BEFORE]->n_nodes;
      const bool gone = loaded && e->nodes[n].flags & NODE_DEAD;
      c->place[side][n] = place++;
      if (loaded) rank = c->place[BEFORE][n];
      c->rank[side][n] = rank;
      c->looked++;
      if (c->cover[side][g] != NO_ID)
        c->el[side][n] = c->cover[side][g];
      else if ((!loaded || gone || changed(c, n)) && !is_constant(m, n))
        c->el[side][n] = n;
      else
        c->el[side][n] = NO_ID;
    }
  }
}

void sites_changed_find(struct sites_cut *c) {
  find_side(c, BEFORE);
  find_side(c, AFTER);
}

static void push_bodies(struct sites_cut *c, const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    const bool graphs = a->type == ATTR_GRAPH || a->type == ATTR_GRAPHS;
    if (a->flags & ATTR_DEAD || !graphs || a->first == NO_ID) continue;
    for (uint32_t k = 0; k < a->count; k++) {
      *TABLE_PUSH(c, bodies) = a->first + k;
      c->within[a->first + k] = c->reading;
    }
  }
}

static void note_read(struct sites_cut *c, const struct model *m, uint32_t value) {
  c->looked++;
  if (value != NO_ID && c->within[m->values[value].graph] != c->reading)
    *TABLE_PUSH(c, reads) = value;
}

void sites_reads(struct sites_cut *c, int side, uint32_t node) {
  const struct model *m = c->m[side];
  c->n_reads = c->n_bodies = 0;
  c->reading++;
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++)
    note_read(c, m, model_input(m, &m->nodes[node], i));
  push_bodies(c, m, node);
  while (c->n_bodies > 0) {
    const struct model_graph *g = &m->graphs[c->bodies[--c->n_bodies]];
    for (uint32_t i = 0; i < g->n_outputs; i++)
      note_read(c, m, m->graph_io[g->outputs + i]);
    for (uint32_t n = g->first_node; n != NO_ID; n = m->nodes[n].next) {
      for (uint32_t i = 0; i < m->nodes[n].n_in; i++)
        note_read(c, m, model_input(m, &m->nodes[n], i));
      push_bodies(c, m, n);
    }
  }
}

// ---- functions ---------------------------------------------------------------------------------

static bool constant_replaced(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (!(a->flags & ATTR_DEAD) && a->type == ATTR_TENSOR && a->first != NO_ID &&
        m->tensors[a->first].flags & (TENSOR_REPLACED | TENSOR_NEW))
      return true;
  }
  return false;
}

static bool graph_changed(struct sites_cut *c, uint32_t graph) {
  const struct model *b = c->m[BEFORE], *m = c->m[AFTER];
  const struct model_graph *s = &b->graphs[graph], *e = &m->graphs[graph];
  if (!(e->flags & GRAPH_DIRTY)) return false;
  if (!same_inputs_of_graph(c, graph)) return true;
  for (uint32_t i = 0; i < s->n_outputs; i++)
    if (b->graph_io[s->outputs + i] != m->graph_io[e->outputs + i]) return true;
  for (uint32_t n = s->first_node; n != NO_ID; n = b->nodes[n].next)
    if (m->nodes[n].flags & NODE_DEAD || changed(c, n) || constant_replaced(m, n)) return true;
  for (uint32_t n = e->first_node; n != NO_ID; n = m->nodes[n].next)
    if (n >= b->n_nodes) return true;
  return false;
}

uint32_t sites_function_of(const struct model *m, uint32_t graph) {
  const uint32_t root = model_root_graph(m, graph);
  return m->graphs[root].kind == GRAPH_FUNCTION ? m->graphs[root].owner : NO_ID;
}

// A call in the body of a function makes that one changed too: the list of changed ones grows until
// all calls are in graphs.
void sites_changed_calls(struct sites_cut *c) {
  const struct model *b = c->m[BEFORE], *m = c->m[AFTER];
  if (b->n_functions == 0) return;
  struct model_calls calls[2] = {{0}, {0}};
  struct {
    TABLE(uint32_t, list);
  } w = {0};
  model_calls_init(&calls[BEFORE], b);
  model_calls_init(&calls[AFTER], m);
  bool *is = arena_zalloc(&c->scratch, m->n_functions + (size_t)1);
  c->calls_of = arena_alloc(&c->scratch, (m->n_functions + (size_t)1) * sizeof *c->calls_of);
  c->lent = arena_zalloc(&c->scratch, (m->n_functions + (size_t)1) * sizeof *c->lent);
  memset(c->calls_of, 0xff, (m->n_functions + (size_t)1) * sizeof *c->calls_of);
  c->n_calls = 0;
  for (uint32_t n = 0; n < b->n_nodes; n++) {
    if (m->nodes[n].flags & NODE_DEAD) continue;
    const uint32_t f = model_calls_callee(&calls[BEFORE], n);
    // What edits made may call a function that comes with the last of them.
    const bool waits = f == NO_ID && b->nodes[n].flags & NODE_NEW;
    if (f != model_calls_callee(&calls[AFTER], n) && !waits) c->forced[n] = true;
    if (f == NO_ID) continue;
    *TABLE_PUSH(c, calls) = (struct sites_call){n, c->calls_of[f]};
    c->calls_of[f] = c->n_calls - 1;
  }
  for (uint32_t g = 0; g < b->n_graphs; g++) {
    const uint32_t f = sites_function_of(b, g);
    if (f == NO_ID || is[f]) continue;
    if (!graph_changed(c, g) && !(m->functions[f].flags & FUNCTION_OPSETS_DIRTY)) continue;
    is[f] = true;
    *TABLE_PUSH(&w, list) = f;
  }
  while (w.n_list > 0)
    for (uint32_t i = c->calls_of[w.list[--w.n_list]]; i != NO_ID; i = c->calls[i].next) {
      const uint32_t n = c->calls[i].node, in = sites_function_of(b, b->nodes[n].graph);
      c->forced[n] = true;
      if (in == NO_ID || is[in]) continue;
      is[in] = true;
      *TABLE_PUSH(&w, list) = in;
    }
  TABLE_FREE(&w, list);
  model_calls_done(&calls[BEFORE]);
  model_calls_done(&calls[AFTER]);
}
