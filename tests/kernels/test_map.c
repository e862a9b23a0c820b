// Elementwise operations. One call over many elements is held, element by element, to a reference
// that computes with more bits and other means: floats in double, rounded once; integers in 64 bits;
// exp and its like in long double, within the bounds that kernels_map.h gives. All other calls (any
// stride, size and place, the result in the place of an operand, every set of features) give the
// bytes of that one.
#include "guarded.h"

#include "kernels/convert/kernels_convert.h"
#include "kernels/map/kernels_map.h"

#include <float.h>

enum { MOST = 1300, SIZES = 6 };

static struct guarded pages[4];
static uint8_t operands[3][MOST * 8], wanted[MOST * 8];
static enum kernels_map op;
static enum dtype type, made;

static size_t width_of(enum dtype t) {
  return dtype_bits(t) < 8 ? 1 : dtype_bits(t) / 8;
}

static void convert(void *out, enum dtype to, const void *in, enum dtype from, size_t n) {
  const struct kernels_cast c = {.from = (uint8_t)from, .to = (uint8_t)to};
  kernels_convert(out, in, n, &c);
}

// ---- elements ----------------------------------------------------------------------------------

// Numbers around 1, around what EXP and its like turn at, any bits, zeros, infinities, NaNs.
static double random_real(void) {
  static const double special[] = {
      0.0,     -0.0,    1,     -1,      0.5,     2,       -0.5,    1.5,      2.5,      -2.5,
      3,       0.25,    6,     88.7,    -103.9,  709.7,   -745.1,  0.625,    0x1p-149, 0x1p-1074,
      0x1p-24, FLT_MAX, 65504, DBL_MAX, DBL_MIN, FLT_MIN, 8388609, 4194304.5};
  static const uint64_t bits[] = {0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
                                  0xfff8000012345678, 0x7ff4000000000000, 0xffffffffffffffff};
  const double unit = (double)(int64_t)random_64() / 9223372036854775808.0;
  double x;
  uint64_t any = random_64();
  switch (random_64() % 8) {
  case 0: return special[random_64() % (sizeof special / sizeof *special)];
  case 1: any = bits[random_64() % 6]; break;
  case 2: break;
  case 3: return unit * 100;
  case 4: return floor(unit * 20) / 2;
  case 5: return ldexp(unit, (int)(random_64() % 40) - 30);
  case 6: return unit * 900;
  default: return unit * 3;
  }
  memcpy(&x, &any, sizeof x);
  return x;
}

static void random_elements(uint8_t *out, enum dtype t) {
  const bool integer = dtype_is_integer(t) || !kernels_convert_takes(t);
  for (size_t i = 0; i < MOST; i++) {
    uint64_t x = random_64() >> random_64() % 64;
    if (random_64() % 4 == 0) x = 0 - x;
    if (random_64() % 16 == 0) x = UINT64_C(1) << (dtype_bits(t) - 1); // the least number
    if (random_64() % 16 == 0) x = UINT64_MAX;
    const double real = random_real();
    if (integer)
      memcpy(out + i * width_of(t), &x, width_of(t));
    else
      convert(out + i * width_of(t), t, &real, DTYPE_DOUBLE, 1);
  }
}

// ---- the reference -----------------------------------------------------------------------------

static double real_at(const uint8_t *at, size_t i, enum dtype t) {
  double x;
  convert(&x, DTYPE_DOUBLE, at + i * width_of(t), t, 1);
  return x;
}

static double extreme(double x, double y, bool greatest) {
  if (isnan(x) || isnan(y)) return NAN;
  if (x == 0 && y == 0)
    return (greatest ? signbit(x) && signbit(y) : signbit(x) || signbit(y)) ? -0.0 : 0.0;
  return (x < y) == greatest ? y : x;
}

// Of float and smaller types: rounding a double result once more is harmless for + - * / and sqrt.
static double real_result(double x, double y) {
  switch (op) {
  case KERNELS_ADD: return x + y;
  case KERNELS_SUB: return x - y;
  case KERNELS_MUL: return x * y;
  case KERNELS_DIV: return x / y;
  case KERNELS_MIN: return extreme(x, y, false);
  case KERNELS_MAX: return extreme(x, y, true);
  case KERNELS_NEG: return -x;
  case KERNELS_ABS: return fabs(x);
  case KERNELS_SIGN: return x > 0 ? 1 : x < 0 ? -1 : isnan(x) ? x : 0;
  case KERNELS_RELU: return isnan(x) || x > 0 ? x : 0;
  case KERNELS_SQRT: return sqrt(x);
  case KERNELS_RECIPROCAL: return 1 / x;
  case KERNELS_FLOOR: return floor(x);
  case KERNELS_CEIL: return ceil(x);
  case KERNELS_ROUND: return nearbyint(x);
  default: fail(); return 0;
  }
}

static bool truth(double x, double y) {
  switch (op) {
  case KERNELS_EQUAL: return x == y;
  case KERNELS_LESS: return x < y;
  case KERNELS_LESS_EQUAL: return x <= y;
  case KERNELS_GREATER: return x > y;
  case KERNELS_GREATER_EQUAL: return x >= y;
  default: fail(); return false;
  }
}

static long double function_result(double x, double y) {
  switch (op) {
  case KERNELS_EXP: return expl(x);
  case KERNELS_LOG: return logl(x);
  case KERNELS_ERF: return erfl(x);
  case KERNELS_TANH: return tanhl(x);
  case KERNELS_SIGMOID: return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-(long double)x));
  case KERNELS_POW: return powl(x, y);
  default: fail(); return 0;
  }
}

static bool is_function(enum kernels_map o) {
  return o == KERNELS_POW || (o >= KERNELS_EXP && o <= KERNELS_SIGMOID);
}

struct precision {
  int digits, least; // bits of a significand; exponent of the smallest number
  double largest;
};

static struct precision precision_of(enum dtype t) {
  switch (t) {
  case DTYPE_FLOAT: return (struct precision){24, -149, FLT_MAX};
  case DTYPE_FLOAT16: return (struct precision){11, -24, 65504};
  case DTYPE_BFLOAT16: return (struct precision){8, -133, 0x1.fep127};
  default: return (struct precision){53, -1074, DBL_MAX};
  }
}

// How far x is from what it should be, in units of the last place.
static long double units_off(double got, long double want, enum dtype t) {
  const struct precision p = precision_of(t);
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0 : INFINITY;
  if (isinf(want)) return (long double)got == want ? 0 : INFINITY;
  int exponent = want == 0 ? p.least : ilogbl(want) - p.digits + 1;
  if (exponent < p.least) exponent = p.least;
  if (isinf(got)) { // counts as the number that would come after the largest
    const int last = ilogb(p.largest) - p.digits + 1;
    const long double next = p.largest + ldexpl(1, last), missing = next - fabsl(want);
    return (got < 0) != (want < 0) ? INFINITY : missing > 0 ? ldexpl(missing, -last) : 0;
  }
  return fabsl(ldexpl(got - want, -exponent));
}

static void check_function(double got, double x, double y) {
  const long double of_double = op == KERNELS_SIGMOID                     ? 2.5L
                                : op == KERNELS_ERF || op == KERNELS_TANH ? 1.5L
                                                                          : 1;
  const long double bound = type == DTYPE_DOUBLE ? of_double : 0.5001L;
  const long double want = function_result(x, y), off = units_off(got, want, type);
  if (off > bound)
    fail_msg("operation %d of %s: %a, %a gives %a, not %La: %Lf units", (int)op, dtype_name(type),
             x, y, got, want, off);
  if (want == 0 && got == 0) assert_int_equal(!signbit(got), !signbit(want));
}

static void check_real(size_t i) {
  const double x = real_at(operands[0], i, type), y = real_at(operands[1], i, type);
  if (made == DTYPE_BOOL) {
    assert_int_equal(wanted[i], truth(x, y));
    return;
  }
  const size_t width = width_of(type);
  const double got = real_at(wanted, i, type);
  if (is_function(op)) {
    check_function(got, x, y);
  } else {
    const double result = real_result(x, y);
    uint64_t want = 0, seen = 0;
    convert(&want, type, &result, DTYPE_DOUBLE, 1);
    memcpy(&seen, wanted + i * width, width);
    if (seen != want && !isnan(result))
      fail_msg("operation %d of %s: %a, %a gives %a, not %a", (int)op, dtype_name(type), x, y, got,
               result);
  }
  if (!isnan(got)) return;
  const uint64_t quiet = type == DTYPE_FLOAT     ? 0x7fc00000
                         : type == DTYPE_FLOAT16 ? 0x7e00
                         : type == DTYPE_DOUBLE  ? 0x7ff8000000000000
                                                 : 0x7fc0;
  assert_memory_equal(wanted + i * width, &quiet, width);
}

static uint64_t bits_at(const uint8_t *at, size_t i, enum dtype t) {
  uint64_t x = 0;
  memcpy(&x, at + i * width_of(t), width_of(t));
  return x;
}

// An integer's value, its sign carried up.
static uint64_t carried(uint64_t x, bool is_signed) {
  const unsigned bits = dtype_bits(type);
  const uint64_t sign = UINT64_C(1) << (bits - 1);
  return is_signed ? ((x & (sign | (sign - 1))) ^ sign) - sign : x;
}

static bool below(uint64_t x, uint64_t y, bool is_signed) {
  return is_signed ? (int64_t)x < (int64_t)y : x < y;
}

static uint64_t integer_result(uint64_t x, uint64_t y, bool is_signed, uint64_t *open) {
  const bool negative = is_signed && (int64_t)x < 0;
  const uint64_t least = carried(UINT64_C(1) << (dtype_bits(type) - 1), true);
  switch (op) {
  case KERNELS_ADD: return x + y;
  case KERNELS_SUB: return x - y;
  case KERNELS_MUL: return x * y;
  case KERNELS_DIV:
    if (y == 0 || (is_signed && x == least && y == UINT64_MAX)) return (*open)++, 0;
    return is_signed ? (uint64_t)((int64_t)x / (int64_t)y) : x / y;
  case KERNELS_MIN: return below(x, y, is_signed) ? x : y;
  case KERNELS_MAX: return below(x, y, is_signed) ? y : x;
  case KERNELS_AND: return x & y;
  case KERNELS_OR: return x | y;
  case KERNELS_XOR: return x ^ y;
  case KERNELS_EQUAL: return x == y;
  case KERNELS_LESS: return below(x, y, is_signed);
  case KERNELS_LESS_EQUAL: return !below(y, x, is_signed);
  case KERNELS_GREATER: return below(y, x, is_signed);
  case KERNELS_GREATER_EQUAL: return !below(x, y, is_signed);
  case KERNELS_NEG: return 0 - x;
  case KERNELS_ABS: return negative ? 0 - x : x;
  case KERNELS_SIGN: return negative ? UINT64_MAX : x != 0;
  case KERNELS_RELU: return negative ? 0 : x;
  case KERNELS_NOT: return ~x;
  default: fail(); return 0;
  }
}

static uint64_t check_integers(void) {
  const bool is_signed =
      type == DTYPE_INT8 || type == DTYPE_INT16 || type == DTYPE_INT32 || type == DTYPE_INT64;
  uint64_t open = 0;
  for (size_t i = 0; i < MOST; i++) {
    uint64_t x = bits_at(operands[0], i, type), y = bits_at(operands[1], i, type), want;
    if (type == DTYPE_BOOL) {
      x = x != 0;
      y = y != 0;
      want = integer_result(x, y, false, &open) & 1;
    } else {
      want = integer_result(carried(x, is_signed), carried(y, is_signed), is_signed, &open);
    }
    if (memcmp(&want, wanted + i * width_of(made), width_of(made)) != 0)
      fail_msg("operation %d of %s: %#llx, %#llx", (int)op, dtype_name(type), (unsigned long long)x,
               (unsigned long long)y);
  }
  return open;
}

// ---- calls -------------------------------------------------------------------------------------

static uint64_t want_open;

// Elements [from, from + n) again, some operands standing still at the first; compared with single
// calls. place: 0 at the start of pages, 1 at their end, 2 one byte off, 3 in an operand's place.
static void check_call(size_t from, size_t n, unsigned still, unsigned place) {
  static uint8_t one_by_one[MOST * 8];
  const unsigned count = kernels_map_operands(op);
  struct kernels_operand in[3];
  uint64_t open = 0;
  for (unsigned k = 0; k < count; k++) {
    const size_t width = k == 0 && op == KERNELS_WHERE ? 1 : width_of(type);
    const bool stands = still >> k & 1;
    const size_t bytes = width * (stands ? n > 0 : n), off = place == 2;
    uint8_t *at = guarded_at(&pages[k], bytes + off, place % 2 == 1) + off;
    memcpy(at, operands[k] + from * width, bytes);
    in[k] = (struct kernels_operand){at, !stands};
  }
  const size_t width = width_of(made), off = place == 2;
  for (size_t i = 0; i < n; i++) {
    struct kernels_operand single[3];
    for (unsigned k = 0; k < count; k++) {
      const size_t step = k == 0 && op == KERNELS_WHERE ? 1 : width_of(type);
      single[k] = (struct kernels_operand){(const uint8_t *)in[k].at + i * in[k].stride * step, 1};
    }
    if (still) open += kernels_map(op, type, one_by_one + i * width, single, 1);
  }
  uint8_t *out = guarded_at(&pages[3], n * width + off, place % 2 == 1) + off;
  const unsigned last = count - 1;
  if (place == 3 && in[last].stride && width == width_of(type))
    out = pages[last].pages + ((const uint8_t *)in[last].at - pages[last].pages);
  else
    memset(out, JUNK, n * width);
  const uint64_t got_open = kernels_map(op, type, out, in, n);
  if (still) {
    assert_int_equal(got_open, open);
    assert_memory_equal(out, one_by_one, n * width);
  } else {
    if (n == MOST) assert_int_equal(got_open, want_open);
    assert_memory_equal(out, wanted + from * width, n * width);
  }
}

static void check_calls(void) {
  check_call(0, MOST, 0, 1);
  check_call(0, MOST, 0, 3);
  check_call(0, 0, 0, 1);
  check_call(5, 600, 1, 1);
  for (size_t i = 0; i < SIZES; i++) {
    const size_t n = random_64() % 45;
    check_call(random_64() % (MOST - n), n, (unsigned)random_64() % 8, (unsigned)i % 4);
  }
}

static bool is_real(enum dtype t) {
  return t == DTYPE_FLOAT || t == DTYPE_DOUBLE || t == DTYPE_FLOAT16 || t == DTYPE_BFLOAT16;
}

static void check_operation(void) {
  const struct kernels_operand in[] = {{operands[0], 1}, {operands[1], 1}, {operands[2], 1}};
  for (int k = 0; k < 3; k++)
    random_elements(operands[k], k == 0 && op == KERNELS_WHERE ? DTYPE_BOOL : type);
  for (size_t i = 0; i < MOST; i += 3) // equal ones, too
    memcpy(operands[1] + i * width_of(type), operands[0] + i * width_of(type), width_of(type));
  memset(wanted, JUNK, sizeof wanted);
  kernels_mask(0);
  want_open = kernels_map(op, type, wanted, in, MOST);
  if (op == KERNELS_WHERE) {
    for (size_t i = 0; i < MOST; i++)
      assert_memory_equal(wanted + i * width_of(type),
                          operands[operands[0][i] ? 1 : 2] + i * width_of(type), width_of(type));
  } else if (is_real(type)) {
    assert_int_equal(want_open, 0);
    for (size_t i = 0; i < MOST; i++)
      check_real(i);
  } else {
    assert_int_equal(want_open, check_integers());
    assert_true((want_open > 0) == (op == KERNELS_DIV));
  }
  for_each_feature_set(check_calls);
}

static void test_all(void **state) {
  (void)state;
  unsigned tried = 0;
  for (int o = 0; o < KERNELS_MAPS; o++)
    for (int t = 1; t <= DTYPE_FLOAT6E3M2; t++) {
      op = (enum kernels_map)o;
      type = (enum dtype)t;
      made = kernels_map_result(op, type);
      if (!made) continue;
      tried++;
      // Where numbers are held to a bound, many of them.
      for (int turn = 0; turn < (is_function(op) ? 8 : 1); turn++)
        check_operation();
    }
  assert_int_equal(tried, 12 * 6 + 3 + 9 * 3 + 13 + 12 * 4 + 8 + 12 * 2 + 8 + 9 + 4 * 10 + 26);
}

// Values anyone can look up, and the rules that are ours.
static float of_floats(enum kernels_map operation, float x, float y) {
  const struct kernels_operand in[] = {{&x, 1}, {&y, 1}};
  float out;
  assert_int_equal(kernels_map(operation, DTYPE_FLOAT, &out, in, 1), 0);
  return out;
}

static void test_known(void **state) {
  (void)state;
  assert_true(of_floats(KERNELS_EXP, 1, 0) == 2.7182817f);
  assert_true(of_floats(KERNELS_LOG, 10, 0) == 2.3025851f);
  assert_true(of_floats(KERNELS_ERF, 0.5f, 0) == 0.5204999f);
  assert_true(of_floats(KERNELS_TANH, 0.5f, 0) == 0.46211717f);
  assert_true(of_floats(KERNELS_SIGMOID, 2, 0) == 0.88079709f);
  assert_true(of_floats(KERNELS_POW, 3, 4) == 81);
  assert_true(of_floats(KERNELS_POW, -2, 3) == -8);
  assert_true(of_floats(KERNELS_ROUND, -2.5f, 0) == -2);
  assert_true(signbit(of_floats(KERNELS_MIN, 0.0f, -0.0f)));
  assert_true(signbit(of_floats(KERNELS_CEIL, -0.25f, 0)));
  assert_false(signbit(of_floats(KERNELS_MAX, -0.0f, 0.0f)));
  assert_false(signbit(of_floats(KERNELS_RELU, -0.0f, 0)));
  assert_true(isnan(of_floats(KERNELS_MAX, NAN, 1)) && isnan(of_floats(KERNELS_MIN, 1, NAN)));
  assert_int_equal(kernels_map_result(KERNELS_POW, DTYPE_DOUBLE), DTYPE_UNDEFINED);
  assert_int_equal(kernels_map_result(KERNELS_NEG, DTYPE_UINT8), DTYPE_UNDEFINED);
  assert_int_equal(kernels_map_result(KERNELS_ADD, DTYPE_INT4), DTYPE_UNDEFINED);
  assert_int_equal(kernels_map_result(KERNELS_ADD, DTYPE_BOOL), DTYPE_UNDEFINED);
  assert_int_equal(kernels_map_result(KERNELS_GREATER, DTYPE_FLOAT16), DTYPE_BOOL);
  assert_int_equal(kernels_map_result(KERNELS_WHERE, DTYPE_INT4), DTYPE_INT4);
  assert_int_equal(kernels_map_result(KERNELS_WHERE, DTYPE_STRING), DTYPE_UNDEFINED);
}

static int open_pages(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++)
    pages[k] = guarded_open(MOST * 8 + 1);
  return 0;
}

static int close_pages(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++)
    guarded_close(&pages[k]);
  return 0;
}

int test_map(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_all)};
  return cmocka_run_group_tests(tests, open_pages, close_pages);
}
