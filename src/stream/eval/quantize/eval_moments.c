#include "stream/eval/quantize/inside/eval_whole.h"

#include "tensor_stats/second_moments.h"

#include <math.h>

static const double part = 0.3;

int eval_moments_at(struct eval_task *t, uint32_t gram, uint64_t k, uint64_t i, double *out,
                    struct err *err) {
  const uint64_t r = i / SECOND_MOMENTS_SIDE, in = i % SECOND_MOMENTS_SIDE;
  const uint64_t at = second_moments_at(k, r, r) + in * second_moments_side(k, r) + in;
  if (eval_elements(t, gram, at, 1, (uint8_t *)out, err) != 0) return -1;
  if (*out >= 0 && isfinite(*out)) return 0;
  return err_set(err, ERR_MODEL,
                 "the second moments of a value have %g on their diagonal (element %s)", *out,
                 decimal(i).s);
}

int eval_moments_ridge(struct eval_task *t, uint32_t gram, uint64_t k, uint64_t seen, double *ridge,
                       struct err *err) {
  double sum = 0;
  *ridge = 0;
  if (seen == 0) return 0;
  for (uint64_t i = 0; i < k; i++) {
    double x;
    if (eval_moments_at(t, gram, k, i, &x, err) != 0) return -1;
    sum += x;
  }
  *ridge = part * (double)k / (double)seen * (sum / (double)k);
  if (isfinite(*ridge)) return 0;
  return err_set(err, ERR_MODEL, "the second moments of a value have no finite sum");
}

void eval_moments_add(double *tile, size_t side, double ridge) {
  for (size_t i = 0; i < side; i++)
    tile[i * side + i] += ridge;
}
