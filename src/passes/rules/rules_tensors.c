// Functions of the rule language that ask of tensors: types, dims, users, elements (rules_functions.h).
#include "passes/rules/inside/rules_functions.h"

#include <float.h>

// Calls `ask` for every tensor among the arguments: 1 if it says 1 of all, else the least certain
// or first 0. What is left out does not count.
static struct rules_value all_of(struct rules_run *run, const struct rules_value *args,
                                 int (*ask)(struct rules_run *, const struct rules_value *)) {
  int all = 1;
  for (; args->kind != RULES_MARK; args++) {
    const uint32_t m = args->kind == RULES_MANY ? args->n : 1;
    for (uint32_t j = 0; j < m; j++) {
      const struct rules_value v = args->kind == RULES_MANY ? rules_tensor(args->many[j]) : *args;
      if (v.kind == RULES_ABSENT && args->kind == RULES_MANY) continue;
      const int one = v.kind == RULES_TENSOR || v.kind == RULES_TERM ? ask(run, &v)
                      : v.kind == RULES_ABSENT                       ? 0
                                                                     : -1;
      if (one == 0) return rules_int(0);
      if (one < 0) all = -1;
    }
  }
  return rules_answer(all);
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
int rules_is_scalar(struct rules_run *run, const struct rules_value *v) {
  const struct rules_type t = rules_type_of(run, v);
  int all = 1;
  for (uint32_t i = 0; i < t.rank; i++) {
    if (rules_is_number(t.dims[i]) && t.dims[i] != 1) return 0;
    if (!rules_is_number(t.dims[i])) all = -1;
  }
  return t.ranked ? all : -1;
}

struct rules_value rules_call_none(struct rules_run *run, const struct rules_value *a) {
  (void)run;
  return a->kind == RULES_UNKNOWN ? rules_unknown() : rules_int(a->kind == RULES_ABSENT);
}
struct rules_value rules_call_consts(struct rules_run *run, const struct rules_value *a) {
  return all_of(run, a, is_constant);
}
struct rules_value rules_call_vars(struct rules_run *run, const struct rules_value *a) {
  return all_of(run, a, is_variable);
}
struct rules_value rules_call_n_vars(struct rules_run *run, const struct rules_value *a) {
  int64_t vars = 0;
  if (a->kind != RULES_MANY) return rules_unknown();
  for (uint32_t i = 0; i < a->n; i++)
    vars += a->many[i] != NO_ID && !rules_const(run, a->many[i]);
  return rules_int(vars);
}
struct rules_value rules_call_ranked(struct rules_run *run, const struct rules_value *a) {
  return all_of(run, a, is_ranked);
}
struct rules_value rules_call_static(struct rules_run *run, const struct rules_value *a) {
  return all_of(run, a, is_static);
}
struct rules_value rules_call_scalar(struct rules_run *run, const struct rules_value *a) {
  return rules_int(a->kind != RULES_ABSENT && rules_is_scalar(run, a) == 1);
}
struct rules_value rules_call_sole(struct rules_run *run, const struct rules_value *a) {
  if (a->kind != RULES_TENSOR) return rules_unknown();
  return rules_int(kit_use_count(&run->k, a->id, 2) == 1 && !kit_is_output(&run->k, a->id));
}
struct rules_value rules_call_uses(struct rules_run *run, const struct rules_value *a) {
  return a->kind == RULES_TENSOR ? rules_int(kit_use_count(&run->k, a->id, 16)) : rules_unknown();
}
struct rules_value rules_call_unused(struct rules_run *run, const struct rules_value *a) {
  return a->kind == RULES_TENSOR ? rules_int(kit_unused(&run->k, a->id))
                                 : rules_int(a->kind == RULES_ABSENT);
}
struct rules_value rules_call_rank(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type t = rules_type_of(run, a);
  return t.ranked ? rules_int(t.rank) : rules_unknown();
}
struct rules_value rules_call_dims(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type t = rules_type_of(run, a);
  return t.ranked ? rules_list(t.dims, t.rank) : rules_unknown();
}
struct rules_value rules_call_is(struct rules_run *run, const struct rules_value *a) {
  (void)run;
  if (a[0].kind == RULES_UNKNOWN || a[1].kind == RULES_UNKNOWN) return rules_unknown();
  return rules_int(a[0].kind == RULES_TENSOR && a[1].kind == RULES_TENSOR && a[0].id == a[1].id);
}
struct rules_value rules_call_same(struct rules_run *run, const struct rules_value *a) {
  const struct rules_value x = rules_call_dims(run, a), y = rules_call_dims(run, a + 1);
  return rules_answer(rules_equal(&x, &y));
}
struct rules_value rules_call_dtype(struct rules_run *run, const struct rules_value *a) {
  const enum dtype t = rules_type_of(run, a).dtype;
  return t == DTYPE_UNDEFINED ? rules_unknown() : rules_int(t);
}
struct rules_value rules_call_float(struct rules_run *run, const struct rules_value *a) {
  const enum dtype t = rules_type_of(run, a).dtype;
  return t == DTYPE_UNDEFINED ? rules_unknown() : rules_int(dtype_is_plain_float(t));
}
struct rules_value rules_call_signed(struct rules_run *run, const struct rules_value *a) {
  const enum dtype t = rules_type_of(run, a).dtype;
  if (t == DTYPE_UNDEFINED) return rules_unknown();
  return rules_int(dtype_is_plain_float(t) || t == DTYPE_INT8 || t == DTYPE_INT16 ||
                   t == DTYPE_INT32 || t == DTYPE_INT64);
}

// The same of elements that are not at hand, by what is known of all of them.
static struct rules_value all_of_large(struct rules_run *run, const struct rules_value *v,
                                       struct span sign, double wanted) {
  struct tensor_stats f;
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

struct rules_value rules_call_all(struct rules_run *run, const struct rules_value *a) {
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

struct rules_value rules_call_identity(struct rules_run *run, const struct rules_value *a) {
  struct rules_type t;
  struct span raw;
  struct tensor_stats f;
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

// The whole number up to which a type has all of them; 0: none of real numbers.
static double whole_up_to(enum dtype t) {
  return t == DTYPE_FLOAT16    ? 0x1p11
         : t == DTYPE_BFLOAT16 ? 0x1p8
         : t == DTYPE_FLOAT    ? 0x1p24
         : t == DTYPE_DOUBLE   ? 0x1p53
                               : 0;
}

// The quotients are whole numbers that the type has, and the scale is one with all of its digits.
static struct rules_value scale_of(enum dtype t, double finest, double most) {
  return finest >= rules_number_least_normal(t) && most / finest <= whole_up_to(t)
             ? (struct rules_value){.kind = RULES_FLOAT, .d = finest}
             : rules_int(1);
}

struct rules_value rules_call_common_scale(struct rules_run *run, const struct rules_value *a) {
  struct rules_type t;
  struct span raw;
  struct tensor_stats f;
  t = rules_type_of(run, a);
  if (!rules_is_constant(run, a)) return rules_unknown();
  if (t.dtype != DTYPE_UNDEFINED && !dtype_is_plain_float(t.dtype)) return rules_int(1);
  if (!rules_elements(run, a, &t, &raw)) {
    if (rules_facts(run, a, true, &f))
      return f.multiples ? scale_of(t.dtype, f.finest, fmax(fabs(f.least), fabs(f.most)))
                         : rules_int(1);
    // Any number but 1 for yes.
    return run->assume == RULES_ASSUME_YES  ? (struct rules_value){.kind = RULES_FLOAT, .d = 0.5}
           : run->assume == RULES_ASSUME_NO ? rules_int(1)
                                            : rules_unknown();
  }
  const uint64_t count = raw.n / (dtype_bits(t.dtype) / 8);
  double least = DBL_MAX, most = 0;
  for (uint64_t i = 0; i < count; i++) {
    const double x = fabs(rules_number_get(t.dtype, raw.at, i));
    if (!isfinite(x)) return rules_int(1);
    if (x != 0) least = fmin(least, x), most = fmax(most, x);
  }
  for (uint64_t i = 0; most > 0 && i < count; i++)
    if (!tensor_stats_multiple(rules_number_get(t.dtype, raw.at, i), least)) most = 0;
  return most > 0 ? scale_of(t.dtype, least, most) : rules_int(1);
}

struct rules_value rules_call_finite(struct rules_run *run, const struct rules_value *a) {
  struct rules_type t;
  struct span raw;
  if (a->kind == RULES_UNKNOWN) return *a;
  if (!rules_is_constant(run, a)) return rules_int(1); // one of its operands is none: nothing folds
  struct tensor_stats f;
  t = rules_type_of(run, a);
  if (t.dtype != DTYPE_UNDEFINED && !dtype_is_float(t.dtype)) return rules_int(1);
  if (!rules_elements(run, a, &t, &raw))
    return rules_facts(run, a, false, &f) ? rules_int(tensor_stats_finite(&f)) : rules_assumed(run);
  const uint64_t count = raw.n / (dtype_bits(t.dtype) / 8);
  for (uint64_t i = 0; dtype_is_plain_float(t.dtype) && i < count; i++)
    if (!isfinite(rules_number_get(t.dtype, raw.at, i))) return rules_int(0);
  return rules_int(1);
}

struct rules_value rules_call_ints(struct rules_run *run, const struct rules_value *a) {
  const int64_t *list;
  uint32_t count;
  if (a->kind != RULES_TENSOR || !kit_const_ints(&run->k, a->id, &list, &count))
    return rules_unknown();
  int64_t *copy = rules_room(run, count);
  if (count > 0) memcpy(copy, list, count * sizeof *copy);
  return rules_list(copy, count);
}

struct rules_value rules_call_ones_of(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type t = rules_type_of(run, a);
  int64_t *list = rules_room(run, t.rank);
  uint32_t m = 0;
  for (uint32_t i = 0; i < t.rank; i++)
    if (t.dims[i] == 1)
      list[m++] = i;
    else if (!rules_is_number(t.dims[i]))
      return rules_unknown();
  return t.ranked ? rules_list(list, m) : rules_unknown();
}

struct rules_value rules_call_ones_at(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type t = rules_type_of(run, a);
  if (!t.ranked || a[1].kind != RULES_LIST) return rules_unknown();
  for (uint32_t i = 0; i < a[1].n; i++) {
    const int64_t axis = a[1].list[i] < 0 ? a[1].list[i] + t.rank : a[1].list[i];
    if (axis < 0 || axis >= t.rank || !rules_is_number(t.dims[axis])) return rules_unknown();
    if (t.dims[axis] != 1) return rules_int(0);
  }
  return rules_int(1);
}

struct rules_value rules_call_even_along(struct rules_run *run, const struct rules_value *a) {
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

struct rules_value rules_call_chan(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type t = rules_type_of(run, a);
  int64_t *list = rules_room(run, t.rank);
  for (uint32_t i = 0; i < t.rank; i++)
    list[i] = i == 1 ? t.dims[i] : 1;
  if (t.rank > 1 && !rules_is_number(t.dims[1])) list[1] = -1;
  return t.ranked && t.rank > 1 ? rules_list(list, t.rank) : rules_unknown();
}

struct rules_value rules_call_broadcasts(struct rules_run *run, const struct rules_value *a) {
  if (a->kind != RULES_TENSOR) return rules_unknown();
  for (uint32_t i = 1; a[i].kind != RULES_MARK; i++) {
    if (a[i].kind == RULES_ABSENT) continue;
    if (a[i].kind != RULES_TENSOR) return rules_unknown();
    if (!kit_broadcasts(&run->k, a[i].id, a->id)) return rules_int(0);
  }
  return rules_int(1);
}

struct rules_value rules_call_trailing(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type t = rules_type_of(run, a);
  const struct rules_value axes = a[1].kind == RULES_ABSENT ? rules_call_ints(run, a + 2) : a[1];
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

struct rules_value rules_call_one_axis(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type t = rules_type_of(run, a);
  const struct rules_value axes = a[1].kind == RULES_ABSENT ? rules_call_ints(run, a + 2) : a[1];
  if (axes.kind != RULES_LIST) return rules_unknown();
  if (axes.n != 1) return rules_int(0);
  if (axes.list[0] >= 0 && !t.ranked) return rules_unknown();
  const int64_t axis = axes.list[0] < 0 ? axes.list[0] : axes.list[0] - (int64_t)t.rank;
  return rules_int(axis < 0 && (!t.ranked || axis >= -(int64_t)t.rank) ? axis : 0);
}

struct rules_value rules_call_kept(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type y = rules_type_of(run, a), x = rules_type_of(run, a + 1);
  if (!x.ranked || !y.ranked || a[2].kind != RULES_INT) return rules_unknown();
  const int64_t axis = a[2].i < 0 ? a[2].i + x.rank : a[2].i;
  if (y.rank != x.rank || axis < 0 || axis >= x.rank || y.dims[axis] != 1) return rules_int(0);
  for (uint32_t i = 0; i < x.rank; i++) {
    const struct rules_value p = rules_int(x.dims[i]), q = rules_int(y.dims[i]);
    const int same = i == axis ? 1 : rules_equal(&p, &q);
    if (same != 1) return same == 0 ? rules_int(0) : rules_unknown();
  }
  return rules_int(1);
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

struct rules_value rules_call_per_channel_at(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type c = rules_type_of(run, a), w = rules_type_of(run, a + 1);
  int64_t axis;
  if (!w.ranked || w.rank < 3) return w.ranked ? rules_int(0) : rules_unknown();
  if (!rules_number_of(a + 2, w.rank - 1, &axis)) return rules_unknown();
  return one_along(&c, w.rank, w.rank - 1, w.dims[axis]);
}

struct rules_value rules_call_per_channel(struct rules_run *run, const struct rules_value *a) {
  return rules_call_per_channel_at(run, (const struct rules_value[]){a[0], a[1], rules_int(0)});
}

struct rules_value rules_call_per_column(struct rules_run *run, const struct rules_value *a) {
  const struct rules_type c = rules_type_of(run, a), w = rules_type_of(run, a + 1);
  if (!w.ranked || w.rank != 2) return w.ranked ? rules_int(0) : rules_unknown();
  return one_along(&c, RECIPE_MAX_RANK, 1, w.dims[1]);
}

struct rules_value rules_call_number(struct rules_run *run, const struct rules_value *a) {
  struct rules_type t;
  struct span raw;
  if (!rules_elements(run, a, &t, &raw) || raw.n != dtype_bits(t.dtype) / 8) return rules_unknown();
  if (dtype_is_integer(t.dtype)) return rules_int(rules_number_get_int(t.dtype, raw.at, 0));
  return (struct rules_value){.kind = RULES_FLOAT, .d = rules_number_get(t.dtype, raw.at, 0)};
}

struct rules_value rules_call_gemm_c(struct rules_run *run, const struct rules_value *a) {
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
  return rules_answer(all);
}
