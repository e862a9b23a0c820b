// What whole models are given: arrays of the user's, each checked against the model's inputs, or drawn ones, for the source, or for
// the result where that takes fewer sizes.
#include "verify/models/verify_models.h"

#include <string.h>

struct infer *verify_cases_inferred(const struct model *m) {
  const struct infer_options o = {INFER_REFINE, 1, INT64_MAX, false};
  struct infer *in = infer_new(m, &o);
  infer_all(in, NULL);
  return in;
}

// Is every input declared alike in both models?
static bool same_inputs(const struct verify_run *r) {
  const struct model *a = &r->side[0].model, *b = &r->side[1].model;
  const struct model_graph *g = &a->graphs[a->main_graph];
  struct model_type t, u;
  if (b->main_graph == NO_ID) return true;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = a->graph_io[g->inputs + i];
    const uint32_t name = model_find_name(b, model_value_name(a, value));
    const uint32_t other = name == NO_ID ? NO_ID : model_value_in(b, b->main_graph, name);
    if (other == NO_ID || !model_types_get(NULL, a, value, &t) ||
        !model_types_get(NULL, b, other, &u) || t.ranked != u.ranked ||
        (t.ranked && t.rank != u.rank))
      return false;
    for (uint32_t k = 0; t.ranked && k < t.rank; k++)
      if (model_type_dim(a, &t, k).value != model_type_dim(b, &u, k).value) return false;
  }
  return true;
}

// Of the source. Where the result cannot have what fits it (dims were set), what fits the result.
static int open_draw(struct verify_run *r, const struct draw_options *o, struct draw **out,
                     struct err *err) {
  struct draw *both[2] = {NULL, NULL};
  const struct model *const m[2] = {&r->side[0].model, &r->side[1].model};
  struct err why = {0};
  if (!r->side[1].path || same_inputs(r)) return draw_open(out, r->infer, m[0], o, err);
  if (!r->infer_result) r->infer_result = verify_cases_inferred(m[1]);
  struct infer *const in[2] = {r->infer, r->infer_result};
  if (!draw_open_alike(both, in, m, 0, o, &r->v->arena, &why) &&
      (why.kind != ERR_NONE || !draw_open_alike(both, in, m, 1, o, &r->v->arena, &why)))
    return draw_open(out, r->infer, m[0], o, err);
  draw_close(both[1]);
  *out = both[0];
  return 0;
}

// A row alone does not show what a ReLU makes zero for it: sixteen, or as many as weights of 4 GiB are read for, two at least; and
// fewer where inputs are large. onnx-conv2matmul has one, and its figures are compared.
enum { ROWS_MOST = 16, ROWS_LEAST = 2, INPUT_ELEMENTS = 4 << 20 };
#define ROWS_WEIGHT_BYTES ((uint64_t)4 << 30)

static int64_t rows_of(const struct verify_run *r) {
  const struct model *m = &r->side[0].model;
  uint64_t bytes = 1;
  if (r->v->options.finite || r->v->options.layers) return 0; // layers: all values are outputs
  for (uint32_t i = 0; i < m->n_tensors; i++)
    bytes += m->tensors[i].bytes;
  const uint64_t rows = ROWS_WEIGHT_BYTES / bytes;
  return rows > ROWS_MOST ? ROWS_MOST : rows < ROWS_LEAST ? ROWS_LEAST : (int64_t)rows;
}

static uint64_t elements_of(const struct draw *d, struct arena *a) {
  struct draw_shape *shapes;
  const uint32_t n = draw_shapes(d, a, &shapes);
  uint64_t all = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t count = 1;
    for (uint32_t k = 0; k < shapes[i].rank; k++)
      count *= (uint64_t)shapes[i].dims[k];
    all += count;
  }
  return all;
}

// Numbers that both sides hold: what is drawn differs in nothing but what nodes make of it.
static void settle_drawn(struct verify_run *r, struct arrays *inputs) {
  const struct model *b = &r->side[1].model;
  struct model_type t;
  for (uint32_t i = 0; r->side[1].path && i < inputs->n; i++) {
    struct array *x = &inputs->list[i], there, back;
    const uint32_t name = model_find_name(b, span_str(x->name));
    const uint32_t value = name == NO_ID ? NO_ID : model_value_in(b, b->main_graph, name);
    if (value == NO_ID || !model_types_get(NULL, b, value, &t) || t.dtype == x->dtype ||
        !dtype_is_float((enum dtype)t.dtype) || !dtype_is_float(x->dtype))
      continue;
    if (draw_retype(x, (enum dtype)t.dtype, &r->v->arena, &there) &&
        draw_retype(&there, x->dtype, &r->v->arena, &back))
      *x = back;
  }
}

static int draw_case(struct verify_run *r, int64_t length, struct array_case *out,
                     struct err *err) {
  struct verify *v = r->v;
  struct draw_options o = {.seed = v->options.seed,
                           .length = length,
                           .batch = rows_of(r),
                           .shapes = v->options.shapes,
                           .n_shapes = v->options.n_shapes,
                           .signal = v->options.compatible.signal,
                           .lengths = v->options.compatible.length,
                           .channels = v->options.compatible.channels};
  struct draw *d;
  char why[256];
  if (open_draw(r, &o, &d, err)) return -1;
  const uint64_t elements = elements_of(d, &v->arena);
  if (o.batch > ROWS_LEAST && elements > INPUT_ELEMENTS) {
    const int64_t fewer = o.batch * INPUT_ELEMENTS / (int64_t)elements;
    o.batch = fewer > ROWS_LEAST ? fewer : ROWS_LEAST;
    draw_close(d);
    if (open_draw(r, &o, &d, err)) return -1;
  }
  const char *sizes = draw_words(d, &v->found.arena);
  if (!v->found.drawn.sizes)
    v->found.drawn.sizes = sizes;
  else if (!strstr(v->found.drawn.sizes, sizes))
    v->found.drawn.sizes = arena_printf(&v->found.arena, "%s; %s", v->found.drawn.sizes, sizes);
  out->name = length ? arena_printf(&v->found.arena, "length %s", integer(length).s) : "drawn";
  const enum draw_end end = draw_inputs(d, &v->arena, &out->inputs, why);
  draw_close(d);
  if (end == DRAW_DONE) {
    settle_drawn(r, &out->inputs);
    return 0;
  }
  r->undrawn[out - r->cases] =
      arena_printf(&v->found.arena, "no inputs can be drawn: %s; give them with %s", why,
                   v->options.names.inputs);
  return 0;
}

// An input of the model by name, or by place where the file has no names. An initializer that callers may override is one by its
// name: without an array it keeps its own elements.
static uint32_t input_at(const struct model *m, const struct array *x, uint32_t place) {
  const struct model_graph *g = &m->graphs[m->main_graph];
  uint32_t k = 0;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i];
    const bool initializer = m->values[value].kind == VALUE_INITIALIZER;
    if (initializer && (!*x->name || m->ir_version < 4)) continue;
    if (*x->name ? span_is(model_value_name(m, value), x->name) : k == place) return value;
    k += !initializer;
  }
  return NO_ID;
}

// Elements as the model declares its input, where one is a float type and the other another: a cast model takes what it was
// made to take. *to stays in memory of *a.
int verify_cases_cast(const struct array *x, enum dtype dtype, struct arena *a, struct array *to,
                      struct err *err) {
  struct array whole = *x;
  *to = *x;
  if (x->kind != ARRAY_TENSOR || dtype == x->dtype || !dtype_is_float(dtype) ||
      !dtype_is_float(x->dtype))
    return 0;
  if (array_load(x, a, &whole.at, err)) return -1;
  draw_retype(&whole, dtype, a, to);
  return 0;
}

static int check_given(const struct verify_run *r, const struct array_case *c,
                       const struct array *x, uint32_t value, struct err *err) {
  struct infer_type t;
  const char *file = c->name;
  const struct quoted name = quote(model_value_name(&r->side[0].model, value));
  if (!infer_type_of(r->infer, value, &t) || t.kind != INFER_TENSOR || x->kind != ARRAY_TENSOR)
    return 0;
  if (t.dtype != DTYPE_UNDEFINED && t.dtype != x->dtype)
    return err_set(err, ERR_USAGE, "'%s': input '%s' is %s there, but the model takes %s",
                   quote_str(file).s, name.s, dtype_name(x->dtype), dtype_name(t.dtype));
  if (t.ranked && t.rank != x->rank)
    return err_set(err, ERR_USAGE,
                   "'%s': input '%s' has %u dims there (%s), but the model takes %u",
                   quote_str(file).s, name.s, x->rank, array_words(x).s, t.rank);
  for (uint32_t i = 0; t.ranked && i < t.rank; i++) {
    int64_t n;
    if (t.dims[i] != NO_ID && dims_value(infer_dims(r->infer), t.dims[i], NULL, 0, &n) &&
        n != x->dims[i])
      return err_set(err, ERR_USAGE,
                     "'%s': dim %u of input '%s' is %s there, but the model takes %s",
                     quote_str(file).s, i, name.s, integer(x->dims[i]).s, integer(n).s);
  }
  return 0;
}

// Every input once, and no other.
static int take_given(struct verify_run *r, struct array_case *c, struct err *err) {
  const struct model *m = &r->side[0].model;
  const struct model_graph *g = &m->graphs[m->main_graph];
  for (uint32_t i = 0; i < c->inputs.n; i++) {
    struct array *x = &c->inputs.list[i];
    const uint32_t value = input_at(m, x, i);
    if (value == NO_ID) {
      if (*x->name)
        err_fill(err, ERR_USAGE, "'%s' has the array '%s', but the model has no such input",
                 quote_str(c->name).s, quote_str(x->name).s);
      else
        err_fill(err, ERR_USAGE, "'%s' has %u arrays, but the model takes %u", quote_str(c->name).s,
                 c->inputs.n, i);
      return err_hint(err, "'weir inspect MODEL' lists its inputs");
    }
    x->name = arena_string(&r->v->arena, model_value_name(m, value));
    struct infer_type t;
    const bool known = infer_type_of(r->infer, value, &t);
    array_settle(x, known && t.kind == INFER_OPTIONAL);
    // Files for the model before it was cast serve the one after it too.
    if (known && x->kind == ARRAY_TENSOR && x->dtype == DTYPE_FLOAT && t.kind == INFER_TENSOR &&
        (t.dtype == DTYPE_FLOAT16 || t.dtype == DTYPE_BFLOAT16) &&
        verify_cases_cast(x, t.dtype, &r->v->arena, x, err))
      return -1;
    if (check_given(r, c, x, value, err)) return -1;
  }
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i];
    const struct span name = model_value_name(m, value);
    if (m->values[value].kind == VALUE_INITIALIZER) continue;
    if (!array_named(&c->inputs, arena_string(&r->v->arena, name)))
      return err_set(err, ERR_USAGE, "'%s' has no array for the input '%s'", quote_str(c->name).s,
                     quote(name).s);
  }
  return 0;
}

enum { INPUT_MOST = 1 << 30 };

static int read_cases(struct verify_run *r, struct array_cases *cases, struct err *err) {
  struct verify *v = r->v;
  const struct verify_options *o = &v->options;
  if (!verify_models_listed(o))
    return array_files_read(&r->files, o->inputs, v->scratch, INPUT_MOST, &v->arena, cases, err);
  const struct array_paths inputs = {o->pipeline->inputs.list, o->pipeline->inputs.n_list},
                           outputs = {o->pipeline->outputs.list, o->pipeline->outputs.n_list};
  return array_files_read_lists(&r->files, &inputs, &outputs, v->scratch, INPUT_MOST, &v->arena,
                                cases, err);
}

int verify_cases_find(struct verify_run *r, struct err *err) {
  struct verify *v = r->v;
  const struct verify_options *o = &v->options;
  if (o->inputs || verify_models_listed(o)) {
    struct array_cases cases;
    if (read_cases(r, &cases, err)) return -1;
    r->cases = cases.list;
    r->n_cases = cases.n;
    for (uint32_t i = 0; i < r->n_cases; i++)
      if (take_given(r, &r->cases[i], err)) return -1;
    if (r->n_cases == 0)
      return err_set(err, ERR_USAGE, "there are no arrays in '%s'", quote_path(o->inputs).s);
    return 0;
  }
  r->n_cases = o->n_lengths;
  r->cases = arena_zalloc(&v->arena, r->n_cases * sizeof *r->cases);
  r->undrawn = arena_zalloc(&v->arena, r->n_cases * sizeof *r->undrawn);
  for (uint32_t i = 0; i < r->n_cases; i++)
    if (draw_case(r, o->lengths[i], &r->cases[i], err)) return -1;
  return 0;
}
