// What passes did, for programs (the member "passes" of the report: an object a step, with every site it
// looked at) and for people (a line a step, and the reasons of what was left alone, each with how many and
// the first by name).
#include "pass_job.h"

#include "report.h"

static void write_text(struct json_out *j, const char *key, const char *text) {
  json_key(j, key);
  json_text(j, text);
}

static void write_site(struct json_out *j, enum pass_id pass, const struct pass_job_site *s) {
  json_object(j);
  json_key(j, "graph");
  json_uint(j, s->site.graph);
  json_key(j, "node_index");
  json_uint(j, s->site.index);
  write_text(j, "node_name", s->name);
  write_text(j, "op_type", s->site.op_type);
  write_text(j, "reason", s->site.reason);
  write_text(j, "status", s->site.status);
  if (s->site.tensor.at) {
    json_key(j, "tensor");
    json_string(j, s->site.tensor);
  }
  if (pass == PASS_conv2matmul) {
    json_key(j, "used_extended_mode");
    json_bool(j, s->site.flag);
  }
  json_end_object(j);
}

static void write_warnings(const struct pass_job *pj, uint32_t step, struct json_out *j) {
  json_key(j, "warnings");
  json_array(j);
  for (uint32_t i = 0; i < pj->n_warnings; i++) {
    const struct pass_job_warning *w = &pj->warnings[i];
    if (w->step != step) continue;
    json_object(j);
    if (w->hint) write_text(j, "hint", w->hint);
    write_text(j, "sentence", w->sentence);
    json_end_object(j);
  }
  json_end_array(j);
}

static void write_step(struct pass_job *pj, uint32_t step, struct json_out *j) {
  const struct pipeline_step *s = &pj->pipeline.steps[step];
  const struct pass_job_counts n = pass_job_count(pj, step);
  json_object(j);
  json_key(j, "converted");
  json_uint(j, n.converted);
  write_text(j, "name", pass_row(s->pass)->name);
  json_key(j, "nodes");
  json_array(j);
  for (uint32_t i = 0; i < pj->n_sites; i++)
    if (pj->sites[i].step == step) write_site(j, s->pass, &pj->sites[i]);
  json_end_array(j);
  json_key(j, "options");
  json_raw(j, span_str(pass_values_json(s->pass, s->values, &pj->arena)));
  json_key(j, "skipped");
  json_uint(j, n.skipped);
  write_warnings(pj, step, j);
  json_end_object(j);
}

void pass_job_report(struct job *job, struct json_out *j) {
  struct pass_job *pj = job->ctx;
  json_key(j, "passes");
  json_array(j);
  for (uint32_t i = 0; i < pj->pipeline.n; i++)
    write_step(pj, i, j);
  json_end_array(j);
}

// Reason words are constants of the passes, a dozen or so for each.
void pass_job_print_skipped(const struct pass_job *pj, uint32_t step, const char *indent) {
  enum { REASONS = 32 };
  const struct pass_job_site *first[REASONS];
  uint32_t count[REASONS], n = 0;
  for (uint32_t i = 0; i < pj->n_sites; i++) {
    const struct pass_job_site *s = &pj->sites[i];
    uint32_t k = 0;
    if (s->step != step || pass_job_converted(s)) continue;
    while (k < n && strcmp(first[k]->site.reason, s->site.reason) != 0)
      k++;
    if (k == REASONS) continue;
    if (k == n) {
      first[n] = s;
      count[n++] = 0;
    }
    count[k]++;
  }
  for (uint32_t k = 0; k < n; k++)
    printf("%sleft alone: %u x %s (such as %s)\n", indent, count[k], first[k]->site.reason,
           quote_str(first[k]->name).s);
}

void pass_job_print(struct job *job) {
  const struct pass_job *pj = job->ctx;
  for (uint32_t i = 0; i < pj->pipeline.n; i++) {
    const struct pass_job_counts n = pass_job_count(pj, i);
    printf("%s: converted %llu, left alone %llu\n", pass_row(pj->pipeline.steps[i].pass)->name,
           (unsigned long long)n.converted, (unsigned long long)n.skipped);
    if (!cli_flag(job->args, OPT_QUIET)) pass_job_print_skipped(pj, i, "  ");
  }
}
