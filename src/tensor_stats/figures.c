// Error figures of tensors: what follows from the sums, and how sums are put together.
//
// Floating-point addition depends on its order, so the order is fixed: a binary tree over the
// leaves (columns of a matrix), the left part of which always has a power of two of them:
//
//              ((0 1)(2 3)) ((4 5) 6)          n = 7
//
// It is built like a binary counter: pushing a leaf carries into the complete subtrees to its left.
// A run of 2^k leaves that begins at a multiple of 2^k is a subtree of its own, whoever makes it.
#include "tensor_stats/figures.h"

#include <assert.h>
#include <math.h>

// The decimal logarithm as fdlibm and glibc make it of the natural one. C libraries differ in the last digit of
// log10 far more often than in that of log, and a gate at that very figure would fall out otherwise.
static double decimal_logarithm(double x) {
  const double one_over_ln10 = 4.34294481903251816668e-01;
  const double log10_2_high = 3.01029995663611771306e-01, log10_2_low = 3.69423907715893078616e-13;
  int exponent = 1;
  const double half_to_1 = frexp(x, &exponent);
  // From 1 to 2 times a power of two; below 1, from a half to 1 times the next, so that nothing cancels.
  const double power = exponent > 0 ? exponent - 1 : exponent;
  const double mantissa = exponent > 0 ? 2 * half_to_1 : half_to_1;
  return (power * log10_2_low + one_over_ln10 * log(mantissa)) + power * log10_2_high;
}

double figures_sqnr_db(const struct figures *f) {
  if (!isfinite(f->vv) || !isfinite(f->ee)) return NAN;
  return f->ee == 0 ? INFINITY : 10 * decimal_logarithm(f->vv / f->ee);
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
