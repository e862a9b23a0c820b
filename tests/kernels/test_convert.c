// Conversions between all number types: against a slow reference that knows a format by its numbers
// and finds the nearest code by bisection, over all sets of features, with guard pages and junk;
// and against what onnx's reference implementation makes of numbers around every border
// (casts.def).
#include "guarded.h"

#include "kernels/convert/kernels_convert.h"

#include <float.h>

enum { TYPES = 29, MOST = 700, SIZES = 5 };

// ---- the slow reference ------------------------------------------------------------------------

// How floats are laid out. nan: the positive one, 0 if there is none; fnuz: it is what -0 would be.
struct layout {
  int exponent, mantissa, bias;
  uint64_t largest, infinity, nan;
  bool fnuz;
};
static const struct layout layouts[TYPES] = {
    [DTYPE_FLOAT] = {8, 23, 127, 0x7f7fffff, 0x7f800000, 0x7fc00000, false},
    [DTYPE_DOUBLE] = {11, 52, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000,
                      false},
    [DTYPE_FLOAT16] = {5, 10, 15, 0x7bff, 0x7c00, 0x7e00, false},
    [DTYPE_BFLOAT16] = {8, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, false},
    [DTYPE_FLOAT8E4M3FN] = {4, 3, 7, 0x7e, 0, 0x7f, false},
    [DTYPE_FLOAT8E4M3FNUZ] = {4, 3, 8, 0x7f, 0, 0x80, true},
    [DTYPE_FLOAT8E5M2] = {5, 2, 15, 0x7b, 0x7c, 0x7e, false},
    [DTYPE_FLOAT8E5M2FNUZ] = {5, 2, 16, 0x7f, 0, 0x80, true},
    [DTYPE_FLOAT4E2M1] = {2, 1, 1, 7, 0, 0, false},
    [DTYPE_FLOAT6E2M3] = {2, 3, 1, 0x1f, 0, 0, false},
    [DTYPE_FLOAT6E3M2] = {3, 2, 3, 0x1f, 0, 0, false},
};

static bool has_sign(enum dtype t) {
  return t == DTYPE_INT2 || t == DTYPE_INT4 || t == DTYPE_INT8 || t == DTYPE_INT16 ||
         t == DTYPE_INT32 || t == DTYPE_INT64;
}

static uint64_t mask_of(enum dtype t) {
  return UINT64_MAX >> (64 - dtype_bits(t));
}

static size_t width_of(enum dtype t) {
  return dtype_bits(t) < 8 ? 1 : dtype_bits(t) / 8;
}

// |x| of a code without sign, infinity counted as the next number after the largest.
static long double size_of_code(uint64_t code, const struct layout *l) {
  const int e = (int)(code >> l->mantissa);
  uint64_t m = code & ((UINT64_C(1) << l->mantissa) - 1);
  if (e) m |= UINT64_C(1) << l->mantissa;
  return ldexpl((long double)m, (e ? e : 1) - l->bias - l->mantissa);
}

struct number {
  bool nan, negative, infinite;
  uint64_t payload; // of a NaN, in the top bits
  long double size; // a long double has 64 bits at least: room for every source
};

static struct number read_number(uint64_t bits, enum dtype t) {
  bits &= mask_of(t);
  if (t == DTYPE_BOOL) return (struct number){.size = bits != 0};
  if (dtype_is_integer(t)) {
    const bool negative = has_sign(t) && bits >> (dtype_bits(t) - 1);
    const uint64_t size = negative ? (0 - bits) & mask_of(t) : bits;
    return (struct number){.negative = negative, .size = (long double)size};
  }
  if (t == DTYPE_FLOAT8E8M0)
    return (struct number){.nan = bits == 0xff, .size = ldexpl(1, (int)bits - 127)};
  const struct layout *l = &layouts[t];
  const unsigned sign = (unsigned)(l->exponent + l->mantissa);
  struct number x = {.negative = bits >> sign & 1};
  const uint64_t code = bits & ((UINT64_C(1) << sign) - 1);
  if (l->fnuz && x.negative && code == 0) x.nan = true;
  if (l->infinity && code == l->infinity) x.infinite = true;
  if (code > l->largest && !x.infinite) x.nan = true;
  if (x.nan && dtype_bits(t) >= 16) x.payload = code << (64 - l->mantissa);
  x.size = x.nan || x.infinite ? 0 : size_of_code(code, l);
  return x;
}

// The code nearest to a size, ties to the even one; one more than the largest if past it.
static uint64_t nearest_code(long double size, const struct layout *l) {
  uint64_t low = 0, high = l->largest + 1;
  if (size >= size_of_code(high, l)) return high;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    if (size_of_code(middle, l) <= size)
      low = middle;
    else
      high = middle;
  }
  const long double below = size - size_of_code(low, l), above = size_of_code(high, l) - size;
  if (below != above) return below < above ? low : high;
  return low & 1 ? high : low;
}

static uint64_t to_float(struct number x, const struct kernels_cast *c, bool *open) {
  const enum dtype t = (enum dtype)c->to;
  const struct layout *l = &layouts[t];
  const uint64_t sign = (uint64_t)x.negative << (l->exponent + l->mantissa);
  const bool ieee = dtype_bits(t) >= 16, saturates = !l->nan || (!ieee && c->saturate);
  if (x.nan) {
    *open = !l->nan;
    if (*open || l->fnuz) return l->nan;
    return sign | l->nan | (ieee ? x.payload >> (64 - l->mantissa) : 0);
  }
  const uint64_t code = x.infinite ? l->largest + 1 : nearest_code(x.size, l);
  if (code == 0 && x.negative) {
    if (l->fnuz) return 0;
    *open = t == DTYPE_FLOAT6E2M3 || t == DTYPE_FLOAT6E3M2;
    return *open ? 0 : sign;
  }
  if (code <= l->largest) return sign | code;
  if (saturates) return sign | l->largest;
  return l->infinity ? sign | l->infinity : l->fnuz ? l->nan : sign | l->nan;
}

static uint64_t to_integer(struct number x, enum dtype t, bool *open) {
  const long double whole = x.negative ? -floorl(x.size) : floorl(x.size);
  const long double power = ldexpl(1, (int)dtype_bits(t) - has_sign(t));
  *open = x.nan || x.infinite || whole >= power || whole < (has_sign(t) ? -power : 0);
  if (*open) return 0;
  const uint64_t size = (uint64_t)floorl(x.size);
  return (x.negative ? 0 - size : size) & mask_of(t);
}

static uint64_t to_e8m0(struct number x, const struct kernels_cast *c, bool *open) {
  if (x.nan) return 0xff;
  if (!x.negative && !x.infinite && x.size == 0 && c->saturate && c->round == KERNELS_ROUND_UP)
    return 0;
  *open = x.negative || x.infinite || x.size < 0x1p-126L || x.size > (long double)FLT_MAX;
  if (*open) return 0;
  int e = -126;
  while (ldexpl(1, e + 1) <= x.size)
    e++;
  const long double middle = ldexpl(1.5L, e), exact = ldexpl(1, e);
  if (c->round == KERNELS_ROUND_UP) e += x.size > exact;
  if (c->round == KERNELS_ROUND_NEAREST) e += x.size >= middle;
  return e > 127 ? c->saturate ? 254 : 255 : (uint64_t)(e + 127);
}

static uint64_t expected(uint64_t bits, const struct kernels_cast *c, bool *open) {
  const enum dtype from = (enum dtype)c->from, to = (enum dtype)c->to;
  *open = false;
  if (from == to && to != DTYPE_BOOL) return bits & mask_of(to);
  const struct number x = read_number(bits, from);
  if (to == DTYPE_BOOL) return x.nan || x.infinite || x.size != 0;
  if (dtype_is_integer(to) && dtype_is_integer(from)) {
    const uint64_t size = (uint64_t)x.size;
    return (x.negative ? 0 - size : size) & mask_of(to);
  }
  if (dtype_is_integer(to)) return to_integer(x, to, open);
  return to == DTYPE_FLOAT8E8M0 ? to_e8m0(x, c, open) : to_float(x, c, open);
}

// ---- cases -------------------------------------------------------------------------------------

static struct guarded in_pages, out_pages;
static uint8_t inputs[MOST * 8], wanted[MOST * 8];
static bool opens[MOST];
static struct kernels_cast cast;

// Bits of any kind; of floats, half of the time with exponents around those of the small types, and
// now and then just beside or exactly on a tie of few bits; of integers, of all lengths.
static uint64_t random_bits(enum dtype t) {
  uint64_t x = random_64();
  const unsigned bits = dtype_bits(t), kind = (unsigned)random_64() % 8;
  if (dtype_is_integer(t)) {
    x >>= random_64() % bits;
    if (kind == 1) x = (x | 1) << (random_64() % bits);
    if (kind == 2) x = 0 - x;
    return kind == 3 ? x + (random_64() & 1) : x;
  }
  if (bits < 16 || kind == 0) return x;
  const struct layout *l = &layouts[t];
  const uint64_t fraction = x & ((UINT64_C(1) << l->mantissa) - 1), sign = (x >> 63) << (bits - 1);
  if (kind == 1) return sign | l->infinity | (random_64() % 2 ? fraction : 0);
  if (kind == 2) return sign | (fraction & (random_64() % 4)); // zeros and the smallest
  uint64_t exponent = (uint64_t)(l->bias - 30) + random_64() % 60;
  if (l->bias < 30) exponent = random_64() % 31;
  if (kind == 3 && l->bias > 127) exponent = 1023 - 140 + random_64() % 280;
  uint64_t m = fraction;
  if (kind >= 5) { // few bits, and perhaps a little more or less
    const unsigned keep = 1 + (unsigned)random_64() % 9;
    m = keep < (unsigned)l->mantissa ? m >> (l->mantissa - (int)keep) << (l->mantissa - (int)keep)
                                     : m;
    if (kind == 6) m ^= 1;
    if (kind == 7 && m) m--;
  }
  return sign | exponent << l->mantissa | m;
}

static void check_size(size_t from, size_t n, unsigned where) {
  const size_t in_width = width_of((enum dtype)cast.from),
               out_width = width_of((enum dtype)cast.to);
  uint8_t *in = guarded_at(&in_pages, n * in_width + (where == 2), where == 1) + (where == 2);
  uint8_t *out = guarded_at(&out_pages, n * out_width + (where == 2), where == 1) + (where == 2);
  uint64_t open = 0;
  memcpy(in, inputs + from * in_width, n * in_width);
  memset(out, JUNK, n * out_width);
  const uint64_t got_open = kernels_convert(out, in, n, &cast);
  for (size_t i = 0; i < n; i++) {
    open += opens[from + i];
    if (memcmp(out + i * out_width, wanted + (from + i) * out_width, out_width) == 0) continue;
    uint64_t x = 0, got = 0, want = 0;
    memcpy(&x, in + i * in_width, in_width);
    memcpy(&got, out + i * out_width, out_width);
    memcpy(&want, wanted + (from + i) * out_width, out_width);
    fail_msg("%s %#llx to %s (saturate %d, round %d): %#llx, not %#llx, on %s",
             dtype_name((enum dtype)cast.from), (unsigned long long)x,
             dtype_name((enum dtype)cast.to), cast.saturate, cast.round, (unsigned long long)got,
             (unsigned long long)want, kernels_isa_name());
  }
  assert_int_equal(got_open, open);
}

static void check_all_sizes(void) {
  check_size(0, MOST, 1);
  for (size_t i = 0; i < SIZES; i++) {
    const size_t n = random_64() % 40;
    check_size(random_64() % (MOST - n), n, (unsigned)(i % 3));
  }
}

static void check_cast(void) {
  const size_t out_width = width_of((enum dtype)cast.to),
               in_width = width_of((enum dtype)cast.from);
  for (size_t i = 0; i < MOST; i++) {
    uint64_t x = 0;
    memcpy(&x, inputs + i * in_width, in_width);
    const uint64_t y = expected(x, &cast, &opens[i]);
    memcpy(wanted + i * out_width, &y, out_width);
  }
  for_each_feature_set(check_all_sizes);
}

static void test_all_pairs(void **state) {
  (void)state;
  for (int from = 1; from < TYPES; from++) {
    if (!kernels_convert_takes((enum dtype)from)) continue;
    const size_t width = width_of((enum dtype)from);
    for (size_t i = 0; i < MOST; i++) {
      const uint64_t x = random_bits((enum dtype)from);
      memcpy(inputs + i * width, &x, width);
    }
    for (int to = 1; to < TYPES; to++) {
      if (!kernels_convert_takes((enum dtype)to)) continue;
      const bool rounds = to == DTYPE_FLOAT8E8M0;
      for (int how = 0; how < (rounds ? 6 : 2); how++) {
        cast = (struct kernels_cast){(uint8_t)from, (uint8_t)to, how & 1, (uint8_t)(how / 2)};
        check_cast();
      }
    }
  }
}

// ---- what onnx makes of it ---------------------------------------------------------------------

static size_t n_inputs, n_rows;

// Words of hexadecimal digits to wide elements; "-" is an open one.
static size_t read_words(const char *at, uint8_t *out, size_t width, bool *open) {
  size_t n = 0;
  while (*at) {
    char *end = NULL;
    open[n] = *at == '-';
    const uint64_t x = open[n] ? 0 : strtoull(at, &end, 16);
    memcpy(out + n * width, &x, width);
    at = open[n] ? at + 1 : end;
    while (*at == ' ')
      at++;
    n++;
  }
  return n;
}

static void given_inputs(enum dtype from, const char *words) {
  n_inputs = read_words(words, inputs, width_of(from), opens);
  cast.from = (uint8_t)from;
}

static void given_cast(enum dtype from, enum dtype to, bool saturate, const char *words) {
  assert_int_equal(from, cast.from);
  cast = (struct kernels_cast){.from = (uint8_t)from, .to = (uint8_t)to, .saturate = saturate};
  assert_int_equal(read_words(words, wanted, width_of(to), opens), n_inputs);
  check_size(0, n_inputs, 0);
  n_rows++;
}

static void test_onnx(void **state) {
  (void)state;
#define FROM(from, words) given_inputs(DTYPE_##from, words);
#define CAST(from, to, saturate, words) given_cast(DTYPE_##from, DTYPE_##to, saturate, words);
#include "casts.def"
#undef FROM
#undef CAST
  assert_true(n_rows > 600);
}

// Rounding twice would make the even neighbour of these.
static void test_rounds_once(void **state) {
  (void)state;
  const int64_t integer = (INT64_C(1) << 40) + (INT64_C(1) << 32) + 1;
  const int64_t longer = -(INT64_C(1) << 60) - (INT64_C(1) << 52) - 1; // no double holds it
  const double real = 1 + 0x1p-4 + 0x1p-40;
  uint16_t half;
  uint8_t code;
  cast = (struct kernels_cast){.from = DTYPE_INT64, .to = DTYPE_BFLOAT16};
  assert_int_equal(kernels_convert(&half, &integer, 1, &cast), 0);
  assert_int_equal(half, 0x5381);
  assert_int_equal(kernels_convert(&half, &longer, 1, &cast), 0);
  assert_int_equal(half, 0xdd81);
  cast = (struct kernels_cast){.from = DTYPE_DOUBLE, .to = DTYPE_FLOAT8E4M3FN};
  assert_int_equal(kernels_convert(&code, &real, 1, &cast), 0);
  assert_int_equal(code, 0x39);
}

static void test_takes(void **state) {
  (void)state;
  assert_false(kernels_convert_takes(DTYPE_STRING));
  assert_false(kernels_convert_takes(DTYPE_COMPLEX64));
  assert_false(kernels_convert_takes(DTYPE_COMPLEX128));
  assert_false(kernels_convert_takes(DTYPE_UNDEFINED));
  assert_true(kernels_convert_takes(DTYPE_FLOAT6E3M2));
  assert_true(kernels_convert_takes(DTYPE_BOOL));
}

static int open_pages(void **state) {
  (void)state;
  in_pages = guarded_open(MOST * 8 + 1);
  out_pages = guarded_open(MOST * 8 + 1);
  return 0;
}

static int close_pages(void **state) {
  (void)state;
  guarded_close(&in_pages);
  guarded_close(&out_pages);
  return 0;
}

int test_convert(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_takes),
      cmocka_unit_test(test_rounds_once),
      cmocka_unit_test(test_onnx),
      cmocka_unit_test(test_all_pairs),
  };
  return cmocka_run_group_tests(tests, open_pages, close_pages);
}
