// How the bytes of a tensor come about: a DAG of small operations over extents of source files.
//
// A recipe's dtype, dims and size are known without reading a byte, and any byte range of its
// elements in RAW form (little-endian, sub-byte types packed) can be produced alone
// (stream/eval.h). Rows are immutable, canonical and shared: asking twice for the same recipe
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
//   cast       elementwise conversion, round to nearest even, between float types; or, clipped, with the largest
//              finite value of its sign in place of an infinity that a finite element would become
//   quantize   one part (codes, scales, zeros) of its operand quantized by a row of formats.def
//
// Construction canonicalizes: transpose of transpose composes, an identity perm or slice vanishes,
// a transpose that only moves axes of length 1 becomes a reshape, reshape of reshape collapses and
// a reshape of an extent, bytes or fill is that with other dims. For quantize see below.
#ifndef WEIR_RECIPE_H
#define WEIR_RECIPE_H

#include "table.h"
#include "dtype.h"
#include "err.h"
#include "source.h"

enum recipe_kind {
  RECIPE_EXTENT,
  RECIPE_BYTES,
  RECIPE_FILL,
  RECIPE_RESHAPE,
  RECIPE_TRANSPOSE,
  RECIPE_SLICE,
  RECIPE_CONCAT,
  RECIPE_PAD,
  RECIPE_CAST,
  RECIPE_QUANTIZE,
};

enum { RECIPE_MAX_RANK = 64 };

struct recipe {
  uint8_t kind;     // enum recipe_kind
  uint8_t dtype;    // enum dtype of the result
  uint8_t encoding; // EXTENT: enum encoding of the pieces
  uint8_t rank;
  uint32_t dims; // first dim in r->longs
  uint32_t args; // first operand (recipe ids) in r->args
  uint32_t n_args;
  uint32_t at; // EXTENT: first piece; BYTES, FILL, PAD: offset in r->bytes of the elements;
               // TRANSPOSE: perm in r->longs; SLICE: starts then steps; PAD: befores then afters;
               // QUANTIZE: its parameters
  uint32_t
      n; // EXTENT: pieces; BYTES: bytes; CONCAT: the axis; PAD: offset in r->bytes of its element;
         // CAST: 1 if it clips
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

static inline const int64_t *recipe_dims(const struct recipes *r, uint32_t id) {
  return r->longs + r->rows[id].dims;
}

// All constructors give a recipe id. Dims, perms and ranges are the caller's promise (asserted):
// numbers from a file are checked before they come here. Sub-byte dtypes: transpose, slice, concat
// and pad work on elements, whatever their width.
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
uint32_t recipe_pad(struct recipes *r, uint32_t of, const int64_t *befores, const int64_t *afters,
                    struct span element);
// float32, float16, bfloat16 and double, any to any.
uint32_t recipe_cast(struct recipes *r, uint32_t of, enum dtype to);
uint32_t recipe_cast_clipped(struct recipes *r, uint32_t of, enum dtype to);
bool recipe_cast_clips(const struct recipes *r, uint32_t id); // of a CAST row
bool recipe_can_cast(enum dtype from, enum dtype to);

// ---- quantization ------------------------------------------------------------------------------

enum recipe_format {
#define FORMAT(id, ...) FORMAT_##id,
#include "formats.def"
#undef FORMAT
  RECIPE_FORMATS, // how many
};

// The tensors that a quantized one becomes.
enum recipe_part { PART_CODES, PART_SCALES, PART_ZEROS };

// How a float tensor (float32, float16, bfloat16; SHRINK and LEVELS: double too) is quantized.
// Every format says in formats.def what its parts look like.
struct recipe_quantization {
  enum recipe_format format;
  uint32_t bits;   // of a code
  bool symmetric;  // no zero points
  uint32_t axis;   // of the operand: the one that is cut into blocks; PER_TENSOR: none
  uint64_t block;  // elements of a block along axis; 0: all of the axis is one block. Per-channel
                   // formats (SHRINK, AFFINE): axis is the channel's, block is 0
  uint32_t levels; // LEVELS: how many values are left
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
// QDQ and GATHER any), axis, levels (2 to 65536), and sizes that can be counted. There are no zeros
// where the quantization is symmetric, except for NBITS_RTN and NBITS_KQUANT, and LEVELS has codes
// only.
bool recipe_can_quantize(const struct recipes *r, uint32_t of, const struct recipe_quantization *q,
                         enum recipe_part part);
// What a QUANTIZE row was made with.
struct recipe_quantization recipe_quantization_of(const struct recipes *r, uint32_t id);
enum recipe_part recipe_part_of(const struct recipes *r, uint32_t id);

struct recipe_format_row {
  const char *name; // in plans and logs
  const char *about;
};
const struct recipe_format_row *recipe_format_row(enum recipe_format format);
// "codes", "scales", "zeros"
const char *recipe_part_name(enum recipe_part part);
bool recipe_part_by_name(struct span name, enum recipe_part *part);
// The formats whose operand is a matrix and whose codes are packed by column.
bool recipe_is_nbits(enum recipe_format format);
bool recipe_format_by_name(struct span name, enum recipe_format *format);

// If the recipe is nothing but one contiguous RAW piece of a source (so that it may be copied or
// reflinked), fills *at and returns true.
bool recipe_is_copy(const struct recipes *r, uint32_t id, struct extent *at);

#endif
