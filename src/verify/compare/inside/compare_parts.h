// What compare.c, compare_chunks.c and compare_bounds.c share.
//
// Two tensors of one type and size pass by in chunks of elements, as doubles, with their differences:
//
//   array ──stretch of 1 MiB──▶ chunk: wide elements ──▶ doubles v[0], v[1], d = |v[1] - v[0]|
//
// Chunks begin at multiples of COMPARE_CHUNK, so that no figure depends on where elements lie.
#ifndef WEIR_COMPARE_PARTS_H
#define WEIR_COMPARE_PARTS_H

#include "base/table.h"
#include "verify/compare/compare.h"

enum { COMPARE_CHUNK = 1024 };

struct compare_chunk {
  uint64_t first; // element
  size_t n;
  size_t width; // bytes of a wide element
  bool same;    // all bytes are: v[1] is v[0], differences are 0
  bool finite;  // all of them are, on both sides
  // Elements, those below a byte a byte each; doubles where there are two types.
  const uint8_t *wide[2];
  const double *v[2];          // as they are; behind them zeros up to a multiple of 8
  double d[COMPARE_CHUNK + 8]; // 0 where a side is not finite; the same
};

struct compare_pair {
  const struct array *of[2]; // tensors of numbers
  enum dtype dtype[2]; // float of a complex64, double of a complex128; two only of retyped ones
  uint64_t count;      // of that type
};

// What there is to be compared: tensors, of which sequences are made. The caller frees the table.
struct compare_pairs {
  TABLE(struct compare_pair, pairs);
};
// Flattens items of items too, the first one first. False: they cannot be compared, *why says what is different.
bool compare_list_pairs(struct compare_pairs *l, const struct array *reference,
                        const struct array *result, bool retyped, char why[COMPARE_WHY]);

// Calls `use` for every chunk. -1 with ERR_RETRY if *stop became other than 0, or it could not be read.
struct compare_reader;
// masks: as in struct compare_bounds.
struct compare_reader *compare_chunks_open(struct arena *a, bool masks, const volatile int *stop);
int compare_chunks(struct compare_reader *r, const struct compare_pair *p,
                   void (*use)(void *ctx, const struct compare_chunk *c), void *ctx,
                   struct err *err);

bool compare_wants_close(const struct compare_bounds *b);

#endif
