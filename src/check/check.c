// What holds of a well-formed model beyond its framing.
//
// Run by load at the border, and again when the edits of a log were applied, which is a file as any
// other: everything here looks at live rows only and in list order, so it judges an edited model as
// well as a loaded one. Every table is walked once, whatever the number of checks that look at it;
// only cycles and extents need more (check_order.c, check_extents.c).
#include "check/inside/check_parts.h"

#include "base/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int check_report(struct check *c, enum fault_level level, const char *place, const char *fmt, ...) {
  char text[900];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (level == FAULT_WARNING && c->found) c->found->warnings++;
  if (c->faults) c->faults->report(c->faults->ctx, level, place, text, NULL);
  if (c->faults || level != FAULT_ERROR) return 0;
  return err_set(c->err, ERR_MODEL, "'%s': %s: %s", quote_path(c->m->path ? c->m->path : "model").s,
                 place, text);
}

struct check_place check_node_place(const struct check *c, uint32_t node) {
  const struct model *m = c->m;
  const struct model_node *n = &m->nodes[node];
  struct check_place p;
  const struct span name = model_name(m, n->name);
  if (name.n)
    snprintf(p.s, sizeof p.s, "node '%s' (%s)", quote(name).s, quote(model_name(m, n->op_type)).s);
  else
    snprintf(p.s, sizeof p.s, "node g%u/n%u (%s)", n->graph, node,
             quote(model_name(m, n->op_type)).s);
  return p;
}

struct check_place check_graph_place(const struct check *c, uint32_t graph) {
  struct check_place p;
  snprintf(p.s, sizeof p.s, "graph '%s'", quote(model_name(c->m, c->m->graphs[graph].name)).s);
  return p;
}

// ---- every value is made once -------------------------------------------------------------------

enum { MADE = 1, LISTED = 2 }; // by a node or initializer; among the inputs

struct makers {
  struct check *c;
  uint8_t *seen;     // per value
  uint64_t defaults; // initializers that are inputs too
  uint32_t example;
};

static int made_again(struct makers *k, uint32_t value, const char *by) {
  const struct model *m = k->c->m;
  return check_report(k->c, FAULT_ERROR, check_graph_place(k->c, m->values[value].graph).s,
                      "value '%s' is defined twice, the second time by %s",
                      quote(model_value_name(m, value)).s, by);
}

static int see_outputs(struct makers *k, uint32_t id) {
  const struct model *m = k->c->m;
  const struct model_node *n = &m->nodes[id];
  if (n->op_type == m->empty &&
      check_report(k->c, FAULT_ERROR, check_node_place(k->c, id).s, "has no op_type"))
    return -1;
  for (uint32_t i = 0; i < n->n_out; i++) {
    const uint32_t value = model_output(m, n, i);
    if (value == NO_ID) continue;
    if (k->seen[value] & MADE && made_again(k, value, check_node_place(k->c, id).s)) return -1;
    k->seen[value] |= MADE;
  }
  return 0;
}

static int see_initializer(struct makers *k, uint32_t tensor, enum tensor_home home,
                           const char *what) {
  if (tensor == NO_ID) return 0;
  const struct model_tensor *t = &k->c->m->tensors[tensor];
  if (t->home != home || t->flags & TENSOR_DEAD || t->owner == NO_ID) return 0;
  if (k->seen[t->owner] & MADE && made_again(k, t->owner, what)) return -1;
  k->seen[t->owner] |= MADE;
  return 0;
}

static int see_inputs(struct makers *k, uint32_t graph) {
  const struct model *m = k->c->m;
  const struct model_graph *g = &m->graphs[graph];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i];
    const bool output = k->seen[value] & MADE && m->values[value].kind != VALUE_INITIALIZER;
    if ((output || k->seen[value] & LISTED) && made_again(k, value, "a graph input")) return -1;
    k->seen[value] |= LISTED;
    if (!(k->seen[value] & MADE) || output) continue;
    if (k->defaults++ == 0) k->example = value;
  }
  return 0;
}

static int check_makers(struct makers *k) {
  const struct model *m = k->c->m;
  for (uint32_t id = 0; id < m->n_tensors; id++)
    if (see_initializer(k, id, HOME_INITIALIZER, "an initializer")) return -1;
  for (uint32_t id = 0; id < m->n_sparses; id++)
    if (see_initializer(k, m->sparses[id].values, HOME_SPARSE_INITIALIZER, "a sparse initializer"))
      return -1;
  for (uint32_t graph = 0; graph < m->n_graphs; graph++)
    if (!(m->graphs[graph].flags & GRAPH_DEAD) && see_inputs(k, graph)) return -1;
  // Before IR version 4 every initializer had to be listed.
  if (k->defaults == 0 || m->ir_version < 4) return 0;
  return check_report(k->c, FAULT_NOTE, "model",
                      "%s initializer%s graph input%s (the first: '%s'): callers may "
                      "override them",
                      decimal(k->defaults).s, k->defaults == 1 ? " is also a" : "s are also",
                      plural(k->defaults), quote(model_value_name(m, k->example)).s);
}

// ---- every input is defined ---------------------------------------------------------------------

static int check_defined(struct check *c) {
  const struct model *m = c->m;
  for (uint32_t id = 0; id < m->n_values; id++) {
    const struct model_value *v = &m->values[id];
    if (v->kind != VALUE_UNDEFINED || v->flags & VALUE_DEAD) continue;
    const struct quoted name = quote(model_name(m, v->name));
    if (v->first_use != NO_ID &&
        check_report(c, FAULT_ERROR, check_node_place(c, m->refs[v->first_use].node).s,
                     "its input '%s' is not produced by any node", name.s))
      return -1;
    if (v->n_graph_outputs && check_report(c, FAULT_ERROR, check_graph_place(c, v->graph).s,
                                           "its output '%s' is not produced by any node", name.s))
      return -1;
  }
  return 0;
}

// ---- every domain is imported -------------------------------------------------------------------

static int compare_imports(const void *a, const void *b) {
  const struct check_import *x = a, *y = b;
  if (x->root != y->root) return x->root < y->root ? -1 : 1;
  if (x->domain != y->domain) return x->domain < y->domain ? -1 : 1;
  return x->node < y->node ? -1 : x->node > y->node;
}

// Functions have their own imports, everything else has the model's.
static uint32_t importer(const struct model *m, uint32_t graph) {
  graph = model_root_graph(m, graph);
  const bool own = m->graphs[graph].kind == GRAPH_FUNCTION || m->main_graph == NO_ID;
  return own ? graph : m->main_graph;
}

void check_imports_push(struct check_imports *used, const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  const struct check_import *last = used->n_at ? &used->at[used->n_at - 1] : NULL;
  const uint32_t root = importer(m, n->graph);
  if (last && last->root == root && last->domain == n->domain) return;
  *TABLE_PUSH(used, at) = (struct check_import){root, n->domain, node};
}

void check_imports_sort(struct check_imports *used) {
  uint32_t n = 0;
  if (used->n_at) qsort(used->at, used->n_at, sizeof *used->at, compare_imports);
  for (uint32_t i = 0; i < used->n_at; i++) {
    const struct check_import *u = &used->at[i];
    if (i == 0 || u[-1].root != u->root || u[-1].domain != u->domain) used->at[n++] = *u;
  }
  used->n_at = n;
}

// Before IR version 3 there was nothing to import. A domain that is missing only costs a warning;
// readers refuse a model that imports nothing at all.
static int check_imports(struct check *c, struct check_imports *used) {
  const struct model *m = c->m;
  if (m->ir_version < 3) return 0;
  if (m->n_model_opsets == 0) {
    if (c->found) c->found->imports++;
    return check_report(c, FAULT_ERROR, "model", "it imports no operator set (opset_import)");
  }
  check_imports_sort(used);
  for (uint32_t i = 0; i < used->n_at; i++) {
    const struct check_import *u = &used->at[i];
    const struct span domain = model_name(m, u->domain);
    if (model_opset_version(m, u->root, domain) > 0) continue;
    if (c->found) c->found->imports++;
    if (check_report(c, FAULT_WARNING, check_node_place(c, u->node).s,
                     "its operator domain '%s' is not imported (opset_import)", quote(domain).s))
      return -1;
  }
  return 0;
}

// ---- smaller things -----------------------------------------------------------------------------

enum { NEWEST_IR_VERSION = 14 };

static int check_version(struct check *c) {
  const int64_t version = c->m->ir_version;
  if (version <= 0) return check_report(c, FAULT_WARNING, "model", "has no ir_version");
  if (version <= NEWEST_IR_VERSION) return 0;
  return check_report(c, FAULT_NOTE, "model",
                      "ir_version %s is newer than the newest that weir knows (%d)",
                      integer(version).s, NEWEST_IR_VERSION);
}

// Attributes of a node have different names. Quadratic, so that it needs no table; nodes with more
// than a few dozen attributes do not exist, and are let off.
static int check_attr_names(struct check *c, uint32_t node) {
  enum { FEW = 64 };
  const struct model *m = c->m;
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 1; i < n->n_attrs && n->n_attrs <= FEW; i++)
    for (uint32_t k = 0; k < i; k++) {
      const struct model_attr *a = &m->attrs[n->attrs + i], *b = &m->attrs[n->attrs + k];
      if (a->name != b->name || (a->flags | b->flags) & ATTR_DEAD) continue;
      return check_report(c, FAULT_WARNING, check_node_place(c, node).s, "has attribute '%s' twice",
                          quote(model_name(m, a->name)).s);
    }
  return 0;
}

static int check_attrs(struct check *c) {
  const struct model *m = c->m;
  for (uint32_t id = 0; check_warns(c) && id < m->n_attrs; id++) {
    const uint32_t node = m->attrs[id].node;
    if (node == NO_ID || m->nodes[node].attrs != id || m->nodes[node].flags & NODE_DEAD) continue;
    if (check_attr_names(c, node)) return -1;
  }
  return 0;
}

// A runtime wants a node of the body (an Identity, if no other) between a value around it and its output.
static int check_outputs(struct check *c, uint32_t graph) {
  const struct model *m = c->m;
  const struct model_graph *g = &m->graphs[graph];
  for (uint32_t i = 0; i < g->n_outputs && g->parent != NO_ID && check_warns(c); i++) {
    const uint32_t value = m->graph_io[g->outputs + i];
    if (value == NO_ID || m->values[value].graph == graph) continue;
    return check_report(c, FAULT_WARNING, check_graph_place(c, graph).s,
                        "its output '%s' is a value of an enclosing graph: ONNX Runtime refuses "
                        "this without an Identity in between",
                        quote(model_value_name(m, value)).s);
  }
  return 0;
}

// ---- the story ----------------------------------------------------------------------------------

// What all checks want of the nodes, in one walk: with millions of them, the walk is the cost.
static int see_nodes(struct makers *makers, struct check_order *order, struct check_imports *used) {
  const struct model *m = makers->c->m;
  for (uint32_t graph = 0; graph < m->n_graphs; graph++) {
    if (m->graphs[graph].flags & GRAPH_DEAD) continue;
    uint32_t domain = NO_ID; // neighbours of one domain count once
    for (uint32_t id = m->graphs[graph].first_node; id != NO_ID; id = m->nodes[id].next) {
      if (see_outputs(makers, id)) return -1;
      check_order_node(order, id);
      if (m->nodes[id].domain == domain || !check_warns(makers->c)) continue;
      domain = m->nodes[id].domain;
      check_imports_push(used, m, id);
    }
    check_order_outputs(order, graph);
    if (check_outputs(makers->c, graph)) return -1;
  }
  return 0;
}

static int check_all(struct check *c, struct check_imports *used) {
  struct makers makers = {.c = c, .seen = arena_zalloc(&c->scratch, (size_t)c->m->n_values + 1)};
  struct check_order order = check_order_begin(c);
  if (check_version(c) || check_attrs(c)) return -1;
  if (see_nodes(&makers, &order, used) || check_makers(&makers)) return -1;
  if (check_hidden(c, &order) || check_defined(c)) return -1;
  if (check_order_report(c, &order) || check_function_recursion(c)) return -1;
  if (check_imports(c, used)) return -1;
  return check_extents(c);
}

int check_structure(const struct model *m, const struct fault_sink *faults,
                    struct check_found *found, struct err *err) {
  struct check c = {.m = m, .faults = faults, .found = found, .err = err};
  struct check_imports used = {0};
  if (found) *found = (struct check_found){0};
  const int rc = check_all(&c, &used);
  TABLE_FREE(&used, at);
  arena_free(&c.scratch);
  return rc;
}
