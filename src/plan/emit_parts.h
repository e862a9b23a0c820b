// The model as edited -> the bytes of its .onnx, as a rope; and what emit.c, emit_tensor.c and plan_parts.c say to each other.
#ifndef WEIR_EMIT_PARTS_H
#define WEIR_EMIT_PARTS_H

#include "model/onnx_fields.h"
#include "plan/placement.h"
#include "plan/rope.h"

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
// `field` is what the tensor's holder calls it. The second: re-encoded in any case, by another name.
void emit_tensor(struct emission *e, struct rope *to, uint32_t field, uint32_t id);
void emit_tensor_as(struct emission *e, struct rope *to, uint32_t field, uint32_t id,
                    uint32_t name);
void emit_sparse(struct emission *e, struct rope *to, uint32_t field, uint32_t id);
void emit_attr(struct emission *e, struct rope *to, uint32_t field, uint32_t id);
// As it is called in what it lies in; the second: re-encoded in any case, as another field.
void emit_node(struct emission *e, struct rope *to, uint32_t id);
void emit_node_again(struct emission *e, struct rope *to, uint32_t field, uint32_t id);
void emit_opset(struct emission *e, struct rope *to, uint32_t field, uint32_t id);
void emit_function(struct emission *e, struct rope *to, uint32_t id);
// Lists the rows made by edits, and the defaults: *e has the rest. In *a.
void emit_begin(struct emission *e, struct arena *a);
// Initializers of a graph that edits made, one after the other; NO_ID ends it.
uint32_t emit_first_made(const struct emission *e, uint32_t graph);
uint32_t emit_next_made(const struct emission *e, uint32_t tensor);
// Place in e->defaults of the first that lies at or behind `off`.
uint32_t emit_first_default(const struct emission *e, uint64_t off);
struct rope emit_graph_body(struct emission *e, uint32_t graph);

// The whole ModelProto. What no edit and no placement touched is a copy of its source bytes.
struct rope emit_model(struct rope_pool *pool, const struct model *m, const struct placement *x);

#endif
