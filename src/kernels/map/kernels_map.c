// Elementwise operations: which loop, on what, in pieces.
//
// A loop takes arrays of one C type. What is not such an array becomes one, CHUNK elements at a
// time, in buffers on the stack that stay in the nearest cache:
//
//   one element for all          CHUNK copies of it, once
//   float16, bfloat16            float; of functions, double
//   float, of functions          double
//
//   operand ──▶ (buffer) ──loop──▶ (buffer) ──▶ result
//
// The conversions are those of kernels_convert: exact to the wider side, rounded once on the way
// back. So a function of a half is its value in double, rounded to the half.
#include "kernels/map/kernels_map.h"

#include "kernels/convert/kernels_convert.h"
#include "kernels/map/inside/functions.h"
#include "kernels/map/inside/map_loops.h"

#include <assert.h>
#include <string.h>

enum { CHUNK = 512, MOST_OPERANDS = 3 };

// A chunk of elements of any type.
union chunk {
  double d[CHUNK];
  uint8_t b[CHUNK * 8];
};

static size_t width_of(enum dtype t) {
  return dtype_bits(t) < 8 ? 1 : dtype_bits(t) / 8;
}

unsigned kernels_map_operands(enum kernels_map op) {
  return op == KERNELS_WHERE ? 3 : op < KERNELS_NEG ? 2 : 1;
}

static bool compares(enum kernels_map op) {
  return op >= KERNELS_EQUAL && op <= KERNELS_GREATER_EQUAL;
}

// ---- loops -------------------------------------------------------------------------------------

// Of doubles, on behalf of every type of float.
static map_loop *function_loop(enum kernels_map op) {
  switch (op) {
  case KERNELS_EXP: return functions_exp;
  case KERNELS_LOG: return functions_log;
  case KERNELS_ERF: return functions_erf;
  case KERNELS_TANH: return functions_tanh;
  case KERNELS_SIGMOID: return functions_sigmoid;
  case KERNELS_POW: return functions_pow;
  default: return NULL;
  }
}

// GREATER and GREATER_EQUAL as what they are of exchanged operands.
static enum kernels_map without_greater(enum kernels_map op) {
  return op == KERNELS_GREATER         ? KERNELS_LESS
         : op == KERNELS_GREATER_EQUAL ? KERNELS_LESS_EQUAL
                                       : op;
}

// A loop, and the type of the arrays it takes.
struct way {
  map_loop *loop;
  enum dtype type;
};

static struct way way_of(enum kernels_map op, enum dtype type) {
  op = without_greater(op);
  if (dtype_is_integer(type)) return (struct way){map_integers_loop(op, type), type};
  if (type != DTYPE_FLOAT && type != DTYPE_DOUBLE && type != DTYPE_FLOAT16 &&
      type != DTYPE_BFLOAT16)
    return (struct way){NULL, type};
  map_loop *function = op == KERNELS_POW && type == DTYPE_DOUBLE ? NULL : function_loop(op);
  if (function) return (struct way){function, DTYPE_DOUBLE};
  const enum dtype in = type == DTYPE_DOUBLE ? DTYPE_DOUBLE : DTYPE_FLOAT;
  return (struct way){map_floats_loop(op, in), in};
}

enum dtype kernels_map_result(enum kernels_map op, enum dtype type) {
  if (op == KERNELS_WHERE) return width_of(type) <= 8 && dtype_bits(type) ? type : DTYPE_UNDEFINED;
  if (!way_of(op, type).loop) return DTYPE_UNDEFINED;
  return compares(op) ? DTYPE_BOOL : type;
}

// ---- operands ----------------------------------------------------------------------------------

// An operand on its way to a loop.
struct feed {
  const uint8_t *at;
  enum dtype type, wanted;
  bool one;         // for all, in `held` from the start
  bool direct;      // the loop may read it where it lies
  union chunk held; // what the loop reads
};

static void convert(void *out, enum dtype to, const void *in, enum dtype from, size_t n) {
  const struct kernels_cast cast = {.from = (uint8_t)from, .to = (uint8_t)to};
  const uint64_t open = kernels_convert(out, in, n, &cast);
  assert(open == 0); // between floats none is
}

static void feed_open(struct feed *f, struct kernels_operand from, enum dtype type,
                      enum dtype wanted, size_t n) {
  assert(from.stride <= 1);
  f->at = from.at;
  f->type = type;
  f->wanted = wanted;
  f->one = from.stride == 0;
  f->direct = type == wanted;
  if (!f->one || n == 0) return;
  const size_t width = width_of(wanted), bytes = width * (n < CHUNK ? n : CHUNK);
  if (f->direct)
    memcpy(&f->held, f->at, width);
  else
    convert(&f->held, wanted, f->at, type, 1);
  for (size_t have = width; have < bytes; have *= 2)
    memcpy(f->held.b + have, &f->held, have < bytes - have ? have : bytes - have);
}

// Elements [first, first + n), n <= CHUNK.
static const void *feed_next(struct feed *f, size_t first, size_t n) {
  if (f->one) return &f->held;
  const uint8_t *at = f->at + first * width_of(f->type);
  if (f->direct) return at;
  convert(&f->held, f->wanted, at, f->type, n);
  return &f->held;
}

// ---- choice between two ------------------------------------------------------------------------

#define CHOICE(bits)                                                                               \
  typedef uint##bits##_t mem_##bits __attribute__((aligned(1), may_alias));                        \
  static void choose_##bits(void *out, const uint8_t *which, const void *a, const void *b,         \
                            size_t n) {                                                            \
    mem_##bits *o = out;                                                                           \
    const mem_##bits *x = a, *y = b;                                                               \
    MAP_TURNS_APART                                                                                \
    for (size_t i = 0; i < n; i++) {                                                               \
      const uint##bits##_t yes = x[i], no = y[i];                                                  \
      o[i] = which[i] ? yes : no;                                                                  \
    }                                                                                              \
  }
CHOICE(8)
CHOICE(16)
CHOICE(32)
CHOICE(64)

static void choose(void *out, const uint8_t *which, const void *a, const void *b, size_t n,
                   size_t width) {
  switch (width) {
  case 1: choose_8(out, which, a, b, n); break;
  case 2: choose_16(out, which, a, b, n); break;
  case 4: choose_32(out, which, a, b, n); break;
  default: choose_64(out, which, a, b, n); break;
  }
}

static void map_where(enum dtype type, uint8_t *out, const struct kernels_operand *operands,
                      size_t n) {
  const size_t width = width_of(type);
  struct feed which, a, b;
  feed_open(&which, operands[0], DTYPE_BOOL, DTYPE_BOOL, n);
  feed_open(&a, operands[1], type, type, n);
  feed_open(&b, operands[2], type, type, n);
  for (size_t at = 0; at < n; at += CHUNK) {
    const size_t m = n - at < CHUNK ? n - at : CHUNK;
    choose(out + at * width, feed_next(&which, at, m), feed_next(&a, at, m), feed_next(&b, at, m),
           m, width);
  }
}

// ---- one operation -----------------------------------------------------------------------------

uint64_t kernels_map(enum kernels_map op, enum dtype type, void *out,
                     const struct kernels_operand *operands, size_t n) {
  const enum dtype result = kernels_map_result(op, type);
  assert(result);
  uint8_t *put = out;
  if (op == KERNELS_WHERE) {
    map_where(type, put, operands, n);
    return 0;
  }
  const struct way way = way_of(op, type);
  const bool two = kernels_map_operands(op) == 2, swapped = op != without_greater(op);
  const bool direct = compares(op) || result == way.type;
  struct feed a, b;
  feed_open(&a, operands[swapped], type, way.type, n);
  if (two) feed_open(&b, operands[!swapped], type, way.type, n);
  union chunk made;
  uint64_t open = 0;
  for (size_t at = 0; at < n; at += CHUNK) {
    const size_t m = n - at < CHUNK ? n - at : CHUNK;
    const void *x = feed_next(&a, at, m), *y = two ? feed_next(&b, at, m) : x;
    open += way.loop(direct ? put : made.b, x, y, m);
    if (!direct) convert(put, result, &made, way.type, m);
    put += m * width_of(result);
  }
  return open;
}
