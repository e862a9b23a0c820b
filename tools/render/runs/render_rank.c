// What was ranked, for people. A figure that is infinite, or not known, is said in a word.
#include "render/runs/render_rank.h"

#include "cli/report.h"
#include "report/run_passes_json.h"

#include <math.h>
#include <stdio.h>

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
           render_rank_db(row->activation_db, row->has_step, activation), rank_by_word(row),
           quote_str(k->products[row->product].name).s);
  }
  if (any)
    report_notice(
        "sites with 'weight' count only the errors of their weights: RANGES has no statistics of "
        "their activations, which 'weir calibrate --statistics gram' writes");
}
