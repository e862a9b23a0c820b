// Metrics of a task, row by row: a row of the output is in memory at a time, as doubles, which hold every place.
#include "verify/compare/task_metric.h"

#include "kernels/convert/kernels_convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *task_metric_name(enum task_metric metric) {
  static const char *const names[] = {[TASK_MAX_ABS_ERROR] = "max_abs_error",
                                      [TASK_ACCURACY] = "accuracy",
                                      [TASK_TOP_5_ACCURACY] = "top_5_accuracy",
                                      [TASK_COUNT_MISPREDICTIONS] = "count_mispredictions"};
  return names[metric];
}

enum { TOP = 5, PIECE = 4096 };

static bool has_numbers(const struct array *x) {
  return x->kind == ARRAY_TENSOR && kernels_convert_takes(x->dtype) && dtype_bits(x->dtype) >= 8;
}

// Elements first … first + n - 1 as doubles. raw: room for them as they are.
static int read_doubles(const struct array *x, uint64_t first, size_t n, uint8_t *raw, double *out,
                        struct err *err) {
  const size_t width = dtype_bits(x->dtype) / 8;
  const struct kernels_cast cast = {.from = (uint8_t)x->dtype, .to = DTYPE_DOUBLE};
  if (n == 0) return 0;
  if (array_read(x, first * width, raw, n * width, err)) return -1;
  for (size_t i = 0; x->dtype == DTYPE_BOOL && i < n; i++)
    raw[i] = raw[i] != 0;
  kernels_convert(out, raw, n, &cast);
  return 0;
}

// ---- the largest error -------------------------------------------------------------------------

static int max_abs_error(const struct array *x, const struct array *y, double *most,
                         struct err *err) {
  uint8_t raw[PIECE * 8];
  double a[PIECE], b[PIECE];
  for (uint64_t at = 0; at < x->count; at += PIECE) {
    const size_t n = (size_t)min_u64(PIECE, x->count - at);
    if (read_doubles(x, at, n, raw, a, err) || read_doubles(y, at, n, raw, b, err)) return -1;
    for (size_t i = 0; i < n; i++) {
      const double d = a[i] == b[i] ? 0 : fabs(a[i] - b[i]); // the same infinity differs by nothing
      if (d > *most || isnan(d)) *most = isnan(*most) ? *most : d;
    }
  }
  return 0;
}

static int all_errors(const struct arrays *produced, const struct arrays *expected, double *value,
                      char why[TASK_METRIC_WHY], struct err *err) {
  *value = 0;
  if (expected->n > produced->n) {
    snprintf(why, TASK_METRIC_WHY, "the samples expect %u outputs, but the model has %u",
             expected->n, produced->n);
    return 1;
  }
  for (uint32_t k = 0; k < expected->n; k++) {
    const struct array *x = &produced->list[k], *y = &expected->list[k];
    if (!has_numbers(x) || !has_numbers(y) || !array_same_dims(x, y)) {
      snprintf(why, TASK_METRIC_WHY, "output %u is %s, but %s is expected", k, array_words(x).s,
               array_words(y).s);
      return 1;
    }
    if (max_abs_error(x, y, value, err)) return -1;
  }
  return 0;
}

// ---- rows --------------------------------------------------------------------------------------

static bool is_larger(double a, double b) {
  return isnan(a) ? !isnan(b) : a > b;
}

static uint64_t place_of_largest(const double *row, size_t n) {
  size_t best = 0;
  for (size_t i = 1; i < n; i++)
    if (is_larger(row[i], row[best])) best = i;
  return best;
}

static bool is_among(const double *row, size_t n, uint64_t place) {
  size_t before = 0;
  for (size_t i = 0; i < n && before < TOP; i++)
    if (i != place &&
        (is_larger(row[i], row[place]) || (!is_larger(row[place], row[i]) && i > place)))
      before++;
  return before < TOP;
}

// Rows of the output, and what is expected of each.
struct rows {
  const struct array *x, *y;
  size_t n; // elements of a row
  uint64_t count;
  bool places; // y has a place for each
  uint8_t *raw;
  double *row, *want;
};

static bool take_rows(struct rows *r, const struct arrays *produced, const struct arrays *expected,
                      struct arena *a, char why[TASK_METRIC_WHY]) {
  if (produced->n == 0 || expected->n == 0) {
    snprintf(why, TASK_METRIC_WHY, "the model has no output");
    return false;
  }
  r->x = produced->list;
  r->y = expected->list;
  r->n = r->x->rank ? (size_t)r->x->dims[r->x->rank - 1] : 0;
  r->count = r->n ? r->x->count / r->n : 0;
  r->places = !array_same_dims(r->x, r->y);
  if (!has_numbers(r->x) || !has_numbers(r->y) || r->count == 0 ||
      (r->places && r->y->count != r->count)) {
    snprintf(why, TASK_METRIC_WHY, "the output is %s, but %s is expected: the rows do not match",
             array_words(r->x).s, array_words(r->y).s);
    return false;
  }
  r->raw = arena_alloc(a, r->n * sizeof(double));
  r->row = arena_alloc(a, r->n * sizeof(double));
  r->want = arena_alloc(a, r->n * sizeof(double));
  return true;
}

// The place that is expected of row i; one past the row where it is none of it.
static int place_wanted(const struct rows *r, uint64_t i, uint64_t *place, struct err *err) {
  double number;
  if (r->places) {
    if (read_doubles(r->y, i, 1, r->raw, &number, err)) return -1;
    const bool there = number >= 0 && number < (double)r->n && number == floor(number);
    *place = there ? (uint64_t)number : r->n;
    return 0;
  }
  if (read_doubles(r->y, i * r->n, r->n, r->raw, r->want, err)) return -1;
  *place = place_of_largest(r->want, r->n);
  return 0;
}

static int count_right(const struct rows *r, bool top, uint64_t *right, struct err *err) {
  uint64_t place;
  *right = 0;
  for (uint64_t i = 0; i < r->count; i++) {
    if (place_wanted(r, i, &place, err)) return -1;
    if (place == r->n) continue;
    if (read_doubles(r->x, i * r->n, r->n, r->raw, r->row, err)) return -1;
    *right += top ? is_among(r->row, r->n, place) : place_of_largest(r->row, r->n) == place;
  }
  return 0;
}

int task_metric_value(enum task_metric metric, const struct arrays *produced,
                      const struct arrays *expected, double *value, char why[TASK_METRIC_WHY],
                      struct err *err) {
  struct arena a = {0};
  struct rows r;
  uint64_t right = 0;
  why[0] = '\0';
  if (metric == TASK_MAX_ABS_ERROR) return all_errors(produced, expected, value, why, err);
  int rc = take_rows(&r, produced, expected, &a, why) ? 0 : 1;
  if (rc == 0) rc = count_right(&r, metric == TASK_TOP_5_ACCURACY, &right, err);
  if (rc == 0)
    *value = metric == TASK_COUNT_MISPREDICTIONS ? (double)(r.count - right)
                                                 : (double)right / (double)r.count;
  arena_free(&a);
  return rc;
}
