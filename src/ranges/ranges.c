// Values by name, in the order in which they came. A table of buckets is twice as long as the list at least, so that
// looking one up is a step or two; it is made anew when the list has grown to half of it.
#include "ranges/ranges.h"

#include "tensor_stats/second_moments.h"

void ranges_init(struct ranges *r) {
  *r = (struct ranges){
      .weir = "", .source = "", .passes = "[]", .runtime = "", .method = RANGES_ANY};
}

void ranges_free(struct ranges *r) {
  TABLES_FREE(r, values, buckets, unfit);
  arena_free(&r->arena);
  ranges_init(r);
}

// The bucket that has the name, or the free one where it belongs. n_buckets is a power of two.
static uint32_t bucket_of(const struct ranges *r, struct span name) {
  uint32_t at = (uint32_t)span_hash(name) & (r->n_buckets - 1);
  while (r->buckets[at] && !span_eq(r->values[r->buckets[at] - 1].name, name))
    at = (at + 1) & (r->n_buckets - 1);
  return at;
}

static void widen(struct ranges *r) {
  const uint32_t n = r->n_buckets ? 2 * r->n_buckets : 64;
  TABLE_FREE(r, buckets);
  TABLE_ADD(r, buckets, n);
  for (uint32_t i = 0; i < r->n_values; i++)
    r->buckets[bucket_of(r, r->values[i].name)] = i + 1;
}

struct ranges_value *ranges_add(struct ranges *r, struct span name) {
  if (2 * (uint64_t)r->n_values >= r->n_buckets) widen(r);
  const uint32_t at = bucket_of(r, name);
  if (r->buckets[at]) return NULL;
  r->buckets[at] = TABLE_ADD(r, values, 1) + 1;
  struct ranges_value *v = &r->values[r->n_values - 1];
  v->name = span_of(arena_string(&r->arena, name), name.n);
  return v;
}

const struct ranges_value *ranges_find(const struct ranges *r, struct span name) {
  if (r->n_buckets == 0) return NULL;
  const uint32_t at = r->buckets[bucket_of(r, name)];
  return at ? &r->values[at - 1] : NULL;
}

bool ranges_is_unfit(const struct ranges *r, struct span name) {
  for (uint32_t i = 0; i < r->n_unfit; i++)
    if (span_eq(r->unfit[i], name)) return true;
  return false;
}

uint64_t ranges_gram_bytes(uint32_t k) {
  return second_moments_elements(k) * sizeof(double);
}

static const char *const methods[] = {[RANGES_MINMAX] = "minmax",
                                      [RANGES_PERCENTILE] = "percentile",
                                      [RANGES_ENTROPY] = "entropy",
                                      [RANGES_DISTRIBUTION] = "distribution",
                                      [RANGES_ANY] = ""};

const char *ranges_method_name(enum ranges_method m) {
  return methods[m];
}

enum ranges_method ranges_method_by_name(struct span name) {
  enum ranges_method m = RANGES_MINMAX;
  while (m < RANGES_ANY && !span_is(name, methods[m]))
    m++;
  return m;
}

const char *ranges_data_path(const char *path, struct arena *a) {
  return arena_printf(a, "%s.data", path);
}
