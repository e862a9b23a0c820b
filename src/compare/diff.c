// The order of work: names into one numbering, then pairs of graphs from the outside in, then
// functions, then tensors. Bodies are paired when the nodes that they hang on are.
#include "compare/inside/diff_parts.h"

#include <stdlib.h>

bool diff_node_is_constant(const struct model *m, uint32_t node) {
  return model_op_is(m, node, "Constant");
}

uint32_t diff_constant_attr(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  if (!diff_node_is_constant(m, node)) return NO_ID;
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (a->flags & ATTR_DEAD || a->first == NO_ID || a->count == 0) continue;
    if (a->type == ATTR_TENSOR || model_attr_is_constant(m, a)) return n->attrs + i;
  }
  return NO_ID;
}

uint32_t diff_value_tensor(const struct model *m, uint32_t value) {
  if (value == NO_ID) return NO_ID;
  const struct model_value *v = &m->values[value];
  if (v->kind == VALUE_INITIALIZER) return v->def;
  if (v->kind != VALUE_NODE_OUTPUT) return NO_ID;
  const uint32_t attr = diff_constant_attr(m, v->def);
  return attr == NO_ID ? NO_ID : m->attrs[attr].first;
}

uint32_t diff_tensor_value(const struct model *m, uint32_t tensor) {
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->home == HOME_INITIALIZER) return t->owner;
  if (t->home != HOME_ATTRIBUTE || t->owner == NO_ID) return NO_ID;
  const uint32_t node = m->attrs[t->owner].node;
  if (node == NO_ID || !diff_node_is_constant(m, node)) return NO_ID;
  const uint32_t value = model_output(m, &m->nodes[node], 0);
  return value != NO_ID && diff_value_tensor(m, value) == tensor ? value : NO_ID;
}

struct span diff_tensor_name(const struct model *m, uint32_t tensor) {
  const uint32_t value = diff_tensor_value(m, tensor);
  return value == NO_ID ? model_name(m, m->tensors[tensor].name) : model_value_name(m, value);
}

void diff_pair_values(struct diff *d, uint32_t a, uint32_t b) {
  d->values[DIFF_A][a] = b;
  d->values[DIFF_B][b] = a;
}

void diff_pair_tensors(struct diff *d, uint32_t a, uint32_t b) {
  d->tensors[DIFF_A][a] = b;
  d->tensors[DIFF_B][b] = a;
  const uint32_t va = diff_tensor_value(d->m[DIFF_A], a), vb = diff_tensor_value(d->m[DIFF_B], b);
  if (va == NO_ID || vb == NO_ID) return;
  if (d->values[DIFF_A][va] == NO_ID && d->values[DIFF_B][vb] == NO_ID) diff_pair_values(d, va, vb);
}

static uint32_t *nobody(struct diff *d, uint32_t n) {
  uint32_t *of = arena_alloc(&d->arena, (n + (size_t)1) * sizeof *of);
  memset(of, 0xff, (n + (size_t)1) * sizeof *of);
  return of;
}

static void number_names(struct diff *d) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  d->names[DIFF_A] = nobody(d, a->n_name_at);
  d->names[DIFF_B] = nobody(d, b->n_name_at);
  for (uint32_t i = 0; i < a->n_name_at; i++)
    d->names[DIFF_A][i] = i;
  d->n_names = a->n_name_at;
  for (uint32_t i = 0; i < b->n_name_at; i++) {
    const uint32_t same = model_find_name(a, model_name(b, i));
    d->names[DIFF_B][i] = same == NO_ID ? d->n_names++ : same;
  }
  d->steps += d->n_names;
}

// ---- functions ---------------------------------------------------------------------------------

static uint64_t function_key(const struct diff *d, uint32_t side, uint32_t f) {
  const struct model_function *x = &d->m[side]->functions[f];
  const uint64_t h = diff_mix(diff_name(d, side, x->domain), diff_name(d, side, x->name));
  return diff_mix(h, diff_name(d, side, x->overload));
}

struct keyed {
  uint64_t key;
  uint32_t id;
};

static int by_key(const void *pa, const void *pb) {
  const struct keyed *a = pa, *b = pb;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return (a->id > b->id) - (a->id < b->id);
}

static bool same_function(const struct diff *d, uint32_t a, uint32_t b) {
  const struct model_function *x = &d->m[DIFF_A]->functions[a], *y = &d->m[DIFF_B]->functions[b];
  return diff_name(d, DIFF_A, x->domain) == diff_name(d, DIFF_B, y->domain) &&
         diff_name(d, DIFF_A, x->name) == diff_name(d, DIFF_B, y->name) &&
         diff_name(d, DIFF_A, x->overload) == diff_name(d, DIFF_B, y->overload);
}

static void match_functions(struct diff *d) {
  struct keyed *of[DIFF_SIDES];
  uint32_t n[DIFF_SIDES];
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    n[s] = d->m[s]->n_functions;
    of[s] = arena_alloc(&d->arena, (n[s] + (size_t)1) * sizeof **of);
    for (uint32_t i = 0; i < n[s]; i++)
      of[s][i] = (struct keyed){function_key(d, s, i), i};
    qsort(of[s], n[s], sizeof **of, by_key);
  }
  for (uint32_t i = 0, k = 0; i < n[DIFF_A] && k < n[DIFF_B];) {
    const struct keyed *a = &of[DIFF_A][i], *b = &of[DIFF_B][k];
    if (a->key == b->key && same_function(d, a->id, b->id)) {
      d->functions[DIFF_A][a->id] = b->id;
      d->functions[DIFF_B][b->id] = a->id;
      i++, k++;
    } else if (a->key <= b->key) {
      i++;
    } else {
      k++;
    }
  }
}

static void match_bodies(struct diff *d) {
  for (uint32_t i = 0; i < d->m[DIFF_A]->n_functions; i++)
    if (d->functions[DIFF_A][i] != NO_ID)
      diff_match_graphs(d, d->m[DIFF_A]->functions[i].graph,
                        d->m[DIFF_B]->functions[d->functions[DIFF_A][i]].graph);
}

// ---- bodies and tensors of twins ---------------------------------------------------------------

static bool holds(const struct model *m, const struct model_attr *a, enum attr_type one,
                  enum attr_type many) {
  return (a->type == one || a->type == many ||
          (one == ATTR_TENSOR && model_attr_is_constant(m, a))) &&
         a->first != NO_ID;
}

static bool both_hold(const struct diff *d, const struct model_attr *a, const struct model_attr *b,
                      enum attr_type one, enum attr_type many) {
  return holds(d->m[DIFF_A], a, one, many) && holds(d->m[DIFF_B], b, one, many);
}

static void pair_sparse(struct diff *d, uint32_t a, uint32_t b) {
  const struct model_sparse *x = &d->m[DIFF_A]->sparses[a], *y = &d->m[DIFF_B]->sparses[b];
  d->sparses[a] = b;
  if (x->values != NO_ID && y->values != NO_ID) diff_pair_tensors(d, x->values, y->values);
  if (x->indices != NO_ID && y->indices != NO_ID) diff_pair_tensors(d, x->indices, y->indices);
}

static void pair_tensors_of(struct diff *d, const struct model_attr *a,
                            const struct model_attr *b) {
  const bool constant = model_attr_is_constant(d->m[DIFF_A], a);
  const uint32_t both = a->count < b->count ? a->count : b->count;
  d->steps += both + 1u;
  if (both_hold(d, a, b, ATTR_TENSOR, ATTR_TENSORS))
    for (uint32_t k = 0; k < (constant ? 1 : both); k++)
      if (d->tensors[DIFF_A][a->first + k] == NO_ID && d->tensors[DIFF_B][b->first + k] == NO_ID)
        diff_pair_tensors(d, a->first + k, b->first + k);
  if (both_hold(d, a, b, ATTR_SPARSE_TENSOR, ATTR_SPARSE_TENSORS))
    for (uint32_t k = 0; k < both; k++)
      pair_sparse(d, a->first + k, b->first + k);
}

static void pair_attrs(struct diff *d, uint32_t node, uint32_t twin, bool bodies) {
  const struct model_node *x = &d->m[DIFF_A]->nodes[node], *y = &d->m[DIFF_B]->nodes[twin];
  uint32_t *of[DIFF_SIDES];
  diff_attrs_pair(d, (struct diff_attrs[]){{x->attrs, x->n_attrs}, {y->attrs, y->n_attrs}}, of);
  for (uint32_t i = 0; i < x->n_attrs; i++) {
    if (of[DIFF_A][i] == NO_ID) continue;
    const struct model_attr *a = &d->m[DIFF_A]->attrs[x->attrs + i],
                            *b = &d->m[DIFF_B]->attrs[of[DIFF_A][i]];
    for (uint32_t k = 0;
         k < a->count && k < b->count && bodies && both_hold(d, a, b, ATTR_GRAPH, ATTR_GRAPHS); k++)
      diff_match_graphs(d, a->first + k, b->first + k);
    pair_tensors_of(d, a, b);
  }
}

static void pair_defaults(struct diff *d, uint32_t function) {
  const struct model_function *f = &d->m[DIFF_A]->functions[function],
                              *g = &d->m[DIFF_B]->functions[d->functions[DIFF_A][function]];
  uint32_t *of[DIFF_SIDES];
  diff_attrs_pair(d, (struct diff_attrs[]){{f->attrs, f->n_attrs}, {g->attrs, g->n_attrs}}, of);
  for (uint32_t i = 0; i < f->n_attrs; i++)
    if (of[DIFF_A][i] != NO_ID)
      pair_tensors_of(d, &d->m[DIFF_A]->attrs[f->attrs + i], &d->m[DIFF_B]->attrs[of[DIFF_A][i]]);
}

// A sparse initializer: its graph, as A's number it, and the name of its values, which may be those of one in another graph.
struct sparse_key {
  uint32_t graph, name, id;
};

static int by_sparse_key(const void *pa, const void *pb) {
  const struct sparse_key *a = pa, *b = pb;
  if (a->graph != b->graph) return a->graph < b->graph ? -1 : 1;
  if (a->name != b->name) return a->name < b->name ? -1 : 1;
  return (a->id > b->id) - (a->id < b->id);
}

static struct sparse_key *sparse_keys(struct diff *d, uint32_t side, uint32_t *n) {
  const struct model *m = d->m[side];
  struct sparse_key *list = arena_alloc(&d->arena, (m->n_sparses + (size_t)1) * sizeof *list);
  *n = 0;
  for (uint32_t i = 0; i < m->n_sparses; i++) {
    const uint32_t values = m->sparses[i].values;
    if (values == NO_ID || m->tensors[values].home != HOME_SPARSE_INITIALIZER) continue;
    const uint32_t graph = m->tensors[values].graph, twin = d->graphs[side][graph];
    if (twin == NO_ID) continue;
    list[(*n)++] = (struct sparse_key){side == DIFF_A ? graph : twin,
                                       diff_name(d, side, m->tensors[values].name), i};
  }
  if (*n) qsort(list, *n, sizeof *list, by_sparse_key);
  d->steps += m->n_sparses;
  return list;
}

static void match_sparse(struct diff *d) {
  uint32_t n[DIFF_SIDES];
  const struct sparse_key *a = sparse_keys(d, DIFF_A, &n[DIFF_A]),
                          *b = sparse_keys(d, DIFF_B, &n[DIFF_B]);
  for (uint32_t i = 0, k = 0; i < n[DIFF_A] && k < n[DIFF_B];) {
    if (a[i].graph == b[k].graph && a[i].name == b[k].name) {
      pair_sparse(d, a[i++].id, b[k++].id);
      continue;
    }
    const bool less = a[i].graph != b[k].graph ? a[i].graph < b[k].graph : a[i].name < b[k].name;
    *(less ? &i : &k) += 1;
  }
}

// ---- the whole ---------------------------------------------------------------------------------

static void begin(struct diff *d) {
  number_names(d);
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    d->nodes[s] = nobody(d, d->m[s]->n_nodes);
    d->values[s] = nobody(d, d->m[s]->n_values);
    d->graphs[s] = nobody(d, d->m[s]->n_graphs);
    d->tensors[s] = nobody(d, d->m[s]->n_tensors);
    d->functions[s] = nobody(d, d->m[s]->n_functions);
  }
  d->sparses = nobody(d, d->m[DIFF_A]->n_sparses);
  d->node_by = arena_zalloc(&d->arena, d->m[DIFF_A]->n_nodes + (size_t)1);
}

// What hangs on no graph that is paired by now.
static void pair_rest(struct diff *d) {
  match_sparse(d);
  for (uint32_t f = 0; f < d->m[DIFF_A]->n_functions; f++)
    if (d->functions[DIFF_A][f] != NO_ID) pair_defaults(d, f);
}

void diff_match(struct diff *d) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  begin(d);
  d->scratch = diff_match_scratch(d);
  if (a->main_graph != NO_ID && b->main_graph != NO_ID)
    diff_match_graphs(d, a->main_graph, b->main_graph);
  match_functions(d);
  match_bodies(d);
  for (uint32_t i = 0; i < a->n_trainings && i < b->n_trainings; i++) {
    const struct model_training *x = &a->trainings[i], *y = &b->trainings[i];
    if (x->initialization != NO_ID && y->initialization != NO_ID)
      diff_match_graphs(d, x->initialization, y->initialization);
    if (x->algorithm != NO_ID && y->algorithm != NO_ID)
      diff_match_graphs(d, x->algorithm, y->algorithm);
  }
  // Graphs of bodies come after those that hold them, but nodes of a graph may come later than
  // the nodes of its bodies: a turn for each depth.
  for (uint32_t depth = 0, more = 1; more; depth++) {
    more = 0;
    for (uint32_t g = 0; g < a->n_graphs; g++) {
      if (a->graphs[g].depth > depth) more = 1;
      if (a->graphs[g].depth != depth || d->graphs[DIFF_A][g] == NO_ID) continue;
      for (uint32_t n = a->graphs[g].first_node; n != NO_ID; n = a->nodes[n].next)
        if (d->nodes[DIFF_A][n] != NO_ID) pair_attrs(d, n, d->nodes[DIFF_A][n], true);
    }
    d->steps += a->n_graphs;
  }
  pair_rest(d);
  diff_match_scratch_done(d->scratch);
  d->scratch = NULL;
}

static void take(uint32_t *const both[DIFF_SIDES], const uint32_t *of, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    both[DIFF_A][i] = of[i];
    if (of[i] != NO_ID) both[DIFF_B][of[i]] = i;
  }
}

void diff_take(struct diff *d, const struct diff_twins *t) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  begin(d);
  take(d->graphs, t->graphs, a->n_graphs);
  take(d->nodes, t->nodes, a->n_nodes);
  take(d->values, t->values, a->n_values);
  match_functions(d);
  for (uint32_t i = 0; i < a->n_values; i++) {
    const uint32_t x = a->values[i].flags & VALUE_DEAD ? NO_ID : diff_value_tensor(a, i);
    const uint32_t y = d->values[DIFF_A][i] == NO_ID ? NO_ID : diff_value_tensor(b, t->values[i]);
    if (x != NO_ID && y != NO_ID) diff_pair_tensors(d, x, y);
  }
  for (uint32_t i = 0; i < a->n_nodes; i++)
    if (t->nodes[i] != NO_ID) pair_attrs(d, i, t->nodes[i], false);
  pair_rest(d);
}

void diff_done(struct diff *d) {
  TABLES_FREE(d, details, changes, lines);
  arena_free(&d->arena);
}
