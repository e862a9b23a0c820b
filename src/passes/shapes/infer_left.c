// Which values keep their declarations, so that a runtime computes the same as before:
//
//   h = Expand(x, s)   Loop(trips, go) { sc = Relu(h) } ──▶ z      trips may be 0
//
// Without a trip ONNX Runtime makes z of the dims [0, …] and those that it knows of sc: better declarations of h or sc
// would change the shape of z. A node in a body may also be unable to run with its inputs (a branch for another rank, a Loop
// that never runs), and once their dims are declared, a runtime refuses the model. So nothing is declared for values that
// lead to the outputs of such Loops or to such nodes, in their own graphs and in the graphs around them.
#include "passes/shapes/inside/infer_left.h"

static void look_at(struct infer_leads *l, const struct model *m, struct infer *in, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  if (model_op_is(m, node, "Loop") && n->n_in >= 2 && n->n_out > n->n_in - 2 &&
      infer_may_be_idle(in, node))
    infer_leads_add_bodies(l, m, node, n->n_in - 1);
  if (m->graphs[n->graph].kind == GRAPH_SUB && infer_cannot_run(in, node))
    infer_leads_add_node(l, m, node);
}

void infer_left_find(struct infer_leads *l, const struct model *m, struct infer *in) {
  for (uint32_t node = 0; node < m->n_nodes; node++)
    if (!(m->nodes[node].flags & NODE_DEAD)) look_at(l, m, in, node);
  infer_leads_follow(l, m);
}
