// Top-1: whose largest element moved. A read of its own, since the largest error of all elements says which rows count.
//
//   row of the reference   0.70  0.20  0.10     first 0.70, second 0.20: 0.50 apart
//   row of the result      0.30  0.60  0.10     the largest is elsewhere: changed, if no error is above 0.50
#include "verify/compare/compare.h"

#include "verify/compare/inside/compare_parts.h"

#include <math.h>

struct largest {
  double first, second;
  uint64_t at;
  bool nan;
};

struct walk {
  struct compare_rows *out;
  double apart;
  uint64_t row, at; // elements of a row; place in the one at hand
  struct largest of[2];
};

// The first of equal ones counts. A row with a NaN has no largest element.
static void see(struct largest *l, double x, uint64_t at) {
  if (at == 0) *l = (struct largest){x, -INFINITY, 0, isnan(x)};
  if (at == 0 || l->nan) return;
  if (isnan(x) || x > l->first)
    *l = (struct largest){x, l->first, at, isnan(x)};
  else if (x > l->second)
    l->second = x;
}

static void end_row(struct walk *w) {
  const struct largest *r = &w->of[0], *x = &w->of[1];
  const bool equal = r->first == r->second; // infinities too
  w->at = 0;
  if (r->nan && x->nan) return;
  if (!r->nan && !x->nan && (equal ? 0 : r->first - r->second) < w->apart) {
    w->out->close++;
    return;
  }
  w->out->counted++;
  w->out->changed += r->nan || x->nan || r->at != x->at;
}

static void take(void *ctx, const struct compare_chunk *c) {
  struct walk *w = ctx;
  for (size_t i = 0; i < c->n; i++) {
    see(&w->of[0], c->v[0][i], w->at);
    see(&w->of[1], c->v[1][i], w->at);
    if (++w->at == w->row) end_row(w);
  }
}

static bool is_of_rows(const struct array *x) {
  return x->kind == ARRAY_TENSOR && x->rank > 0 && x->dims[x->rank - 1] >= 2 && x->count > 0 &&
         x->dtype != DTYPE_BOOL && x->dtype != DTYPE_STRING && x->dtype != DTYPE_COMPLEX64 &&
         x->dtype != DTYPE_COMPLEX128;
}

const struct array *compare_rows_of(const struct array *x) {
  struct compare_pairs l = {0};
  char why[COMPARE_WHY];
  const struct array *found = NULL;
  compare_list_pairs(&l, x, x, false, why);
  for (uint32_t i = 0; i < l.n_pairs && !found; i++)
    if (is_of_rows(l.pairs[i].of[0])) found = l.pairs[i].of[0];
  TABLE_FREE(&l, pairs);
  return found;
}

int compare_rows(const struct array *reference, const struct array *result, double apart,
                 const volatile int *stop, struct compare_rows *out, struct err *err) {
  struct arena a = {0};
  struct compare_pairs l = {0};
  char why[COMPARE_WHY];
  struct compare_reader *reader = compare_chunks_open(&a, false, stop);
  int rc = 0;
  *out = (struct compare_rows){0};
  compare_list_pairs(&l, reference, result, true, why);
  for (uint32_t i = 0; i < l.n_pairs && rc == 0; i++) {
    const struct array *x = l.pairs[i].of[0];
    if (!is_of_rows(x)) continue;
    struct walk w = {.out = out, .apart = apart, .row = (uint64_t)x->dims[x->rank - 1]};
    rc = compare_chunks(reader, &l.pairs[i], take, &w, err);
  }
  TABLE_FREE(&l, pairs);
  arena_free(&a);
  return rc;
}
