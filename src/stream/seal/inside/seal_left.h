// What is in place of an unfinished seal that is given up, and stays.
#ifndef WEIR_SEAL_LEFT_H
#define WEIR_SEAL_LEFT_H

#include "seal.h"

// Fills known and left of *out. Nothing is touched.
void seal_left_find(const struct staging *st, struct seal_given_up *out);
// Adds a file of the destination, with its size, to out->left, if it is there.
void seal_left_add(const struct staging *st, const char *name, struct seal_given_up *out);

#endif
