// What passes did, as data for reports (run_passes.h): what renderers say of it, and what else could have been done.
#include "execute/passes/pass_edits.h"

#include "passes/custom_ops/custom_ops.h"
#include "pipeline/estimate.h"

// The values of an option that is a list: "MatMul, Gemm or Gather" with " or " before the last; NULL: the pass has no such option, or it no value.
static const char *list_words(const struct pass_values *v, const char *name, const char *last,
                              struct arena *a) {
  const uint32_t option = pass_values_option(v->pass, span_str(name));
  const char *words = NULL;
  if (option == NO_ID) return NULL;
  const struct pass_value *of = &v->of[option];
  for (uint32_t i = 0; i < of->n_list; i++) {
    const struct quoted one = quote_str(of->list[i]);
    const char *between = i + 1 < of->n_list ? ", " : last;
    words = arena_printf(a, "%s%s%s", words ? words : "", words ? between : "", one.s);
  }
  return words;
}

static struct run_unasked unasked_of(const struct model *m, const struct pass_values *v,
                                     bool is_command, struct arena *a) {
  const struct matmulnbits_options *o = v->options;
  struct run_unasked found = {.words = NULL};
  uint32_t others = MATMULNBITS_ALL_OPS & ~o->op_types;
  found.words = estimate_words(m, &others, a, &found.bytes);
  if (found.words)
    found.op_types = estimate_op_types(o->op_types | others, is_command ? "," : "+", a);
  return found;
}

static void count_nodes(struct run_passes *p, const struct model *m) {
  p->nodes[0] = p->nodes[1] = p->convs = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    const bool lives = !(m->nodes[i].flags & NODE_DEAD);
    p->nodes[0] += !(m->nodes[i].flags & NODE_NEW);
    p->nodes[1] += lives;
    p->convs += lives && model_op_is(m, i, "Conv");
  }
}

static struct run_step step_of(struct pass_edits *pj, uint32_t i, const struct model *m) {
  const struct pipeline_step *s = &pj->pipeline.steps[i];
  const struct pass_values *v = &s->values;
  struct run_step step = {.pass = v->pass,
                          .word = s->word,
                          .named = s->named,
                          .options = pass_values_json(v, &pj->arena),
                          .gate = list_words(v, "gate", ", ", &pj->arena),
                          .ops = list_words(v, "op-types", " or ", &pj->arena),
                          .is_command = pj->pipeline.n_steps == 1 && pj->pass == v->pass,
                          .repeats = s->repeat != NO_ID};
  if (pj->steps) {
    step.rounds = pj->steps[i].rounds;
    step.held_back = pj->steps[i].held_back;
    step.half_empty = pj->steps[i].half_empty;
    step.fitting_block = pj->steps[i].fitting_block;
  }
  if (strcmp(v->pass->name, "quantize") == 0)
    step.unasked = unasked_of(m, v, step.is_command, &pj->arena);
  return step;
}

static void find_waiting(struct run_passes *p, const struct model *m) {
  struct arena a = {0};
  const bool *foldable = NULL;
  for (uint32_t i = 0; i < p->n_sites; i++) {
    const struct run_site *s = &p->sites[i];
    if (s->gone || s->node == NO_ID || run_site_converted(s)) continue;
    if (strcmp(s->reason, "non_constant_weight") != 0) continue;
    if (!foldable) foldable = estimate_foldable(m, &a);
    if (estimate_waits_for_fold(m, foldable, s->node)) *TABLE_PUSH(p, waiting) = i;
  }
  arena_free(&a);
}

static void find_foreign(struct run_passes *p, const struct model *m) {
  const uint32_t node = custom_ops_not_runnable(m);
  if (node == NO_ID || !custom_ops_is_imported(model_name(m, m->nodes[node].domain))) return;
  for (uint32_t i = 0; i < p->n_steps; i++)
    if (custom_ops_makes_runnable(p->steps[i].pass->name)) return;
  p->foreign = model_name(m, m->nodes[node].op_type);
  p->foreign_domain = model_name(m, m->nodes[node].domain);
}

void pass_edits_collect(struct pass_edits *pj, const struct execution *exec) {
  struct run_passes *p = &pj->found;
  const struct side_inputs *given = &pj->pipeline.files;
  p->n_steps = p->n_waiting = p->n_ranges = 0;
  for (uint32_t i = 0; i < pj->pipeline.n_steps; i++)
    *TABLE_PUSH(p, steps) = step_of(pj, i, &exec->model);
  for (uint32_t i = 0; i < p->n_sites; i++) {
    struct run_step *step = &p->steps[p->sites[i].step];
    step->converted += !p->sites[i].gone && run_site_converted(&p->sites[i]);
    step->skipped += !p->sites[i].gone && !run_site_converted(&p->sites[i]);
  }
  find_waiting(p, &exec->model);
  find_foreign(p, &exec->model);
  for (uint32_t i = 0; i < given->n; i++)
    if (given->list[i]->reads == PASS_READS_RANGES)
      *TABLE_PUSH(p, ranges) = (struct run_ranges){given->list[i]->path, &given->list[i]->ranges};
  count_nodes(p, &exec->model);
  p->rank = pj->rank.asked ? &pj->rank : NULL;
  p->is_command = pj->pass;
  p->verbose = pj->pipeline.verbose;
}
