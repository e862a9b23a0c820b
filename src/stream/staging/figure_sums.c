// Sums on their way from units to tensors. Pushing a leaf carries into the complete subtrees to its
// left, as a binary counter does, but for a run of leaves that may begin anywhere:
//
//   unit 3 makes leaves 5..12:   5 │ 6 7 │ 8 9 10 11 │ 12        (level 0, 1, 2, 0)
//
// Joining is what figures_join does with the left part first, so a run that begins at leaf 0 ends
// as the tree of figures.h whatever its cuts were.
#include "stream/staging/figure_sums.h"

#include "base/table.h"

#include <stdlib.h>

void figure_sums_free(struct figure_sums *s) {
  table_free(s->rows, s->cap, sizeof *s->rows);
  *s = (struct figure_sums){0};
}

static void append(struct figure_sums *s, const struct figure_sum *x) {
  s->rows = table_grow(s->rows, &s->cap, s->n + 1, sizeof *s->rows);
  s->rows[s->n++] = *x;
}

static void push(struct figure_sums *s, const struct figure_sum *x) {
  append(s, x);
  while (s->n >= 2) {
    struct figure_sum *a = &s->rows[s->n - 2];
    const struct figure_sum *b = &s->rows[s->n - 1];
    const bool are_halves = a->segment == b->segment && a->level == b->level && a->index % 2 == 0 &&
                            b->index == a->index + 1;
    if (!are_halves) return;
    a->f = figures_join(&a->f, &b->f);
    a->level++;
    a->index /= 2;
    s->n--;
  }
}

void figure_sums_push(struct figure_sums *s, uint32_t segment, uint64_t leaf,
                      const struct figures *f) {
  push(s, &(struct figure_sum){.segment = segment, .index = leaf, .f = *f});
}

void figure_sums_join(struct figure_sums *s, const struct figure_sums *next) {
  for (size_t i = 0; i < next->n; i++)
    push(s, &next->rows[i]);
}

void figure_sums_put_unit(struct figure_sums *all, uint32_t unit, const struct figure_sums *s) {
  size_t kept = 0;
  for (size_t i = 0; i < all->n; i++)
    if (all->rows[i].unit != unit) all->rows[kept++] = all->rows[i];
  all->n = kept;
  for (size_t i = 0; i < s->n; i++) {
    struct figure_sum x = s->rows[i];
    x.unit = unit;
    append(all, &x);
  }
}

void figure_sums_write(struct json_out *j, const struct figure_sums *s) {
  json_array(j);
  for (size_t i = 0; i < s->n; i++) {
    const struct figure_sum *x = &s->rows[i];
    json_array(j);
    json_uint(j, x->segment);
    json_uint(j, x->level);
    json_uint(j, x->index);
    json_uint(j, x->f.elements);
    json_uint(j, x->f.nonfinite);
    json_uint(j, x->f.overflows);
    json_double(j, x->f.vv);
    json_double(j, x->f.ee);
    json_double(j, x->f.ve);
    json_double(j, x->f.max_error);
    json_end_array(j);
  }
  json_end_array(j);
}

static bool read_one(const struct json_value *v, struct figure_sum *x) {
  uint64_t n[6];
  double d[4];
  if (!json_is_array(v) || json_count(v) != 10) return false;
  v = json_first(v);
  for (int i = 0; i < 6; i++, v = json_next(v))
    if (!json_as_uint(v, &n[i])) return false;
  for (int i = 0; i < 4; i++, v = json_next(v))
    if (!json_as_double(v, &d[i])) return false;
  if (n[0] > UINT32_MAX || n[1] > 62 || n[2] > UINT64_MAX >> 1 >> n[1]) return false;
  *x = (struct figure_sum){.segment = (uint32_t)n[0],
                           .level = (uint32_t)n[1],
                           .index = n[2],
                           .f = {.elements = n[3],
                                 .nonfinite = n[4],
                                 .overflows = n[5],
                                 .vv = d[0],
                                 .ee = d[1],
                                 .ve = d[2],
                                 .max_error = d[3]}};
  return true;
}

bool figure_sums_read(const struct json_value *v, struct figure_sums *s) {
  struct figure_sums read = {0};
  struct figure_sum x;
  if (!json_is_array(v)) return false;
  for (v = json_first(v); v; v = json_next(v)) {
    if (!read_one(v, &x)) {
      figure_sums_free(&read);
      return false;
    }
    append(&read, &x);
  }
  *s = read;
  return true;
}

static uint64_t start(const struct figure_sum *x) {
  return x->index << x->level;
}

static int by_start(const void *a, const void *b) {
  const struct figure_sum *x = a, *y = b;
  if (x->segment != y->segment) return x->segment < y->segment ? -1 : 1;
  if (start(x) != start(y)) return start(x) < start(y) ? -1 : 1;
  return x->unit < y->unit ? -1 : x->unit > y->unit;
}

void figure_sums_sort(struct figure_sums *all) {
  if (all->n) qsort(all->rows, all->n, sizeof *all->rows, by_start);
}

bool figure_sums_next(const struct figure_sums *all, size_t *at, uint32_t *segment,
                      struct figures *f, bool *whole) {
  if (*at >= all->n) return false;
  struct figure_sums stack = {0};
  uint64_t next = 0;
  *segment = all->rows[*at].segment;
  *whole = true;
  for (; *at < all->n && all->rows[*at].segment == *segment; ++*at) {
    const struct figure_sum *x = &all->rows[*at];
    if (start(x) != next) *whole = false;
    next = start(x) + ((uint64_t)1 << x->level);
    push(&stack, x);
  }
  *f = stack.rows[stack.n - 1].f;
  for (size_t i = stack.n - 1; i-- > 0;)
    *f = figures_join(&stack.rows[i].f, f);
  figure_sums_free(&stack);
  return true;
}
