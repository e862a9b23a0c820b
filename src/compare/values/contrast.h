// Room: elements of one model compared with those of another: equal bytes, or how far apart.
//
// Both sides come by in pieces, whatever the size of a tensor; memory is that of work_options. A
// tensor is left at the first byte that differs, unless its figures are wanted.
#ifndef WEIR_CONTRAST_H
#define WEIR_CONTRAST_H

#include "recipe/recipe.h"
#include "stream/io/sources.h"
#include "stream/run/work.h"
#include "tensor_stats/figures.h"

enum { CONTRAST_SIDES = 2 };

struct contrast_side {
  const struct recipes *r;
  struct sources *sources;
};

// Two recipes with as many elements. Without figures: of as many bytes, which are compared as they
// are. With figures: of types that contrast_takes.
struct contrast_pair {
  uint32_t of[CONTRAST_SIDES];
  bool figures;
};
bool contrast_takes(enum dtype t);

// With figures: v is the element of the first side, e what it has more than that of the second (0 of
// two that are the same, also where they are not finite). They do not depend on the number of
// workers. `differing`: elements whose values are not the same (two NaNs are); `first`: the index of
// the first of them.
struct contrast_found {
  bool differs;
  struct figures figures;
  double sum_abs; // of |e|
  uint64_t differing, first;
};

struct contrast_stats {
  uint64_t bytes_read; // of both
  uint32_t jobs;
};

// Of n pairs into out[0..n). Afterwards the sources are checked to be unchanged. ERR_RETRY after a
// stop. `options` as for measure_run: the memory is shared by both sides.
int contrast_run(const struct contrast_side side[CONTRAST_SIDES], const struct contrast_pair *pairs,
                 uint32_t n, const struct work_options *options, struct contrast_found *out,
                 struct contrast_stats *stats, struct err *err);
// The least memory that it takes.
uint64_t contrast_least_memory(void);

// Hashes of a few pieces of each recipe, spread from its first byte to its last: those of equal
// elements are equal. Reads at most CONTRAST_SAMPLE_BYTES of each.
enum { CONTRAST_SAMPLE_BYTES = 16 << 10 };
int contrast_samples(const struct contrast_side *side, const uint32_t *of, uint32_t n,
                     const struct work_options *options, uint64_t *out,
                     struct contrast_stats *stats, struct err *err);

#endif
