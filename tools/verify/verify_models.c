// Whole models: the source on every case, then the result on every case; they are never both in memory. Outputs of the
// source are kept meanwhile, large ones in files.
//
//   cases   given (--inputs), or drawn: one for each length
//   rows    one for each output of each case
//
// A source that does not run on a case makes its rows "not verified"; a result that does not, where the source did,
// failed.
//
// Numbers of a model that a pass which loses has made are judged where its inputs were given: drawn ones say little of what is
// lost. Bounds of the user's own are judged on either.
#include "verify.h"

#include "array_files.h"
#include "infer.h"
#include "load.h"
#include "report.h"
#include "task_metric.h"
#include "verify_half.h"
#include "verify_layers.h"
#include "verify_top1.h"

#include <math.h>
#include <string.h>

// A model as far as its metadata goes.
struct side {
  const char *path;
  struct sources *sources;
  struct model model;
  struct arrays *results; // by case
  const char **why;       // by case: it did not run; NULL
  bool lacks_kernel;      // the runtime has none for an operator
  enum dtype half;        // that its nodes compute in; UNDEFINED
};

struct verify_run {
  struct verify *v;
  bool allow_links;
  struct side side[2];        // source, result
  struct infer *infer;        // of the source
  struct infer *infer_result; // once it was wanted
  struct array_files *files;
  struct array_case *cases;
  uint32_t n_cases;
  const char **undrawn; // by case: why there are no inputs for it; NULL: all were given
  struct verify_bounds bounds;
  struct compare_bounds judged;
  bool given, theirs;     // inputs; bounds, by the user
  bool loses;             // so that `unjudged` counts, if the bounds are not theirs
  const char *unjudged;   // why numbers are not judged; NULL: they are
  struct output *outputs; // of the source
};

// An output in all cases.
struct output {
  enum verify_top1 top1;
  struct compare_rows rows;
  uint32_t last, worst; // row of `found`: the last one, and that in which most rows changed; NO_ID
  double most;          // the share that changed there
  uint32_t *at, n_at;   // its rows of `found`
};

static int open_side(struct side *s, const char *path, bool allow_links, struct err *err) {
  const struct sources_options options = {.allow_links = allow_links};
  const struct load_options load = {.no_matter_the_data = false};
  s->path = path;
  if (sources_open(&s->sources, path, &options, err)) return -1;
  return load_model(&s->model, s->sources, &load, err);
}

static void close_side(struct side *s) {
  model_free(&s->model);
  if (s->sources) sources_close(s->sources);
}

// ---- cases -------------------------------------------------------------------------------------

static struct infer *inferred(const struct model *m) {
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
  if (!r->infer_result) r->infer_result = inferred(m[1]);
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
                           .signal = v->options.signal,
                           .lengths = v->options.length,
                           .channels = v->options.channels};
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
  if (!v->found.sizes)
    v->found.sizes = sizes;
  else if (!strstr(v->found.sizes, sizes))
    v->found.sizes = arena_printf(&v->found.arena, "%s; %s", v->found.sizes, sizes);
  out->name = length ? arena_printf(&v->found.arena, "length %ld", (long)length) : "drawn";
  const enum draw_end end = draw_inputs(d, &v->arena, &out->inputs, why);
  draw_close(d);
  if (end == DRAW_DONE) {
    settle_drawn(r, &out->inputs);
    return 0;
  }
  r->undrawn[out - r->cases] =
      arena_printf(&v->found.arena, "no inputs can be drawn: %s; give them with %s", why,
                   v->options.inputs_option);
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
static int cast_input(const struct array *x, enum dtype dtype, struct arena *a, struct array *to,
                      struct err *err) {
  struct array whole = *x;
  *to = *x;
  if (x->kind != ARRAY_TENSOR || dtype == x->dtype || !dtype_is_float(dtype) ||
      !dtype_is_float(x->dtype))
    return 0;
  if (!whole.at) {
    uint8_t *at = arena_alloc(a, (size_t)x->bytes + 1);
    if (array_read(x, 0, at, (size_t)x->bytes, err)) return -1;
    whole.at = at;
  }
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
                     "'%s': dim %u of input '%s' is %ld there, but the model takes %ld",
                     quote_str(file).s, i, name.s, (long)x->dims[i], (long)n);
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
        cast_input(x, t.dtype, &r->v->arena, x, err))
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

// Arrays that the pipeline lists; those of the command line count for more.
static bool are_listed(const struct verify_options *o) {
  return !o->inputs && o->pipeline && o->pipeline->inputs.n_list > 0;
}

static int read_cases(struct verify_run *r, struct array_cases *cases, struct err *err) {
  struct verify *v = r->v;
  const struct verify_options *o = &v->options;
  if (!are_listed(o))
    return array_files_read(&r->files, o->inputs, v->scratch, INPUT_MOST, &v->arena, cases, err);
  const struct array_paths inputs = {o->pipeline->inputs.list, o->pipeline->inputs.n_list},
                           outputs = {o->pipeline->outputs.list, o->pipeline->outputs.n_list};
  return array_files_read_lists(&r->files, &inputs, &outputs, v->scratch, INPUT_MOST, &v->arena,
                                cases, err);
}

static int find_cases(struct verify_run *r, struct err *err) {
  struct verify *v = r->v;
  const struct verify_options *o = &v->options;
  if (o->inputs || are_listed(o)) {
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

// ---- runs --------------------------------------------------------------------------------------

// Why something did not run; -1 where that ends all.
static int not_run(struct verify_run *r, enum runtime_end end, const struct err *cause,
                   const char **why, struct err *err) {
  if (end == RUNTIME_STOPPED) {
    *err = *cause;
    return -1;
  }
  *why = arena_string(&r->v->found.arena, span_str(cause->msg));
  return 0;
}

static int cast_inputs(const struct arrays *from, const struct runtime_model *model,
                       struct arena *a, struct arrays *out, struct err *err) {
  *out = (struct arrays){arena_alloc(a, (from->n + (size_t)1) * sizeof *out->list), from->n};
  for (uint32_t i = 0; i < from->n; i++) {
    enum dtype dtype = from->list[i].dtype;
    for (uint32_t k = 0; k < model->n_inputs; k++)
      if (model->inputs[k].known && strcmp(model->inputs[k].name, from->list[i].name) == 0)
        dtype = model->inputs[k].dtype;
    if (cast_input(&from->list[i], dtype, a, &out->list[i], err)) return -1;
  }
  return 0;
}

// What is compared are the outputs that the model has: a runtime that tells of others has opened another one.
static bool has_outputs(const struct model *m, const struct runtime_model *opened) {
  const struct model_graph *g = &m->graphs[m->main_graph];
  if (m->main_graph == NO_ID || opened->n_outputs != g->n_outputs) return false;
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (!span_is(model_value_name(m, m->graph_io[g->outputs + i]), opened->outputs[i].name))
      return false;
  return true;
}

static enum runtime_end other_outputs(const struct side *s, struct err *err) {
  err_fill(err, ERR_FAIL, "weir-ort tells of other outputs than '%s' has", quote_path(s->path).s);
  return RUNTIME_BROKEN;
}

static enum runtime_end check_opened(const struct side *s, enum runtime_end end,
                                     const struct runtime_model *opened, struct err *err) {
  return end != RUNTIME_DONE || has_outputs(&s->model, opened) ? end : other_outputs(s, err);
}

// One case, by the model that is loaded.
static enum runtime_end run_case(struct verify_run *r, struct side *s, uint32_t i,
                                 const struct runtime_model *model, struct err *cause,
                                 struct err *err) {
  struct verify *v = r->v;
  struct arena cast = {0};
  struct arrays inputs;
  enum runtime_end end = RUNTIME_STOPPED;
  *cause = (struct err){0};
  if (cast_inputs(&r->cases[i].inputs, model, &cast, &inputs, cause) == 0)
    end = runtime_run(v->runtime, &inputs, NULL, 0, &v->arena, &s->results[i], cause);
  arena_free(&cast);
  for (uint32_t k = 0; end == RUNTIME_DONE && k < s->results[i].n && k < model->n_outputs; k++)
    s->results[i].list[k].optional = model->outputs[k].optional;
  for (uint32_t k = 0; end == RUNTIME_DONE && k < s->results[i].n; k++)
    if (strcmp(s->results[i].list[k].name, model->outputs[k].name) != 0)
      end = other_outputs(s, cause);
  if (end == RUNTIME_STOPPED) *err = *cause;
  return end;
}

// All cases with values that are rounded. 1: it cannot be run that way.
static int run_rounded(struct verify_run *r, struct side *s, struct err *err) {
  struct verify *v = r->v;
  struct verify_half *h = NULL;
  struct runtime_model model;
  struct err cause = {0};
  enum runtime_end end = RUNTIME_REFUSED;
  if (verify_half_open(&h, v, s->path, r->allow_links, &cause) == 0)
    end = check_opened(s, verify_half_load(h, &model, &cause), &model, &cause);
  if (end == RUNTIME_STOPPED) *err = cause;
  for (uint32_t i = 0; i < r->n_cases && end == RUNTIME_DONE; i++)
    if (!s->why[i]) end = run_case(r, s, i, &model, &cause, err);
  verify_half_close(h);
  return end == RUNTIME_DONE ? 0 : end == RUNTIME_STOPPED ? -1 : 1;
}

static int run_plain(struct verify_run *r, struct side *s, struct err *err) {
  struct runtime_model model;
  struct err cause = {0};
  const enum runtime_end loaded =
      check_opened(s, runtime_load(r->v->runtime, s->path, NULL, &model, &cause), &model, &cause);
  enum runtime_end end = loaded;
  for (uint32_t i = 0; i < r->n_cases; i++) {
    if (s->why[i]) continue;
    // Sizes that the model refuses are not those of the next case; what ended the process would end it again.
    if (loaded == RUNTIME_DONE && (end == RUNTIME_DONE || end == RUNTIME_REFUSED))
      end = run_case(r, s, i, &model, &cause, err);
    if (end == RUNTIME_DONE) continue;
    if (not_run(r, end, &cause, &s->why[i], err)) return -1;
    s->lacks_kernel = s->lacks_kernel || verify_lacks_kernel(&cause);
  }
  return 0;
}

// On given inputs what overflows is seen now, in sites too.
static void tell_rounded(struct verify_run *r) {
  if (r->given) r->v->found.half_unseen = false;
  if (r->theirs) return;
  r->bounds.words = arena_printf(&r->v->found.arena, "SQNR of %g dB (values rounded to %s)",
                                 r->judged.least_sqnr_db, dtype_name(r->side[1].half));
}

// Where nothing is lost, both sides are as they are: rounding is not what they are compared for.
static int run_side(struct verify_run *r, struct side *s, struct err *err) {
  struct verify *v = r->v;
  s->results = arena_zalloc(&v->arena, (r->n_cases + (size_t)1) * sizeof *s->results);
  s->why = arena_zalloc(&v->arena, (r->n_cases + (size_t)1) * sizeof *s->why);
  for (uint32_t i = 0; i < r->n_cases; i++)
    s->why[i] = s == &r->side[1] && r->side[0].why ? r->side[0].why[i]
                : r->undrawn                       ? r->undrawn[i]
                                                   : NULL;
  if (s->half != DTYPE_UNDEFINED && r->loses && !v->options.runtime.optimized) {
    const int rc = run_rounded(r, s, err);
    if (rc == 0 && s == &r->side[1]) tell_rounded(r);
    if (rc <= 0) return rc;
  }
  if (s->half != DTYPE_UNDEFINED && (s == &r->side[1] || !r->side[1].path))
    v->found.half_unseen = true;
  return run_plain(r, s, err);
}

// ---- rows --------------------------------------------------------------------------------------

static struct verified_row *add_row(struct verify_run *r, const char *name,
                                    const struct array_case *c) {
  struct verified *f = &r->v->found;
  struct verified_row *row = TABLE_PUSH(f, rows);
  const char *of = c->name;
  if (r->v->step && r->v->step_number)
    of = arena_printf(&f->arena, "%s (step %u), %s", r->v->step, r->v->step_number, of);
  else if (r->v->step)
    of = arena_printf(&f->arena, "%s, %s", r->v->step, of);
  *row = (struct verified_row){.name = arena_string(&f->arena, span_str(name)),
                               .of = of,
                               .bounds = r->bounds.words,
                               .output = true,
                               .loses = r->loses,
                               .drawn = !r->given};
  return row;
}

static void end_row(struct verify_run *r, struct verified_row *row, enum verified_end end,
                    const char *why) {
  struct verified *f = &r->v->found;
  row->end = end;
  row->why = end == VERIFIED_PASSED ? NULL : arena_string(&f->arena, span_str(why));
  verified_count(f, end);
}

static const char no_elements[] = "it has no elements for these inputs";

static bool is_all_nonfinite(const struct compare_figures *f) {
  return f->count > 0 && f->nonfinite[0] == f->count;
}

// Drawn inputs say nothing of how much was lost, but numbers that are none any more are said: "NaN at 3 of 8 elements where SRC
// is finite".
static const char *unjudged_words(struct verify_run *r, const struct compare_figures *f) {
  struct arena *a = &r->v->found.arena;
  const uint64_t others = f->nonfinite_apart - f->made_nan - f->made_infinite;
  const char *nan = "", *infinite = "", *more = "";
  if (!f->nonfinite_apart) return r->unjudged;
  if (f->made_nan) nan = arena_printf(a, "; NaN at %llu", (unsigned long long)f->made_nan);
  if (f->made_infinite)
    infinite = arena_printf(a, "%s infinite at %llu", f->made_nan ? " and" : ";",
                            (unsigned long long)f->made_infinite);
  if (f->made_nan || f->made_infinite)
    infinite = arena_printf(a, "%s of %llu elements where SRC is finite", infinite,
                            (unsigned long long)f->count);
  if (others)
    more = arena_printf(a, "; %llu of %llu elements are not finite in SRC and others in the result",
                        (unsigned long long)others, (unsigned long long)f->count);
  return arena_printf(a, "%s%s%s%s", r->unjudged, nan, infinite, more);
}

static void judge(struct verify_run *r, struct verified_row *row,
                  const struct compare_result *got) {
  const struct compare_figures *f = &got->figures;
  if (got->end == COMPARE_PASSED && f->count == 0)
    end_row(r, row, VERIFIED_NOT, no_elements);
  else if (got->end != COMPARE_DIFFERENT && is_all_nonfinite(f))
    end_row(r, row, VERIFIED_NOT, "the source gives no finite number for these inputs");
  else if (got->end != COMPARE_DIFFERENT && r->v->options.finite &&
           f->nonfinite[0] + f->nonfinite[1] > 0)
    end_row(r, row, VERIFIED_FAILED, "there are elements that are not finite");
  else if (got->end != COMPARE_DIFFERENT && r->unjudged && (!r->given || !f->nonfinite_apart))
    end_row(r, row, VERIFIED_UNJUDGED, unjudged_words(r, f));
  else
    end_row(r, row, got->end == COMPARE_PASSED ? VERIFIED_PASSED : VERIFIED_FAILED, got->why);
}

// What the source gives beside what the result does.
static int compare_output(struct verify_run *r, const struct array_case *c, const struct array *a,
                          const struct array *b, struct output *o, struct err *err) {
  struct compare_result got;
  struct compare_bounds bounds = r->judged;
  struct compare_rows one;
  struct verified_row *row = add_row(r, a->name, c);
  if (!b) {
    end_row(r, row, VERIFIED_FAILED, "the result has no such output");
    return 0;
  }
  if (o && o->top1 != VERIFY_TOP1_NONE) bounds.least_top1 = NAN; // of all cases (judge_top1)
  if (compare_arrays(a, b, &bounds, r->v->options.runtime.stop, &got, err)) return -1;
  row->figures = got.figures;
  row->figures.has_top1 = false;
  judge(r, row, &got);
  if (!o || got.end == COMPARE_DIFFERENT || row->end == VERIFIED_NOT) return 0;
  if (verify_top1_add(o->top1, a, b, &got.figures, r->v->options.runtime.stop, &one, &o->rows, err))
    return -1;
  const double share = one.counted ? (double)one.changed / (double)one.counted : 0;
  const uint32_t at = r->v->found.n_rows - 1;
  o->at[o->n_at++] = at;
  if (o->worst == NO_ID || share > o->most) {
    o->worst = at;
    o->most = share;
  }
  o->last = at;
  return 0;
}

// ---- top-1 -------------------------------------------------------------------------------------

static void find_outputs(struct verify_run *r) {
  const struct model *m = &r->side[0].model;
  const uint32_t n = m->graphs[m->main_graph].n_outputs;
  const bool asked = !isnan(r->judged.least_top1);
  r->outputs = arena_zalloc(&r->v->arena, (n + (size_t)1) * sizeof *r->outputs);
  for (uint32_t i = 0; i < n; i++) {
    r->outputs[i] = (struct output){
        .top1 = verify_top1_of(m, r->infer, i),
        .last = NO_ID,
        .worst = NO_ID,
        .at = arena_alloc(&r->v->arena, (r->n_cases + (size_t)1) * sizeof(uint32_t))};
    if (!asked || r->outputs[i].top1 != VERIFY_TOP1_NONE) continue;
    // Asked for by name: of whatever has rows, by the first case that ran.
    for (uint32_t k = 0; k < r->n_cases; k++)
      if (!r->side[0].why[k] && i < r->side[0].results[k].n &&
          compare_has_rows(&r->side[0].results[k].list[i])) {
        r->outputs[i].top1 = VERIFY_TOP1_ROWS;
        break;
      }
  }
}

// Takes back that a row passed, or was not judged.
static void end_again(struct verify_run *r, struct verified_row *row, enum verified_end end,
                      const char *why) {
  struct verified *f = &r->v->found;
  *(row->end == VERIFIED_PASSED ? &f->n_passed : &f->n_unjudged) -= 1;
  end_row(r, row, end, why);
}

// Of so few rows a share says nothing: none of the cases is called verified by it.
static void leave_top1(struct verify_run *r, const struct output *o) {
  const char *why = verify_top1_few(&o->rows, &r->v->found.arena);
  for (uint32_t i = 0; i < o->n_at; i++) {
    struct verified_row *row = &r->v->found.rows[o->at[i]];
    if (row->end == VERIFIED_FAILED) continue;
    end_again(r, row, VERIFIED_NOT, why);
    row->unmet = true;
  }
}

// The bound of the user, by the rows of all cases. It fails with the case that is worst.
static void judge_top1(struct verify_run *r, struct output *o, double kept) {
  struct verified *f = &r->v->found;
  struct verified_row *row = &f->rows[o->worst];
  const double least = r->judged.least_top1;
  if (isnan(least)) return;
  if (o->rows.counted < VERIFY_TOP1_LEAST) {
    leave_top1(r, o);
    return;
  }
  if (kept >= least) return;
  const char *why = arena_printf(
      &f->arena, "top-1 changes in %llu of %llu rows: an agreement of %.4g, below %g",
      (unsigned long long)o->rows.changed, (unsigned long long)o->rows.counted, kept, least);
  if (row->end == VERIFIED_FAILED)
    row->why = arena_printf(&f->arena, "%s, %s", row->why, why);
  else
    end_again(r, row, VERIFIED_FAILED, why);
}

static void tell_top1(struct verify_run *r) {
  const struct model *m = &r->side[0].model;
  for (uint32_t i = 0; i < m->graphs[m->main_graph].n_outputs; i++) {
    struct output *o = &r->outputs[i];
    const double kept = o->rows.counted ? 1 - (double)o->rows.changed / (double)o->rows.counted : 0;
    if (o->last == NO_ID || o->rows.counted + o->rows.close == 0) continue;
    judge_top1(r, o, kept);
    if (o->rows.counted < VERIFY_TOP1_LEAST) continue;
    struct verified_row *row = &r->v->found.rows[o->last];
    row->top1_rows = o->rows.counted;
    row->top1_changed = o->rows.changed;
    row->figures.has_top1 = true;
    row->figures.top1 = kept;
  }
}

// ---- cases, one by one -------------------------------------------------------------------------

static int compare_case(struct verify_run *r, uint32_t i, struct err *err) {
  const struct array_case *c = &r->cases[i];
  const struct side *s = r->side;
  const struct arrays *a = &s[0].results[i], *b = &s[1].results[i];
  const int64_t only = r->v->options.output, lengths = r->v->options.length_output;
  if (s[0].model.graphs[s[0].model.main_graph].n_outputs == 0) {
    end_row(r, add_row(r, "outputs", c), VERIFIED_NOT, "the model has no outputs");
    return 0;
  }
  if (r->undrawn && r->undrawn[i]) {
    end_row(r, add_row(r, "outputs", c), VERIFIED_NOT, r->undrawn[i]);
    return 0;
  }
  if (s[0].why[i]) {
    end_row(r, add_row(r, "outputs", c), VERIFIED_NOT,
            arena_printf(&r->v->found.arena, "the source does not run: %s", s[0].why[i]));
    return 0;
  }
  if (s[1].why[i]) {
    end_row(r, add_row(r, "outputs", c), s[1].lacks_kernel ? VERIFIED_NOT : VERIFIED_FAILED,
            arena_printf(&r->v->found.arena, "the result does not run: %s", s[1].why[i]));
    return 0;
  }
  for (uint32_t k = 0; k < a->n; k++) {
    if (only >= 0 && k != (uint64_t)only && k != (uint64_t)lengths) continue;
    const struct array *other = array_named(b, a->list[k].name);
    if (!other && a->n == b->n) other = &b->list[k];
    struct output *o =
        k < s[0].model.graphs[s[0].model.main_graph].n_outputs ? &r->outputs[k] : NULL;
    if (compare_output(r, c, &a->list[k], other, o, err)) return -1;
  }
  return 0;
}

// Of the source beside itself: nothing was made of it.
static struct verify_bounds bounds_of_one(const struct verify_run *r) {
  const struct model *m = &r->side[0].model;
  struct infer *const in[2] = {r->infer, r->infer};
  bool loses = false;
  const char *why;
  return verify_bounds_of_models(m, m, in, &loses, &why, &r->v->found.arena);
}

// Expected outputs that came with the inputs: what the source itself gives is held against them.
static int compare_expected(struct verify_run *r, uint32_t i, struct err *err) {
  const struct array_case *c = &r->cases[i];
  const struct arrays *a = &r->side[0].results[i];
  const struct verify_bounds bounds = r->theirs ? r->bounds : bounds_of_one(r);
  struct compare_bounds judged = bounds.bounds;
  struct compare_result got;
  judged.nonfinite = r->judged.nonfinite;
  if (!r->side[1].path && (c->outputs.n == 0 || r->side[0].why[i])) {
    const char *why = r->side[0].why[i];
    end_row(r, add_row(r, "outputs", c), VERIFIED_NOT,
            why ? arena_printf(&r->v->found.arena, "the model does not run: %s", why)
                : "there are no expected outputs");
    return 0;
  }
  // What a pipeline expects is held beside the result (compare_listed).
  if (are_listed(&r->v->options)) return 0;
  for (uint32_t k = 0; k < c->outputs.n && !r->side[0].why[i]; k++) {
    struct array *x = &c->outputs.list[k];
    const struct array *have = *x->name ? array_named(a, x->name) : k < a->n ? &a->list[k] : NULL;
    struct verified_row *row = add_row(r, have ? have->name : x->name, c);
    row->of = arena_printf(&r->v->found.arena, "%s, expected", row->of);
    row->bounds = bounds.words;
    row->loses = false;
    if (!have) {
      end_row(r, row, VERIFIED_FAILED, "the model has no such output");
      continue;
    }
    array_settle_like(x, have);
    if (compare_arrays(x, have, &judged, r->v->options.runtime.stop, &got, err)) return -1;
    row->figures = got.figures;
    if (got.end == COMPARE_PASSED && got.figures.count == 0)
      end_row(r, row, VERIFIED_NOT, no_elements);
    else
      end_row(r, row, got.end == COMPARE_PASSED ? VERIFIED_PASSED : VERIFIED_FAILED, got.why);
  }
  return 0;
}

// ---- metrics -----------------------------------------------------------------------------------

bool verify_has_metrics(const struct pipeline *p) {
  return p && p->n_metrics > 0 && p->outputs.n_list > 0;
}

// What is expected, in the order of the outputs, where the arrays have names.
static bool order_expected(struct verify_run *r, const struct arrays *produced,
                           const struct arrays *named, struct arrays *out, const char **why) {
  struct arena *a = &r->v->found.arena;
  *out = *named;
  for (uint32_t k = 0; k < named->n; k++)
    if (!*named->list[k].name) return true; // of a .npy: they go by their place
  out->list = arena_zalloc(a, (named->n + (size_t)1) * sizeof *out->list);
  out->n = 0;
  for (uint32_t k = 0; k < produced->n; k++) {
    const struct array *x = array_named(named, produced->list[k].name);
    if (x && out->n == k) out->list[out->n++] = *x;
  }
  if (out->n == named->n) return true;
  *why =
      arena_printf(a, "the arrays that are expected are not named as the first outputs are ('%s')",
                   quote_str(named->list[0].name).s);
  return false;
}

static int compare_listed_one(struct verify_run *r, const struct array_case *c,
                              const struct array *expected, const struct array *have,
                              const struct verify_bounds *b, struct err *err) {
  const bool metrics = r->v->options.pipeline->n_metrics > 0;
  struct array x = *expected;
  struct compare_result got;
  array_settle_like(&x, have);
  if (compare_arrays(&x, have, &b->bounds, r->v->options.runtime.stop, &got, err)) return -1;
  // With metrics it may be places of largest elements, which are no outputs.
  if (metrics && got.end == COMPARE_DIFFERENT) return 0;
  struct verified_row *row = add_row(r, have->name, c);
  row->of = arena_printf(&r->v->found.arena, "%s, reference.out", row->of);
  row->bounds = b->words;
  row->loses = false;
  row->figures = got.figures;
  if (got.end == COMPARE_PASSED && got.figures.count == 0)
    end_row(r, row, VERIFIED_NOT, no_elements);
  else
    end_row(r, row, got.end == COMPARE_PASSED ? VERIFIED_PASSED : VERIFIED_FAILED, got.why);
  return 0;
}

// What the pipeline expects of the outputs, beside those of the result, by its tolerance.
static int compare_listed(struct verify_run *r, uint32_t i, struct err *err) {
  const struct verify_options *o = &r->v->options;
  const struct array_case *c = &r->cases[i];
  const char *why = NULL;
  struct arrays expected;
  if (!are_listed(o) || o->pipeline->outputs.n_list == 0 || o->pipeline->tolerance.rtol < 0 ||
      r->v->unexpected || !r->side[1].why || r->side[1].why[i])
    return 0;
  const struct arrays *have = &r->side[1].results[i];
  if (!order_expected(r, have, &c->outputs, &expected, &why) || expected.n > have->n) {
    if (!why) why = "more arrays are expected than there are outputs";
    end_row(r, add_row(r, "reference.out", c), VERIFIED_FAILED, why);
    return 0;
  }
  struct verify_bounds b = {o->pipeline->tolerance, NULL};
  b.words = verify_bounds_words(&b.bounds, &r->v->found.arena);
  b.bounds.nonfinite = r->judged.nonfinite;
  b.bounds.retyped = true;
  for (uint32_t k = 0; k < expected.n; k++)
    if (compare_listed_one(r, c, &expected.list[k], &have->list[k], &b, err)) return -1;
  return 0;
}

static int judge_metric(struct verify_run *r, const struct array_case *c,
                        const struct pipeline_metric *m, const struct arrays *produced,
                        const char *unfit, struct err *err) {
  struct arena *a = &r->v->found.arena;
  const char *name = task_metric_name(m->metric);
  char why[TASK_METRIC_WHY];
  struct arrays expected;
  double x = 0;
  struct verified_row *row = add_row(r, name, c);
  row->bounds = arena_printf(a, "from %g to %g", m->least, m->most);
  if (unfit || !order_expected(r, produced, &c->outputs, &expected, &unfit)) {
    end_row(r, row, VERIFIED_FAILED, unfit);
    return 0;
  }
  const int rc = task_metric_value(m->metric, produced, &expected, &x, why, err);
  if (rc < 0) return -1;
  if (rc > 0) {
    end_row(r, row, VERIFIED_FAILED, why);
    return 0;
  }
  row->has_value = true;
  row->value = x;
  const bool fits = x >= m->least && x <= m->most;
  end_row(r, row, fits ? VERIFIED_PASSED : VERIFIED_FAILED,
          arena_printf(a, "%s %.9g is not within [%g, %g]", name, x, m->least, m->most));
  return 0;
}

// Where the source did not run, the result was not run either, and compare_case has said so.
static int compare_metrics(struct verify_run *r, uint32_t i, struct err *err) {
  const struct pipeline *p = r->v->options.pipeline;
  const struct side *s = &r->side[1];
  if (r->v->metrics == VERIFY_NO_METRICS || !verify_has_metrics(p) || !are_listed(&r->v->options) ||
      !s->why)
    return 0;
  const char *why =
      s->why[i] ? arena_printf(&r->v->found.arena, "the model does not run: %s", s->why[i]) : NULL;
  for (uint32_t k = 0; k < p->n_metrics; k++)
    if (judge_metric(r, &r->cases[i], &p->metrics[k], &s->results[i], why, err)) return -1;
  return 0;
}

static int save_cases(struct verify_run *r, struct err *err) {
  for (uint32_t i = 0; i < r->n_cases; i++)
    if (!r->side[0].why[i] &&
        array_files_write_case(r->v->options.save_case, i, &r->cases[i].inputs,
                               &r->side[0].results[i], err))
      return -1;
  return 0;
}

static int check_output_numbers(const struct verify_run *r, struct err *err) {
  const struct model *m = &r->side[0].model;
  const uint32_t n = m->graphs[m->main_graph].n_outputs;
  const int64_t asked[] = {r->v->options.output, r->v->options.length_output};
  for (int i = 0; i < 2; i++)
    if (asked[i] >= (int64_t)n)
      return err_set(err, ERR_USAGE, "there is no output %ld: the model has %u", (long)asked[i], n);
  return 0;
}

// Else there is nothing to compare with.
static bool ran_once(const struct verify_run *r, const struct side *s) {
  for (uint32_t i = 0; i < r->n_cases; i++)
    if (!s->why[i]) return true;
  return false;
}

// What the user says, else what the pipeline does, else what suits the two models.
static void find_bounds(struct verify_run *r) {
  const struct verify_options *o = &r->v->options;
  struct arena *a = &r->v->found.arena;
  const struct model *const m[2] = {&r->side[0].model, &r->side[1].model};
  struct verify_bounds b = {o->bounds, o->bounds_words};
  const char *why;
  if (r->side[1].path && !r->infer_result) r->infer_result = inferred(m[1]);
  struct infer *const in[2] = {r->infer, r->side[1].path ? r->infer_result : r->infer};
  r->loses = r->v->loses;
  for (int side = 0; side < (r->side[1].path ? 2 : 1); side++)
    r->side[side].half = verify_half_computed(m[side], in[side]);
  r->bounds = verify_bounds_of_models(m[0], r->side[1].path ? m[1] : m[0], in, &r->loses, &why, a);
  if (why) r->v->found.lossy = why;
  const uint32_t steps = o->pipeline ? o->pipeline->n_steps : 0;
  const char **passes = arena_alloc(a, (steps + (size_t)1) * sizeof *passes);
  uint32_t n = 0;
  for (uint32_t i = 0; i < steps; i++)
    passes[n++] = o->pipeline->steps[i].values.pass->name;
  if (r->v->step) passes[0] = r->v->step, n = 1;
  r->theirs = b.words || verify_proof_of(o, passes, n, &b, a) == PIPELINE_PROOF_BOUNDS;
  if (r->theirs) {
    b.bounds.retyped = b.bounds.retyped || r->bounds.bounds.retyped;
    r->bounds = b;
  }
  r->judged = r->bounds.bounds;
  r->judged.nonfinite = !o->finite;
  if (!r->loses || r->theirs) return;
  const uint32_t bits = verify_bits_of_models(m[0], m[1]);
  if (!r->given)
    r->unjudged = arena_printf(a, "drawn inputs: %s DIR", o->inputs_option);
  else if (bits > 0 && bits < 4)
    r->unjudged = arena_printf(a, "weights of %u bits: %s sqnr=DB", bits, o->metric_option);
}

static int run(struct verify_run *r, struct err *err) {
  struct verify *v = r->v;
  const struct model *m = &r->side[0].model;
  if (m->main_graph == NO_ID) return err_set(err, ERR_MODEL, "the model has no graph");
  if (check_output_numbers(r, err)) return -1;
  r->infer = inferred(m);
  r->given = v->options.inputs || are_listed(&v->options);
  find_bounds(r);
  if (find_cases(r, err)) return -1;
  if (v->metrics == VERIFY_METRICS_ALONE) {
    if (run_side(r, &r->side[1], err)) return -1;
    for (uint32_t i = 0; i < r->n_cases; i++)
      if (compare_metrics(r, i, err)) return -1;
    return 0;
  }
  if (run_side(r, &r->side[0], err)) return -1;
  if (v->options.save_case && save_cases(r, err)) return -1;
  if (r->side[1].path && ran_once(r, &r->side[0]) && run_side(r, &r->side[1], err)) return -1;
  find_outputs(r);
  for (uint32_t i = 0; i < r->n_cases; i++)
    if (compare_expected(r, i, err) ||
        (r->side[1].path &&
         (compare_case(r, i, err) || compare_listed(r, i, err) || compare_metrics(r, i, err))))
      return -1;
  tell_top1(r);
  if (!r->side[1].path || !v->options.layers || r->side[0].why[0] || r->side[1].why[0]) return 0;
  const struct verify_layers layers = {.v = v,
                                       .source = m,
                                       .result = &r->side[1].model,
                                       .paths = {r->side[0].path, r->side[1].path},
                                       .infer = r->infer,
                                       .inputs = &r->cases[0].inputs};
  return verify_layers_run(&layers, err);
}

int verify_models(struct verify *v, const char *source, const char *result, bool allow_links,
                  struct err *err) {
  struct verify_run r = {.v = v, .allow_links = allow_links};
  model_init(&r.side[0].model);
  model_init(&r.side[1].model);
  int rc = open_side(&r.side[0], source, allow_links, err);
  if (rc == 0 && result) rc = open_side(&r.side[1], result, allow_links, err);
  if (rc == 0) rc = run(&r, err);
  runtime_release(v->runtime);
  if (r.infer) infer_free(r.infer);
  if (r.infer_result) infer_free(r.infer_result);
  if (r.files) array_files_close(r.files);
  close_side(&r.side[0]);
  close_side(&r.side[1]);
  v->found.peak_memory[0] = max_u64(v->found.peak_memory[0], report_peak_memory());
  v->found.peak_memory[1] = max_u64(v->found.peak_memory[1], runtime_peak_memory(v->runtime));
  v->found.seconds = report_clock() - v->began;
  return rc;
}
