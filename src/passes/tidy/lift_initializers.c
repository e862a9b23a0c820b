// lift-initializers: initializers of graphs inside the main graph become initializers of the main graph.
//
//   If ── then_branch { w = float[2] {1 2};  y = Add(x, w) }        w = float[2] {1 2}
//                                                             ──▶   If ── then_branch { y = Add(x, w) }
//
// They keep their names where those are free (two branches may each have a w: the second gets a number). What
// is an input of its graph may be given by the node that runs it, and an output has to be made there: both stay. So does
// what has no elements: an operator may take that for an input that is left out (sizes beside empty scales of a Resize), and
// who looks at the body alone has to see it.
#include "passes/kit/kit.h"
#include "passes/kit/weights.h"
#include "passes/tidy/inside/tidy.h"

// Why it stays, or NULL.
static const char *obstacle(struct kit *k, uint32_t tensor) {
  const struct model_value *v = &k->m->values[k->m->tensors[tensor].owner];
  if (v->flags & VALUE_IS_INPUT) return "graph_input";
  if (v->flags & VALUE_IS_OUTPUT) return "graph_output";
  if (k->m->graphs[v->graph].flags & GRAPH_ANNOTATED) return "annotation";
  if (kit_home(k, v->graph) != k->m->main_graph) return "foreign_body";
  if (k->m->tensors[tensor].home != HOME_INITIALIZER) return "sparse";
  if (!edit_tensor_readable(k->e, tensor)) return "unreadable";
  return kit_is_empty(k, tensor) ? "empty_weight" : NULL;
}

static void lift(struct kit *k, uint32_t tensor) {
  const struct model *m = k->m;
  const uint32_t value = m->tensors[tensor].owner;
  const struct span old = model_value_name(m, value);
  const struct span name = span_of(arena_string(&k->site, old), old.n);
  const struct span aside = kit_names_join(name, "_inside", &k->site);
  if (m->ir_version < WEIGHTS_FREE_IR) weights_free_initializers(k->e);
  edit_rename_value(k->e, value,
                    kit_names_take(&k->names, KIT_VALUES, m->values[value].graph, aside, &k->site));
  const uint32_t made = edit_add_tensor_for(
      k->e, m->main_graph, kit_names_free(&k->names, KIT_VALUES, m->main_graph, name, &k->site),
      edit_tensor_recipe(k->e, tensor), tensor, m->empty);
  if (m->values[value].first_use != NO_ID) edit_replace_uses(k->e, value, made);
  edit_remove_tensor(k->e, tensor);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  (void)with;
  kit_init(&k, env, env->pass->name);
  const struct model *m = k.m;
  for (uint32_t t = 0, n = m->n_tensors; t < n; t++) {
    const struct model_tensor *tensor = &m->tensors[t];
    if (tensor->flags & TENSOR_DEAD || tensor->home == HOME_ATTRIBUTE || tensor->owner == NO_ID)
      continue;
    if (tensor->graph == m->main_graph || m->values[tensor->owner].def != t) continue;
    if (m->graphs[tensor->graph].flags & GRAPH_DEAD) continue;
    if (model_root_graph(m, tensor->graph) != m->main_graph) continue;
    struct kit_report report = {.node = NO_ID, .weight = tensor->owner + 1};
    report.reason = obstacle(&k, t);
    report.skipped = report.reason != NULL;
    if (!report.skipped) {
      report.reason = "inside";
      kit_site(&k, NO_ID, "inside");
    }
    kit_report(&k, &report);
    if (!report.skipped) lift(&k, t);
  }
  return kit_done(&k, err);
}

const struct pass tidy_lift_initializers = {
    .name = "lift-initializers",
    .keys = "cleanup lift-constants",
    .classes = "LiftSubgraphInitializersToMainGraph",
    .summary = "move initializers of subgraphs to the main graph",
    .about = "Moves each initializer of a subgraph (a branch of an If, the body of a Loop or "
             "Scan) to the main graph, where every subgraph can use it. Initializers that are "
             "inputs or outputs of their graph, and those in functions, are left unchanged.",
    .exactness = EXACTNESS_EXACT,
    .run = run,
};
