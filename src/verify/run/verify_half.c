// A value is kept by nodes that have a kernel in its type:
//
//   Mul ─▶ a ─▶ Mul               as it is: Mul, in float32 ─▶ Mul, in float32
//   Mul ─▶ a' ─▶ Identity ─▶ Identity ─▶ a ─▶ Mul      Mul ─▶ Cast to float16 ─▶ Identity ─▶ Identity ─▶ Cast back ─▶ Mul
//
// Two of them: the runtime takes one that stands alone between others for float32 too. That holds without its optimizations, from
// ONNX Runtime 1.20 to 1.31. Values in bodies of functions, whose types are known to callers alone, stay as they are.
#include "verify/run/verify_half.h"

#include "calibrate/calibrate_model.h"
#include "edit/edit.h"
#include "infer/infer.h"
#include "stream/load/load.h"

struct verify_half {
  struct sources *sources;
  struct model model;
  struct recipes recipes;
  struct edits edits;
  struct calibrate_model *reduced;
};

// The type of 16 bits of an output of a node; UNDEFINED: it has another.
static enum dtype half_of(struct infer *in, uint32_t value) {
  struct infer_type t;
  if (value == NO_ID || !infer_type_of(in, value, &t) || t.kind != INFER_TENSOR)
    return DTYPE_UNDEFINED;
  return t.dtype == DTYPE_FLOAT16 || t.dtype == DTYPE_BFLOAT16 ? t.dtype : DTYPE_UNDEFINED;
}

enum dtype verify_half_computed(const struct model *m, struct infer *in) {
  enum dtype found = DTYPE_UNDEFINED;
  for (uint32_t i = 0; i < m->n_nodes && found != DTYPE_FLOAT16; i++) {
    const struct model_node *n = &m->nodes[i];
    if (n->flags & NODE_DEAD || model_op_is(m, i, "Cast") || model_op_is(m, i, "Constant"))
      continue;
    for (uint32_t k = 0; k < n->n_out; k++) {
      const enum dtype half = half_of(in, model_output(m, n, k));
      if (half != DTYPE_UNDEFINED) found = half;
    }
  }
  return found;
}

static const char *free_name(const struct model *m, uint32_t *next, struct arena *a) {
  for (;;) {
    const char *name = arena_printf(a, "weir_verify_unrounded_%u", (*next)++);
    if (model_find_name(m, span_str(name)) == NO_ID) return name;
  }
}

static uint32_t add_identity(struct edits *e, uint32_t graph, uint32_t before, uint32_t from,
                             struct edit_output to) {
  const struct edit_node node = {.graph = graph,
                                 .before = before,
                                 .op_type = span_str("Identity"),
                                 .in = &from,
                                 .n_in = 1,
                                 .out = &to,
                                 .n_out = 1};
  return edit_add_node(e, &node);
}

// The output of that slot goes through two nodes before anybody reads it.
static void keep_value(struct edits *e, uint32_t node, uint32_t slot, uint32_t *next,
                       struct arena *a) {
  const struct model *m = e->m;
  const uint32_t value = model_output(m, &m->nodes[node], slot), graph = m->nodes[node].graph,
                 before = m->nodes[node].next;
  const char *raw = free_name(m, next, a), *between = free_name(m, next, a);
  edit_set_output(e, node, slot, (struct edit_output){NO_ID, span_str(raw)});
  const uint32_t first = add_identity(e, graph, before, model_output(m, &m->nodes[node], slot),
                                      (struct edit_output){NO_ID, span_str(between)});
  add_identity(e, graph, before, model_output(m, &m->nodes[first], 0),
               (struct edit_output){value, span_of(NULL, 0)});
}

static void keep_values(struct verify_half *h, struct arena *a) {
  const struct model *m = &h->model;
  const struct infer_options o = {INFER_REFINE, 1, INT64_MAX, false};
  const uint32_t n_nodes = m->n_nodes;
  struct infer *in = infer_new(m, &o);
  uint32_t next = 0;
  infer_all(in, NULL);
  edit_group(&h->edits, "verify", NO_ID, "rounded");
  for (uint32_t i = 0; i < n_nodes; i++) {
    if (m->nodes[i].flags & NODE_DEAD || model_op_is(m, i, "Constant")) continue;
    for (uint32_t k = 0; k < m->nodes[i].n_out; k++) {
      const uint32_t value = model_output(m, &m->nodes[i], k);
      if (half_of(in, value) == DTYPE_UNDEFINED) continue;
      if (m->values[value].first_use != NO_ID || m->values[value].n_graph_outputs > 0)
        keep_value(&h->edits, i, k, &next, a);
    }
  }
  infer_free(in);
}

static int open_model(struct verify_half *h, const struct verify *v, const char *path,
                      bool allow_links, struct err *err) {
  struct arena a = {0};
  if (load_model_at(&h->model, &h->sources, path, allow_links, NULL, err)) return -1;
  keep_values(h, &a);
  arena_free(&a);
  const struct calibrate_model_of of = {.m = &h->model,
                                        .recipes = &h->recipes,
                                        .sources = h->sources,
                                        .memory = v->options.memory,
                                        .runtime = v->runtime,
                                        .scratch = v->scratch,
                                        .scratch_at = v->scratch_at};
  if (edits_finish(&h->edits, err) || calibrate_model_open(&h->reduced, &of, err)) return -1;
  return calibrate_model_write(h->reduced, err);
}

int verify_half_open(struct verify_half **out, struct verify *v, const char *path, bool allow_links,
                     struct err *err) {
  struct verify_half *h = arena_zalloc(&v->arena, sizeof *h);
  model_init(&h->model);
  recipes_init(&h->recipes);
  edits_init(&h->edits, &h->model, &h->recipes);
  if (open_model(h, v, path, allow_links, err)) {
    verify_half_close(h);
    return -1;
  }
  *out = h;
  return 0;
}

enum runtime_end verify_half_load(struct verify_half *h, struct runtime_model *out,
                                  struct err *err) {
  calibrate_model_begin(h->reduced);
  return calibrate_model_load(h->reduced, out, err);
}

void verify_half_close(struct verify_half *h) {
  if (!h) return;
  calibrate_model_close(h->reduced);
  edits_free(&h->edits);
  recipes_free(&h->recipes);
  model_free(&h->model);
  if (h->sources) sources_close(h->sources);
}
