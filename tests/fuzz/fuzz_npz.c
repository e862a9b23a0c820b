// Archives of arrays, and single ones, from arbitrary bytes: whatever comes out has the sizes that it says,
// within what was allowed, and names that are text.
#include "fuzzed_array.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 20 };

static void demand(int holds) {
  if (!holds) abort();
}

static uint64_t touch(const struct array *x) {
  uint64_t count, bytes, sum = 0;
  demand(x->kind == ARRAY_TENSOR && x->rank <= ARRAY_MAX_RANK && !file_is_open(x->file));
  demand(array_sizes(x->dtype, x->rank, x->dims, &count, &bytes));
  demand(x->count == count && x->bytes == bytes && bytes <= MOST);
  for (uint64_t i = 0; i < bytes; i++)
    sum += x->at[i];
  for (uint64_t i = 0; x->dtype == DTYPE_STRING && i < count; i++)
    for (size_t k = 0; k < x->strings[i].n; k++)
      sum += x->strings[i].at[k];
  return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static volatile uint64_t sink;
  struct arena a = {0};
  struct err err = {0};
  const struct feed f = feed_of(data, size);
  struct space s = space_of(MOST, &a);
  struct array one;
  struct arrays all;
  if (npy_read(&f, "", &s, &one, &err) == 0)
    sink += touch(&one);
  else
    demand(err.kind != ERR_NONE && err.msg[0]);
  err = (struct err){0};
  s = space_of(MOST, &a);
  if (npz_read(&f, &s, &all, &err) == 0) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < all.n; i++) {
      demand(utf8_valid(span_str(all.list[i].name)) && array_named(&all, all.list[i].name));
      sink += touch(&all.list[i]);
      bytes += all.list[i].bytes;
    }
    demand(bytes <= MOST);
  } else {
    demand(err.kind != ERR_NONE && err.msg[0]);
  }
  arena_free(&a);
  return 0;
}
