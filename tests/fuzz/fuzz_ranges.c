// Files of ranges of all three forms, from arbitrary bytes: what is read is whole and in bounds, and comes back the same when it is
// written.
#include "ranges/ranges.h"
#include "taken_text.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds) {
  if (!holds) abort();
}

static void check_floats(const float *x, uint32_t n) {
  for (uint32_t i = 0; x && i < n; i++)
    demand(isfinite(x[i]));
}

static void check(const struct ranges *r) {
  for (uint32_t i = 0; i < r->n_values; i++) {
    const struct ranges_value *v = &r->values[i];
    demand(ranges_find(r, v->name) == v && v->name.n > 0);
    demand(isfinite(v->least) && isfinite(v->most) && v->least <= v->most);
    demand(v->type == DTYPE_UNDEFINED || dtype_is_plain_float(v->type));
    check_floats(v->channel_least, v->n_channels);
    check_floats(v->channel_most, v->n_channels);
    check_floats(v->channel_mean, v->n_channels);
    uint64_t sum = 0;
    for (uint32_t k = 0; k < v->histogram.n_bins; k++)
      sum += v->histogram.counts[k];
    demand(sum <= v->elements);
    demand(v->gram_k == 0 || range_fits(v->gram_at, v->gram_bytes, r->data_bytes));
  }
}

static struct taken_text written(const struct ranges *r) {
  struct taken_text t = {0};
  demand(ranges_write(r, taken_text_put, &t) == 0);
  return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ranges r, again;
  struct err err = {0};
  ranges_init(&r);
  if (ranges_parse(&r, span_of(data, size), "fuzz", &err)) {
    demand(err.kind == ERR_MODEL && err.msg[0]);
  } else {
    check(&r);
    struct taken_text t = written(&r), cache = {0};
    ranges_init(&again);
    err = (struct err){0};
    demand(ranges_parse(&again, span_of(t.at, t.n_at), "again", &err) == 0);
    struct taken_text same = written(&again);
    demand(t.n_at == same.n_at && memcmp(t.at, same.at, t.n_at) == 0);
    demand(ranges_write_cache(&r, taken_text_put, &cache) == 0);
    TABLE_FREE(&t, at);
    TABLE_FREE(&same, at);
    TABLE_FREE(&cache, at);
    ranges_free(&again);
  }
  ranges_free(&r);
  return 0;
}
