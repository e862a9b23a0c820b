// A model as text, and its invariants as checks: what tests compare and hold edits to.
#include "model_builder.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct dump {
  const struct model *m;
  char *text;
  size_t n, cap;
};

__attribute__((format(printf, 2, 3))) static void put(struct dump *d, const char *fmt, ...) {
  va_list ap;
  char line[600];
  va_start(ap, fmt);
  const int n = vsnprintf(line, sizeof line, fmt, ap);
  va_end(ap);
  assert(n >= 0 && (size_t)n < sizeof line);
  d->text = table_grow(d->text, &d->cap, d->n + (size_t)n + 1, 1);
  memcpy(d->text + d->n, line, (size_t)n + 1);
  d->n += (size_t)n;
}

static void put_value(struct dump *d, uint32_t value) {
  if (value == NO_ID)
    put(d, " -");
  else
    put(d, " v%u:%s", value, quote(model_value_name(d->m, value)).s);
}

static void put_attr(struct dump *d, const struct model_attr *a) {
  const struct model *m = d->m;
  if (a->flags & ATTR_DEAD) return;
  put(d, "    %s type %u flags %u count %u", quote(model_name(m, a->name)).s, a->type, a->flags,
      a->count);
  const bool list = a->first != NO_ID && !model_attr_is_constant(m, a);
  if (a->type == ATTR_INT) put(d, " %lld", (long long)a->u.i);
  if (a->type == ATTR_FLOAT) put(d, " %a", (double)a->u.f);
  if (a->type == ATTR_STRING) put(d, " '%s'", quote(model_name(m, a->u.s)).s);
  for (uint32_t i = 0; i < a->count && list; i++) {
    if (a->type == ATTR_INTS) put(d, " %lld", (long long)m->longs[a->first + i]);
    if (a->type == ATTR_FLOATS) put(d, " %a", (double)m->floats[a->first + i]);
    if (a->type == ATTR_TENSOR) put(d, " t%u", a->first);
    if (a->type == ATTR_GRAPH) put(d, " g%u", a->first);
  }
  put(d, "\n");
}

static void put_node(struct dump *d, uint32_t node) {
  const struct model *m = d->m;
  const struct model_node *n = &m->nodes[node];
  put(d, "  n%u %s '%s' flags %u:", node, quote(model_name(m, n->op_type)).s,
      quote(model_name(m, n->name)).s, n->flags);
  for (uint32_t i = 0; i < n->n_in; i++)
    put_value(d, model_input(m, n, i));
  put(d, " ->");
  for (uint32_t i = 0; i < n->n_out; i++)
    put_value(d, model_output(m, n, i));
  put(d, "\n");
  for (uint32_t i = 0; i < n->n_attrs; i++)
    put_attr(d, &m->attrs[n->attrs + i]);
}

static void put_graph(struct dump *d, uint32_t graph) {
  const struct model *m = d->m;
  const struct model_graph *g = &m->graphs[graph];
  if (g->flags & GRAPH_DEAD) return;
  put(d, "g%u '%s' kind %u flags %u parent %d:", graph, quote(model_name(m, g->name)).s, g->kind,
      g->flags, (int)g->parent);
  for (uint32_t i = 0; i < g->n_inputs; i++)
    put_value(d, m->graph_io[g->inputs + i]);
  put(d, " ->");
  for (uint32_t i = 0; i < g->n_outputs; i++)
    put_value(d, m->graph_io[g->outputs + i]);
  put(d, "\n");
  for (uint32_t n = g->first_node; n != NO_ID; n = m->nodes[n].next)
    put_node(d, n);
}

static void put_values(struct dump *d) {
  for (uint32_t i = 0; i < d->m->n_values; i++) {
    const struct model_value *v = &d->m->values[i];
    if (v->flags & VALUE_DEAD) continue;
    put(d, "v%u g%u '%s' kind %u def %d flags %u outputs %u uses %u\n", i, v->graph,
        quote(model_name(d->m, v->name)).s, v->kind, (int)v->def, v->flags & ~VALUE_NO_INNER_INFO,
        v->n_graph_outputs, model_use_count(d->m, i));
  }
}

static void put_tensors(struct dump *d) {
  struct span small;
  for (uint32_t i = 0; i < d->m->n_tensors; i++) {
    const struct model_tensor *t = &d->m->tensors[i];
    if (t->flags & TENSOR_DEAD) continue;
    put(d, "t%u '%s' %s%s flags %u recipe %d", i, quote(model_name(d->m, t->name)).s,
        dtype_name((enum dtype)t->dtype), quote_dims(model_dims(d->m, t), t->rank).s, t->flags,
        (int)t->recipe);
    if (model_small_value(d->m, i, &small))
      put(d, " hash %llx", (unsigned long long)span_hash(small));
    put(d, "\n");
  }
}

static void put_infos(struct dump *d) {
  for (uint32_t i = 0; i < d->m->n_infos; i++) {
    const struct model_info *f = &d->m->infos[i];
    if (f->flags & INFO_DEAD) continue;
    put(d, "i%u", i);
    put_value(d, f->value);
    put(d, " home %u flags %u %s [", f->home, f->flags, dtype_name((enum dtype)f->dtype));
    for (uint32_t k = 0; k < f->rank; k++)
      put(d, " %lld:%s", (long long)d->m->info_dims[f->dims + k].value,
          quote(model_name(d->m, d->m->info_dims[f->dims + k].param)).s);
    put(d, " ]\n");
  }
}

const char *build_dump(const struct model *m, struct arena *a) {
  struct dump d = {.m = m};
  put(&d, "ir %lld dirty %u\n", (long long)m->ir_version, m->dirty);
  for (uint32_t i = 0; i < m->n_opsets; i++)
    put(&d, "opset '%s' %lld\n", quote(model_name(m, m->opsets[i].domain)).s,
        (long long)m->opsets[i].version);
  for (uint32_t i = 0; i < m->n_metadata; i++)
    put(&d, "metadata '%s' '%s'\n", quote(model_name(m, m->metadata[i].key)).s,
        quote(model_name(m, m->metadata[i].value)).s);
  for (uint32_t i = 0; i < m->n_functions; i++)
    put(&d, "f%u '%s' g%u flags %u opsets %u\n", i, quote(model_name(m, m->functions[i].name)).s,
        m->functions[i].graph, m->functions[i].flags, m->functions[i].n_opsets);
  for (uint32_t i = 0; i < m->n_graphs; i++)
    put_graph(&d, i);
  put_values(&d);
  put_tensors(&d);
  put_infos(&d);
  const char *text = arena_string(a, span_of(d.text, d.n));
  table_free(d.text, d.cap, 1);
  return text;
}

static const char *name_or_dash(const struct model *m, uint32_t value) {
  return value == NO_ID ? "-" : model_name_str(m, m->values[value].name);
}

const char *build_nodes(const struct model *m, uint32_t graph, bool names, struct arena *a) {
  struct dump d = {.m = m};
  put(&d, "%s", "");
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next) {
    const struct model_node *x = &m->nodes[i];
    put(&d, "%s", model_name_str(m, x->op_type));
    if (names) put(&d, " %s", model_name_str(m, x->name));
    put(&d, "(");
    for (uint32_t k = 0; k < x->n_in; k++)
      put(&d, "%s%s", k ? "," : "", name_or_dash(m, model_input(m, x, k)));
    put(&d, ")->%s\n", name_or_dash(m, model_output(m, x, 0)));
  }
  const char *text = arena_string(a, span_of(d.text, d.n));
  table_free(d.text, d.cap, 1);
  return text;
}

// ---- invariants --------------------------------------------------------------------------------

#define HOLDS(what, id)                                                                            \
  do {                                                                                             \
    if (!(what)) broken(#what, id, __LINE__);                                                      \
  } while (0)

static void broken(const char *what, uint32_t id, int line) {
  fprintf(stderr, "model_dump.c:%d: of row %u this does not hold: %s\n", line, id, what);
  abort();
}

static void check_node(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  HOLDS(!(m->graphs[n->graph].flags & GRAPH_DEAD), node);
  for (uint32_t i = 0; i < n->n_in; i++) {
    const struct model_ref *r = &m->refs[n->refs + i];
    HOLDS(r->node == node, node);
    if (r->value == NO_ID) continue;
    const struct model_value *v = &m->values[r->value];
    HOLDS(!(v->flags & VALUE_DEAD), node);
    HOLDS(r->prev == NO_ID ? v->first_use == n->refs + i : m->refs[r->prev].next == n->refs + i,
          node);
    HOLDS(r->next == NO_ID || m->refs[r->next].prev == n->refs + i, node);
  }
  for (uint32_t i = 0; i < n->n_out; i++) {
    const uint32_t value = model_output(m, n, i);
    HOLDS(m->refs[n->refs + n->n_in + i].node == node, node);
    if (value == NO_ID) continue;
    HOLDS(m->values[value].kind == VALUE_NODE_OUTPUT && m->values[value].def == node, node);
  }
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (a->flags & ATTR_DEAD) continue;
    HOLDS(a->node == node, node);
    if (a->first == NO_ID) continue; // a reference to an attribute of the function
    if (a->type == ATTR_TENSOR) HOLDS(m->tensors[a->first].owner == n->attrs + i, node);
    if (a->type == ATTR_TENSOR) HOLDS(!(m->tensors[a->first].flags & TENSOR_DEAD), node);
    if (a->type == ATTR_GRAPH) HOLDS(m->graphs[a->first].owner == n->attrs + i, node);
    if (a->type == ATTR_GRAPH) HOLDS(!(m->graphs[a->first].flags & GRAPH_DEAD), node);
  }
}

static void check_orders(const struct model *m) {
  uint32_t listed = 0, live = 0;
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    uint32_t last = NO_ID;
    for (uint32_t n = m->graphs[g].first_node; n != NO_ID; n = m->nodes[n].next) {
      HOLDS(m->nodes[n].graph == g && m->nodes[n].prev == last, n);
      HOLDS(!(m->nodes[n].flags & NODE_DEAD), n);
      last = n;
      listed++;
      check_node(m, n);
    }
    HOLDS(m->graphs[g].last_node == last, g);
  }
  for (uint32_t n = 0; n < m->n_nodes; n++)
    live += !(m->nodes[n].flags & NODE_DEAD);
  HOLDS(listed == live, listed);
}

static void check_value(const struct model *m, uint32_t value) {
  const struct model_value *v = &m->values[value];
  const bool dead = v->flags & VALUE_DEAD;
  HOLDS(dead ? model_value_in(m, v->graph, v->name) != value
             : model_value_in(m, v->graph, v->name) == value,
        value);
  if (dead) HOLDS(v->first_use == NO_ID && v->n_graph_outputs == 0, value);
  HOLDS((v->n_graph_outputs > 0) == !!(v->flags & VALUE_IS_OUTPUT), value);
  for (uint32_t u = v->first_use; u != NO_ID; u = m->refs[u].next) {
    const struct model_node *n = &m->nodes[m->refs[u].node];
    HOLDS(m->refs[u].value == value && u >= n->refs && u < n->refs + n->n_in, value);
    HOLDS(!(n->flags & NODE_DEAD), value);
  }
  if (v->kind == VALUE_INITIALIZER)
    HOLDS(m->tensors[v->def].owner == value && !(m->tensors[v->def].flags & TENSOR_DEAD), value);
  if (v->kind == VALUE_INPUT) HOLDS(v->def == NO_ID && v->flags & VALUE_IS_INPUT, value);
  for (uint32_t i = v->info; i != NO_ID; i = m->infos[i].next) {
    HOLDS(m->infos[i].value == value, value);
    if (dead) HOLDS(m->infos[i].flags & INFO_DEAD, value);
  }
}

static void check_inputs(const struct model *m, uint32_t graph) {
  const struct model_graph *g = &m->graphs[graph];
  for (uint32_t i = 0; i < g->n_inputs; i++)
    HOLDS(m->values[m->graph_io[g->inputs + i]].flags & VALUE_IS_INPUT, graph);
}

// A body may list a value of a graph around it.
static void check_listings(const struct model *m) {
  uint32_t *times = calloc(m->n_values + (size_t)1, sizeof *times);
  HOLDS(times, 0);
  for (uint32_t g = 0; g < m->n_graphs; g++)
    for (uint32_t i = 0; !(m->graphs[g].flags & GRAPH_DEAD) && i < m->graphs[g].n_outputs; i++)
      times[m->graph_io[m->graphs[g].outputs + i]]++;
  for (uint32_t v = 0; v < m->n_values; v++)
    HOLDS(m->values[v].n_graph_outputs == times[v], v);
  free(times);
}

// A row that differs from the source says so, and so does everything around it.
static void check_marks(const struct model *m) {
  for (uint32_t n = 0; n < m->n_nodes; n++)
    if (m->nodes[n].flags & (NODE_DIRTY | NODE_NEW | NODE_DEAD))
      HOLDS(m->graphs[m->nodes[n].graph].flags & GRAPH_DIRTY, n);
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    const struct model_graph *x = &m->graphs[g];
    if (x->kind != GRAPH_SUB || x->owner == NO_ID || x->flags & GRAPH_DEAD) continue;
    const struct model_attr *a = &m->attrs[x->owner];
    if (!(x->flags & GRAPH_DIRTY)) continue;
    HOLDS(a->flags & (ATTR_DIRTY | ATTR_NEW), g);
    HOLDS(m->nodes[a->node].flags & (NODE_DIRTY | NODE_NEW), g);
  }
}

void build_check(const struct model *m) {
  check_orders(m);
  for (uint32_t v = 0; v < m->n_values; v++)
    check_value(m, v);
  for (uint32_t g = 0; g < m->n_graphs; g++)
    check_inputs(m, g);
  check_listings(m);
  check_marks(m);
}
