// The plan reader over anything. Input: the JSON text, a NUL, the literals. A plan that is accepted
// is written again and must come out as the same text: there is one form.
#include "plan/plan_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct text {
  const uint8_t *at;
  size_t n, compared;
};

static int compare(void *ctx, struct span piece) {
  struct text *want = ctx;
  if (!range_fits(want->compared, piece.n, want->n) ||
      memcmp(want->at + want->compared, piece.at, piece.n) != 0)
    abort();
  want->compared += piece.n;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  const uint8_t *end = n ? memchr(data, 0, n) : NULL;
  size_t json = end ? (size_t)(end - data) : n;
  struct span literals = end ? span_of(end + 1, n - json - 1) : span_of(NULL, 0);
  struct plan p;
  struct err err = {0};
  if (plan_file_read(&p, span_of(data, json), literals, &err) == 0) {
    struct text want = {data, json, 0};
    for (uint32_t i = 0; i < plan_unit_count(&p) && i < 8; i++)
      plan_segment_at(&p, plan_unit_at(&p, i).output, plan_unit_at(&p, i).off);
    plan_file_write(&p, compare, &want, &err);
    plan_free(&p);
  }
  return 0;
}
