// Removing initializers. One that is an input too goes in the end with the others of its kind, from
// the last input to the first: what lies behind an input moves up when it goes, and so that is little.
#include "passes/tidy/inside/unlist.h"

void unlist_initializer(struct unlist *u, struct kit *k, uint32_t value) {
  const struct model_value *v = &k->m->values[value];
  if (!(v->flags & VALUE_IS_INPUT)) {
    edit_remove_tensor(k->e, v->def);
    return;
  }
  if (value >= u->n_marked) TABLE_ADD(u, marked, k->m->n_values - u->n_marked);
  u->marked[value] = 1;
  u->any = true;
}

void unlist_done(struct unlist *u, struct kit *k) {
  const struct model *m = k->m;
  const struct model_graph *g = &m->graphs[m->main_graph];
  for (uint32_t i = u->any ? g->n_inputs : 0; i-- > 0;) {
    const uint32_t value = m->graph_io[g->inputs + i];
    if (value >= u->n_marked || !u->marked[value]) continue;
    edit_remove_graph_input(k->e, value);
    edit_remove_tensor(k->e, m->values[value].def);
  }
  TABLE_FREE(u, marked);
}
