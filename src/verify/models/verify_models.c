// Whole models: the source on every case, then the result on every case; they are never both in memory. Outputs of the
// source are kept meanwhile, large ones in files.
//
//   cases   given (--inputs), or drawn: one for each length
//   rows    one for each output of each case
//
// A source that does not run on a case makes its rows "not verified"; a result that does not, where the source did,
// failed.
//
// Numbers of a model that a pass which loses has made are judged where its inputs were given: drawn ones say little about the
// loss. Bounds of the user's own are judged on either.
#include "verify/models/verify_models.h"

#include "platform/machine.h"
#include "stream/load/load.h"
#include "verify/run/verify_half.h"
#include "verify/run/verify_products.h"
#include "verify/run/verify_rounded.h"
#include "verify/sites/verify_import.h"

#include <string.h>

static int open_side(struct verify_side *s, const char *path, bool allow_links, struct err *err) {
  s->path = path;
  return load_model_at(&s->model, &s->sources, path, allow_links, NULL, err);
}

static void close_side(struct verify_side *s) {
  model_free(&s->model);
  if (s->sources) sources_close(s->sources);
}

// Is it a model that no runtime runs? Then what an import makes of it stands for it.
static int import_side(struct verify *v, struct verify_side *s, bool allow_links, struct err *err) {
  verify_import_look(v, &s->model);
  if (!v->lacking) return 0;
  if (verify_import_source(v, s->sources, err)) return -1;
  close_side(s);
  *s = (struct verify_side){.path = NULL};
  model_init(&s->model);
  return open_side(s, v->import->model.path, allow_links, err);
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

int verify_models_cast(const struct arrays *from, const struct runtime_model *model,
                       struct arena *a, struct arrays *out, struct err *err) {
  *out = (struct arrays){arena_alloc(a, (from->n + (size_t)1) * sizeof *out->list), from->n};
  for (uint32_t i = 0; i < from->n; i++) {
    enum dtype dtype = from->list[i].dtype;
    for (uint32_t k = 0; k < model->n_inputs; k++)
      if (model->inputs[k].known && strcmp(model->inputs[k].name, from->list[i].name) == 0)
        dtype = model->inputs[k].dtype;
    if (verify_cases_cast(&from->list[i], dtype, a, &out->list[i], err)) return -1;
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

static enum runtime_end other_outputs(const struct verify_side *s, struct err *err) {
  err_fill(err, ERR_FAIL, "weir-ort reports other outputs than '%s' has", quote_path(s->path).s);
  return RUNTIME_BROKEN;
}

static enum runtime_end check_opened(const struct verify_side *s, enum runtime_end end,
                                     const struct runtime_model *opened, struct err *err) {
  return end != RUNTIME_DONE || has_outputs(&s->model, opened) ? end : other_outputs(s, err);
}

// One case, by the model that is loaded.
static enum runtime_end run_case(struct verify_run *r, struct verify_side *s, uint32_t i,
                                 const struct runtime_model *model, struct err *cause,
                                 struct err *err) {
  struct verify *v = r->v;
  struct arena cast = {0};
  struct arrays inputs;
  enum runtime_end end = RUNTIME_STOPPED;
  *cause = (struct err){0};
  if (verify_models_cast(&r->cases[i].inputs, model, &cast, &inputs, cause) == 0)
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
static int run_rounded(struct verify_run *r, struct verify_side *s, struct err *err) {
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

static int run_plain(struct verify_run *r, struct verify_side *s, struct err *err) {
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

// Where nothing is lost, both sides run without rounding: rounding is not the question then.
static int run_side(struct verify_run *r, struct verify_side *s, struct err *err) {
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

// ---- the whole ---------------------------------------------------------------------------------

bool verify_models_listed(const struct verify_options *o) {
  return !o->inputs && o->pipeline && o->pipeline->inputs.n_list > 0;
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
  const struct {
    int64_t output;
    const char *option; // the words after it are those of onnx-conv2matmul
  } asked[] = {{r->v->options.compatible.output, "--verify-output-index"},
               {r->v->options.compatible.length_output, "--verify-length-output-index"}};
  for (int i = 0; i < 2; i++) {
    if (asked[i].output < (int64_t)n) continue;
    err_fill(err, ERR_USAGE, "%s out of range. Model has %u output(s).", asked[i].option, n);
    if (n == 0) return -1;
    const uint32_t first = m->graphs[m->main_graph].outputs;
    const struct quoted names[2] = {quote(model_value_name(m, m->graph_io[first])),
                                    quote(model_value_name(m, m->graph_io[first + n - 1]))};
    if (n == 1)
      return err_hint(err, "%s %s: the model has one output ('%s', index 0)", asked[i].option,
                      integer(asked[i].output).s, names[0].s);
    return err_hint(err, "%s %s: the model has %u outputs ('%s', index 0, to '%s', index %u)",
                    asked[i].option, integer(asked[i].output).s, n, names[0].s, names[1].s, n - 1);
  }
  return 0;
}

// Else there is nothing to compare with.
static bool ran_once(const struct verify_run *r, const struct verify_side *s) {
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
  if (r->side[1].path && !r->infer_result) r->infer_result = verify_cases_inferred(m[1]);
  struct infer *const in[2] = {r->infer, r->side[1].path ? r->infer_result : r->infer};
  for (int side = 0; side < (r->side[1].path ? 2 : 1); side++)
    r->side[side].half = verify_half_computed(m[side], in[side]);
  struct verify_models_bounds of_models = {
      .loses = r->v->loses, .knows = r->v->knows, .rounds = r->v->rounds};
  verify_bounds_of_models(m[0], r->side[1].path ? m[1] : m[0], in, &of_models, a);
  r->bounds = of_models.bounds;
  r->loses = of_models.loses;
  r->equal = of_models.equal;
  if (of_models.why) {
    r->v->found.lossy = of_models.why;
    r->v->found.lossy_more = of_models.more;
  }
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
    r->equal.words = NULL;
  }
  r->judged = r->bounds.bounds;
  r->judged.nonfinite = r->equal.bounds.nonfinite = !o->finite;
  if (!r->loses || r->theirs) return;
  const uint32_t bits = verify_bits_of_models(m[0], m[1]);
  if (!r->given)
    r->unjudged = arena_printf(a, "drawn inputs: %s DIR", o->names.inputs);
  else if (bits > 0 && bits < 4)
    r->unjudged = arena_printf(a, "weights of %u bits: %s sqnr=DB", bits, o->names.metric);
}

// An optimized session rounds activations of products with quantized weights. Where nothing is lost that is turned off: two forms of a product that
// are the same may be rounded in one of them alone.
static void see_rounded(struct verify_run *r) {
  struct verified *f = &r->v->found;
  const char *version = runtime_about(r->v->runtime).version;
  if (!r->v->options.runtime.optimized) return;
  for (int side = 0; side < (r->side[1].path ? 2 : 1); side++)
    f->n_rounded = max_u64(f->n_rounded, verify_rounded_nodes(&r->side[side].model, version));
  f->kept_floats = f->n_rounded > 0 && r->side[1].path && !r->loses && !r->theirs;
  runtime_keep_floats(r->v->runtime, f->kept_floats);
}

static int run(struct verify_run *r, struct err *err) {
  struct verify *v = r->v;
  const struct model *m = &r->side[0].model;
  if (m->main_graph == NO_ID) return err_set(err, ERR_MODEL, "the model has no graph");
  if (check_output_numbers(r, err)) return -1;
  r->infer = verify_cases_inferred(m);
  verify_random_find(&r->random[0], m, r->infer, &v->arena);
  r->given = v->options.inputs || verify_models_listed(&v->options);
  find_bounds(r);
  see_rounded(r);
  if (r->random[0].any && r->side[1].path)
    verify_random_find(&r->random[1], &r->side[1].model, r->infer_result, &v->arena);
  if (verify_cases_find(r, err)) return -1;
  if (v->metrics == VERIFY_METRICS_ALONE) {
    if (run_side(r, &r->side[1], err)) return -1;
    for (uint32_t i = 0; i < r->n_cases; i++)
      if (verify_rows_metrics(r, i, err)) return -1;
    return 0;
  }
  if (run_side(r, &r->side[0], err)) return -1;
  if (v->options.save_case && save_cases(r, err)) return -1;
  if (r->side[1].path && ran_once(r, &r->side[0]) && run_side(r, &r->side[1], err)) return -1;
  verify_rows_begin(r);
  for (uint32_t i = 0; i < r->n_cases; i++)
    if (verify_rows_expected(r, i, err) ||
        (r->side[1].path && (verify_rows_case(r, i, err) || verify_rows_listed(r, i, err) ||
                             verify_rows_metrics(r, i, err))))
      return -1;
  verify_rows_end(r);
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
  struct verify_run r = {.v = v, .allow_links = allow_links, .first_row = v->found.n_rows};
  model_init(&r.side[0].model);
  model_init(&r.side[1].model);
  int rc = open_side(&r.side[0], source, allow_links, err);
  if (rc == 0 && v->imports) rc = import_side(v, &r.side[0], allow_links, err);
  if (rc == 0 && result) rc = open_side(&r.side[1], result, allow_links, err);
  if (rc == 0) rc = run(&r, err);
  const struct verify_side *judged = &r.side[result != NULL];
  if (rc == 0) rc = verify_products_see(v, &judged->model, judged->sources, NULL, err);
  runtime_release(v->runtime);
  runtime_keep_floats(v->runtime, false);
  verify_places_close(r.places);
  if (r.infer) infer_free(r.infer);
  if (r.infer_result) infer_free(r.infer_result);
  if (r.files) array_files_close(r.files);
  close_side(&r.side[0]);
  close_side(&r.side[1]);
  v->found.peak_memory[0] = max_u64(v->found.peak_memory[0], machine_peak_memory());
  v->found.peak_memory[1] = max_u64(v->found.peak_memory[1], runtime_peak_memory(v->runtime));
  v->found.seconds = machine_clock() - v->began;
  return rc;
}
