// Steps: how one operator over constants becomes a constant, and how exact the result is.
//
//   operands in memory, result up to 64 KiB   computed at once, elements in memory
//   anything larger                           a recipe, of any size: computed while it is written
//
// Both ways use the same kernels and make the same bytes, so that the numbers of a model do not depend on how much of it is
// small.
//
// For some operations it is known to the last bit what a runtime computes from the same constants, for others it is not, and
// a rule says how exactly it keeps numbers. The rule does not fire where a step may differ by more than that:
//
//   exact      integers, comparisons, what moves elements, casts to wider types; Where of rules
//   zero       other arithmetic of floats, where a result is NaN; the least and largest of two or
//              many, Relu, Sign and the model's own Where, where a result is a zero too
//   rounding   sums and products of many floats, Exp and its like, whose last bit is the library's;
//              casts that ONNX Runtime makes in two roundings (double and 64 bits to below float)
//   never      what the standard leaves open: division of integers by zero, and of the least one by
//              -1; casts of floats to integers out of their range; sums and products of many integers
//              that may leave their type (rules_fold.c); narrowing casts, of elements not in memory, of
//              floats that would become infinite, which no run writes
//
// Elements in memory are searched for NaNs, zeros and numbers out of range. About others a stage is asked, if the answer
// alone decides whether the rule fires (rules_facts.c).
//
// Elements are in memory for bool, integers of 8 to 64 bits and the four common floats. Recipes move and convert the others,
// however small they are.
#include "passes/rules/inside/rules_inside.h"

#include "kernels/convert/kernels_convert.h"
#include "kernels/map/kernels_map.h"
#include "kernels/reduce/kernels_reduce.h"

enum { OPERANDS = 3 };

struct array {
  struct rules_type type;
  struct span raw;
  uint64_t count, each; // elements, bytes of one
};

static bool array_of(struct rules_run *run, const struct rules_value *v, struct array *a) {
  if (!rules_elements(run, v, &a->type, &a->raw)) return false;
  a->each = dtype_bits(a->type.dtype) / 8;
  a->count = a->raw.n / a->each;
  return true;
}

// Does the rule allow a result of this exactness?
static bool allows(const struct rules_run *run, enum exactness exactness) {
  return exactness <= (enum exactness)run->rule->exactness;
}

// Memory for a result of these dims; NULL if it is too large to be computed at once.
static uint8_t *room(struct rules_run *run, const struct rules_type *t) {
  uint64_t count, bytes;
  if (t->rank > RECIPE_MAX_RANK || !dtype_is_plain_number(t->dtype) ||
      !dims_product(t->dims, t->rank, &count) || !dtype_bytes(t->dtype, count, &bytes) ||
      bytes > RULES_FOLD_BYTES)
    return NULL;
  return arena_zalloc(&run->match, (size_t)bytes + 1);
}

static struct rules_value at_hand(struct rules_run *run, const struct rules_type *t,
                                  const uint8_t *raw) {
  uint64_t count = 0, bytes = 0;
  dims_product(t->dims, t->rank, &count);
  dtype_bytes(t->dtype, count, &bytes);
  return rules_new_const(run, t->dtype, t->dims, t->rank, span_of(raw, (size_t)bytes));
}

static struct rules_type typed(struct rules_run *run, enum dtype dtype, const int64_t *dims,
                               uint32_t rank) {
  int64_t *copy = arena_copy(&run->match, dims, rank * sizeof *copy);
  return (struct rules_type){dtype, true, rank, copy};
}

// Is a result that is not in memory free of NaNs, and of zeros where they count?
static bool proved(struct rules_run *run, const struct rules_value *made, bool zeros) {
  struct tensor_stats f;
  if (!rules_facts(run, made, false, &f)) return run->assume == RULES_ASSUME_YES;
  return f.nans == 0 && !(zeros && f.zeros > 0);
}

// ---- moving elements ---------------------------------------------------------------------------

static void strides_of(const int64_t *dims, uint32_t rank, int64_t *strides) {
  int64_t stride = 1;
  for (uint32_t axis = rank; axis-- > 0;) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
}

// Copies the elements of an array with these dims: along its axes they are `from` bytes apart in the source and `to` bytes
// apart in the result.
static void move(const int64_t *dims, uint32_t rank, uint64_t each, uint8_t *out, const int64_t *to,
                 const uint8_t *in, const int64_t *from) {
  int64_t place[RECIPE_MAX_RANK] = {0}, o = 0, i = 0;
  for (uint32_t axis = 0; axis < rank; axis++)
    if (dims[axis] == 0) return;
  for (bool more = true; more;) {
    memcpy(out + (uint64_t)o * each, in + (uint64_t)i * each, (size_t)each);
    more = false;
    for (uint32_t axis = rank; axis-- > 0 && !more;) {
      more = ++place[axis] < dims[axis];
      o += to[axis], i += from[axis];
      if (more) break;
      o -= dims[axis] * to[axis], i -= dims[axis] * from[axis];
      place[axis] = 0;
    }
  }
}

struct rules_value rules_step_reshape(struct rules_run *run, const struct rules_value *of,
                                      const int64_t *dims, uint32_t rank) {
  struct array in;
  const struct rules_type t = typed(run, rules_type_of(run, of).dtype, dims, rank);
  if (array_of(run, of, &in)) return at_hand(run, &t, in.raw.at);
  const uint32_t recipe = rules_recipe_of(run, of);
  if (recipe == NO_ID) return rules_unknown();
  return rules_new_recipe(run, recipe_reshape(run->k.r, recipe, dims, rank));
}

struct rules_value rules_step_transpose(struct rules_run *run, const struct rules_value *of,
                                        const int64_t *perm) {
  struct array in;
  if (!array_of(run, of, &in)) {
    const uint32_t recipe = rules_recipe_of(run, of);
    if (recipe == NO_ID) return rules_unknown();
    return rules_new_recipe(run, recipe_transpose(run->k.r, recipe, perm));
  }
  int64_t dims[RECIPE_MAX_RANK], from[RECIPE_MAX_RANK], to[RECIPE_MAX_RANK], own[RECIPE_MAX_RANK];
  strides_of(in.type.dims, in.type.rank, own);
  for (uint32_t i = 0; i < in.type.rank; i++) {
    dims[i] = in.type.dims[perm[i]];
    from[i] = own[perm[i]];
  }
  strides_of(dims, in.type.rank, to);
  uint8_t *raw = arena_alloc(&run->match, in.raw.n + 1);
  move(dims, in.type.rank, in.each, raw, to, in.raw.at, from);
  const struct rules_type t = typed(run, in.type.dtype, dims, in.type.rank);
  return at_hand(run, &t, raw);
}

struct rules_value rules_step_slice(struct rules_run *run, const struct rules_value *of,
                                    const int64_t *starts, const int64_t *steps,
                                    const int64_t *dims) {
  struct array in;
  if (!array_of(run, of, &in)) {
    const uint32_t recipe = rules_recipe_of(run, of);
    if (recipe == NO_ID) return rules_unknown();
    return rules_new_recipe(run, recipe_slice(run->k.r, recipe, starts, steps, dims));
  }
  const struct rules_type t = typed(run, in.type.dtype, dims, in.type.rank);
  int64_t from[RECIPE_MAX_RANK], to[RECIPE_MAX_RANK], first = 0;
  strides_of(in.type.dims, t.rank, from);
  strides_of(dims, t.rank, to);
  for (uint32_t i = 0; i < t.rank; i++) {
    first += starts[i] * from[i];
    from[i] *= steps[i];
  }
  uint8_t *raw = arena_alloc(&run->match, in.raw.n + 1);
  move(dims, t.rank, in.each, raw, to, in.raw.at + (uint64_t)first * in.each, from);
  return at_hand(run, &t, raw);
}

// The elements of an operand, broadcast to these dims; not copied if it has these dims already.
static const uint8_t *spread(struct rules_run *run, const struct array *in,
                             const struct rules_type *t) {
  int64_t own[RECIPE_MAX_RANK], from[RECIPE_MAX_RANK], to[RECIPE_MAX_RANK];
  uint64_t count = 0;
  dims_product(t->dims, t->rank, &count);
  const uint32_t more = t->rank - in->type.rank;
  strides_of(in->type.dims, in->type.rank, own);
  strides_of(t->dims, t->rank, to);
  for (uint32_t i = 0; i < t->rank; i++)
    from[i] = i < more || in->type.dims[i - more] == 1 ? 0 : own[i - more];
  if (in->count == count) return in->raw.at; // only axes of length 1 were added
  uint8_t *raw = arena_alloc(&run->match, count * in->each + 1);
  move(t->dims, t->rank, in->each, raw, to, in->raw.at, from);
  return raw;
}

// Broadcasts an operand's dims with those of the result so far, as NumPy does.
static bool widen(struct rules_run *run, struct rules_type *to, const struct rules_type *t) {
  const uint32_t rank = to->rank > t->rank ? to->rank : t->rank;
  int64_t *dims = arena_alloc(&run->match, (rank + (size_t)1) * sizeof *dims);
  for (uint32_t i = 0; i < rank; i++) {
    const int64_t a = i + to->rank >= rank ? to->dims[i + to->rank - rank] : 1;
    const int64_t b = i + t->rank >= rank ? t->dims[i + t->rank - rank] : 1;
    if (a != b && a != 1 && b != 1) return false;
    dims[i] = a == 1 ? b : a;
  }
  to->rank = rank, to->dims = dims;
  return true;
}

struct rules_value rules_step_expand(struct rules_run *run, const struct rules_value *of,
                                     const int64_t *dims, uint32_t rank) {
  struct array in;
  if (rank > RECIPE_MAX_RANK) return rules_unknown();
  struct rules_type t = typed(run, rules_type_of(run, of).dtype, dims, rank);
  if (!array_of(run, of, &in) || !widen(run, &t, &in.type) || !room(run, &t))
    return rules_unknown();
  return at_hand(run, &t, spread(run, &in, &t));
}

struct rules_value rules_step_concat(struct rules_run *run, const struct rules_value *of,
                                     uint32_t n, uint32_t axis) {
  const struct rules_type first = rules_type_of(run, &of[0]);
  int64_t dims[RECIPE_MAX_RANK], strides[RECIPE_MAX_RANK], own[RECIPE_MAX_RANK];
  uint32_t *recipes = arena_alloc(&run->match, n * sizeof *recipes);
  struct array *in = arena_alloc(&run->match, n * sizeof *in);
  bool here = true;
  memcpy(dims, first.dims, first.rank * sizeof *dims);
  dims[axis] = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct rules_type t = rules_type_of(run, &of[i]);
    if (t.dtype != first.dtype || t.rank != first.rank) return rules_unknown();
    for (uint32_t k = 0; k < t.rank; k++)
      if (k != axis && t.dims[k] != dims[k]) return rules_unknown();
    if (__builtin_add_overflow(dims[axis], t.dims[axis], &dims[axis])) return rules_unknown();
    here = here && array_of(run, &of[i], &in[i]);
  }
  const struct rules_type t = typed(run, first.dtype, dims, first.rank);
  uint8_t *raw = here ? room(run, &t) : NULL;
  if (!raw) {
    for (uint32_t i = 0; i < n; i++)
      if ((recipes[i] = rules_recipe_of(run, &of[i])) == NO_ID) return rules_unknown();
    if (!recipe_can_concat(run->k.r, recipes, n, axis)) return rules_unknown();
    return rules_new_recipe(run, recipe_concat(run->k.r, recipes, n, axis));
  }
  strides_of(dims, t.rank, strides);
  int64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    strides_of(in[i].type.dims, t.rank, own);
    move(in[i].type.dims, t.rank, in[i].each, raw + (uint64_t)(at * strides[axis]) * in[i].each,
         strides, in[i].raw.at, own);
    at += in[i].type.dims[axis];
  }
  return at_hand(run, &t, raw);
}

struct rules_value rules_step_pad(struct rules_run *run, const struct rules_value *of,
                                  const int64_t *befores, const int64_t *afters,
                                  struct span element) {
  const struct rules_type from = rules_type_of(run, of);
  int64_t dims[RECIPE_MAX_RANK], own[RECIPE_MAX_RANK], strides[RECIPE_MAX_RANK], at = 0;
  struct array in;
  uint64_t count = 0;
  for (uint32_t i = 0; i < from.rank; i++)
    if (__builtin_add_overflow(from.dims[i], befores[i], &dims[i]) ||
        __builtin_add_overflow(dims[i], afters[i], &dims[i]))
      return rules_unknown();
  const struct rules_type t = typed(run, from.dtype, dims, from.rank);
  uint8_t *raw = array_of(run, of, &in) ? room(run, &t) : NULL;
  if (!raw) {
    const uint32_t recipe = rules_recipe_of(run, of);
    if (recipe == NO_ID || !recipe_can_pad(run->k.r, recipe, befores, afters, element))
      return rules_unknown();
    return rules_new_recipe(run, recipe_pad(run->k.r, recipe, befores, afters, element));
  }
  dims_product(dims, t.rank, &count);
  for (uint64_t i = 0; i < count; i++)
    memcpy(raw + i * in.each, element.at, (size_t)in.each);
  strides_of(in.type.dims, t.rank, own);
  strides_of(dims, t.rank, strides);
  for (uint32_t i = 0; i < t.rank; i++)
    at += befores[i] * strides[i];
  move(in.type.dims, t.rank, in.each, raw + (uint64_t)at * in.each, strides, in.raw.at, own);
  return at_hand(run, &t, raw);
}

struct rules_value rules_step_gather(struct rules_run *run, const struct rules_value *of,
                                     const struct rules_value *by, uint32_t axis) {
  const uint32_t recipe = rules_recipe_of(run, of), indices = rules_recipe_of(run, by);
  struct array in, places;
  if (recipe == NO_ID || indices == NO_ID || !recipe_can_gather(run->k.r, recipe, indices, axis))
    return rules_unknown();
  // Indices that are not in memory may be out of range.
  if (!array_of(run, by, &places)) return rules_unknown();
  const int64_t *dims = rules_type_of(run, of).dims;
  const uint32_t rank = rules_type_of(run, of).rank;
  for (uint64_t i = 0; i < places.count; i++) {
    const int64_t at = rules_number_get_int(places.type.dtype, places.raw.at, i);
    if (at < -dims[axis] || at >= dims[axis]) return rules_unknown();
  }
  int64_t to[RECIPE_MAX_RANK];
  memcpy(to, dims, axis * sizeof *to);
  if (places.type.rank > 0) memcpy(to + axis, places.type.dims, places.type.rank * sizeof *to);
  memcpy(to + axis + places.type.rank, dims + axis + 1, (rank - axis - 1) * sizeof *to);
  const struct rules_type t =
      typed(run, rules_type_of(run, of).dtype, to, rank - 1 + places.type.rank);
  uint8_t *raw = array_of(run, of, &in) ? room(run, &t) : NULL;
  if (!raw) return rules_new_recipe(run, recipe_gather(run->k.r, recipe, indices, axis));
  // [before, the axis, after]: a run of `behind` elements for each index.
  uint64_t before = 1, behind = in.each;
  for (uint32_t i = 0; i < rank; i++) {
    if (i < axis) before *= (uint64_t)dims[i];
    if (i > axis) behind *= (uint64_t)dims[i];
  }
  for (uint64_t b = 0; b < before; b++)
    for (uint64_t i = 0; i < places.count; i++) {
      int64_t at = rules_number_get_int(places.type.dtype, places.raw.at, i);
      if (at < 0) at += dims[axis];
      memcpy(raw + (b * places.count + i) * behind,
             in.raw.at + (b * (uint64_t)dims[axis] + (uint64_t)at) * behind, (size_t)behind);
    }
  return at_hand(run, &t, raw);
}

// ---- conversions -------------------------------------------------------------------------------

static bool any_nan(enum dtype t, const uint8_t *raw, uint64_t n) {
  for (uint64_t i = 0; dtype_is_plain_float(t) && i < n; i++)
    if (isnan(rules_number_get(t, raw, i))) return true;
  return false;
}

static bool any_zero(enum dtype t, const uint8_t *raw, uint64_t n) {
  for (uint64_t i = 0; dtype_is_plain_float(t) && i < n; i++)
    if (rules_number_get(t, raw, i) == 0) return true;
  return false;
}

// Can the other type, of integers or of floats, hold all floats of a constant that is not in memory?
static bool in_range(struct rules_run *run, const struct rules_value *of, enum dtype to) {
  struct tensor_stats f;
  const bool real = dtype_is_plain_float(to);
  if (!real && (!dtype_is_integer(to) || dtype_bits(to) < 8)) return false;
  if (!rules_facts(run, of, false, &f)) return run->assume == RULES_ASSUME_YES;
  if (real) {
    const double most = dtype_largest(to);
    return f.infinities == 0 && (f.nans == f.elements || (f.least >= -most && f.most <= most));
  }
  const bool is_signed =
      to == DTYPE_INT8 || to == DTYPE_INT16 || to == DTYPE_INT32 || to == DTYPE_INT64;
  const int bits = (int)dtype_bits(to);
  const double end = ldexp(1, is_signed ? bits - 1 : bits), first = is_signed ? -end : 0;
  return tensor_stats_finite(&f) && f.least > first - 1 && f.most < end;
}

struct rules_value rules_step_cast(struct rules_run *run, const struct rules_value *of,
                                   const struct recipe_conversion *c) {
  const enum dtype from = rules_type_of(run, of).dtype;
  const bool narrows = dtype_is_float(c->to) && dtype_bits(c->to) < dtype_bits(from);
  const bool twice = dtype_bits(from) >= 32 && from != DTYPE_FLOAT && dtype_bits(c->to) < 32 &&
                     dtype_is_float(c->to);
  struct array in;
  if (from == c->to) return *of;
  if (!recipe_can_convert(from, c->to) || (twice && !allows(run, EXACTNESS_ROUNDING)))
    return rules_unknown();
  struct rules_type t = rules_type_of(run, of);
  t.dtype = c->to;
  uint8_t *raw = array_of(run, of, &in) ? room(run, &t) : NULL;
  if (!raw) {
    const uint32_t recipe = rules_recipe_of(run, of);
    // A number that is out of range or NaN, which the type does not hold, or one that would become infinite, which a run
    // refuses to write.
    const bool open = dtype_is_float(from) && c->to != DTYPE_BOOL && !dtype_is_plain_float(c->to) &&
                      (!dtype_is_float(c->to) || dtype_bits(c->to) < 8);
    const bool overflows = dtype_is_plain_float(from) && dtype_is_plain_float(c->to) &&
                           dtype_largest(c->to) < dtype_largest(from);
    if (recipe == NO_ID || ((open || overflows) && !in_range(run, of, c->to)) ||
        c->to == DTYPE_FLOAT8E8M0)
      return rules_unknown();
    const struct rules_value made = rules_new_recipe(run, recipe_convert(run->k.r, recipe, c));
    const bool may_differ = dtype_is_float(from) && narrows && !allows(run, EXACTNESS_ZERO);
    return may_differ && !proved(run, &made, false) ? rules_unknown() : made;
  }
  const struct kernels_cast how = {.from = (uint8_t)from,
                                   .to = (uint8_t)c->to,
                                   .saturate = c->saturates,
                                   .round = (uint8_t)c->round};
  if (kernels_convert(raw, in.raw.at, (size_t)in.count, &how) != 0) return rules_unknown();
  if (narrows && any_nan(c->to, raw, in.count) && !allows(run, EXACTNESS_ZERO))
    return rules_unknown();
  return at_hand(run, &t, raw);
}

// ---- arithmetic --------------------------------------------------------------------------------

// How exact results of floats are for all elements; and whether that holds only where no result is zero.
static enum exactness exactness_of(enum recipe_map_op op, bool *zeros) {
  *zeros = op == RECIPE_MAP_MIN || op == RECIPE_MAP_MAX || op == RECIPE_MAP_RELU ||
           op == RECIPE_MAP_SIGN;
  switch (op) {
  case RECIPE_MAP_POW:
  case RECIPE_MAP_EXP:
  case RECIPE_MAP_LOG:
  case RECIPE_MAP_ERF:
  case RECIPE_MAP_TANH:
  case RECIPE_MAP_SIGMOID: return EXACTNESS_ROUNDING;
  case RECIPE_MAP_WHERE: return EXACTNESS_EXACT;
  default: return EXACTNESS_ZERO; // exact if no result is NaN
  }
}

// Does every element of an integer divisor have a quotient that the standard defines?
static bool divides(struct rules_run *run, const struct rules_value *by) {
  struct array in;
  struct tensor_stats f;
  if (!array_of(run, by, &in)) {
    if (!rules_facts(run, by, false, &f)) return run->assume == RULES_ASSUME_YES;
    return f.zeros == 0 && (f.least > 0 || f.most < -1);
  }
  for (uint64_t i = 0; i < in.count; i++) {
    const int64_t x = rules_number_get_int(in.type.dtype, in.raw.at, i);
    if (x == 0 || x == -1) return false;
  }
  return true;
}

struct rules_value rules_step_map(struct rules_run *run, enum recipe_map_op op,
                                  const struct rules_value *of) {
  const uint32_t n = recipe_map_operands(op);
  struct array in[OPERANDS];
  struct rules_type t = rules_type_of(run, &of[n - 1]);
  const enum dtype type = t.dtype;
  bool here = true, zeros;
  t.dtype = recipe_map_result(op, type);
  if (t.dtype == DTYPE_UNDEFINED) return rules_unknown();
  for (uint32_t i = 0; i < n; i++) {
    const struct rules_type own = rules_type_of(run, &of[i]);
    const enum dtype want = op == RECIPE_MAP_WHERE && i == 0 ? DTYPE_BOOL : type;
    if (own.dtype != want || !widen(run, &t, &own)) return rules_unknown();
    here = here && array_of(run, &of[i], &in[i]);
  }
  enum exactness exactness = exactness_of(op, &zeros);
  // ONNX Runtime adds 0 to the elements that the model's own Where picks.
  if (op == RECIPE_MAP_WHERE && run->options->once) exactness = EXACTNESS_ZERO, zeros = true;
  if (!dtype_is_plain_float(t.dtype)) exactness = EXACTNESS_EXACT;
  if (exactness == EXACTNESS_ROUNDING && !allows(run, exactness)) return rules_unknown();
  uint8_t *raw = here ? room(run, &t) : NULL;
  if (!raw) {
    uint32_t recipes[OPERANDS];
    if (op == RECIPE_MAP_DIV && !dtype_is_plain_float(type) && !divides(run, &of[1]))
      return rules_unknown();
    for (uint32_t i = 0; i < n; i++)
      if ((recipes[i] = rules_recipe_of(run, &of[i])) == NO_ID) return rules_unknown();
    if (!recipe_can_map(run->k.r, op, recipes) || !rules_range_keeps(run, op, t.dtype, of))
      return rules_unknown();
    const struct rules_value made = rules_new_recipe(run, recipe_map(run->k.r, op, recipes));
    return allows(run, exactness) || proved(run, &made, zeros) ? made : rules_unknown();
  }
  uint64_t count = 0;
  struct kernels_operand operands[OPERANDS];
  dims_product(t.dims, t.rank, &count);
  for (uint32_t i = 0; i < n; i++)
    operands[i] = in[i].count == 1 ? (struct kernels_operand){in[i].raw.at, 0}
                                   : (struct kernels_operand){spread(run, &in[i], &t), 1};
  if (kernels_map((enum kernels_map)op, type, raw, operands, (size_t)count) != 0)
    return rules_unknown();
  if (!rules_range_kept(run, op, t.dtype, operands, raw, count)) return rules_unknown();
  if (exactness == EXACTNESS_ZERO && !allows(run, exactness) &&
      (any_nan(t.dtype, raw, count) || (zeros && any_zero(t.dtype, raw, count))))
    return rules_unknown();
  return at_hand(run, &t, raw);
}

// One column: its result, in the type of results.
static void reduce_column(const struct kernels_reduction *r, const uint8_t *column, size_t each,
                          size_t n, void *levels, void *out) {
  uint64_t lanes[KERNELS_REDUCE_LANES], partial, chunks = 0;
  for (size_t first = 0; first < n; first += KERNELS_REDUCE_CHUNK) {
    const size_t rows = (size_t)min_u64(KERNELS_REDUCE_CHUNK, n - first);
    kernels_reduce_begin(r, lanes);
    kernels_reduce_rows(r, lanes, 0, column + first * each, 1, rows);
    kernels_reduce_close(r, &partial, lanes);
    kernels_reduce_push(r, levels, chunks++, &partial);
  }
  kernels_reduce_finish(r, out, levels, chunks);
}

struct rules_value rules_step_reduce(struct rules_run *run, const struct rules_value *of,
                                     const struct recipe_reduction *q) {
  const struct rules_type from = rules_type_of(run, of);
  const bool extreme = q->op == RECIPE_MIN || q->op == RECIPE_MAX;
  const enum exactness exactness = !dtype_is_plain_float(from.dtype) ? EXACTNESS_EXACT
                                   : extreme                         ? EXACTNESS_ZERO
                                                                     : EXACTNESS_ROUNDING;
  if (!extreme && !allows(run, exactness)) return rules_unknown();
  const uint32_t recipe = rules_recipe_of(run, of);
  if (recipe == NO_ID || !recipe_can_reduce(run->k.r, recipe, q)) return rules_unknown();
  struct array in;
  if (!array_of(run, of, &in)) {
    const struct rules_value made = rules_new_recipe(run, recipe_reduce(run->k.r, recipe, q));
    return allows(run, exactness) || proved(run, &made, true) ? made : rules_unknown();
  }
  // The axes that stay come first, the reduced ones last: then every column is a vector.
  int64_t dims[RECIPE_MAX_RANK] = {0}, from_strides[RECIPE_MAX_RANK] = {0},
          to[RECIPE_MAX_RANK] = {0}, own[RECIPE_MAX_RANK];
  uint32_t n = 0, kept = 0;
  strides_of(in.type.dims, in.type.rank, own);
  for (uint32_t turn = 0; turn < 2; turn++) {
    for (uint32_t i = 0; i < in.type.rank; i++)
      if ((q->axes >> i & 1) == turn) dims[n] = in.type.dims[i], from_strides[n++] = own[i];
    if (turn == 0) kept = n;
  }
  strides_of(dims, n, to);
  uint8_t *columns = arena_alloc(&run->match, in.raw.n + 1);
  move(dims, n, in.each, columns, to, in.raw.at, from_strides);
  const struct rules_type t = typed(run, from.dtype, dims, kept);
  uint64_t count = 0;
  dims_product(t.dims, t.rank, &count);
  const size_t rows = (size_t)(in.count / count);
  const struct kernels_reduction r = {(uint8_t)q->op, (uint8_t)from.dtype, 1};
  uint64_t *results = arena_alloc(&run->match, (count + 1) * sizeof *results);
  uint64_t *levels =
      arena_alloc(&run->match, (kernels_reduce_levels(rows) + (size_t)1) * sizeof *levels);
  for (uint64_t i = 0; i < count; i++)
    reduce_column(&r, columns + i * rows * in.each, (size_t)in.each, rows, levels, &results[i]);
  uint8_t *raw = arena_alloc(&run->match, count * in.each + 1);
  const struct kernels_cast back = {.from = (uint8_t)kernels_reduce_type(from.dtype),
                                    .to = (uint8_t)from.dtype,
                                    .saturate = true};
  kernels_convert(raw, results, (size_t)count, &back);
  if (!allows(run, exactness) && (any_nan(t.dtype, raw, count) || any_zero(t.dtype, raw, count)))
    return rules_unknown();
  return at_hand(run, &t, raw);
}

struct rules_value rules_step_dequantize(struct rules_run *run, const struct rules_value *codes,
                                         const struct rules_value *scales,
                                         const struct rules_value *zeros, uint32_t axis,
                                         uint64_t block) {
  const bool plain = rules_type_of(run, scales).dtype == DTYPE_FLOAT; // others may be rounded twice
  if (!plain && !allows(run, EXACTNESS_ROUNDING)) return rules_unknown();
  const uint32_t of = rules_recipe_of(run, codes);
  struct recipe_dequantization q = {
      .scales = rules_recipe_of(run, scales), .zeros = NO_ID, .axis = axis, .block = block};
  if (of == NO_ID || q.scales == NO_ID) return rules_unknown();
  if (zeros->kind != RULES_ABSENT && (q.zeros = rules_recipe_of(run, zeros)) == NO_ID)
    return rules_unknown();
  if (!recipe_can_dequantize(run->k.r, of, &q)) return rules_unknown();
  const struct rules_value made = rules_new_recipe(run, recipe_dequantize(run->k.r, of, &q));
  return allows(run, EXACTNESS_ZERO) || proved(run, &made, false) ? made : rules_unknown();
}

// ---- products of matrices ----------------------------------------------------------------------

// One element of a product: a row of the left matrix times a column of the right one, whose elements are `apart` apart. False:
// the type does not hold the element, although it holds all operands (rules_range.c).
static bool product(enum dtype t, const uint8_t *row, const uint8_t *column, uint64_t n,
                    uint64_t apart, uint8_t *raw, uint64_t at) {
  double sum = 0, terms = 0;
  uint64_t whole = 0;
  for (uint64_t i = 0; i < n; i++)
    if (dtype_is_plain_float(t)) {
      const double x = rules_number_get(t, row, i), y = rules_number_get(t, column, i * apart);
      sum += x * y;
      if (isfinite(x) && isfinite(y)) terms += fabs(x * y);
    } else
      whole += (uint64_t)rules_number_get_int(t, row, i) *
               (uint64_t)rules_number_get_int(t, column, i * apart);
  if (!dtype_is_plain_float(t)) {
    rules_number_put_int(t, raw, at, (int64_t)whole);
    return true;
  }
  rules_number_put(t, raw, at, sum);
  return rules_range_of_sum(t, terms, sum, rules_number_get(t, raw, at));
}

struct rules_value rules_step_matmul(struct rules_run *run, const struct rules_value *of) {
  struct array a, b;
  const struct rules_type left = rules_type_of(run, &of[0]), right = rules_type_of(run, &of[1]);
  if (left.dtype != right.dtype || left.dtype == DTYPE_BOOL || left.rank < 1 || right.rank < 1 ||
      right.rank > 2 || left.dims[left.rank - 1] != right.dims[0])
    return rules_unknown();
  if (dtype_is_plain_float(left.dtype) && !allows(run, EXACTNESS_ROUNDING)) return rules_unknown();
  if (!array_of(run, &of[0], &a) || !array_of(run, &of[1], &b)) return rules_unknown();
  int64_t dims[RECIPE_MAX_RANK];
  memcpy(dims, left.dims, left.rank * sizeof *dims);
  const uint64_t depth = (uint64_t)right.dims[0];
  const uint64_t width = right.rank == 2 ? (uint64_t)right.dims[1] : 1; // a vector is one column
  if (right.rank == 2) dims[left.rank - 1] = right.dims[1];
  const struct rules_type t =
      typed(run, left.dtype, dims, right.rank == 2 ? left.rank : left.rank - 1);
  uint64_t count = 0;
  uint8_t *raw = room(run, &t);
  if (!raw) return rules_unknown();
  dims_product(dims, t.rank, &count);
  for (uint64_t i = 0; i < count; i++)
    if (!product(t.dtype, a.raw.at + i / width * depth * a.each, b.raw.at + i % width * b.each,
                 depth, width, raw, i) &&
        !run->options->once)
      return rules_unknown();
  return at_hand(run, &t, raw);
}
