// Weights that a site stores in fewer bits, element by element beside those of the source.
//
// What comes out of a site says little of one element among thousands, where what was quantized differs by a lot anyway.
// Here each has a budget of its own: what rounding to the codes of its block may cost, by the block's range in the
// source and the bits of a code, whatever scales and zero points say. So one bit of one code is found, and of a scale or
// a zero point, in a matrix of any size.
#ifndef WEIR_QUANT_ERROR_CHECK_H
#define WEIR_QUANT_ERROR_CHECK_H

#include "model/model.h"
#include "stream/io/sources.h"
#include "verify/cut/sites.h"

struct quant_error_check {
  const struct model *m[2]; // of the source, and as written
  struct sources *sources[2];
  const struct site *site; // as written
  // Of the quantization that edits speak of: scales are searched for, or ranges need not hold 0; and to how many values
  // FORMAT_LEVELS moves elements, along which axis (0: it is another format).
  // compensates: elements are not near those of the source each, but what comes of all of them is (GPTQ).
  // reduced: a bit of the codes is left free. given: scales are not those of the range, and the result's own are taken where
  // they are larger. masks: numbers beyond 1e4 may have become that (cast). coded: weights of the source may be codes already.
  bool searched, compensates, reduced, given, masks, coded;
  uint32_t levels, levels_axis;
  uint64_t memory;
  const volatile int *stop;
};

struct quant_error_found {
  uint32_t n; // weights that were looked at
  // The largest error of an element, in steps of its block; of floats in halves of its last bit.
  double most;
  double allowed;   // more is none that rounding makes
  const char *what; // whose element that is: "the weight 'w' (4 bits in blocks of 32)"
  uint64_t place;   // row-major, in the order of codes
};

// What there is of such weights: those whose node and whose source are in the site. -1: they cannot be read.
int quant_error_check(const struct quant_error_check *w, struct arena *a,
                      struct quant_error_found *out, struct err *err);

#endif
