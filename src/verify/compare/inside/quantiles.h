// Numbers that so many of others are not above, exactly, without keeping them: the numbers come by
// several times, and every time it is known better where the ones asked for lie.
//
//   pass 1   all ──▶ 2^16 bins of their first 16 bits ──▶ the bin that the k-th lies in
//   pass 2   that bin's numbers ──▶ a list, if they are few, else 2^16 bins of their next 16 bits
//   …        at most 4 passes: a number has 63 bits. One where all are few
//
// Numbers are doubles ≥ 0, whose bits are in the same order as they are.
#ifndef WEIR_QUANTILES_H
#define WEIR_QUANTILES_H

#include "base/arena.h"

enum { QUANTILES = 2 };

struct quantile {
  uint64_t rank;   // of those that begin with `prefix`: the rank-th least, from 1 on
  uint64_t prefix; // bits that are known of it
  uint64_t among;  // how many begin with it
  uint64_t first;  // the first of these that came by, in this pass
  uint64_t mixed;  // bits in which others differ from it
  uint64_t *bins;  // NULL: a list is kept
  double *list;
  size_t n_list;
  uint32_t known; // bits of `prefix`
  bool done;
  double answer;
};

struct quantiles {
  struct quantile of[QUANTILES];
};

// `ranks`: which of the n numbers in ascending order, from 1 on. In *a.
void quantiles_open(struct quantiles *q, uint64_t n, const uint64_t ranks[QUANTILES],
                    struct arena *a);
// n numbers of this pass come by; `zeros` that are all 0.
void quantiles_take(struct quantiles *q, const double *x, size_t n);
void quantiles_take_zeros(struct quantiles *q, size_t n);
// All came by. True: another pass is needed.
bool quantiles_again(struct quantiles *q);

#endif
