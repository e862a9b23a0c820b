// integer_activations: what onnx_shrink_ray 0.0.11 makes of quantize_dynamic and of the model that comes out.
//
//   quantize_dynamic(EnableSubgraph, DefaultTensorType)  ─▶  Cast without `to`: float32  ─▶  declared types in between go
//
// Without compat it is the pass `dynamic` with its own choices, and nothing else is touched.
#include "passes/int8_dynamic/int8_dynamic.h"

#include "passes/int8_dynamic/inside/dynamic.h"

static void type_casts(struct kit *k) {
  struct kit_attr to;
  const struct edit_attr widest = {.name = "to", .type = ATTR_INT, .i = DTYPE_FLOAT};
  for (uint32_t g = 0; kit_graph(k, &g); g++)
    for (uint32_t n = k->m->graphs[g].first_node; n != NO_ID; n = k->m->nodes[n].next)
      if (kit_op(k, n) == OP_Cast && kit_attr(k, n, "to", &to) == KIT_ABSENT) {
        kit_site(k, n, "untyped");
        edit_set_attr(k->e, n, &widest);
      }
}

// Those of inputs and outputs stay (edit_retype_value).
static void drop_declarations(struct kit *k) {
  const struct model *m = k->m;
  kit_site(k, NO_ID, "declarations");
  for (uint32_t i = 0; i < m->n_infos; i++) {
    const struct model_info *x = &m->infos[i];
    if (x->flags & INFO_DEAD || x->value == NO_ID || m->values[x->value].flags & VALUE_DEAD ||
        m->values[x->value].flags & VALUE_IS_INPUT || m->values[x->value].n_graph_outputs > 0)
      continue;
    edit_retype_value(k->e, x->value, DTYPE_UNDEFINED, NULL, NO_ID);
  }
}

static int tidy_up(struct pass_env *env, struct err *err) {
  struct kit k;
  kit_init(&k, env, "dynamic");
  type_casts(&k);
  drop_declarations(&k);
  return kit_done(&k, err);
}

int int8_dynamic_activations(struct pass_env *env, const struct int8_dynamic_asked *asked,
                             struct err *err) {
  struct dynamic_options o = {.compat = asked->compat,
                              .weight_type = asked->is_unsigned,
                              .op_types = asked->compat ? DYNAMIC_THEIR_OPS : DYNAMIC_OWN_OPS,
                              .form = asked->compat ? DYNAMIC_INTEGER : DYNAMIC_FUSED,
                              .per_channel = asked->per_channel,
                              .enable_subgraph = true,
                              .default_type = DTYPE_FLOAT};
  o.nodes.exclude = *asked->exclude;
  if (dynamic_run(env, &o, err)) return -1;
  return asked->compat ? tidy_up(env, err) : 0;
}
