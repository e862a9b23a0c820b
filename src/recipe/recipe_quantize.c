// Recipes that quantize: what the parts of each format of formats.def look like, and their
// canonical form. Quantization goes down through what only moves elements, as far as it can, and
// what it passed is put back above it:
//
//   nbits(transpose(W), axis a)    → nbits(W, axis 1 - a)               codes are laid out by column anyway
//   qdq(transpose(W, perm), a)     → transpose(qdq(W, perm[a]), perm)   as any format that keeps layout
//   qdq(reshape(W), a)             → reshape(qdq(W, the same axis of W))  where only unit axes came or went;
//                                                                       per tensor: any reshape
//   scales of a tensor or channel  → those of W, as they are
//   linear codes                   → quantize_linear(W, scales, zeros)  (recipe_quantize_linear.c)
//   linear zeros of all but asymmetric integers → fill, where no guard makes them 0
//
// The scale of float8 is a standard deviation, whose sum depends on the order of elements: it goes below
// no transpose, and a channel's elements are brought together by one.
//
// So the operand of a quantization in the table is read in the order of its storage wherever that
// is possible, and equal codes have equal ids however they were asked for. What moves elements in
// the result is then cheap: codes are a fraction of the elements.
#include "recipe/inside/recipe_rows.h"
#include "tensor_stats/second_moments.h"

#include <assert.h>

static const char *const formats[] = {
#define FORMAT(id, word, about) [FORMAT_##id] = word,
#include "recipe/formats.def"
};

static const char *const parts[] = {
    [PART_CODES] = "codes", [PART_SCALES] = "scales", [PART_ZEROS] = "zeros"};
static const size_t n_parts = sizeof parts / sizeof parts[0];

const char *recipe_format_name(uint32_t i) {
  return i < RECIPE_FORMATS ? formats[i] : NULL;
}

const char *recipe_part_name(uint32_t i) {
  return i < n_parts ? parts[i] : NULL;
}

bool recipe_is_nbits(enum recipe_format format) {
  return format == FORMAT_NBITS || format == FORMAT_NBITS_RTN || format == FORMAT_NBITS_KQUANT ||
         format == FORMAT_NBITS_HQQ || format == FORMAT_NBITS_KQUANT_BEST ||
         recipe_takes_gram(format);
}

bool recipe_takes_gram(enum recipe_format format) {
  return format == FORMAT_NBITS_GPTQ || format == FORMAT_NBITS_CLIPPED;
}

// Operands of a row.
static uint32_t n_operands(enum recipe_format format) {
  return format == FORMAT_NBITS_CLIPPED ? 3 : recipe_takes_gram(format) ? 2 : 1;
}

const char *recipe_quantize_type_name(uint32_t i) {
  return i == DTYPE_UNDEFINED || dtype_known(i) ? dtype_name((enum dtype)i) : NULL;
}

// Do codes, scales and zeros lie as the operand does, block by block along the axis?
static bool is_blockwise_layout(const struct recipe_quantization *q) {
  return q->format == FORMAT_QDQ || q->format == FORMAT_GATHER ||
         (q->format == FORMAT_LINEAR && q->block > 0);
}

// ---- types of the parts ------------------------------------------------------------------------

static uint64_t blocks_of(uint64_t n, uint64_t block) {
  return block == 0 || block >= n ? n > 0 : (n - 1) / block + 1;
}

static bool nbits_type(const int64_t dims[2], const struct recipe_quantization *q,
                       enum recipe_part part, struct recipe_asked *t) {
  const int64_t n = dims[1 - q->axis];
  const int64_t kb = (int64_t)blocks_of((uint64_t)dims[q->axis], q->block);
  const int64_t codes[3] = {n, kb, (int64_t)(q->block * q->bits / 8)}, scales[2] = {n, kb};
  const int64_t zeros[2] = {n, (int64_t)(((uint64_t)kb * q->bits + 7) / 8)};
  uint64_t all;
  if (!dims_product(scales, 2, &all)) return false;
  const int64_t flat = (int64_t)all;
  const bool hqq = q->format == FORMAT_NBITS_HQQ;
  if (part == PART_CODES)
    recipe_rows_set_dims(t, codes, 3);
  else if (hqq)
    recipe_rows_set_dims(t, &flat, 1);
  else
    recipe_rows_set_dims(t, part == PART_SCALES ? scales : zeros, 2);
  if (part == PART_CODES || (part == PART_ZEROS && !hqq)) t->dtype = DTYPE_UINT8;
  return true;
}

static enum dtype code_type(uint32_t bits, bool is_signed) {
  switch (bits) {
  case 2: return is_signed ? DTYPE_INT2 : DTYPE_UINT2;
  case 4: return is_signed ? DTYPE_INT4 : DTYPE_UINT4;
  default: return is_signed ? DTYPE_INT8 : DTYPE_UINT8;
  }
}

static void blockwise_type(const struct recipe_quantization *q, enum recipe_part part,
                           struct recipe_asked *t) {
  if (part != PART_CODES)
    t->dims[q->axis] = (int64_t)blocks_of((uint64_t)t->dims[q->axis], q->block);
  if (part != PART_SCALES)
    t->dtype = q->format == FORMAT_LINEAR ? q->type : code_type(q->bits, q->symmetric);
}

// Of SHRINK, AFFINE and LINEAR: per tensor or channel.
static void affine_type(const struct recipe_quantization *q, enum recipe_part part,
                        struct recipe_asked *t) {
  const bool shrink = q->format == FORMAT_SHRINK;
  const enum dtype codes = q->format == FORMAT_LINEAR ? q->type
                           : shrink || q->symmetric   ? DTYPE_INT8
                                                      : DTYPE_UINT8;
  if (part == PART_CODES) {
    t->dtype = codes;
    return;
  }
  const int64_t channels = q->axis == RECIPE_PER_TENSOR ? 1 : t->dims[q->axis];
  recipe_rows_set_dims(t, &channels, shrink || q->axis != RECIPE_PER_TENSOR ? 1 : 0);
  if (part == PART_ZEROS && !shrink) t->dtype = codes;
}

static bool part_type(const struct recipes *r, uint32_t of, const struct recipe_quantization *q,
                      enum recipe_part part, struct recipe_asked *t) {
  t->dtype = (enum dtype)r->rows[of].dtype;
  recipe_rows_set_dims(t, recipe_dims(r, of), r->rows[of].rank);
  if (recipe_is_nbits(q->format)) return nbits_type(recipe_dims(r, of), q, part, t);
  if (is_blockwise_layout(q))
    blockwise_type(q, part, t);
  else if (q->format != FORMAT_LEVELS)
    affine_type(q, part, t);
  return true;
}

// ---- what can be quantized ---------------------------------------------------------------------

static bool part_exists(const struct recipe_quantization *q, enum recipe_part part) {
  if (part == PART_CODES) return true;
  if (q->format == FORMAT_LEVELS) return false;
  return part == PART_SCALES || !q->symmetric || q->format == FORMAT_NBITS_RTN ||
         q->format == FORMAT_NBITS_KQUANT || q->format == FORMAT_NBITS_KQUANT_BEST ||
         q->format == FORMAT_LINEAR;
}

static bool operand_fits(const struct recipe *x, enum recipe_format format) {
  switch ((enum dtype)x->dtype) {
  case DTYPE_FLOAT:
  case DTYPE_FLOAT16:
  case DTYPE_BFLOAT16: break;
  case DTYPE_DOUBLE:
    if (format == FORMAT_SHRINK || format == FORMAT_LEVELS) break;
    return false;
  default: return false;
  }
  return !recipe_is_nbits(format) || x->rank == 2;
}

static bool is_width(uint32_t bits) {
  return bits == 2 || bits == 4 || bits == 8;
}

static bool is_nbits_block(uint64_t n) {
  return n >= 16 && n <= 256 && (n & (n - 1)) == 0;
}

static bool linear_fits(const struct recipe_quantization *q) {
  switch (q->type) {
  case DTYPE_INT4:
  case DTYPE_UINT4:
  case DTYPE_INT8:
  case DTYPE_UINT8:
  case DTYPE_INT16:
  case DTYPE_UINT16: return q->block == 0 || q->axis != RECIPE_PER_TENSOR;
  case DTYPE_FLOAT8E4M3FN: return q->block == 0 && !q->reduced;
  default: return false;
  }
}

static bool parameters_fit(const struct recipe_quantization *q, uint32_t rank) {
  if (q->axis != RECIPE_PER_TENSOR && q->axis >= rank) return false;
  switch (q->format) {
  case FORMAT_NBITS:
  case FORMAT_NBITS_RTN:
  case FORMAT_NBITS_KQUANT:
  case FORMAT_NBITS_KQUANT_BEST:
  case FORMAT_NBITS_HQQ:
  case FORMAT_NBITS_GPTQ:
  case FORMAT_NBITS_CLIPPED:
    return q->axis != RECIPE_PER_TENSOR && is_width(q->bits) && is_nbits_block(q->block) &&
           !(q->symmetric && q->format == FORMAT_NBITS_HQQ);
  case FORMAT_QDQ:
  case FORMAT_GATHER: return q->axis != RECIPE_PER_TENSOR && is_width(q->bits);
  case FORMAT_SHRINK: return q->bits == 8 && !q->symmetric;
  case FORMAT_AFFINE: return q->bits == 8;
  case FORMAT_LINEAR: return linear_fits(q);
  case FORMAT_LEVELS: return q->levels >= 2 && q->levels <= 65536;
  case RECIPE_FORMATS: break;
  }
  return false;
}

static bool can_quantize(const struct recipes *r, uint32_t of, const struct recipe_quantization *q,
                         enum recipe_part part) {
  struct recipe_asked t;
  uint64_t count, bytes;
  const struct recipe *x = &r->rows[of];
  return q->format < RECIPE_FORMATS && operand_fits(x, q->format) && parameters_fit(q, x->rank) &&
         part_exists(q, part) && part_type(r, of, q, part, &t) &&
         dims_product(t.dims, t.rank, &count) && dtype_bytes(t.dtype, count, &bytes);
}

bool recipe_can_quantize(const struct recipes *r, uint32_t of, const struct recipe_quantization *q,
                         enum recipe_part part) {
  return !recipe_takes_gram(q->format) && can_quantize(r, of, q, part);
}

bool recipe_can_quantize_by(const struct recipes *r, uint32_t of,
                            const struct recipe_statistics *by, const struct recipe_quantization *q,
                            enum recipe_part part) {
  const struct recipe *g = &r->rows[by->gram];
  if (!recipe_takes_gram(q->format) || !can_quantize(r, of, q, part)) return false;
  const uint64_t k = (uint64_t)recipe_dims(r, of)[q->axis];
  if (k < 1 || k > SECOND_MOMENTS_MOST || g->dtype != DTYPE_DOUBLE || g->rank != 1 ||
      g->count != second_moments_elements(k))
    return false;
  if (n_operands(q->format) < 3) return by->rows == NO_ID;
  if (by->rows == NO_ID) return false;
  const struct recipe *rows = &r->rows[by->rows];
  return rows->dtype == DTYPE_FLOAT && rows->rank == 1 && rows->count == k;
}

// ---- canonical form ----------------------------------------------------------------------------

static void settle_linear(const struct recipes *r, uint32_t of, struct recipe_quantization *s) {
  s->bits = dtype_bits(s->type);
  if (s->type == DTYPE_FLOAT8E4M3FN) s->symmetric = false;
  if (s->guard == GUARD_NUMBER && r->rows[of].dtype != DTYPE_FLOAT16) s->guard = GUARD_NORMAL;
  if (s->block > 0) s->block = min_u64(s->block, max_u64((uint64_t)recipe_dims(r, of)[s->axis], 1));
}

// The same quantization, with what does not matter at 0.
static struct recipe_quantization settled(const struct recipes *r, uint32_t of,
                                          const struct recipe_quantization *q) {
  struct recipe_quantization s = *q;
  const bool linear = q->format == FORMAT_LINEAR;
  const bool blocks = recipe_is_nbits(q->format) || is_blockwise_layout(q);
  if (!blocks) s.block = 0;
  if (!linear && is_blockwise_layout(q) && s.block >= (uint64_t)recipe_dims(r, of)[q->axis])
    s.block = 0;
  if (q->format != FORMAT_NBITS_CLIPPED) s.seen = 0;
  if (q->format != FORMAT_LEVELS) s.levels = 0;
  if (q->format == FORMAT_LEVELS) s.bits = 0, s.symmetric = false;
  if (linear)
    settle_linear(r, of, &s);
  else
    s.type = DTYPE_UNDEFINED, s.reduced = false, s.guard = GUARD_NONE;
  return s;
}

// The next axis from `i` on that is longer than 1; rank if none.
static uint32_t long_axis(const int64_t *dims, uint32_t rank, uint32_t i) {
  while (i < rank && dims[i] == 1)
    i++;
  return i;
}

bool recipe_quantize_same_axes(const struct recipes *r, uint32_t a, uint32_t b, uint32_t *axis) {
  const int64_t *x = recipe_dims(r, a), *y = recipe_dims(r, b);
  const uint32_t n = r->rows[a].rank, m = r->rows[b].rank;
  uint32_t i = long_axis(x, n, 0), k = long_axis(y, m, 0), found = RECIPE_PER_TENSOR;
  while (i < n && k < m && x[i] == y[k]) {
    if (i == *axis) found = k;
    i = long_axis(x, n, i + 1);
    k = long_axis(y, m, k + 1);
  }
  if (i < n || k < m || found == RECIPE_PER_TENSOR) return false;
  *axis = found;
  return true;
}

// A matrix that is another one turned, with unit axes around: gives that other one. What only moved
// unit axes is no transpose in the table, so two long axes under one have changed places.
static bool peel_matrix(struct recipes *r, uint32_t *of, struct recipe_quantization *q) {
  const struct recipe *x = &r->rows[*of];
  uint32_t inner = *of, axis = q->axis;
  if (x->kind == RECIPE_RESHAPE) {
    inner = r->args[x->args];
    if (r->rows[inner].kind != RECIPE_TRANSPOSE || !recipe_quantize_same_axes(r, *of, inner, &axis))
      return false;
  }
  if (r->rows[inner].kind != RECIPE_TRANSPOSE) return false;
  const int64_t *dims = recipe_dims(r, *of);
  const int64_t turned[2] = {dims[1], dims[0]};
  *of = recipe_reshape(r, r->args[r->rows[inner].args], turned, 2);
  q->axis = 1 - q->axis;
  return true;
}

static bool peel_layout(const struct recipes *r, uint32_t *of, struct recipe_quantization *q) {
  const struct recipe *x = &r->rows[*of];
  if (x->kind != RECIPE_TRANSPOSE && x->kind != RECIPE_RESHAPE) return false;
  if (x->kind == RECIPE_TRANSPOSE && q->type == DTYPE_FLOAT8E4M3FN) return false;
  const uint32_t inner = r->args[x->args];
  if (q->axis != RECIPE_PER_TENSOR) {
    if (x->kind == RECIPE_TRANSPOSE)
      q->axis = (uint32_t)r->longs[x->at + q->axis];
    else if (!recipe_quantize_same_axes(r, *of, inner, &q->axis))
      return false;
  }
  *of = inner;
  return true;
}

// Of an operand, and its statistics behind it.
static void ask(struct recipe_asked *x, const struct recipes *r, const uint32_t *of,
                const struct recipe_quantization *q, enum recipe_part part) {
  const bool by = recipe_takes_gram(q->format);
  const int64_t numbers[] = {q->format,
                             q->bits,
                             q->symmetric,
                             q->axis,
                             (int64_t)q->block,
                             q->levels,
                             part,
                             q->type,
                             q->reduced,
                             q->guard != GUARD_NONE,
                             (int64_t)q->seen,
                             q->guard == GUARD_NUMBER};
  recipe_rows_ask(x, r, by ? RECIPE_QUANTIZE_BY : RECIPE_QUANTIZE, of);
  x->n_of = n_operands(q->format);
  memcpy(x->numbers, numbers, sizeof numbers);
}

static uint32_t put_row(struct recipes *r, uint32_t of, const uint32_t *statistics,
                        const struct recipe_quantization *q, enum recipe_part part) {
  struct recipe_asked x;
  const struct recipe_quantization s = settled(r, of, q);
  uint32_t operands[3] = {of};
  for (uint32_t i = 1; i < n_operands(q->format); i++)
    operands[i] = statistics[i - 1];
  ask(&x, r, operands, &s, part);
  const bool exists = can_quantize(r, of, &s, part) && part_type(r, of, &s, part, &x);
  assert(exists);
  return recipe_rows_put(r, &x);
}

// Puts a transpose or reshape that the quantization passed (row `passed`, quantized as q) above the
// part.
static uint32_t put_back(struct recipes *r, uint32_t id, uint32_t passed,
                         const struct recipe_quantization *q, enum recipe_part part) {
  if (part != PART_CODES && !is_blockwise_layout(q)) return id;
  int64_t perm[RECIPE_MAX_RANK];
  struct recipe_asked t;
  const struct recipe *x = &r->rows[passed];
  if (x->kind == RECIPE_TRANSPOSE) {
    memcpy(perm, r->longs + x->at, x->rank * sizeof *perm);
    return recipe_transpose(r, id, perm);
  }
  part_type(r, passed, q, part, &t);
  return recipe_reshape(r, id, t.dims, t.rank);
}

static struct recipe_quantization quantization(const int64_t numbers[12]) {
  return (struct recipe_quantization){.format = (enum recipe_format)numbers[0],
                                      .bits = (uint32_t)numbers[1],
                                      .symmetric = numbers[2] != 0,
                                      .axis = (uint32_t)numbers[3],
                                      .block = (uint64_t)numbers[4],
                                      .levels = (uint32_t)numbers[5],
                                      .type = (enum dtype)numbers[7],
                                      .reduced = numbers[8] != 0,
                                      .guard = numbers[9] == 0    ? GUARD_NONE
                                               : numbers[11] == 0 ? GUARD_NORMAL
                                                                  : GUARD_NUMBER,
                                      .seen = (uint64_t)numbers[10]};
}

int recipe_quantize_row_fits(const struct recipes *r, const struct recipe_asked *x,
                             struct err *err) {
  const struct recipe_quantization q = quantization(x->numbers);
  const enum recipe_part part = (enum recipe_part)x->numbers[6];
  const struct recipe *of = &r->rows[x->of[0]];
  for (uint32_t i = 1; i < 8; i++)
    if (i != 4 && (x->numbers[i] < 0 || x->numbers[i] > UINT32_MAX))
      return err_set(err, ERR_MODEL, "a recipe is quantized by a number that needs over 32 bits");
  if (x->numbers[10] < 0)
    return recipe_rows_bad(err, "is quantized by second moments of a negative number of rows");
  if (x->numbers[11] && !x->numbers[9])
    return recipe_rows_bad(err, "is quantized with subnormal scales, but not guarded");
  const struct recipe_statistics by = {x->n_of > 1 ? x->of[1] : NO_ID,
                                       x->n_of > 2 ? x->of[2] : NO_ID};
  if (x->n_of > 1 ? recipe_can_quantize_by(r, x->of[0], &by, &q, part)
                  : recipe_can_quantize(r, x->of[0], &q, part))
    return 0;
  return err_set(err, ERR_MODEL, "a recipe's %s of %s %s quantized as %s do not exist",
                 recipe_part_name(part), dtype_name((enum dtype)of->dtype),
                 quote_dims(recipe_dims(r, x->of[0]), of->rank).s, recipe_format_name(q.format));
}

int recipe_quantize_by_row_fits(const struct recipes *r, const struct recipe_asked *x,
                                struct err *err) {
  if (x->n_of != 2 && x->n_of != 3)
    return recipe_rows_bad(err,
                           "is quantized by operands that are not a matrix and its statistics");
  return recipe_quantize_row_fits(r, x, err);
}

// Of FORMAT_LINEAR: the codes, by the two other parts.
static uint32_t linear_codes(struct recipes *r, uint32_t of, const struct recipe_quantization *q) {
  const bool zeros = !q->symmetric || !dtype_is_signed(q->type);
  const struct recipe_linear by = {.type = q->type,
                                   .scales = recipe_quantize(r, of, q, PART_SCALES),
                                   .zeros = zeros && q->type != DTYPE_FLOAT8E4M3FN
                                                ? recipe_quantize(r, of, q, PART_ZEROS)
                                                : NO_ID,
                                   .axis = q->axis,
                                   .block = q->block};
  return recipe_quantize_linear(r, of, &by);
}

// Its zero points where they are known without a look at the operand; else NO_ID.
static uint32_t linear_zeros(struct recipes *r, uint32_t of, const struct recipe_quantization *q) {
  struct recipe_asked t;
  const bool middle = dtype_is_integer(q->type) && !dtype_is_signed(q->type);
  if (q->type != DTYPE_FLOAT8E4M3FN && !q->symmetric) return NO_ID;
  if (middle && q->guard && q->block == 0) return NO_ID;
  part_type(r, of, q, PART_ZEROS, &t);
  const uint16_t zero = (uint16_t)(middle ? 1u << (q->bits - 1 - q->reduced) : 0);
  return recipe_fill(r, t.dtype, t.dims, t.rank, span_of(&zero, q->bits > 8 ? 2 : 1));
}

// Brings the channels of a float8 together: the axis becomes the first one that is longer than 1.
static void gather_channels(struct recipes *r, uint32_t *of, struct recipe_quantization *q) {
  int64_t perm[RECIPE_MAX_RANK];
  const uint32_t rank = r->rows[*of].rank;
  if (q->type != DTYPE_FLOAT8E4M3FN || q->axis == RECIPE_PER_TENSOR) return;
  perm[0] = q->axis;
  for (uint32_t i = 0, k = 1; i < rank; i++)
    if (i != q->axis) perm[k++] = i;
  *of = recipe_transpose(r, *of, perm);
  q->axis = 0;
}

struct passed {
  uint32_t id;
  struct recipe_quantization q;
};

uint32_t recipe_quantize_row(struct recipes *r, const struct recipe_asked *x) {
  const struct recipe_quantization q = quantization(x->numbers);
  const enum recipe_part part = (enum recipe_part)x->numbers[6];
  struct passed *list = NULL;
  size_t cap = 0, n = 0;
  struct passed at = {x->of[0], q};
  if (q.format == FORMAT_LINEAR) {
    at.q = settled(r, at.id, &q);
    const uint32_t known = part == PART_CODES   ? linear_codes(r, at.id, &at.q)
                           : part == PART_ZEROS ? linear_zeros(r, at.id, &at.q)
                                                : NO_ID;
    if (known != NO_ID) return known;
    gather_channels(r, &at.id, &at.q);
  }
  if (recipe_is_nbits(q.format)) {
    while (peel_matrix(r, &at.id, &at.q)) {
    }
    return put_row(r, at.id, x->of + 1, &at.q, part);
  }
  for (struct passed next = at; peel_layout(r, &next.id, &next.q); at = next) {
    list = table_grow(list, &cap, n + 1, sizeof *list);
    list[n++] = at;
  }
  uint32_t id = put_row(r, at.id, NULL, &at.q, part);
  while (n-- > 0)
    id = put_back(r, id, list[n].id, &list[n].q, part);
  table_free(list, cap, sizeof *list);
  return id;
}

uint32_t recipe_quantize_by_row(struct recipes *r, const struct recipe_asked *x) {
  return recipe_quantize_row(r, x);
}

uint32_t recipe_quantize_by(struct recipes *r, uint32_t of, const struct recipe_statistics *by,
                            const struct recipe_quantization *q, enum recipe_part part) {
  const uint32_t operands[3] = {of, by->gram, by->rows};
  struct recipe_asked x;
  ask(&x, r, operands, q, part);
  return recipe_rows_make(r, &x);
}

struct recipe_statistics recipe_statistics_of(const struct recipes *r, uint32_t id) {
  const struct recipe *x = &r->rows[id];
  assert(recipe_quantizes(r, id));
  return (struct recipe_statistics){x->n_args > 1 ? r->args[x->args + 1] : NO_ID,
                                    x->n_args > 2 ? r->args[x->args + 2] : NO_ID};
}

uint32_t recipe_quantize(struct recipes *r, uint32_t of, const struct recipe_quantization *q,
                         enum recipe_part part) {
  struct recipe_asked x;
  ask(&x, r, &of, q, part);
  return recipe_rows_make(r, &x);
}

struct recipe_quantization recipe_quantization_of(const struct recipes *r, uint32_t id) {
  assert(recipe_quantizes(r, id));
  return quantization(r->longs + r->rows[id].at);
}

enum recipe_part recipe_part_of(const struct recipes *r, uint32_t id) {
  assert(recipe_quantizes(r, id));
  return (enum recipe_part)recipe_rows_number(r, id, 6);
}
