// How exactly a rewrite keeps the numbers: the only words for it in the house. Every rule and every
// pass carries one; a cap (--exactness) says what may fire; verification checks by it where nobody
// says otherwise.
//
//   exact     the same bits for all inputs
//   zero      the same results except for the sign of zeros and the bits of NaNs
//   rounding  the rewrite makes the same results up to rounding, for finite inputs. A comparison that follows in the model
//             may see the difference
//   finite    takes for granted that there is no NaN, no infinity and no divisor that is zero, and that no number lies so
//             near to where a comparison, or what makes whole numbers, jumps that its rounding decides
#ifndef WEIR_EXACTNESS_H
#define WEIR_EXACTNESS_H

#include "span.h"

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

// EXACTNESSES for a word that is none.
static inline enum exactness exactness_by_name(struct span word) {
  enum exactness e = EXACTNESS_EXACT;
  while (e < EXACTNESSES && !span_is(word, exactness_name(e)))
    e++;
  return e;
}

#endif
