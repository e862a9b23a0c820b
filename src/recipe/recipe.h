// Room: recipes: the bytes of a tensor as a DAG of small operations over extents of source files.
//
// A recipe's dtype, dims and size are known without reading a byte, and any byte range of its
// elements in RAW form (little-endian, sub-byte types packed) can be produced alone
// (eval.h). Rows are immutable, canonical and shared: asking twice for the same recipe
// gives the same id, so a weight used by two nodes is transposed once.
//
//   extent     elements from source files (pieces + encoding)
//   bytes      literal elements kept in the table (small)
//   fill       one element repeated
//   reshape    other dims over the same elements in the same order (moves no byte)
//   transpose  axes permuted: out.dims[i] = in.dims[perm[i]]
//   slice      starts and (non-zero, maybe negative) steps per axis; dims say how many
//   concat     operands one after the other along an axis
//   pad        constant padding before and after per axis; the constant is one element
//   gather     elements of an operand by a small list of indices along one axis
//   cast       elementwise conversion between number types
//   quantize   one part (codes, scales, zeros) of its operand quantized by a row of formats.def
//   quantize_by  the same by a format that also looks at statistics of what the operand is multiplied with
//   awq        scales for rows of matrices that AWQ quantizes, by statistics of what they are multiplied with
//   dequantize what codes, scales and zero points stand for
//   quantize_linear codes by scales and zero points that are given: the inverse
//   map        an elementwise operation of map_ops.def on operands that broadcast
//   reduce     the sum, product, least or largest along axes, which go
//
// Construction canonicalizes: transpose of transpose composes, an identity perm or slice vanishes,
// a transpose that only moves axes of length 1 becomes a reshape, reshape of reshape collapses and
// a reshape of an extent, bytes or fill is that with other dims. What moves elements comes out above
// what computes where it can (recipe_moves.c, recipe_math.c, recipe_quantize*.c list it all). A
// constructor gives what has the same elements: often not a row of its own kind.
//
// A kind is a row of kinds.def, two functions (may there be such a row; the row in canonical form)
// and its evaluation.
#ifndef WEIR_RECIPE_H
#define WEIR_RECIPE_H

#include "base/dtype.h"
#include "base/err.h"
#include "base/source.h"
#include "base/table.h"

enum recipe_kind {
#define KIND(id, ...) RECIPE_##id,
#include "recipe/kinds.def"
  RECIPE_KINDS, // how many
};
// "extent", "transpose" …
const char *recipe_kind_name(enum recipe_kind kind);

enum {
  RECIPE_MAX_RANK = 64,
  RECIPE_MAX_DEPTH = 31, // rows one within another: what logs and plans hold, written and read
};

struct recipe {
  uint8_t kind;     // enum recipe_kind
  uint8_t dtype;    // enum dtype of the result
  uint8_t encoding; // EXTENT: enum encoding of the pieces
  uint8_t rank;
  uint32_t dims; // first dim in r->longs
  uint32_t args; // first operand (recipe ids) in r->args
  uint32_t n_args;
  uint32_t at; // EXTENT: first piece; BYTES, FILL: offset in r->bytes of the elements; else: first
               // of the numbers of its kind in r->longs (kinds.def)
  uint32_t n;  // EXTENT: pieces; BYTES: bytes; CONCAT: the axis; PAD: offset in r->bytes of its
               // element
  uint32_t depth; // rows one within another on the longest way to a leaf, both counted
  uint64_t count; // elements
  uint64_t bytes; // ceil(count * bits / 8)
};

struct recipes {
  TABLE(struct recipe, rows);
  TABLE(int64_t, longs);
  TABLE(uint32_t, args);
  TABLE(struct piece, pieces);
  TABLE(uint64_t, checkpoints); // of VARINT pieces, as in the model
  TABLE(uint8_t, bytes);
  TABLE(uint32_t, slots); // hash table over rows
};

void recipes_init(struct recipes *r);
void recipes_free(struct recipes *r);
// *to, which has no rows: the same rows with the same ids. What is added to one of them later the other does not have.
void recipes_copy(struct recipes *to, const struct recipes *from);

static inline const int64_t *recipe_dims(const struct recipes *r, uint32_t id) {
  static const int64_t none[1]; // a list, also where no recipe has dims
  return r->rows[id].rank ? r->longs + r->rows[id].dims : none;
}

bool recipe_has_dims(const struct recipes *r, uint32_t id, const int64_t *dims, uint32_t rank);

// The elements as [outer, n, inner] around an axis.
struct recipe_around {
  uint64_t outer, n, inner;
};
struct recipe_around recipe_around(const struct recipes *r, uint32_t id, uint32_t axis);

// What is below reshapes and transposes: the recipe that made the elements.
uint32_t recipe_unmoved(const struct recipes *r, uint32_t id);

// Is there room for a pass to compute more of it: its own rows, and those of the passes behind it? Of
// constructors none looks at RECIPE_MAX_DEPTH: who computes again and again from what it made asks here.
bool recipe_can_grow(const struct recipes *r, uint32_t id);

// The elements kept in the table: of BYTES, and the one of FILL and PAD. Else none.
struct span recipe_elements(const struct recipes *r, uint32_t id);

// All constructors give a recipe id. Dims, perms and ranges are the caller's promise (asserted):
// numbers from a file are checked before they come here. Sub-byte dtypes: what moves elements works on
// elements, whatever their width.
uint32_t recipe_extent(struct recipes *r, enum dtype dtype, const int64_t *dims, uint32_t rank,
                       enum encoding encoding, const struct piece *pieces, uint32_t n_pieces,
                       const uint64_t *checkpoints);
uint32_t recipe_bytes(struct recipes *r, enum dtype dtype, const int64_t *dims, uint32_t rank,
                      struct span elements);
// `element`: the element's bits in the low end of its (1..16) bytes.
uint32_t recipe_fill(struct recipes *r, enum dtype dtype, const int64_t *dims, uint32_t rank,
                     struct span element);
uint32_t recipe_reshape(struct recipes *r, uint32_t of, const int64_t *dims, uint32_t rank);
uint32_t recipe_transpose(struct recipes *r, uint32_t of, const int64_t *perm);
uint32_t recipe_slice(struct recipes *r, uint32_t of, const int64_t *starts, const int64_t *steps,
                      const int64_t *dims);
uint32_t recipe_concat(struct recipes *r, const uint32_t *of, uint32_t n, uint32_t axis);
bool recipe_can_concat(const struct recipes *r, const uint32_t *of, uint32_t n, uint32_t axis);
uint32_t recipe_pad(struct recipes *r, uint32_t of, const int64_t *befores, const int64_t *afters,
                    struct span element);
bool recipe_can_pad(const struct recipes *r, uint32_t of, const int64_t *befores,
                    const int64_t *afters, struct span element);
// The axis of a CONCAT or GATHER row.
uint32_t recipe_axis_of(const struct recipes *r, uint32_t id);

// Elements of `of` along an axis by indices, as ONNX's Gather: int32 or int64, at most
// RECIPE_INDEX_BYTES of them, from -n to n - 1. Dims: those of `of` with those of the indices in place
// of the axis. Indices that are known (bytes, fill) lie in their range, and become int64 from 0 on;
// others are checked when they are read.
enum { RECIPE_INDEX_BYTES = 64 << 10 };
uint32_t recipe_gather(struct recipes *r, uint32_t of, uint32_t indices, uint32_t axis);
bool recipe_can_gather(const struct recipes *r, uint32_t of, uint32_t indices, uint32_t axis);

// ---- arithmetic --------------------------------------------------------------------------------

// Conversions, as ONNX's Cast and kernels_convert.h define them.
enum recipe_round { RECIPE_ROUND_UP, RECIPE_ROUND_DOWN, RECIPE_ROUND_NEAREST };
struct recipe_conversion {
  enum dtype to;
  // Between float32, float16, bfloat16 and double: the largest finite value of its sign in place of
  // an infinity that a finite element would become.
  bool clips;
  bool saturates;          // to float8: what is out of range becomes the largest value
  enum recipe_round round; // to float8e8m0
};
uint32_t recipe_convert(struct recipes *r, uint32_t of, const struct recipe_conversion *c);
// Between all number types: bool, integers, floats.
bool recipe_can_convert(enum dtype from, enum dtype to);
struct recipe_conversion recipe_conversion_of(const struct recipes *r,
                                              uint32_t id); // of a CAST row
// With ONNX's defaults: saturating, and up.
uint32_t recipe_cast(struct recipes *r, uint32_t of, enum dtype to);
uint32_t recipe_cast_clipped(struct recipes *r, uint32_t of, enum dtype to);
bool recipe_cast_clips(const struct recipes *r, uint32_t id); // of a CAST row
// Among float32, float16, bfloat16 and double: what may be clipped.
bool recipe_can_cast(enum dtype from, enum dtype to);

// Elementwise operations: kernels_map.h says what each makes. In its order.
enum recipe_map_op {
#define MAP_OP(id, ...) RECIPE_MAP_##id,
#include "recipe/map_ops.def"
  RECIPE_MAP_OPS, // how many
};
// How many operands, from 1 to 3.
uint32_t recipe_map_operands(enum recipe_map_op op);
// The type that comes of elements of `type` (WHERE: of its second and third operand), or
// DTYPE_UNDEFINED.
enum dtype recipe_map_result(enum recipe_map_op op, enum dtype type);
// Operands are of one type (WHERE: the first is bool) and broadcast as NumPy's do.
uint32_t recipe_map(struct recipes *r, enum recipe_map_op op, const uint32_t *of);
uint32_t recipe_map_two(struct recipes *r, enum recipe_map_op op, uint32_t a, uint32_t b);
bool recipe_can_map(const struct recipes *r, enum recipe_map_op op, const uint32_t *of);
enum recipe_map_op recipe_map_op_of(const struct recipes *r, uint32_t id);

// Reductions of integers of 8 bits and more and of float32, float16, bfloat16 and double, to the same
// type, in the order that kernels_reduce.h defines: the elements that come together are a column of it,
// in the operand's order. Integers wrap; floats are rounded to the type once, at the end. In its order.
enum recipe_reduce_op { RECIPE_SUM, RECIPE_PROD, RECIPE_MIN, RECIPE_MAX, RECIPE_SUM_SQUARE };
struct recipe_reduction {
  enum recipe_reduce_op op;
  uint64_t axes; // bit i for axis i: these go from the dims
};
uint32_t recipe_reduce(struct recipes *r, uint32_t of, const struct recipe_reduction *q);
// At least one axis, and at least one element.
bool recipe_can_reduce(const struct recipes *r, uint32_t of, const struct recipe_reduction *q);
struct recipe_reduction recipe_reduction_of(const struct recipes *r, uint32_t id);

// (code - zero) * scale, as ONNX's DequantizeLinear and kernels_dequantize.h define it. Codes: int2 to
// int32, uint2 to uint16, float8 (not e8m0), float6, float4. Scales: float32, float16, bfloat16, which
// is the result's type.
struct recipe_dequantization {
  uint32_t scales;
  // Of the dims of the scales and the type of the codes, which are integers; NO_ID: none.
  uint32_t zeros;
  uint32_t axis; // RECIPE_PER_TENSOR: one scale for all
  // 0: a scale for each index of the axis; else for as many at a time, and scales have the dims of
  // the codes but for the axis.
  uint64_t block;
};
uint32_t recipe_dequantize(struct recipes *r, uint32_t codes,
                           const struct recipe_dequantization *q);
bool recipe_can_dequantize(const struct recipes *r, uint32_t codes,
                           const struct recipe_dequantization *q);
struct recipe_dequantization recipe_dequantization_of(const struct recipes *r, uint32_t id);

// ---- quantization ------------------------------------------------------------------------------

enum recipe_format {
#define FORMAT(id, ...) FORMAT_##id,
#include "recipe/formats.def"
  RECIPE_FORMATS, // how many
};

// The tensors that a quantized one becomes.
enum recipe_part { PART_CODES, PART_SCALES, PART_ZEROS };

// What a scale becomes that is small, below the smallest normal number of the operand's type:
//   NONE    it is rounded up; 1 only where all elements are 0
//   NORMAL  1, with the zero point 0, as onnxruntime up to 1.31 makes it
//   NUMBER  the same, but of float16 only what is 0 when it is rounded; else it is the nearest number, as onnxruntime 1.32 makes it
enum recipe_guard { GUARD_NONE, GUARD_NORMAL, GUARD_NUMBER };

// How a float tensor (float32, float16, bfloat16; SHRINK and LEVELS: double too) is quantized.
// Every format says in formats.def what its parts look like.
struct recipe_quantization {
  enum recipe_format format;
  uint32_t bits;  // of a code
  bool symmetric; // no zero points
  uint32_t axis;  // of the operand: the one that is cut into blocks; PER_TENSOR: none
  uint64_t block; // elements of a block along axis; 0: all of the axis is one block. Per-channel
      // formats (SHRINK, AFFINE; LINEAR without blocks): axis is the channel's, block is 0
  uint32_t levels; // LEVELS: how many values are left
  // LINEAR:
  enum dtype type; // of the codes: (u)int4, (u)int8, (u)int16, float8e4m3fn. Says what `bits` are
  bool reduced;    // integers: one bit of the codes' range is left free
  enum recipe_guard guard;
  // NBITS_CLIPPED: how many rows the second moments are sums over. Above 0, ranges of a column's blocks are cut down for the
  // sake of the whole column; 0: each for its own block's.
  uint64_t seen;
};
#define RECIPE_PER_TENSOR UINT32_MAX

// One part. Dims and dtype follow from the format (formats.def). Canonical: a quantization along
// the axis of a transposed matrix is one along the other axis of the matrix itself, so that it
// reads storage in order; where the codes keep the operand's layout, the transpose moves behind it.
// NBITS formats take rank 2: W [K,N] with axis 0, or its transpose [N,K] with axis 1. What does not
// matter to the format is set to 0, a block as long as its axis or longer too.
uint32_t recipe_quantize(struct recipes *r, uint32_t of, const struct recipe_quantization *q,
                         enum recipe_part part);
// Is there such a part of such an operand? What recipe_quantize takes for granted: the operand's
// dtype and rank, bits (2, 4, 8; SHRINK and AFFINE 8), block (NBITS formats 16, 32, 64, 128 or 256;
// QDQ, GATHER and LINEAR any), axis, levels (2 to 65536), type (LINEAR; float8 has neither blocks nor
// `reduced`), and sizes that can be counted. There are no zeros where the quantization is symmetric,
// except for NBITS_RTN, NBITS_KQUANT(_BEST) and LINEAR, and LEVELS has codes only.
bool recipe_can_quantize(const struct recipes *r, uint32_t of, const struct recipe_quantization *q,
                         enum recipe_part part);
// The same for formats with statistics (recipe_takes_gram). gram: the second moments of what the matrix is multiplied with,
// K of it at most SECOND_MOMENTS_MOST; rows: of NBITS_CLIPPED the scales that its rows were multiplied by, else NO_ID.
struct recipe_statistics {
  uint32_t gram, rows;
};
uint32_t recipe_quantize_by(struct recipes *r, uint32_t of, const struct recipe_statistics *by,
                            const struct recipe_quantization *q, enum recipe_part part);
bool recipe_can_quantize_by(const struct recipes *r, uint32_t of,
                            const struct recipe_statistics *by, const struct recipe_quantization *q,
                            enum recipe_part part);
bool recipe_takes_gram(enum recipe_format format);
// Is it a QUANTIZE or QUANTIZE_BY row? Its first operand is what is quantized; and its statistics, NO_ID where it has
// none.
static inline bool recipe_quantizes(const struct recipes *r, uint32_t id) {
  return r->rows[id].kind == RECIPE_QUANTIZE || r->rows[id].kind == RECIPE_QUANTIZE_BY;
}
struct recipe_statistics recipe_statistics_of(const struct recipes *r, uint32_t id);
// Scales for the rows of matrices [K, N], float32 [K], as AWQ finds them for quantization of these bits, symmetry and block
// (NBITS; Lin et al., 2023): mean^(i/20) / sqrt(largest * least), i from 0 to 19, the powers at least 1e-4, with which the
// product of all matrices has the least error. means: of the magnitudes of what they are multiplied with, float32
// [K]; errors are those of at most RECIPE_AWQ_COLUMNS columns of a matrix, as far apart as can be.
enum { RECIPE_AWQ_COLUMNS = 512, RECIPE_AWQ_WAYS = 20 };
// seen: how many rows the second moments are sums over. Above 0, moments of few rows count as less certain (eval_moments.c),
// and scales are not taken if one of the matrices has a larger error with them than with scales of 1.
struct recipe_awq {
  uint32_t means, gram;
  uint32_t bits;
  bool symmetric;
  uint64_t block;
  uint64_t seen;
};
// How many columns of one with N are tried: every recipe_awq_step(N)-th.
static inline uint64_t recipe_awq_step(uint64_t columns) {
  return (columns - 1) / RECIPE_AWQ_COLUMNS + 1;
}
static inline uint64_t recipe_awq_tried(uint64_t columns) {
  return columns ? (columns - 1) / recipe_awq_step(columns) + 1 : 0;
}
uint32_t recipe_awq(struct recipes *r, const struct recipe_awq *a, const uint32_t *of, uint32_t n);
struct recipe_awq recipe_awq_of(const struct recipes *r, uint32_t id);
// What such a row was made with.
struct recipe_quantization recipe_quantization_of(const struct recipes *r, uint32_t id);
enum recipe_part recipe_part_of(const struct recipes *r, uint32_t id);

// Codes by parameters that are given, as ONNX's QuantizeLinear: saturate(rint(x / scale) + zero), half to
// even, the quotient a float32; to int32 (biases) a double; to float8 and float4: x / scale, saturated.
// Elements: float32, float16, bfloat16. Scales: of these too, axis and block as in
// recipe_dequantization, whose inverse this is. Types: int2 to int32, uint2 to uint16, float8 (not
// e8m0), float4. Elements that are not finite, and scales that are 0 or not finite, are refused when
// they are read.
struct recipe_linear {
  enum dtype type;
  uint32_t scales;
  // Of the dims of the scales and of `type`, an integer other than int32; NO_ID: none.
  uint32_t zeros;
  uint32_t axis; // RECIPE_PER_TENSOR: one scale for all
  uint64_t block;
};
// Canonical: what moves elements of `of` moves the codes instead, where the scales allow it. The codes of
// FORMAT_LINEAR are such a row, by the scales and zeros of that format.
uint32_t recipe_quantize_linear(struct recipes *r, uint32_t of, const struct recipe_linear *q);
bool recipe_can_quantize_linear(const struct recipes *r, uint32_t of,
                                const struct recipe_linear *q);
struct recipe_linear recipe_quantize_linear_of(const struct recipes *r, uint32_t id);
// Are these codes of FORMAT_LINEAR: a row of that kind whose scales are the format's of the same operand?
// Then *q says how.
bool recipe_quantize_linear_found(const struct recipes *r, uint32_t id,
                                  struct recipe_quantization *q);
// The scales of FORMAT_LINEAR of the same operand that those of a row of that kind are, or are made of element by
// element, as roomy ones are; NO_ID: they come of something else.
uint32_t recipe_quantize_linear_scales(const struct recipes *r, uint32_t id);

// Scales of a weight, enlarged where codes of a bias by x_scale * scale would overflow int32, as onnxruntime
// does it: with least = 1.0001 * 2 max|bias| / (2^32 - 2), a scale w with 0 < x_scale * w < least becomes
// w * (least / (x_scale * w)): in double, rounded to the scales' type. One scale: the largest |bias| of
// all; a scale a channel: the channel's own, the largest of all rows. `up`: one of float16 that the rounding made smaller is
// the next larger number instead, as onnxruntime 1.32 does it. w_scales: [], [1] or [C]; x_scale: one element;
// bias: any number of elements, C, or dims whose last is C. All of float32, float16 or bfloat16.
uint32_t recipe_roomy_scales(struct recipes *r, uint32_t w_scales, uint32_t x_scale, uint32_t bias,
                             bool up);
bool recipe_can_have_roomy_scales(const struct recipes *r, uint32_t w_scales, uint32_t x_scale,
                                  uint32_t bias);

// Words of plans and logs, by their enum; NULL past the last one.
const char *recipe_format_name(uint32_t format);
const char *recipe_part_name(uint32_t part); // "codes", "scales", "zeros"
const char *recipe_round_name(uint32_t round);
const char *recipe_map_name(uint32_t op);
const char *recipe_reduce_name(uint32_t op);
const char *recipe_encoding_name(uint32_t encoding); // of encodings that have a byte form

// The formats whose operand is a matrix and whose codes are packed by column.
bool recipe_is_nbits(enum recipe_format format);

// If the recipe is nothing but one contiguous RAW piece of a source (so that it may be copied or
// reflinked), fills *at and returns true.
bool recipe_is_copy(const struct recipes *r, uint32_t id, struct extent *at);

#endif
