// What was found out about weights while they were quantized (scales and zero points), kept for the
// recipes that ask for it next: one for all workers of a run, within a budget.
//
// A tensor's scales are a list of units (a column's, a block row's): whatever the computing side
// finds together. The cache holds the bytes of their elements as the parts hold them: a unit's zero points
// are packed from a byte on. It changes no byte of any output, only how often sources are read.
#ifndef WEIR_EVAL_CACHE_H
#define WEIR_EVAL_CACHE_H

#include "recipe.h"

struct eval_cache; // shared by threads

struct eval_cache_key {
  uint32_t of;                  // the operand
  struct recipe_quantization q; // as in the table of recipes
  uint64_t units;
  uint32_t scale_bytes, zero_bytes; // of a unit; zero_bytes 0: there are none
};

// NULL if there is no memory for it: it can be done without.
struct eval_cache *eval_cache_open(size_t bytes);
void eval_cache_close(struct eval_cache *c);

// Bytes that hold the zero points of the tensor that has most of them. Codes are made in one read; scales may take
// another, which finds the zero points again but cannot keep more of them than there is room for: with less
// than this, a weight too large for all its scales to be kept is read a third time. 0: nothing is quantized.
uint64_t eval_cache_wanted(const struct recipes *r);

// The NULL cache holds nothing and takes nothing. `unit` < key->units.
void eval_cache_put(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                    const uint8_t *scales, const uint8_t *zeros);
// Bytes [off, off + n) of the unit's scales or zeros; false: not there.
bool eval_cache_scales(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                       size_t off, uint8_t *out, size_t n);
bool eval_cache_zeros(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                      size_t off, uint8_t *out, size_t n);

#endif
