// Heapsort. The rows are a heap whose first one comes last; it changes places with the last row of the heap, which is one row
// shorter then:
//
//   |---------- heap ----------|------ in order ------|
//   `- the largest of these       all are larger
#include "base/sort.h"

#include <stdint.h>
#include <string.h>

struct heap {
  uint8_t *rows;
  size_t bytes;
  sort_compare *compare;
  const void *ctx;
};

static void exchange(const struct heap *h, size_t i, size_t k) {
  uint8_t *a = h->rows + i * h->bytes, *b = h->rows + k * h->bytes, kept[64];
  for (size_t left = h->bytes, n; left > 0; left -= n, a += n, b += n) {
    n = left < sizeof kept ? left : sizeof kept;
    memcpy(kept, a, n);
    memcpy(a, b, n);
    memcpy(b, kept, n);
  }
}

static int compare_rows(const struct heap *h, size_t i, size_t k) {
  return h->compare(h->rows + i * h->bytes, h->rows + k * h->bytes, h->ctx);
}

// Row i goes down until it is no smaller than both rows below it.
static void settle(const struct heap *h, size_t i, size_t n) {
  for (size_t below; (below = 2 * i + 1) < n; i = below) {
    if (below + 1 < n && compare_rows(h, below, below + 1) < 0) below++;
    if (compare_rows(h, i, below) >= 0) return;
    exchange(h, i, below);
  }
}

void sort_with(void *rows, size_t n, size_t bytes, sort_compare *compare, const void *ctx) {
  const struct heap h = {rows, bytes, compare, ctx};
  for (size_t i = n / 2; i > 0; i--)
    settle(&h, i - 1, n);
  for (size_t end = n; end > 1; end--) {
    exchange(&h, 0, end - 1);
    settle(&h, 0, end - 1);
  }
}
