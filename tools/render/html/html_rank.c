// Sites by what they cost the output (--rank): a table, worst first, and a curve of all of them.
#include "render/html/html_chart.h"
#include "render/html/html_parts.h"
#include "render/html/html_table.h"
#include "render/runs/render_rank.h"
#include "report/run_passes_json.h"

#include <math.h>

enum { K_SITE, K_OPERATOR, K_TENSOR, K_VALUE, K_ALL, K_WEIGHT, K_ACTIVATION, K_BY, K_COLUMNS };

static const struct html_column columns[K_COLUMNS] = {
    [K_SITE] = {"Node", HTML_NAME, "The product (such as MatMul) before the pass"},
    [K_OPERATOR] = {"Operator", HTML_NAME, NULL},
    [K_TENSOR] = {"Weight", HTML_NAME, "The weight of the product"},
    [K_VALUE] = {"Value", HTML_NAME, "The value that the weight is multiplied with"},
    [K_ALL] = {"SQNR, dB", HTML_ONE,
               "SQNR of the product's output, with both errors; a lower SQNR costs more"},
    [K_WEIGHT] = {"Weight, dB", HTML_ONE, "SQNR with only the error of the weight"},
    [K_ACTIVATION] = {"Value, dB", HTML_ONE,
                      "SQNR with only the steps of the value, where they are known"},
    [K_BY] = {"Weighed by", HTML_WORD,
              "gram: second moments of the value; channels: squared mean magnitudes; weight: no "
              "statistics of the value"},
};

static void put_row(const void *ctx, uint32_t i, struct html_cell *cells) {
  const struct rank *k = ctx;
  const struct rank_row *row = &k->rows[i];
  const struct rank_product *p = &k->products[row->product];
  cells[K_SITE].text = span_str(p->name);
  cells[K_OPERATOR].text = span_str(p->op_type);
  cells[K_TENSOR].text = span_str(p->tensor_name);
  cells[K_VALUE].text = span_str(p->value_name);
  cells[K_ALL].number = row->db;
  cells[K_WEIGHT].number = row->weight_db;
  cells[K_ACTIVATION] = (struct html_cell){.number = row->activation_db, .unknown = !row->has_step};
  cells[K_BY].text = span_str(rank_by_word(row));
}

// Rows are worst first already.
static void put_curve(struct html_out *o, const struct rank *k, struct arena *a) {
  struct html_series s = {.name = "output of the product"};
  double *y = arena_alloc(a, k->n_rows * sizeof *y + 1);
  for (uint32_t i = 0; i < k->n_rows; i++)
    if (isfinite(k->rows[i].db)) y[s.n++] = k->rows[i].db;
  s.y = y;
  const struct html_lines lines = {.title = "SQNR of the sites, lowest first",
                                   .x = "sites, by rank",
                                   .y = "SQNR, dB",
                                   .stretched = true,
                                   .least = HTML_DB_LEAST,
                                   .series = &s,
                                   .n_series = 1};
  html_lines(o, &lines);
}

void html_rank(struct html_out *o, const struct run_report *r) {
  const struct rank *k = r->passes ? r->passes->rank : NULL;
  if (!k || k->n_rows == 0) return;
  struct arena a = {0};
  html_raw(o,
           "<section id=\"rank\"><h2>Sites by cost</h2>\n<p>The SQNR of each product's output "
           "after quantization, estimated with the calibration statistics of its input. The first "
           "rows lose most: give these weights more bits, or leave them out.</p>\n");
  put_curve(o, k, &a);
  const struct html_table table = {.id = "ranked",
                                   .caption = "Sites by cost",
                                   .columns = columns,
                                   .n_columns = K_COLUMNS,
                                   .n_rows = k->n_rows,
                                   .sorted_by = K_ALL,
                                   .row = put_row,
                                   .ctx = k};
  html_table(o, &table);
  html_raw(o, "</section>\n");
  arena_free(&a);
}
