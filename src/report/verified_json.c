#include "report/verified_json.h"

static const char *const statuses[] = {[VERIFIED_PASSED] = "passed",
                                       [VERIFIED_FAILED] = "failed",
                                       [VERIFIED_NOT] = "not_verified",
                                       [VERIFIED_UNJUDGED] = "not_judged"};

static void write_figures(const struct compare_figures *f, struct json_out *j) {
  json_put_object(j, "figures");
  json_put_double(j, "cosine", f->cosine);
  json_put_uint(j, "elements", f->count);
  json_put_double(j, "largest", f->largest);
  json_put_double(j, "max_abs", f->max_abs);
  json_put_double(j, "mean_abs", f->mean_abs);
  json_put_known(j, "nonfinite_apart_at", f->nonfinite_apart > 0, f->first_apart);
  json_put_uint(j, "nonfinite_apart", f->nonfinite_apart);
  json_put_uint(j, "nonfinite_result", f->nonfinite[1]);
  json_put_uint(j, "nonfinite_source", f->nonfinite[0]);
  json_put_double(j, "p99", f->p99_abs);
  json_put_double(j, "p999", f->p999_abs);
  json_put_double(j, "relative", f->relative);
  json_put_double(j, "sqnr_db", f->sqnr_db);
  json_key(j, "top1");
  if (f->has_top1)
    json_double(j, f->top1);
  else
    json_null(j);
  json_put_uint(j, "unequal", f->unequal);
  json_put_uint(j, "worst_at", f->first_worst);
  json_end_object(j);
}

static void write_row(const struct verified_row *r, struct json_out *j) {
  json_object(j);
  json_put_text(j, "bounds", r->bounds);
  json_put_text(j, "fault", r->fault);
  if (r->figures.count > 0)
    write_figures(&r->figures, j);
  else
    json_put_null(j, "figures");
  json_put_text(j, "inputs", r->drawn ? "drawn" : "given");
  json_put_bool(j, "loses", r->loses);
  json_put_text(j, "name", r->name);
  json_put_text(j, "of", r->of);
  json_put_text(j, "status", statuses[r->end]);
  json_put_known(j, "top1_changed", r->top1_rows > 0, r->top1_changed);
  json_put_known(j, "top1_rows", r->top1_rows > 0, r->top1_rows);
  json_put_known(j, "top1_ties", r->top1_rows > 0, r->top1_ties);
  json_put_bool(j, "unmet", r->unmet);
  if (r->has_value) json_put_double(j, "value", r->value);
  json_put_text(j, "why", r->why);
  json_end_object(j);
}

static void write_rest(const struct verified *f, struct json_out *j) {
  if (!f->rest.asked) {
    json_put_null(j, "rest");
    return;
  }
  json_put_object(j, "rest");
  json_put_uint(j, "differing", f->rest.differs);
  json_put_text(j, "first", f->rest.first);
  json_end_object(j);
}

static uint64_t count_unmet(const struct verified *f) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < f->n_rows; i++)
    n += f->rows[i].unmet;
  return n;
}

void verified_json(const struct verified *f, struct json_out *j) {
  const struct verified_shown shown = verified_shown(f);
  json_put_object(j, "verification");
  if (f->against) json_put_text(j, "against", f->against);
  if (shown.cut_off) json_put_uint(j, "cut_off", shown.cut_off);
  json_put_uint(j, "failed", f->n_failed);
  if (f->kept_floats) json_put_bool(j, "kept_floats", true);
  json_put_array(j, "layers");
  for (uint32_t i = 0; i < f->n_layers; i++) {
    json_object(j);
    write_figures(&f->layers[i].figures, j);
    json_put_text(j, "node", f->layers[i].node);
    json_put_text(j, "value", f->layers[i].value);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_uint(j, "left_out", f->n_left);
  json_put_text(j, "lossy", f->lossy);
  json_put_uint(j, "not_judged", f->n_unjudged);
  json_put_uint(j, "not_verified", f->n_not);
  json_put_bool(j, "overflow_unseen", f->half_unseen);
  if (f->products_unseen && verified_all(f) > 0) json_put_bool(j, "optimized_cut_off", true);
  json_put_uint(j, "passed", f->n_passed);
  json_put_uint(j, "peak_memory_bytes", f->peak_memory[0]);
  write_rest(f, j);
  if (shown.rounded) json_put_uint(j, "rounded", shown.rounded);
  if (f->n_rounded) json_put_uint(j, "rounded_products", f->n_rounded);
  json_put_array(j, "rows");
  for (uint32_t i = 0; i < f->n_rows; i++)
    write_row(&f->rows[i], j);
  json_end_array(j);
  json_put_text(j, "runtime", f->runtime);
  if (f->cuda) json_put_text(j, "provider", "cuda");
  json_put_uint(j, "runtime_peak_memory_bytes", f->peak_memory[1]);
  json_put_text(j, "scope", f->scope);
  json_put_double(j, "seconds", f->seconds);
  json_put_uint(j, "seed", f->drawn.seed);
  json_put_text(j, "sizes", f->drawn.sizes);
  json_put_uint(j, "unmet", count_unmet(f));
  json_end_object(j);
}
