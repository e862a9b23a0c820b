// Masks of optimize/attention: what is added to scores before their Softmax.
//
//   Where(c, 0, -inf) behind which rows of NaN become 0   ──▶  c, or Not(c)
//   Where(j <= i, 0, -inf), Trilu(-inf, 1)                ──▶  is_causal
//   Where(c, 0, lowest)                                   ──▶  Where(c, 0, the number next to it)
//   a mask [b,1,1,t] for scores [b,h,s,t]                 ──▶  Expand(mask, [s,1])
//
// A row of which nothing is left is where implementations of Attention part. Its scores plus the lowest number of the
// type are that number throughout, and Softmax makes an average of them. ONNX Runtime takes a row of the very lowest
// number for one that is masked out, and gives 0; one unit in the last place above it gives the average, and what is
// masked is 0 as before. Of -infinity Softmax makes NaN, and Attention 0: such a mask is taken where a Where behind the
// Softmax puts 0 in place of NaN, or where every row keeps something.
//
// ONNX lets a mask be broadcast along rows, ONNX Runtime does not; along columns a short mask means something else
// (what is missing is masked). So both are spelled out.
#include "passes/optimize/inside/attention.h"

#include <float.h>
#include <math.h>

enum { STEPS = 16, MOST = 1024 };

// A number that hides what it is added to: up to here. In float16 scores lose their digits next to large numbers, so that
// a row of which nothing is left becomes an average of another kind; Attention is free to compute it in float32.
static double hiding(enum dtype dtype) {
  return dtype == DTYPE_FLOAT ? (double)-FLT_MAX : -1000;
}

// ---- which row sees which column ---------------------------------------------------------------

// Have both the same last two dims?
static bool same_end(struct kit *k, uint32_t a, uint32_t b) {
  struct infer_type x, y;
  if (!known_dims(k, a, &x) || !known_dims(k, b, &y) || x.rank < 2 || y.rank < 2) return false;
  return known_same(k, x.dims[x.rank - 1], y.dims[y.rank - 1]) &&
         known_same(k, x.dims[x.rank - 2], y.dims[y.rank - 2]);
}

// Steps over what only changes the dims before the last two.
static uint32_t below_leading(struct kit *k, uint32_t value) {
  for (uint32_t i = 0; i < STEPS; i++) {
    const enum op op = kit_maker_op(k, value);
    if (op != OP_Unsqueeze && op != OP_Expand && op != OP_Reshape && op != OP_Identity) break;
    const uint32_t from = kit_in(k, kit_maker(k, value), 0);
    if (!same_end(k, from, value)) break;
    value = from;
  }
  return value;
}

// Are its elements known to be this number, whatever its dims are?
static bool all_are(struct kit *k, uint32_t value, double number) {
  for (uint32_t i = 0; i < STEPS && value != NO_ID; i++) {
    if (kit_const_all(k, value, number) == KIT_YES) return true;
    const enum op op = kit_maker_op(k, value);
    const uint32_t node = kit_maker(k, value);
    uint32_t tensor;
    if (op == OP_ConstantOfShape) {
      struct span raw;
      struct kit_attr a;
      if (kit_attr(k, node, "value", &a) != KIT_GIVEN) return number == 0;
      if (!kit_attr_tensor(k, node, "value", &tensor) || !model_small_value(k->m, tensor, &raw))
        return false;
      const enum dtype dtype = (enum dtype)k->m->tensors[tensor].dtype;
      uint8_t wanted[8];
      const size_t n = kit_number_put(dtype, number, wanted);
      return n > 0 && raw.n == n && memcmp(raw.at, wanted, n) == 0;
    }
    if (op != OP_Unsqueeze && op != OP_Expand && op != OP_Reshape && op != OP_Identity)
      return false;
    value = kit_in(k, node, 0);
  }
  return false;
}

// Is it 0, 1, 2 ... along the axis `back` from the end, and of length 1 along all others?
static bool counts_along(struct kit *k, uint32_t value, uint32_t back) {
  struct infer_type t;
  dim_id list[MOST];
  uint32_t n;
  int64_t x;
  if (!known_dims(k, value, &t) || t.rank <= back) return false;
  for (uint32_t i = 0; i < t.rank; i++)
    if (i != t.rank - 1 - back && !known_one(k, t.dims[i])) return false;
  if (known_list(k, value, list, MOST, &n)) {
    for (uint32_t i = 0; i < n; i++)
      if (!known_size(k, list[i], &x) || x != i) return false;
    return true;
  }
  for (uint32_t i = 0; i < STEPS; i++) {
    const enum op op = kit_maker_op(k, value);
    const uint32_t node = kit_maker(k, value);
    if (op == OP_Range)
      return known_number(k, kit_in(k, node, 0), &x) && x == 0 &&
             known_number(k, kit_in(k, node, 2), &x) && x == 1;
    if (op != OP_Unsqueeze && op != OP_Squeeze && op != OP_Reshape && op != OP_Identity)
      return false;
    value = kit_in(k, node, 0);
  }
  return false;
}

// Trilu of elements that are all this number, of which row i keeps the columns up to i (or from i + 1 on).
static bool is_triangle(struct kit *k, uint32_t value, bool upper, double number) {
  const uint32_t node = kit_maker(k, value);
  int64_t is_upper, diagonal = 0;
  if (kit_maker_op(k, value) != OP_Trilu || !kit_attr_int(k, node, "upper", 1, &is_upper))
    return false;
  if (kit_in(k, node, 1) != NO_ID && !known_number(k, kit_in(k, node, 1), &diagonal)) return false;
  return (is_upper != 0) == upper && diagonal == upper && all_are(k, kit_in(k, node, 0), number);
}

// Elements of a small value [.., rows, columns]: is each `on` where row i sees column j, and another one elsewhere?
static bool small_is_causal(struct kit *k, uint32_t value, bool on) {
  struct infer_type t;
  dim_id list[MOST];
  uint32_t n;
  int64_t rows, columns, x;
  if (!known_dims(k, value, &t) || t.rank < 2 || !known_list(k, value, list, MOST, &n))
    return false;
  if (!known_size(k, t.dims[t.rank - 1], &columns) || !known_size(k, t.dims[t.rank - 2], &rows) ||
      columns < 1 || rows < 1)
    return false;
  for (uint32_t i = 0; i < n; i++) {
    const bool sees = i % columns <= i / columns % rows;
    if (!known_size(k, list[i], &x) || (x != 0) != (sees == on)) return false;
  }
  return n > 0;
}

// Does the condition hold (or, with `denies`, not hold) where the column is not behind the row, and nowhere else?
static bool is_causal(struct kit *k, uint32_t c, bool denies) {
  for (uint32_t i = 0; i < STEPS; i++) {
    c = below_leading(k, c);
    if (small_is_causal(k, c, !denies)) return true;
    const uint32_t node = kit_maker(k, c), a = kit_in(k, node, 0), b = kit_in(k, node, 1);
    switch (kit_maker_op(k, c)) {
    case OP_And:
      if (!all_are(k, a, 1) && !all_are(k, b, 1)) return false;
      if (!same_end(k, c, all_are(k, a, 1) ? b : a)) return false;
      c = all_are(k, a, 1) ? b : a;
      break;
    case OP_Not:
      denies = !denies;
      c = a;
      break;
    case OP_LessOrEqual: return !denies && counts_along(k, a, 0) && counts_along(k, b, 1);
    case OP_GreaterOrEqual: return !denies && counts_along(k, a, 1) && counts_along(k, b, 0);
    case OP_Greater: return denies && counts_along(k, a, 0) && counts_along(k, b, 1);
    case OP_Less: return denies && counts_along(k, a, 1) && counts_along(k, b, 0);
    case OP_Equal:
      return denies && ((is_triangle(k, a, false, 1) && all_are(k, b, 0) && same_end(k, c, a)) ||
                        (is_triangle(k, b, false, 1) && all_are(k, a, 0) && same_end(k, c, b)));
    case OP_Cast: return !denies && is_triangle(k, a, false, 1);
    case OP_Trilu: return !denies && is_triangle(k, c, false, 1);
    default: return false;
    }
  }
  return false;
}

// ---- masks of floats ---------------------------------------------------------------------------

// A constant whose elements are at hand.
static const char *of_constant(struct kit *k, struct attention_mask *out, bool guarded) {
  const double *list;
  uint32_t n;
  struct infer_type t;
  int64_t columns;
  bool zeros = true;
  if (!known_dims(k, out->value, &t) || t.rank == 0 ||
      !known_size(k, t.dims[t.rank - 1], &columns) || columns < 1 ||
      !kit_const_floats(k, out->value, &list, &n))
    return NULL;
  for (uint32_t row = 0; row + columns <= n; row += (uint32_t)columns) {
    bool keeps = false;
    for (uint32_t i = row; i < row + columns; i++) {
      keeps = keeps || list[i] > hiding(t.dtype);
      zeros = zeros && list[i] == 0;
    }
    if (!keeps && !(guarded && isinf(list[row]))) return "masked_rows";
  }
  if (zeros) out->kind = ATTENTION_NO_MASK;
  return NULL;
}

static bool all_one(struct kit *k, const struct infer_type *t) {
  for (uint32_t i = 0; i < t->rank; i++)
    if (!known_one(k, t->dims[i])) return false;
  return true;
}

static bool same_rank(struct kit *k, uint32_t a, uint32_t b) {
  struct infer_type x, y;
  return known_dims(k, a, &x) && known_dims(k, b, &y) && x.rank == y.rank;
}

// Where(c, number, other) or Where(c, other, number), of which the other is not known.
static const char *of_hiding(struct kit *k, uint32_t node, uint32_t slot, double number,
                             bool guarded, struct attention_mask *out) {
  struct infer_type of, t;
  // One number for all that is masked, which nobody knows.
  if (!known_dims(k, kit_in(k, node, 3 - slot), &of) || !known_dims(k, out->value, &t) ||
      all_one(k, &of))
    return "masked_rows";
  if (number > hiding(t.dtype)) return NULL;
  if (isinf(number) || t.dtype != DTYPE_FLOAT)
    return guarded && isinf(number) ? NULL : "masked_rows";
  if (of.rank != t.rank && !same_rank(k, kit_in(k, node, 0), out->value)) return "mask_shape";
  out->kind = ATTENTION_LOWEST;
  out->slot = slot;
  return NULL;
}

// Where(c, 0, number) or Where(c, number, 0).
static const char *of_where(struct kit *k, uint32_t node, bool guarded,
                            struct attention_mask *out) {
  const uint32_t c = kit_in(k, node, 0);
  struct kit_number a, b;
  struct infer_type t, of;
  const bool known[] = {kit_const_number(k, kit_in(k, node, 1), &a),
                        kit_const_number(k, kit_in(k, node, 2), &b)};
  if (!known_dims(k, out->value, &t)) return NULL;
  if (known[0] != known[1])
    return of_hiding(k, node, known[0] ? 1 : 2, known[0] ? a.d : b.d, guarded, out);
  if (!known[0]) return NULL;
  const bool denies = b.d == 0;
  const double number = denies ? a.d : b.d;
  if ((!denies && a.d != 0) || !known_dims(k, c, &of)) return NULL;
  if (all_are(k, c, !denies)) {
    out->kind = ATTENTION_NO_MASK;
    return NULL;
  }
  if (isnan(number)) return "masked_rows";
  if (number > hiding(t.dtype)) return NULL;
  if (of.rank != t.rank) return "mask_shape";
  if (is_causal(k, c, denies)) {
    out->kind = ATTENTION_CAUSAL;
  } else if (!isinf(number) && t.dtype == DTYPE_FLOAT) {
    out->kind = ATTENTION_LOWEST;
    out->slot = denies ? 1 : 2;
  } else if (!guarded || !isinf(number)) {
    return "masked_rows";
  } else {
    out->kind = denies ? ATTENTION_DENIED : ATTENTION_ALLOWED;
    out->value = c;
  }
  return NULL;
}

static const char *look(struct kit *k, bool guarded, struct attention_mask *out) {
  const uint32_t value = below_leading(k, out->value), node = kit_maker(k, value);
  const enum dtype dtype = kit_dtype(k, out->value);
  const double least = dtype == DTYPE_FLOAT ? (double)-FLT_MAX : -65504;
  struct kit_number x;
  uint32_t tensor;
  if (kit_constant(k, out->value, &tensor)) return of_constant(k, out, guarded);
  if (all_are(k, out->value, 0) ||
      (kit_maker_op(k, value) == OP_Trilu && all_are(k, kit_in(k, node, 0), 0))) {
    out->kind = ATTENTION_NO_MASK;
    return NULL;
  }
  if (is_triangle(k, value, true, least) || is_triangle(k, value, true, -INFINITY)) {
    out->kind = ATTENTION_CAUSAL;
    return NULL;
  }
  if (kit_maker_op(k, value) == OP_Where) {
    struct attention_mask of = *out;
    of.value = value;
    const char *why = of_where(k, node, guarded, &of);
    if (why) return why;
    if (of.kind == ATTENTION_CAUSAL || of.kind == ATTENTION_NO_MASK)
      out->kind = of.kind;
    else if (value == out->value)
      *out = of;
    else if (of.kind != ATTENTION_AS_IS)
      return "masked_rows";
    return NULL;
  }
  for (uint32_t i = 0; i < 2 && kit_maker_op(k, value) == OP_Mul; i++)
    if (kit_const_number(k, kit_in(k, node, i), &x) && x.d <= hiding(dtype)) {
      if (isinf(x.d) || dtype != DTYPE_FLOAT || value != out->value ||
          !same_rank(k, kit_in(k, node, 1 - i), value))
        return "masked_rows";
      out->kind = ATTENTION_LOWEST;
      out->slot = i;
    }
  return NULL;
}

const char *attention_mask_find(struct kit *k, uint32_t value, const struct attention_scores *s,
                                struct attention_mask *out) {
  const uint32_t rank = s->type.rank;
  struct infer_type t;
  *out = (struct attention_mask){.kind = ATTENTION_AS_IS, .value = value};
  if (!known_dims(k, value, &t)) return "dims";
  out->rows = t.rank == 1;
  if (t.dtype != s->type.dtype) return "float_type";
  // Of scores of rank 3 the first dim is Attention's batch, which a mask of rank 3 has no place for.
  if (t.rank == 0 || t.rank > rank || (rank == 3 && t.rank == 3 && !known_one(k, t.dims[0])))
    return "mask_shape";
  for (uint32_t i = 1; i <= t.rank; i++) {
    const dim_id mine = t.dims[t.rank - i], its = s->type.dims[rank - i];
    if (!known_one(k, mine) && !known_same(k, mine, its)) return "mask_shape";
    if (i == 1 && !known_same(k, mine, its)) out->columns = true;
    if (i == 2 && !known_same(k, mine, its)) out->rows = true;
  }
  const char *why = look(k, s->guarded, out);
  // Of rows and columns that differ in number versions of ONNX Runtime think differently; one row that is broadcast is
  // the same for all. No row is empty.
  if (!why && out->kind == ATTENTION_CAUSAL &&
      (out->rows || out->columns || !known_same(k, s->type.dims[rank - 2], s->type.dims[rank - 1])))
    out->kind = ATTENTION_AS_IS;
  return why;
}

// ---- what Attention is given -------------------------------------------------------------------

// The length of an axis, counted from the end, as an element of a target: a number, or the value [1] in *open.
static int64_t length_of(struct kit *k, uint32_t value, uint32_t back, uint32_t *open) {
  struct infer_type t;
  int64_t n;
  *open = NO_ID;
  known_dims(k, value, &t);
  if (known_size(k, t.dims[t.rank - back], &n)) return n;
  uint32_t axis = t.rank - back;
  known_source(k, &value, &axis);
  *open = kit_make(k, OP_Shape, KIT_IN(value), KIT_INT("start", axis), KIT_INT("end", axis + 1));
  return -1;
}

// The mask for all rows and columns, along which it is broadcast.
static uint32_t widened(struct kit *k, const struct attention_mask *m, uint32_t mask, uint32_t q,
                        uint32_t v) {
  uint32_t open[2] = {NO_ID, NO_ID};
  int64_t list[2] = {1, 1};
  if (m->rows) list[0] = length_of(k, q, 2, &open[0]);
  if (m->columns) list[1] = length_of(k, v, 2, &open[1]);
  if (open[0] == NO_ID && open[1] == NO_ID)
    return kit_make(k, OP_Expand, KIT_IN(mask, kit_new_ints(k, "shape", list, 2)));
  for (uint32_t i = 0; i < 2; i++)
    if (open[i] == NO_ID) open[i] = kit_new_ints(k, "length", &list[i], 1);
  const uint32_t target = kit_make(k, OP_Concat, KIT_INPUTS(open, 2), KIT_INT("axis", 0));
  return kit_make(k, OP_Expand, KIT_IN(mask, target));
}

uint32_t attention_mask_make(struct kit *k, const struct attention_mask *mask, uint32_t q,
                             uint32_t v) {
  uint32_t value = mask->value;
  if (mask->kind == ATTENTION_NO_MASK || mask->kind == ATTENTION_CAUSAL) return NO_ID;
  if (mask->kind == ATTENTION_DENIED) value = kit_make(k, OP_Not, KIT_IN(value));
  if (mask->kind == ATTENTION_LOWEST) {
    const uint32_t node = kit_maker(k, value), n = kit_n_in(k, node);
    const enum op op = kit_op(k, node);
    uint32_t in[3];
    for (uint32_t i = 0; i < n; i++)
      in[i] = kit_in(k, node, i);
    in[mask->slot] = kit_new_scalar(k, "masked", DTYPE_FLOAT, (double)nextafterf(-FLT_MAX, 0));
    value = kit_make(k, op, KIT_INPUTS(in, n));
  }
  return mask->rows || mask->columns ? widened(k, mask, value, q, v) : value;
}
