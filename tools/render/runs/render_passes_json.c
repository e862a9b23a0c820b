// What passes did, for programs: the member "passes" of the report, an object a step, with every
// site it looked at.
#include "pass_edits.h"
#include "passes.h"
#include "render_passes.h"
#include "render_rank.h"
#include "run_report.h"

static void write_site(struct json_out *j, const struct run_site *s) {
  json_object(j);
  if (s->chosen) {
    const struct figures *f = s->figures;
    json_put_object(j, "chosen");
    json_put_text(j, "by", s->chosen_by);
    json_put_double(j, "cosine", figures_cosine(f));
    json_put_double(j, "max_abs", f->max_error);
    if (s->weighed_by) json_put_double(j, "output_sqnr_db", s->output_db);
    json_put_double(j, "rmse", figures_rmse(f));
    json_put_text(j, "scheme", s->chosen);
    json_put_double(j, "sqnr_db", figures_sqnr_db(f));
    if (s->weighed_by) json_put_text(j, "weighed_by", s->weighed_by);
    json_end_object(j);
  }
  json_put_uint(j, "graph", s->graph);
  if (s->index != NO_ID) json_put_uint(j, "node_index", s->index);
  json_put_text(j, "node_name", s->name);
  json_put_text(j, "op_type", s->op_type);
  json_put_text(j, "reason", s->reason);
  json_put_text(j, "status", s->status);
  if (s->tensor.at) json_put_string(j, "tensor", s->tensor);
  if (s->fact.name) json_put_bool(j, s->fact.name, s->fact.holds);
  json_end_object(j);
}

static void write_row(const struct stored_tensor *t, const struct execution *exec,
                      struct json_out *j) {
  const struct recipe *of = &exec->recipes.rows[t->of];
  json_object(j);
  json_put_uint(j, "bytes_after", t->bytes_after);
  json_put_uint(j, "bytes_before", t->bytes_before);
  json_put_ints(j, "dims", recipe_dims(&exec->recipes, t->of), of->rank);
  json_put_text(j, "dtype", dtype_name(of->dtype));
  json_key(j, "error");
  if (t->has_figures) {
    json_object(j);
    json_put_double(j, "cosine", figures_cosine(&t->figures));
    json_put_double(j, "max_abs", t->figures.max_error);
    json_put_uint(j, "overflows", t->figures.overflows);
    json_put_double(j, "rmse", figures_rmse(&t->figures));
    json_put_double(j, "sqnr_db", figures_sqnr_db(&t->figures));
    json_end_object(j);
  } else {
    json_null(j);
  }
  json_put_text(j, "layer", t->layer);
  json_put_string(j, "name", t->name);
  json_put_object(j, "scheme");
  if (t->has_scheme) {
    json_put_uint(j, "bits", t->scheme.bits);
    json_put_uint(j, "block", t->scheme.block);
    json_put_text(j, "format", recipe_format_name(t->scheme.format));
    if (t->scheme.format == FORMAT_LEVELS) json_put_uint(j, "levels", t->scheme.levels);
    json_put_bool(j, "symmetric", t->scheme.symmetric);
  }
  json_end_object(j);
  json_put_text(j, "stored_as", dtype_name(exec->recipes.rows[t->codes].dtype));
  json_put_uint(j, "uses", t->uses);
  json_end_object(j);
}

static void write_stored(const struct stored_tensors *q, const struct execution *exec,
                         uint32_t step, struct json_out *j) {
  json_put_array(j, "tensors");
  for (uint32_t i = 0; i < q->n_rows; i++)
    if (q->rows[i].step == step) write_row(&q->rows[i], exec, j);
  json_end_array(j);
}

static void write_step(struct execution *exec, const struct stored_tensors *q, uint32_t step,
                       struct json_out *j) {
  struct pass_edits *pj = exec->forms.ctx;
  const struct pass_values *v = &pj->pipeline.steps[step].values;
  const struct pass_run_step *came = &pj->steps[step];
  const struct pass_edits_counts n = pass_edits_count(pj, step);
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
    if (pj->sites[i].step == step && !pj->sites[i].gone) write_site(j, &pj->sites[i]);
  json_end_array(j);
  json_put_raw(j, "options", span_str(pass_values_json(v, &pj->arena)));
  if (pj->pipeline.steps[step].repeat != NO_ID) json_put_uint(j, "rounds", came->rounds);
  json_put_uint(j, "skipped", n.skipped);
  write_stored(q, exec, step, j);
  json_put_array(j, "warnings");
  for (uint32_t i = 0; i < pj->n_warnings; i++) {
    const struct run_warning *w = &pj->warnings[i];
    if (w->step != step) continue;
    json_object(j);
    if (w->hint) json_put_text(j, "hint", w->hint);
    json_put_text(j, "sentence", w->sentence);
    json_end_object(j);
  }
  json_end_array(j);
  json_end_object(j);
}

void render_passes_json(struct execution *exec, struct json_out *j) {
  const struct run_report *r = execution_report(exec);
  json_put_array(j, "passes");
  for (uint32_t i = 0; i < r->passes->pipeline.n_steps; i++)
    write_step(exec, &r->stored, i, j);
  json_end_array(j);
  render_rank_json(&r->passes->rank, j);
}
