#include "candidates/candidates_json.h"

static void put_candidate(struct json_out *j, const struct candidates_row *r) {
  json_object(j);
  json_put_text(j, "algorithm", matmulnbits_algorithm_name(r->x.scheme.algorithm));
  json_put_uint(j, "bits", r->x.scheme.bits);
  json_key(j, "block_size");
  if (r->x.scheme.block)
    json_uint(j, r->x.scheme.block);
  else
    json_text(j, "channel");
  json_put_uint(j, "bytes", r->x.bytes);
  json_put_text(j, "candidate", r->words);
  json_put_double(j, "cosine", figures_cosine(&r->x.figures));
  json_put_double(j, "max_abs_error", r->x.figures.max_error);
  json_put_uint(j, "nonfinite", r->x.figures.nonfinite);
  json_put_double(j, "rmse", figures_rmse(&r->x.figures));
  json_put_double(j, "sqnr_db", figures_sqnr_db(&r->x.figures));
  json_put_double(j, "sum_ee", r->x.figures.ee);
  json_put_double(j, "sum_ve", r->x.figures.ve);
  json_put_double(j, "sum_vv", r->x.figures.vv);
  json_put_bool(j, "symmetric", r->x.scheme.symmetric);
  json_end_object(j);
}

// How many rows.
static uint32_t put_weight(const struct candidates *c, struct json_out *j, uint32_t first) {
  const struct candidates_row *r = &c->rows[first];
  uint32_t n = 0;
  json_object(j);
  json_put_uint(j, "bytes", r->x.source_bytes);
  json_put_array(j, "candidates");
  do
    put_candidate(j, &c->rows[first + n++]);
  while (first + n < c->n_rows && !c->rows[first + n].x.first);
  json_end_array(j);
  json_put_ints(j, "dims", r->x.dims, r->x.rank);
  json_put_text(j, "dtype", dtype_name(r->x.dtype));
  json_put_text(j, "layer", r->layer);
  json_put_string(j, "name", r->x.tensor);
  json_end_object(j);
  return n;
}

void candidates_json(const struct candidates *c, struct json_out *j) {
  json_put_array(j, "not_measured");
  for (uint32_t i = 0; i < c->pj.found.n_sites; i++) {
    if (run_site_converted(&c->pj.found.sites[i])) continue;
    json_object(j);
    json_put_text(j, "node", c->pj.found.sites[i].name);
    json_put_text(j, "reason", c->pj.found.sites[i].reason);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_uint(j, "source_bytes_read", c->source_bytes_read);
  json_put_array(j, "totals");
  for (uint32_t i = 0; i < c->options->n_candidates; i++) {
    struct candidates_row sum;
    if (candidates_total(c, i, &sum)) put_candidate(j, &sum);
  }
  json_end_array(j);
  json_put_array(j, "weights");
  for (uint32_t i = 0; i < c->n_rows && json_is_read(j);) {
    i += put_weight(c, j, i);
    json_flush(j);
  }
  json_end_array(j);
}
