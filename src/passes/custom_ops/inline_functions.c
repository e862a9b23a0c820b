// The pass inline-functions/InlineFunctions: calls of the model's functions give way to their bodies (inline_body.c), those in
// the bodies too, and functions that nothing calls any more go.
//
//   graph     a = f(x) ─────▶ nodes of f ─┬─▶ nodes of f, and of g
//   function  f: … g(…) …                 │
//   function  g: …                 g(…) ──┘
//
// Calls are met from the outside in, so that whatever an attribute of a function refers to is known when its body is
// copied: the walk goes on at the first node of a body that came in. Graphs that come with one stand at the end of the
// table, where the walk meets them. Functions do not call themselves (load refuses that); how many nodes there will be is
// counted before, since f0 calling f1 twice, f1 f2 twice and so on is a short file and a long graph.
//
// Bodies become part of a graph of one opset: where versions differ, the model is raised to the newest, as the pass
// opset does. Calls in training graphs stay.
#include "passes/custom_ops/custom_ops.h"
#include "passes/custom_ops/inside/custom_ops_inside.h"
#include "passes/custom_ops/inside/inline_body.h"
#include "passes/kit/weights.h"
#include "passes/opset/opset.h"
#include "schema/schema.h"

#include <stdlib.h>

enum { MOST_NODES = 20000000 };

struct inliner {
  struct kit k;
  struct inline_body body;
  const struct name_filter *nodes;
  struct arena arena;
};

// ---- how many ----------------------------------------------------------------------------------

struct edge {
  uint32_t caller, callee; // functions
};

struct edges {
  TABLE(struct edge, list);
};

// Calls from functions; and of calls from graphs: how often each function is called.
static void gather(struct inliner *f, struct edges *e, uint64_t *called) {
  const struct model *m = f->k.m;
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    if (m->graphs[g].flags & GRAPH_DEAD || weights_in_training(m, g)) continue;
    const uint32_t caller = model_function_around(m, g);
    for (uint32_t n = m->graphs[g].first_node; n != NO_ID; n = m->nodes[n].next) {
      const uint32_t callee = inline_body_callee(&f->body, n);
      if (callee == NO_ID) continue;
      if (caller == NO_ID)
        called[callee]++;
      else
        *TABLE_PUSH(e, list) = (struct edge){caller, callee};
    }
  }
}

static int by_caller(const void *a, const void *b) {
  const struct edge *x = a, *y = b;
  return x->caller < y->caller ? -1 : x->caller > y->caller;
}

// Sorts the edges; first[f] … first[f + 1] - 1 are those of caller f.
static uint32_t *index_edges(struct inliner *f, struct edges *e) {
  const uint32_t n = f->k.m->n_functions;
  uint32_t *first = arena_zalloc(&f->arena, (n + (size_t)1) * sizeof *first);
  if (e->n_list) qsort(e->list, e->n_list, sizeof *e->list, by_caller);
  for (uint32_t i = 0, at = 0; i <= n; i++) {
    first[i] = at;
    while (at < e->n_list && e->list[at].caller == i)
      at++;
  }
  return first;
}

// Times that each function will be put in place of a call, callers before callees; then the nodes of all of them.
static uint64_t count_nodes(struct inliner *f, struct edges *e, uint64_t *times) {
  const struct model *m = f->k.m;
  const uint32_t *first = index_edges(f, e);
  uint32_t *waits = arena_zalloc(&f->arena, (m->n_functions + (size_t)1) * sizeof *waits);
  uint32_t *ready = arena_alloc(&f->arena, (m->n_functions + (size_t)1) * sizeof *ready);
  uint32_t n_ready = 0;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < e->n_list; i++)
    waits[e->list[i].callee]++;
  for (uint32_t i = 0; i < m->n_functions; i++)
    if (waits[i] == 0) ready[n_ready++] = i;
  for (uint32_t at = 0; at < n_ready; at++) {
    const uint32_t caller = ready[at];
    const struct inline_function *body = &f->body.functions[caller];
    if (body->why) times[caller] = 0;
    sum = min_u64(sum + times[caller] * (uint64_t)body->nodes, UINT32_MAX);
    for (uint32_t i = first[caller]; i < first[caller + 1]; i++) {
      const uint32_t callee = e->list[i].callee;
      times[callee] = min_u64(times[callee] + times[caller], MOST_NODES);
      if (--waits[callee] == 0) ready[n_ready++] = callee;
    }
  }
  return sum;
}

static int check_count(struct inliner *f, uint64_t nodes, struct err *err) {
  (void)f;
  if (nodes <= MOST_NODES) return 0;
  err_fill(err, ERR_FAIL, "inlining all functions would create more than %d nodes", MOST_NODES);
  return err_hint(err, "inline some of them: --pass 'inline-functions:include=PATTERN'");
}

// ---- versions ----------------------------------------------------------------------------------

// A function with the name of an operator of ONNX: runtimes take their own, whatever it says.
static const char *is_hidden(const struct model *m, uint32_t function) {
  const struct model_function *f = &m->functions[function];
  return f->domain == m->empty && f->overload == m->empty &&
                 schema_operator_of(span_str(""), model_name(m, f->name))
             ? "named_as_operator"
             : NULL;
}

// Why the function's imports cannot be those of the model; NULL: they can.
static const char *import_all(struct inliner *f, uint32_t function) {
  const struct model *m = f->k.m;
  const struct model_function of = m->functions[function];
  for (uint32_t i = 0; i < of.n_opsets; i++) {
    const struct model_opset o = m->opsets[of.opsets + i];
    const int64_t have = model_opset_version(m, m->main_graph, model_name(m, o.domain));
    if (o.version < 1) return "versions"; // there is none
    if (have == o.version || o.domain == m->empty) continue;
    if (have != 0) return "versions";
  }
  for (uint32_t i = 0; i < m->functions[function].n_opsets; i++) {
    const struct model_opset o = m->opsets[m->functions[function].opsets + i];
    const struct span domain = model_name(m, o.domain);
    if (model_opset_version(m, m->main_graph, domain) == 0)
      edit_set_opset(f->k.e, domain, o.version);
  }
  return NULL;
}

// One opset for the model and for what comes into it.
static int same_opset(struct pass_env *env, struct err *err) {
  const struct model *m = env->m;
  struct model_calls calls = {0};
  int64_t newest = model_opset_version(m, m->main_graph, span_str(""));
  bool differ = false;
  model_calls_init(&calls, m);
  bool *called = arena_zalloc(env->scratch, m->n_functions + (size_t)1);
  model_calls_called(&calls, called);
  model_calls_done(&calls);
  for (uint32_t i = 0; i < m->n_functions; i++) {
    if (!called[i] || m->functions[i].flags & FUNCTION_DEAD) continue;
    const int64_t have = model_opset_version(m, m->functions[i].graph, span_str(""));
    differ |= have != 0 && have != newest;
    if (have > newest) newest = have;
  }
  return differ ? opset_raise(env, newest, err) : 0;
}

// ---- the pass ----------------------------------------------------------------------------------

static void walk(struct inliner *f, uint32_t graph, uint32_t loaded) {
  struct kit *k = &f->k;
  k->graph = graph;
  for (uint32_t n = k->m->graphs[graph].first_node, next; n != NO_ID; n = next) {
    next = k->m->nodes[n].next;
    const uint32_t callee = inline_body_callee(&f->body, n), before = k->m->nodes[n].prev;
    if (callee == NO_ID) continue;
    const char *why = n < loaded
                          ? name_filter_refuses(f->nodes, model_name_str(k->m, k->m->nodes[n].name))
                          : NULL;
    if (!why) why = is_hidden(k->m, callee);
    if (!why) why = f->body.functions[callee].why;
    if (!why) why = import_all(f, callee);
    if (!why) why = inline_body_put(&f->body, n, callee);
    if (kit_skips(k, n, why)) continue;
    next = before == NO_ID ? k->m->graphs[graph].first_node : k->m->nodes[before].next;
  }
}

// Functions that no call reaches from a graph that is none of a function.
static void remove_functions(struct inliner *f) {
  struct kit *k = &f->k;
  const struct model *m = k->m;
  struct edges e = {0};
  bool *needed = arena_zalloc(&f->arena, m->n_functions + (size_t)1);
  uint32_t *list = arena_alloc(&f->arena, (m->n_functions + (size_t)1) * sizeof *list), n = 0;
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    if (m->graphs[g].flags & GRAPH_DEAD) continue;
    const uint32_t caller = model_function_around(m, g);
    for (uint32_t i = m->graphs[g].first_node; i != NO_ID; i = m->nodes[i].next) {
      const uint32_t callee = inline_body_callee(&f->body, i);
      if (callee == NO_ID) continue;
      if (caller != NO_ID)
        *TABLE_PUSH(&e, list) = (struct edge){caller, callee};
      else if (!needed[callee])
        needed[list[n++] = callee] = true;
    }
  }
  const uint32_t *first = index_edges(f, &e);
  for (uint32_t at = 0; at < n; at++)
    for (uint32_t i = first[list[at]]; i < first[list[at] + 1]; i++)
      if (!needed[e.list[i].callee]) needed[list[n++] = e.list[i].callee] = true;
  kit_site(k, NO_ID, "unused");
  for (uint32_t i = 0; i < m->n_functions; i++)
    if (!needed[i] && !(m->functions[i].flags & FUNCTION_DEAD)) edit_remove_function(k->e, i);
  TABLE_FREE(&e, list);
}

static int inline_all(struct inliner *f, struct err *err) {
  const struct model *m = f->k.m;
  const uint32_t loaded = m->n_nodes;
  struct edges e = {0};
  uint64_t *times = arena_zalloc(&f->arena, (m->n_functions + (size_t)1) * sizeof *times);
  inline_body_begin(&f->body, &f->k);
  gather(f, &e, times);
  const int rc = check_count(f, count_nodes(f, &e, times), err);
  TABLE_FREE(&e, list);
  for (uint32_t g = 0; rc == 0 && g < m->n_graphs; g++)
    if (!(m->graphs[g].flags & GRAPH_DEAD) && !weights_in_training(m, g) &&
        model_function_around(m, g) == NO_ID)
      walk(f, g, loaded);
  if (rc == 0) remove_functions(f);
  inline_body_done(&f->body);
  return rc;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct inliner f = {.nodes = with};
  // Operators of onnx_passes.ops have functions, even if the model does not say them.
  if (custom_ops_complete(env, 0, err)) return -1;
  if (env->m->n_functions == 0 || env->m->main_graph == NO_ID) return 0;
  if (same_opset(env, err)) return -1;
  kit_init(&f.k, env, env->pass->name);
  name_filter_warn(&f.nodes, 1, env);
  const int rc = inline_all(&f, err);
  arena_free(&f.arena);
  return kit_done(&f.k, err) || rc ? -1 : 0;
}

const struct pass custom_ops_inline = {
    .name = "inline-functions/InlineFunctions",
    .keys = "inline",
    .summary = "inline model-local functions",
    .about = "Replaces each call of a model-local function by the function's nodes, also calls "
             "inside functions, and removes functions that are no longer called. Operators of "
             "onnx_passes.ops count as calls. Constants of functions become initializers that all "
             "calls share.",
    .needs = "nothing; if a function has another opset than the model, the newer one is used",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = run,
};
