// tidy/unused-nodes: nodes whose outputs nobody uses go, and then what only they used.
//
//   x ─┬─ Relu ─ Transpose ─ (nothing)        x ── Gemm ─ y
//      └─ Gemm ─ y                      ──▶
//
// Nodes stand behind what they use, so every graph is walked from its end, once: a node's users have
// gone by the time that it is looked at. Graphs inside come before those around them (a graph is
// numbered after the one it lies in), since they use values of it.
//
// A node that is used stays as it is, with all of its outputs, also those that nobody uses. So does
// one that may do something no output shows (effects.h): nobody asked for its going.
#include "passes/tidy/inside/tidy.h"

#include "passes/kit/weights.h"
#include "passes/questions/name_filter.h"
#include "passes/tidy/inside/effects.h"

struct unused_options {
  struct name_filter nodes;
  bool any_domain;
};

static bool is_unused(const struct kit *k, uint32_t node) {
  const struct model_node *n = &k->m->nodes[node];
  for (uint32_t i = 0; i < n->n_out; i++)
    if (!kit_unused(k, kit_out(k, node, i))) return false;
  return n->n_out > 0;
}

static void sweep(struct kit *k, const struct effects *x, uint32_t graph,
                  const struct unused_options *o) {
  const struct model *m = k->m;
  for (uint32_t n = m->graphs[graph].last_node, before; n != NO_ID; n = before) {
    before = m->nodes[n].prev;
    if (!is_unused(k, n)) continue;
    const char *why = name_filter_refuses(&o->nodes, model_name_str(m, m->nodes[n].name));
    if (kit_skips(k, n, why)) continue;
    if (effects_has(x, n, EFFECTS_UNKNOWN) && !o->any_domain) {
      kit_skipped(k, n, "effect");
      continue;
    }
    kit_begin(k, n, "unused");
    edit_remove_node(k->e, n);
  }
}

static int run(struct pass_env *env, void *with, struct err *err) {
  const struct unused_options *o = with;
  struct effects x = {0};
  struct kit k;
  kit_init(&k, env, env->pass->name);
  effects_find(&x, &k);
  name_filter_warn(&(const struct name_filter *){&o->nodes}, 1, env);
  for (uint32_t g = env->m->n_graphs; g-- > 0;)
    if (!(env->m->graphs[g].flags & GRAPH_DEAD) && !weights_in_training(env->m, g))
      sweep(&k, &x, g, o);
  effects_done(&x);
  return kit_done(&k, err);
}

static const struct pass_option options[] = {
    NAME_FILTER_ROWS,
    {"any-domain", PASS_FLAG, NULL, NULL,
     "also remove nodes with unknown operators\n"
     "Such operators may have side effects.",
     PASS_MEMBER(unused_options, any_domain)},
};

const struct pass tidy_unused_nodes = {
    .name = "tidy/unused-nodes",
    .keys = "cleanup remove-unused remove-unused-nodes",
    .classes = "RemoveUnusedNodes",
    .summary = "remove nodes whose outputs are not used",
    .about = "Removes every node whose outputs are not used, then the nodes that only removed "
             "nodes used, in the main graph, in subgraphs and in functions.",
    .exactness = EXACTNESS_EXACT,
    PASS_OPTIONS(options, unused_options),
    .run = run,
    .done = name_filter_done,
};
