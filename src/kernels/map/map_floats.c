// Operations on float and double that IEEE 754 defines to the last bit, and those that are made of
// bits: nothing here can differ between machines but the NaN that an operation hands on, and every
// result that is NaN is replaced by one and the same.
//
// The loops are those of map_reals.h, once for each type. Of most the compiler makes vectors of SSE2
// or NEON, which every machine of its kind has; wider ones would wait for memory all the same.
#include "kernels/map/inside/map_loops.h"

#include <math.h>
#include <string.h>

typedef float mem_f32 __attribute__((aligned(1), may_alias));
typedef double mem_f64 __attribute__((aligned(1), may_alias));

#define REAL(name) name##_f32
#define real float
#define bits uint32_t
#define SIGN UINT32_C(0x80000000)
#define QUIET UINT32_C(0x7fc00000)
#define MAGIC 0x1p23f
#define SQUARE_ROOT sqrtf
#include "kernels/map/inside/map_reals.h"

#define REAL(name) name##_f64
#define real double
#define bits uint64_t
#define SIGN UINT64_C(0x8000000000000000)
#define QUIET UINT64_C(0x7ff8000000000000)
#define MAGIC 0x1p52
#define SQUARE_ROOT sqrt
#include "kernels/map/inside/map_reals.h"

map_loop *map_floats_loop(enum kernels_map op, enum dtype type) {
  return type == DTYPE_DOUBLE ? loops_f64[op] : loops_f32[op];
}
