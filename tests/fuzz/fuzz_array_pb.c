// TensorProto, SequenceProto and OptionalProto from arbitrary bytes: whatever comes out has the sizes that it
// says, within what was allowed, is equal to itself, and settles as an optional.
#include "fuzzed_array.h"

#include "verify/arrays/array_files.h"
#include "verify/compare/compare.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 20, DEPTH = 12 };

static void demand(int holds) {
  if (!holds) abort();
}

static void check_tensor(const struct array *x) {
  static volatile uint64_t sink;
  uint64_t count, bytes;
  demand(x->rank <= ARRAY_MAX_RANK && !file_is_open(x->file));
  demand(array_sizes(x->dtype, x->rank, x->dims, &count, &bytes));
  demand(x->count == count && x->bytes == bytes && bytes <= MOST);
  for (uint64_t i = 0; i < bytes; i++)
    sink += x->at[i];
  for (uint64_t i = 0; x->dtype == DTYPE_STRING && i < count; i++)
    for (size_t k = 0; k < x->strings[i].n; k++)
      sink += x->strings[i].at[k];
}

static void check(const struct array *x) {
  const struct array *open[DEPTH];
  uint32_t at[DEPTH] = {0}, n = 0;
  open[n++] = x;
  while (n > 0) {
    const struct array *top = open[n - 1];
    demand(top->name != NULL);
    if (top->kind == ARRAY_TENSOR) check_tensor(top);
    if (top->kind == ARRAY_SEQUENCE && at[n - 1] < top->n_items) {
      demand(n < DEPTH);
      open[n] = &top->items[at[n - 1]++];
      at[n++] = 0;
    } else {
      n--;
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct arena a = {0};
  struct err err = {0};
  const struct feed f = feed_of(data, size);
  struct space s = space_of(MOST, &a);
  struct array x;
  if (pb_read(&f, &s, &x, &err) != 0) {
    demand(err.kind != ERR_NONE && err.msg[0]);
    arena_free(&a);
    return 0;
  }
  check(&x);
  struct compare_bounds b = compare_nothing();
  struct compare_result r;
  b.equal = true;
  demand(compare_arrays(&x, &x, &b, NULL, &r, &err) == 0 && r.end == COMPARE_PASSED);
  array_settle(&x, true);
  demand(!x.either);
  check(&x);
  arena_free(&a);
  return 0;
}
