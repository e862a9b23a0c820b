// Outputs that hold places, which an ArgMax, ArgMin or TopK found. The distance of two places means nothing: they are near each other
// if the elements at them are.
#ifndef WEIR_VERIFY_PLACES_H
#define WEIR_VERIFY_PLACES_H

#include "verify_models.h"

struct verify_places;
// Is output `place` of the source one of these, with the places in the order in which its node found them?
bool verify_places_has(struct verify_run *r, uint32_t place);
// Were they found among whole numbers? These may be a step apart too.
bool verify_places_step(struct verify_run *r, uint32_t place);
// *near: for each pair of places in `a` and `b`, are the elements there within a relative error of `most`? The source runs once more on
// that case; *near is false if it does not run. Both arrays have the same dims; their types may be two types of floats.
// -1: stopped, or something could not be read.
int verify_places_near(struct verify_run *r, const struct array_case *c, uint32_t place,
                       const struct array *a, const struct array *b, double most, bool *near,
                       struct err *err);
void verify_places_close(struct verify_places *p); // may be NULL

#endif
