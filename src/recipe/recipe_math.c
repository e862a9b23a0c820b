// The kinds that compute: casts, elementwise operations, reductions, gathers and dequantization.
//
//   cast to the same type                    → x
//   map(x + 0, x * 1, x / 1 …) of integers   → x        (floats: a NaN would change its payload)
//   map over operands with leading unit axes → reshape(map over operands without them)
//   map(reshape(x), scalars)                 → reshape(map(x, scalars))
//   map(transpose(x, p), transpose(y, p), vectors along one axis) → transpose(map(x, y, vectors turned), p)
//   gather by known indices a, a + s, a + 2s … → reshape(slice);  known indices are int64 and not negative
//   dequantize(transpose | reshape(codes))   → transpose | reshape(dequantize(codes)), where scales allow it
//
// What moves elements comes out above what computes, as in recipe_quantize.c and for the same reason:
// the operand is then read in the order of its storage, and a quantization of the result finds what
// moves elements where it looks for it.
//
// Nothing is computed here, not even where all operands are known.
#include "recipe/inside/recipe_rows.h"

#include <assert.h>

// ---- casts -------------------------------------------------------------------------------------

static bool is_number(enum dtype t) {
  return dtype_is_integer(t) || dtype_is_float(t);
}

static bool may_saturate(enum dtype t) {
  return t == DTYPE_FLOAT8E4M3FN || t == DTYPE_FLOAT8E4M3FNUZ || t == DTYPE_FLOAT8E5M2 ||
         t == DTYPE_FLOAT8E5M2FNUZ || t == DTYPE_FLOAT8E8M0;
}

static const char *const rounds[] = {
    [RECIPE_ROUND_UP] = "up", [RECIPE_ROUND_DOWN] = "down", [RECIPE_ROUND_NEAREST] = "nearest"};

const char *recipe_round_name(uint32_t i) {
  return i < sizeof rounds / sizeof *rounds ? rounds[i] : NULL;
}

bool recipe_can_cast(enum dtype from, enum dtype to) {
  return dtype_is_plain_float(from) && dtype_is_plain_float(to);
}

bool recipe_can_convert(enum dtype from, enum dtype to) {
  return is_number(from) && is_number(to);
}

int recipe_math_cast_fits(const struct recipes *r, const struct recipe_asked *x, struct err *err) {
  const struct recipe *of = &r->rows[x->of[0]];
  const enum dtype from = (enum dtype)of->dtype;
  struct recipe_asked to;
  if (!recipe_can_convert(from, x->dtype) || (x->numbers[0] && !recipe_can_cast(from, x->dtype)))
    return err_set(err, ERR_MODEL, "a recipe casts %s to %s, which is not supported",
                   dtype_name(from), dtype_name(x->dtype));
  recipe_rows_ask(&to, r, RECIPE_CAST, x->of);
  to.dtype = x->dtype;
  return recipe_rows_sized(&to, err);
}

uint32_t recipe_math_cast(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked x;
  recipe_rows_ask(&x, r, RECIPE_CAST, asked->of);
  if (x.dtype == asked->dtype) return asked->of[0];
  x.dtype = asked->dtype;
  x.numbers[0] = asked->numbers[0];
  x.numbers[1] = may_saturate(x.dtype) ? asked->numbers[1] : 1;
  x.numbers[2] = x.dtype == DTYPE_FLOAT8E8M0 ? asked->numbers[2] : RECIPE_ROUND_UP;
  return recipe_rows_put(r, &x);
}

uint32_t recipe_convert(struct recipes *r, uint32_t of, const struct recipe_conversion *c) {
  struct recipe_asked x;
  recipe_rows_ask(&x, r, RECIPE_CAST, &of);
  x.dtype = c->to;
  x.numbers[0] = c->clips;
  x.numbers[1] = c->saturates;
  x.numbers[2] = c->round;
  return recipe_rows_make(r, &x);
}

uint32_t recipe_cast(struct recipes *r, uint32_t of, enum dtype to) {
  return recipe_convert(r, of, &(struct recipe_conversion){.to = to, .saturates = true});
}

uint32_t recipe_cast_clipped(struct recipes *r, uint32_t of, enum dtype to) {
  return recipe_convert(r, of,
                        &(struct recipe_conversion){.to = to, .clips = true, .saturates = true});
}

struct recipe_conversion recipe_conversion_of(const struct recipes *r, uint32_t id) {
  assert(r->rows[id].kind == RECIPE_CAST);
  return (struct recipe_conversion){.to = (enum dtype)r->rows[id].dtype,
                                    .clips = recipe_rows_number(r, id, 0) != 0,
                                    .saturates = recipe_rows_number(r, id, 1) != 0,
                                    .round = (enum recipe_round)recipe_rows_number(r, id, 2)};
}

bool recipe_cast_clips(const struct recipes *r, uint32_t id) {
  return recipe_conversion_of(r, id).clips;
}

// ---- elementwise operations --------------------------------------------------------------------

enum { // sets of element types
  UNSIGNED = 1,
  SIGNED = 2,
  SHORT_FLOATS = 4,
  DOUBLE = 8,
  BOOL = 16,
  OTHER = 32,
  INTEGERS = UNSIGNED | SIGNED,
  FLOATS = SHORT_FLOATS | DOUBLE,
  NUMBERS = INTEGERS | FLOATS,
  ANY = NUMBERS | BOOL | OTHER
};

static uint32_t set_of(enum dtype t) {
  if (t == DTYPE_BOOL) return BOOL;
  if (t == DTYPE_DOUBLE) return DOUBLE;
  if (dtype_is_plain_float(t)) return SHORT_FLOATS;
  if (t == DTYPE_INT8 || t == DTYPE_INT16 || t == DTYPE_INT32 || t == DTYPE_INT64) return SIGNED;
  if (dtype_bits(t) == 0 || dtype_bits(t) > 64) return 0;
  return dtype_is_integer(t) && dtype_bits(t) >= 8 ? UNSIGNED : OTHER;
}

static const struct map_row {
  const char *name;
  uint32_t operands;
  uint32_t takes;
  bool makes_bools;
} map_rows[] = {
#define MAP_OP(id, ...) [RECIPE_MAP_##id] = {__VA_ARGS__},
#include "recipe/map_ops.def"
};

const char *recipe_map_name(uint32_t i) {
  return i < RECIPE_MAP_OPS ? map_rows[i].name : NULL;
}

uint32_t recipe_map_operands(enum recipe_map_op op) {
  assert(op < RECIPE_MAP_OPS);
  return map_rows[op].operands;
}

enum dtype recipe_map_result(enum recipe_map_op op, enum dtype type) {
  const struct map_row *row = &map_rows[op];
  if (!(set_of(type) & row->takes)) return DTYPE_UNDEFINED;
  return row->makes_bools ? DTYPE_BOOL : type;
}

// Joins the operand's dims to those of the result so far, as NumPy broadcasts.
static bool broadcast(const struct recipes *r, uint32_t of, struct recipe_asked *to) {
  const int64_t *dims = recipe_dims(r, of);
  const uint32_t rank = r->rows[of].rank;
  if (rank > to->rank) {
    const uint32_t more = rank - to->rank;
    memmove(to->dims + more, to->dims, to->rank * sizeof *dims);
    for (uint32_t i = 0; i < more; i++)
      to->dims[i] = 1;
    to->rank = rank;
  }
  int64_t *at = to->dims + (to->rank - rank);
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] == at[i] || dims[i] == 1) continue;
    if (at[i] != 1) return false;
    at[i] = dims[i];
  }
  return true;
}

// The type and dims of the result.
static int map_type(const struct recipes *r, const struct recipe_asked *x, struct recipe_asked *to,
                    struct err *err) {
  const enum recipe_map_op op = (enum recipe_map_op)x->numbers[0];
  if (x->n_of != recipe_map_operands(op))
    return err_set(err, ERR_MODEL, "a recipe has %u operands to %s", x->n_of, recipe_map_name(op));
  const enum dtype type = (enum dtype)r->rows[x->of[x->n_of - 1]].dtype;
  to->kind = RECIPE_MAP;
  to->of = x->of;
  to->n_of = x->n_of;
  to->numbers[0] = op;
  to->dtype = recipe_map_result(op, type);
  to->rank = 0;
  for (uint32_t i = 0; i < x->n_of; i++) {
    const enum dtype want = op == RECIPE_MAP_WHERE && i == 0 ? DTYPE_BOOL : type;
    if (r->rows[x->of[i]].dtype != (uint8_t)want || to->dtype == DTYPE_UNDEFINED)
      return err_set(err, ERR_MODEL, "a recipe cannot %s elements of %s", recipe_map_name(op),
                     dtype_name((enum dtype)r->rows[x->of[i]].dtype));
    if (!broadcast(r, x->of[i], to))
      return err_set(err, ERR_MODEL, "a recipe's operands to %s do not match: %s and %s",
                     recipe_map_name(op), quote_dims(to->dims, to->rank).s,
                     quote_dims(recipe_dims(r, x->of[i]), r->rows[x->of[i]].rank).s);
  }
  return recipe_rows_sized(to, err);
}

int recipe_math_map_fits(const struct recipes *r, const struct recipe_asked *x, struct err *err) {
  struct recipe_asked to;
  return map_type(r, x, &to, err);
}

// The element that leaves the other operand as it is; integers have no other zeros and no NaN.
static bool neutral(enum recipe_map_op op, uint32_t side, int64_t *element) {
  switch (op) {
  case RECIPE_MAP_ADD:
  case RECIPE_MAP_OR:
  case RECIPE_MAP_XOR: *element = 0; return true;
  case RECIPE_MAP_SUB: *element = 0; return side == 1;
  case RECIPE_MAP_MUL: *element = 1; return true;
  case RECIPE_MAP_DIV: *element = 1; return side == 1;
  case RECIPE_MAP_AND: *element = -1; return true;
  default: return false;
  }
}

// Are all elements of the integer leaf this one?
static bool is_all(const struct recipes *r, uint32_t id, int64_t element) {
  const struct span s = recipe_elements(r, id);
  const size_t n = dtype_bits((enum dtype)r->rows[id].dtype) / 8;
  if (r->rows[id].n_args || s.n != n || n > sizeof element) return false;
  return memcmp(s.at, &element, n) == 0; // both little-endian
}

// An operand that all others leave as it is: the result, if it has its dims. Else NO_ID.
static uint32_t unchanged(const struct recipes *r, const struct recipe_asked *x) {
  const enum recipe_map_op op = (enum recipe_map_op)x->numbers[0];
  int64_t element;
  if (!(set_of(x->dtype) & INTEGERS)) return NO_ID;
  for (uint32_t side = 0; side < 2 && x->n_of == 2; side++) {
    const uint32_t other = x->of[1 - side];
    if (neutral(op, side, &element) && is_all(r, x->of[side], element) &&
        recipe_has_dims(r, other, x->dims, x->rank))
      return other;
  }
  return NO_ID;
}

enum { OPERANDS = 3 };

static uint32_t without_unit_axes(struct recipes *r, uint32_t id) {
  int64_t dims[RECIPE_MAX_RANK];
  const uint32_t rank = r->rows[id].rank;
  uint32_t lead = 0;
  if (rank) memcpy(dims, recipe_dims(r, id), rank * sizeof *dims);
  while (lead < rank && dims[lead] == 1)
    lead++;
  return recipe_reshape(r, id, dims + lead, rank - lead);
}

// A reshape of one operand, where all others are scalars: the operand below it, in its place.
static bool take_reshape(const struct recipes *r, const struct recipe_asked *x,
                         uint32_t of[OPERANDS]) {
  uint32_t found = NO_ID;
  for (uint32_t i = 0; i < x->n_of; i++) {
    if (r->rows[of[i]].rank == 0) continue;
    if (found != NO_ID || r->rows[of[i]].kind != RECIPE_RESHAPE) return false;
    found = i;
  }
  if (found == NO_ID) return false;
  of[found] = r->args[r->rows[of[found]].args];
  return true;
}

// A vector along one axis, or a scalar: its dims where the result's axes are back as they were
// before perm. False for all else.
static bool turn_back(const struct recipes *r, uint32_t id, const int64_t *perm, uint32_t rank,
                      int64_t *turned) {
  const uint32_t own = r->rows[id].rank;
  uint32_t longer = 0;
  for (uint32_t i = 0; i < rank; i++) {
    const int64_t d = i < rank - own ? 1 : recipe_dims(r, id)[i - (rank - own)];
    longer += d != 1;
    turned[perm[i]] = d;
  }
  return longer <= 1;
}

// A transpose of an operand that is as large as the result, where the others are transposed alike or
// can be: the operands below it, and the perm. False, and nothing changed, if there is none.
static bool take_transpose(struct recipes *r, const struct recipe_asked *x, uint32_t of[OPERANDS],
                           int64_t *perm) {
  int64_t turned[OPERANDS][RECIPE_MAX_RANK];
  bool below[OPERANDS] = {false};
  uint32_t lead = NO_ID;
  for (uint32_t i = 0; i < x->n_of && lead == NO_ID; i++)
    if (r->rows[of[i]].kind == RECIPE_TRANSPOSE && recipe_has_dims(r, of[i], x->dims, x->rank))
      lead = i;
  if (lead == NO_ID) return false;
  memcpy(perm, recipe_rows_axes(r, of[lead], 0), x->rank * sizeof *perm);
  for (uint32_t i = 0; i < x->n_of; i++) {
    below[i] = r->rows[of[i]].kind == RECIPE_TRANSPOSE &&
               recipe_has_dims(r, of[i], x->dims, x->rank) &&
               memcmp(recipe_rows_axes(r, of[i], 0), perm, x->rank * sizeof *perm) == 0;
    if (!below[i] && !turn_back(r, of[i], perm, x->rank, turned[i])) return false;
  }
  for (uint32_t i = 0; i < x->n_of; i++)
    of[i] = below[i] ? r->args[r->rows[of[i]].args] : recipe_reshape(r, of[i], turned[i], x->rank);
  return true;
}

uint32_t recipe_math_map(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked whole, x;
  struct err err;
  uint32_t of[OPERANDS];
  int64_t perm[RECIPE_MAX_RANK];
  const enum recipe_map_op op = (enum recipe_map_op)asked->numbers[0];
  err.kind = ERR_NONE;
  map_type(r, asked, &whole, &err);
  const uint32_t same = unchanged(r, &whole);
  if (same != NO_ID) return same;
  for (uint32_t i = 0; i < asked->n_of; i++)
    of[i] = without_unit_axes(r, asked->of[i]);
  x.of = of;
  x.n_of = asked->n_of;
  x.numbers[0] = op;
  map_type(r, &x, &x, &err);
  uint32_t id;
  // What it finds may have unit axes again, if it is no leaf: those stay.
  if (take_reshape(r, &x, of)) map_type(r, &x, &x, &err);
  if (take_transpose(r, &x, of, perm))
    id = recipe_transpose(r, recipe_map(r, op, of), perm);
  else
    id = recipe_rows_put(r, &x);
  return recipe_reshape(r, id, whole.dims, whole.rank);
}

static void ask_map(struct recipe_asked *x, enum recipe_map_op op, const uint32_t *of) {
  x->kind = RECIPE_MAP;
  x->of = of;
  x->n_of = recipe_map_operands(op);
  x->numbers[0] = op;
}

uint32_t recipe_map(struct recipes *r, enum recipe_map_op op, const uint32_t *of) {
  struct recipe_asked x;
  ask_map(&x, op, of);
  return recipe_rows_make(r, &x);
}

uint32_t recipe_map_two(struct recipes *r, enum recipe_map_op op, uint32_t a, uint32_t b) {
  const uint32_t of[2] = {a, b};
  return recipe_map(r, op, of);
}

bool recipe_can_map(const struct recipes *r, enum recipe_map_op op, const uint32_t *of) {
  struct recipe_asked x;
  ask_map(&x, op, of);
  return recipe_rows_fit(r, &x);
}

enum recipe_map_op recipe_map_op_of(const struct recipes *r, uint32_t id) {
  assert(r->rows[id].kind == RECIPE_MAP);
  return (enum recipe_map_op)recipe_rows_number(r, id, 0);
}

// ---- reductions --------------------------------------------------------------------------------

static const char *const reductions[] = {[RECIPE_SUM] = "sum",
                                         [RECIPE_PROD] = "prod",
                                         [RECIPE_MIN] = "min",
                                         [RECIPE_MAX] = "max",
                                         [RECIPE_SUM_SQUARE] = "sum_square"};
enum { REDUCTIONS = sizeof reductions / sizeof *reductions };

const char *recipe_reduce_name(uint32_t i) {
  return i < REDUCTIONS ? reductions[i] : NULL;
}

int recipe_math_reduce_fits(const struct recipes *r, const struct recipe_asked *x,
                            struct err *err) {
  const struct recipe *of = &r->rows[x->of[0]];
  const uint64_t axes = (uint64_t)x->numbers[1];
  if (!(set_of((enum dtype)of->dtype) & NUMBERS))
    return err_set(err, ERR_MODEL, "a recipe cannot reduce elements of %s",
                   dtype_name((enum dtype)of->dtype));
  if (axes == 0 || (of->rank < RECIPE_MAX_RANK && axes >> of->rank != 0))
    return recipe_rows_bad(err, "reduces no axes, or some that its operand does not have");
  if (of->count == 0) return recipe_rows_bad(err, "reduces an operand without elements");
  return 0;
}

uint32_t recipe_math_reduce(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked x;
  recipe_rows_ask(&x, r, RECIPE_REDUCE, asked->of);
  uint32_t rank = 0;
  for (uint32_t i = 0; i < x.rank; i++)
    if (!((uint64_t)asked->numbers[1] >> i & 1)) x.dims[rank++] = x.dims[i];
  x.rank = rank;
  x.numbers[0] = asked->numbers[0];
  x.numbers[1] = asked->numbers[1];
  return recipe_rows_put(r, &x);
}

static void ask_reduce(struct recipe_asked *x, const struct recipes *r, const uint32_t *of,
                       const struct recipe_reduction *q) {
  recipe_rows_ask(x, r, RECIPE_REDUCE, of);
  x->numbers[0] = q->op;
  x->numbers[1] = (int64_t)q->axes;
}

uint32_t recipe_reduce(struct recipes *r, uint32_t of, const struct recipe_reduction *q) {
  struct recipe_asked x;
  ask_reduce(&x, r, &of, q);
  return recipe_rows_make(r, &x);
}

bool recipe_can_reduce(const struct recipes *r, uint32_t of, const struct recipe_reduction *q) {
  struct recipe_asked x;
  ask_reduce(&x, r, &of, q);
  return recipe_rows_fit(r, &x);
}

struct recipe_reduction recipe_reduction_of(const struct recipes *r, uint32_t id) {
  assert(r->rows[id].kind == RECIPE_REDUCE);
  return (struct recipe_reduction){.op = (enum recipe_reduce_op)recipe_rows_number(r, id, 0),
                                   .axes = (uint64_t)recipe_rows_number(r, id, 1)};
}

// ---- gather ------------------------------------------------------------------------------------

// Index i of a list that is known (bytes, fill), counted from 0 along an axis of n.
static int64_t index_at(const struct recipes *r, uint32_t id, uint64_t i, int64_t n) {
  const struct span s = recipe_elements(r, id);
  const size_t width = r->rows[id].dtype == DTYPE_INT32 ? 4 : 8;
  const uint8_t *at = s.at + (r->rows[id].kind == RECIPE_FILL ? 0 : i * width);
  int32_t narrow;
  int64_t index;
  memcpy(&narrow, at, 4);
  index = narrow;
  if (width == 8) memcpy(&index, at, 8);
  return index < 0 ? index + n : index;
}

static bool is_known(const struct recipes *r, uint32_t id) {
  return r->rows[id].kind == RECIPE_BYTES || r->rows[id].kind == RECIPE_FILL;
}

static int gather_type(const struct recipes *r, const struct recipe_asked *x,
                       struct recipe_asked *to, struct err *err) {
  if (x->n_of != 2) return recipe_rows_bad(err, "does not gather from one operand by another");
  const struct recipe *of = &r->rows[x->of[0]], *by = &r->rows[x->of[1]];
  const int64_t axis = x->numbers[0];
  if ((by->dtype != DTYPE_INT32 && by->dtype != DTYPE_INT64) || by->bytes > RECIPE_INDEX_BYTES)
    return err_set(err, ERR_MODEL, "a recipe gathers by %s bytes of %s: at most %d of integers",
                   decimal(by->bytes).s, dtype_name((enum dtype)by->dtype), RECIPE_INDEX_BYTES);
  if (axis < 0 || axis >= of->rank || of->rank - 1 + by->rank > RECIPE_MAX_RANK)
    return recipe_rows_bad(err, "gathers along an axis that its operand does not have");
  recipe_rows_ask(to, r, RECIPE_GATHER, x->of);
  const uint32_t behind = of->rank - (uint32_t)axis - 1;
  const int64_t n = to->dims[axis];
  for (uint64_t i = 0; is_known(r, x->of[1]) && i < by->count; i++) {
    const int64_t index = index_at(r, x->of[1], i, n);
    if (index < 0 || index >= n)
      return recipe_rows_bad(err, "gathers by an index that its axis does not have");
  }
  memcpy(to->dims + axis + by->rank, recipe_dims(r, x->of[0]) + axis + 1,
         behind * sizeof *to->dims);
  if (by->rank) memcpy(to->dims + axis, recipe_dims(r, x->of[1]), by->rank * sizeof *to->dims);
  to->rank = (uint32_t)axis + by->rank + behind;
  to->n_of = 2;
  to->numbers[0] = axis;
  return recipe_rows_sized(to, err);
}

int recipe_math_gather_fits(const struct recipes *r, const struct recipe_asked *x,
                            struct err *err) {
  struct recipe_asked to;
  return gather_type(r, x, &to, err);
}

// Known indices that are evenly spaced: a slice.
static uint32_t as_slice(struct recipes *r, const struct recipe_asked *x,
                         const struct recipe_asked *to) {
  int64_t starts[RECIPE_MAX_RANK] = {0}, steps[RECIPE_MAX_RANK], dims[RECIPE_MAX_RANK];
  const uint32_t axis = (uint32_t)x->numbers[0], rank = r->rows[x->of[0]].rank;
  const uint64_t count = r->rows[x->of[1]].count;
  if (count == 0) return NO_ID;
  memcpy(dims, recipe_dims(r, x->of[0]), rank * sizeof *dims);
  for (uint32_t i = 0; i < rank; i++)
    steps[i] = 1;
  const int64_t n = dims[axis];
  starts[axis] = index_at(r, x->of[1], 0, n);
  if (count > 1) steps[axis] = index_at(r, x->of[1], 1, n) - starts[axis];
  for (uint64_t i = 2; i < count; i++)
    if (index_at(r, x->of[1], i, n) - index_at(r, x->of[1], i - 1, n) != steps[axis]) return NO_ID;
  if (steps[axis] == 0) return NO_ID;
  dims[axis] = (int64_t)count;
  return recipe_reshape(r, recipe_slice(r, x->of[0], starts, steps, dims), to->dims, to->rank);
}

uint32_t recipe_math_gather(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked x;
  struct err err;
  uint32_t of[2] = {asked->of[0], asked->of[1]};
  gather_type(r, asked, &x, &err);
  if (is_known(r, of[1])) {
    const uint32_t slice = as_slice(r, asked, &x);
    if (slice != NO_ID) return slice;
    struct arena scratch = {0};
    const struct recipe by = r->rows[of[1]];
    int64_t dims[RECIPE_MAX_RANK], *list = arena_alloc(&scratch, by.count * sizeof *list + 1);
    const int64_t n = recipe_dims(r, of[0])[asked->numbers[0]];
    for (uint64_t i = 0; i < by.count; i++)
      list[i] = index_at(r, of[1], i, n);
    if (by.rank) memcpy(dims, recipe_dims(r, of[1]), by.rank * sizeof *dims);
    of[1] = recipe_bytes(r, DTYPE_INT64, dims, by.rank, span_of(list, by.count * sizeof *list));
    arena_free(&scratch);
  }
  x.of = of;
  return recipe_rows_put(r, &x);
}

uint32_t recipe_gather(struct recipes *r, uint32_t of, uint32_t indices, uint32_t axis) {
  const uint32_t list[2] = {of, indices};
  struct recipe_asked x = {.kind = RECIPE_GATHER, .of = list, .n_of = 2, .numbers = {axis}};
  return recipe_rows_make(r, &x);
}

bool recipe_can_gather(const struct recipes *r, uint32_t of, uint32_t indices, uint32_t axis) {
  const uint32_t list[2] = {of, indices};
  const struct recipe_asked x = {.kind = RECIPE_GATHER, .of = list, .n_of = 2, .numbers = {axis}};
  return recipe_rows_fit(r, &x);
}

uint32_t recipe_axis_of(const struct recipes *r, uint32_t id) {
  assert(r->rows[id].kind == RECIPE_GATHER || r->rows[id].kind == RECIPE_CONCAT);
  return (uint32_t)recipe_rows_number(r, id, 0);
}

// ---- dequantization ----------------------------------------------------------------------------

static bool is_code(enum dtype t) {
  return dtype_bits(t) <= 32 && t != DTYPE_BOOL && t != DTYPE_UINT32 && t != DTYPE_FLOAT8E8M0 &&
         is_number(t) && !dtype_is_plain_float(t);
}

bool recipe_math_scales_fit(const struct recipes *r, uint32_t of, uint32_t scales_id, int64_t axis,
                            int64_t block) {
  const struct recipe *codes = &r->rows[of], *scales = &r->rows[scales_id];
  const int64_t *dims = recipe_dims(r, of), *own = recipe_dims(r, scales_id);
  if (axis == RECIPE_PER_TENSOR) return scales->count == 1 && block == 0;
  if (axis < 0 || axis >= codes->rank || block < 0) return false;
  if (block == 0) return scales->rank == 1 && own[0] == dims[axis];
  bool fit = scales->rank == codes->rank;
  for (uint32_t i = 0; fit && i < codes->rank; i++)
    fit = own[i] == (i != axis ? dims[i] : dims[i] / block + (dims[i] % block != 0));
  return fit;
}

int recipe_math_dequantize_fits(const struct recipes *r, const struct recipe_asked *x,
                                struct err *err) {
  if (x->n_of != 2 && x->n_of != 3)
    return recipe_rows_bad(err, "is dequantized from operands that are not codes, scales and "
                                "optional zero points");
  const struct recipe *codes = &r->rows[x->of[0]], *scales = &r->rows[x->of[1]];
  const enum dtype to = (enum dtype)scales->dtype;
  if (!is_code((enum dtype)codes->dtype) || !dtype_is_plain_float(to) || to == DTYPE_DOUBLE)
    return err_set(err, ERR_MODEL, "a recipe dequantizes %s by %s, which is not supported",
                   dtype_name((enum dtype)codes->dtype), dtype_name(to));
  if (!recipe_math_scales_fit(r, x->of[0], x->of[1], x->numbers[0], x->numbers[1]))
    return recipe_rows_bad(err, "is dequantized by scales that do not match its codes");
  struct recipe_asked own;
  recipe_rows_ask(&own, r, RECIPE_DEQUANTIZE, x->of);
  own.dtype = to;
  if (recipe_rows_sized(&own, err)) return -1;
  if (x->n_of == 2) return 0;
  const struct recipe *zeros = &r->rows[x->of[2]];
  recipe_rows_ask(&own, r, RECIPE_RESHAPE, &x->of[1]);
  if (zeros->dtype == codes->dtype && dtype_is_integer((enum dtype)zeros->dtype) &&
      zeros->dtype != DTYPE_INT32 && recipe_has_dims(r, x->of[2], own.dims, own.rank))
    return 0;
  return recipe_rows_bad(err, "is dequantized by zero points that do not match its codes and "
                              "scales");
}

uint32_t recipe_math_dequantize(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked x;
  uint32_t of[3] = {NO_ID, NO_ID, NO_ID};
  const struct recipe codes = r->rows[asked->of[0]];
  struct recipe_dequantization q = {.axis = (uint32_t)asked->numbers[0],
                                    .block = (uint64_t)asked->numbers[1]};
  const bool by_tensor = q.axis == RECIPE_PER_TENSOR;
  memcpy(of, asked->of, asked->n_of * sizeof *of);
  for (uint32_t i = 1; by_tensor && i < asked->n_of; i++)
    of[i] = recipe_reshape(r, of[i], NULL, 0);
  if (q.block > 0) q.block = min_u64(q.block, max_u64((uint64_t)recipe_dims(r, of[0])[q.axis], 1));
  q.scales = of[1];
  q.zeros = of[2];
  recipe_rows_ask(&x, r, RECIPE_DEQUANTIZE, of);
  if (codes.kind == RECIPE_RESHAPE && by_tensor)
    return recipe_reshape(r, recipe_dequantize(r, r->args[codes.args], &q), x.dims, x.rank);
  if (codes.kind == RECIPE_TRANSPOSE && q.block == 0) {
    const int64_t *perm = recipe_rows_axes(r, of[0], 0);
    memcpy(x.numbers, perm, x.rank * sizeof *perm);
    if (!by_tensor) q.axis = (uint32_t)perm[q.axis];
    return recipe_transpose(r, recipe_dequantize(r, r->args[codes.args], &q), x.numbers);
  }
  x.dtype = (enum dtype)r->rows[of[1]].dtype;
  x.n_of = asked->n_of;
  x.numbers[0] = q.axis;
  x.numbers[1] = (int64_t)q.block;
  return recipe_rows_put(r, &x);
}

static void ask_dequantize(struct recipe_asked *x, const uint32_t of[3],
                           const struct recipe_dequantization *q) {
  x->kind = RECIPE_DEQUANTIZE;
  x->of = of;
  x->n_of = of[2] == NO_ID ? 2 : 3;
  x->numbers[0] = q->axis;
  x->numbers[1] = q->block <= INT64_MAX ? (int64_t)q->block : INT64_MAX;
}

uint32_t recipe_dequantize(struct recipes *r, uint32_t codes,
                           const struct recipe_dequantization *q) {
  const uint32_t of[3] = {codes, q->scales, q->zeros};
  struct recipe_asked x;
  ask_dequantize(&x, of, q);
  return recipe_rows_make(r, &x);
}

bool recipe_can_dequantize(const struct recipes *r, uint32_t codes,
                           const struct recipe_dequantization *q) {
  const uint32_t of[3] = {codes, q->scales, q->zeros};
  struct recipe_asked x;
  ask_dequantize(&x, of, q);
  return recipe_rows_fit(r, &x);
}

struct recipe_dequantization recipe_dequantization_of(const struct recipes *r, uint32_t id) {
  const struct recipe *x = &r->rows[id];
  assert(x->kind == RECIPE_DEQUANTIZE);
  return (struct recipe_dequantization){.scales = r->args[x->args + 1],
                                        .zeros = x->n_args == 3 ? r->args[x->args + 2] : NO_ID,
                                        .axis = (uint32_t)recipe_rows_number(r, id, 0),
                                        .block = (uint64_t)recipe_rows_number(r, id, 1)};
}
