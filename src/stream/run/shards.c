// A unit belongs to the shard in whose part of all work its middle lies. Neighbours stay together, since what was found
// out about a weight in one unit is wanted in the next.
//
//   work    0 ──────┬──────┬──────┬────── total        count = 4
//   units   │  0  │   1   │ 2 │   3    │
//   shard      0      1     2     3
#include "shards.h"

#include "effort.h"

#include <assert.h>

void shards_of_plan(const struct plan *p, uint32_t index, uint32_t count, uint32_t *first,
                    uint32_t *end) {
  assert(index < count);
  struct arena a = {0};
  const struct effort e = effort_of_plan(p, &a);
  const uint32_t n = plan_unit_count(p);
  const double total = effort_total(&e);
  double before = 0;
  *first = *end = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct plan_unit unit = plan_unit_at(p, i);
    const double work = effort_between(&e, unit.output, unit.off, unit.len);
    const double share = total > 0 ? (before + work / 2) / total : 0;
    const uint32_t of = (uint32_t)(share * count);
    before += work;
    if (of < index) *first = i + 1;
    if (of <= index) *end = i + 1;
  }
  if (index + 1 == count) *end = n; // whatever rounding says
  if (*first > *end) *first = *end;
  arena_free(&a);
}
