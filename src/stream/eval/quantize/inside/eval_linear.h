// Inside the evaluator: scale and zero point of FORMAT_LINEAR.
#ifndef WEIR_EVAL_LINEAR_H
#define WEIR_EVAL_LINEAR_H

#include "stream/eval/quantize/inside/eval_kept.h"
#include "stream/eval/shared/eval_cache.h"

// ---- of a range (eval_linear_grid.c) -----------------------------------------------------------

struct eval_linear_grid {
  double scale; // a value of the operand's type
  double zero;  // a code
};
// From the smallest and largest element, finite both (lo > hi: there are none). False if the type cannot
// hold the scale.
bool eval_linear_grid_of(const struct recipe_quantization *q, enum dtype type, double lo, double hi,
                         struct eval_linear_grid *g);
// The codes that an integer type has.
void eval_linear_range_of(enum dtype type, double *lo, double *hi);
// The nearest value of float32, float16 or bfloat16.
double eval_linear_round(enum dtype type, double x);
// Writes the element of a part, scales or zeros: how many bytes.
size_t eval_linear_put(const struct recipe_quantization *q, enum dtype type, enum recipe_part part,
                       const struct eval_linear_grid *g, uint8_t *out);

// ---- of a deviation (eval_linear_deviation.c) --------------------------------------------------

// A sum of floats as NumPy's, of elements that come in any pieces.
enum { EVAL_LINEAR_LEAF = 128 };
struct eval_linear_half {
  uint64_t n; // elements of both halves
  bool is_second;
  float sum; // of the first
};
struct eval_linear_sum {
  uint32_t n_halves, have, wanted;
  float sum; // when all have come
  struct eval_linear_half halves[64];
  float leaf[EVAL_LINEAR_LEAF];
};
void eval_linear_sum_begin(struct eval_linear_sum *s, uint64_t n);
void eval_linear_sum_add(struct eval_linear_sum *s, const float *v, size_t n);
// The scale of float8e4m3fn. Where all elements are equal, one that has a code for them.
bool eval_linear_spread_of(enum dtype type, double mean, double deviation,
                           struct eval_linear_grid *g);

// ---- by tensor or channel (eval_linear_ranges.c) -----------------------------------------------

// What is found of a channel: its smallest and largest element; of float8 the mean and the deviation.
struct eval_linear_pair {
  float lo, hi;
};
// Channels of the operand [outer, channels, inner] around the axis.
struct eval_linear_ranges {
  struct eval_task *t;
  struct recipe_quantization q;
  enum dtype type; // of the operand
  uint64_t count, outer, channels, inner;
  struct eval_cache_key key; // units: channels
  struct eval_kept k;
  float *lo, *hi; // of as many channels as are found together, while they are
  struct eval_linear_pair *pairs;
  uint64_t first, end; // channels that are there
  uint64_t bad;        // elements of them that are NaN or infinite
  struct eval_linear_sum sum;
};
// Of operand `of`; memory for arrays and elements is the caller's to give.
void eval_linear_ranges_of(struct eval_linear_ranges *z, struct eval_task *t, uint32_t of,
                           const struct recipe_quantization *q);
// Bytes of the arrays, a channel.
enum { EVAL_LINEAR_CHANNEL = 2 * sizeof(float) + sizeof(struct eval_linear_pair) };
// Arrays of `room` channels at memory for 4 floats each.
void eval_linear_ranges_share(struct eval_linear_ranges *z, uint8_t *at, uint64_t room);
// Pairs of channels [first, end): known to the cache, or found by a look at their elements. Those that come
// from place `keep` on are kept for codes (EVAL_LINEAR_KEEP_NONE: none are). Elements of channels that lie in every row
// beside others are a stripe, until the next call.
#define EVAL_LINEAR_KEEP_NONE UINT64_MAX
int eval_linear_ranges_find(struct eval_linear_ranges *z, uint64_t first, uint64_t end,
                            uint64_t keep, struct err *err);
// The grid of a channel that is there.
int eval_linear_ranges_grid(const struct eval_linear_ranges *z, uint64_t channel,
                            struct eval_linear_grid *g, struct err *err);

// Scales or zero points of a row of FORMAT_LINEAR without blocks, through the box of its recipe.
int eval_linear_range_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                               uint64_t count, uint8_t *out, struct err *err);

// ---- in blocks (eval_linear_blocks.c) ----------------------------------------------------------

// Scales or zero points of a row of FORMAT_LINEAR that has blocks, through the box of its recipe.
int eval_linear_block_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                               uint64_t count, uint8_t *out, struct err *err);

#endif
