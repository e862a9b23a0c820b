// unused-opsets: imports of operator sets that nothing needs go, of the model and of its functions.
//
// The model's are needed by nodes of its graphs, and by the domains of its functions (runtimes want those
// imported); a function's own by the nodes of its body. ai.onnx stays everywhere.
#include "passes/kit/kit.h"
#include "passes/tidy/inside/tidy.h"

// Domains that are needed, by name id, of the list of imports that was asked about last.
struct needed {
  TABLE(uint32_t, list); // 1 + the function whose list needs it last; UINT32_MAX: the model's
};

static const uint32_t MODEL = UINT32_MAX;

static void need(struct needed *x, const struct model *m, uint32_t domain, uint32_t list) {
  if (domain >= x->n_list) TABLE_ADD(x, list, m->n_name_at - x->n_list);
  x->list[domain] = list;
}

static bool goes(const struct needed *x, const struct model *m, uint32_t row, uint32_t list) {
  const uint32_t domain = m->opsets[row].domain;
  return domain != m->empty && (domain >= x->n_list || x->list[domain] != list);
}

static void say(struct kit *k, struct span domain) {
  kit_report(k, &(struct kit_report){
                    .node = NO_ID, .reason = "unused", .what = "Import", .tensor = domain});
}

static void drop_of_model(struct kit *k, const struct needed *x) {
  for (uint32_t i = k->m->n_model_opsets; i-- > 0;) {
    if (!goes(x, k->m, i, MODEL)) continue;
    const struct span domain = model_name(k->m, k->m->opsets[i].domain);
    say(k, domain);
    edit_set_opset(k->e, domain, 0);
  }
}

static void drop_of_function(struct kit *k, const struct needed *x, uint32_t function) {
  const struct model *m = k->m;
  for (uint32_t i = m->functions[function].n_opsets; i-- > 0;) {
    const uint32_t row = m->functions[function].opsets + i;
    if (!goes(x, m, row, function + 1)) continue;
    const struct span domain = model_name(m, m->opsets[row].domain);
    say(k, domain);
    edit_set_function_opset(k->e, function, domain, 0);
  }
}

// The nodes of a root graph and of those inside it, gathered by root: one walk over all nodes would need a list
// a function.
static void need_nodes(struct needed *x, struct kit *k, const uint32_t *first, const uint32_t *next,
                       uint32_t root, uint32_t list) {
  const struct model *m = k->m;
  for (uint32_t g = first[root]; g != NO_ID; g = next[g])
    for (uint32_t n = m->graphs[g].first_node; n != NO_ID; n = m->nodes[n].next)
      need(x, m, m->nodes[n].domain, list);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  struct needed x = {0};
  (void)with;
  kit_init(&k, env, env->pass->name);
  kit_site(&k, NO_ID, "unused");
  const struct model *m = k.m;
  const size_t bytes = m->n_graphs * sizeof(uint32_t);
  uint32_t *first = memset(arena_alloc(&k.site, bytes), 0xff, bytes); // graphs by their root
  uint32_t *next = arena_alloc(&k.site, bytes);
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    if (m->graphs[g].flags & GRAPH_DEAD) continue;
    const uint32_t root = model_root_graph(m, g);
    next[g] = first[root];
    first[root] = g;
  }
  for (uint32_t f = 0; f < m->n_functions; f++) {
    if (m->functions[f].flags & FUNCTION_DEAD) continue;
    need_nodes(&x, &k, first, next, m->functions[f].graph, f + 1);
    drop_of_function(&k, &x, f);
  }
  for (uint32_t f = 0; f < m->n_functions; f++)
    if (!(m->functions[f].flags & FUNCTION_DEAD)) need(&x, m, m->functions[f].domain, MODEL);
  for (uint32_t g = 0; g < m->n_graphs; g++)
    if (first[g] != NO_ID && m->graphs[g].kind != GRAPH_FUNCTION)
      need_nodes(&x, &k, first, next, g, MODEL);
  drop_of_model(&k, &x);
  TABLE_FREE(&x, list);
  return kit_done(&k, err);
}

const struct pass tidy_unused_opsets = {
    .name = "unused-opsets",
    .keys = "remove-unused remove-unused-opsets",
    .classes = "RemoveUnusedOpsets",
    .summary = "remove imports of operator sets that no node needs",
    .about = "Removes each import of an operator set that no node and no function of the model "
             "uses, and likewise from each function's own list. The import of ai.onnx is kept.",
    .exactness = EXACTNESS_EXACT,
    .run = run,
};
