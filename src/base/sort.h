// Sorting with a context: systems have qsort_r with different orders of arguments, or not at all.
#ifndef WEIR_SORT_H
#define WEIR_SORT_H

#include <stddef.h>

// compare(a, b, ctx) is below 0 where row a comes before row b, and above 0 where it comes after. It is never asked about one row
// twice.
typedef int sort_compare(const void *a, const void *b, const void *ctx);

// Sorts n rows of `bytes` bytes where they are: in O(n log n) steps, whatever they are, and with no memory of its own, so it cannot
// fail. Rows that are equal end in any order: `compare` tells all rows apart wherever their order shows.
void sort_with(void *rows, size_t n, size_t bytes, sort_compare *compare, const void *ctx);

#endif
