// unused-functions: functions of the model that no node calls, directly or through others, go.
//
// What only unused functions call goes with them: what stays is what the graphs reach.
//
//   main graph ──▶ F ──▶ G          H ──▶ I
//                  stay              go
#include "model/model_calls.h"
#include "passes/kit/kit.h"
#include "passes/tidy/inside/tidy.h"

struct call {
  uint32_t callee, next; // next: of the same caller, or NO_ID
};

struct reach {
  struct model_calls by_name;
  TABLE(struct call, calls);
  uint32_t *first;   // by function id: the first call in its body, or NO_ID
  bool *reached;     // by function id
  uint32_t *todo, n; // reached functions whose calls were not followed yet
};

static void meet(struct reach *r, uint32_t function) {
  if (r->reached[function]) return;
  r->reached[function] = true;
  r->todo[r->n++] = function;
}

static void see_node(struct reach *r, const struct model *m, uint32_t node) {
  const uint32_t callee = model_calls_callee(&r->by_name, node);
  if (callee == NO_ID) return;
  const struct model_graph *root = &m->graphs[model_root_graph(m, m->nodes[node].graph)];
  if (root->kind != GRAPH_FUNCTION) {
    meet(r, callee);
    return;
  }
  const uint32_t call = TABLE_ADD(r, calls, 1);
  r->calls[call] = (struct call){callee, r->first[root->owner]};
  r->first[root->owner] = call;
}

static void find_reached(struct reach *r, struct kit *k) {
  const struct model *m = k->m;
  model_calls_init(&r->by_name, m);
  r->first = arena_alloc(&k->site, m->n_functions * sizeof *r->first);
  r->reached = arena_zalloc(&k->site, m->n_functions * sizeof *r->reached);
  r->todo = arena_alloc(&k->site, m->n_functions * sizeof *r->todo);
  memset(r->first, 0xff, m->n_functions * sizeof *r->first);
  for (uint32_t node = 0; node < m->n_nodes; node++)
    if (!(m->nodes[node].flags & NODE_DEAD)) see_node(r, m, node);
  while (r->n > 0)
    for (uint32_t c = r->first[r->todo[--r->n]]; c != NO_ID; c = r->calls[c].next)
      meet(r, r->calls[c].callee);
  model_calls_done(&r->by_name);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  struct reach r = {0};
  (void)with;
  kit_init(&k, env, env->pass->name);
  kit_site(&k, NO_ID, "unused");
  find_reached(&r, &k);
  for (uint32_t f = 0; f < k.m->n_functions; f++) {
    if (k.m->functions[f].flags & FUNCTION_DEAD || r.reached[f]) continue;
    kit_report(&k, &(struct kit_report){.node = NO_ID,
                                        .reason = "unused",
                                        .what = "Function",
                                        .tensor = model_name(k.m, k.m->functions[f].name)});
    edit_remove_function(k.e, f);
  }
  TABLE_FREE(&r, calls);
  return kit_done(&k, err);
}

const struct pass tidy_unused_functions = {
    .name = "unused-functions",
    .keys = "import-qonnx inline-qonnx remove-unused remove-unused-functions",
    .classes = "RemoveUnusedFunctions",
    .summary = "remove functions that no node calls",
    .about =
        "Removes each function of the model that no node calls. Calls inside functions count only "
        "if the function is itself called.",
    .exactness = EXACTNESS_EXACT,
    .run = run,
};
