// What the user can do about an error.
#ifndef WEIR_HINTS_H
#define WEIR_HINTS_H

#include "err.h"

struct hints_text {
  char s[640];
};
// The words for the error's reason, or the hint it brought along; empty if it has neither.
struct hints_text hints_of(const struct err *err);

#endif
