// Room: arithmetic between buffers. Families and their ISA variants are rows of kernels.def; every
// variant gives the bytes of the portable reference. Pointers need no alignment; nothing is read or
// written outside the given rectangles.
#ifndef WEIR_KERNELS_H
#define WEIR_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Instruction set features, as a mask, so that tests can take some away.
enum kernels_feature { KERNELS_AVX2 = 1, KERNELS_AVX512 = 2, KERNELS_NEON = 4, KERNELS_SHA = 8 };
uint32_t kernels_features(void); // what this machine has, less what was masked
void kernels_mask(
    uint32_t features); // only these (and what the machine has) from now on; not thread-safe
const char *kernels_isa_name(void); // "avx512", "avx2", "neon", "portable"

// out[c * out_stride + r] = in[r * in_stride + c] for r < rows, c < cols; elements of `width` bytes
// (1, 2, 4, 8, 16), strides in elements.
void kernels_transpose(void *out, size_t out_stride, const void *in, size_t in_stride, size_t rows,
                       size_t cols, unsigned width);

// Elementwise float conversions, round to nearest even, NaN payload: quiet, sign and top payload
// bits kept; out-of-range becomes infinity.
void kernels_f32_to_f16(uint16_t *out, const float *in, size_t n);
void kernels_f32_to_bf16(uint16_t *out, const float *in, size_t n);
void kernels_f16_to_f32(float *out, const uint16_t *in, size_t n);
void kernels_bf16_to_f32(float *out, const uint16_t *in, size_t n);
void kernels_f64_to_f32(float *out, const double *in, size_t n);
void kernels_f32_to_f64(double *out, const float *in, size_t n);
// Straight from double: no double rounding.
void kernels_f64_to_f16(uint16_t *out, const double *in, size_t n);
void kernels_f64_to_bf16(uint16_t *out, const double *in, size_t n);

// ---- blockwise quantization ---------------------------------------------------------------------
//
// A matrix W of K rows and N columns is cut along K into blocks of `block` elements (the last one
// may be shorter); every block gets a scale and a zero point, every element a code of `bits` bits:
// element ~ (code - zero) * scale. The arithmetic is IEEE float32 without contraction, that of ONNX
// Runtime's MLAS:
//
//   asymmetric  lo = min(0, block), hi = max(0, block); s = (hi - lo) / qmax; zero = round(-lo / s),
//               clamped; scale = s as `scale_type` stores it
//   symmetric   m = the one of lo, hi (not extended to 0) of larger magnitude, lo on a tie; scale = -m / 2^(bits-1)
//   r = scale != 0 ? 1 / scale : 0, from the stored scale; round() is half away from zero
//   KERNELS_NBITS   code = clamp(round(v * r + zero), 0, qmax); symmetric: zero = 2^(bits-1)
//   KERNELS_QDQ     code = clamp(round(v * r) + zero, qmin, qmax); symmetric: signed codes, zero 0
//
// Of zeros of both signs the first in order of k is the extreme (a symmetric scale of a block of
// zeros shows it). NaN is passed over by minimum and maximum; as a code it is the least one.
// Finite, infinite and NaN elements alike give what MLAS gives on x86-64 (blocks_portable.c spells
// it out).
//
// For bfloat16 weights ONNX Runtime computes with scales of float32 and rounds them to bfloat16
// afterwards: in_type KERNELS_BF16 with scale_type KERNELS_F32, the caller rounding, gives its
// bytes.
//
// Further rules, of finite elements (numbers equal those of ONNX Runtime's Python code unless
// said):
//   KERNELS_GATHER   codes and layout of QDQ; IEEE arithmetic of in_type, every step rounded to it, true division,
//                    round() half to even: asymmetric s = (hi - lo) / qmax, zero = clamp(round(-lo / s)), code =
//                    clamp(round(v / s + zero)), s = 0: zero and codes 2^(bits-1); symmetric s = m / -2^(bits-1) (m as
//                    above), code = clamp(round(v / s)). scale_type is not looked at: it is in_type
//   KERNELS_RTN, KERNELS_K_QUANT, KERNELS_HQQ   layout of NBITS; a short last block is filled up with zeros,
//                    which take part in everything and whose codes are written (error figures leave them out)
//   KERNELS_RTN      lo, hi not extended to 0; s (double) = (hi - lo in in_type) / qmax, 1 if lo = hi; zero =
//                    clamp(round(-lo / s)); symmetric: s = 2 max(|lo|, |hi|) / qmax, zero = 2^(bits-1); code =
//                    clamp(round(v / s + zero)) in double
//   KERNELS_K_QUANT  scale and offset by the weighted search of llama.cpp in 20 steps, sums in numpy's pairwise
//                    order; always with zero points, `symmetric` is not looked at
//   KERNELS_HQQ      a float zero point (to float_zeros; zeros is not looked at) by half-quadratic
//                    splitting, 20 turns. ONNX Runtime stops all blocks of a tensor together, by their mean error, and
//                    keeps the last turn; here each block keeps its own best, and needs nothing but itself. double
//                    throughout; |e|^-0.3 by Newton's method (search_portable.c), within 3 parts in 10^7
//   KERNELS_K_QUANT_BEST  of each block what K_QUANT makes, or RTN (asymmetric), or RTN with lo, hi extended to 0: the
//                    one with the least squared error over the weight's own elements, with the stored scale, in
//                    double; no rule of ONNX Runtime
enum kernels_rule {
  KERNELS_NBITS,
  KERNELS_QDQ,
  KERNELS_GATHER,
  KERNELS_RTN,
  KERNELS_K_QUANT,
  KERNELS_HQQ,
  KERNELS_K_QUANT_BEST
};
enum kernels_float { KERNELS_F32, KERNELS_F16, KERNELS_BF16 };

struct kernels_block_format {
  uint8_t rule;       // enum kernels_rule
  uint8_t bits;       // 2, 4 or 8
  bool symmetric;     //
  uint8_t in_type;    // enum kernels_float: of the elements; widened exactly to float32 first
  uint8_t scale_type; // enum kernels_float: what scales are rounded to (nearest even) before use
  size_t block;       // elements; QDQ, GATHER: any, from 1; others: 16, 32, 64, 128 or 256
};

// Error figures of one column of W (one row of codes). v: an element, e: v minus what its code
// stands for, (code - zero) * scale; products and e are float32. Sums are made of pieces: a block,
// or 256 elements at a time from its start, the last one shorter. A piece adds in eight lanes of
// float32 (element k of the piece in lane k mod 8, in order of k), reduced as
// ((0+4)+(2+6))+((1+5)+(3+7)); pieces are added in double, in order. (Doubles throughout would cost
// more than the quantization, and differ in the seventh digit.) Where |scale| is not in 2^-50 ..
// 2^40, so that squares might leave the range of float32, lanes and products are double. Begin with
// zeros. NaNs in them are the quiet one of positive sign.
struct kernels_sums {
  double vv, ee, ve;  // sums of v*v, e*e, v*e
  float max_error;    // largest |e|; NaN if any is NaN
  uint32_t nonfinite; // elements that are NaN or infinite, saturating
};

// What is fast: rows: k of sixteen blocks or a multiple. Columns: n a multiple of 64, k as many
// whole lines of codes (64 bytes of a column: 128 rows at 4 bits) and blocks (16 to a line of
// scales) as can be had, up to 1024 rows; a panel of 256 rows and all columns, say. Outputs of
// neighbouring columns may lie any stride apart. Either way elements and outputs at multiples of 64
// bytes. Blocks of more than 256 elements are faster by kernels_range_* and kernels_codes_*. The
// further rules take sixteen blocks at a time: of a row and the rows behind it, or of columns.
//
// A panel: elements of columns 0..n-1 and rows 0..k-1 of W. Only the last panel of a matrix may
// have a k that is no multiple of block * 8 / bits (NBITS: the codes of that many rows are packed
// together); where all blocks of the matrix are whole, multiples of block will do.
struct kernels_panel {
  const void *in;
  size_t in_stride; // rows: elements from one column of W to the next (its elements are
                    // contiguous along k); columns: elements from one row of W to the next
  size_t n, k;
  // NBITS: packed codes of column j begin at codes + j * codes_stride: element k at bits
  // (k mod 8/bits) * bits of byte k / (8/bits), low bits first. Bytes are written for
  // ceil(k / block) whole blocks: those behind the last element are 0; the unused bits of its own
  // byte repeat those of the byte before, as MLAS leaves them (0 if that byte begins a group of
  // 8/bits blocks).
  // QDQ: one byte a code, in the place of its element: rows: codes[j * codes_stride + k],
  // columns: codes[k * codes_stride + j]; signed codes in two's complement, high bits clear below 8
  // bits.
  uint8_t *codes; // NULL: not wanted
  size_t codes_stride;
  // One a block, float32 holding the stored scale, and the zero point (NBITS symmetric: 2^(bits-1),
  // QDQ symmetric: 0): rows and columns alike at [j * blocks_stride + block]. NULL: not wanted
  // (kernels_codes_* read them: scales must be there, zeros unless symmetric).
  float *scales;
  uint8_t *zeros;
  size_t blocks_stride;
  struct kernels_sums *sums; // of column j, added to; NULL: not wanted
  float *float_zeros;        // HQQ: as zeros (stored as scales are); NULL: not wanted
};

// Every variant gives the portable reference's bytes, sums included.
void kernels_quantize_rows(const struct kernels_panel *p, const struct kernels_block_format *f);
void kernels_quantize_columns(const struct kernels_panel *p, const struct kernels_block_format *f);
// Codes with scales and zeros that are given (column j: p->scales[j * blocks_stride], p->zeros
// likewise): the whole panel is one block, or a part of one, f->block is not looked at. QDQ only;
// for blocks that do not fit a panel (one of all K rows, say), after kernels_range_* over all of
// its panels. Sums: pieces begin anew at every panel.
void kernels_codes_rows(const struct kernels_panel *p, const struct kernels_block_format *f);
void kernels_codes_columns(const struct kernels_panel *p, const struct kernels_block_format *f);
// Smallest and largest element of each column of a panel, NaN passed over, joined to lo[j], hi[j]
// (begin with FLT_MAX and -FLT_MAX; panels in order of k, see zeros above); and scale and zero
// point (NBITS symmetric: 2^(bits-1), QDQ symmetric: 0) from them. Of *p only in, in_stride, n and
// k matter.
void kernels_range_rows(const struct kernels_panel *p, enum kernels_float in_type, float *lo,
                        float *hi);
void kernels_range_columns(const struct kernels_panel *p, enum kernels_float in_type, float *lo,
                           float *hi);
void kernels_scale_zero(const struct kernels_block_format *f, float lo, float hi, float *scale,
                        uint8_t *zero);

// ---- affine quantization by tensor or channel ---------------------------------------------------
//
// The arithmetic of ONNX Shrink Ray, which is that of NumPy on arrays of the weight's type T: every
// operation is rounded to T by itself.
//
//   step = clamp(rint(x * inverse * steps) + zero, lo, hi)       rint: half to even
//   code = step                                                  as int8
//   level = (trunc(step) - offset) * scale                       in double
//
// All fields are values of T, but `offset`, a double. Elements and fields are finite.
struct kernels_affine {
  double inverse, steps, zero, lo, hi; // T
  double offset, scale;                // of levels
};
// T is float; float holding a half, every operation rounded to half; double.
void kernels_affine_codes_f32(int8_t *out, const float *in, size_t n,
                              const struct kernels_affine *a);
void kernels_affine_codes_f16(int8_t *out, const float *in, size_t n,
                              const struct kernels_affine *a);
void kernels_affine_codes_f64(int8_t *out, const double *in, size_t n,
                              const struct kernels_affine *a);
void kernels_affine_levels_f32(double *out, const float *in, size_t n,
                               const struct kernels_affine *a);
void kernels_affine_levels_f16(double *out, const float *in, size_t n,
                               const struct kernels_affine *a);
void kernels_affine_levels_f64(double *out, const double *in, size_t n,
                               const struct kernels_affine *a);
// The arithmetic of ONNX's QuantizeLinear: code = clamp(rint(x / scale) + zero, lo, hi).
void kernels_affine_divide(uint8_t *out, const float *in, size_t n, float scale, float zero,
                           float lo, float hi);

// ONNX's QuantizeLinear of elements with parameters that are given: code = clamp(rint(x / scale) + zero, lo,
// hi), rint half to even, each operation rounded to float. Scales and zero points are one for all, or one
// for each element. Elements should be finite: false if one is not (all codes are written). Scales are
// finite and not 0.
struct kernels_linear {
  const float *scales, *zeros; // zeros NULL: 0
  bool each;
  float lo, hi;
  uint8_t width; // bytes of a code: 1 or 2
};
bool kernels_linear_codes(void *out, const float *in, size_t n, const struct kernels_linear *m);
// To int32, without zero points: the quotient is a double, and lo and hi are not looked at.
bool kernels_linear_int32(void *out, const float *in, size_t n, const struct kernels_linear *m);
// x / scale alone.
bool kernels_linear_quotients(float *out, const float *in, size_t n,
                              const struct kernels_linear *m);

// Joins smallest and largest of n elements to *lo and *hi; gives how many are NaN or infinite,
// which join nothing.
size_t kernels_affine_range_f32(const float *in, size_t n, float *lo, float *hi);
// The same of n columns, one element of each.
size_t kernels_linear_ranges(const float *in, size_t n, float *lo, float *hi);
size_t kernels_affine_range_f64(const double *in, size_t n, double *lo, double *hi);

// ---- error figures of pairs ---------------------------------------------------------------------
//
// v: an element, w: what its stored form stands for, e = v - w; products and sums are double. Pair
// number i of a chunk adds in lane i mod 8, lanes add in order of i: a chunk may come in any
// pieces. Begin with zeros.
enum { KERNELS_LANES = 8 };
struct kernels_lanes {
  double vv[KERNELS_LANES], ee[KERNELS_LANES], ve[KERNELS_LANES]; // sums of v*v, e*e, v*e
  double max_error[KERNELS_LANES];                                // largest |e|
};
// Adds n pairs, the first of them number `first` of the chunk. False, and nothing added, if an e is
// not finite.
bool kernels_figure_pairs(struct kernels_lanes *sums, size_t first, const double *v,
                          const double *w, size_t n);
// What codes of a byte stand for, in double: int8 code * scale + zero, uint8 (code - zero) * scale.
struct kernels_stored {
  bool is_unsigned;
  double scale, zero; // finite
};
void kernels_codes_values(double *out, const uint8_t *codes, size_t n,
                          const struct kernels_stored *m);
// kernels_figure_pairs of floats and what their codes stand for.
bool kernels_figure_pairs_codes(struct kernels_lanes *sums, size_t first, const float *v,
                                const uint8_t *codes, size_t n, const struct kernels_stored *m);
// What codes of QDQ stand for: code i (of its low bits, signed or not) minus zeros[i / share], times
// scales[i / share], rounded to float as a DequantizeLinear computes it (a code may be exact there,
// and is not told as an error).
struct kernels_scaled {
  uint8_t bits;
  bool is_signed;
  size_t share; // neighbours that have a scale together; 1: each its own
  const float *scales;
  const uint8_t *zeros; // NULL: 0
};
void kernels_scaled_values(double *out, const uint8_t *codes, size_t n,
                           const struct kernels_scaled *m);
// kernels_figure_pairs of floats and what such codes stand for. Fast where `share` is 1, or a multiple of
// the lanes and `first` one too.
bool kernels_figure_pairs_scaled(struct kernels_lanes *sums, size_t first, const float *v,
                                 const uint8_t *codes, size_t n, const struct kernels_scaled *m);

// ---- sums of products in double -----------------------------------------------------------------
//
// Every step is one fused multiply-add, rounded once, and the steps of an element come in the order of k: so
// nothing depends on how a product is cut along rows and columns, and depths may be added one after the other.
// Elements are finite, and so are the sums.

// The elements a(i, k) of a matrix: at[i * along + k * deep], floats or doubles.
struct kernels_factor {
  const void *at;
  size_t along, deep;
  bool is_double;
};
struct kernels_products {
  struct kernels_factor a, b;
  size_t rows, columns, depth;
  bool subtract;
};
enum { KERNELS_PRODUCTS_SCRATCH = 8 * 256 * (120 + 528) }; // bytes, at a multiple of 64
// c[i * stride + j] = fma(±a(i, k), b(j, k), c[i * stride + j]) for k from 0 on: i < rows, j < columns. Minus to
// subtract.
void kernels_products(double *c, size_t stride, const struct kernels_products *p, void *scratch);

// y[i] = fma(a, x[i], y[i])
void kernels_add_scaled(double *y, const double *x, double a, size_t n);

// Adds XᵀX of `rows` rows of X to tile (r, c) of the second moments of k columns (second_moments.h): x[i * stride + j],
// j < k, floats; the products of floats are exact in double, so each step rounds the sum alone. Rows that come in
// several calls give the bytes of one.
void kernels_gram(double *tile, uint64_t k, uint64_t r, uint64_t c, const float *x, size_t stride,
                  size_t rows, void *scratch);

// ---- SHA-256 of several streams -----------------------------------------------------------------
//
// Compresses `blocks` blocks of 64 bytes, at at[i], into state[i], for each of `lanes` streams (FIPS 180-4, 6.2.2;
// padding is the caller's). Any number of streams, and of blocks.
void kernels_sha256_lanes(uint32_t state[][8], const uint8_t *const at[], size_t lanes,
                          size_t blocks);
// How many streams go side by side faster than one after the other; 1: a library's one stream is faster.
size_t kernels_sha256_width(void);

#endif
