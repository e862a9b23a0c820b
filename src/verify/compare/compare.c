//   read 1     sums, largest ones, places, rows' largest elements; the first bins of p99 and p99.9
//   read 2…4   until p99 and p99.9 are known (quantiles.h); none where nothing differs
//
// A chunk of 1024 elements has eight running sums, which are added in pairs; Neumaier's compensated sum adds the
// chunks. The order of additions depends on the index of an element alone. So equal arrays have equal figures
// wherever they are stored, and the error of a sum of terms of one sign is below 2^-45 of it for any count.
// Squares of doubles above 2^400 or below 2^-400 have scaled sums of their own (struct squares), which neither
// overflow nor underflow.
//
// The items of a sequence are compared as one array, each after the one before.
#include "verify/compare/compare.h"

#include "base/table.h"
#include "verify/compare/inside/compare_parts.h"
#include "verify/compare/inside/quantiles.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

enum { LANES = 8 };

// ---- sums --------------------------------------------------------------------------------------

struct sum {
  double s, lost;
};

static void add(struct sum *sum, double x) {
  const double t = sum->s + x;
  sum->lost += fabs(sum->s) >= fabs(x) ? (sum->s - t) + x : (x - t) + sum->s;
  sum->s = t;
}

static double total(const struct sum *sum) {
  const double x = sum->s + sum->lost;
  return isnan(x) ? sum->s : x; // of an infinite sum `lost` is NaN
}

// r^2, x^2, x r and (x - r)^2 of chunks whose largest elements are of one class.
struct squares {
  struct sum rr, xx, rx, ee;
};
enum size_class { SMALL, MIDDLE, LARGE, CLASSES };
#define CLASS_LIMIT 0x1p400
#define CLASS_SCALE 0x1p600 // small elements are multiplied by it, large ones divided

// The figures so far, and the sums that they come from.
struct state {
  struct compare_figures f;
  const struct compare_bounds *b;
  struct squares squares[CLASSES];
  struct sum abs;
  uint64_t base; // index of the first element of this array among all
  uint64_t count;
  struct quantiles *q;
  // Rows of this array; row 0: it has none.
  uint64_t row, row_at, rows, rows_same;
  struct best {
    double value;
    uint64_t at;
    bool nan;
  } best[2];
};

static double pairs(const double x[LANES]) {
  return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

static double dot(const double *restrict x, const double *restrict y, size_t n) {
  double lane[LANES] = {0};
  for (size_t i = 0; i < n; i += LANES)
    for (unsigned j = 0; j < LANES; j++)
      lane[j] += x[i + j] * y[i + j];
  return pairs(lane);
}

static double sum_of(const double *x, size_t n) {
  double lane[LANES] = {0};
  for (size_t i = 0; i < n; i += LANES)
    for (unsigned j = 0; j < LANES; j++)
      lane[j] += x[i + j];
  return pairs(lane);
}

static double largest_of(const double lane[LANES]) {
  double m = 0;
  for (unsigned j = 0; j < LANES; j++)
    m = lane[j] > m ? lane[j] : m;
  return m;
}

static double largest(const double *x, size_t n) {
  double lane[LANES] = {0};
  for (size_t i = 0; i < n; i += LANES)
    for (unsigned j = 0; j < LANES; j++)
      lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  return largest_of(lane);
}

static double largest_size(const double *x, size_t n) {
  double lane[LANES] = {0};
  for (size_t i = 0; i < n; i += LANES)
    for (unsigned j = 0; j < LANES; j++) {
      const double size = fabs(x[i + j]);
      lane[j] = size > lane[j] ? size : lane[j];
    }
  return largest_of(lane);
}

static void scale(double *to, const double *from, size_t n, double by) {
  for (size_t i = 0; i < n; i++)
    to[i] = from[i] * by;
}

// n: a multiple of LANES; zeros follow the elements.
static void add_squares(struct state *st, const double *r, const double *x, const double *d,
                        size_t n, double largest_r) {
  const bool same = r == x;
  const double size = same ? largest_r : fmax(largest_r, largest_size(x, n));
  const enum size_class class = size > CLASS_LIMIT                   ? LARGE
                                : size < 1 / CLASS_LIMIT && size > 0 ? SMALL
                                                                     : MIDDLE;
  double scaled[3][COMPARE_CHUNK + LANES];
  if (class != MIDDLE) {
    const double by = class == LARGE ? 1 / CLASS_SCALE : CLASS_SCALE;
    scale(scaled[0], r, n, by);
    scale(scaled[1], x, n, by);
    scale(scaled[2], d, n, by);
    r = scaled[0];
    x = same ? r : scaled[1];
    d = scaled[2];
  }
  struct squares *s = &st->squares[class];
  const double rr = dot(r, r, n);
  add(&s->rr, rr);
  add(&s->xx, same ? rr : dot(x, x, n));
  add(&s->rx, same ? rr : dot(r, x, n));
  if (!same) add(&s->ee, dot(d, d, n));
}

// The sums of the largest class that are not 0, in the scale of that class.
struct totals {
  double rr, xx, rx, ee;
};
static struct totals totals_of(const struct state *st) {
  struct totals t = {0};
  for (int c = CLASSES - 1; c >= 0; c--) {
    const struct squares *s = &st->squares[c];
    // Numbers of the next class are smaller by 2^1200: they change nothing in these sums.
    if (t.rr > 0 || t.xx > 0) break;
    t = (struct totals){total(&s->rr), total(&s->xx), total(&s->rx), total(&s->ee)};
  }
  return t;
}

// ---- rows --------------------------------------------------------------------------------------

static size_t first_of(const double *x, size_t n, double value) {
  size_t i = 0;
  while (i < n && x[i] != value)
    i++;
  return i;
}

// The largest of x, without NaNs.
static double peak(const double *x, size_t n) {
  double lane[4] = {x[0], x[0], x[0], x[0]};
  size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (unsigned j = 0; j < 4; j++)
      lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  for (; i < n; i++)
    lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  for (unsigned j = 1; j < 4; j++)
    lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
  return lane[0];
}

// Elements [at, at + n) of a row. The first of several largest counts, and a NaN is larger than all numbers, as in
// NumPy.
static void see(struct best *best, const double *x, size_t n, uint64_t at, bool finite) {
  if (at == 0) best->nan = false;
  if (best->nan) return;
  for (size_t i = 0; !finite && i < n; i++) {
    if (!isnan(x[i])) continue;
    *best = (struct best){.at = at + i, .nan = true};
    return;
  }
  const double m = peak(x, n);
  if (at == 0 || m > best->value) *best = (struct best){m, at + first_of(x, n, m), false};
}

static void see_rows(struct state *st, const struct compare_chunk *c) {
  for (size_t i = 0; i < c->n;) {
    const size_t n = (size_t)min_u64(c->n - i, st->row - st->row_at);
    see(&st->best[0], c->v[0] + i, n, st->row_at, c->finite);
    if (c->same && st->row_at == 0)
      st->best[1] = st->best[0];
    else
      see(&st->best[1], c->v[1] + i, n, st->row_at, c->finite);
    i += n;
    st->row_at += n;
    if (st->row_at < st->row) continue;
    st->row_at = 0;
    if (st->best[0].nan && st->best[1].nan) continue;
    st->rows++;
    st->rows_same += st->best[0].nan == st->best[1].nan && st->best[0].at == st->best[1].at;
  }
}

// ---- one chunk ---------------------------------------------------------------------------------

static uint64_t count_unequal(const struct compare_chunk *c) {
  uint64_t n = 0;
#define COUNT(type)                                                                                \
  for (size_t i = 0; i < c->n; i++) {                                                              \
    type a, b;                                                                                     \
    memcpy(&a, c->wide[0] + i * sizeof a, sizeof a);                                               \
    memcpy(&b, c->wide[1] + i * sizeof b, sizeof b);                                               \
    n += a != b;                                                                                   \
  }
  switch (c->width) {
  case 1: COUNT(uint8_t) break;
  case 2: COUNT(uint16_t) break;
  case 4: COUNT(uint32_t) break;
  default: COUNT(uint64_t) break;
  }
#undef COUNT
  return n;
}

static bool other_bits(const struct compare_chunk *c, size_t i) {
  return memcmp(c->wide[0] + i * c->width, c->wide[1] + i * c->width, c->width) != 0;
}

static void see_unequal(struct state *st, const struct compare_chunk *c) {
  if (c->same) return;
  st->f.unequal += count_unequal(c);
  uint64_t zeros = 0;
  for (size_t i = 0; i < c->n; i++)
    zeros += (c->v[0][i] == 0) & (c->v[1][i] == 0);
  for (size_t i = 0; zeros && i < c->n; i++)
    st->f.unequal_zeros += c->v[0][i] == 0 && c->v[1][i] == 0 && other_bits(c, i);
  for (size_t i = 0; !c->finite && i < c->n; i++)
    if (isnan(c->v[0][i]) && isnan(c->v[1][i]) && other_bits(c, i)) st->f.unequal--;
}

static void note_place(uint64_t *n, uint64_t *first, uint64_t place) {
  if ((*n)++ == 0) *first = place;
}

// Counts elements that are not finite on either side, and copies both sides with 0 in their places.
static void see_nonfinite(struct state *st, const struct compare_chunk *c,
                          double left[2][COMPARE_CHUNK + LANES]) {
  struct compare_figures *f = &st->f;
  for (size_t i = 0; i < round_up(c->n, LANES); i++) {
    const double r = c->v[0][i], x = c->v[1][i];
    const bool bad[2] = {!isfinite(r), !isfinite(x)};
    const uint64_t place = st->base + c->first + i;
    for (unsigned s = 0; s < 2; s++) {
      if (bad[s]) note_place(&f->nonfinite[s], &f->first_nonfinite[s], place);
      left[s][i] = bad[0] || bad[1] ? 0 : c->v[s][i];
    }
    if ((bad[0] || bad[1]) && r != x && !(isnan(r) && isnan(x)))
      note_place(&f->nonfinite_apart, &f->first_apart, place);
    f->made_nan += !bad[0] && isnan(x);
    f->made_infinite += !bad[0] && isinf(x);
  }
}

static uint64_t count_beyond(const struct compare_bounds *b, const double *r, const double *x,
                             const double *d, size_t n) {
  const double rtol = b->rtol < 0 ? 0 : b->rtol, atol = b->atol < 0 ? 0 : b->atol;
  uint64_t beyond = 0;
  for (size_t i = 0; i < n; i++) {
    const double a = fabs(r[i]), e = fabs(x[i]);
    beyond += d[i] > atol + rtol * (a < e ? a : e);
  }
  return beyond;
}

static void see_differences(struct state *st, const struct compare_chunk *c, const double *r,
                            const double *x, size_t n) {
  struct compare_figures *f = &st->f;
  if (c->same) {
    quantiles_take_zeros(st->q, c->n);
    return;
  }
  quantiles_take(st->q, c->d, c->n);
  const double worst = largest(c->d, n);
  if (worst > f->max_abs) {
    f->max_abs = worst;
    f->first_worst = st->base + c->first + first_of(c->d, c->n, worst);
  }
  add(&st->abs, sum_of(c->d, n));
  if (compare_wants_close(st->b)) f->beyond += count_beyond(st->b, r, x, c->d, c->n);
}

static void first_read(void *ctx, const struct compare_chunk *c) {
  struct state *st = ctx;
  const size_t n = round_up(c->n, LANES);
  if (st->row) see_rows(st, c);
  see_unequal(st, c);
  double left[2][COMPARE_CHUNK + LANES];
  const double *r = c->v[0], *x = c->v[1];
  if (!c->finite) {
    see_nonfinite(st, c, left);
    r = left[0];
    x = c->same ? r : left[1];
  }
  const double size = largest_size(r, n);
  if (size > st->f.largest) st->f.largest = size;
  see_differences(st, c, r, x, n);
  add_squares(st, r, x, c->d, n, size);
}

static void later_read(void *ctx, const struct compare_chunk *c) {
  struct state *st = ctx;
  if (c->same)
    quantiles_take_zeros(st->q, c->n);
  else
    quantiles_take(st->q, c->d, c->n);
}

// ---- pairs of arrays ---------------------------------------------------------------------------

// The type of the numbers that a tensor is compared as.
static enum dtype part_dtype(enum dtype t) {
  return t == DTYPE_COMPLEX64 ? DTYPE_FLOAT : t == DTYPE_COMPLEX128 ? DTYPE_DOUBLE : t;
}

// Can they be compared? Else *why says what is different.
static bool comparable(const struct array *r, const struct array *x, bool retyped, char *why) {
  const struct array_words a = array_words(r), b = array_words(x);
  if (r->kind == x->kind && r->kind == ARRAY_NOTHING) return true;
  if (r->kind == x->kind && r->kind == ARRAY_SEQUENCE && r->n_items == x->n_items) return true;
  const bool typed =
      r->dtype == x->dtype || (retyped && dtype_is_float(r->dtype) && dtype_is_float(x->dtype));
  if (r->kind == x->kind && r->kind == ARRAY_TENSOR && typed && array_same_dims(r, x)) return true;
  const int n = snprintf(why, COMPARE_WHY, "%.110s and %.110s", a.s, b.s);
  assert(n >= 0);
  return false;
}

struct both {
  const struct array *of[2];
};
struct both_list {
  TABLE(struct both, rows);
};

bool compare_list_pairs(struct compare_pairs *l, const struct array *reference,
                        const struct array *result, bool retyped, char why[COMPARE_WHY]) {
  struct both_list todo = {0};
  *TABLE_PUSH(&todo, rows) = (struct both){{reference, result}};
  bool fine = true;
  for (; fine && todo.n_rows > 0;) {
    const struct both at = todo.rows[--todo.n_rows];
    fine = comparable(at.of[0], at.of[1], retyped, why);
    if (!fine || at.of[0]->kind == ARRAY_NOTHING) continue;
    if (at.of[0]->kind == ARRAY_SEQUENCE) {
      for (uint32_t i = at.of[0]->n_items; i-- > 0;)
        *TABLE_PUSH(&todo, rows) = (struct both){{&at.of[0]->items[i], &at.of[1]->items[i]}};
      continue;
    }
    const enum dtype part = part_dtype(at.of[0]->dtype);
    const uint64_t parts = part == at.of[0]->dtype ? 1 : 2;
    *TABLE_PUSH(l, pairs) = (struct compare_pair){
        {at.of[0], at.of[1]}, {part, part_dtype(at.of[1]->dtype)}, at.of[0]->count * parts};
  }
  TABLE_FREE(&todo, rows);
  return fine;
}

// Strings are equal, or infinitely far apart.
static void see_strings(struct state *st, const struct compare_pair *p) {
  struct compare_figures *f = &st->f;
  for (uint64_t i = 0; i < p->count; i++) {
    if (span_eq(p->of[0]->strings[i], p->of[1]->strings[i])) {
      quantiles_take_zeros(st->q, 1);
      continue;
    }
    if (f->unequal++ == 0) f->first_worst = st->base + i;
    f->max_abs = INFINITY;
    f->beyond += compare_wants_close(st->b);
    add(&st->abs, INFINITY);
    const double apart = INFINITY;
    quantiles_take(st->q, &apart, 1);
  }
}

static void see_strings_again(struct state *st, const struct compare_pair *p) {
  for (uint64_t i = 0; i < p->count; i++) {
    const double apart = INFINITY;
    if (span_eq(p->of[0]->strings[i], p->of[1]->strings[i]))
      quantiles_take_zeros(st->q, 1);
    else
      quantiles_take(st->q, &apart, 1);
  }
}

static void begin_rows(struct state *st, const struct compare_pair *p) {
  const struct array *x = p->of[0];
  const bool rows = x->dtype != DTYPE_BOOL && part_dtype(x->dtype) == x->dtype && x->rank > 0 &&
                    x->dims[x->rank - 1] >= 2;
  st->row = rows ? (uint64_t)x->dims[x->rank - 1] : 0;
  st->row_at = 0;
}

static int read_all(struct state *st, const struct compare_pairs *l, struct compare_reader *reader,
                    bool first, struct err *err) {
  st->base = 0;
  for (uint32_t i = 0; i < l->n_pairs; i++) {
    const struct compare_pair *p = &l->pairs[i];
    const uint64_t unequal = st->f.unequal;
    if (p->dtype[0] == DTYPE_STRING) {
      if (first)
        see_strings(st, p);
      else
        see_strings_again(st, p);
    } else {
      begin_rows(st, p);
      if (compare_chunks(reader, p, first ? first_read : later_read, st, err) != 0) return -1;
    }
    if (!dtype_is_float(p->dtype[0])) st->f.unequal_whole += st->f.unequal - unequal;
    st->base += p->count;
  }
  return 0;
}

// ---- all reads ---------------------------------------------------------------------------------

static double ratio(double x, double of) {
  return x == 0 ? 0 : of == 0 ? INFINITY : x / of;
}

static double cosine_of(const struct totals *t, double max_abs) {
  if (max_abs == 0) return 1; // both are zero, or equal
  if (t->rr == 0 || t->xx == 0) return 0;
  const double c = t->rx / (sqrt(t->rr) * sqrt(t->xx));
  return c > 1 ? 1 : c < -1 ? -1 : c;
}

static double sqnr_of(const struct totals *t, double max_abs) {
  if (max_abs == 0) return INFINITY;
  if (isinf(max_abs)) return -INFINITY;
  return t->ee == 0 ? INFINITY : 10 * log10(t->rr / t->ee);
}

static void conclude(struct state *st) {
  struct compare_figures *f = &st->f;
  const struct totals t = totals_of(st);
  f->count = st->count;
  f->mean_abs = st->count ? total(&st->abs) / (double)st->count : 0;
  f->relative = ratio(f->max_abs, f->largest);
  f->cosine = cosine_of(&t, f->max_abs);
  f->sqnr_db = sqnr_of(&t, f->max_abs);
  f->has_top1 = st->rows > 0;
  f->top1_rows = st->rows;
  f->top1 = st->rows ? (double)st->rows_same / (double)st->rows : 0;
  if (compare_wants_close(st->b)) f->beyond += f->nonfinite_apart;
}

static int figures(struct state *st, const struct compare_pairs *l, struct compare_reader *reader,
                   struct arena *a, struct err *err) {
  for (uint32_t i = 0; i < l->n_pairs; i++)
    st->count += l->pairs[i].count;
  if (st->count == 0) {
    conclude(st);
    return 0;
  }
  const uint64_t n = st->count, ranks[QUANTILES] = {n - n / 100, n - n / 1000};
  struct quantiles q;
  quantiles_open(&q, n, ranks, a);
  st->q = &q;
  if (read_all(st, l, reader, true, err) != 0) return -1;
  for (; st->f.max_abs > 0 && quantiles_again(&q);)
    if (read_all(st, l, reader, false, err) != 0) return -1;
  st->f.p99_abs = q.of[0].answer;
  st->f.p999_abs = q.of[1].answer;
  conclude(st);
  return 0;
}

int compare_arrays(const struct array *reference, const struct array *result,
                   const struct compare_bounds *bounds, const volatile int *stop,
                   struct compare_result *out, struct err *err) {
  *out = (struct compare_result){0};
  struct compare_pairs l = {0};
  struct arena a = {0};
  struct state st = {.b = bounds};
  int bad = 0;
  if (!compare_list_pairs(&l, reference, result, bounds->retyped, out->why)) {
    out->end = COMPARE_DIFFERENT;
  } else {
    bad = figures(&st, &l, compare_chunks_open(&a, bounds->masks, stop), &a, err);
    out->figures = st.f;
    if (bad == 0) out->end = compare_judge(&st.f, bounds, out->why);
  }
  TABLE_FREE(&l, pairs);
  arena_free(&a);
  return bad;
}
