// Inside the evaluator: a small operand that stands for more elements than it has (eval_spread.c).
#ifndef WEIR_EVAL_SPREAD_H
#define WEIR_EVAL_SPREAD_H

#include "stream/eval/core/eval_parts.h"

// Element (c0, c1, …) of the result goes with element Σ c / share · stride of the operand. Axes of
// length 1 are gone; those that lie one behind the other in both are merged.
struct eval_spread {
  uint32_t of, width;
  uint32_t rank;
  uint64_t dims[RECIPE_MAX_RANK], shares[RECIPE_MAX_RANK], strides[RECIPE_MAX_RANK];
  const uint8_t *held; // all elements of the operand, or NULL
  uint8_t *window;     // else EVAL_SPREAD_WINDOW bytes for some of them: `have` from `at` on
  uint64_t at, have;
};
enum { EVAL_SPREAD_WINDOW = 128 };

// An operand that broadcasts to these dims, as NumPy's do. Window and held are the caller's to set.
void eval_spread_of(const struct recipes *r, uint32_t of, const int64_t *dims, uint32_t rank,
                    struct eval_spread *s);
// Puts an axis behind those there are.
void eval_spread_axis(struct eval_spread *s, uint64_t dim, uint64_t share, uint64_t stride);

// May so much of an operand be held, that is more than one element?
bool eval_spread_holds(const struct recipes *r, uint32_t of);
// Holds in the box what of n operands (of NO_ID: none) it has room for; reads it where the box is new.
// The box is busy as long as they are looked at. b NULL: holds nothing.
int eval_spread_hold(struct eval_task *t, struct eval_stripe_box *b, struct eval_spread *s,
                     uint32_t n, struct err *err);

// On how many elements of the result, from `first` on, the same element of the operand falls.
uint64_t eval_spread_same(const struct eval_spread *s, uint64_t first);
// What falls on elements [first, first + count) of the result, one behind the other.
int eval_spread_elements(struct eval_task *t, struct eval_spread *s, uint64_t first, uint64_t count,
                         uint8_t *out, struct err *err);

#endif
