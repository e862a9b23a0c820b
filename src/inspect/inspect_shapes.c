// What inference finds out of values, for who shows it.
#include "inspect/inspect_shapes.h"

struct walk {
  struct inspect_shapes *s;
  struct arena dims; // texts of one value
  bool (*tell)(void *ctx, const struct inspect_value *v);
  void *ctx;
  bool ended;
};

// Are all of them known?
static bool take_dims(struct walk *w, struct inspect_value *v) {
  const struct infer_type *t = &v->type;
  bool whole = true;
  if (!t->ranked) return t->kind != INFER_TENSOR;
  const char **dims = arena_alloc(&w->dims, (t->rank + 1u) * sizeof *dims);
  for (uint32_t d = 0; d < t->rank; d++) {
    dims[d] = arena_string(&w->dims, dims_text(infer_dims(w->s->infer), t->dims[d], &w->dims));
    whole = whole && !strchr(dims[d], '?');
  }
  v->dims = dims;
  return whole;
}

static enum infer_why why_not(const struct inspect_shapes *s, uint32_t value) {
  const enum infer_why why = infer_why(s->infer, value);
  if (why != INFER_WHY_KNOWN) return why;
  // It follows from unknown dims, or is an input that has such.
  return s->m->values[value].flags & VALUE_IS_INPUT ? INFER_WHY_NO_TYPE : INFER_WHY_INPUT;
}

static void take(struct walk *w, uint32_t value) {
  struct inspect_shapes *s = w->s;
  struct inspect_value v = {.value = value,
                            .type = {.kind = INFER_TENSOR, .dtype = DTYPE_UNDEFINED}};
  if (value == NO_ID || w->ended) return;
  infer_type_of(s->infer, value, &v.type);
  const bool whole = take_dims(w, &v), ranked = v.type.ranked || v.type.kind != INFER_TENSOR;
  const enum infer_why why = whole ? INFER_WHY_KNOWN : why_not(s, value);
  if (!whole) v.why = infer_why_code(why);
  w->ended = !w->tell(w->ctx, &v);
  arena_reset(&w->dims);
  if (w->ended) return;
  s->values++;
  *(whole ? &s->whole : ranked ? &s->ranked : &s->none) += 1;
  if (!whole) s->why[why]++;
}

void inspect_shapes_each(struct inspect_shapes *s,
                         bool (*tell)(void *ctx, const struct inspect_value *v), void *ctx) {
  const struct model *m = s->m;
  struct walk w = {.s = s, .tell = tell, .ctx = ctx};
  if (m->main_graph == NO_ID) return;
  const struct model_graph *g = &m->graphs[m->main_graph];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i];
    if (value != NO_ID && m->values[value].kind != VALUE_INITIALIZER) take(&w, value);
  }
  for (uint32_t i = 0; i < m->n_graphs; i++) {
    if ((m->graphs[i].flags & GRAPH_DEAD) || m->graphs[model_root_graph(m, i)].kind != GRAPH_MAIN)
      continue;
    for (uint32_t n = m->graphs[i].first_node; n != NO_ID; n = m->nodes[n].next)
      for (uint32_t k = 0; k < m->nodes[n].n_out; k++)
        take(&w, model_output(m, &m->nodes[n], k));
  }
  arena_free(&w.dims);
}

void inspect_shapes_init(struct inspect_shapes *s, const struct model *m) {
  const struct infer_options as_written = {INFER_REFINE, 1, INT64_MAX, false};
  *s = (struct inspect_shapes){.m = m, .infer = infer_new(m, &as_written)};
  infer_all(s->infer, NULL);
}

void inspect_shapes_done(struct inspect_shapes *s) {
  infer_free(s->infer);
}

static const char *dim_text(const struct inspect_shapes *s, dim_id e, struct arena *a) {
  return arena_string(a, dims_text(infer_dims(s->infer), e, a));
}

const char *inspect_shapes_element(const struct inspect_shapes *s, struct infer_number e,
                                   struct arena *a) {
  int64_t n;
  if (e.num == NO_ID) return "?";
  if (e.den == 1) return dim_text(s, e.num, a);
  if (dims_is_number(infer_dims(s->infer), e.num, &n))
    return arena_printf(a, "%.9g", (double)n / (double)e.den);
  return arena_printf(a, "(%s)/%s", dim_text(s, e.num, a), integer(e.den).s);
}

const char *inspect_shapes_kind(const struct infer_type *t) {
  const char *dtype = t->dtype == DTYPE_UNDEFINED ? NULL : dtype_name(t->dtype);
  return t->kind == INFER_SEQUENCE   ? "sequence"
         : t->kind == INFER_OPTIONAL ? "optional"
         : t->kind == INFER_OTHER    ? "other"
                                     : dtype;
}
