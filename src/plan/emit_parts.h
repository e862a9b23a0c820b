// What emit.c and emit_tensor.c say to each other.
#ifndef WEIR_EMIT_PARTS_H
#define WEIR_EMIT_PARTS_H

#include "emit.h"
#include "onnx_fields.h"

struct emission {
  struct rope_pool *pool;
  const struct model *m;
  const struct placement *x;
  const struct emit_new *made; // rows made by edits, by graph
  const uint32_t *defaults;    // attributes that hang on no node (of functions), in file order
  uint32_t n_defaults;
};

// Must it be re-encoded: for an edit, or for what placement moves?
static inline bool emit_graph_changes(const struct emission *e, uint32_t graph) {
  return e->m->graphs[graph].flags & GRAPH_DIRTY || e->x->graph_dirty[graph];
}
static inline bool emit_node_changes(const struct emission *e, uint32_t node) {
  return e->m->nodes[node].flags & (NODE_NEW | NODE_DIRTY) || e->x->node_dirty[node];
}
static inline bool emit_attr_changes(const struct emission *e, uint32_t attr) {
  return e->m->attrs[attr].flags & (ATTR_NEW | ATTR_DIRTY) || e->x->attr_dirty[attr];
}

void emit_kept_fields(struct emission *e, struct rope *to, enum kept_of of, uint32_t id);
void emit_name(struct emission *e, struct rope *to, uint32_t field, uint32_t name);
void emit_entry(struct emission *e, struct rope *to, uint32_t field, struct span key,
                struct span value);
void emit_tensor(struct emission *e, struct rope *to, uint32_t field, uint32_t id);
void emit_sparse(struct emission *e, struct rope *to, uint32_t field, uint32_t id);
void emit_attr(struct emission *e, struct rope *to, uint32_t field, uint32_t id);
struct rope emit_graph_body(struct emission *e, uint32_t graph);

#endif
