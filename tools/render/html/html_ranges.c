// Ranges of activations that the passes were given: a table with a small chart for each value, and a curve of all.
//
// The chart is text, so that it is in the table with a script and without: of a histogram a bar for each stretch of bins,
// high by the logarithm of the count, since tails matter; without one the range itself, within the larger magnitude to both
// sides of 0.
//
//   ·▁▁▂▅█▆▃▁▁··▁      ····██████████████████
#include "ranges/ranges.h"
#include "render/html/html_chart.h"
#include "render/html/html_parts.h"
#include "render/html/html_table.h"

#include <math.h>
#include <stdlib.h>

enum { R_NAME, R_TYPE, R_LEAST, R_MOST, R_ELEMENTS, R_NANS, R_CHART, R_COLUMNS };

static const struct html_column columns[R_COLUMNS] = {
    [R_NAME] = {"Value", HTML_NAME, "Its name in the calibrated model"},
    [R_TYPE] = {"Type", HTML_WORD, NULL},
    [R_LEAST] = {"Min", HTML_SHORT, "Minimum of the quantized range"},
    [R_MOST] = {"Max", HTML_SHORT, "Maximum of the quantized range"},
    [R_ELEMENTS] = {"Elements", HTML_COUNT, "Elements in all samples"},
    [R_NANS] = {"NaN", HTML_COUNT, "Elements that are NaN"},
    [R_CHART] = {"Distribution", HTML_WORD,
                 "The histogram, with the logarithm of the counts; without a histogram, the range "
                 "around 0"},
};

enum { CELLS = 24, CELL_BYTES = 3, LEVELS = 8 };
struct drawn {
  char s[CELLS * CELL_BYTES + 1];
};
struct rows {
  const struct ranges *r;
  struct drawn *charts; // two: of this row and the one before
};

static const char dot[] = "\xc2\xb7", full[] = "\xe2\x96\x88";

// Behind the text that ends at `at`: where it ends then.
static char *append(char *at, const char *text) {
  const size_t n = strlen(text);
  return (char *)memcpy(at, text, n + 1) + n;
}

static void draw_histogram(const struct ranges_histogram *h, struct drawn *out) {
  double counts[CELLS] = {0}, most = 0;
  char *at = out->s;
  for (uint32_t i = 0; i < h->n_bins; i++)
    counts[(uint64_t)i * CELLS / h->n_bins] += (double)h->counts[i];
  for (unsigned c = 0; c < CELLS; c++)
    most = fmax(most, log1p(counts[c]));
  for (unsigned c = 0; c < CELLS; c++) {
    const double height = most > 0 ? log1p(counts[c]) / most : 0;
    // U+2581, an eighth, to U+2588
    const char bar[] = {'\xe2', '\x96', (char)(0x80 + (int)fmax(1, ceil(height * (int)LEVELS))), 0};
    at = append(at, counts[c] > 0 ? bar : dot);
  }
}

static void draw_range(const struct ranges_value *v, struct drawn *out) {
  const double most = fmax(fabs(v->least), fabs(v->most));
  char *at = out->s;
  *at = 0;
  for (unsigned c = 0; c < CELLS && most > 0; c++) {
    const double middle = most * ((2 * c + 1.0) / (int)CELLS - 1);
    at = append(at, middle >= v->least && middle <= v->most ? full : dot);
  }
}

static void put_row(const void *ctx, uint32_t i, struct html_cell *cells) {
  const struct rows *rows = ctx;
  const struct ranges_value *v = &rows->r->values[i];
  struct drawn *chart = &rows->charts[i % 2];
  if (v->histogram.n_bins)
    draw_histogram(&v->histogram, chart);
  else
    draw_range(v, chart);
  cells[R_NAME].text = v->name;
  cells[R_TYPE].text = span_str(v->type == DTYPE_UNDEFINED ? "" : dtype_name(v->type));
  cells[R_LEAST].number = v->least;
  cells[R_MOST].number = v->most;
  cells[R_ELEMENTS] =
      (struct html_cell){.number = (double)v->elements, .unknown = v->elements == 0};
  cells[R_NANS].number = (double)v->nans;
  cells[R_CHART].text = span_str(chart->s);
}

static int by_number(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void put_curve(struct html_out *o, const struct ranges *r, struct arena *a) {
  struct html_series s = {.name = "larger of |min| and |max|"};
  double *y = arena_alloc(a, r->n_values * sizeof *y + 1);
  for (uint32_t i = 0; i < r->n_values; i++) {
    y[s.n] = fmax(fabs(r->values[i].least), fabs(r->values[i].most));
    s.n += y[s.n] > 0;
  }
  qsort(y, s.n, sizeof *y, by_number);
  s.y = y;
  const struct html_lines lines = {.title = "Magnitude of the values, lowest first",
                                   .x = "values, by rank",
                                   .y = "largest magnitude",
                                   .logarithmic = true,
                                   .stretched = true,
                                   .series = &s,
                                   .n_series = 1};
  html_lines(o, &lines);
}

static void put_file(struct html_out *o, const struct run_ranges *f, uint32_t k) {
  static const char *const ids[] = {"ranges", "ranges-2", "ranges-3", "ranges-4"};
  const struct ranges *r = f->ranges;
  struct arena a = {0};
  const struct rows rows = {r, arena_zalloc(&a, 2 * sizeof *rows.charts)};
  html_put(o, "<p><code>%s</code>", path_base(f->path));
  if (r->method != RANGES_ANY) html_put(o, ", method %s", ranges_method_name(r->method));
  if (r->samples) html_put(o, ", %s sample%s", decimal(r->samples).s, plural(r->samples));
  html_raw(o, "</p>\n");
  put_curve(o, r, &a);
  const struct html_table table = {.id = ids[k],
                                   .caption = "Ranges of activations",
                                   .columns = columns,
                                   .n_columns = R_COLUMNS,
                                   .n_rows = r->n_values,
                                   .sorted_by = NO_ID,
                                   .row = put_row,
                                   .ctx = &rows};
  html_table(o, &table);
  arena_free(&a);
}

void html_ranges(struct html_out *o, const struct run_report *r) {
  enum { MOST = 4 };
  uint32_t n = 0;
  if (!r->passes) return;
  for (uint32_t i = 0; i < r->passes->n_ranges && n < MOST; i++) {
    if (r->passes->ranges[i].ranges->n_values == 0) continue;
    if (n == 0)
      html_raw(o, "<section id=\"activations\"><h2>Ranges of activations</h2>\n<p>The range of "
                  "each value, from calibration. A few elements far from the others make the "
                  "quantization step of all elements larger.</p>\n");
    put_file(o, &r->passes->ranges[i], n++);
  }
  if (n) html_raw(o, "</section>\n");
}
