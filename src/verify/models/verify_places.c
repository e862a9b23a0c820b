// Places of elements, judged by the elements.
//
//   x ─▶ ArgMax<axis=1> ─▶ Cast ─▶ y     y [n, 1, inner] of x [n, axis, inner]
//                                        y of the source 17, of the result 20000: x[.., 17, ..] beside x[.., 20000, ..]
//
// The values of x come from a second model: the source with every such x as a further output; it refers to the weights of the source.
// It is made when the first places differ, and runs once for each output and case with other places.
#include "verify/models/verify_models.h"

#include "calibrate/calibrate_model.h"
#include "verify/compare/compare.h"
#include "verify/models/verify_walk.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 4096 };

// The node that found the places of an output.
struct found {
  uint32_t node; // NO_ID: there is none
  uint32_t read; // the value that it searched
  int64_t axis;  // from 0 on, or from the end
  uint64_t most; // each type between the node and the output can hold places below this
  bool looked;
};

struct verify_places {
  struct found *of; // by output of the source
  struct recipes recipes;
  struct calibrate_model *reduced;
  struct runtime_model opened;
  bool tried, runs;
};

// ---- outputs that hold places ------------------------------------------------------------------

// Does the output have the elements of the input, in the same order?
static bool keeps_order(const struct model *m, uint32_t node) {
  static const char *const ops[] = {"Identity",  "Cast",    "Squeeze",
                                    "Unsqueeze", "Reshape", "Flatten"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (model_op_is(m, node, ops[i])) return true;
  return false;
}

// The output slot that holds places, and the axis if the attribute is absent. False: the node makes no places.
static bool has_places(const struct model *m, uint32_t node, uint32_t *slot, int64_t *unwritten) {
  const bool top = model_op_is(m, node, "TopK");
  *slot = top;
  *unwritten = top ? -1 : 0;
  return top || model_op_is(m, node, "ArgMax") || model_op_is(m, node, "ArgMin");
}

// How many places from 0 on a type tells apart.
static uint64_t most_places(enum dtype t) {
  if (t == DTYPE_FLOAT) return UINT64_C(1) << 24;
  if (t == DTYPE_DOUBLE) return UINT64_C(1) << 53;
  if (t == DTYPE_BOOL) return 2;
  if (!dtype_is_integer(t) || dtype_bits(t) < 8) return 0;
  const unsigned bits = dtype_bits(t) - dtype_is_signed(t);
  return bits < 64 ? UINT64_C(1) << bits : UINT64_MAX;
}

static struct found find(const struct verify_run *r, uint32_t place) {
  const struct model *m = &r->side[0].model;
  struct found f = {.node = NO_ID, .most = UINT64_MAX, .looked = true};
  struct infer_type t;
  uint32_t value = verify_walk_output(&r->random[0], place), slot;
  for (uint32_t step = 0; value != NO_ID && step < m->n_nodes; step++) {
    if (m->values[value].kind != VALUE_NODE_OUTPUT) return f;
    const uint32_t node = m->values[value].def;
    int64_t unwritten;
    if (r->random[0].calls[node]) return f;
    f.most = min_u64(f.most, infer_type_of(r->infer, value, &t) ? most_places(t.dtype) : 0);
    if (has_places(m, node, &slot, &unwritten)) {
      const struct model_node *n = &m->nodes[node];
      f.read = model_input(m, n, 0);
      if (slot < n->n_out && model_output(m, n, slot) == value && f.read != NO_ID &&
          model_attr_int(m, node, "axis", unwritten, &f.axis))
        f.node = node;
      return f;
    }
    if (!keeps_order(m, node)) return f;
    value = model_input(m, &m->nodes[node], 0);
  }
  return f;
}

static const struct found *found_of(struct verify_run *r, uint32_t place) {
  const struct model *m = &r->side[0].model;
  const uint32_t n = m->graphs[m->main_graph].n_outputs;
  if (!r->places) {
    r->places = arena_zalloc(&r->v->arena, sizeof *r->places);
    r->places->of = arena_zalloc(&r->v->arena, (n + (size_t)1) * sizeof *r->places->of);
    recipes_init(&r->places->recipes);
  }
  struct found *f = &r->places->of[place];
  if (!f->looked) *f = find(r, place);
  return f;
}

bool verify_places_has(struct verify_run *r, uint32_t place) {
  return found_of(r, place)->node != NO_ID;
}

static bool is_whole(enum dtype t) {
  return dtype_is_integer(t) && t != DTYPE_BOOL && dtype_bits(t) >= 8;
}

bool verify_places_step(struct verify_run *r, uint32_t place) {
  const struct found *f = found_of(r, place);
  struct infer_type t;
  return f->node != NO_ID && infer_type_of(r->infer, f->read, &t) && is_whole(t.dtype);
}

// ---- the values that were searched -------------------------------------------------------------

// Adds each searched value once. Outputs of the model are outputs already; inputs and constants are never asked for.
static void add_outputs(struct verify_run *r) {
  const struct model *m = &r->side[0].model;
  struct arena a = {0};
  const struct model_graph *g = &m->graphs[m->main_graph];
  bool *added = arena_zalloc(&a, (m->n_values + (size_t)1) * sizeof *added);
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (m->graph_io[g->outputs + i] != NO_ID) added[m->graph_io[g->outputs + i]] = true;
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    if (!verify_places_has(r, i)) continue;
    const uint32_t read = found_of(r, i)->read;
    if (m->values[read].kind == VALUE_NODE_OUTPUT && !added[read])
      calibrate_model_output(r->places->reduced,
                             arena_string(&r->v->arena, model_value_name(m, read)));
    added[read] = true;
  }
  arena_free(&a);
}

static enum runtime_end open_places(struct verify_run *r, struct err *err) {
  const struct verify *v = r->v;
  struct verify_side *s = &r->side[0];
  struct verify_places *p = r->places;
  const struct calibrate_model_of of = {.m = &s->model,
                                        .recipes = &p->recipes,
                                        .sources = s->sources,
                                        .memory = v->options.memory,
                                        .runtime = v->runtime,
                                        .scratch = v->scratch,
                                        .scratch_at = v->scratch_at};
  if (calibrate_model_open(&p->reduced, &of, err) || calibrate_model_write(p->reduced, err))
    return err->kind == ERR_RETRY ? RUNTIME_STOPPED : RUNTIME_REFUSED;
  calibrate_model_begin(p->reduced);
  add_outputs(r);
  return calibrate_model_load(p->reduced, &p->opened, err);
}

// The value in which the places of output `place` were found, in this case, in *a. *x is empty if the model does not run.
static int look(struct verify_run *r, const struct array_case *c, uint32_t place, struct arena *a,
                struct arrays *x, struct err *err) {
  struct verify_places *p = r->places;
  struct err cause = {0};
  struct arrays inputs;
  enum runtime_end end = RUNTIME_DONE;
  const uint32_t read = found_of(r, place)->read;
  const char *const wanted[] = {arena_string(a, model_value_name(&r->side[0].model, read))};
  *x = (struct arrays){0};
  if (!p->tried) {
    p->tried = true;
    end = open_places(r, &cause);
    p->runs = end == RUNTIME_DONE;
  }
  if (p->runs && verify_models_cast(&c->inputs, &p->opened, a, &inputs, err)) return -1;
  if (p->runs) end = runtime_run(r->v->runtime, &inputs, wanted, 1, a, x, &cause);
  if (end == RUNTIME_STOPPED) {
    *err = cause;
    return -1;
  }
  p->runs = p->runs && (end == RUNTIME_DONE || end == RUNTIME_REFUSED);
  if (end != RUNTIME_DONE || !p->runs) x->n = 0;
  return 0;
}

// ---- the elements there ------------------------------------------------------------------------

// Lines of x along the axis: `length` elements, each `inner` elements after the one before.
struct lines {
  const struct array *x;
  uint64_t length, inner, found; // found: how many places the output has for each line
  size_t width;                  // bytes of an element of x
  enum dtype types[2]; // the type of the places in each model; they may be two float types
};

static size_t bytes_of(enum dtype t) {
  return dtype_bits(t) / 8;
}

static bool lines_of(struct lines *l, const struct array *x, const struct found *f,
                     const struct array *const y[2]) {
  const int64_t at = f->axis < 0 ? f->axis + x->rank : f->axis;
  if (x->kind != ARRAY_TENSOR || !(dtype_is_plain_float(x->dtype) || is_whole(x->dtype)) ||
      at < 0 || at >= x->rank)
    return false;
  *l = (struct lines){.x = x,
                      .length = (uint64_t)x->dims[at],
                      .inner = 1,
                      .width = bytes_of(x->dtype),
                      .types = {y[0]->dtype, y[1]->dtype}};
  for (unsigned s = 0; s < 2; s++)
    if (y[s]->kind != ARRAY_TENSOR || l->length > most_places(y[s]->dtype)) return false;
  if (l->length > f->most) return false;
  for (int64_t i = at + 1; i < x->rank; i++)
    l->inner *= (uint64_t)x->dims[i];
  const uint64_t lines = l->length ? x->count / l->length : 0;
  if (lines == 0 || y[0]->count == 0 || y[0]->count % lines) return false;
  l->found = y[0]->count / lines;
  return true;
}

static int64_t place_of(double x) {
  return x >= 0 && x < 0x1p53 && x == floor(x) ? (int64_t)x : -1;
}

// The place that these bytes say; -1: they say none.
static int64_t place_at(enum dtype t, const uint8_t *at) {
  uint64_t u = 0;
  float f;
  double d;
  if (t == DTYPE_FLOAT) {
    memcpy(&f, at, sizeof f);
    return place_of((double)f);
  }
  if (t == DTYPE_DOUBLE) {
    memcpy(&d, at, sizeof d);
    return place_of(d);
  }
  memcpy(&u, at, bytes_of(t)); // little-endian, as all machines that weir runs on are
  const unsigned above = 64 - 8 * (unsigned)bytes_of(t);
  return dtype_is_signed(t) ? (int64_t)(u << above) >> above : u > INT64_MAX ? -1 : (int64_t)u;
}

// Reads the element of x at place `at`, which is element `i` of the output. *outside: x has no such place.
static int read_element(const struct lines *l, uint64_t i, int64_t at, void *to, bool *outside,
                        struct err *err) {
  const uint64_t line = i / (l->found * l->inner), in = i % l->inner;
  *outside = at < 0 || (uint64_t)at >= l->length;
  if (*outside) return 0;
  const uint64_t element = (line * l->length + (uint64_t)at) * l->inner + in;
  return array_read(l->x, element * l->width, to, l->width, err);
}

struct block {
  uint8_t places[2][BLOCK * 8], elements[2][BLOCK * 8];
};

// Elements [first, first + n) of the output.
static int compare_block(const struct lines *l, const struct array *const y[2], uint64_t first,
                         size_t n, struct block *b, double most, bool *is_near, struct err *err) {
  const size_t bytes[2] = {bytes_of(l->types[0]), bytes_of(l->types[1])};
  int64_t dim = 0;
  for (unsigned s = 0; s < 2; s++)
    if (array_read(y[s], first * bytes[s], b->places[s], n * bytes[s], err)) return -1;
  for (size_t i = 0; i < n; i++) {
    int64_t at[2];
    bool outside = false;
    for (unsigned s = 0; s < 2; s++)
      at[s] = place_at(l->types[s], b->places[s] + i * bytes[s]);
    if (at[0] == at[1] && at[0] >= 0) continue;
    for (unsigned s = 0; s < 2 && !outside; s++)
      if (read_element(l, first + i, at[s], b->elements[s] + (size_t)dim * l->width, &outside, err))
        return -1;
    if (outside) {
      *is_near = false;
      return 0;
    }
    dim++;
  }
  struct array pair[2];
  struct compare_bounds bounds = compare_nothing();
  struct compare_result got;
  bounds.rtol = most;
  bounds.atol = is_whole(l->x->dtype);
  for (unsigned s = 0; s < 2; s++)
    pair[s] = (struct array){.name = "",
                             .dtype = l->x->dtype,
                             .rank = 1,
                             .dims = &dim,
                             .count = (uint64_t)dim,
                             .bytes = (uint64_t)dim * l->width,
                             .at = b->elements[s]};
  if (compare_arrays(&pair[0], &pair[1], &bounds, NULL, &got, err)) return -1;
  *is_near = got.end == COMPARE_PASSED;
  return 0;
}

// Are the elements of x there near each other? *y: the places in both models.
static int compare_places(const struct arrays *x, const struct found *f,
                          const struct array *const y[2], double most, struct arena *a,
                          bool *is_near, struct err *err) {
  struct lines l;
  struct block *block = arena_alloc(a, sizeof *block);
  int rc = 0;
  *is_near = x->n == 1 && lines_of(&l, &x->list[0], f, y);
  for (uint64_t i = 0; *is_near && i < y[0]->count && rc == 0; i += BLOCK)
    rc =
        compare_block(&l, y, i, (size_t)min_u64(y[0]->count - i, BLOCK), block, most, is_near, err);
  return rc;
}

int verify_places_near(struct verify_run *r, const struct array_case *c, uint32_t place,
                       const struct array *a, const struct array *b, double most, bool *is_near,
                       struct err *err) {
  const struct array *const y[2] = {a, b};
  struct arena scratch = {0};
  struct arrays x;
  *is_near = false;
  if (!verify_places_has(r, place) || !(most > 0)) return 0;
  // Both models have the same inputs and constants, so that other places in them are wrong.
  if (r->side[0].model.values[found_of(r, place)->read].kind != VALUE_NODE_OUTPUT) return 0;
  const uint64_t mark = runtime_mark(r->v->runtime);
  int rc = look(r, c, place, &scratch, &x, err);
  if (rc == 0) rc = compare_places(&x, found_of(r, place), y, most, &scratch, is_near, err);
  runtime_release_after(r->v->runtime, mark);
  arena_free(&scratch);
  return rc;
}

void verify_places_close(struct verify_places *p) {
  if (!p) return;
  calibrate_model_close(p->reduced);
  recipes_free(&p->recipes);
}
