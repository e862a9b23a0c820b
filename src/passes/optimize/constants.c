// The pass optimize/constants: Constant nodes become initializers of their graph, under the same names.
//
//   c = Constant<value=float[2] {1 2}>()          c = float[2] {1 2}
//
// Nothing is read, and large ones may then lie in a data file. Bodies of functions have no initializers, and
// outputs of graphs keep their nodes, as do those whose name is another value's too, around it or in a body.
#include "passes/optimize/optimize.h"

#include "passes/kit/kit.h"
#include "passes/kit/weights.h"
#include "passes/questions/name_filter.h"

static bool can_move(struct kit *k, uint32_t node, uint32_t *tensor) {
  const uint32_t value = kit_out(k, node, 0);
  return kit_op(k, node) == OP_Constant && value != NO_ID && !kit_is_output(k, value) &&
         !kit_unused(k, value) && kit_can_stand_in(k, value) && kit_constant(k, value, tensor) &&
         edit_tensor_readable(k->e, *tensor);
}

static void move(struct kit *k, uint32_t node, uint32_t tensor) {
  const uint32_t value = kit_out(k, node, 0), graph = k->m->nodes[node].graph;
  kit_begin(k, node, "constant");
  const struct span kept = kit_stem_of(k, value);
  const struct span wanted = kit_names_join(kept, "_node", &k->site);
  if (k->m->ir_version < WEIGHTS_FREE_IR) weights_free_initializers(k->e);
  edit_rename_value(k->e, value, kit_names_take(&k->names, KIT_VALUES, graph, wanted, &k->site));
  const uint32_t made =
      edit_add_tensor_for(k->e, graph, kept, edit_tensor_recipe(k->e, tensor), tensor, k->m->empty);
  edit_replace_uses(k->e, value, made);
  edit_remove_node(k->e, node);
}

static void visit(struct kit *k, uint32_t node) {
  uint32_t tensor;
  if (k->m->graphs[k->m->nodes[node].graph].kind != GRAPH_FUNCTION && can_move(k, node, &tensor))
    move(k, node, tensor);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  kit_init(&k, env, env->pass->name);
  kit_visit(&k, with, visit);
  return kit_done(&k, err);
}

const struct pass optimize_constants = {
    .name = "optimize/constants",
    .keys = "cleanup lift-constants",
    .classes = "LiftConstantsToInitializers",
    .summary = "turn Constant nodes into initializers",
    .about = "Replaces every Constant node by an initializer of its graph with the same name. "
             "Constants in functions, and those that are outputs, are left unchanged.",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = run,
};
