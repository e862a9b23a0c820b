// The story of a pipeline:
//
//   for each step, or round of a repeat
//     above the cap?  held back, and counted
//     run             with fresh scratches; edits are applied and recorded as they are made
//     check           the structure of the model, if the step made an edit
//
// The check is that of a loaded model (check.h), linear in the rows. It stands here and not in the
// passes, so that the first pass that leaves a dangling value, a name twice or a node before its
// inputs is the one that is named, and not a later one that stumbles over it. A model with an error never
// came here: whatever is found is our own fault. Nodes out of order, outputs that hide a name and domains
// that are not imported are warnings of a loaded model, which may have them; a pass must not add one, so
// the load counts them.
//
// Passes that are one walk together (run_together) are one call where they are neighbours, with one
// check behind it; what came of each is told apart by their results, and by the names in their sites.
//
// A repeat ends with the first round in which none of its steps made an edit, by what is known if all is inferred anew. Passes that undo one
// another would go on for ever: the limit of rounds ends that with a warning, and the model is whole
// then as after any step.
#include "pass_run.h"

#include "check.h"
#include "infer.h"
#include "rules_own.h"

#include <assert.h>
#include <stdio.h>

// The last one: which of them is new, nobody knows.
static void keep_warning(void *ctx, enum fault_level level, const char *place, const char *message,
                         const struct err *cause) {
  (void)cause;
  if (level == FAULT_WARNING) snprintf(ctx, 512, "%s %s", place, message);
}

static int check_step(const struct pass_run *r, const struct pass *pass, uint32_t n,
                      struct err *err) {
  struct err why = {0};
  uint32_t warnings;
  char warning[512] = "";
  const struct fault_sink sink = {keep_warning, warning};
  if (check_structure(r->env.m, NULL, &warnings, &why) == 0) {
    if (warnings <= r->flaws) return 0;
    check_structure(r->env.m, &sink, NULL, &why);
  }
  err_set(err, ERR_INTERNAL, "the pass '%s'%s left an invalid model: %s", pass->name,
          n > 1 ? " (or one that runs together with it)" : "", warning[0] ? warning : why.msg);
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

// Does the step say again, with options, what one of the n steps before it says?
static bool says_otherwise(const struct pipeline_step *step, uint32_t n) {
  for (uint32_t i = 1; i <= n; i++)
    if ((step - i)->values.pass == step->values.pass &&
        (has_options(&step->values) || has_options(&(step - i)->values)))
      return true;
  return false;
}

// May the step be one walk with each of the n steps before it?
static bool goes_with(const struct pipeline_step *step, uint32_t n) {
  for (uint32_t i = 1; i <= n; i++)
    if (!rules_own_together((step - i)->values.pass, step->values.pass)) return false;
  return true;
}

// How many steps from `first` on, before `end`, are one call. Held back ones between them are no
// obstacle.
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

// What a pass made is inferred before the next one asks.
static void infer_new_nodes(struct pass_run *r) {
  if (!r->env.infer) return;
  infer_more(r->env.infer);
  // The first pass that inferred had a table of its own.
  if (!r->env.types) infer_fill_anew(r->env.infer);
  infer_fill(r->env.infer, r->env.m, &r->types);
  r->env.types = &r->types;
}

// Steps first … first + n - 1, in one call.
static int run_steps(struct pass_run *r, uint32_t first, uint32_t n, uint32_t round,
                     struct err *err) {
  struct arena lists = {0}, scratch = {0};
  const struct pass **passes = arena_zalloc(&lists, n * sizeof *passes);
  void **options = arena_zalloc(&lists, n * sizeof *options);
  struct pass_result *results = arena_zalloc(&lists, n * sizeof *results);
  const uint64_t before = r->env.edits->n;
  uint32_t count = 0;
  int rc = 0;
  for (uint32_t i = first; i < first + n; i++) {
    r->steps[i].held_back = is_held_back(r, i);
    if (is_held_back(r, i)) continue;
    options[count] = r->pipeline->steps[i].values.options;
    passes[count++] = r->pipeline->steps[i].values.pass;
    if (r->begin) r->begin(r->ctx, i, round);
  }
  r->env.pass = passes[0];
  r->env.exactness = r->pipeline->exactness;
  r->env.scratch = &scratch;
  if (count > 0 && passes[0]->run_together)
    rc = passes[0]->run_together(&r->env, passes, options, count, results, err);
  else if (count > 0)
    rc = passes[0]->run(&r->env, options[0], results, err);
  if (rc == 0 && r->env.edits->n > before) rc = check_step(r, passes[0], count, err);
  if (rc == 0) infer_new_nodes(r);
  for (uint32_t i = first, k = 0; i < first + n; i++) {
    if (is_held_back(r, i)) continue;
    const struct pass_result *result = &results[k++];
    r->steps[i].rounds++;
    r->steps[i].held_back = result->held_back; // of the last round: what stays held back
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

static int run_repeat(struct pass_run *r, const struct pipeline_repeat *repeat, struct err *err) {
  const uint32_t end = repeat->first + repeat->n;
  bool edited = false; // since all was inferred
  for (uint32_t round = 0; round < repeat->rounds; round++) {
    const uint64_t before = r->env.edits->n;
    for (uint32_t i = repeat->first, n; i < end; i += n) {
      n = together(r, i, end);
      if (run_steps(r, i, n, round, err)) return -1;
    }
    if (r->env.edits->n > before) {
      edited = true;
      continue;
    }
    if (!edited || !r->env.infer) return 0;
    // What was inferred before an edit stays true, but more may be known now.
    infer_all(r->env.infer, NULL);
    infer_fill(r->env.infer, r->env.m, &r->types);
    edited = false;
  }
  if (!edited || !r->env.warn) return 0;
  char sentence[160];
  snprintf(sentence, sizeof sentence,
           "repeated passes still changed the model after %u round%s and were stopped",
           repeat->rounds, plural(repeat->rounds));
  r->env.warn(
      r->env.warn_ctx, sentence,
      "--rounds of 'weir optimize', or repeat=ROUNDS(...) in a pipeline, sets another limit");
  return 0;
}

static int run_all(struct pass_run *r, struct arena *arena, struct err *err) {
  const struct pipeline *p = r->pipeline;
  r->steps = arena_zalloc(arena, (p->n_steps + (size_t)1) * sizeof *r->steps);
  for (uint32_t i = 0, n; i < p->n_steps; i += n) {
    const uint32_t repeat = p->steps[i].repeat;
    n = repeat == NO_ID ? together(r, i, p->n_steps) : p->repeats[repeat].n;
    if (repeat == NO_ID ? run_steps(r, i, n, 0, err) : run_repeat(r, &p->repeats[repeat], err))
      return -1;
  }
  return 0;
}

int pass_run(struct pass_run *r, struct arena *arena, struct err *err) {
  const int rc = run_all(r, arena, err);
  infer_free(r->env.infer);
  model_types_done(&r->types);
  r->env.infer = NULL;
  r->env.types = NULL;
  return rc;
}
