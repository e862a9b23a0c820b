// Which nodes may be taken away when nobody uses them, and which may stand for one another.
//
// The operators of ONNX do nothing but give their outputs, and all but a few give equal outputs for
// equal inputs. Of an operator nobody here knows, neither can be said. What holds of a node holds of
// the node around it, and of what calls the function that it stands in:
//
//   Print ── in a branch of ── If ── in the body of ── local::f ◀── called by ── local::f(x)
//
// So marks climb: from a node to the one around it, from a function to its callers, through a work
// list of functions. A node gets each mark once; all of it costs one look at every node and call.
#include "passes/tidy/inside/effects.h"

#include "base/table.h"
#include "model/model_calls.h"

enum { DROPOUT_MODE_OPSET = 12, DROPOUT_TEST_OPSET = 7 };

struct climb {
  struct effects *x;
  struct model *m;
  struct model_calls calls;
  TABLE(uint8_t, of);      // by function: as effects.of
  TABLE(uint32_t, caller); // by function: 1 + the last node that calls it
  TABLE(uint32_t, before); // by node: 1 + the caller before it
  TABLE(uint32_t, list);   // functions with new marks
};

// ---- one node ----------------------------------------------------------------------------------

static bool drops_at_random(struct kit *k, uint32_t node) {
  const int64_t opset = kit_opset(k, k->m->nodes[node].graph);
  struct kit_number mode;
  int64_t test;
  if (opset >= DROPOUT_MODE_OPSET)
    return kit_in(k, node, 2) != NO_ID &&
           !(kit_const_number(k, kit_in(k, node, 2), &mode) && mode.d == 0);
  if (opset >= DROPOUT_TEST_OPSET) return false;
  return !kit_attr_int(k, node, "is_test", 0, &test) || test == 0;
}

// Of the operator itself. Newer ones of ONNX have no effect either.
static uint8_t marks_of(struct kit *k, uint32_t node) {
  const enum op op = kit_op(k, node);
  if (op == OP_Dropout) return drops_at_random(k, node) ? EFFECTS_RANDOM : 0;
  if (op != OP_NONE) return kit_op_has(op, KIT_RANDOM) ? EFFECTS_RANDOM : 0;
  const struct span domain = model_name(k->m, k->m->nodes[node].domain);
  if (span_is(domain, "ai.onnx.ml")) return 0;
  if (model_domain_is_onnx(domain)) return EFFECTS_RANDOM;
  return EFFECTS_UNKNOWN | EFFECTS_RANDOM;
}

static void mark(struct climb *c, uint32_t node, uint8_t marks) {
  const struct model *m = c->m;
  while (node != NO_ID && (c->x->of[node] & marks) != marks) {
    c->x->of[node] |= marks;
    const struct model_graph *g = &m->graphs[m->nodes[node].graph];
    node = NO_ID;
    if (g->owner == NO_ID) return;
    if (g->kind == GRAPH_SUB) node = m->attrs[g->owner].node;
    if (g->kind != GRAPH_FUNCTION || (c->of[g->owner] & marks) == marks) continue;
    c->of[g->owner] |= marks;
    *TABLE_PUSH(c, list) = g->owner;
  }
}

void effects_find(struct effects *x, struct kit *k) {
  struct climb c = {.x = x, .m = k->m};
  TABLE_ADD(x, of, k->m->n_nodes);
  TABLE_ADD(&c, before, k->m->n_nodes);
  model_calls_init(&c.calls, c.m);
  TABLE_ADD(&c, of, k->m->n_functions);
  TABLE_ADD(&c, caller, k->m->n_functions);
  for (uint32_t i = 0; i < k->m->n_nodes; i++) {
    if (k->m->nodes[i].flags & NODE_DEAD) continue;
    const uint32_t f = model_calls_callee(&c.calls, i);
    if (f == NO_ID) {
      mark(&c, i, marks_of(k, i));
      continue;
    }
    c.before[i] = c.caller[f];
    c.caller[f] = i + 1;
  }
  // A function may have had its marks before its callers were known: the list still holds it.
  while (c.n_list > 0) {
    const uint32_t f = c.list[--c.n_list];
    for (uint32_t i = c.caller[f]; i != 0; i = c.before[i - 1])
      mark(&c, i - 1, c.of[f]);
  }
  model_calls_done(&c.calls);
  TABLES_FREE(&c, of, caller, before, list);
}

void effects_done(struct effects *x) {
  TABLE_FREE(x, of);
}
