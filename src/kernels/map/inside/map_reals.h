// Inside the room: the loops of map_floats.c for one type, included once for each:
//
//   REAL(name)      the name with the type's suffix
//   real, bits      float and uint32_t, or double and uint64_t
//   SIGN, QUIET     bits of -0 and of the NaN that results are
//   MAGIC           2^23 or 2^52: from there on numbers are integers
//
// Operations are straight code without branches, so that the compiler can make vectors of them.

static inline bits REAL(bits_of)(real x) {
  bits b;
  memcpy(&b, &x, sizeof b);
  return b;
}

static inline real REAL(of_bits)(bits b) {
  real x;
  memcpy(&x, &b, sizeof x);
  return x;
}

static inline real REAL(quiet)(real x) {
  return x == x ? x : REAL(of_bits)(QUIET);
}

static inline real REAL(sign_of)(real size, real x) {
  return REAL(of_bits)((REAL(bits_of)(size) & ~SIGN) | (REAL(bits_of)(x) & SIGN));
}

// Of equal numbers the bits differ in the sign of zeros alone.
static inline real REAL(least)(real x, real y) {
  const real equal = REAL(of_bits)(REAL(bits_of)(x) | REAL(bits_of)(y));
  const real less = x < y ? x : y;
  const real either = x == y ? equal : less;
  return x == x ? REAL(quiet)(either) : REAL(of_bits)(QUIET);
}

static inline real REAL(most)(real x, real y) {
  const real equal = REAL(of_bits)(REAL(bits_of)(x) & REAL(bits_of)(y));
  const real more = x > y ? x : y;
  const real either = x == y ? equal : more;
  return x == x ? REAL(quiet)(either) : REAL(of_bits)(QUIET);
}

// A sum with MAGIC has steps of 1, and is rounded as all sums are.
static inline real REAL(nearest)(real x) {
  const real size = REAL(of_bits)(REAL(bits_of)(x) & ~SIGN);
  const real rounded = (size + MAGIC) - MAGIC;
  return REAL(sign_of)(size < MAGIC ? rounded : size, x);
}

// By bits: compilers make a jump of a choice between numbers, and here it would often go wrong.
static inline real REAL(one_if)(bool yes) {
  return REAL(of_bits)(REAL(bits_of)(1) & (0 - (bits)yes));
}

static inline real REAL(floor)(real x) {
  const real whole = REAL(nearest)(x);
  return REAL(sign_of)(whole - REAL(one_if)(whole > x), x);
}

static inline real REAL(ceil)(real x) {
  const real whole = REAL(nearest)(x);
  return REAL(sign_of)(whole + REAL(one_if)(whole < x), x);
}

#define LOOP(name, made, expression)                                                               \
  static size_t REAL(name)(void *out, const void *a, const void *b, size_t n) {                    \
    made *o = out;                                                                                 \
    const REAL(mem) *p = a, *q = b;                                                                \
    MAP_TURNS_APART                                                                                \
    for (size_t i = 0; i < n; i++) {                                                               \
      const real x = p[i], y = q[i];                                                               \
      o[i] = expression;                                                                           \
    }                                                                                              \
    return 0;                                                                                      \
  }
#define LOOP_OF_ONE(name, expression)                                                              \
  static size_t REAL(name)(void *out, const void *a, const void *b, size_t n) {                    \
    (void)b;                                                                                       \
    REAL(mem) *o = out;                                                                            \
    const REAL(mem) *p = a;                                                                        \
    MAP_TURNS_APART                                                                                \
    for (size_t i = 0; i < n; i++) {                                                               \
      const real x = p[i];                                                                         \
      o[i] = REAL(quiet)(expression);                                                              \
    }                                                                                              \
    return 0;                                                                                      \
  }

LOOP(add, REAL(mem), REAL(quiet)(x + y))
LOOP(sub, REAL(mem), REAL(quiet)(x - y))
LOOP(mul, REAL(mem), REAL(quiet)(x *y))
LOOP(div, REAL(mem), REAL(quiet)(x / y))
LOOP(min, REAL(mem), REAL(least)(x, y))
LOOP(max, REAL(mem), REAL(most)(x, y))
LOOP(equal, uint8_t, x == y)
LOOP(less, uint8_t, x < y)
LOOP(less_equal, uint8_t, x <= y)
LOOP_OF_ONE(neg, REAL(of_bits)(REAL(bits_of)(x) ^ SIGN))
LOOP_OF_ONE(abs, REAL(of_bits)(REAL(bits_of)(x) & ~SIGN))
LOOP_OF_ONE(sign, x == x ? (real)((x > 0) - (x < 0)) : x)
LOOP_OF_ONE(relu, x <= 0 ? 0 : x)
LOOP_OF_ONE(reciprocal, 1 / x)
LOOP_OF_ONE(floors, REAL(floor)(x))
LOOP_OF_ONE(ceils, REAL(ceil)(x))
LOOP_OF_ONE(rounds, REAL(nearest)(x))

// Not vectors: a negative number takes the way through the library's function, for its errno.
static size_t REAL(roots)(void *out, const void *a, const void *b, size_t n) {
  (void)b;
  REAL(mem) *o = out;
  const REAL(mem) *p = a;
  for (size_t i = 0; i < n; i++)
    o[i] = REAL(quiet)(SQUARE_ROOT(p[i]));
  return 0;
}

static map_loop *const REAL(loops)[KERNELS_MAPS] = {
    [KERNELS_ADD] = REAL(add),      [KERNELS_SUB] = REAL(sub),
    [KERNELS_MUL] = REAL(mul),      [KERNELS_DIV] = REAL(div),
    [KERNELS_MIN] = REAL(min),      [KERNELS_MAX] = REAL(max),
    [KERNELS_EQUAL] = REAL(equal),  [KERNELS_LESS] = REAL(less),
    [KERNELS_NEG] = REAL(neg),      [KERNELS_LESS_EQUAL] = REAL(less_equal),
    [KERNELS_ABS] = REAL(abs),      [KERNELS_SIGN] = REAL(sign),
    [KERNELS_RELU] = REAL(relu),    [KERNELS_SQRT] = REAL(roots),
    [KERNELS_FLOOR] = REAL(floors), [KERNELS_RECIPROCAL] = REAL(reciprocal),
    [KERNELS_CEIL] = REAL(ceils),   [KERNELS_ROUND] = REAL(rounds),
};

#undef LOOP
#undef LOOP_OF_ONE
#undef REAL
#undef real
#undef bits
#undef SIGN
#undef QUIET
#undef MAGIC
#undef SQUARE_ROOT
