// What is in place of an unfinished seal whose seal.json cannot be read.
#ifndef WEIR_SEAL_LEFT_H
#define WEIR_SEAL_LEFT_H

#include "seal.h"

// Fills known and left of *out. Nothing is touched.
void seal_left_find(const struct staging *st, struct seal_given_up *out);

#endif
