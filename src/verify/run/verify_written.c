// Emission writes nodes in the order of their list and keeps names, so the two models are walked side by side:
//
//   edited    n3 ─ n70 ─ n71 ─ n5 (If: then n9, else n10)
//   written   n0 ─ n1  ─ n2  ─ n3 (If: then n4, else n5)
//
// Graphs wait in a list until their turn comes: bodies are found at the attributes of nodes that match.
#include "verify/run/verify_written.h"

#include "stream/load/load.h"

#include <stdlib.h>

struct pair {
  uint32_t a, b; // graphs
};

struct matching {
  const struct model *a, *b;
  struct verify_written *w;
  TABLE(struct pair, graphs);
};

static bool same_name(const struct matching *x, uint32_t a, uint32_t b) {
  const struct span s = model_name(x->a, a), t = model_name(x->b, b);
  return s.n == t.n && (s.n == 0 || memcmp(s.at, t.at, s.n) == 0);
}

static bool same_value(const struct matching *x, uint32_t a, uint32_t b) {
  if (a == NO_ID || b == NO_ID) return a == b;
  return same_name(x, x->a->values[a].name, x->b->values[b].name);
}

static void meet_graph(struct matching *x, uint32_t a, uint32_t b) {
  *TABLE_PUSH(x, graphs) = (struct pair){a, b};
  x->w->graph_of[a] = b;
}

static bool is_graph(const struct model_attr *t) {
  return !(t->flags & ATTR_DEAD) && (t->type == ATTR_GRAPH || t->type == ATTR_GRAPHS) &&
         t->first != NO_ID;
}

// Bodies of a pair of nodes, by the names of their attributes.
static bool meet_bodies(struct matching *x, uint32_t a, uint32_t b) {
  const struct model_node *n = &x->a->nodes[a];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *t = &x->a->attrs[n->attrs + i];
    if (!is_graph(t)) continue;
    const struct model_attr *u = model_attr_named(x->b, b, model_name_str(x->a, t->name));
    if (!u || !is_graph(u) || u->count != t->count) return false;
    for (uint32_t k = 0; k < t->count; k++)
      meet_graph(x, t->first + k, u->first + k);
  }
  return true;
}

static bool meet_nodes(struct matching *x, uint32_t a, uint32_t b) {
  const struct model_node *n = &x->a->nodes[a], *o = &x->b->nodes[b];
  if (!same_name(x, n->op_type, o->op_type) || n->n_in != o->n_in || n->n_out != o->n_out)
    return false;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (!same_value(x, model_input(x->a, n, i), model_input(x->b, o, i))) return false;
  for (uint32_t i = 0; i < n->n_out; i++)
    if (!same_value(x, model_output(x->a, n, i), model_output(x->b, o, i))) return false;
  x->w->node_of[a] = b;
  return meet_bodies(x, a, b);
}

static int match_graph(struct matching *x, struct pair g, struct err *err) {
  uint32_t a = x->a->graphs[g.a].first_node, b = x->b->graphs[g.b].first_node;
  for (; a != NO_ID && b != NO_ID; a = x->a->nodes[a].next, b = x->b->nodes[b].next)
    if (!meet_nodes(x, a, b))
      return err_set(
          err, ERR_FAIL, "'%s' is not the model after the edits: it has %s where they have %s",
          quote_path(x->b->path).s, model_node_words(x->b, b).s, model_node_words(x->a, a).s);
  if (a == b) return 0;
  return err_set(err, ERR_FAIL, "'%s' is not the model after the edits: %s %s",
                 quote_path(x->b->path).s,
                 a != NO_ID ? model_node_words(x->a, a).s : model_node_words(x->b, b).s,
                 a != NO_ID ? "is missing in it" : "is unexpected");
}

// A function by its three names, as b numbers names.
struct called {
  uint32_t name[3];
  uint32_t function;
};

static int by_names(const void *pa, const void *pb) {
  const struct called *a = pa, *b = pb;
  for (uint32_t i = 0; i < 3; i++)
    if (a->name[i] != b->name[i]) return a->name[i] < b->name[i] ? -1 : 1;
  return 0;
}

// NO_ID: a name that b does not have.
static struct called called(const struct matching *x, const struct model *m, uint32_t function) {
  const struct model_function *f = &m->functions[function];
  const uint32_t name[3] = {f->name, f->domain, f->overload};
  struct called c = {.function = function};
  for (uint32_t i = 0; i < 3; i++)
    c.name[i] = m == x->b ? name[i] : model_find_name(x->b, model_name(m, name[i]));
  return c;
}

static void match_functions(struct matching *x) {
  const uint32_t n = x->b->n_functions;
  struct called *theirs = arena_alloc(&x->w->arena, (n + (size_t)1) * sizeof *theirs);
  for (uint32_t i = 0; i < n; i++)
    theirs[i] = called(x, x->b, i);
  qsort(theirs, n, sizeof *theirs, by_names);
  for (uint32_t i = 0; i < x->a->n_functions; i++) {
    const struct called ours = called(x, x->a, i);
    const struct called *o = x->a->functions[i].flags & FUNCTION_DEAD
                                 ? NULL
                                 : bsearch(&ours, theirs, n, sizeof *theirs, by_names);
    if (o) meet_graph(x, x->a->functions[i].graph, x->b->functions[o->function].graph);
  }
}

// Steps of training, by their place. A missing one is a line about the model (diff.h).
static void match_trainings(struct matching *x) {
  for (uint32_t i = 0; i < x->a->n_trainings && i < x->b->n_trainings; i++) {
    const struct model_training *t = &x->a->trainings[i], *u = &x->b->trainings[i];
    if (t->initialization != NO_ID && u->initialization != NO_ID)
      meet_graph(x, t->initialization, u->initialization);
    if (t->algorithm != NO_ID && u->algorithm != NO_ID) meet_graph(x, t->algorithm, u->algorithm);
  }
}

static void match_values(struct matching *x) {
  for (uint32_t i = 0; i < x->a->n_values; i++) {
    const struct model_value *v = &x->a->values[i];
    if (v->flags & VALUE_DEAD || x->w->graph_of[v->graph] == NO_ID) continue;
    const uint32_t name = model_find_name(x->b, model_name(x->a, v->name));
    if (name != NO_ID) x->w->value_of[i] = model_value_in(x->b, x->w->graph_of[v->graph], name);
  }
}

static uint32_t *map_of(struct arena *a, uint32_t n) {
  uint32_t *map = arena_alloc(a, (n + (size_t)1) * sizeof *map);
  memset(map, 0xff, (n + (size_t)1) * sizeof *map);
  return map;
}

int verify_written_open(struct verify_written *w, const char *path, bool allow_links,
                        const struct model *edited, struct err *err) {
  *w = (struct verify_written){.sources = NULL};
  model_init(&w->model);
  recipes_init(&w->recipes);
  if (load_model_at(&w->model, &w->sources, path, allow_links, NULL, err)) return -1;
  struct matching x = {.a = edited, .b = &w->model, .w = w};
  w->graph_of = map_of(&w->arena, edited->n_graphs);
  w->node_of = map_of(&w->arena, edited->n_nodes);
  w->value_of = map_of(&w->arena, edited->n_values);
  int rc = 0;
  if (edited->main_graph != NO_ID && w->model.main_graph != NO_ID)
    meet_graph(&x, edited->main_graph, w->model.main_graph);
  match_functions(&x);
  match_trainings(&x);
  for (uint32_t i = 0; i < x.n_graphs && rc == 0; i++)
    rc = match_graph(&x, x.graphs[i], err);
  match_values(&x);
  TABLE_FREE(&x, graphs);
  return rc;
}

void verify_written_close(struct verify_written *w) {
  recipes_free(&w->recipes);
  model_free(&w->model);
  if (w->sources) sources_close(w->sources);
  arena_free(&w->arena);
}

// ---- a site ------------------------------------------------------------------------------------

static bool map_pairs(const struct verify_written *w, int side, const struct site_pair *of,
                      uint32_t n, struct arena *a, const struct site_pair **out) {
  struct site_pair *list = arena_alloc(a, (n + (size_t)1) * sizeof *list);
  for (uint32_t i = 0; i < n; i++) {
    list[i] = of[i];
    uint32_t *value = side ? &list[i].after : &list[i].before;
    if (*value != NO_ID && (*value = w->value_of[*value]) == NO_ID) return false;
  }
  *out = list;
  return true;
}

static bool map_constants(const struct verify_written *w, const struct model_constant *of,
                          uint32_t n, struct arena *a, const struct model_constant **out) {
  struct model_constant *list = arena_alloc(a, (n + (size_t)1) * sizeof *list);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t value = w->value_of[of[i].value];
    if (value == NO_ID || !model_resolve_constant(&w->model, value, &list[i])) return false;
    list[i].value = value;
  }
  *out = list;
  return true;
}

bool verify_written_site(const struct verify_written *w, int side, const struct site *s,
                         struct arena *a, struct site *out) {
  const uint32_t n = side ? s->n_after : s->n_before, *of = side ? s->after : s->before;
  uint32_t *nodes = arena_alloc(a, (n + (size_t)1) * sizeof *nodes);
  const struct site copy = *s;
  *out = copy;
  for (uint32_t i = 0; i < n; i++)
    if ((nodes[i] = w->node_of[of[i]]) == NO_ID) return false;
  *(side ? &out->after : &out->before) = nodes;
  return map_pairs(w, side, copy.inputs, copy.n_inputs, a, &out->inputs) &&
         map_pairs(w, side, copy.outputs, copy.n_outputs, a, &out->outputs) &&
         map_constants(w, copy.constants[side], copy.n_constants[side], a, &out->constants[side]);
}
