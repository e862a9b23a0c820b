// Functions by name, and their inputs that a call leaves out.
//
//   F(x, b) = Conv(x, W, b)      called as F(img), F(img, "") or, inside G(x, b), as F(x, b)
//
// In the body, b looks like any value; in that call it is no value, and the Conv has no bias. So what
// takes an optional input for one that is there must look at the mark first. Marks go along calls: a
// value with a mark that is given to a function marks the input there. Each value gets it once.
//
// Of inputs past the last operand of a call it is enough to know, by function, the fewest operands
// that a call gives: so a function of many inputs that is called often costs no product of the two.
#include "model/model_calls.h"

static uint32_t domain_of(const struct model *m, uint32_t domain) {
  return span_is(model_name(m, domain), "ai.onnx") ? m->empty : domain;
}

// Where the function of that name is, or would be: 0 there is an end.
static uint32_t *slot_of(const struct model_calls *c, uint32_t domain, uint32_t name,
                         uint32_t overload) {
  const struct model *m = c->m;
  const uint32_t key[3] = {domain_of(m, domain), name, overload};
  uint32_t at = (uint32_t)span_hash(span_of(key, sizeof key)) & (c->n_slots - 1);
  for (; c->slots[at] != 0; at = (at + 1) & (c->n_slots - 1)) {
    const struct model_function *f = &m->functions[c->slots[at] - 1];
    if (domain_of(m, f->domain) == key[0] && f->name == name && f->overload == overload) break;
  }
  return &c->slots[at];
}

void model_calls_init(struct model_calls *c, const struct model *m) {
  uint32_t n = 4;
  while (n < 2 * m->n_functions)
    n *= 2;
  c->m = m;
  TABLE_ADD(c, slots, n);
  for (uint32_t i = 0; i < m->n_functions; i++) {
    const struct model_function *f = &m->functions[i];
    if (f->flags & FUNCTION_DEAD) continue;
    uint32_t *slot = slot_of(c, f->domain, f->name, f->overload);
    if (*slot == 0) *slot = i + 1;
  }
}

void model_calls_done(struct model_calls *c) {
  TABLE_FREE(c, slots);
}

uint32_t model_calls_named(const struct model_calls *c, uint32_t domain, uint32_t name,
                           uint32_t overload) {
  return *slot_of(c, domain, name, overload) - 1;
}

uint32_t model_calls_callee(const struct model_calls *c, uint32_t node) {
  const struct model_node *n = &c->m->nodes[node];
  return model_calls_named(c, n->domain, n->op_type, n->overload);
}

void model_calls_called(const struct model_calls *c, bool *called) {
  for (uint32_t i = 0; i < c->m->n_nodes; i++) {
    const uint32_t callee = c->m->nodes[i].flags & NODE_DEAD ? NO_ID : model_calls_callee(c, i);
    if (callee != NO_ID) called[callee] = true;
  }
}

// ---- inputs that are left out ------------------------------------------------------------------

struct marking {
  struct model *m;
  struct model_calls calls;
  TABLE(uint32_t, fewest); // by function: operands of a call
  TABLE(uint32_t, list);   // values with new marks
};

// Input `at` of the function, if it has so many.
static void mark(struct marking *x, uint32_t function, uint32_t at) {
  const struct model_graph *g = &x->m->graphs[x->m->functions[function].graph];
  if (at >= g->n_inputs) return;
  const uint32_t value = x->m->graph_io[g->inputs + at];
  if (x->m->values[value].flags & VALUE_LEFT_OUT) return;
  x->m->values[value].flags |= VALUE_LEFT_OUT;
  *TABLE_PUSH(x, list) = value;
}

static void look_at_call(struct marking *x, uint32_t node) {
  const struct model_node *n = &x->m->nodes[node];
  const uint32_t f = model_calls_callee(&x->calls, node);
  if (f == NO_ID) return;
  if (n->n_in < x->fewest[f]) x->fewest[f] = n->n_in;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (model_input(x->m, n, i) == NO_ID) mark(x, f, i);
}

void model_calls_mark(struct model *m) {
  struct marking x = {.m = m};
  if (m->n_functions == 0) return;
  model_calls_init(&x.calls, m);
  TABLE_ADD(&x, fewest, m->n_functions);
  for (uint32_t f = 0; f < m->n_functions; f++)
    x.fewest[f] = m->graphs[m->functions[f].graph].n_inputs;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (!(m->nodes[i].flags & NODE_DEAD)) look_at_call(&x, i);
  for (uint32_t f = 0; f < m->n_functions; f++)
    for (uint32_t i = x.fewest[f]; i < m->graphs[m->functions[f].graph].n_inputs; i++)
      mark(&x, f, i);
  while (x.n_list > 0) {
    const uint32_t value = x.list[--x.n_list];
    for (uint32_t r = m->values[value].first_use; r != NO_ID; r = m->refs[r].next) {
      const uint32_t node = m->refs[r].node, f = model_calls_callee(&x.calls, node);
      if (f != NO_ID) mark(&x, f, r - m->nodes[node].refs);
    }
  }
  model_calls_done(&x.calls);
  TABLES_FREE(&x, fewest, list);
}
