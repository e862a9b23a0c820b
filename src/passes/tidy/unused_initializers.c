// tidy/unused-initializers: initializers and Constants that nobody uses go, in the graph, in graphs
// inside and in functions.
//
// An initializer that is an input of the graph too is a default that callers may override: taking it
// away takes an input from them, so that is done only where it is asked for. Below IR version 4 all
// initializers are listed as inputs, and it says nothing. Inputs of a body are told by their place and
// stay in any case.
//
// What the model says of training (bindings of an optimizer, say) names initializers of the main
// graph: in such a model they stay. So do those of a graph with quantization annotations, which are where
// a scale is named that no node uses, and sparse ones, which no edit removes.
#include "passes/tidy/inside/tidy.h"

#include "passes/kit/weights.h"
#include "passes/tidy/inside/unlist.h"

struct unused_options {
  bool inputs;
};

// Why an initializer that nothing uses stays, or NULL.
static const char *obstacle(const struct model *m, const struct model_tensor *t, bool inputs) {
  const bool is_input = m->values[t->owner].flags & VALUE_IS_INPUT;
  if (t->home == HOME_SPARSE_INITIALIZER) return "sparse";
  if (m->n_trainings > 0 && t->graph == m->main_graph) return "training";
  if (m->graphs[t->graph].flags & GRAPH_ANNOTATED) return "annotation";
  if (is_input && t->graph != m->main_graph) return "graph_input";
  if (is_input && m->ir_version >= WEIGHTS_FREE_IR && !inputs) return "graph_input";
  return NULL;
}

static void drop_initializers(struct kit *k, bool inputs) {
  const struct model *m = k->m;
  struct unlist gone = {0};
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (t->flags & TENSOR_DEAD || t->home == HOME_ATTRIBUTE || t->owner == NO_ID) continue;
    const struct model_value *v = &m->values[t->owner];
    if (v->kind != VALUE_INITIALIZER || v->def != i || !kit_unused(k, t->owner)) continue;
    if (weights_in_training(m, t->graph)) continue;
    struct kit_report report = {.node = NO_ID, .weight = t->owner + 1};
    report.reason = obstacle(m, t, inputs);
    report.skipped = report.reason != NULL;
    if (!report.skipped) {
      report.reason = "unused";
      kit_site(k, NO_ID, "unused");
    }
    kit_report(k, &report);
    if (!report.skipped) unlist_initializer(&gone, k, t->owner);
  }
  unlist_done(&gone, k);
}

static bool is_idle(struct kit *k, uint32_t node) {
  for (uint32_t i = 0; i < k->m->nodes[node].n_out; i++)
    if (kit_out(k, node, i) != NO_ID && !kit_unused(k, kit_out(k, node, i))) return false;
  return true;
}

static void drop_constants(struct kit *k, uint32_t graph) {
  for (uint32_t n = k->m->graphs[graph].first_node, next; n != NO_ID; n = next) {
    next = k->m->nodes[n].next;
    if (kit_op(k, n) != OP_Constant || !is_idle(k, n)) continue;
    kit_begin(k, n, "unused");
    edit_remove_node(k->e, n);
  }
}

static int run(struct pass_env *env, void *with, struct err *err) {
  const struct unused_options *o = with;
  struct kit k;
  kit_init(&k, env, env->pass->name);
  drop_initializers(&k, o->inputs);
  for (uint32_t g = 0; kit_graph(&k, &g); g++)
    drop_constants(&k, g);
  return kit_done(&k, err);
}

static const struct pass_option options[] = {
    {"inputs", PASS_FLAG, NULL, NULL,
     "also remove unused initializers that are inputs\n"
     "The graph input is removed too. Callers may override such initializers.",
     PASS_MEMBER(unused_options, inputs)},
};

const struct pass tidy_unused_initializers = {
    .name = "tidy/unused-initializers",
    .keys = "cleanup remove-unused remove-unused-nodes",
    .summary = "remove unused initializers and Constants",
    .about = "Removes every initializer and every Constant that no node uses and that is not an "
             "output, in the main graph, in subgraphs and in functions.",
    .exactness = EXACTNESS_EXACT,
    PASS_OPTIONS(options, unused_options),
    .run = run,
};
