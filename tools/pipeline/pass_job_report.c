// What passes did, for programs (the member "passes" of the report: an object a step, with every
// site it looked at) and for people (a line a step, and the reasons of what was left alone, each
// with how many and the first by name).
#include "passes.h"
#include "quantized.h"
#include "report.h"

enum { WORST_SHOWN = 5 };

static void write_site(struct json_out *j, const struct pass *pass, const struct pass_job_site *s) {
  json_object(j);
  if (s->site.chosen) {
    const struct figures *f = &s->figures;
    json_put_object(j, "chosen");
    json_put_text(j, "by", s->site.chosen_by);
    json_put_double(j, "cosine", figures_cosine(f));
    json_put_double(j, "max_abs", f->max_error);
    json_put_double(j, "rmse", figures_rmse(f));
    json_put_text(j, "scheme", s->site.chosen);
    json_put_double(j, "sqnr_db", figures_sqnr_db(f));
    json_end_object(j);
  }
  json_put_uint(j, "graph", s->site.graph);
  if (s->site.index != NO_ID) json_put_uint(j, "node_index", s->site.index);
  json_put_text(j, "node_name", s->name);
  json_put_text(j, "op_type", s->site.op_type);
  json_put_text(j, "reason", s->site.reason);
  json_put_text(j, "status", s->site.status);
  if (s->site.tensor.at) json_put_string(j, "tensor", s->site.tensor);
  if (pass->flag) json_put_bool(j, pass->flag, s->site.flag);
  json_end_object(j);
}

static void write_step(struct job *job, const struct quantized *q, uint32_t step,
                       struct json_out *j) {
  struct pass_job *pj = job->ctx;
  const struct pass_values *v = &pj->pipeline.steps[step].values;
  const struct pass_run_step *came = &pj->steps[step];
  const struct pass_job_counts n = pass_job_count(pj, step);
  json_object(j);
  json_put_uint(j, "converted", n.converted);
  if (came->half_empty) {
    json_put_uint(j, "fitting_block", came->fitting_block);
    json_put_uint(j, "half_empty", came->half_empty);
  }
  if (came->held_back) json_put_uint(j, "held_back", came->held_back);
  json_put_text(j, "name", v->pass->name);
  json_put_array(j, "nodes");
  for (uint32_t i = 0; i < pj->n_sites; i++)
    if (pj->sites[i].step == step && !pj->sites[i].gone) write_site(j, v->pass, &pj->sites[i]);
  json_end_array(j);
  json_put_raw(j, "options", span_str(pass_values_json(v, &pj->arena)));
  if (pj->pipeline.steps[step].repeat != NO_ID) json_put_uint(j, "rounds", came->rounds);
  json_put_uint(j, "skipped", n.skipped);
  quantized_write(q, job, step, j);
  json_put_array(j, "warnings");
  for (uint32_t i = 0; i < pj->n_warnings; i++) {
    const struct pass_job_warning *w = &pj->warnings[i];
    if (w->step != step) continue;
    json_object(j);
    if (w->hint) json_put_text(j, "hint", w->hint);
    json_put_text(j, "sentence", w->sentence);
    json_end_object(j);
  }
  json_end_array(j);
  json_end_object(j);
}

void pass_job_report(struct job *job, struct json_out *j) {
  const struct pass_job *pj = job->ctx;
  struct quantized q = {0};
  quantized_list(&q, job, pj);
  json_put_array(j, "passes");
  for (uint32_t i = 0; i < pj->pipeline.n_steps; i++)
    write_step(job, &q, i, j);
  json_end_array(j);
  quantized_free(&q);
}

void pass_job_print_skipped(const struct pass_job *pj, uint32_t step, const char *said) {
  struct pass_job_words reasons;
  pass_job_words(pj, step, NULL, &reasons);
  for (uint32_t k = 0; k < reasons.n; k++)
    printf("%s: %u x %s (such as %s)\n", said, reasons.count[k], reasons.word[k],
           quote_str(reasons.first[k]->name).s);
}

// "budget: 20 x 4:32, 26 x 8:128": what measurements picked, by what they were asked for.
static void print_chosen(const struct pass_job *pj, uint32_t step, const char *by) {
  struct pass_job_words schemes;
  pass_job_words(pj, step, by, &schemes);
  for (uint32_t k = 0; k < schemes.n; k++) {
    if (k == 0) printf("  %s: ", by);
    printf("%s%u x %s", k ? ", " : "", schemes.count[k], schemes.word[k]);
  }
  if (schemes.n) putchar('\n');
}

// How many steps from this one on stand for one family's name and found nothing at all; 0: none.
static uint32_t idle_family(const struct pass_job *pj, uint32_t step) {
  const uint32_t n = pj->pipeline.steps[step].named;
  for (uint32_t i = step; i < step + n; i++)
    if (pj->steps[i].rounds == 0 || pj->steps[i].held_back) return 0;
  for (uint32_t i = 0; i < pj->n_sites; i++)
    if (pj->sites[i].step - step < n && !pj->sites[i].gone) return 0;
  return n > 1 ? n : 0;
}

// Of one pass, or of the family that found nothing.
static void print_step(const struct pass_job *pj, uint32_t step, struct span name) {
  const struct pipeline_step *s = &pj->pipeline.steps[step];
  const struct pass_run_step *came = &pj->steps[step];
  const struct pass_job_counts n = pass_job_count(pj, step);
  printf("%.*s: ", (int)name.n, (const char *)name.at);
  if (came->rounds == 0) {
    printf("held back: it is '%s', and only '%s' may change the model\n",
           exactness_name(s->values.pass->exactness), exactness_name(pj->pipeline.exactness));
    return;
  }
  printf("converted %lu, left alone %lu", n.converted, n.skipped);
  if (came->held_back) printf(", held back %lu", came->held_back);
  if (s->repeat != NO_ID) printf(", in %u round%s", came->rounds, plural(came->rounds));
  printf("\n");
}

void pass_job_print(struct job *job) {
  const struct pass_job *pj = job->ctx;
  const bool quiet = cli_flag(job->args, OPT_QUIET);
  struct quantized q = {0};
  for (uint32_t i = 0, idle; i < pj->pipeline.n_steps; i += idle ? idle : 1) {
    const struct pass *pass = pj->pipeline.steps[i].values.pass;
    idle = idle_family(pj, i);
    print_step(pj, i, idle ? passes_family(pass) : span_str(pass->name));
    if (quiet) continue;
    print_chosen(pj, i, "budget");
    print_chosen(pj, i, "gate");
    pass_job_print_skipped(pj, i, "  left alone");
    const struct pass_run_step *came = &pj->steps[i];
    if (came->half_empty)
      report_hint(
          "%u weight%s at most %u rows, so that half of a block or more is empty: a block size "
          "of %u, for all or with --tensor for these, makes them smaller",
          came->half_empty, came->half_empty == 1 ? " has" : "s have", came->fitting_block,
          came->fitting_block);
  }
  if (pj->n_sites == 0 && !quiet)
    report_hint(
        "there is nothing in this model for %s; 'weir inspect' says what weir could do with it",
        pj->pipeline.n_steps == 1 ? "that pass" : "these passes");
  bool stores = false; // what only moved weights has no list of them
  for (uint32_t i = 0; i < pj->pipeline.n_steps; i++)
    stores = stores || pj->pipeline.steps[i].values.pass->stores;
  if (!stores) return;
  quantized_list(&q, job, pj);
  if (!quiet) quantized_print_worst(&q, WORST_SHOWN);
  quantized_print_clipped(&q, WORST_SHOWN);
  quantized_print_closing(&q, job, pj);
  quantized_free(&q);
}
