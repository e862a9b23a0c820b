// Error figures of tensors: what follows from the sums, and how sums are put together.
//
// Floating-point addition depends on its order, so the order is fixed: a binary tree over the
// leaves (columns of a matrix), the left part of which always has a power of two of them:
//
//              ((0 1)(2 3)) ((4 5) 6)          n = 7
//
// It is built like a binary counter: pushing a leaf carries into the complete subtrees to its left.
// A run of 2^k leaves that begins at a multiple of 2^k is a subtree of its own, whoever makes it.
#include "figures.h"

#include <assert.h>
#include <math.h>

double figures_sqnr_db(const struct figures *f) {
  if (!isfinite(f->vv) || !isfinite(f->ee)) return NAN;
  return f->ee == 0 ? INFINITY : 10 * log10(f->vv / f->ee);
}

double figures_cosine(const struct figures *f) {
  const double after = f->vv - 2 * f->ve + f->ee;
  if (!isfinite(f->vv) || !isfinite(after)) return NAN;
  if (f->vv <= 0 || after <= 0) return f->vv <= 0 && f->ee <= 0 ? 1 : 0;
  const double cosine = (f->vv - f->ve) / (sqrt(f->vv) * sqrt(after));
  return cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
}

double figures_rmse(const struct figures *f) {
  return f->elements == 0 ? 0 : sqrt(f->ee / (double)f->elements);
}

struct figures figures_join(const struct figures *a, const struct figures *b) {
  const bool greater = isnan(b->max_error) || b->max_error > a->max_error;
  return (struct figures){
      .elements = a->elements + b->elements,
      .nonfinite = a->nonfinite + b->nonfinite,
      .overflows = a->overflows + b->overflows,
      .vv = a->vv + b->vv,
      .ee = a->ee + b->ee,
      .ve = a->ve + b->ve,
      .max_error = greater && !isnan(a->max_error) ? b->max_error : a->max_error,
  };
}

void figures_push(struct figures_tree *t, const struct figures *leaf) {
  struct figures sum = *leaf;
  unsigned i = 0;
  for (; t->n >> i & 1; i++)
    sum = figures_join(&t->level[i], &sum);
  assert(i < FIGURES_LEVELS);
  t->level[i] = sum;
  t->n++;
}

struct figures figures_root(const struct figures_tree *t) {
  struct figures sum = {0};
  bool any = false;
  for (unsigned i = 0; i < FIGURES_LEVELS; i++) {
    if (!(t->n >> i & 1)) continue;
    sum = any ? figures_join(&t->level[i], &sum) : t->level[i];
    any = true;
  }
  return sum;
}
