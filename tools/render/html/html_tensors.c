// The error of every tensor that was stored in another form: charts of all of them, along the graph, and a table with each.
//
// What is drawn is in the table, and what is in the table is what the JSON report says of the tensor.
#include "render/html/html_chart.h"
#include "render/html/html_parts.h"
#include "render/html/html_table.h"

#include <math.h>
#include <stdlib.h>

enum {
  T_NAME,
  T_LAYER,
  T_STORED,
  T_DIMS,
  T_SQNR,
  T_COSINE,
  T_MAX,
  T_RMSE,
  T_BEFORE,
  T_AFTER,
  T_COLUMNS
};

static const struct html_column columns[T_COLUMNS] = {
    [T_NAME] = {"Tensor", HTML_NAME, "The initializer in the input"},
    [T_LAYER] = {"First used by", HTML_NAME, "The first node that reads it"},
    [T_STORED] = {"Stored as", HTML_WORD, "The new form"},
    [T_DIMS] = {"Dims", HTML_WORD, NULL},
    [T_SQNR] = {"SQNR, dB", HTML_ONE,
                "Signal to quantization noise; higher is better, one bit is about 6 dB"},
    [T_COSINE] = {"Cosine", HTML_SIX,
                  "Cosine of the angle between the tensor before and after; 1: the same direction"},
    [T_MAX] = {"Max abs error", HTML_SHORT, "The largest difference of an element"},
    [T_RMSE] = {"RMSE", HTML_SHORT, "Root of the mean squared difference"},
    [T_BEFORE] = {"Before", HTML_BYTES, "Bytes"},
    [T_AFTER] = {"After", HTML_BYTES, "Bytes, with scales and zero points"},
};

struct rows {
  const struct run_report *r;
  const char **stored;                 // by row: how it is stored
  char (*dims)[sizeof(struct quoted)]; // two: of this row and the one before
};

static const char *stored_as(const struct run_report *r, const struct stored_tensor *t,
                             struct arena *a) {
  return t->has_scheme ? stored_tensors_scheme_words(&t->scheme, a)
                       : dtype_name(r->recipes->rows[t->codes].dtype);
}

// Rows that are stored alike share their words.
static const char **stored_words(const struct run_report *r, struct arena *a) {
  const struct stored_tensors *q = &r->stored;
  const char **words = arena_zalloc(a, q->n_rows * sizeof *words + 1);
  for (uint32_t i = 0; i < q->n_rows; i++) {
    struct arena scratch = {0};
    const char *now = stored_as(r, &q->rows[i], &scratch);
    for (uint32_t k = i; k-- > 0 && i - k <= 16 && !words[i];)
      if (strcmp(words[k], now) == 0) words[i] = words[k];
    if (!words[i]) words[i] = arena_string(a, span_str(now));
    arena_free(&scratch);
  }
  return words;
}

static struct html_cell number(const struct stored_tensor *t, double x) {
  return (struct html_cell){.number = x, .unknown = !t->has_figures};
}

static void put_row(const void *ctx, uint32_t i, struct html_cell *cells) {
  const struct rows *rows = ctx;
  const struct stored_tensor *t = &rows->r->stored.rows[i];
  const struct recipe *of = &rows->r->recipes->rows[t->of];
  const struct quoted dims = quote_dims(recipe_dims(rows->r->recipes, t->of), of->rank);
  memcpy(rows->dims[i % 2], dims.s, sizeof dims.s);
  cells[T_NAME].text = t->name;
  cells[T_LAYER].text = span_str(t->layer);
  cells[T_STORED].text = span_str(rows->stored[i]);
  cells[T_DIMS].text = span_str(rows->dims[i % 2]);
  cells[T_SQNR] = number(t, figures_sqnr_db(&t->figures));
  cells[T_COSINE] = number(t, figures_cosine(&t->figures));
  cells[T_MAX] = number(t, t->figures.max_error);
  cells[T_RMSE] = number(t, figures_rmse(&t->figures));
  cells[T_BEFORE].number = (double)t->bytes_before;
  cells[T_AFTER].number = (double)t->bytes_after;
}

// ---- in order ----------------------------------------------------------------------------------

struct ranked {
  double db;
  uint32_t row;
};

static int by_db(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  if (x->db != y->db) return x->db < y->db ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

// Worst first; an error that is not a number is worse than any, and what has none comes last.
static uint32_t *worst_first(const struct stored_tensors *q, struct arena *a) {
  struct ranked *ranked = arena_alloc(a, q->n_rows * sizeof *ranked + 1);
  uint32_t *order = arena_alloc(a, q->n_rows * sizeof *order + 1);
  for (uint32_t i = 0; i < q->n_rows; i++) {
    const struct stored_tensor *t = &q->rows[i];
    const double db = t->has_figures ? figures_sqnr_db(&t->figures) : (double)INFINITY;
    ranked[i] = (struct ranked){isnan(db) ? -(double)INFINITY : db, i};
  }
  qsort(ranked, q->n_rows, sizeof *ranked, by_db);
  for (uint32_t i = 0; i < q->n_rows; i++)
    order[i] = ranked[i].row;
  return order;
}

// ---- along the graph ---------------------------------------------------------------------------

// One of `of`'s figures of the tensors that are stored so, each at its place.
static struct html_series series_of(const struct rows *rows, const char *stored, bool db,
                                    struct arena *a) {
  const struct stored_tensors *q = &rows->r->stored;
  double *y = arena_alloc(a, q->n_rows * sizeof *y + 1);
  struct html_series s = {.name = stored, .y = y, .n = q->n_rows};
  for (uint32_t i = 0; i < q->n_rows; i++) {
    const struct stored_tensor *t = &q->rows[i];
    y[i] = (double)NAN;
    if (!t->has_figures || strcmp(rows->stored[i], stored) != 0) continue;
    y[i] = db ? figures_sqnr_db(&t->figures) : t->figures.max_error;
    if (db && isfinite(y[i])) s.usual = stored_tensors_usual_db(t);
  }
  return s;
}

static void put_charts(struct html_out *o, const struct rows *rows, struct arena *a) {
  const struct stored_tensors *q = &rows->r->stored;
  struct html_series db[HTML_SERIES_MAX], most[HTML_SERIES_MAX];
  uint32_t n = 0, others = 0;
  for (uint32_t i = 0; i < q->n_rows; i++) {
    uint32_t k = 0;
    while (k < n && strcmp(db[k].name, rows->stored[i]) != 0)
      k++;
    if (k < n) continue;
    if (n == HTML_SERIES_MAX) {
      others++;
      continue;
    }
    db[n] = series_of(rows, rows->stored[i], true, a);
    most[n] = series_of(rows, rows->stored[i], false, a);
    n++;
  }
  html_raw(o, "<div class=\"charts\">");
  const bool several = q->rows[0].step != q->rows[q->n_rows - 1].step;
  const char *x = several ? "tensors, along the graph for each pass" : "tensors, along the graph";
  const struct html_lines sqnr = {.title = "SQNR of the tensors (higher is better)",
                                  .x = x,
                                  .y = "SQNR, dB",
                                  .dots = true,
                                  .least = HTML_DB_LEAST,
                                  .series = db,
                                  .n_series = n};
  const struct html_lines largest = {.title =
                                         "Largest error of an element, by tensor (lower is better)",
                                     .x = x,
                                     .y = "max abs error",
                                     .logarithmic = true,
                                     .dots = true,
                                     .series = most,
                                     .n_series = n};
  html_lines(o, &sqnr);
  html_lines(o, &largest);
  html_raw(o, "</div>\n");
  if (others)
    html_put(o, "<p class=\"note\">%u tensor%s in the table only.</p>\n", others,
             others == 1 ? " in another form is" : "s in further forms are");
}

void html_tensors(struct html_out *o, const struct run_report *r) {
  if (r->stored.n_rows == 0) return;
  struct arena a = {0};
  const struct rows rows = {r, stored_words(r, &a), arena_alloc(&a, 2 * sizeof *rows.dims)};
  html_raw(o, "<section id=\"errors\"><h2>Error of every tensor</h2>\n");
  bool any = false;
  for (uint32_t i = 0; i < r->stored.n_rows; i++)
    any = any || r->stored.rows[i].has_figures;
  if (any)
    html_raw(o, "<p>The difference between the stored tensor and the tensor of the input. Higher "
                "SQNR is better: each bit less costs about 6 dB. The effect on the outputs "
                "depends on the model.</p>\n");
  else
    html_raw(
        o,
        "<p>Errors are computed while the weights are written, so they are not known here.</p>\n");
  put_charts(o, &rows, &a);
  const struct html_table table = {.id = "tensors",
                                   .caption = "Tensors stored in another form",
                                   .columns = columns,
                                   .n_columns = T_COLUMNS,
                                   .n_rows = r->stored.n_rows,
                                   .sorted_by = any ? T_SQNR : NO_ID,
                                   .order = worst_first(&r->stored, &a),
                                   .row = put_row,
                                   .ctx = &rows};
  html_table(o, &table);
  html_raw(o, "</section>\n");
  arena_free(&a);
}
