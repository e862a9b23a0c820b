// What was ranked, for people and programs. Numbers of JSON read back exactly; a figure that is infinite, or not known, is null
// or said in a word.
#include "render/runs/render_rank.h"

#include "cli/report.h"

#include <math.h>
#include <stdio.h>

const char *render_rank_by(const struct rank_row *row) {
  static const char *const words[] = {
      [RANK_GRAM] = "gram", [RANK_CHANNELS] = "channels", [RANK_WEIGHT] = "weight"};
  return words[row->by];
}

const char *render_rank_db(double db, bool known, char out[16]) {
  if (!known)
    snprintf(out, 16, "-");
  else if (isnan(db))
    snprintf(out, 16, "nan");
  else if (isinf(db))
    snprintf(out, 16, "exact");
  else
    snprintf(out, 16, "%.2f", db);
  return out;
}

void render_rank_text(const struct rank *k) {
  char all[16], weight[16], activation[16];
  bool any = false;
  puts("SQNR dB   weight  activation  by        site");
  for (uint32_t i = 0; i < k->n_rows && report_stdout_alive(); i++) {
    const struct rank_row *row = &k->rows[i];
    any = any || row->by == RANK_WEIGHT;
    printf("%7s  %7s  %10s  %-8s  %s\n", render_rank_db(row->db, true, all),
           render_rank_db(row->weight_db, true, weight),
           render_rank_db(row->activation_db, row->has_step, activation), render_rank_by(row),
           quote_str(k->products[row->product].name).s);
  }
  if (any)
    report_notice(
        "sites with 'weight' count only the errors of their weights: RANGES has no statistics of "
        "their activations, which 'weir calibrate --statistics gram' writes");
}

static void write_row(const struct rank *k, const struct rank_row *row, struct json_out *j) {
  const struct rank_product *p = &k->products[row->product];
  json_object(j);
  json_key(j, "activation_sqnr_db");
  if (row->has_step)
    json_double(j, row->activation_db);
  else
    json_null(j);
  json_put_text(j, "by", render_rank_by(row));
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

void render_rank_json(const struct rank *k, struct json_out *j) {
  json_put_array(j, "rank");
  for (uint32_t i = 0; i < k->n_rows; i++)
    write_row(k, &k->rows[i], j);
  json_end_array(j);
}
