// Operations on integers, which wrap, and on bools.
//
// Where the sign has no say (sums, products, bits, equality) one loop serves both types of a width,
// on the unsigned one; where it has, each of the eight types has its own. Types below 32 bits are
// computed in uint32_t: the products of two uint16_t would overflow the int that C promotes them
// to.
#include "kernels/map/inside/map_loops.h"

#define WIDTHS(X)                                                                                  \
  X(8, uint8_t, uint32_t)                                                                          \
  X(16, uint16_t, uint32_t)                                                                        \
  X(32, uint32_t, uint32_t)                                                                        \
  X(64, uint64_t, uint64_t)
// The third: the least number.
#define SIGNED(X)                                                                                  \
  X(i8, int8_t, INT8_MIN)                                                                          \
  X(i16, int16_t, INT16_MIN)                                                                       \
  X(i32, int32_t, INT32_MIN)                                                                       \
  X(i64, int64_t, INT64_MIN)
#define UNSIGNED(X)                                                                                \
  X(u8, uint8_t, 0)                                                                                \
  X(u16, uint16_t, 0)                                                                              \
  X(u32, uint32_t, 0)                                                                              \
  X(u64, uint64_t, 0)

// Elements in memory: anywhere, of any declared type.
#define IN_MEMORY(name, type, ignored)                                                             \
  typedef type mem_##name __attribute__((aligned(1), may_alias));
WIDTHS(IN_MEMORY)
SIGNED(IN_MEMORY)
UNSIGNED(IN_MEMORY)

// static size_t name(…): out[i] = expression of x and y, elements of `in`.
#define LOOP(name, in, made, expression)                                                           \
  static size_t name(void *out, const void *a, const void *b, size_t n) {                          \
    made *o = out;                                                                                 \
    const in *p = a, *q = b;                                                                       \
    MAP_TURNS_APART                                                                                \
    for (size_t i = 0; i < n; i++) {                                                               \
      const in x = p[i], y = q[i];                                                                 \
      o[i] = (made)(expression);                                                                   \
    }                                                                                              \
    return 0;                                                                                      \
  }
#define LOOP_OF_ONE(name, in, expression)                                                          \
  static size_t name(void *out, const void *a, const void *b, size_t n) {                          \
    (void)b;                                                                                       \
    in *o = out;                                                                                   \
    const in *p = a;                                                                               \
    MAP_TURNS_APART                                                                                \
    for (size_t i = 0; i < n; i++) {                                                               \
      const in x = p[i];                                                                           \
      o[i] = (in)(expression);                                                                     \
    }                                                                                              \
    return 0;                                                                                      \
  }

#define OF_WIDTH(bits, type, wide)                                                                 \
  LOOP(add_##bits, mem_##bits, mem_##bits, (wide)x + (wide)y)                                      \
  LOOP(sub_##bits, mem_##bits, mem_##bits, (wide)x - (wide)y)                                      \
  LOOP(mul_##bits, mem_##bits, mem_##bits, (wide)x *(wide)y)                                       \
  LOOP(and_##bits, mem_##bits, mem_##bits, x &y)                                                   \
  LOOP(or_##bits, mem_##bits, mem_##bits, x | y)                                                   \
  LOOP(xor_##bits, mem_##bits, mem_##bits, x ^ y)                                                  \
  LOOP(equal_##bits, mem_##bits, mem_8, x == y)                                                    \
  LOOP_OF_ONE(not_##bits, mem_##bits, ~x)                                                          \
  LOOP_OF_ONE(neg_##bits, mem_##bits, (wide)0 - x)
WIDTHS(OF_WIDTH)

#define COMPARED(name, type, ignored)                                                              \
  LOOP(least_##name, mem_##name, mem_##name, x < y ? x : y)                                        \
  LOOP(most_##name, mem_##name, mem_##name, x > y ? x : y)                                         \
  LOOP(less_##name, mem_##name, mem_8, x < y)                                                      \
  LOOP(less_equal_##name, mem_##name, mem_8, x <= y)
SIGNED(COMPARED)
UNSIGNED(COMPARED)

#define OF_SIGNED(name, type, least)                                                               \
  LOOP_OF_ONE(sign_##name, mem_##name, (x > 0) - (x < 0))                                          \
  LOOP_OF_ONE(abs_##name, mem_##name, x < 0 ? 0 - (uint64_t)x : (uint64_t)x)                       \
  LOOP_OF_ONE(relu_##name, mem_##name, x > 0 ? x : 0)
SIGNED(OF_SIGNED)
// What has no sign is its own absolute value.
#define OF_UNSIGNED(name, type, least)                                                             \
  LOOP_OF_ONE(sign_##name, mem_##name, x > 0)                                                      \
  LOOP_OF_ONE(abs_##name, mem_##name, x)
UNSIGNED(OF_UNSIGNED)

// Quotients toward zero. Open: by 0; and the least number by -1, whose quotient is out of range.
#define DIVIDED(name, type, least)                                                                 \
  static size_t div_##name(void *out, const void *a, const void *b, size_t n) {                    \
    mem_##name *o = out;                                                                           \
    const mem_##name *p = a, *q = b;                                                               \
    size_t open = 0;                                                                               \
    for (size_t i = 0; i < n; i++) {                                                               \
      const type x = p[i], y = q[i];                                                               \
      const bool bad = y == 0 || ((least) < 0 && x == (least) && y == (type)-1);                   \
      o[i] = (type)(bad ? 0 : x / y);                                                              \
      open += bad;                                                                                 \
    }                                                                                              \
    return open;                                                                                   \
  }
SIGNED(DIVIDED)
UNSIGNED(DIVIDED)

LOOP(bool_and, mem_8, mem_8, x != 0 && y != 0)
LOOP(bool_or, mem_8, mem_8, (x | y) != 0)
LOOP(bool_xor, mem_8, mem_8, (x != 0) != (y != 0))
LOOP(bool_equal, mem_8, mem_8, (x != 0) == (y != 0))
LOOP_OF_ONE(bool_not, mem_8, x == 0)

#define ROW_OF_WIDTH(bits)                                                                         \
  [KERNELS_ADD] = add_##bits, [KERNELS_SUB] = sub_##bits, [KERNELS_MUL] = mul_##bits,              \
  [KERNELS_AND] = and_##bits, [KERNELS_OR] = or_##bits, [KERNELS_XOR] = xor_##bits,                \
  [KERNELS_EQUAL] = equal_##bits, [KERNELS_NOT] = not_##bits
#define ROW_OF_TYPE(name)                                                                          \
  [KERNELS_DIV] = div_##name, [KERNELS_MIN] = least_##name, [KERNELS_MAX] = most_##name,           \
  [KERNELS_LESS] = less_##name, [KERNELS_LESS_EQUAL] = less_equal_##name,                          \
  [KERNELS_SIGN] = sign_##name
#define ROW_OF_SIGNED(name, bits)                                                                  \
  [KERNELS_NEG] = neg_##bits, [KERNELS_ABS] = abs_##name, [KERNELS_RELU] = relu_##name

static map_loop *const loops[][KERNELS_MAPS] = {
    [DTYPE_INT8] = {ROW_OF_WIDTH(8), ROW_OF_TYPE(i8), ROW_OF_SIGNED(i8, 8)},
    [DTYPE_INT16] = {ROW_OF_WIDTH(16), ROW_OF_TYPE(i16), ROW_OF_SIGNED(i16, 16)},
    [DTYPE_INT32] = {ROW_OF_WIDTH(32), ROW_OF_TYPE(i32), ROW_OF_SIGNED(i32, 32)},
    [DTYPE_INT64] = {ROW_OF_WIDTH(64), ROW_OF_TYPE(i64), ROW_OF_SIGNED(i64, 64)},
    [DTYPE_UINT8] = {ROW_OF_WIDTH(8), ROW_OF_TYPE(u8), [KERNELS_ABS] = abs_u8},
    [DTYPE_UINT16] = {ROW_OF_WIDTH(16), ROW_OF_TYPE(u16), [KERNELS_ABS] = abs_u16},
    [DTYPE_UINT32] = {ROW_OF_WIDTH(32), ROW_OF_TYPE(u32), [KERNELS_ABS] = abs_u32},
    [DTYPE_UINT64] = {ROW_OF_WIDTH(64), ROW_OF_TYPE(u64), [KERNELS_ABS] = abs_u64},
    [DTYPE_BOOL] = {[KERNELS_AND] = bool_and,
                    [KERNELS_OR] = bool_or,
                    [KERNELS_XOR] = bool_xor,
                    [KERNELS_EQUAL] = bool_equal,
                    [KERNELS_NOT] = bool_not},
};

map_loop *map_integers_loop(enum kernels_map op, enum dtype type) {
  return (size_t)type < sizeof loops / sizeof *loops ? loops[type][op] : NULL;
}
