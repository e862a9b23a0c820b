// Whole models: the source on every case, then the result on every case; they are never both in memory. Outputs of the
// source are kept meanwhile, large ones in files.
//
//   cases   given (--inputs), or drawn: one for each length
//   rows    one for each output of each case
//
// A source that does not run on a case makes its rows "not verified"; a result that does not, where the source did,
// failed.
#include "verify.h"

#include "array_files.h"
#include "infer.h"
#include "load.h"
#include "passes.h"
#include "report.h"
#include "task_metric.h"
#include "verify_layers.h"

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
};

struct verify_run {
  struct verify *v;
  struct side side[2];        // source, result
  struct infer *infer;        // of the source
  struct infer *infer_result; // once it was wanted
  struct array_files *files;
  struct array_case *cases;
  uint32_t n_cases;
  const char **undrawn; // by case: why there are no inputs for it; NULL: all were given
  struct verify_bounds bounds;
  struct compare_bounds judged;
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

static int draw_case(struct verify_run *r, int64_t length, struct array_case *out,
                     struct err *err) {
  struct verify *v = r->v;
  const struct draw_options o = {.seed = v->options.seed,
                                 .length = length,
                                 .shapes = v->options.shapes,
                                 .n_shapes = v->options.n_shapes,
                                 .signal = v->options.signal,
                                 .lengths = v->options.length,
                                 .channels = v->options.channels};
  struct draw *d;
  char why[256];
  if (open_draw(r, &o, &d, err)) return -1;
  const char *sizes = draw_words(d, &v->found.arena);
  if (!v->found.sizes)
    v->found.sizes = sizes;
  else if (!strstr(v->found.sizes, sizes))
    v->found.sizes = arena_printf(&v->found.arena, "%s; %s", v->found.sizes, sizes);
  out->name = length ? arena_printf(&v->found.arena, "length %ld", (long)length) : "drawn";
  const enum draw_end end = draw_inputs(d, &v->arena, &out->inputs, why);
  draw_close(d);
  if (end == DRAW_DONE) return 0;
  r->undrawn[out - r->cases] =
      arena_printf(&v->found.arena, "no inputs can be drawn: %s; give them with %s", why,
                   v->options.pipeline ? "--verify-inputs" : "--inputs");
  return 0;
}

// An input of the model by name, or by place where the file has no names.
static uint32_t input_at(const struct model *m, const struct array *x, uint32_t place) {
  const struct model_graph *g = &m->graphs[m->main_graph];
  uint32_t k = 0;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i];
    if (m->values[value].kind == VALUE_INITIALIZER) continue;
    if (*x->name ? span_is(model_value_name(m, value), x->name) : k == place) return value;
    k++;
  }
  return NO_ID;
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
      err_fill(err, ERR_USAGE, "'%s' has the array '%s', but the model has no such input",
               quote_str(c->name).s, quote_str(x->name).s);
      return err_hint(err, "'weir inspect MODEL' lists its inputs");
    }
    x->name = arena_string(&r->v->arena, model_value_name(m, value));
    struct infer_type t;
    array_settle(x, infer_type_of(r->infer, value, &t) && t.kind == INFER_OPTIONAL);
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

static int run_side(struct verify_run *r, struct side *s, struct err *err) {
  struct verify *v = r->v;
  struct runtime_model model;
  struct err cause = {0};
  s->results = arena_zalloc(&v->arena, (r->n_cases + (size_t)1) * sizeof *s->results);
  s->why = arena_zalloc(&v->arena, (r->n_cases + (size_t)1) * sizeof *s->why);
  const enum runtime_end loaded = runtime_load(v->runtime, s->path, NULL, &model, &cause);
  enum runtime_end end = loaded;
  for (uint32_t i = 0; i < r->n_cases; i++) {
    s->why[i] = s == &r->side[1] && r->side[0].why ? r->side[0].why[i]
                : r->undrawn                       ? r->undrawn[i]
                                                   : NULL;
    if (s->why[i]) continue;
    // Sizes that the model refuses are not those of the next case; what ended the process would end it again.
    if (loaded == RUNTIME_DONE && (end == RUNTIME_DONE || end == RUNTIME_REFUSED)) {
      cause = (struct err){0};
      end =
          runtime_run(v->runtime, &r->cases[i].inputs, NULL, 0, &v->arena, &s->results[i], &cause);
    }
    for (uint32_t k = 0; end == RUNTIME_DONE && k < s->results[i].n && k < model.n_outputs; k++)
      s->results[i].list[k].optional = model.outputs[k].optional;
    if (end == RUNTIME_DONE) continue;
    if (not_run(r, end, &cause, &s->why[i], err)) return -1;
    s->lacks_kernel = s->lacks_kernel || verify_lacks_kernel(&cause);
  }
  return 0;
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
  *row = (struct verified_row){
      .name = arena_string(&f->arena, span_str(name)), .of = of, .bounds = r->bounds.words};
  return row;
}

static void end_row(struct verify_run *r, struct verified_row *row, enum verified_end end,
                    const char *why) {
  struct verified *f = &r->v->found;
  row->end = end;
  row->why = end == VERIFIED_PASSED ? NULL : arena_string(&f->arena, span_str(why));
  *(end == VERIFIED_PASSED ? &f->n_passed : end == VERIFIED_FAILED ? &f->n_failed : &f->n_not) += 1;
}

static const char no_elements[] = "it has no elements for these inputs";

static bool is_all_nonfinite(const struct compare_figures *f) {
  return f->count > 0 && f->nonfinite[0] == f->count;
}

// What the source gives, and what is expected of it where the case says so.
static int compare_output(struct verify_run *r, const struct array_case *c, const struct array *a,
                          const struct array *b, struct err *err) {
  struct compare_result got;
  struct verified_row *row = add_row(r, a->name, c);
  if (!b) {
    end_row(r, row, VERIFIED_FAILED, "the result has no such output");
    return 0;
  }
  if (compare_arrays(a, b, &r->judged, r->v->options.runtime.stop, &got, err)) return -1;
  row->figures = got.figures;
  if (got.end == COMPARE_PASSED && got.figures.count == 0)
    end_row(r, row, VERIFIED_NOT, no_elements);
  else if (got.end != COMPARE_DIFFERENT && is_all_nonfinite(&got.figures))
    end_row(r, row, VERIFIED_NOT, "the source gives no finite number for these inputs");
  else if (got.end != COMPARE_DIFFERENT && r->v->options.finite &&
           got.figures.nonfinite[0] + got.figures.nonfinite[1] > 0)
    end_row(r, row, VERIFIED_FAILED, "there are elements that are not finite");
  else
    end_row(r, row, got.end == COMPARE_PASSED ? VERIFIED_PASSED : VERIFIED_FAILED, got.why);
  return 0;
}

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
    if (compare_output(r, c, &a->list[k], other, err)) return -1;
  }
  return 0;
}

// Expected outputs that came with the inputs: what the source itself gives is held against them.
static int compare_expected(struct verify_run *r, uint32_t i, struct err *err) {
  const struct array_case *c = &r->cases[i];
  const struct arrays *a = &r->side[0].results[i];
  struct compare_result got;
  if (!r->side[1].path && (c->outputs.n == 0 || r->side[0].why[i])) {
    const char *why = r->side[0].why[i];
    end_row(r, add_row(r, "outputs", c), VERIFIED_NOT,
            why ? arena_printf(&r->v->found.arena, "the model does not run: %s", why)
                : "there are no expected outputs");
    return 0;
  }
  // What a pipeline expects is for metrics: it may be places of largest elements.
  if (are_listed(&r->v->options)) return 0;
  for (uint32_t k = 0; k < c->outputs.n && !r->side[0].why[i]; k++) {
    struct array *x = &c->outputs.list[k];
    const struct array *have = *x->name ? array_named(a, x->name) : k < a->n ? &a->list[k] : NULL;
    struct verified_row *row = add_row(r, have ? have->name : x->name, c);
    row->of = arena_printf(&r->v->found.arena, "%s, expected", row->of);
    if (!have) {
      end_row(r, row, VERIFIED_FAILED, "the model has no such output");
      continue;
    }
    array_settle_like(x, have);
    if (compare_arrays(x, have, &r->judged, r->v->options.runtime.stop, &got, err)) return -1;
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

static int compare_metrics(struct verify_run *r, uint32_t i, struct err *err) {
  const struct pipeline *p = r->v->options.pipeline;
  if (r->v->metrics == VERIFY_NO_METRICS || !verify_has_metrics(p) || !are_listed(&r->v->options))
    return 0;
  const char *why = r->side[1].why ? r->side[1].why[i] : "its source did not";
  if (why) why = arena_printf(&r->v->found.arena, "the model does not run: %s", why);
  for (uint32_t k = 0; k < p->n_metrics; k++)
    if (judge_metric(r, &r->cases[i], &p->metrics[k], why ? NULL : &r->side[1].results[i], why,
                     err))
      return -1;
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
static struct verify_bounds bounds_of(const struct verify_run *r) {
  const struct verify_options *o = &r->v->options;
  struct arena *a = &r->v->found.arena;
  struct verify_bounds b = {o->bounds, o->bounds_words};
  if (b.words) return b;
  const uint32_t steps = o->pipeline ? o->pipeline->n_steps : 0;
  const char **passes = arena_alloc(a, (steps + (size_t)1) * sizeof *passes);
  uint32_t n = 0;
  for (uint32_t i = 0; i < steps; i++)
    passes[n++] = o->pipeline->steps[i].values.pass->name;
  if (r->v->step) passes[0] = r->v->step, n = 1;
  if (verify_proof_of(o, passes, n, &b, a) == PIPELINE_PROOF_BOUNDS) return b;
  b = verify_bounds_of_models(&r->side[0].model, &r->side[1].model);
  for (uint32_t i = 0; i < n && isnan(b.bounds.least_cosine); i++) {
    const struct pass *pass = passes_find(span_str(passes[i]));
    if (!pass || !pass->stores) continue;
    b.bounds.most_relative = NAN;
    b.bounds.least_cosine = 0.9;
    b.words = "cosine of 0.9 (weights have other values)";
  }
  return b;
}

static int run(struct verify_run *r, struct err *err) {
  struct verify *v = r->v;
  const struct model *m = &r->side[0].model;
  if (m->main_graph == NO_ID) return err_set(err, ERR_MODEL, "the model has no graph");
  if (check_output_numbers(r, err)) return -1;
  r->infer = inferred(m);
  r->bounds = bounds_of(r);
  r->judged = r->bounds.bounds;
  r->judged.nonfinite = !v->options.finite;
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
  for (uint32_t i = 0; i < r->n_cases; i++)
    if (compare_expected(r, i, err) ||
        (r->side[1].path && (compare_case(r, i, err) || compare_metrics(r, i, err))))
      return -1;
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
  struct verify_run r = {.v = v};
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
