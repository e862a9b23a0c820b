// Texts of dims, a line each: what is read is printed, and read again it is the same. Lines are
// combined with each other, declared equal, compared: nothing aborts, and what is found once is
// found twice.
#include "dims/dims.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void demand(bool holds) {
  if (!holds) abort();
}

static void check_text(struct dims *d, dim_id e, struct arena *scratch) {
  const struct span text = dims_text(d, e, scratch);
  if (text.n > 0 && memchr(text.at, '?', text.n)) return; // holds what has no name
  demand(dims_parse(d, text, 1) == e);
}

static dim_id combine(struct dims *d, uint32_t how, dim_id a, dim_id b) {
  switch (how % 8) {
  case 0: return dims_add(d, a, b);
  case 1: return dims_mul(d, a, b);
  case 2: return dims_max(d, a, b);
  case 3: return dims_min(d, dims_sub(d, a, b), b);
  case 4: return dims_floor_div(d, a, b);
  case 5: return dims_trunc_div(d, a, b);
  case 6: return dims_exact_div(d, a, b);
  default: return dims_ceil_div(d, a, dims_mod(d, a, b));
  }
}

static void unite(struct dims *d, dim_id a, dim_id b) {
  if (a == NO_ID || b == NO_ID || !dims_unite(d, a, b)) return;
  const dim_id found = dims_find(d, a);
  demand(dims_find(d, found) == found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  struct dims *d = dims_new();
  struct arena scratch = {0};
  dim_id before = dims_number(d, 2);
  if (n > 2048) n = 2048;
  for (size_t at = 0; at < n;) {
    const uint8_t *newline = memchr(data + at, '\n', n - at);
    const size_t length = newline ? (size_t)(newline - data) - at : n - at;
    const dim_id e = dims_parse(d, span_of(data + at, length), 1);
    demand(e != NO_ID);
    check_text(d, e, &scratch);
    const dim_id both = combine(d, (uint32_t)length, before, e);
    if (both != NO_ID) check_text(d, both, &scratch);
    dims_equal(d, both, e);
    demand(dims_least(d, both) <= dims_most(d, both) || both == NO_ID);
    before = both == NO_ID ? e : both;
    at += length + 1;
  }
  // From here on, texts may be read as what they were declared equal with.
  for (uint32_t i = 0; i < 4; i++)
    unite(d, before, dims_parse(d, span_of(data, n < 8 * i ? n : 8 * i), 1));
  arena_free(&scratch);
  dims_free(d);
  return 0;
}
