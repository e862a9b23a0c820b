// Outputs that say where elements are, which an ArgMax, ArgMin or TopK found: a place has no size, so that two of them are near each
// other where the elements there are.
#ifndef WEIR_VERIFY_PLACES_H
#define WEIR_VERIFY_PLACES_H

#include "verify_models.h"

struct verify_places;
// Is output `place` of the source one of these, in the order in which its node found them?
bool verify_places_has(struct verify_run *r, uint32_t place);
// Were they found among whole numbers? These may be a step apart besides.
bool verify_places_step(struct verify_run *r, uint32_t place);
// In *near: are the elements at the places of `a` within a relative error of `most` of those at the places of `b`, each of its own?
// The source runs once more on that case for them; false where it does not. *b is of the type and dims of *a. -1: stopped, or
// something could not be read.
int verify_places_near(struct verify_run *r, const struct array_case *c, uint32_t place,
                       const struct array *a, const struct array *b, double most, bool *near,
                       struct err *err);
void verify_places_close(struct verify_places *p); // may be NULL

#endif
