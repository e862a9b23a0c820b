// Top-1 of outputs of whole models: in how many rows of all cases the largest element is elsewhere.
#ifndef WEIR_VERIFY_TOP1_H
#define WEIR_VERIFY_TOP1_H

#include "infer/infer.h"
#include "verify/compare/compare.h"

// What the elements of an output say of a choice among many.
enum verify_top1 {
  VERIFY_TOP1_NONE,
  VERIFY_TOP1_ROWS,   // of Softmax or LogSoftmax over the last axis
  VERIFY_TOP1_PLACES, // of ArgMax over the last axis: places themselves
};

// Fewer rows say nothing about a share near 1, also on request.
enum { VERIFY_TOP1_LEAST = 100 };

// Of an output of the main graph, seen through Identity and Cast.
enum verify_top1 verify_top1_of(const struct model *m, struct infer *in, uint32_t output);

// Adds what two outputs that have figures say to *sum, and to *one what they say alone. -1: elements cannot be read.
int verify_top1_add(enum verify_top1 kind, const struct array *a, const struct array *b,
                    const struct compare_figures *f, const volatile int *stop,
                    struct compare_rows *one, struct compare_rows *sum, struct err *err);

// Is it judged by the rows of all cases together? Else the bound for top-1, if any, is one of this array alone (compare.h).
bool verify_top1_has(enum verify_top1 kind, const struct array *x);

// Why rows fewer than VERIFY_TOP1_LEAST are not judged.
const char *verify_top1_few(const struct compare_rows *rows, struct arena *a);

#endif
