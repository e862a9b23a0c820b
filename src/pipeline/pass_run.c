// Runs the steps of a pipeline:
//
//   for each step, or round of a repeat
//     above the cap?  held back, and counted
//     run             with empty scratch arenas; each edit is applied and recorded when it is made
//     check           the structure of the model, if the step made an edit
//
// The check is that of a loaded model (check.h), linear in the rows. It runs after each step, so that the
// error names the pass that leaves a dangling value, a name twice or a node before its inputs, and not a
// later pass that fails because of it. The loader refuses a model with an error, so an error that is found
// here is a mistake of weir. Nodes out of order, outputs that hide a name and domains that are not imported
// are warnings: a loaded model may have them, and the loader counts them; a pass must not add one.
//
// Neighbouring passes that share a walk (run_together) run in one call, with one check after it. Each has
// its own result and its name in its sites.
//
// A repeat, which may be inside another one, ends after the first round in which none of its steps made an
// edit, with all types inferred anew. Passes that undo one another would never end. pass_state.h digests what
// the graphs compute after each round that made new rows: a digest that comes for the third time will come
// again, and the repeat stops with the names of the passes that changed something since the second time. The
// second time proves nothing: types or answers about weights that are known by then may still lead to another
// graph. The limit of rounds ends all other repeats. The model is valid then, as after any step.
#include "pipeline/pass_run.h"

#include "base/dtype.h"
#include "check/check.h"
#include "infer/infer.h"
#include "model/model_live.h"
#include "passes/custom_ops/custom_ops.h"
#include "passes/kit/kit.h"
#include "passes/rules/rules_own.h"
#include "pipeline/pass_state.h"
#include "targets/targets.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { IMPORTS_IR = 3 }; // models with an older IR version import no domains

// The last warning, since no other can be told to be new; and the last import that is missing.
struct flaws {
  struct check_found found;
  uint32_t imports; // missing ones that were reported
  char warning[512], import[512];
};

static void keep_flaw(void *ctx, enum fault_level level, const char *place, const char *message,
                      const struct err *cause) {
  struct flaws *f = ctx;
  (void)cause;
  if (f->found.imports > f->imports)
    snprintf(f->import, sizeof f->import, "%s: %s", place, message);
  else if (level == FAULT_WARNING)
    snprintf(f->warning, sizeof f->warning, "%s: %s", place, message);
  f->imports = f->found.imports;
}

static int refuse_imports(const struct pass *pass, const char *what, struct err *err) {
  err_fill(err, ERR_MODEL,
           "the pass '%s' needs versions of operators that the model does not import: %s",
           pass->name, what);
  return err_hint(err, "add the missing versions to the model's opset_import");
}

static int check_step(const struct pass_run *r, const struct pass *pass, uint32_t n,
                      struct err *err) {
  struct err why = {0};
  struct check_found found;
  struct flaws flaws = {.imports = 0};
  const struct fault_sink sink = {keep_flaw, &flaws};
  const bool stands = check_structure(r->env.m, NULL, &found, &why) == 0;
  if (stands && found.warnings <= r->flaws) return 0;
  check_structure(r->env.m, &sink, &flaws.found, &why);
  // A model without versions may lack imports: are all new warnings of that kind?
  const uint32_t imports = found.imports - (uint32_t)min_u64(found.imports, r->unimported);
  const uint32_t fresh = stands ? found.warnings - r->flaws : 1;
  if (r->unversioned && imports >= fresh) return refuse_imports(pass, flaws.import, err);
  err_set(err, ERR_INTERNAL, "the pass '%s'%s left an invalid model: %s", pass->name,
          n > 1 ? " (or one that runs together with it)" : "",
          !stands            ? why.msg
          : flaws.warning[0] ? flaws.warning
                             : flaws.import);
  return err_hint(err, "this is a bug in weir, please report it; nothing was written");
}

static bool is_held_back(const struct pass_run *r, uint32_t step) {
  return r->pipeline->steps[step].values.pass->exactness > r->pipeline->exactness;
}

static bool has_options(const struct pass_values *v) {
  for (uint32_t o = 0; o < v->pass->n_options; o++)
    if (v->of[o].given) return true;
  return false;
}

// Is one of the n steps before it the same pass, and has one of the two options?
static bool says_otherwise(const struct pipeline_step *step, uint32_t n) {
  for (uint32_t i = 1; i <= n; i++)
    if ((step - i)->values.pass == step->values.pass &&
        (has_options(&step->values) || has_options(&(step - i)->values)))
      return true;
  return false;
}

// Can the step join the walk that the n steps before it share?
static bool goes_with(const struct pipeline_step *step, uint32_t n) {
  const struct pass *before = (step - 1)->values.pass;
  if (rules_own_alike(before, step->values.pass))
    return rules_own_together(before, step->values.pass);
  for (uint32_t i = 1; i <= n; i++)
    if (!rules_own_together((step - i)->values.pass, step->values.pass)) return false;
  return true;
}

// How many steps from `first` on, before `end`, run in one call. Steps between them that are held back do not
// end it.
static uint32_t together(const struct pass_run *r, uint32_t first, uint32_t end) {
  const struct pipeline_step *steps = r->pipeline->steps;
  uint32_t n = 1;
  while (steps[first].values.pass->run_together && first + n < end &&
         steps[first + n].repeat == steps[first].repeat &&
         steps[first + n].values.pass->run_together == steps[first].values.pass->run_together &&
         goes_with(&steps[first + n], n) && !says_otherwise(&steps[first + n], n))
    n++;
  return n;
}

// Infers the types of values that a pass made, before the next pass asks for them.
static void infer_new_nodes(struct pass_run *r) {
  if (!r->env.infer) return;
  infer_more(r->env.infer);
  // The first pass that inferred kept types in a table of its own.
  if (!r->env.types) infer_fill_anew(r->env.infer);
  infer_fill(r->env.infer, r->env.m, &r->types);
  r->env.types = &r->types;
}

static uint32_t rows(const struct pass_run *r) {
  return r->env.m->n_nodes + r->env.m->n_tensors;
}

// Receives the sites of steps while they run.
struct listener {
  struct pass_run *r;
  uint32_t first, n; // steps
  void (*site)(void *ctx, const struct pass_site *site);
  void *ctx;
};

static void note_site(void *ctx, const struct pass_site *site) {
  const struct listener *l = ctx;
  const struct pass_run *r = l->r;
  const char *name = site->pass ? site->pass : r->env.pass->name;
  for (uint32_t i = l->first; i < l->first + l->n && strcmp(site->status, "skipped") != 0; i++)
    if (strcmp(r->pipeline->steps[i].values.pass->name, name) == 0)
      r->steps[i].changed_at = r->env.edits->n;
  if (l->site) l->site(l->ctx, site);
}

static int call_passes(struct pass_run *r, const struct pass **passes, void **options, uint32_t n,
                       struct pass_result *results, struct err *err) {
  if (n == 0) return 0;
  if (passes[0]->run_together)
    return passes[0]->run_together(&r->env, passes, options, n, results, err);
  r->env.result = results;
  const int rc = passes[0]->run(&r->env, options[0], err);
  r->env.result = NULL; // a pass that runs with others has no result of its own here
  return rc;
}

// The pass allocated its answer in its scratch arena.
static void keep_worn(struct pass_run_step *step, const struct pass_graphs *worn,
                      struct arena *arena) {
  if (worn->in == step->worn.in) return;
  bool *in = arena_zalloc(arena, worn->n * sizeof *in);
  memcpy(in, worn->in, worn->n * sizeof *in);
  step->worn = (struct pass_graphs){in, worn->n};
}

// Steps first … first + n - 1, in one call.
static int run_steps(struct pass_run *r, uint32_t first, uint32_t n, struct arena *arena,
                     struct err *err) {
  struct arena lists = {0}, scratch = {0};
  const struct pass **passes = arena_zalloc(&lists, n * sizeof *passes);
  void **options = arena_zalloc(&lists, n * sizeof *options);
  struct pass_result *results = arena_zalloc(&lists, n * sizeof *results);
  const uint64_t before = r->env.edits->n;
  const uint32_t rows_before = rows(r);
  uint32_t count = 0;
  int rc = 0;
  for (uint32_t i = first; i < first + n; i++) {
    r->steps[i].held_back = is_held_back(r, i);
    if (is_held_back(r, i)) continue;
    results[count].worn = r->steps[i].worn;
    options[count] = r->pipeline->steps[i].values.options;
    passes[count++] = r->pipeline->steps[i].values.pass;
    if (r->begin) r->begin(r->ctx, i, r->steps[i].rounds);
  }
  if (count)
    r->env.pass = passes[0]; // else the pass that ran last stays: complete() asks whether one did
  r->env.exactness = r->pipeline->exactness;
  r->env.scratch = &scratch;
  struct listener listener = {r, first, n, r->env.site, r->env.site_ctx};
  r->env.site = note_site;
  r->env.site_ctx = &listener;
  rc = call_passes(r, passes, options, count, results, err);
  r->env.site = listener.site;
  r->env.site_ctx = listener.ctx;
  if (rc == 0 && r->env.edits->n > before) rc = check_step(r, passes[0], count, err);
  if (rc == 0) infer_new_nodes(r);
  for (uint32_t i = first, k = 0; i < first + n; i++) {
    if (is_held_back(r, i)) continue;
    const struct pass_result *result = &results[k++];
    keep_worn(&r->steps[i], &result->worn, arena);
    const uint32_t round = r->steps[i].rounds++;
    if (rows(r) == rows_before) r->steps[i].changed_at = 0; // edits of types or names: no cycle
    r->steps[i].held_back = result->held_back;              // the last round counts
    if (result->half_empty) {
      r->steps[i].half_empty = result->half_empty;
      r->steps[i].fitting_block = result->fitting_block;
    }
    if (result->output_limit && round == 0) {
      assert(r->output_limit == 0); // pipeline_check
      r->output_limit = result->output_limit;
      r->counted = result->counted;
    }
  }
  arena_free(&scratch);
  arena_free(&lists);
  return rc;
}

// The digest of what the graphs computed after a round.
struct state {
  uint64_t digest, edits; // number of edits when it was seen last
  uint32_t times, round;  // how often it was seen; after which round last, from 1
};

// A repeat while it runs.
struct turn {
  uint32_t repeat, round;
  uint64_t before;      // number of edits when the round began
  uint32_t before_rows; // number of nodes and tensors then
  bool edited;          // since all types were inferred
  TABLE(struct state, states);
};

static void begin_turn(const struct pass_run *r, struct turn *t, uint32_t repeat) {
  *t = (struct turn){.repeat = repeat, .before = r->env.edits->n, .before_rows = rows(r)};
}

static void end_turn(struct turn *t) {
  TABLE_FREE(t, states);
}

enum { AGAIN = 3, NAMED = 4 };

// Names a few of the passes that changed something since `state` was seen last.
static void warn_of_circle(const struct pass_run *r, const struct turn *t,
                           const struct state *state) {
  const struct pipeline_repeat *repeat = &r->pipeline->repeats[t->repeat];
  struct arena lists = {0};
  const char *names = "";
  uint32_t n = 0;
  if (!r->env.warn) return;
  for (uint32_t i = repeat->first; i < repeat->first + repeat->n; i++)
    if (r->steps[i].changed_at >= state->edits && n++ < NAMED)
      names = arena_printf(&lists, "%s%s%s", names, n > 1 ? ", " : "",
                           r->pipeline->steps[i].values.pass->name);
  if (n > NAMED) names = arena_printf(&lists, "%s and %u more", names, n - NAMED);
  r->env.warn(
      r->env.warn_ctx,
      arena_printf(&lists,
                   "passes undo each other's changes (%s): after round %u the model is the same "
                   "as after round %u; weir stopped the repeat",
                   n ? names : "weir cannot tell which", t->round + 1, state->round),
      "run them in separate repeats, or leave one of them out");
  arena_free(&lists);
}

// Is the round that ended part of a cycle?
static bool is_circle(const struct pass_run *r, struct turn *t) {
  if (rows(r) == t->before_rows) return false;
  const uint64_t digest = pass_state(r->env.m);
  uint32_t i = 0;
  while (i < t->n_states && t->states[i].digest != digest)
    i++;
  if (i == t->n_states) TABLE_ADD(t, states, 1);
  struct state *state = &t->states[i];
  state->digest = digest;
  if (++state->times == AGAIN) {
    warn_of_circle(r, t, state);
    return true;
  }
  state->edits = r->env.edits->n;
  state->round = t->round + 1;
  return false;
}

static void warn_of_rounds(const struct pass_run *r, uint32_t rounds) {
  char sentence[160];
  if (!r->env.warn) return;
  snprintf(sentence, sizeof sentence,
           "repeated passes still changed the model after %u round%s and were stopped", rounds,
           plural(rounds));
  r->env.warn(
      r->env.warn_ctx, sentence,
      "--rounds of 'weir optimize', or repeat=ROUNDS(...) in a pipeline, sets another limit");
}

// Types that were inferred before an edit stay true, but more may be known now.
static void infer_again(struct pass_run *r, struct turn *t) {
  infer_all(r->env.infer, NULL);
  infer_fill(r->env.infer, r->env.m, &r->types);
  t->edited = false;
}

static bool has_repeats_inside(const struct pipeline *p, uint32_t repeat) {
  for (uint32_t i = 0; i < p->n_repeats; i++)
    if (p->repeats[i].outer == repeat) return true;
  return false;
}

// After the last step of a round: does another round follow?
static bool is_another_round(struct pass_run *r, struct turn *t) {
  const uint32_t rounds = r->pipeline->repeats[t->repeat].rounds;
  const bool changed = r->env.edits->n > t->before;
  if (changed) {
    if (is_circle(r, t)) return false;
    t->edited = true;
    // A round that has rounds inside it costs more than types do: it begins with all that is known.
    if (r->env.infer && has_repeats_inside(r->pipeline, t->repeat)) infer_again(r, t);
  } else {
    if (!t->edited || !r->env.infer) return false;
    infer_again(r, t);
  }
  t->before = r->env.edits->n;
  t->before_rows = rows(r);
  if (++t->round < rounds) return true;
  // The one around it goes on.
  if (changed && r->pipeline->repeats[t->repeat].outer == NO_ID) warn_of_rounds(r, rounds);
  return false;
}

// The step that follows the n steps from `first` on: the next one, or the first of a repeat that has another round.
static uint32_t step_behind(struct pass_run *r, uint32_t first, uint32_t n, struct turn *turns,
                            uint32_t *depth) {
  for (; *depth > 0; *depth -= 1) {
    struct turn *t = &turns[*depth - 1];
    const struct pipeline_repeat *repeat = &r->pipeline->repeats[t->repeat];
    if (first + n < repeat->first + repeat->n) break;
    if (is_another_round(r, t)) return repeat->first;
    end_turn(t);
  }
  return first + n;
}

static int run_all(struct pass_run *r, struct arena *arena, struct err *err) {
  const struct pipeline *p = r->pipeline;
  struct turn turns[PIPELINE_DEPTH + 2]; // repeats that run, the outermost first
  uint32_t depth = 0, open, next;
  int rc = 0;
  r->steps = arena_zalloc(arena, (p->n_steps + (size_t)1) * sizeof *r->steps);
  for (uint32_t i = 0; rc == 0 && i < p->n_steps;) {
    for (open = depth ? turns[depth - 1].repeat : NO_ID;
         (next = pipeline_next_repeat(p, open, i)) != NO_ID; open = next)
      begin_turn(r, &turns[depth++], next);
    const uint32_t n = together(r, i, p->n_steps);
    rc = run_steps(r, i, n, arena, err);
    if (rc == 0) i = step_behind(r, i, n, turns, &depth);
  }
  while (depth > 0)
    end_turn(&turns[--depth]);
  return rc;
}

// Removes declarations that are wrong. Adds functions for operators of onnx_passes.ops that passes made and
// that the model still has.
static int complete(struct pass_run *r, uint32_t first, struct err *err) {
  const uint64_t before = r->env.edits->n;
  struct arena scratch = {0};
  if (r->bare || !r->env.pass) return 0; // no pass ran
  r->env.scratch = &scratch;
  int rc = kit_drop_misdeclared(&r->env, err);
  if (rc == 0) rc = custom_ops_complete(&r->env, first, err);
  if (rc == 0 && r->env.edits->n > before) rc = check_step(r, r->env.pass, 1, err);
  arena_free(&scratch);
  return rc;
}

static int64_t opset_of(const struct model *m) {
  return m->main_graph == NO_ID ? 0 : model_opset_version(m, m->main_graph, span_str(""));
}

// Nodes that have a kernel in ONNX Runtime at the opset before, and have none now.
struct without_kernel {
  const char *names; // "'a' (RoiAlign), 'b' (GlobalLpPool with double) and 2 more"
  uint32_t n,
      made; // of these, by passes, or of an operator that the opset before does not have
};

static struct without_kernel without_kernel(const struct model *m, uint32_t n_before,
                                            int64_t before, struct arena *a) {
  enum { NODES = 4 };
  struct target_kernels k;
  struct without_kernel w = {.names = ""};
  const bool *graphs = model_live_graphs(m, a);
  target_kernels_init(&k, m);
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    enum dtype dtype, was;
    if (!model_live_node(m, graphs, i) || target_kernel_of(&k, i, 0, &dtype) ||
        !target_kernel_of(&k, i, before, &was))
      continue;
    w.made += i >= n_before || !schema_at(schema_of_node(&k.names, i), before);
    if (w.n++ < NODES)
      w.names =
          arena_printf(a, "%s%s%s%s%s", w.names, *w.names ? ", " : "", model_node_words(m, i).s,
                       dtype ? " with " : "", dtype ? dtype_name(dtype) : "");
  }
  target_kernels_done(&k);
  if (w.n > NODES) w.names = arena_printf(a, "%s and %u more", w.names, w.n - NODES);
  return w;
}

// Says which of these nodes had a kernel before: nodes of the model itself, as far as they did not change.
static const char *words_of_before(const struct without_kernel *w, int64_t before,
                                   struct arena *a) {
  const char *own =
      arena_printf(a, "it has one at opset %s, the opset of the input", integer(before).s);
  if (w->made == 0) return own;
  const char *made = w->made == 1 ? "a pass made" : "passes made";
  const char *them = w->made == 1 ? "it" : "them";
  if (w->made < w->n)
    return arena_printf(a, "%s; but %s %u of the nodes, and the input does not have %s", own, made,
                        w->made, them);
  return arena_printf(a, "%s %s; the input, of opset %s, does not have %s", made, them,
                      integer(before).s, them);
}

// A higher opset means the newer version of each operator, for which a runtime may have no kernel.
static void warn_of_kernels(const struct pass_run *r, uint32_t n_before, int64_t before) {
  const int64_t now = opset_of(r->env.m);
  struct arena a = {0};
  if (!r->env.warn || before == 0 || now <= before) return;
  const struct without_kernel w = without_kernel(r->env.m, n_before, before, &a);
  if (target_loads_opset(now) == 0 && target_loads_opset(before))
    r->env.warn(r->env.warn_ctx,
                arena_printf(&a, "no ONNX Runtime up to 1.%u loads a model of opset %s",
                             TARGET_NEWEST, integer(now).s),
                NULL);
  else if (w.n)
    r->env.warn(r->env.warn_ctx,
                arena_printf(&a, "no ONNX Runtime up to 1.%u has a CPU kernel at opset %s for %s",
                             TARGET_NEWEST, integer(now).s, w.names),
                words_of_before(&w, before, &a));
  arena_free(&a);
}

int pass_run(struct pass_run *r, struct arena *arena, struct err *err) {
  const uint32_t n_nodes = r->env.m->n_nodes;
  const int64_t before = opset_of(r->env.m);
  struct check_found found = {0};
  r->unversioned = r->env.m->ir_version < IMPORTS_IR || before < 1;
  if (r->unversioned) check_structure(r->env.m, NULL, &found, &(struct err){0});
  r->unimported = found.imports;
  int rc = run_all(r, arena, err);
  if (rc == 0) rc = complete(r, n_nodes, err);
  if (rc == 0) warn_of_kernels(r, n_nodes, before);
  infer_free(r->env.infer);
  model_types_done(&r->types);
  r->env.infer = NULL;
  r->env.types = NULL;
  return rc;
}
