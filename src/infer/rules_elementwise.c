// Rules of inference for operators that work element by element: types, broadcast, and their arithmetic on small values.
//
// A number of a small value is an expression over a whole divisor (infer_number). In floats that is
// what shape arithmetic is computed in by exporters (a length divided by a stride, rounded down): it is
// exact as long as numbers stay below 2^24, which float32 holds. What may round is not known: an expression
// times a number of many digits (floor(n*0.7) is 7 of 10 dims, and not 6, because the product is rounded).
#include "infer/inside/infer_rules.h"

// ---- numbers -----------------------------------------------------------------------------------

enum { DEN_MOST = 1 << 24 };

struct infer_number infer_number_of(struct infer_site *s, int64_t n) {
  return (struct infer_number){dims_number(s->d, n), 1};
}

enum dims_answer infer_is(struct infer_site *s, struct infer_number x, int64_t n) {
  if (x.num == NO_ID) return DIMS_MAYBE;
  int64_t scaled;
  if (__builtin_mul_overflow(n, x.den, &scaled)) return DIMS_NO;
  return dims_equal(s->d, x.num, dims_number(s->d, scaled));
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    const int64_t r = a % b;
    a = b;
    b = r;
  }
  return a < 0 ? -a : a;
}

// x/den in lowest terms, as far as the number is one.
static struct infer_number over(struct infer_site *s, dim_id num, int64_t den) {
  int64_t n;
  if (num == NO_ID || den <= 0 || den > DEN_MOST) return infer_no_number();
  if (den == 1) return (struct infer_number){num, 1};
  if (dims_is_number(s->d, num, &n)) {
    const int64_t g = gcd(n, den);
    return (struct infer_number){dims_number(s->d, n / g), den / g};
  }
  // 2*n/2: a multiple is one for every value.
  const dim_id rest = dims_mod(s->d, num, dims_number(s->d, den));
  int64_t r;
  if (rest != NO_ID && dims_is_number(s->d, rest, &r) && r == 0)
    return over(s, dims_floor_div(s->d, num, dims_number(s->d, den)), 1);
  return (struct infer_number){num, den};
}

// Does a float hold what the divisor makes exactly? A third is rounded, and only what it is rounded down or
// up to afterwards is as if it were not.
static bool exact(struct infer_number x) {
  return (x.den & (x.den - 1)) == 0;
}

static bool is_number(struct infer_site *s, struct infer_number x, int64_t *n) {
  return x.num != NO_ID && dims_is_number(s->d, x.num, n);
}

// A number that leaves a float32 fewer than 14 bits for what it is multiplied by, or that divides more finely.
enum { FEW_DIGITS = 1 << 10 };
static bool has_many_digits(struct infer_site *s, struct infer_number x) {
  int64_t n;
  if (!is_number(s, x, &n)) return false;
  while (n != 0 && n % 2 == 0)
    n /= 2;
  return n > FEW_DIGITS || n < -FEW_DIGITS || x.den > FEW_DIGITS;
}

static dim_id times(struct infer_site *s, dim_id x, int64_t n) {
  return x == NO_ID ? NO_ID : dims_mul(s->d, x, dims_number(s->d, n));
}

static struct infer_number sum(struct infer_site *s, struct infer_number a, struct infer_number b,
                               bool minus) {
  int64_t den;
  if (!exact(a) || !exact(b) || __builtin_mul_overflow(a.den, b.den, &den))
    return infer_no_number();
  const dim_id x = times(s, a.num, b.den), y = times(s, b.num, a.den);
  if (x == NO_ID || y == NO_ID) return infer_no_number();
  return over(s, minus ? dims_sub(s->d, x, y) : dims_add(s->d, x, y), den);
}

static struct infer_number product(struct infer_site *s, struct infer_number a,
                                   struct infer_number b, bool floating) {
  int64_t den, n;
  // Of two expressions: integers.
  if (floating && !is_number(s, a, &n) != !is_number(s, b, &n) &&
      has_many_digits(s, is_number(s, a, &n) ? a : b))
    return infer_no_number();
  if (!exact(a) || !exact(b) || __builtin_mul_overflow(a.den, b.den, &den))
    return infer_no_number();
  return over(s, dims_mul(s->d, a.num, b.num), den);
}

// Whole numbers cut towards zero; floats divide, by numbers only.
static struct infer_number quotient(struct infer_site *s, struct infer_number a,
                                    struct infer_number b, bool floating) {
  int64_t n, den;
  if (!floating)
    return a.den == 1 && b.den == 1 ? over(s, dims_trunc_div(s->d, a.num, b.num), 1)
                                    : infer_no_number();
  if (!dims_is_number(s->d, b.num, &n) || n == 0 || n == INT64_MIN) {
    // By an expression: where it is known to divide.
    return infer_no_number();
  }
  int64_t dividend;
  if (b.den > FEW_DIGITS && !is_number(s, a, &dividend)) return infer_no_number();
  if (!exact(a) || !exact(b) || __builtin_mul_overflow(a.den, n < 0 ? -n : n, &den))
    return infer_no_number();
  return over(s, times(s, a.num, n < 0 ? -b.den : b.den), den);
}

static struct infer_number from_answer(struct infer_site *s, enum dims_answer a) {
  return a == DIMS_MAYBE ? infer_no_number() : infer_number_of(s, a == DIMS_YES);
}

// -1, 0, 1 of a number, where that is known.
static struct infer_number sign_of(struct infer_site *s, struct infer_number x) {
  if (dims_least(s->d, x.num) > 0) return infer_number_of(s, 1);
  if (dims_most(s->d, x.num) < 0) return infer_number_of(s, -1);
  return infer_is(s, x, 0) == DIMS_YES ? infer_number_of(s, 0) : infer_no_number();
}

static struct infer_number negative(struct infer_site *s, struct infer_number x) {
  return over(s, dims_neg(s->d, x.num), x.den);
}

static struct infer_number down(struct infer_site *s, struct infer_number x) {
  if (x.den == 1) return x;
  return over(s, dims_floor_div(s->d, x.num, dims_number(s->d, x.den)), 1);
}

// To the nearest, halves to even: known where the number is one.
static struct infer_number rounded(struct infer_site *s, struct infer_number x) {
  int64_t n;
  if (x.den == 1) return x;
  if (!dims_is_number(s->d, x.num, &n)) return infer_no_number();
  int64_t q = n / x.den - (n % x.den < 0);
  const int64_t r = n - q * x.den;
  if (2 * r > x.den || (2 * r == x.den && q % 2 != 0)) q++;
  return infer_number_of(s, q);
}

// 2^0 … x^n for small whole n.
static struct infer_number power(struct infer_site *s, struct infer_number a, struct infer_number b,
                                 bool floating) {
  int64_t n;
  if (b.den != 1 || !dims_is_number(s->d, b.num, &n) || n < 0 || n > 8) return infer_no_number();
  struct infer_number out = infer_number_of(s, 1);
  for (int64_t i = 0; i < n && out.num != NO_ID; i++)
    out = product(s, out, a, floating);
  return out;
}

static struct infer_number greater_of(struct infer_site *s, struct infer_number a,
                                      struct infer_number b, bool least) {
  if (a.den != b.den) {
    int64_t den;
    if (__builtin_mul_overflow(a.den, b.den, &den)) return infer_no_number();
    a.num = times(s, a.num, b.den);
    b.num = times(s, b.num, a.den);
    if (a.num == NO_ID || b.num == NO_ID) return infer_no_number();
    a.den = den;
  }
  return over(s, least ? dims_min(s->d, a.num, b.num) : dims_max(s->d, a.num, b.num), a.den);
}

// A third, rounded, is compared with whole numbers as if it were not rounded, but not with what another float is.
static bool comparable(struct infer_number a, struct infer_number b) {
  return (exact(a) && exact(b)) || a.den == 1 || b.den == 1;
}

// a >= b?
static enum dims_answer at_least(struct infer_site *s, struct infer_number a,
                                 struct infer_number b) {
  if (!comparable(a, b)) return DIMS_MAYBE;
  const dim_id x = times(s, a.num, b.den), y = times(s, b.num, a.den);
  return x == NO_ID || y == NO_ID ? DIMS_MAYBE : dims_at_least(s->d, x, y);
}

static enum dims_answer equal(struct infer_site *s, struct infer_number a, struct infer_number b) {
  if (!comparable(a, b)) return DIMS_MAYBE;
  const dim_id x = times(s, a.num, b.den), y = times(s, b.num, a.den);
  return x == NO_ID || y == NO_ID ? DIMS_MAYBE : dims_equal(s->d, x, y);
}

static enum dims_answer opposite(enum dims_answer a) {
  return a == DIMS_MAYBE ? a : a == DIMS_YES ? DIMS_NO : DIMS_YES;
}

static struct infer_number remainder_of(struct infer_site *s, struct infer_number a,
                                        struct infer_number b) {
  int64_t fmod;
  if (a.den != 1 || b.den != 1 || !infer_attr_int(s, "fmod", 0, &fmod)) return infer_no_number();
  if (!fmod) return over(s, dims_mod(s->d, a.num, b.num), 1);
  // The sign of the dividend: the same where both are positive.
  if (dims_least(s->d, a.num) < 0 || dims_least(s->d, b.num) < 1) return infer_no_number();
  return over(s, dims_mod(s->d, a.num, b.num), 1);
}

// What is computed on small values, by the operator's name.
enum arithmetic {
  NONE,
  ADD,
  SUB,
  MUL,
  DIV,
  MOD,
  POW,
  MAX,
  MIN,
  AND,
  OR,
  XOR,
  EQUAL,
  LESS,
  GREATER,
  LESS_EQUAL,
  GREATER_EQUAL,
  IDENTITY,
  NEG,
  FLOOR,
  CEIL,
  ROUND,
  SIGN,
  NOT,
  ABS,
  RELU
};

static enum arithmetic arithmetic_of(const struct infer_site *s) {
  static const struct {
    const char *name;
    enum arithmetic is;
  } rows[] = {{"Add", ADD},
              {"Sub", SUB},
              {"Mul", MUL},
              {"Div", DIV},
              {"Mod", MOD},
              {"Pow", POW},
              {"Max", MAX},
              {"Min", MIN},
              {"Sum", ADD},
              {"And", AND},
              {"Or", OR},
              {"Xor", XOR},
              {"Equal", EQUAL},
              {"Less", LESS},
              {"Greater", GREATER},
              {"LessOrEqual", LESS_EQUAL},
              {"GreaterOrEqual", GREATER_EQUAL},
              {"Identity", IDENTITY},
              {"Neg", NEG},
              {"Floor", FLOOR},
              {"Ceil", CEIL},
              {"Round", ROUND},
              {"Sign", SIGN},
              {"Not", NOT},
              {"Abs", ABS},
              {"Relu", RELU}};
  if (strcmp(s->op->domain, "onnx_passes.ops") == 0) return NONE; // has a Round of its own
  for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(s->op->name, rows[i].name) == 0) return rows[i].is;
  return NONE;
}

// What is known of a result although an operand is not.
static struct infer_number half_known(struct infer_site *s, enum arithmetic op,
                                      struct infer_number a, struct infer_number b) {
  const struct infer_number known = a.num == NO_ID ? b : a;
  if (known.num == NO_ID) return known;
  if (op == AND && infer_is(s, known, 0) == DIMS_YES) return known;
  if (op == OR && infer_is(s, known, 1) == DIMS_YES) return known;
  return infer_no_number();
}

// Is x a bound that is further away than any size, as it is written for "no bound" (infer_options.to_end), and `of` an
// expression?
static bool passes_end(struct infer_site *s, struct infer_number x, struct infer_number of,
                       bool above) {
  const int64_t end = infer_to_end(s);
  int64_t n;
  if (is_number(s, of, &n) || !is_number(s, x, &n)) return false;
  return above ? n > end || n == INT64_MAX : n < -end || n == INT64_MIN;
}

static struct infer_number compute(struct infer_site *s, enum arithmetic op, struct infer_number a,
                                   struct infer_number b, bool floating) {
  if (a.num == NO_ID || b.num == NO_ID) return half_known(s, op, a, b);
  if (op == ADD) return sum(s, a, b, false);
  if (op == SUB) return sum(s, a, b, true);
  if (op == MUL) return product(s, a, b, floating);
  if (op == DIV) return quotient(s, a, b, floating);
  if (op == MOD) return remainder_of(s, a, b);
  if (op == POW) return power(s, a, b, floating);
  if (op == MIN && passes_end(s, b, a, true)) return a;
  if (op == MIN && passes_end(s, a, b, true)) return b;
  if (op == MAX && passes_end(s, b, a, false)) return a;
  if (op == MAX && passes_end(s, a, b, false)) return b;
  if (op == MAX || op == OR) return greater_of(s, a, b, false);
  if (op == MIN || op == AND) return greater_of(s, a, b, true);
  if (op == XOR) return from_answer(s, opposite(equal(s, a, b)));
  if (op == EQUAL) return from_answer(s, equal(s, a, b));
  if (op == LESS) return from_answer(s, opposite(at_least(s, a, b)));
  if (op == GREATER) return from_answer(s, opposite(at_least(s, b, a)));
  if (op == LESS_EQUAL) return from_answer(s, at_least(s, b, a));
  if (op == GREATER_EQUAL) return from_answer(s, at_least(s, a, b));
  return infer_no_number();
}

// What 64 bits cannot hold wraps there, and is no number here: then it is not known.
static struct infer_number binary(struct infer_site *s, enum arithmetic op, struct infer_number a,
                                  struct infer_number b, bool floating) {
  int64_t n;
  const struct infer_number x = compute(s, op, a, b, floating);
  const bool wraps = is_number(s, a, &n) && is_number(s, b, &n) && !is_number(s, x, &n);
  return wraps ? infer_no_number() : x;
}

static struct infer_number unary(struct infer_site *s, enum arithmetic op, struct infer_number x) {
  int64_t n;
  if (x.num == NO_ID || (is_number(s, x, &n) && n == INT64_MIN)) return infer_no_number();
  if (op == IDENTITY) return x;
  if (op == NEG) return negative(s, x);
  if (op == FLOOR) return down(s, x);
  if (op == CEIL) return negative(s, down(s, negative(s, x)));
  if (op == ROUND) return rounded(s, x);
  if (op == SIGN) return sign_of(s, x);
  if (op == NOT) return from_answer(s, infer_is(s, x, 0));
  if (op == ABS) return greater_of(s, x, negative(s, x), false);
  if (op == RELU) return greater_of(s, x, infer_number_of(s, 0), false);
  return infer_no_number();
}

// A number that the type cannot hold, or that a float may have rounded, is not known.
static struct infer_number fit(struct infer_site *s, struct infer_number x, enum dtype dtype) {
  int64_t least = INT64_MIN, most = INT64_MAX;
  if (x.num == NO_ID) return x;
  switch (dtype) {
  case DTYPE_INT64: return x.den == 1 ? x : infer_no_number();
  case DTYPE_BOOL: least = 0, most = 1; break;
  case DTYPE_INT32: least = INT32_MIN, most = INT32_MAX; break;
  case DTYPE_INT16: least = INT16_MIN, most = INT16_MAX; break;
  case DTYPE_INT8: least = INT8_MIN, most = INT8_MAX; break;
  case DTYPE_UINT8: least = 0, most = UINT8_MAX; break;
  case DTYPE_UINT16: least = 0, most = UINT16_MAX; break;
  case DTYPE_UINT32: least = 0, most = UINT32_MAX; break;
  case DTYPE_UINT64: least = 0; break;
  case DTYPE_FLOAT:
  case DTYPE_DOUBLE: break;
  default: return infer_no_number();
  }
  if (dtype != DTYPE_FLOAT && dtype != DTYPE_DOUBLE) {
    if (x.den != 1) return infer_no_number();
    int64_t n;
    if (dims_is_number(s->d, x.num, &n)) return n >= least && n <= most ? x : infer_no_number();
    // Dims fit the types of 32 and 64 bits that exporters compute them in.
    if (least > INT32_MIN && dims_least(s->d, x.num) < least) return infer_no_number();
    return most < INT32_MAX && dims_most(s->d, x.num) > most ? infer_no_number() : x;
  }
  int64_t n;
  if (exact(x) && x.den > FEW_DIGITS && !is_number(s, x, &n)) return infer_no_number();
  if (dims_is_number(s->d, x.num, &n)) {
    const int64_t most_float = (int64_t)1 << 24;
    return n > -most_float && n < most_float ? x : infer_no_number();
  }
  return x;
}

// ---- lists -------------------------------------------------------------------------------------

bool infer_static(struct infer_site *s, const struct infer_type *t, const int64_t **dims) {
  if (!t->ranked) return false;
  int64_t *out = arena_alloc(s->a, t->rank * sizeof *out + 1);
  for (uint32_t i = 0; i < t->rank; i++)
    if (t->dims[i] == NO_ID || !dims_is_number(s->d, t->dims[i], &out[i])) return false;
  *dims = out;
  return true;
}

bool infer_list_size(const int64_t *dims, uint32_t rank, uint32_t *n) {
  uint64_t product;
  if (!dims_product(dims, rank, &product) || product > INFER_LIST) return false;
  *n = (uint32_t)product;
  return true;
}

bool infer_spread(struct infer_site *s, const struct infer_type *operand, const int64_t *dims,
                  uint32_t rank, struct infer_spread *out) {
  const int64_t *of;
  *out = (struct infer_spread){.dims = dims, .rank = rank};
  if (!infer_static(s, operand, &of) || operand->rank > rank) return false;
  int64_t step = 1;
  for (uint32_t i = operand->rank; i-- > 0;) {
    const uint32_t at = rank - operand->rank + i;
    if (of[i] != 1 && of[i] != dims[at]) return false;
    out->step[at] = of[i] == 1 ? 0 : step;
    if (__builtin_mul_overflow(step, of[i], &step)) step = 0; // then there are no elements
  }
  return true;
}

uint32_t infer_spread_at(const struct infer_spread *p, uint32_t i) {
  int64_t at = 0;
  for (uint32_t d = p->rank; d-- > 0;) {
    at += p->step[d] * (i % (uint32_t)p->dims[d]);
    i /= (uint32_t)p->dims[d];
  }
  return (uint32_t)at;
}

// The list of a result that was given its dims: by elements of all operands, two by two.
static void fold_lists(struct infer_site *s, const struct infer_type *types, enum dtype operands,
                       enum dtype result) {
  struct infer_type t;
  const int64_t *dims;
  uint32_t n, of;
  if (!infer_value(s, model_output(s->m, &s->m->nodes[s->node], 0), &t)) return;
  if (!infer_static(s, &t, &dims) || !infer_list_size(dims, t.rank, &n)) return;
  struct infer_number *out = arena_alloc(s->a, n * sizeof *out + 1);
  const bool floating = dtype_is_float(operands);
  const enum arithmetic op = arithmetic_of(s);
  for (uint32_t k = 0; k < s->n_in; k++) {
    const struct infer_number *list;
    struct infer_spread p;
    if (!infer_list(s, k, &list, &of) || !infer_spread(s, &types[k], dims, t.rank, &p)) return;
    for (uint32_t i = 0; i < n; i++) {
      const struct infer_number x = list[infer_spread_at(&p, i)];
      out[i] = k == 0 ? x : binary(s, op, out[i], x, floating);
    }
  }
  for (uint32_t i = 0; i < n; i++)
    out[i] = fit(s, out[i], result);
  infer_out_list(s, 0, out, n);
}

static bool any_lists(struct infer_site *s) {
  const struct infer_number *list;
  uint32_t n;
  if (arithmetic_of(s) == NONE) return false;
  for (uint32_t k = 0; k < s->n_in; k++)
    if (!infer_list(s, k, &list, &n)) return false;
  return s->n_in > 0;
}

// ---- rules -------------------------------------------------------------------------------------

// Along which it computes; older Softmaxes flatten at theirs.
static bool has_axis(const struct infer_site *s) {
  const char *name = s->op->name;
  if (strcmp(name, "LpNormalization") == 0) return true;
  return s->version >= 13 && (strcmp(name, "Softmax") == 0 || strcmp(name, "LogSoftmax") == 0 ||
                              strcmp(name, "Hardmax") == 0);
}

// The type of input 0.
void infer_same(struct infer_site *s) {
  struct infer_type x;
  const struct infer_number *list;
  uint32_t n;
  if (!infer_in(s, 0, &x)) return;
  if (has_axis(s) && x.ranked && x.rank > 0) {
    int64_t axis;
    uint32_t at;
    if (infer_attr_int(s, "axis", -1, &axis) && !infer_axis(s, axis, x.rank, &at)) return;
  }
  infer_out(s, 0, &x);
  if (!infer_list(s, 0, &list, &n)) return;
  const enum arithmetic op = arithmetic_of(s);
  if (op == NONE) return;
  struct infer_number *out = arena_alloc(s->a, n * sizeof *out + 1);
  for (uint32_t i = 0; i < n; i++)
    out[i] = fit(s, unary(s, op, list[i]), x.dtype);
  infer_out_list(s, 0, out, n);
}

void infer_bool_like(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  x.dtype = DTYPE_BOOL;
  infer_out(s, 0, &x);
}

static void broadcast_as(struct infer_site *s, bool boolean) {
  struct infer_type *types = arena_zalloc(s->a, (s->n_in + 1) * sizeof *types);
  enum dtype dtype = DTYPE_UNDEFINED;
  const dim_id *dims;
  uint32_t rank;
  const bool power_of = strcmp(s->op->name, "Pow") == 0;
  for (uint32_t i = 0; i < s->n_in; i++) {
    infer_in(s, i, &types[i]);
    if (dtype == DTYPE_UNDEFINED) dtype = types[i].dtype;
    if (power_of) dtype = types[0].dtype;
  }
  const enum dtype result = boolean ? DTYPE_BOOL : dtype;
  if (!infer_known(s, infer_broadcast(s, types, s->n_in, &dims, &rank), result)) return;
  infer_out_dims(s, 0, result, dims, rank);
  if (any_lists(s)) fold_lists(s, types, dtype, result);
}

// Broadcast of all inputs; their type.
void infer_broadcasting(struct infer_site *s) {
  broadcast_as(s, false);
}

// Operands among scales and zero points.
static void broadcast_of(struct infer_site *s, const uint32_t *slots, uint32_t n,
                         enum dtype of_all) {
  struct infer_type types[3];
  const dim_id *dims;
  uint32_t rank;
  for (uint32_t i = 0; i < n; i++)
    infer_in(s, slots[i], &types[i]);
  const enum dtype dtype = of_all == DTYPE_UNDEFINED ? types[n - 1].dtype : of_all;
  if (infer_broadcast(s, types, n, &dims, &rank))
    infer_out_dims(s, 0, dtype, dims, rank);
  else
    infer_out_dtype(s, 0, dtype);
}

void infer_broadcasting_quantized(struct infer_site *s) {
  broadcast_of(s, (const uint32_t[2]){0, 3}, 2, DTYPE_UNDEFINED);
}

void infer_multiply_integers(struct infer_site *s) {
  broadcast_of(s, (const uint32_t[2]){0, 2}, 2, DTYPE_INT32);
}

// onnx_passes.ops: x with one more axis against thresholds and weights, summed along it.
void infer_multi_threshold(struct infer_site *s) {
  struct infer_type types[3];
  const dim_id *dims;
  uint32_t rank, n = 0;
  for (uint32_t slot = 0; slot < s->n_in && slot < 3; slot++)
    if (infer_has(s, slot)) infer_in(s, slot, &types[n++]);
  if (n > 0 && types[0].ranked) {
    dim_id *of_x = infer_dim_room(s, types[0].rank + 1);
    if (types[0].rank > 0) memcpy(of_x, types[0].dims, types[0].rank * sizeof *of_x);
    of_x[types[0].rank++] = infer_one(s);
    types[0].dims = of_x;
  }
  if (n > 1 && infer_broadcast(s, types, n, &dims, &rank))
    infer_out_dims(s, 0, DTYPE_FLOAT, dims, rank - 1);
  else
    infer_out_dtype(s, 0, DTYPE_FLOAT);
}

void infer_where_quantized(struct infer_site *s) {
  broadcast_of(s, (const uint32_t[3]){0, 1, 4}, 3, DTYPE_UNDEFINED);
}

void infer_compare(struct infer_site *s) {
  broadcast_as(s, true);
}

static void where_list(struct infer_site *s, const struct infer_type types[3], enum dtype dtype) {
  struct infer_type t;
  const int64_t *dims;
  const struct infer_number *list[3];
  struct infer_spread p[3];
  uint32_t n, of;
  bool have[3];
  if (!infer_value(s, model_output(s->m, &s->m->nodes[s->node], 0), &t)) return;
  if (!infer_static(s, &t, &dims) || !infer_list_size(dims, t.rank, &n)) return;
  for (uint32_t k = 0; k < 3; k++)
    have[k] = infer_list(s, k, &list[k], &of) && infer_spread(s, &types[k], dims, t.rank, &p[k]);
  if (!have[0]) return;
  struct infer_number *out = arena_alloc(s->a, n * sizeof *out + 1);
  for (uint32_t i = 0; i < n; i++) {
    const enum dims_answer no = infer_is(s, list[0][infer_spread_at(&p[0], i)], 0);
    const struct infer_number a = have[1] ? list[1][infer_spread_at(&p[1], i)] : infer_no_number();
    const struct infer_number b = have[2] ? list[2][infer_spread_at(&p[2], i)] : infer_no_number();
    const bool same = a.num != NO_ID && b.num != NO_ID && equal(s, a, b) == DIMS_YES;
    out[i] = fit(s, no == DIMS_YES ? b : no == DIMS_NO || same ? a : infer_no_number(), dtype);
  }
  infer_out_list(s, 0, out, n);
}

void infer_where(struct infer_site *s) {
  struct infer_type types[3];
  const dim_id *dims;
  uint32_t rank;
  for (uint32_t i = 0; i < 3; i++)
    infer_in(s, i, &types[i]);
  const enum dtype dtype = types[1].dtype != DTYPE_UNDEFINED ? types[1].dtype : types[2].dtype;
  if (!infer_known(s, infer_broadcast(s, types, 3, &dims, &rank), dtype)) return;
  infer_out_dims(s, 0, dtype, dims, rank);
  where_list(s, types, dtype);
}

// ---- casts -------------------------------------------------------------------------------------

// Integers cut floats towards zero; what is not 0 is true.
static struct infer_number cast_number(struct infer_site *s, struct infer_number x, enum dtype to) {
  if (x.num == NO_ID) return x;
  if (to == DTYPE_BOOL) return from_answer(s, opposite(infer_is(s, x, 0)));
  if (dtype_is_integer(to) && x.den != 1)
    x = over(s, dims_trunc_div(s->d, x.num, dims_number(s->d, x.den)), 1);
  return fit(s, x, to);
}

static void cast_to(struct infer_site *s, enum dtype to) {
  struct infer_type x;
  const struct infer_number *list;
  uint32_t n;
  infer_in(s, 0, &x);
  x.dtype = to;
  infer_out(s, 0, &x);
  if (!infer_list(s, 0, &list, &n)) return;
  struct infer_number *out = arena_alloc(s->a, n * sizeof *out + 1);
  for (uint32_t i = 0; i < n; i++)
    out[i] = cast_number(s, list[i], to);
  infer_out_list(s, 0, out, n);
}

void infer_cast(struct infer_site *s) {
  int64_t to;
  const bool known = infer_attr_int(s, "to", 0, &to) && dtype_known(to);
  cast_to(s, known ? (enum dtype)to : DTYPE_UNDEFINED);
}

void infer_cast_like(struct infer_site *s) {
  struct infer_type like;
  infer_in(s, 1, &like);
  cast_to(s, like.dtype);
}

void infer_quantize(struct infer_site *s) {
  struct infer_type x, zero;
  int64_t output;
  infer_in(s, 0, &x);
  x.dtype = DTYPE_UINT8;
  if (infer_attr_int(s, "output_dtype", 0, &output) && output != 0 && dtype_known(output))
    x.dtype = (enum dtype)output;
  else if (infer_has(s, 2))
    x.dtype = infer_in(s, 2, &zero) ? zero.dtype : DTYPE_UNDEFINED;
  infer_out(s, 0, &x);
}

void infer_dequantize(struct infer_site *s) {
  struct infer_type x, scale;
  int64_t output;
  infer_in(s, 0, &x);
  infer_in(s, 1, &scale);
  x.dtype = scale.dtype;
  if (infer_attr_int(s, "output_dtype", 0, &output) && output != 0 && dtype_known(output))
    x.dtype = (enum dtype)output;
  infer_out(s, 0, &x);
}

void infer_dynamic_quantize(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  x.dtype = DTYPE_UINT8;
  infer_out(s, 0, &x);
  infer_out_dims(s, 1, DTYPE_FLOAT, NULL, 0);
  infer_out_dims(s, 2, DTYPE_UINT8, NULL, 0);
}
