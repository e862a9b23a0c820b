// The functions of the rule language, one a row of rules_functions.def, in its order.
//
// None of them fails and none changes anything. What is not known is UNKNOWN: a rank, a dim that is
// nowhere known, elements that are not at hand, as long as no stage was asked about them
// (rules_facts.c). Lists are permutations, axes and dims; dims that are symbols are numbers far below
// zero (rules_inside.h), which equal themselves and can be handed on, but not computed with.
//
// Axes of a constant may count from the end: what looks at them knows the rank.
#include "rules_inside.h"

#include <float.h>

static struct rules_value truth(int t) {
  return t < 0 ? rules_unknown() : rules_int(t);
}

static int64_t *room(struct rules_run *run, uint32_t n) {
  return arena_alloc(&run->match, ((size_t)n + 1) * sizeof(int64_t));
}

static bool number_of(const struct rules_value *v, int64_t most, int64_t *out) {
  *out = v->i;
  return v->kind == RULES_INT && v->i >= 0 && v->i <= most;
}

// Calls `ask` for every tensor among the arguments: 1 if it says 1 of all, else the least certain
// or first 0. What is left out does not count.
static struct rules_value all_of(struct rules_run *run, const struct rules_value *args, uint32_t n,
                                 int (*ask)(struct rules_run *, const struct rules_value *)) {
  int all = 1;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t m = args[i].kind == RULES_MANY ? args[i].n : 1;
    for (uint32_t j = 0; j < m; j++) {
      const struct rules_value v =
          args[i].kind == RULES_MANY ? rules_tensor(args[i].many[j]) : args[i];
      if (v.kind == RULES_ABSENT && args[i].kind == RULES_MANY) continue;
      const int one = v.kind == RULES_TENSOR || v.kind == RULES_TERM ? ask(run, &v)
                      : v.kind == RULES_ABSENT                       ? 0
                                                                     : -1;
      if (one == 0) return rules_int(0);
      if (one < 0) all = -1;
    }
  }
  return truth(all);
}

static int is_constant(struct rules_run *run, const struct rules_value *v) {
  return rules_is_constant(run, v);
}
static int is_variable(struct rules_run *run, const struct rules_value *v) {
  return !rules_is_constant(run, v);
}
static int is_ranked(struct rules_run *run, const struct rules_value *v) {
  return rules_type_of(run, v).ranked;
}
static int is_static(struct rules_run *run, const struct rules_value *v) {
  const struct rules_type t = rules_type_of(run, v);
  for (uint32_t i = 0; i < t.rank; i++)
    if (!rules_is_number(t.dims[i])) return 0;
  return t.ranked;
}
static int is_scalar(struct rules_run *run, const struct rules_value *v) {
  const struct rules_type t = rules_type_of(run, v);
  int all = 1;
  for (uint32_t i = 0; i < t.rank; i++) {
    if (rules_is_number(t.dims[i]) && t.dims[i] != 1) return 0;
    if (!rules_is_number(t.dims[i])) all = -1;
  }
  return t.ranked ? all : -1;
}

static struct rules_value call_none(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)run, (void)n;
  return a->kind == RULES_UNKNOWN ? rules_unknown() : rules_int(a->kind == RULES_ABSENT);
}
static struct rules_value call_consts(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  return all_of(run, a, n, is_constant);
}
static struct rules_value call_vars(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  return all_of(run, a, n, is_variable);
}
static struct rules_value call_n_vars(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  int64_t vars = 0;
  if (a->kind != RULES_MANY) return rules_unknown();
  for (uint32_t i = 0; i < a->n; i++)
    vars += a->many[i] != NO_ID && !rules_const(run, a->many[i]);
  return rules_int(vars);
}
static struct rules_value call_ranked(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  return all_of(run, a, n, is_ranked);
}
static struct rules_value call_static(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  return all_of(run, a, n, is_static);
}
static struct rules_value call_scalar(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  return rules_int(a->kind != RULES_ABSENT && is_scalar(run, a) == 1);
}
static struct rules_value call_sole(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  if (a->kind != RULES_TENSOR) return rules_unknown();
  return rules_int(kit_use_count(&run->k, a->id, 2) == 1 && !kit_is_output(&run->k, a->id));
}
static struct rules_value call_unused(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  return a->kind == RULES_TENSOR ? rules_int(kit_unused(&run->k, a->id))
                                 : rules_int(a->kind == RULES_ABSENT);
}
static struct rules_value call_rank(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  const struct rules_type t = rules_type_of(run, a);
  return t.ranked ? rules_int(t.rank) : rules_unknown();
}
static struct rules_value call_dims(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  const struct rules_type t = rules_type_of(run, a);
  return t.ranked ? rules_list(t.dims, t.rank) : rules_unknown();
}
static struct rules_value call_same(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  const struct rules_value x = call_dims(run, a, n), y = call_dims(run, a + 1, n);
  return truth(rules_equal(&x, &y));
}
static struct rules_value call_dtype(struct rules_run *run, const struct rules_value *a,
                                     uint32_t n) {
  (void)n;
  const enum dtype t = rules_type_of(run, a).dtype;
  return t == DTYPE_UNDEFINED ? rules_unknown() : rules_int(t);
}
static struct rules_value call_float(struct rules_run *run, const struct rules_value *a,
                                     uint32_t n) {
  (void)n;
  const enum dtype t = rules_type_of(run, a).dtype;
  return t == DTYPE_UNDEFINED ? rules_unknown() : rules_int(dtype_is_plain_float(t));
}
static struct rules_value call_signed(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  const enum dtype t = rules_type_of(run, a).dtype;
  if (t == DTYPE_UNDEFINED) return rules_unknown();
  return rules_int(dtype_is_plain_float(t) || t == DTYPE_INT8 || t == DTYPE_INT16 ||
                   t == DTYPE_INT32 || t == DTYPE_INT64);
}

// The same of elements that are not at hand, by what is known of all of them.
static struct rules_value all_of_large(struct rules_run *run, const struct rules_value *v,
                                       struct span sign, double wanted) {
  struct facts f;
  if (!rules_facts(run, v, false, &f)) return rules_assumed(run);
  if (f.elements == 0) return rules_int(1);
  const bool numbers = f.nans < f.elements; // there are some, from least to most
  const bool outside = !numbers || wanted < f.least || wanted > f.most;
  if (span_is(sign, "!=")) {
    if (outside || (wanted == 0 && f.zeros == 0)) return rules_int(1);
    // The ends are there; what lies between them may be or not.
    return wanted == 0 || wanted == f.least || wanted == f.most ? rules_int(0) : rules_unknown();
  }
  if (f.nans > 0) return rules_int(0);
  return rules_int(span_is(sign, "==")   ? f.least == wanted && f.most == wanted
                   : span_is(sign, "<")  ? f.most < wanted
                   : span_is(sign, "<=") ? f.most <= wanted
                   : span_is(sign, ">")  ? f.least > wanted
                                         : f.least >= wanted);
}

static struct rules_value call_all(struct rules_run *run, const struct rules_value *a, uint32_t n) {
  (void)n;
  struct rules_type t;
  struct span raw;
  double wanted;
  if (a[1].kind != RULES_STRING) return rules_unknown();
  if (a[2].kind == RULES_INT)
    wanted = (double)a[2].i;
  else if (a[2].kind == RULES_FLOAT)
    wanted = a[2].d;
  else
    return rules_unknown();
  if (!rules_is_constant(run, a)) return rules_int(0);
  if (!rules_elements(run, a, &t, &raw)) return all_of_large(run, a, rules_text(a + 1), wanted);
  const uint64_t count = raw.n / (dtype_bits(t.dtype) / 8);
  const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
  uint32_t how = 0;
  while (how < 6 && !span_is(rules_text(a + 1), signs[how]))
    how++;
  for (uint64_t i = 0; i < count; i++) {
    const double x = rules_number_get(t.dtype, raw.at, i);
    const bool holds = how == 0   ? x == wanted
                       : how == 1 ? x != wanted
                       : how == 2 ? x < wanted
                       : how == 3 ? x <= wanted
                       : how == 4 ? x > wanted
                                  : how == 5 && x >= wanted;
    if (!holds) return rules_int(0);
  }
  return rules_int(1);
}

static struct rules_value call_identity(struct rules_run *run, const struct rules_value *a,
                                        uint32_t n) {
  (void)n;
  struct rules_type t;
  struct span raw;
  struct facts f;
  if (!rules_is_constant(run, a)) return rules_int(0);
  t = rules_type_of(run, a);
  if (t.ranked && (t.rank < 2 || t.dims[t.rank - 1] != t.dims[t.rank - 2])) return rules_int(0);
  if (!rules_elements(run, a, &t, &raw))
    return rules_facts(run, a, false, &f) ? rules_int(f.identity) : rules_assumed(run);
  if (t.rank < 2 || t.dims[t.rank - 1] != t.dims[t.rank - 2]) return rules_int(0);
  const uint64_t side = (uint64_t)t.dims[t.rank - 1], count = raw.n / (dtype_bits(t.dtype) / 8);
  for (uint64_t i = 0; i < count; i++)
    if (rules_number_get(t.dtype, raw.at, i) != (double)(i / side % side == i % side))
      return rules_int(0);
  return rules_int(1);
}

// numpy's allclose(a, u * round(a / u)): |a - b| <= 1e-8 + 1e-5 * |b|.
static struct rules_value call_common_scale(struct rules_run *run, const struct rules_value *a,
                                            uint32_t n) {
  (void)n;
  struct rules_type t;
  struct span raw;
  struct facts f;
  t = rules_type_of(run, a);
  if (!rules_is_constant(run, a)) return rules_unknown();
  if (t.dtype != DTYPE_UNDEFINED && !dtype_is_plain_float(t.dtype)) return rules_int(1);
  if (!rules_elements(run, a, &t, &raw)) {
    if (rules_facts(run, a, true, &f))
      return f.multiples ? (struct rules_value){.kind = RULES_FLOAT, .d = f.finest} : rules_int(1);
    // Any number but 1 for yes.
    return run->assume == RULES_ASSUME_YES  ? (struct rules_value){.kind = RULES_FLOAT, .d = 0.5}
           : run->assume == RULES_ASSUME_NO ? rules_int(1)
                                            : rules_unknown();
  }
  const uint64_t count = raw.n / (dtype_bits(t.dtype) / 8);
  double least = DBL_MAX;
  bool any = false;
  for (uint64_t i = 0; i < count; i++) {
    const double x = fabs(rules_number_get(t.dtype, raw.at, i));
    if (!isfinite(x)) return rules_int(1);
    if (x != 0 && x <= least) least = x, any = true;
  }
  for (uint64_t i = 0; any && i < count; i++) {
    const double x = rules_number_get(t.dtype, raw.at, i);
    if (!facts_multiple(x, least)) any = false;
  }
  return any ? (struct rules_value){.kind = RULES_FLOAT, .d = least} : rules_int(1);
}

static struct rules_value call_finite(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  struct rules_type t;
  struct span raw;
  if (a->kind == RULES_UNKNOWN) return *a;
  if (!rules_is_constant(run, a)) return rules_int(1); // one of its operands is none: nothing folds
  struct facts f;
  t = rules_type_of(run, a);
  if (t.dtype != DTYPE_UNDEFINED && !dtype_is_float(t.dtype)) return rules_int(1);
  if (!rules_elements(run, a, &t, &raw))
    return rules_facts(run, a, false, &f) ? rules_int(facts_finite(&f)) : rules_assumed(run);
  const uint64_t count = raw.n / (dtype_bits(t.dtype) / 8);
  for (uint64_t i = 0; dtype_is_plain_float(t.dtype) && i < count; i++)
    if (!isfinite(rules_number_get(t.dtype, raw.at, i))) return rules_int(0);
  return rules_int(1);
}

static struct rules_value call_ints(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  const int64_t *list;
  uint32_t count;
  if (a->kind != RULES_TENSOR || !kit_const_ints(&run->k, a->id, &list, &count))
    return rules_unknown();
  int64_t *copy = room(run, count);
  if (count > 0) memcpy(copy, list, count * sizeof *copy);
  return rules_list(copy, count);
}

static struct rules_value call_ones_of(struct rules_run *run, const struct rules_value *a,
                                       uint32_t n) {
  (void)n;
  const struct rules_type t = rules_type_of(run, a);
  int64_t *list = room(run, t.rank);
  uint32_t m = 0;
  for (uint32_t i = 0; i < t.rank; i++)
    if (t.dims[i] == 1)
      list[m++] = i;
    else if (!rules_is_number(t.dims[i]))
      return rules_unknown();
  return t.ranked ? rules_list(list, m) : rules_unknown();
}

static struct rules_value call_ones_at(struct rules_run *run, const struct rules_value *a,
                                       uint32_t n) {
  (void)n;
  const struct rules_type t = rules_type_of(run, a);
  if (!t.ranked || a[1].kind != RULES_LIST) return rules_unknown();
  for (uint32_t i = 0; i < a[1].n; i++) {
    const int64_t axis = a[1].list[i] < 0 ? a[1].list[i] + t.rank : a[1].list[i];
    if (axis < 0 || axis >= t.rank || !rules_is_number(t.dims[axis])) return rules_unknown();
    if (t.dims[axis] != 1) return rules_int(0);
  }
  return rules_int(1);
}

static struct rules_value call_even_along(struct rules_run *run, const struct rules_value *a,
                                          uint32_t n) {
  (void)n;
  const struct rules_type y = rules_type_of(run, a), o = rules_type_of(run, a + 1);
  if (!y.ranked || !o.ranked || a[2].kind != RULES_LIST || y.rank > o.rank) return rules_unknown();
  for (uint32_t i = 0; i < a[2].n; i++) {
    const int64_t axis = a[2].list[i] < 0 ? a[2].list[i] + o.rank : a[2].list[i];
    if (axis < 0 || axis >= o.rank) return rules_unknown();
    const int64_t at = axis - (o.rank - y.rank);
    if (at >= 0 && y.dims[at] != 1) return rules_int(0);
  }
  return rules_int(1);
}

static struct rules_value call_chan(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  const struct rules_type t = rules_type_of(run, a);
  int64_t *list = room(run, t.rank);
  for (uint32_t i = 0; i < t.rank; i++)
    list[i] = i == 1 ? t.dims[i] : 1;
  if (t.rank > 1 && !rules_is_number(t.dims[1])) list[1] = -1;
  return t.ranked && t.rank > 1 ? rules_list(list, t.rank) : rules_unknown();
}

static struct rules_value call_broadcasts(struct rules_run *run, const struct rules_value *a,
                                          uint32_t n) {
  if (a->kind != RULES_TENSOR) return rules_unknown();
  for (uint32_t i = 1; i < n; i++) {
    if (a[i].kind == RULES_ABSENT) continue;
    if (a[i].kind != RULES_TENSOR) return rules_unknown();
    if (!kit_broadcasts(&run->k, a[i].id, a->id)) return rules_int(0);
  }
  return rules_int(1);
}

static struct rules_value call_trailing(struct rules_run *run, const struct rules_value *a,
                                        uint32_t n) {
  (void)n;
  const struct rules_type t = rules_type_of(run, a);
  const struct rules_value axes = a[1].kind == RULES_ABSENT ? call_ints(run, a + 2, 1) : a[1];
  uint64_t seen = 0; // axes, counted from the end
  if (axes.kind != RULES_LIST) return rules_unknown();
  if (axes.n == 0 || axes.n > RECIPE_MAX_RANK) return rules_int(0);
  for (uint32_t i = 0; i < axes.n; i++) {
    if (axes.list[i] >= 0 && !t.ranked) return rules_unknown();
    const int64_t axis = axes.list[i], back = axis < 0 ? -1 - axis : (int64_t)t.rank - 1 - axis;
    if (back < 0 || back >= (int64_t)axes.n || seen >> back & 1) return rules_int(0);
    seen |= (uint64_t)1 << back;
  }
  return rules_int(-(int64_t)axes.n);
}

// One element; or as many as `wanted` along the axis `at`, counted from the end, and no other.
static struct rules_value one_along(const struct rules_type *c, uint32_t rank, uint32_t at,
                                    int64_t wanted) {
  if (!c->ranked) return rules_unknown();
  if (c->rank > rank) return rules_int(0);
  for (uint32_t i = 0; i < c->rank; i++)
    if (c->dims[i] != 1 && (c->rank - i != at || c->dims[i] != wanted)) return rules_int(0);
  return rules_int(1);
}

static struct rules_value call_per_channel_at(struct rules_run *run, const struct rules_value *a,
                                              uint32_t n) {
  (void)n;
  const struct rules_type c = rules_type_of(run, a), w = rules_type_of(run, a + 1);
  int64_t axis;
  if (!w.ranked || w.rank < 3) return w.ranked ? rules_int(0) : rules_unknown();
  if (!number_of(a + 2, w.rank - 1, &axis)) return rules_unknown();
  return one_along(&c, w.rank, w.rank - 1, w.dims[axis]);
}

static struct rules_value call_per_channel(struct rules_run *run, const struct rules_value *a,
                                           uint32_t n) {
  return call_per_channel_at(run, (const struct rules_value[]){a[0], a[1], rules_int(0)}, n);
}

static struct rules_value call_per_column(struct rules_run *run, const struct rules_value *a,
                                          uint32_t n) {
  (void)n;
  const struct rules_type c = rules_type_of(run, a), w = rules_type_of(run, a + 1);
  if (!w.ranked || w.rank != 2) return w.ranked ? rules_int(0) : rules_unknown();
  return one_along(&c, RECIPE_MAX_RANK, 1, w.dims[1]);
}

static struct rules_value call_number(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  struct rules_type t;
  struct span raw;
  if (!rules_elements(run, a, &t, &raw) || raw.n != dtype_bits(t.dtype) / 8) return rules_unknown();
  if (dtype_is_integer(t.dtype)) return rules_int(rules_number_get_int(t.dtype, raw.at, 0));
  return (struct rules_value){.kind = RULES_FLOAT, .d = rules_number_get(t.dtype, raw.at, 0)};
}

static struct rules_value call_gemm_c(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  const struct rules_type c = rules_type_of(run, a), x = rules_type_of(run, a + 1),
                          w = rules_type_of(run, a + 2);
  if (!c.ranked || x.rank != 2 || w.rank != 2 || c.rank > 2)
    return c.ranked && x.ranked && w.ranked ? rules_int(0) : rules_unknown();
  const int64_t sides[2] = {x.dims[0], w.dims[1]};
  int all = 1;
  for (uint32_t i = 0; i < c.rank; i++) {
    if (c.dims[i] == 1) continue;
    const struct rules_value p = rules_int(c.dims[i]), q = rules_int(sides[2 - c.rank + i]);
    const int same = rules_equal(&p, &q);
    if (same == 0) return rules_int(0);
    if (same < 0) all = -1;
  }
  return truth(all);
}

// ---- lists --------------------------------------------------------------------------------------

static struct rules_value call_len(struct rules_run *run, const struct rules_value *a, uint32_t n) {
  (void)run, (void)n;
  return a->kind == RULES_LIST || a->kind == RULES_MANY || a->kind == RULES_EACH ? rules_int(a->n)
                                                                                 : rules_unknown();
}
static struct rules_value call_prod(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)run, (void)n;
  int64_t product = 1;
  for (uint32_t i = 0; a->kind == RULES_LIST && i < a->n; i++)
    if (!rules_is_number(a->list[i]) || __builtin_mul_overflow(product, a->list[i], &product))
      return rules_unknown();
  return a->kind == RULES_LIST ? rules_int(product) : rules_unknown();
}
static struct rules_value counting(struct rules_run *run, const struct rules_value *a, bool down) {
  int64_t n;
  if (!number_of(a, RECIPE_MAX_RANK, &n)) return rules_unknown();
  int64_t *list = room(run, (uint32_t)n);
  for (int64_t i = 0; i < n; i++)
    list[i] = down ? n - 1 - i : i;
  return rules_list(list, (uint32_t)n);
}
static struct rules_value call_iota(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  return counting(run, a, false);
}
static struct rules_value call_rev(struct rules_run *run, const struct rules_value *a, uint32_t n) {
  (void)n;
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

static struct rules_value call_inv(struct rules_run *run, const struct rules_value *a, uint32_t n) {
  (void)n;
  if (!is_perm(a)) return rules_unknown();
  int64_t *list = room(run, a->n);
  for (uint32_t i = 0; i < a->n; i++)
    list[a->list[i]] = i;
  return rules_list(list, a->n);
}
static struct rules_value call_at(struct rules_run *run, const struct rules_value *a, uint32_t n) {
  (void)n;
  if (a->kind != RULES_LIST || a[1].kind != RULES_LIST) return rules_unknown();
  int64_t *list = room(run, a[1].n);
  for (uint32_t i = 0; i < a[1].n; i++) {
    const int64_t at = a[1].list[i] < 0 ? a[1].list[i] + a->n : a[1].list[i];
    if (at < 0 || at >= a->n) return rules_unknown();
    list[i] = a->list[at];
  }
  return rules_list(list, a[1].n);
}
static struct rules_value call_compose(struct rules_run *run, const struct rules_value *a,
                                       uint32_t n) {
  if (!is_perm(a) || !is_perm(a + 1) || a->n != a[1].n) return rules_unknown();
  return call_at(run, a, n);
}
static struct rules_value call_drop(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  if (!is_perm(a) || a[1].kind != RULES_LIST) return rules_unknown();
  uint64_t gone = 0;
  for (uint32_t i = 0; i < a[1].n; i++) {
    if (a[1].list[i] < 0 || a[1].list[i] >= a->n) return rules_unknown();
    gone |= (uint64_t)1 << a[1].list[i];
  }
  int64_t *list = room(run, a->n);
  uint32_t m = 0;
  for (uint32_t i = 0; i < a->n; i++) {
    const uint64_t p = (uint64_t)a->list[i];
    if (!(gone >> p & 1))
      list[m++] = (int64_t)p - __builtin_popcountll(gone & (((uint64_t)1 << p) - 1));
  }
  return rules_list(list, m);
}
static struct rules_value call_swap_last(struct rules_run *run, const struct rules_value *a,
                                         uint32_t n) {
  (void)n;
  int64_t size;
  if (!number_of(a, RECIPE_MAX_RANK, &size)) return rules_unknown();
  if (size < 2) return (struct rules_value){0};
  struct rules_value v = counting(run, a, false);
  int64_t *list = room(run, v.n);
  memcpy(list, v.list, v.n * sizeof *list);
  list[v.n - 1] = v.n - 2, list[v.n - 2] = v.n - 1;
  return rules_list(list, v.n);
}
static struct rules_value call_ones_list(struct rules_run *run, const struct rules_value *a,
                                         uint32_t n) {
  (void)run, (void)n;
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

static struct rules_value call_widens(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)run, (void)n;
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

static struct rules_value call_both(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  int64_t rank;
  uint64_t outer, inner;
  if (!number_of(a + 2, RECIPE_MAX_RANK, &rank) || !axes_at(a, (uint32_t)rank, &outer))
    return rules_unknown();
  if (!axes_at(a + 1, (uint32_t)rank - a->n, &inner)) return rules_unknown();
  int64_t *list = room(run, (uint32_t)rank);
  uint32_t m = 0, left = 0;
  for (int64_t i = 0; i < rank; i++)
    if (outer >> i & 1 || inner >> left++ & 1) list[m++] = i;
  return rules_list(list, m);
}

static struct rules_value call_apart(struct rules_run *run, const struct rules_value *a,
                                     uint32_t n) {
  (void)run, (void)n;
  int64_t rank;
  uint64_t x, y;
  if (!number_of(a + 2, RECIPE_MAX_RANK, &rank)) return rules_unknown();
  if (!axes_at(a, (uint32_t)rank, &x) || !axes_at(a + 1, (uint32_t)rank, &y)) return rules_int(0);
  return rules_int((x & y) == 0);
}

static struct rules_value call_cat(struct rules_run *run, const struct rules_value *a, uint32_t n) {
  (void)n;
  if (a->kind != RULES_LIST || a[1].kind != RULES_LIST) return rules_unknown();
  int64_t *list = room(run, a->n + a[1].n);
  if (a->n > 0) memcpy(list, a->list, a->n * sizeof *list);
  if (a[1].n > 0) memcpy(list + a->n, a[1].list, a[1].n * sizeof *list);
  return rules_list(list, a->n + a[1].n);
}

static struct rules_value call_steps(struct rules_run *run, const struct rules_value *a,
                                     uint32_t n) {
  if (a->kind != RULES_ABSENT) return call_ints(run, a, n);
  if (a[1].kind != RULES_LIST) return rules_unknown();
  int64_t *list = room(run, a[1].n);
  for (uint32_t i = 0; i < a[1].n; i++)
    list[i] = 1;
  return rules_list(list, a[1].n);
}

static struct rules_value call_target(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  const struct rules_type t = rules_type_of(run, a);
  int64_t *list = room(run, t.rank);
  uint32_t open = 0;
  for (uint32_t i = 0; i < t.rank; i++) {
    list[i] = rules_is_number(t.dims[i]) ? t.dims[i] : -1;
    open += list[i] < 0;
    if (list[i] == 0) return rules_unknown();
  }
  return t.ranked && open <= 1 ? rules_list(list, t.rank) : rules_unknown();
}

static struct rules_value call_window_pads(struct rules_run *run, const struct rules_value *a,
                                           uint32_t n) {
  int64_t rank;
  if (!number_of(a + 3, RECIPE_MAX_RANK, &rank) || rank < 3) return rules_unknown();
  const struct rules_value p = call_ints(run, a, n), q = a[2];
  const struct rules_value axes =
      a[1].kind == RULES_ABSENT ? counting(run, a + 3, false) : call_ints(run, a + 1, n);
  const uint32_t spatial = (uint32_t)rank - 2;
  uint64_t at;
  if (!axes_at(&axes, (uint32_t)rank, &at) || p.kind != RULES_LIST || p.n != 2 * axes.n ||
      (q.kind != RULES_ABSENT && (q.kind != RULES_LIST || q.n != 2 * spatial)))
    return rules_unknown();
  int64_t *list = room(run, 2 * spatial);
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

static struct rules_value call_below(struct rules_run *run, const struct rules_value *a,
                                     uint32_t n) {
  (void)run, (void)n;
  if (a->kind != RULES_LIST || a[1].kind != RULES_LIST || a[1].n == 0) return rules_unknown();
  for (uint32_t i = 0; i < a->n; i++)
    if (a->list[i] >= a[1].list[i % a[1].n]) return rules_int(0);
  return rules_int(1);
}

// A Transpose past a Reshape that only adds and drops axes of length 1. `t`: dims of what the
// Transpose makes, `o`: of what the Reshape makes. Axes that stay are paired from the left; each
// goes where its source stood among them; new axes stay where they are.
static struct rules_value call_through(struct rules_run *run, const struct rules_value *a,
                                       uint32_t n) {
  (void)n;
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
  int64_t *both = room(run, 2 * o.n);
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

// ---- operands of which some are transposed: the fields p, x (transposed by p) or c (not) --------

enum { FIELD_P, FIELD_X, FIELD_C };

static struct rules_value call_lead(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  if (a->kind != RULES_EACH || a->fields != 3 || a->n == 0) return rules_unknown();
  int64_t rank;
  if (!number_of(a + 1, RECIPE_MAX_RANK, &rank)) {
    if (a->n != 1 || a->each[FIELD_P].kind != RULES_LIST) return rules_unknown();
    rank = a->each[FIELD_P].n;
  }
  struct rules_value lead = {0};
  for (uint32_t e = 0; e < a->n; e++) {
    const struct rules_value *p = &a->each[e * 3 + FIELD_P];
    if (p->kind != RULES_LIST) continue;
    if (!is_perm(p) || p->n > rank) return rules_unknown();
    int64_t *list = room(run, (uint32_t)rank);
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

static struct rules_value call_fits(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  bool any = false;
  for (uint32_t e = 0; a->kind == RULES_EACH && a->fields == 3 && e < a->n; e++)
    any = any || a->each[e * 3 + FIELD_P].kind == RULES_LIST;
  if (!any) return rules_int(0);
  const struct rules_value lead = call_lead(run, a, n);
  if (lead.kind != RULES_LIST) return lead.kind == RULES_UNKNOWN ? lead : rules_int(0);
  for (uint32_t e = 0; e < a->n; e++) {
    const struct rules_value *v = &a->each[e * 3];
    if (v[FIELD_P].kind == RULES_LIST || v[FIELD_C].kind != RULES_TENSOR) continue;
    if (!rules_is_constant(run, &v[FIELD_C]) && is_scalar(run, &v[FIELD_C]) != 1)
      return rules_int(0);
  }
  return rules_int(1);
}

// ---- terms --------------------------------------------------------------------------------------

static bool static_dims(const struct rules_type *t) {
  for (uint32_t i = 0; i < t->rank; i++)
    if (!rules_is_number(t->dims[i])) return false;
  return t->ranked;
}

static struct rules_value expanded(struct rules_run *run, const struct rules_value *x,
                                   const int64_t *dims, uint32_t rank) {
  const struct rules_value args[2] = {*x, rules_new_ints(run, dims, rank)};
  return rules_new_node(run, OP_Expand, args, 2, NO_ID, NULL, 0);
}

static struct rules_value call_like(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  (void)n;
  const enum dtype t = rules_type_of(run, a + 1).dtype;
  struct rules_literal number = {.kind = RULES_WHOLE};
  if (a->kind == RULES_INT)
    number.i = a->i, number.d = (double)a->i;
  else if (a->kind == RULES_FLOAT)
    number.kind = RULES_REAL, number.d = a->d;
  else if (a->kind == RULES_WORD)
    number = *a->literal;
  else
    return rules_unknown();
  return dtype_is_plain_number(t) ? rules_new_scalar(run, t, &number) : rules_unknown();
}

// The tensor itself, or if it is the one that goes another of the match with the same dims.
static const struct rules_value *stays(struct rules_run *run, const struct rules_value *x) {
  const uint32_t goes = kit_out(&run->k, run->nodes[0], 0);
  if (x->kind != RULES_TENSOR || x->id != goes) return x->kind == RULES_TENSOR ? x : NULL;
  const struct rules_value dims = call_dims(run, x, 1);
  for (uint32_t i = 0; i < run->rule->n_registers; i++) {
    const struct rules_value *other = &run->registers[i];
    if (other->kind != RULES_TENSOR || other->id == goes) continue;
    const struct rules_value has = call_dims(run, other, 1);
    if (rules_equal(&dims, &has) == 1) return other;
  }
  return NULL;
}

// true and false are bool, whatever x is. Dims that are not all known are taken from a tensor that
// has them.
static struct rules_value call_fill(struct rules_run *run, const struct rules_value *a,
                                    uint32_t n) {
  const struct rules_type t = rules_type_of(run, a + 1);
  const bool truths = a->kind == RULES_WORD && a->literal->kind == RULES_TRUTH;
  const struct rules_value scalar =
      truths ? rules_new_scalar(run, DTYPE_BOOL, a->literal) : call_like(run, a, n);
  if (scalar.kind == RULES_UNKNOWN) return scalar;
  if (static_dims(&t)) return expanded(run, &scalar, t.dims, t.rank);
  const struct rules_value *like = stays(run, a + 1);
  if (!like) return rules_unknown();
  const struct rules_value args[2] = {scalar,
                                      rules_new_node(run, OP_Shape, like, 1, NO_ID, NULL, 0)};
  return args[1].kind == RULES_UNKNOWN ? args[1]
                                       : rules_new_node(run, OP_Expand, args, 2, NO_ID, NULL, 0);
}

// Is o what an elementwise operator of two makes of x, with a y that widens nothing of it? Then o has
// the dims of x, whether they are known or not.
static bool widens_nothing(struct rules_run *run, uint32_t x, uint32_t o) {
  const uint32_t maker = kit_maker(&run->k, o);
  if (!kit_op_has(kit_op(&run->k, maker), KIT_BINARY | KIT_ELEMENTWISE)) return false;
  const uint32_t left = kit_in(&run->k, maker, 0), right = kit_in(&run->k, maker, 1);
  return (left == x && kit_broadcasts(&run->k, right, x)) ||
         (right == x && kit_broadcasts(&run->k, left, x));
}

static struct rules_value call_expand(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  const struct rules_value same = call_same(run, a, n);
  if (a->kind == RULES_UNKNOWN || rules_truth(&same) == 1) return *a;
  if (a->kind == RULES_TENSOR && a[1].kind == RULES_TENSOR && widens_nothing(run, a->id, a[1].id))
    return *a;
  const struct rules_type o = rules_type_of(run, a + 1);
  return static_dims(&o) ? expanded(run, a, o.dims, o.rank) : rules_unknown();
}

// To the dims of o, but for the batch: that of x where it has one.
static struct rules_value call_spread(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  const struct rules_value same = call_same(run, a, n);
  if (rules_truth(&same) == 1 || kit_n_in(&run->k, run->nodes[run->n_nodes - 1]) == 1) return *a;
  const struct rules_type x = rules_type_of(run, a), o = rules_type_of(run, a + 1);
  if (!x.ranked || !o.ranked || o.rank == 0) return rules_unknown();
  int64_t *dims = room(run, o.rank);
  memcpy(dims, o.dims, o.rank * sizeof *dims);
  dims[0] = x.rank == o.rank ? x.dims[0] : 1;
  for (uint32_t i = 0; i < o.rank; i++)
    if (!rules_is_number(dims[i])) return rules_unknown();
  return expanded(run, a, dims, o.rank);
}

static struct rules_value call_int(struct rules_run *run, const struct rules_value *a, uint32_t n) {
  (void)n;
  if (a->kind != RULES_INT || !rules_is_number(a->i)) return rules_unknown();
  const struct rules_literal number = {.kind = RULES_WHOLE, .i = a->i, .d = (double)a->i};
  return rules_new_scalar(run, DTYPE_INT64, &number);
}

static struct rules_value padded(struct rules_run *run, const struct rules_value *x,
                                 uint32_t rank) {
  const struct rules_type t = rules_type_of(run, x);
  if (!t.ranked) return rules_unknown();
  if (t.rank >= rank || t.rank == 0) return *x;
  int64_t axes[RECIPE_MAX_RANK];
  for (uint32_t i = 0; i < rank - t.rank; i++)
    axes[i] = i;
  const struct rules_value args[2] = {*x, rules_new_ints(run, axes, rank - t.rank)};
  return rules_new_node(run, OP_Unsqueeze, args, 2, NO_ID, NULL, 0);
}

static struct rules_value call_padded(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  int64_t rank;
  if (a[1].kind == RULES_UNKNOWN) return *a; // one operand: it has the rank itself
  return number_of(a + 1, RECIPE_MAX_RANK, &rank) ? padded(run, a, (uint32_t)rank)
                                                  : rules_unknown();
}

static struct rules_value call_turned(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  if (a->kind == RULES_ABSENT || is_scalar(run, a) == 1) return *a;
  const struct rules_value inverse = call_inv(run, a + 1, n);
  if (inverse.kind != RULES_LIST) return rules_unknown();
  const struct rules_value x = padded(run, a, inverse.n);
  if (x.kind == RULES_UNKNOWN) return x;
  const struct edit_attr perm = {.name = "perm",
                                 .type = ATTR_INTS,
                                 .ints = inverse.list,
                                 .n = inverse.n,
                                 .recipe = NO_ID,
                                 .graph = NO_ID};
  return rules_new_node(run, OP_Transpose, &x, 1, NO_ID, &perm, 1);
}

// A Slice of o = f(x, …) becomes one of x on those of its axes that x has, and has longer than 1.
static struct rules_value call_sliced(struct rules_run *run, const struct rules_value *a,
                                      uint32_t n) {
  (void)n;
  const struct rules_type x = rules_type_of(run, a), o = rules_type_of(run, a + 1);
  struct rules_value given[4], parts[4];
  int64_t *lists[4];
  for (uint32_t i = 0; i < 4; i++) {
    given[i] = call_ints(run, a + 2 + i, 1);
    const bool absent = i >= 2 && a[2 + i].kind == RULES_ABSENT;
    if ((given[i].kind != RULES_LIST && !absent) || (!absent && given[i].n != given[0].n))
      return rules_unknown();
    lists[i] = room(run, given[0].n);
  }
  if (!x.ranked || !o.ranked || x.rank > o.rank) return rules_unknown();
  uint32_t kept = 0;
  for (uint32_t i = 0; i < given[0].n; i++) {
    int64_t axis = given[2].kind == RULES_LIST ? given[2].list[i] : i;
    if (axis < 0) axis += o.rank;
    if (axis < 0 || axis >= o.rank || o.dims[axis] == 1) return rules_unknown();
    axis -= o.rank - x.rank;
    if (axis < 0 || x.dims[axis] == 1) continue;
    lists[0][kept] = given[0].list[i];
    lists[1][kept] = given[1].list[i];
    lists[2][kept] = axis;
    lists[3][kept++] = given[3].kind == RULES_LIST ? given[3].list[i] : 1;
  }
  if (kept == 0) return *a;
  for (uint32_t i = 0; i < 4; i++)
    parts[i] = rules_new_ints(run, lists[i], kept);
  const struct rules_value args[5] = {a[0], parts[0], parts[1], parts[2], parts[3]};
  return rules_new_node(run, OP_Slice, args, 5, NO_ID, NULL, 0);
}

struct rules_value rules_call(struct rules_run *run, uint32_t function,
                              const struct rules_value *args, uint32_t n) {
  static struct rules_value (*const functions[])(struct rules_run *, const struct rules_value *,
                                                 uint32_t) = {
#define RULES_FUNCTION(name, arguments, result) call_##name,
#include "rules_functions.def"
#undef RULES_FUNCTION
  };
  return functions[function](run, args, n);
}
