// Questions about the elements of constants that are not at hand: all positive? finite? an identity?
//
//   condition ──unknown──▶ would it hold, if only they had an answer? ───▶ put down
//                                                                             │ all graphs are done
//   condition ◀──known── walk again ◀── facts of n recipes ◀── one question ◀─┘
//
// A question is answered by a read of all of the constant, so it is asked only where everything else
// is right: the condition, evaluated once more with all open questions answered by yes, or all by
// no, must hold; and the cap on exactness and the choice of nodes must let the rule fire. The node
// then waits: no later rule is tried there before the answer is known, so that it does not matter to the
// model when it came. A condition that holds only for mixed answers (one yes and one no) stays unknown.
//
// Results ask too, where folding must know that there is no NaN in what it makes (rules_steps.c): the
// result, built once more with all of that granted, must be whole.
//
// Questions are put down by recipe, each once in a run, and asked in batches, when no rule fires any
// more without them. A run without candidates asks nothing.
#include "passes/rules/inside/rules_inside.h"

static struct rules_fact *fact_of(struct rules_run *run, uint32_t recipe) {
  const uint32_t n = run->k.r->n_rows;
  if (run->n_fact_of < n) TABLE_ADD(run, fact_of, n - run->n_fact_of);
  if (run->fact_of[recipe] == 0) {
    *TABLE_PUSH(run, facts) = (struct rules_fact){.recipe = recipe};
    run->fact_of[recipe] = run->n_facts;
  }
  return &run->facts[run->fact_of[recipe] - 1];
}

bool rules_facts(struct rules_run *run, const struct rules_value *v, bool multiples,
                 struct tensor_stats *out) {
  if (!run->k.env->ask || run->options->once || !dtype_is_plain_number(rules_type_of(run, v).dtype))
    return false;
  const uint32_t recipe = rules_recipe_of(run, v);
  if (recipe == NO_ID) return false;
  struct rules_fact *f = fact_of(run, recipe);
  if (f->known && (!multiples || f->has_multiples)) {
    *out = f->facts;
    return true;
  }
  f->wants_multiples = f->wants_multiples || multiples;
  *TABLE_PUSH(run, wanted) = (uint32_t)(f - run->facts);
  return false;
}

struct rules_value rules_assumed(const struct rules_run *run) {
  return run->assume == RULES_ASSUME_NOTHING ? rules_unknown()
                                             : rules_int(run->assume == RULES_ASSUME_YES);
}

static struct rules_value suppose(struct rules_run *run, enum rules_assumption what,
                                  uint32_t program) {
  run->assume = what;
  run->n_terms = 0;
  const struct rules_value v = rules_eval(run, program);
  run->assume = RULES_ASSUME_NOTHING;
  run->n_terms = 0;
  return v;
}

static bool put_down(struct rules_run *run, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    *TABLE_PUSH(run, asking) = run->wanted[i];
  return true;
}

bool rules_facts_decide(struct rules_run *run) {
  const uint32_t n = run->n_wanted; // what another way through the condition wants is not wanted
  for (uint32_t i = RULES_ASSUME_YES; i <= RULES_ASSUME_NO; i++) {
    const struct rules_value holds = suppose(run, (enum rules_assumption)i, run->rule->where);
    if (rules_truth(&holds) == 1) return put_down(run, n);
  }
  return false;
}

bool rules_facts_complete(struct rules_run *run) {
  const struct rules_value made = suppose(run, RULES_ASSUME_YES, run->rule->result);
  if (made.kind == RULES_UNKNOWN || made.kind == RULES_ABSENT) return false;
  return put_down(run, run->n_wanted); // all that it needs on its way
}

// Those of the list that want multiples, or those that do not: one question.
static int ask(struct rules_run *run, bool multiples, bool *any, struct err *err) {
  struct arena scratch = {0};
  uint32_t *of = arena_alloc(&scratch, (run->n_asking + (size_t)1) * sizeof *of), n = 0;
  uint32_t *which = arena_alloc(&scratch, (run->n_asking + (size_t)1) * sizeof *which);
  struct tensor_stats *found = arena_alloc(&scratch, (run->n_asking + (size_t)1) * sizeof *found);
  for (uint32_t i = 0; i < run->n_asking; i++) {
    struct rules_fact *f = &run->facts[run->asking[i]];
    if (f->wants_multiples != multiples || (f->known && (!multiples || f->has_multiples))) continue;
    f->known = true; // below, or the run ends
    f->has_multiples = multiples;
    which[n] = run->asking[i];
    of[n++] = f->recipe;
  }
  int rc = n > 0 ? findings_ask(run->k.env, of, n, multiples, found, err) : 0;
  for (uint32_t i = 0; i < n && rc == 0; i++)
    run->facts[which[i]].facts = found[i];
  *any = *any || n > 0;
  arena_free(&scratch);
  return rc;
}

int rules_facts_ask(struct rules_run *run, struct err *err) {
  bool any = false;
  if (ask(run, false, &any, err) || ask(run, true, &any, err)) return -1;
  run->n_asking = 0;
  return any;
}
