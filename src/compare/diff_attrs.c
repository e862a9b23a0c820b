// A node may have any number of attributes, in any order, so lists that are not in one order are sorted.
#include "compare/inside/diff_parts.h"

#include <stdlib.h>

struct named {
  uint32_t name, place;
};

static bool is_dead(const struct diff *d, uint32_t side, uint32_t attr) {
  return d->m[side]->attrs[attr].flags & ATTR_DEAD;
}

static bool in_one_order(const struct diff *d, const struct diff_attrs l[DIFF_SIDES]) {
  for (uint32_t i = 0; i < l[0].n && l[0].n == l[1].n; i++) {
    const uint32_t a = l[0].first + i, b = l[1].first + i;
    if (is_dead(d, 0, a) || is_dead(d, 1, b) ||
        diff_name(d, 0, d->m[0]->attrs[a].name) != diff_name(d, 1, d->m[1]->attrs[b].name))
      return false;
  }
  return l[0].n == l[1].n;
}

static int by_name(const void *pa, const void *pb) {
  const struct named *a = pa, *b = pb;
  if (a->name != b->name) return a->name < b->name ? -1 : 1;
  return (a->place > b->place) - (a->place < b->place);
}

static struct named *sorted(struct diff *d, uint32_t side, struct diff_attrs l, struct arena *a,
                            uint32_t *n) {
  struct named *list = arena_alloc(a, (l.n + (size_t)1) * sizeof *list);
  *n = 0;
  for (uint32_t i = 0; i < l.n; i++)
    if (!is_dead(d, side, l.first + i))
      list[(*n)++] = (struct named){diff_name(d, side, d->m[side]->attrs[l.first + i].name), i};
  qsort(list, *n, sizeof *list, by_name);
  return list;
}

void diff_attrs_pair(struct diff *d, const struct diff_attrs l[DIFF_SIDES],
                     uint32_t *of[DIFF_SIDES]) {
  const bool same = in_one_order(d, l);
  struct arena scratch = {0};
  uint32_t n[DIFF_SIDES];
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    of[s] = arena_alloc(&d->arena, (l[s].n + (size_t)1) * sizeof **of);
    for (uint32_t i = 0; i < l[s].n; i++)
      of[s][i] = same ? l[!s].first + i : NO_ID;
  }
  d->steps += l[0].n + l[1].n;
  if (same) return;
  const struct named *a = sorted(d, 0, l[0], &scratch, &n[0]),
                     *b = sorted(d, 1, l[1], &scratch, &n[1]);
  for (uint32_t i = 0, k = 0; i < n[0] && k < n[1];) {
    if (a[i].name != b[k].name) {
      *(a[i].name < b[k].name ? &i : &k) += 1;
      continue;
    }
    of[0][a[i].place] = l[1].first + b[k].place;
    of[1][b[k].place] = l[0].first + a[i].place;
    i++, k++;
  }
  arena_free(&scratch);
}
