// Room: statistics of all elements of a tensor, found in one read and kept in a few numbers: facts of constants, error
// figures (figures.h), digests (content_hash.h), second moments (second_moments.h).
//
// Elements of plain numbers (dtype.h) can be looked at. They are seen as doubles (64-bit integers
// are rounded to them, which keeps their order).
#ifndef WEIR_TENSOR_STATS_H
#define WEIR_TENSOR_STATS_H

#include "base/dtype.h"

struct tensor_stats {
  uint64_t elements;
  uint64_t zeros, nans, infinities; // of either sign
  double least, most; // of those that are no NaN; infinity and -infinity if there are none
  double finest;      // the least |x| that is not 0 and not infinite; infinity: none
  bool alike;         // all have the same bits
  bool identity;      // matrices of 0 and 1 on the diagonal: of rank 2 and more
  bool multiples;     // all are whole multiples of `finest`; known after a second read only
};

// Before anything is known of a tensor: `square` where its dims may be those of identity matrices.
struct tensor_stats tensor_stats_none(bool square);
// Of the elements of both. Whether both are alike is the caller's to say (alike: each of its own).
void tensor_stats_join(struct tensor_stats *to, const struct tensor_stats *more);

static inline bool tensor_stats_finite(const struct tensor_stats *f) {
  return f->nans == 0 && f->infinities == 0;
}

// Is x a whole multiple of u: is x / u a whole number to 1e-6 of it and to an eighth, and at most 2^24? Of larger quotients
// of floats that says nothing: most of them are whole.
bool tensor_stats_multiple(double x, double u);

#endif
