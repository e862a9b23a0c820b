// Passes run one after the other on the same model and the same edits: what a pass makes, the next
// one sees. The edit log tells them apart by the pass named in each group; here they are told apart
// by the step that runs when a site is reported.
#include "execute/passes/pass_edits.h"

#include "check/check.h"
#include "execute/execution_look.h"
#include "execute/execution_source.h"
#include "execute/execution_stage.h"
#include "passes/conv2matmul/conv2matmul.h"
#include "report/stored_tensors.h"
#include "targets/target_dims.h"

void pass_edits_init(struct pass_edits *pj, struct observer *observer,
                     const struct run_forms *forms) {
  *pj = (struct pass_edits){.observer = observer, .forms = forms};
  pipeline_init(&pj->pipeline);
}

void pass_edits_free(struct pass_edits *pj) {
  TABLES_FREE(&pj->found, steps, sites, warnings, waiting, ranges);
  TABLE_FREE(pj, left);
  rank_done(&pj->rank);
  pipeline_free(&pj->pipeline);
  arena_free(&pj->arena);
  pass_edits_init(pj, pj->observer, pj->forms);
}

// The step that a site is of: the last one that began, or of those that run together with it the one
// of that name.
static uint32_t step_of(const struct pass_edits *pj, const struct pass_site *site) {
  const struct pipeline_step *steps = pj->pipeline.steps;
  for (uint32_t i = pj->step + 1; site->pass && i-- > 0;)
    if (strcmp(steps[i].values.pass->name, site->pass) == 0) return i;
  return pj->step;
}

// Passes report nodes of the same few operators.
static const char *keep_op_type(struct pass_edits *pj, const char *op_type) {
  enum { LAST = 8 };
  for (uint32_t i = pj->found.n_sites; i > 0 && i + LAST > pj->found.n_sites; i--)
    if (strcmp(pj->found.sites[i - 1].op_type, op_type) == 0) return pj->found.sites[i - 1].op_type;
  return arena_string(&pj->arena, span_str(op_type));
}

static const char *name_of(struct pass_edits *pj, const struct pass_site *site) {
  if (site->node_name.n) return arena_string(&pj->arena, site->node_name);
  if (site->index == NO_ID) // no node, or one that is known by its weight
    return arena_string(&pj->arena, site->tensor);
  return arena_printf(&pj->arena, "%s@%u", site->op_type, site->index);
}

static const struct figures *keep_figures(struct pass_edits *pj, const struct figures *of) {
  struct figures *kept = arena_zalloc(&pj->arena, sizeof *kept);
  if (of) *kept = *of;
  return kept;
}

// Names may be of the pass's scratch or the model's tables: reports come later.
static void note_site(void *ctx, const struct pass_site *site) {
  struct pass_edits *pj = ctx;
  struct run_site s = {.op_type = keep_op_type(pj, site->op_type),
                       .status = site->status,
                       .reason = site->reason,
                       .name = name_of(pj, site),
                       .chosen_by = site->chosen_by,
                       .node = site->node,
                       .index = site->index,
                       .graph = site->graph,
                       .codes = site->codes,
                       .of = site->of,
                       .step = step_of(pj, site),
                       .fact = site->fact};
  s.layer = site->layer.n ? arena_string(&pj->arena, site->layer) : s.name;
  if (site->chosen) {
    s.chosen = arena_string(&pj->arena, span_str(site->chosen));
    s.figures = keep_figures(pj, site->figures);
    s.weighed_by = site->weighed_by;
    s.output_db = site->output_db;
  }
  if (site->tensor.at) s.tensor = span_of(arena_string(&pj->arena, site->tensor), site->tensor.n);
  if (!run_site_converted(&s)) {
    if (s.step >= pj->n_left) TABLE_ADD(pj, left, s.step + 1 - pj->n_left);
    s.left_before = pj->left[s.step];
    pj->left[s.step] = pj->found.n_sites + 1;
  }
  *TABLE_PUSH(&pj->found, sites) = s;
}

// What a repeated pass warns of in each round is said once.
static void note_warning(void *ctx, const char *sentence, const char *hint) {
  struct pass_edits *pj = ctx;
  struct run_passes *p = &pj->found;
  for (uint32_t i = 0; i < p->n_warnings; i++)
    if (p->warnings[i].step == pj->step && strcmp(p->warnings[i].sentence, sentence) == 0) return;
  *TABLE_PUSH(p, warnings) =
      (struct run_warning){pj->step, arena_string(&pj->arena, span_str(sentence)),
                           hint ? arena_string(&pj->arena, span_str(hint)) : NULL};
  // A family's options are wrong for all of its passes: the report says so of each, this once.
  for (uint32_t i = 0; i + 1 < p->n_warnings; i++)
    if (p->warnings[i].step != pj->step && strcmp(p->warnings[i].sentence, sentence) == 0) return;
  observer_warning(pj->observer, "%s", sentence);
  if (hint) observer_hint(pj->observer, "%s", hint);
}

// What a repeated pass left alone in an earlier round it looks at again.
static void begin_step(void *ctx, uint32_t step, uint32_t round) {
  struct pass_edits *pj = ctx;
  pj->step = step;
  execution_step(pj->exec, step);
  rank_look(&pj->rank, &pj->pipeline, step, &pj->exec->model);
  if (round == 0 || step >= pj->n_left) return;
  for (uint32_t i = pj->left[step]; i > 0; i = pj->found.sites[i - 1].left_before)
    pj->found.sites[i - 1].gone = true;
  pj->left[step] = 0;
}

static int refuse(void *ctx, const struct err *why, struct err *err) {
  return execution_refused_anywhere(ctx, why, err);
}

struct pass_env pass_edits_env(struct pass_edits *pj, struct execution *exec) {
  return (struct pass_env){.m = &exec->model,
                           .edits = &exec->edits,
                           .site = note_site,
                           .site_ctx = pj,
                           .warn = note_warning,
                           .warn_ctx = pj,
                           .ask = execution_stage_ask,
                           .ask_ctx = exec,
                           .read = execution_look,
                           .read_ctx = exec,
                           .source = execution_source,
                           .source_ctx = exec,
                           .files.ranges = side_inputs_ranges,
                           .files.file = side_inputs_text,
                           .files.ctx = &pj->pipeline.files,
                           .refuse = refuse,
                           .refuse_ctx = exec};
}

// ---- targets -----------------------------------------------------------------------------------

// The k-th different target of the steps; NULL past the last. That of all comes first, also where no
// step has one.
static const struct target *target_at(const struct pipeline *p, uint32_t k) {
  const struct target *seen[PIPELINE_TARGETS];
  uint32_t n = 0;
  if (p->target) seen[n++] = p->target;
  for (uint32_t i = 0; i < p->n_steps && n < PIPELINE_TARGETS; i++) {
    const struct target *t = pipeline_step_target(p, i);
    uint32_t s = 0;
    while (t && s < n && seen[s] != t)
      s++;
    if (t && s == n) seen[n++] = t;
  }
  return k < n ? seen[k] : NULL;
}

// "a, b"
static void add_words(const char **words, const char *more, struct arena *a) {
  *words = arena_printf(a, "%s%s%s", *words, **words ? ", " : "", more);
}

// The presets of the pass dynamic that are used, "option=value" each; in *own what the user gave instead of others.
// Not all of them go with a form that the user gave: the pass says so; what it chooses by the model (by-conv) is no
// value of the option, and goes with all.
static const char *dynamic_presets(const struct pass_values *v, const struct target *t,
                                   const char **own, struct arena *a) {
  const char *used = "";
  for (uint32_t o = 0; o < v->pass->n_options; o++) {
    const char *name = v->pass->options[o].name, *set = target_dynamic_preset(t, name, a);
    if (!set) continue;
    const char *text = v->of[o].given ? pass_values_text(v, o, a) : v->pass->instead(v->of, o);
    if (text ? strcmp(text, set) == 0 : strcmp(set, "by-conv") == 0)
      add_words(&used, arena_printf(a, "%s=%s", name, set), a);
    else if (v->of[o].given)
      add_words(own, pass_values_typed(v, o, a), a);
  }
  return used;
}

// What a step's target sets of its options, and what the user chose instead; NULL: it has no say in them.
static const char *presets_of(const struct pass_values *v, const struct target *t,
                              struct arena *a) {
  const char *own = "";
  uint32_t set = 0, unused = 0;
  bool knows = strcmp(v->pass->name, "dynamic") == 0 && t->dynamic;
  const char *dynamic = knows ? dynamic_presets(v, t, &own, a) : "";
  if (!v->pass->instead) return NULL;
  for (uint32_t o = 0; o < v->pass->n_options; o++) {
    const char *text = v->pass->instead(v->of, o);
    const uint32_t bit = target_preset_of(v->pass->options[o].name);
    if (!bit) continue;
    knows = true;
    if (!text || !pass_values_has_effect(v, o)) continue;
    if (bit == TARGET_SETS_CANDIDATES) unused = TARGET_SETS_BLOCK | TARGET_SETS_SYMMETRIC;
    if (!v->of[o].given || strcmp(pass_values_text(v, o, a), text) == 0)
      set |= bit;
    else
      add_words(&own, pass_values_typed(v, o, a), a);
  }
  if (!knows) return NULL;
  const char *words = *dynamic ? dynamic : target_presets(t, set & ~unused, a);
  if (*own) return arena_printf(a, "%s (you set %s)", *words ? words : "no defaults used", own);
  return *words ? words : arena_printf(a, "the defaults of %s", v->pass->name);
}

static void tell_target(struct observer *o, const struct target *t, const char *words) {
  observer_notice(o, "target %s: %s%s", t->name, words,
                  t->tried ? "" : " (from its documentation, not tested)");
}

// A line for each target with what it sets, or more where steps differ in what they take from it.
void pass_edits_tell_targets(struct pass_edits *pj) {
  const struct pipeline *p = &pj->pipeline;
  const struct target *t;
  for (uint32_t k = 0; (t = target_at(p, k)); k++) {
    const char *last = NULL;
    for (uint32_t i = 0; i < p->n_steps; i++) {
      if (pipeline_step_target(p, i) != t) continue;
      const char *words = presets_of(&p->steps[i].values, t, &pj->arena);
      if (!words || (last && strcmp(words, last) == 0)) continue;
      tell_target(pj->observer, t, words);
      last = words;
    }
    if (!last) tell_target(pj->observer, t, t->about);
  }
}

static void warn_of_dims(const struct model *m, const struct target *t, struct pass_edits *pj) {
  const char *names = target_dims_names(m, &pj->arena);
  const uint32_t nameless = target_dims_nameless(m);
  if (*names)
    observer_warning(
        pj->observer,
        "target %s runs fixed shapes only; inputs of the model have dims without a number: %s",
        t->name, names);
  else
    observer_warning(pj->observer,
                     "target %s runs fixed shapes only; the input '%s' has dims without a number",
                     t->name, quote(model_value_name(m, nameless)).s);
  if (nameless == NO_ID)
    observer_hint(pj->observer,
                  "'weir infer IN OUT --set-dim NAME=NUMBER' fixes them (in a pipeline: the pass "
                  "infer:set_dim=NAME=NUMBER)");
  else
    observer_hint(pj->observer,
                  "'weir infer IN OUT --set-shape %s=1x128' fixes those without a name, --set-dim "
                  "NAME=NUMBER the others (in a pipeline: the pass infer)",
                  quote(model_value_name(m, nameless)).s);
}

static bool casts(const struct pipeline *p) {
  for (uint32_t i = 0; i < p->n_steps; i++)
    if (strcmp(p->steps[i].values.pass->name, "cast") == 0) return true;
  return false;
}

// A hint about the cast is for who casts: the model may have had the type before.
static void warn_of(const struct model *m, const struct target *t, uint32_t set,
                    struct pass_edits *pj) {
  const uint32_t features = set & ~(1u << TARGET_OPEN_DIMS);
  struct arena *a = &pj->arena;
  if (features) {
    observer_warning(pj->observer, "target %s does not run %s everywhere", t->name,
                     target_features_words(features, a));
    if (features != 1u << TARGET_FLOAT16_MATH || casts(&pj->pipeline))
      observer_hint(pj->observer, "%s",
                    target_feature_row((enum target_feature)__builtin_ctz(features))->instead);
  }
  if (set != features) warn_of_dims(m, t, pj);
}

// What the model would need after all passes, and the targets do not run. What part of a target does not
// run is a warning.
static int check_targets(struct execution *exec, struct pass_edits *pj, struct err *err) {
  const struct target *t;
  struct target_needs needs;
  if (!target_at(&pj->pipeline, 0)) return 0;
  target_needs(&exec->model, &needs);
  for (uint32_t k = 0; (t = target_at(&pj->pipeline, k)); k++) {
    const uint32_t lacking = needs.features & target_lacks(t), warned = needs.features & t->warns;
    if (lacking) {
      const struct target_feature_row *row =
          target_feature_row((enum target_feature)__builtin_ctz(lacking));
      err_fill(err, ERR_USAGE, "target %s does not run %s, which the output would have", t->name,
               row->words);
      return err_hint(err, "%s", row->instead);
    }
    if (t->ort && needs.none) {
      err_fill(err, ERR_USAGE, "target %s does not run %s, which the output would have", t->name,
               target_needs_words(&needs, &pj->arena));
      return err_hint(err, "no version of ONNX Runtime up to 1.%u does", TARGET_NEWEST);
    }
    if (t->ort && needs.ort > t->ort) {
      err_fill(err, ERR_USAGE, "target %s does not load %s, which the output would have", t->name,
               target_needs_words(&needs, &pj->arena));
      return err_hint(err, "it needs ONNX Runtime 1.%u or newer", needs.ort);
    }
    if (warned) warn_of(&exec->model, t, warned, pj);
  }
  return 0;
}

// A pass left what is no model: weir's fault, unless what it was given calls operators in a way that they do not have. Then
// that is what the user can do something about.
static void blame_model(const struct execution *exec, struct err *err) {
  struct sources *sources;
  struct model m;
  struct err found = {0};
  model_init(&m);
  if (load_model_at(&m, &sources, exec->in_path, exec->request->allow_links, NULL, &found) == 0 &&
      check_operators(&m, NULL, &found)) {
    *err = (struct err){0};
    err_set(err, ERR_MODEL, "%s", found.msg);
    err_hint(err,
             "passes cannot work with such a node; 'weir check' lists all errors of the model");
  }
  model_free(&m);
  sources_close(sources);
}

static int make_edits(struct execution *exec, struct pass_edits *pj, const int64_t *overcount,
                      struct pass_run *run, struct err *err) {
  *run = (struct pass_run){.pipeline = &pj->pipeline,
                           .env = pass_edits_env(pj, exec),
                           .flaws = exec->flaws,
                           .begin = begin_step,
                           .ctx = pj};
  run->env.overcount = overcount;
  pj->exec = exec;
  pj->found.n_sites = pj->n_left = 0;
  pj->rank.n_products = 0;
  if (execution_begin_edits(exec, pipeline_command(&pj->pipeline), pipeline_options(&pj->pipeline),
                            err))
    return -1;
  const int rc = pass_run(run, &pj->arena, err);
  if (rc && err->kind == ERR_INTERNAL) blame_model(exec, err);
  pj->steps = run->steps;
  exec->sizes.output_limit = run->output_limit;
  exec->sizes.smallest = run->counted.smallest;
  return rc;
}

// ---- budgets -----------------------------------------------------------------------------------
//
// A pass with a budget counts what the output will have; the plan knows. The difference hardly
// depends on what is picked:
//
//   round   the pass's count keeps to      the plan has
//   1       budget, with room for padding  T1
//   2       budget + (count 1 - T1)        T2
//   3       budget + (count 2 - T2)        T3  …
//
// until no room worth a round is left, or nothing changes. Of the rounds whose output fits, the one of
// least error is made again if it was not the last. One pass of a pipeline may have a budget: of two
// nobody could say whose count was wrong, nor who is to have what is left.

enum { ROUNDS = 6, WORTH = 1000 };     // a thousandth of the budget is worth a round
#define SMALLEST (-((int64_t)1 << 62)) // an overcount for which nothing is small enough

struct budget_round {
  bool first;
  int64_t overcount;
  struct pass_counted counted;
  uint64_t bytes; // as planned
  bool fits;
};

static int edit_again(struct execution *exec, struct pass_edits *pj, const struct budget_round *r,
                      struct pass_run *run, struct err *err) {
  if (execution_begin_again(exec, err)) return -1;
  return make_edits(exec, pj, r->first ? NULL : &r->overcount, run, err);
}

static int look_at(struct execution *exec, const struct pass_run *run, struct budget_round *r,
                   struct err *err) {
  r->counted = run->counted;
  if (execution_planned_bytes(exec, &r->bytes, err)) return -1;
  r->fits = r->bytes <= run->output_limit;
  return 0;
}

// Is there another round to try, and with what? False too where nothing is small enough.
static bool next_round(const struct budget_round *now, uint64_t limit, struct budget_round *next) {
  const int64_t seen = (int64_t)(now->counted.bytes - now->bytes);
  *next = (struct budget_round){.overcount = seen};
  if (now->fits) return limit - now->bytes > limit / WORTH;
  if (now->counted.smallest) return false;
  const int64_t less = now->overcount - (int64_t)(now->bytes - limit);
  if (!now->first && less < seen) next->overcount = less;
  return true;
}

static bool is_same_round(const struct budget_round *a, const struct budget_round *b) {
  return a->first == b->first && a->overcount == b->overcount;
}

// What would help where nothing is small enough, if it is much: weights that are no MatMul's yet.
static const char *limit_hint(struct execution *exec) {
  const uint64_t bytes = conv2matmul_weight_bytes(&exec->model);
  if (bytes < exec->sizes.output_limit / 20) return NULL;
  return arena_printf(&exec->arena,
                      "raise --budget, add candidates with fewer bits or larger blocks, or run "
                      "conv2matmul first: %s in pointwise Conv nodes are not quantized",
                      quote_bytes(bytes).s);
}

static int keep_budget(struct execution *exec, struct pass_edits *pj, struct pass_run *run,
                       struct err *err) {
  struct budget_round now = {.first = true}, best = {.fits = false}, next;
  for (uint32_t i = 1;; i++) {
    if (look_at(exec, run, &now, err)) return -1;
    if (now.fits && (!best.fits || now.counted.error < best.counted.error)) best = now;
    if (!next_round(&now, run->output_limit, &next) || i == ROUNDS) break;
    if (is_same_round(&now, &next)) break;
    if (edit_again(exec, pj, &next, run, err)) return -1;
    now = next;
  }
  if (!best.fits && !now.counted.smallest)
    best = (struct budget_round){.overcount = SMALLEST};
  else if (!best.fits)
    best = now;
  if (!is_same_round(&best, &now) && edit_again(exec, pj, &best, run, err)) return -1;
  if (run->counted.smallest) exec->sizes.limit_hint = limit_hint(exec);
  execution_stage_drop(exec);
  return 0;
}

static bool imitates(const struct pipeline *p) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const struct pass_values *v = &p->steps[i].values;
    const uint32_t compat = pass_values_option(v->pass, span_str("compat"));
    if (compat != NO_ID && v->of[compat].given) return true;
  }
  return false;
}

// The passes' part of what all reports are made of.
static void collect(struct execution *exec, struct run_report *r) {
  struct pass_edits *pj = exec->forms.ctx;
  pass_edits_collect(pj, exec);
  r->passes = &pj->found;
  const struct stored_tensors_of of = {.sites = pj->found.sites,
                                       .recipes = &exec->recipes,
                                       .plan = &exec->plan,
                                       .errors = exec->outcome.errors,
                                       .n_sites = pj->found.n_sites,
                                       .n_tensors = exec->model.n_tensors,
                                       .n_errors = exec->outcome.n_errors};
  stored_tensors_list(&r->stored, &of);
}

int pass_edits_edit(struct execution *exec, void *ctx, struct err *err) {
  struct pass_edits *pj = ctx;
  struct pass_run run;
  if (pj->all_external && !exec->wanted->layout.thresholds) exec->layout.inline_below = 0;
  exec->forms = (struct execution_forms){
      pj->forms, !exec->wanted->copies && !imitates(&pj->pipeline), collect, pj};
  if (side_inputs_fit(&pj->pipeline.files, &exec->model, note_warning, pj, err)) return -1;
  if (make_edits(exec, pj, NULL, &run, err)) return -1;
  if (run.output_limit && keep_budget(exec, pj, &run, err)) return -1;
  const struct rank_of of = {&pj->pipeline, pj->found.sites, pj->found.n_sites, exec};
  return check_targets(exec, pj, err) ? -1 : rank_sites(&pj->rank, &of, err);
}

int pass_edits_check(struct pass_edits *pj, struct err *err) {
  if (pipeline_check(&pj->pipeline, err) || rank_check(&pj->pipeline, pj->rank.asked, err) ||
      pipeline_read_files(&pj->pipeline, NULL, err))
    return -1;
  pass_edits_tell_targets(pj);
  return 0;
}
