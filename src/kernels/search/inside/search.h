// Inside the room: what the variants of the rules beyond MLAS share. search_portable.c spells them
// out, a block at a time; search_lanes.h does sixteen blocks at a time and takes from here what
// there is one of a block: its grid.
#ifndef WEIR_SEARCH_H
#define WEIR_SEARCH_H

#include "kernels/blocks/blocks.h"

enum {
  SEARCH_STEPS = 20,      // candidates of k_quant, turns of HQQ
  SEARCH_NUMPY_SUM = 128, // elements that numpy sums without halving them
};

// HQQ: the factor of the norm in the first turn, and from each turn to the next.
#define SEARCH_BETA 10.0
#define SEARCH_BETA_GROWTH 1.01
// An error below this is cut off whole in every turn: size^1.3 < 1 / beta, beta is at most 12.21.
#define SEARCH_WHOLLY_CUT 0.14
// x^-0.1 within a tenth: its upper half of bits is SEARCH_TENTH_ROOT less a tenth of those of x. As
// doubles, which hold such numbers in their lower half of bits when 2^52 is added.
#define SEARCH_TENTH_ROOT 0x4653f000p0
#define SEARCH_SHIFT 0x1p52
#define SEARCH_SHIFT_BITS UINT64_C(0x4330000000000000)
enum { SEARCH_NEWTON = 3 };

// code = clamp(round(v / scale + zero)).
struct search_rtn {
  double scale, zero;
};
// GATHER; least, most: of the codes.
struct search_gather {
  float scale, zero, least, most;
};
// HQQ: code = clamp(round(v * inverse + zero)); `step` is 1 / inverse, and zero where the first
// turn begins.
struct search_hqq {
  double inverse, step, zero;
};

// Of a block's smallest and largest element.
struct search_rtn search_rtn_of(const struct kernels_block_format *f, float lo, float hi);
struct search_gather search_gather_of(const struct kernels_block_format *f, float lo, float hi);
struct search_hqq search_hqq_of(const struct kernels_block_format *f, float lo, float hi);
// How many steps of a grid candidate `step` of k_quant lays between a block's extremes: about
// `most`, the largest code.
float search_levels(int step, int most);
// A double rounded to a type, to nearest even.
float search_stored(double x, enum kernels_float type);
// Scale and zero point of column j's block of row k, as they are stored, to their places.
void search_put(const struct kernels_panel *p, const struct kernels_block_format *f, size_t j,
                size_t k, float scale, float zero);

// Vectors of search_lanes.h, of so many bytes (types that only a typedef can name): _f of float, _i
// and _u integers of that width, _d of double, _l and _w integers of that; _h as many floats as a
// _d has doubles, _b as many bytes as a _f has floats.
#define SEARCH_LANES(bytes)                                                                        \
  enum { LANES = (bytes) / 4, HALF = LANES / 2 };                                                  \
  typedef float lanes_f __attribute__((vector_size(bytes)));                                       \
  typedef int32_t lanes_i __attribute__((vector_size(bytes)));                                     \
  typedef uint32_t lanes_u __attribute__((vector_size(bytes)));                                    \
  typedef double lanes_d __attribute__((vector_size(bytes)));                                      \
  typedef int64_t lanes_l __attribute__((vector_size(bytes)));                                     \
  typedef uint64_t lanes_w __attribute__((vector_size(bytes)));                                    \
  typedef float lanes_h __attribute__((vector_size((bytes) / 2)));                                 \
  typedef uint8_t lanes_b __attribute__((vector_size((bytes) / 4)))

#endif
