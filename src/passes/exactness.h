// How exactly a rewrite keeps the numbers: weir has no other words for it. Every rule and every
// pass carries one; a cap (--exactness) says what may fire; verification checks by it unless the user
// says otherwise.
//
//   exact     the same bits for all inputs
//   zero      the same results except for the sign of zeros and the bits of NaNs
//   rounding  the rewrite makes the same results up to rounding, for finite inputs. A comparison that follows in the model
//             may see the difference
//   finite    the rewrite assumes that there is no NaN, no infinity and no divisor that is zero, and that no number is so near
//             to where a comparison, or an operator that makes whole numbers, jumps that its rounding decides
#ifndef WEIR_EXACTNESS_H
#define WEIR_EXACTNESS_H

#include "base/span.h"

enum exactness {
  EXACTNESS_EXACT,
  EXACTNESS_ZERO,
  EXACTNESS_ROUNDING,
  EXACTNESS_FINITE,
  EXACTNESSES
};

static inline const char *exactness_name(enum exactness e) {
  static const char *const names[EXACTNESSES] = {"exact", "zero", "rounding", "finite"};
  return names[e];
}

// Returns EXACTNESSES for a word that names none of them.
static inline enum exactness exactness_by_name(struct span word) {
  enum exactness e = EXACTNESS_EXACT;
  while (e < EXACTNESSES && !span_is(word, exactness_name(e)))
    e++;
  return e;
}

#endif
