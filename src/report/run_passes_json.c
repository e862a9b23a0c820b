// What passes did, for programs: the member "passes" of the report, an object a step, with every
// site it looked at.
#include "report/run_passes_json.h"

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

static void write_row(const struct stored_tensor *t, const struct recipes *recipes,
                      struct json_out *j) {
  const struct recipe *of = &recipes->rows[t->of];
  json_object(j);
  json_put_uint(j, "bytes_after", t->bytes_after);
  json_put_uint(j, "bytes_before", t->bytes_before);
  json_put_ints(j, "dims", recipe_dims(recipes, t->of), of->rank);
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
  json_put_text(j, "stored_as", dtype_name(t->stored));
  json_put_uint(j, "uses", t->uses);
  json_end_object(j);
}

static void write_stored(const struct run_report *r, uint32_t step, struct json_out *j) {
  const struct stored_tensors *q = &r->stored;
  json_put_array(j, "tensors");
  for (uint32_t i = 0; i < q->n_rows; i++)
    if (q->rows[i].step == step) write_row(&q->rows[i], r->recipes, j);
  json_end_array(j);
}

static void write_step(const struct run_report *r, uint32_t step, struct json_out *j) {
  const struct run_passes *p = r->passes;
  const struct run_step *s = &p->steps[step];
  json_object(j);
  json_put_uint(j, "converted", s->converted);
  if (s->half_empty) {
    json_put_uint(j, "fitting_block", s->fitting_block);
    json_put_uint(j, "half_empty", s->half_empty);
  }
  if (s->held_back) json_put_uint(j, "held_back", s->held_back);
  json_put_text(j, "name", s->pass->name);
  json_put_array(j, "nodes");
  for (uint32_t i = 0; i < p->n_sites; i++)
    if (p->sites[i].step == step && !p->sites[i].gone) write_site(j, &p->sites[i]);
  json_end_array(j);
  json_put_raw(j, "options", span_str(s->options));
  if (s->repeats) json_put_uint(j, "rounds", s->rounds);
  json_put_uint(j, "skipped", s->skipped);
  write_stored(r, step, j);
  json_put_array(j, "warnings");
  for (uint32_t i = 0; i < p->n_warnings; i++) {
    const struct run_warning *w = &p->warnings[i];
    if (w->step != step) continue;
    json_object(j);
    if (w->hint) json_put_text(j, "hint", w->hint);
    json_put_text(j, "sentence", w->sentence);
    json_end_object(j);
  }
  json_end_array(j);
  json_end_object(j);
}

// ---- ranks ---------------------------------------------------------------------------------------

const char *rank_by_word(const struct rank_row *row) {
  static const char *const words[] = {
      [RANK_GRAM] = "gram", [RANK_CHANNELS] = "channels", [RANK_WEIGHT] = "weight"};
  return words[row->by];
}

static void write_ranked(const struct rank *k, const struct rank_row *row, struct json_out *j) {
  const struct rank_product *p = &k->products[row->product];
  json_object(j);
  json_key(j, "activation_sqnr_db");
  if (row->has_step)
    json_double(j, row->activation_db);
  else
    json_null(j);
  json_put_text(j, "by", rank_by_word(row));
  json_put_double(j, "error", row->found.error);
  json_put_text(j, "node_name", p->name);
  json_put_uint(j, "nonfinite", row->found.nonfinite);
  json_put_text(j, "op_type", p->op_type);
  if (row->why) json_put_text(j, "reason", row->why);
  json_put_double(j, "signal", row->found.signal);
  json_put_double(j, "sqnr_db", row->db);
  json_put_text(j, "tensor", p->tensor_name);
  json_put_text(j, "value", p->value_name);
  json_put_double(j, "weight_sqnr_db", row->weight_db);
  json_end_object(j);
}

static void write_rank(const struct rank *k, struct json_out *j) {
  json_put_array(j, "rank");
  for (uint32_t i = 0; i < k->n_rows; i++)
    write_ranked(k, &k->rows[i], j);
  json_end_array(j);
}

// ---- all of it -----------------------------------------------------------------------------------

void run_passes_json(const struct run_report *r, struct json_out *j) {
  json_put_array(j, "passes");
  for (uint32_t i = 0; i < r->passes->n_steps; i++)
    write_step(r, i, j);
  json_end_array(j);
  if (r->passes->rank) write_rank(r->passes->rank, j);
}
