// The story of a pipeline:
//
//   for each step, or round of a repeat
//     above the cap?  held back, and counted
//     run             with fresh scratches; edits are applied and recorded as they are made
//     check           the structure of the model, if the step made an edit
//
// The check is that of a loaded model (check.h), linear in the rows. It stands here and not in the
// passes, so that the first pass that leaves a dangling value, a name twice or a node before its
// inputs is the one that is named, and not a later one that stumbles over it. A model that failed it at
// load never came here: whatever it finds is our own fault.
//
// A repeat ends with the first round in which none of its steps made an edit. Passes that undo one
// another would go on for ever: the limit of rounds ends that with a warning, and the model is whole
// then as after any step.
#include "pass_run.h"

#include "check.h"

static int check_step(const struct pass_run *r, const struct pass *pass, struct err *err) {
  struct err why = {0};
  if (check_structure(r->env.m, NULL, &why) == 0) return 0;
  err_set(err, ERR_INTERNAL, "the pass '%s' left a model that is not whole: %s", pass->name,
          why.msg);
  return err_hint(err, "this is a defect of weir; nothing was written");
}

static int run_step(struct pass_run *r, uint32_t at, uint32_t round, struct err *err) {
  const struct pass_values *v = &r->pipeline->steps[at].values;
  struct pass_run_step *step = &r->steps[at];
  struct arena scratch = {0}, site_scratch = {0};
  struct pass_result result = {0};
  if (v->pass->exactness > r->pipeline->exactness) {
    step->held_back = 1;
    return 0;
  }
  if (r->begin) r->begin(r->ctx, at, round);
  const uint64_t before = r->env.edits->n;
  r->env.pass = v->pass;
  r->env.exactness = r->pipeline->exactness;
  r->env.scratch = &scratch;
  r->env.site_scratch = &site_scratch;
  int rc = v->pass->run(&r->env, v->options, &result, err);
  arena_free(&scratch);
  arena_free(&site_scratch);
  const uint64_t made = r->env.edits->n - before;
  if (rc == 0 && made > 0) rc = check_step(r, v->pass, err);
  step->rounds++;
  step->edits += made;
  step->held_back = result.held_back; // of the last round: what stays held back
  const uint64_t limit = result.output_limit;
  if (limit && (r->output_limit == 0 || limit < r->output_limit)) r->output_limit = limit;
  return rc;
}

static int run_repeat(struct pass_run *r, const struct pipeline_repeat *repeat, struct err *err) {
  for (uint32_t round = 0; round < repeat->rounds; round++) {
    const uint64_t before = r->env.edits->n;
    for (uint32_t i = repeat->first; i < repeat->first + repeat->n; i++)
      if (run_step(r, i, round, err)) return -1;
    if (r->env.edits->n == before) return 0;
  }
  if (!r->env.warn) return 0;
  char sentence[160];
  snprintf(sentence, sizeof sentence,
           "passes that are repeated still changed the model after %u rounds: they were stopped",
           repeat->rounds);
  r->env.warn(r->env.warn_ctx, sentence, "repeat=ROUNDS(...) or 'rounds' sets another limit");
  return 0;
}

int pass_run(struct pass_run *r, struct arena *arena, struct err *err) {
  const struct pipeline *p = r->pipeline;
  r->steps = arena_zalloc(arena, (p->n_steps + (size_t)1) * sizeof *r->steps);
  for (uint32_t i = 0; i < p->n_steps;) {
    const uint32_t repeat = p->steps[i].repeat;
    if (repeat == NO_ID) {
      if (run_step(r, i++, 0, err)) return -1;
      continue;
    }
    if (run_repeat(r, &p->repeats[repeat], err)) return -1;
    i += p->repeats[repeat].n;
  }
  return 0;
}
