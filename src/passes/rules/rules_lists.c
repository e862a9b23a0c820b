// Functions of the rule language over lists: permutations, axes, dims (rules_functions.h).
#include "passes/rules/inside/rules_functions.h"

struct rules_value rules_call_len(struct rules_run *run, const struct rules_value *a) {
  (void)run;
  return a->kind == RULES_LIST || a->kind == RULES_MANY || a->kind == RULES_EACH ? rules_int(a->n)
                                                                                 : rules_unknown();
}
struct rules_value rules_call_prod(struct rules_run *run, const struct rules_value *a) {
  (void)run;
  int64_t product = 1;
  for (uint32_t i = 0; a->kind == RULES_LIST && i < a->n; i++)
    if (!rules_is_number(a->list[i]) || __builtin_mul_overflow(product, a->list[i], &product))
      return rules_unknown();
  return a->kind == RULES_LIST ? rules_int(product) : rules_unknown();
}
static struct rules_value counting(struct rules_run *run, const struct rules_value *a, bool down) {
  int64_t n;
  if (!rules_number_of(a, RECIPE_MAX_RANK, &n)) return rules_unknown();
  int64_t *list = rules_room(run, (uint32_t)n);
  for (int64_t i = 0; i < n; i++)
    list[i] = down ? n - 1 - i : i;
  return rules_list(list, (uint32_t)n);
}
struct rules_value rules_call_iota(struct rules_run *run, const struct rules_value *a) {
  return counting(run, a, false);
}
struct rules_value rules_call_rev(struct rules_run *run, const struct rules_value *a) {
  return counting(run, a, true);
}

static bool is_perm(const struct rules_value *p) {
  uint64_t seen = 0;
  if (p->kind != RULES_LIST || p->n > RECIPE_MAX_RANK) return false;
  for (uint32_t i = 0; i < p->n; i++) {
    if (p->list[i] < 0 || p->list[i] >= p->n || seen >> p->list[i] & 1) return false;
    seen |= (uint64_t)1 << p->list[i];
  }
  return true;
}

struct rules_value rules_call_inv(struct rules_run *run, const struct rules_value *a) {
  if (!is_perm(a)) return rules_unknown();
  int64_t *list = rules_room(run, a->n);
  for (uint32_t i = 0; i < a->n; i++)
    list[a->list[i]] = i;
  return rules_list(list, a->n);
}
struct rules_value rules_call_at(struct rules_run *run, const struct rules_value *a) {
  if ((a->kind != RULES_LIST && a->kind != RULES_TEXTS) || a[1].kind != RULES_LIST)
    return rules_unknown();
  int64_t *list = rules_room(run, a[1].n);
  for (uint32_t i = 0; i < a[1].n; i++) {
    const int64_t at = a[1].list[i] < 0 ? a[1].list[i] + a->n : a[1].list[i];
    if (at < 0 || at >= a->n) return rules_unknown();
    list[i] = a->list[at];
  }
  struct rules_value v = rules_list(list, a[1].n);
  v.kind = a->kind;
  return v;
}
struct rules_value rules_call_compose(struct rules_run *run, const struct rules_value *a) {
  if (!is_perm(a) || !is_perm(a + 1) || a->n != a[1].n) return rules_unknown();
  return rules_call_at(run, a);
}
struct rules_value rules_call_drop(struct rules_run *run, const struct rules_value *a) {
  if (!is_perm(a) || a[1].kind != RULES_LIST) return rules_unknown();
  uint64_t gone = 0;
  for (uint32_t i = 0; i < a[1].n; i++) {
    if (a[1].list[i] < 0 || a[1].list[i] >= a->n) return rules_unknown();
    gone |= (uint64_t)1 << a[1].list[i];
  }
  int64_t *list = rules_room(run, a->n);
  uint32_t m = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    const uint64_t p = (uint64_t)a->list[i];
    if (!(gone >> p & 1))
      list[m++] = (int64_t)p - __builtin_popcountll(gone & (((uint64_t)1 << p) - 1));
  }
  return rules_list(list, m);
}
struct rules_value rules_call_grow(struct rules_run *run, const struct rules_value *a) {
  if (!is_perm(a) || a[1].kind != RULES_LIST || a->n + a[1].n > RECIPE_MAX_RANK)
    return rules_unknown();
  const uint32_t rank = a->n + a[1].n;
  uint64_t added = 0;
  for (uint32_t i = 0; i < a[1].n; i++) {
    const int64_t axis = a[1].list[i] < 0 ? a[1].list[i] + rank : a[1].list[i];
    if (axis < 0 || axis >= rank || added >> axis & 1) return rules_unknown();
    added |= (uint64_t)1 << axis;
  }
  int64_t *list = rules_room(run, rank), old[RECIPE_MAX_RANK];
  for (uint32_t i = 0, m = 0; i < rank; i++)
    if (!(added >> i & 1)) old[m++] = i;
  for (uint32_t i = 0, m = 0; i < rank; i++)
    list[i] = added >> i & 1 ? (int64_t)i : old[a->list[m++]];
  return rules_list(list, rank);
}
struct rules_value rules_call_pads_at(struct rules_run *run, const struct rules_value *a) {
  if (a->kind != RULES_LIST || !is_perm(a + 1) || a->n != 2 * a[1].n) return rules_unknown();
  int64_t *list = rules_room(run, a->n);
  for (uint32_t i = 0; i < a->n; i++)
    list[a[1].list[i % a[1].n] + (i < a[1].n ? 0 : a[1].n)] = a->list[i];
  return rules_list(list, a->n);
}
struct rules_value rules_call_swap_last(struct rules_run *run, const struct rules_value *a) {
  int64_t size;
  if (!rules_number_of(a, RECIPE_MAX_RANK, &size)) return rules_unknown();
  if (size < 2) return (struct rules_value){0};
  struct rules_value v = counting(run, a, false);
  int64_t *list = rules_room(run, v.n);
  memcpy(list, v.list, v.n * sizeof *list);
  list[v.n - 1] = v.n - 2, list[v.n - 2] = v.n - 1;
  return rules_list(list, v.n);
}
struct rules_value rules_call_ones_list(struct rules_run *run, const struct rules_value *a) {
  (void)run;
  if (a->kind != RULES_LIST && a->kind != RULES_ABSENT) return rules_unknown();
  for (uint32_t i = 0; a->kind == RULES_LIST && i < a->n; i++)
    if (a->list[i] != 1) return rules_int(0);
  return rules_int(1);
}

// Numbers of a float: bits of the fraction with the leading one, and the largest exponent.
static bool holds(enum dtype u, enum dtype t) {
  static const struct {
    uint8_t dtype, digits, sign, exponent;
  } rows[] = {{DTYPE_UINT8, 8, 0, 0},    {DTYPE_UINT16, 16, 0, 0}, {DTYPE_UINT32, 32, 0, 0},
              {DTYPE_UINT64, 64, 0, 0},  {DTYPE_INT8, 7, 1, 0},    {DTYPE_INT16, 15, 1, 0},
              {DTYPE_INT32, 31, 1, 0},   {DTYPE_INT64, 63, 1, 0},  {DTYPE_FLOAT16, 11, 1, 5},
              {DTYPE_BFLOAT16, 8, 1, 8}, {DTYPE_FLOAT, 24, 1, 8},  {DTYPE_DOUBLE, 53, 1, 11},
              {DTYPE_BOOL, 1, 0, 0}};
  enum { N = sizeof rows / sizeof *rows };
  uint32_t x = 0, y = 0;
  while (x < N && rows[x].dtype != t)
    x++;
  while (y < N && rows[y].dtype != u)
    y++;
  if (x == N || y == N || t == u) return x < N && t == u;
  return u != DTYPE_BOOL && rows[y].digits >= rows[x].digits && rows[y].sign >= rows[x].sign &&
         rows[y].exponent >= rows[x].exponent;
}

struct rules_value rules_call_widens(struct rules_run *run, const struct rules_value *a) {
  (void)run;
  if (a->kind != RULES_INT || a[1].kind != RULES_INT) return rules_unknown();
  if (!dtype_known(a->i) || !dtype_known(a[1].i)) return rules_int(0);
  return rules_int(holds((enum dtype)a[1].i, (enum dtype)a->i));
}

// The axes of a list as bits: false if one is none of n, or comes twice.
static bool axes_at(const struct rules_value *list, uint32_t n, uint64_t *at) {
  *at = 0;
  if (list->kind != RULES_LIST) return false;
  for (uint32_t i = 0; i < list->n; i++) {
    const int64_t axis = list->list[i] < 0 ? list->list[i] + n : list->list[i];
    if (axis < 0 || axis >= n || *at >> axis & 1) return false;
    *at |= (uint64_t)1 << axis;
  }
  return true;
}

struct rules_value rules_call_both(struct rules_run *run, const struct rules_value *a) {
  int64_t rank;
  uint64_t outer, inner;
  if (!rules_number_of(a + 2, RECIPE_MAX_RANK, &rank) || !axes_at(a, (uint32_t)rank, &outer))
    return rules_unknown();
  if (!axes_at(a + 1, (uint32_t)rank - a->n, &inner)) return rules_unknown();
  int64_t *list = rules_room(run, (uint32_t)rank);
  uint32_t m = 0, left = 0;
  for (int64_t i = 0; i < rank; i++)
    if (outer >> i & 1 || inner >> left++ & 1) list[m++] = i;
  return rules_list(list, m);
}

struct rules_value rules_call_apart(struct rules_run *run, const struct rules_value *a) {
  (void)run;
  int64_t rank;
  uint64_t x, y;
  if (!rules_number_of(a + 2, RECIPE_MAX_RANK, &rank)) return rules_unknown();
  if (!axes_at(a, (uint32_t)rank, &x) || !axes_at(a + 1, (uint32_t)rank, &y)) return rules_int(0);
  return rules_int((x & y) == 0);
}

struct rules_value rules_call_cat(struct rules_run *run, const struct rules_value *a) {
  if (a->kind != RULES_LIST || a[1].kind != RULES_LIST) return rules_unknown();
  int64_t *list = rules_room(run, a->n + a[1].n);
  if (a->n > 0) memcpy(list, a->list, a->n * sizeof *list);
  if (a[1].n > 0) memcpy(list + a->n, a[1].list, a[1].n * sizeof *list);
  return rules_list(list, a->n + a[1].n);
}

struct rules_value rules_call_steps(struct rules_run *run, const struct rules_value *a) {
  if (a->kind != RULES_ABSENT) return rules_call_ints(run, a);
  if (a[1].kind != RULES_LIST) return rules_unknown();
  int64_t *list = rules_room(run, a[1].n);
  for (uint32_t i = 0; i < a[1].n; i++)
    list[i] = 1;
  return rules_list(list, a[1].n);
}

struct rules_value rules_call_target(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type t = rules_type_of(run, a);
  int64_t *list = rules_room(run, t.rank);
  uint32_t open = 0;
  for (uint32_t i = 0; i < t.rank; i++) {
    list[i] = rules_is_number(t.dims[i]) ? t.dims[i] : -1;
    open += list[i] < 0;
    if (list[i] == 0) return rules_unknown();
  }
  return t.ranked && open <= 1 ? rules_list(list, t.rank) : rules_unknown();
}

struct rules_value rules_call_window_pads(struct rules_run *run, const struct rules_value *a) {
  int64_t rank;
  if (!rules_number_of(a + 3, RECIPE_MAX_RANK, &rank) || rank < 3) return rules_unknown();
  const struct rules_value p = a->kind == RULES_LIST ? *a : rules_call_ints(run, a), q = a[2];
  const struct rules_value axes =
      a[1].kind == RULES_ABSENT ? counting(run, a + 3, false) : rules_call_ints(run, a + 1);
  const uint32_t spatial = (uint32_t)rank - 2;
  uint64_t at;
  if (!axes_at(&axes, (uint32_t)rank, &at) || p.kind != RULES_LIST || p.n != 2 * axes.n ||
      (q.kind != RULES_ABSENT && (q.kind != RULES_LIST || q.n != 2 * spatial)))
    return rules_unknown();
  int64_t *list = rules_room(run, 2 * spatial);
  for (uint32_t i = 0; i < 2 * spatial; i++)
    list[i] = q.kind == RULES_LIST ? q.list[i] : 0;
  for (uint32_t i = 0; i < p.n; i++) {
    int64_t axis = axes.list[i % axes.n];
    if (axis < 0) axis += rank;
    if (p.list[i] == 0) continue;
    int64_t *to = &list[axis - 2 + (i < axes.n ? 0 : spatial)];
    if (p.list[i] < 0 || axis < 2 || *to < 0 || __builtin_add_overflow(*to, p.list[i], to))
      return rules_unknown();
  }
  return rules_list(list, 2 * spatial);
}

struct rules_value rules_call_below(struct rules_run *run, const struct rules_value *a) {
  (void)run;
  if (a->kind != RULES_LIST || a[1].kind != RULES_LIST || a[1].n == 0) return rules_unknown();
  for (uint32_t i = 0; i < a->n; i++)
    if (a->list[i] >= a[1].list[i % a[1].n]) return rules_int(0);
  return rules_int(1);
}

// A Transpose past a Reshape that only adds and drops axes of length 1. `t`: dims of what the
// Transpose makes, `o`: of what the Reshape makes. Axes that stay are paired from the left; each
// goes where its source stood among them; new axes stay where they are.
struct rules_value rules_call_through(struct rules_run *run, const struct rules_value *a) {
  const struct rules_value p = a[0], t = a[1], o = a[2];
  if (!is_perm(&p) || t.kind != RULES_LIST || o.kind != RULES_LIST || t.n != p.n ||
      o.n > RECIPE_MAX_RANK)
    return rules_unknown();
  int64_t source[RECIPE_MAX_RANK]; // by output axis: the axis before the Transpose, or -1
  uint32_t i = 0, j = 0;
  while (i < t.n || j < o.n)
    if (i < t.n && j < o.n && t.list[i] == o.list[j])
      source[j++] = p.list[i++];
    else if (i < t.n && t.list[i] == 1)
      i++;
    else if (j < o.n && o.list[j] == 1)
      source[j++] = -1;
    else
      return (struct rules_value){0};
  int64_t *both = rules_room(run, 2 * o.n);
  int64_t *q = both, *dims = both + o.n;
  for (uint32_t x = 0; x < o.n; x++) {
    if (source[x] < 0) {
      q[x] = x;
      continue;
    }
    // The place, among the axes that stay, of the one that comes as early as this one's source.
    uint32_t rank = 0, free_axis = 0;
    for (uint32_t y = 0; y < o.n; y++)
      rank += source[y] >= 0 && source[y] < source[x];
    for (uint32_t y = 0, seen = 0; y < o.n; y++)
      if (source[y] >= 0 && seen++ == rank) free_axis = y;
    q[x] = free_axis;
  }
  for (uint32_t x = 0; x < o.n; x++)
    dims[q[x]] = o.list[x];
  return (struct rules_value){.kind = RULES_PAIR, .n = 2 * o.n, .list = both};
}

// ---- operands of which some are transposed: the fields p, x (transposed by p) or c (not); or p, x, s (the result)

enum { FIELD_P, FIELD_X, FIELD_C, FIELD_S = FIELD_C };

struct rules_value rules_call_lead(struct rules_run *run, const struct rules_value *a) {
  if (a->kind != RULES_EACH || a->fields != 3 || a->n == 0) return rules_unknown();
  int64_t rank;
  if (!rules_number_of(a + 1, RECIPE_MAX_RANK, &rank)) {
    if (a->n != 1 || a->each[FIELD_P].kind != RULES_LIST) return rules_unknown();
    rank = a->each[FIELD_P].n;
  }
  struct rules_value lead = {0};
  for (uint32_t e = 0; e < a->n; e++) {
    const struct rules_value *p = &a->each[e * 3 + FIELD_P];
    if (p->kind != RULES_LIST) continue;
    if (!is_perm(p) || p->n > rank) return rules_unknown();
    int64_t *list = rules_room(run, (uint32_t)rank);
    const int64_t before = rank - p->n;
    for (int64_t i = 0; i < rank; i++)
      list[i] = i < before ? i : p->list[i - before] + before;
    const struct rules_value q = rules_list(list, (uint32_t)rank);
    if (lead.kind == RULES_ABSENT)
      lead = q;
    else if (rules_equal(&lead, &q) != 1)
      return (struct rules_value){0};
  }
  return lead;
}

struct rules_value rules_call_fewer(struct rules_run *run, const struct rules_value *a) {
  if (a->kind != RULES_EACH || a->fields != 3 || a->n < 2) return rules_int(0);
  for (uint32_t e = 0; e < a->n; e++) {
    const struct rules_value *v = &a->each[e * 3];
    if (!is_perm(v) || rules_equal(v, &a->each[FIELD_P]) != 1) return rules_int(0);
    if (v[FIELD_S].kind != RULES_TENSOR || kit_use_count(&run->k, v[FIELD_S].id, 2) != 1 ||
        kit_is_output(&run->k, v[FIELD_S].id))
      return rules_int(0);
  }
  return rules_int(1);
}

struct rules_value rules_call_fits(struct rules_run *run, const struct rules_value *a) {
  bool any = false;
  for (uint32_t e = 0; a->kind == RULES_EACH && a->fields == 3 && e < a->n; e++)
    any = any || a->each[e * 3 + FIELD_P].kind == RULES_LIST;
  if (!any) return rules_int(0);
  const struct rules_value lead = rules_call_lead(run, a);
  if (lead.kind != RULES_LIST) return lead.kind == RULES_UNKNOWN ? lead : rules_int(0);
  for (uint32_t e = 0; e < a->n; e++) {
    const struct rules_value *v = &a->each[e * 3];
    if (v[FIELD_P].kind == RULES_LIST || v[FIELD_C].kind != RULES_TENSOR) continue;
    if (!rules_is_constant(run, &v[FIELD_C]) && rules_is_scalar(run, &v[FIELD_C]) != 1)
      return rules_int(0);
  }
  return rules_int(1);
}
