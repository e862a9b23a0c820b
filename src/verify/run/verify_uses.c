// Nodes are looked at from the last to the first, those of functions before those that call them, so that the counts of what a node returns are known.
#include "verify/run/verify_uses.h"

#include "model/model_calls.h"

#include <stdlib.h>

enum { MOST = 1 << 16 }; // calls, and uses

static uint32_t at_most(uint64_t n) {
  return (uint32_t)min_u64(n, MOST);
}

static uint32_t function_of(const struct model *m, uint32_t graph) {
  const struct model_graph *root = &m->graphs[model_root_graph(m, graph)];
  return root->kind == GRAPH_FUNCTION ? root->owner : NO_ID;
}

// ---- calls -------------------------------------------------------------------------------------

struct call {
  uint32_t caller, callee; // functions; NO_ID: outside of all
};

static int by_caller(const void *pa, const void *pb) {
  const struct call *a = pa, *b = pb;
  return (a->caller > b->caller) - (a->caller < b->caller);
}

// u->callees; returns how many calls are in the list.
static uint32_t find_calls(struct verify_uses *u, struct call *list) {
  const struct model *m = u->m;
  struct model_calls calls = {.m = NULL};
  uint32_t n = 0;
  model_calls_init(&calls, m);
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    u->callees[i] = NO_ID;
    if (m->nodes[i].flags & NODE_DEAD) continue;
    const uint32_t callee = model_calls_callee(&calls, i);
    u->callees[i] = callee;
    if (callee != NO_ID) list[n++] = (struct call){function_of(m, m->nodes[i].graph), callee};
  }
  model_calls_done(&calls);
  if (n) qsort(list, n, sizeof *list, by_caller);
  return n;
}

// u->calls and u->callees; and places by function, from 1: callers come before what they call, and functions that call themselves have none.
static void count_calls(struct verify_uses *u, uint32_t *places, struct arena *a) {
  const struct model *m = u->m;
  const uint32_t n = m->n_functions;
  struct call *list = arena_alloc(a, (m->n_nodes + (size_t)1) * sizeof *list);
  const uint32_t n_calls = find_calls(u, list);
  // Calls in functions that are not counted yet; the first call of each function in the list; functions that are counted.
  uint32_t *waits = arena_zalloc(a, (n + (size_t)1) * sizeof *waits);
  uint32_t *first = arena_zalloc(a, (n + (size_t)2) * sizeof *first);
  uint32_t *ready = arena_alloc(a, (n + (size_t)1) * sizeof *ready), n_ready = 0;
  for (uint32_t i = 0; i < n_calls; i++) {
    const struct call *c = &list[i];
    if (c->caller != NO_ID) first[c->caller + 1]++, waits[c->callee]++;
    if (c->caller == NO_ID) u->calls[c->callee] = at_most(u->calls[c->callee] + (uint64_t)1);
  }
  for (uint32_t f = 0; f < n; f++) {
    first[f + 1] += first[f];
    if (waits[f] == 0) ready[n_ready++] = f;
  }
  for (uint32_t i = 0; i < n_ready; i++) {
    const uint32_t f = ready[i];
    places[f] = i + 1;
    for (uint32_t k = first[f]; k < first[f + 1]; k++) {
      const uint32_t callee = list[k].callee;
      u->calls[callee] = at_most((uint64_t)u->calls[callee] + u->calls[f]);
      if (--waits[callee] == 0) ready[n_ready++] = callee;
    }
  }
}

// ---- values ------------------------------------------------------------------------------------

struct step {
  uint32_t place, node;
};

static int by_place(const void *pa, const void *pb) {
  const struct step *a = pa, *b = pb;
  if (a->place != b->place) return a->place < b->place ? -1 : 1;
  return (a->node > b->node) - (a->node < b->node);
}

// A node that makes constants of constants, so that they could be stored in its place.
static bool is_constant(const struct model *m, uint32_t node, const uint8_t *constant) {
  const struct model_node *n = &m->nodes[node];
  struct model_constant c;
  for (uint32_t k = 0; k < n->n_in; k++) {
    const uint32_t value = model_input(m, n, k);
    if (value != NO_ID && !constant[value] && !model_resolve_constant(m, value, &c)) return false;
  }
  return true;
}

uint32_t verify_uses_inside(const struct verify_uses *u, uint32_t node, uint32_t slot) {
  const struct model *m = u->m;
  if (u->callees[node] == NO_ID) return NO_ID;
  const struct model_graph *body = &m->graphs[m->functions[u->callees[node]].graph];
  return slot < body->n_inputs ? m->graph_io[body->inputs + slot] : NO_ID;
}

// Where a node stores its input in another form: what is read of the result that is read most. Else 1.
static uint32_t reads_of_node(const struct verify_uses *u, uint32_t node, const uint8_t *constant) {
  const struct model *m = u->m;
  const struct model_node *n = &m->nodes[node];
  const bool rounds =
      model_op_is(m, node, "QuantizeLinear") || model_op_is(m, node, "DequantizeLinear");
  uint32_t most = 0;
  for (uint32_t k = 0; k < n->n_out; k++) {
    const uint32_t value = model_output(m, n, k);
    if (value == NO_ID) continue;
    if (!rounds && !constant[value]) return 1;
    if (u->values[value] > most) most = u->values[value];
  }
  return n->n_out ? most : 1;
}

static void count_uses(struct verify_uses *u, const uint8_t *constant) {
  const struct model *m = u->m;
  for (uint32_t i = 0; i < u->n_order; i++) {
    const uint32_t node = u->order[i];
    const bool calls = u->callees[node] != NO_ID;
    const uint32_t reads = calls ? 0 : reads_of_node(u, node, constant);
    for (uint32_t k = 0; k < m->nodes[node].n_in; k++) {
      const uint32_t value = model_input(m, &m->nodes[node], k),
                     inside = verify_uses_inside(u, node, k);
      if (value == NO_ID) continue;
      u->values[value] =
          at_most((uint64_t)u->values[value] + reads + (inside != NO_ID ? u->values[inside] : 0));
    }
  }
}

static void find_order(struct verify_uses *u, const uint32_t *places, struct arena *scratch) {
  const struct model *m = u->m;
  struct step *steps = arena_alloc(scratch, (m->n_nodes + (size_t)1) * sizeof *steps);
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    if (m->nodes[i].flags & NODE_DEAD) continue;
    const uint32_t function = function_of(m, m->nodes[i].graph);
    steps[n++] = (struct step){function == NO_ID ? 0 : places[function], i};
  }
  if (n) qsort(steps, n, sizeof *steps, by_place);
  for (uint32_t i = n; i-- > 0;)
    u->order[u->n_order++] = steps[i].node;
}

static void find_constants(const struct verify_uses *u, uint8_t *constant) {
  const struct model *m = u->m;
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    const struct model_node *n = &m->nodes[i];
    if (n->flags & NODE_DEAD || n->n_in == 0 || u->callees[i] != NO_ID) continue;
    if (!is_constant(m, i, constant)) continue;
    for (uint32_t k = 0; k < n->n_out; k++)
      if (model_output(m, n, k) != NO_ID) constant[model_output(m, n, k)] = 1;
  }
}

void verify_uses_find(struct verify_uses *u, const struct model *m, struct arena *a) {
  struct arena scratch = {0};
  *u = (struct verify_uses){.m = m};
  u->order = arena_alloc(a, (m->n_nodes + (size_t)1) * sizeof *u->order);
  u->callees = arena_alloc(a, (m->n_nodes + (size_t)1) * sizeof *u->callees);
  u->calls = arena_zalloc(a, (m->n_functions + (size_t)1) * sizeof *u->calls);
  u->values = arena_zalloc(a, (m->n_values + (size_t)1) * sizeof *u->values);
  uint32_t *places = arena_zalloc(&scratch, (m->n_functions + (size_t)1) * sizeof *places);
  uint8_t *constant = arena_zalloc(&scratch, m->n_values + (size_t)1);
  count_calls(u, places, &scratch);
  find_order(u, places, &scratch);
  find_constants(u, constant);
  for (uint32_t i = 0; i < m->n_values; i++)
    u->values[i] = at_most(m->values[i].n_graph_outputs);
  count_uses(u, constant);
  arena_free(&scratch);
}

// ---- asked -------------------------------------------------------------------------------------

uint32_t verify_uses_of_graph(const struct verify_uses *u, uint32_t graph) {
  const uint32_t function = graph == NO_ID ? NO_ID : function_of(u->m, graph);
  return function == NO_ID ? 1 : u->calls[function];
}

uint32_t verify_uses_of_value(const struct verify_uses *u, uint32_t value) {
  return at_most((uint64_t)u->values[value] * verify_uses_of_graph(u, u->m->values[value].graph));
}

uint32_t verify_uses_of_tensor(const struct verify_uses *u, uint32_t tensor) {
  const struct model *m = u->m;
  const struct model_tensor *t = &m->tensors[tensor];
  uint32_t value = NO_ID;
  if (t->home != HOME_ATTRIBUTE) {
    value = t->owner;
  } else if (t->owner != NO_ID) {
    const uint32_t node = m->attrs[t->owner].node;
    if (node != NO_ID && model_op_is(m, node, "Constant") && m->nodes[node].n_out)
      value = model_output(m, &m->nodes[node], 0);
  }
  return value == NO_ID ? verify_uses_of_graph(u, t->graph) : verify_uses_of_value(u, value);
}
