// Between what numbers values lie, whatever finite numbers a model is given.
#ifndef WEIR_SURE_RANGES_H
#define WEIR_SURE_RANGES_H

#include "passes/kit/kit.h"

#include <math.h>

// Both ends belong to it; infinity: no bound on that side. NaN lies in every range.
struct range {
  double lo, hi;
};

struct sure_ranges {
  struct kit *k;
  TABLE(struct range, of);    // by value id
  TABLE(uint8_t, wanted);     // by value id
  TABLE(uint32_t, constants); // values whose elements a stage is asked about
};

// Finds the ranges of values that `wants` says, and of what they depend on; `wants` NULL: of all. Constants that are not at
// hand are read once, all of them by one question; where nobody can be asked they have the range of their type. What the
// metadata says of a value is believed: its own ("range"), and the model's ("range:NAME"). Types are known (kit_infer). -1: the stage failed.
int sure_ranges_find(struct sure_ranges *r, struct kit *k,
                     bool (*wants)(struct kit *k, uint32_t node), struct err *err);
void sure_ranges_done(struct sure_ranges *r);
static inline struct range sure_ranges_of(const struct sure_ranges *r, uint32_t value) {
  return value < r->n_of ? r->of[value] : (struct range){-(double)INFINITY, (double)INFINITY};
}
// What a type holds; no bounds for floats.
struct range sure_ranges_of_dtype(enum dtype dtype);

// Entries of the model's metadata: the name of the value behind this.
#define SURE_RANGES_KEY "range:"

#endif
