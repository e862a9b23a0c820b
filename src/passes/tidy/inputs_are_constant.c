// inputs-are-constant: initializers that are inputs of the model too are taken off the list of inputs.
//
//   input x, input w;  initializer w          input x;  initializer w
//   y = MatMul(x, w)                    ──▶   y = MatMul(x, w)
//
// From IR version 4 on such an initializer is only the default of an input: a caller may pass another
// tensor, so no pass may count on its elements. Old exporters list every initializer as an input and
// nobody ever passes one. Whoever knows that says so with this pass, and those behind it see
// constants. Below IR version 4 they are constants anyway, and nothing is changed.
#include "passes/kit/kit.h"
#include "passes/kit/weights.h"
#include "passes/tidy/inside/tidy.h"

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  (void)with;
  kit_init(&k, env, env->pass->name);
  const struct model *m = k.m;
  const struct model_graph *g = &m->graphs[m->main_graph];
  // Backwards, so that little has to move up for an input that goes.
  for (uint32_t i = m->ir_version < WEIGHTS_FREE_IR ? 0 : g->n_inputs; i-- > 0;) {
    const uint32_t value = m->graph_io[g->inputs + i];
    const struct model_value *v = &m->values[value];
    if (v->kind != VALUE_INITIALIZER || !(v->flags & VALUE_IS_INPUT)) continue;
    kit_site(&k, NO_ID, "no_input");
    kit_report(&k, &(struct kit_report){.node = NO_ID, .reason = "no_input", .weight = value + 1});
    edit_remove_graph_input(k.e, value);
  }
  return kit_done(&k, err);
}

const struct pass tidy_inputs_are_constant = {
    .name = "inputs-are-constant",
    .keys = "cleanup remove-initializers-from-inputs",
    .classes = "RemoveInitializersFromInputs",
    .summary = "remove initializers from the list of inputs",
    .about = "Callers may override an initializer that the model also lists as an input (IR "
             "version 4 and later), so other passes do not change it. This pass removes the "
             "initializer from the list of inputs: it is then a constant for later passes and for "
             "callers.",
    .needs = "that no caller passes any of these inputs: runtimes refuse inputs that the model "
             "does not list",
    .promises = "no change for callers that pass only the other inputs",
    .exactness = EXACTNESS_EXACT,
    .run = run,
};
