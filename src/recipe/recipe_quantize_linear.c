// Codes by scales and zero points that are given, and the scales that leave room for a bias.
//
//   quantize_linear(reshape(W))          → reshape(quantize_linear(W))    one scale for all; or an axis,
//                                                                        where only unit axes came or went
//   quantize_linear(transpose(W, perm))  → transpose(quantize_linear(W, scales turned back), perm)
//   a block longer than its axis         → a block as long as it
//
// as recipe_quantize.c does, and for the same reason.
//
// Roomy scales are no kind of their own but arithmetic of those there are, with the roundings that
// onnxruntime has by NumPy's rules (a channel's |bias| is doubled and enlarged in its own type):
//
//   product = x_scale * w        least = 1.0001 * (2 * |bias|) / 4294967294
//   where(0 < product and product < least, w * (least / product), w)
#include "recipe/inside/recipe_rows.h"

#include <assert.h>

static bool is_code(enum dtype t) {
  switch (t) {
  case DTYPE_FLOAT8E4M3FN:
  case DTYPE_FLOAT8E4M3FNUZ:
  case DTYPE_FLOAT8E5M2:
  case DTYPE_FLOAT8E5M2FNUZ:
  case DTYPE_FLOAT4E2M1: return true;
  default:
    return dtype_is_integer(t) && t != DTYPE_BOOL && t != DTYPE_UINT32 && dtype_bits(t) <= 32;
  }
}

static bool is_operand(uint8_t dtype) {
  return dtype_is_plain_float((enum dtype)dtype) && dtype != DTYPE_DOUBLE;
}

int recipe_quantize_linear_row_fits(const struct recipes *r, const struct recipe_asked *x,
                                    struct err *err) {
  if (x->n_of != 2 && x->n_of != 3)
    return recipe_rows_bad(err, "is quantized by operands that are not scales and optional zero "
                                "points");
  const struct recipe *of = &r->rows[x->of[0]], *scales = &r->rows[x->of[1]];
  if (!is_code(x->dtype) || !is_operand(of->dtype) || !is_operand(scales->dtype))
    return err_set(err, ERR_MODEL, "a recipe quantizes %s by %s to %s, which is not supported",
                   dtype_name((enum dtype)of->dtype), dtype_name((enum dtype)scales->dtype),
                   dtype_name(x->dtype));
  if (!recipe_math_scales_fit(r, x->of[0], x->of[1], x->numbers[0], x->numbers[1]))
    return recipe_rows_bad(err, "is quantized by scales that do not match it");
  struct recipe_asked own;
  recipe_rows_ask(&own, r, RECIPE_QUANTIZE_LINEAR, x->of);
  own.dtype = x->dtype;
  if (recipe_rows_sized(&own, err)) return -1;
  if (x->n_of == 2) return 0;
  const struct recipe *zeros = &r->rows[x->of[2]];
  if (zeros->dtype == (uint8_t)x->dtype && dtype_is_integer(x->dtype) && x->dtype != DTYPE_INT32 &&
      recipe_has_dims(r, x->of[2], recipe_dims(r, x->of[1]), scales->rank))
    return 0;
  return recipe_rows_bad(err, "is quantized by zero points that do not match its type and scales");
}

static struct recipe_linear linear_of(const struct recipe_asked *x) {
  return (struct recipe_linear){.type = x->dtype,
                                .scales = x->of[1],
                                .zeros = x->n_of == 3 ? x->of[2] : NO_ID,
                                .axis = (uint32_t)x->numbers[0],
                                .block = (uint64_t)x->numbers[1]};
}

// From a transpose to its operand. Scales of blocks lie as the operand does.
static void below_transpose(struct recipes *r, uint32_t *of, struct recipe_linear *q) {
  const struct recipe x = r->rows[*of];
  int64_t perm[RECIPE_MAX_RANK], back[RECIPE_MAX_RANK];
  memcpy(perm, recipe_rows_axes(r, *of, 0), x.rank * sizeof *perm);
  for (uint32_t i = 0; i < x.rank; i++)
    back[perm[i]] = i;
  if (q->block > 0) {
    q->scales = recipe_transpose(r, q->scales, back);
    if (q->zeros != NO_ID) q->zeros = recipe_transpose(r, q->zeros, back);
  }
  if (q->axis != RECIPE_PER_TENSOR) q->axis = (uint32_t)perm[q->axis];
  *of = r->args[x.args];
}

// From a transpose or reshape to its operand, if the axis is one there too.
static bool peel(struct recipes *r, uint32_t *of, struct recipe_linear *q) {
  const enum recipe_kind kind = (enum recipe_kind)r->rows[*of].kind;
  if (kind == RECIPE_TRANSPOSE) {
    below_transpose(r, of, q);
    return true;
  }
  if (kind != RECIPE_RESHAPE || q->block > 0) return false;
  const uint32_t inner = r->args[r->rows[*of].args];
  if (q->axis != RECIPE_PER_TENSOR && !recipe_quantize_same_axes(r, *of, inner, &q->axis))
    return false;
  *of = inner;
  return true;
}

// The codes moved as the row that was peeled moves its operand.
static uint32_t put_back(struct recipes *r, uint32_t codes, uint32_t peeled) {
  int64_t list[RECIPE_MAX_RANK];
  const struct recipe x = r->rows[peeled];
  const bool turned = x.kind == RECIPE_TRANSPOSE;
  if (x.rank)
    memcpy(list, turned ? recipe_rows_axes(r, peeled, 0) : recipe_dims(r, peeled),
           x.rank * sizeof *list);
  return turned ? recipe_transpose(r, codes, list) : recipe_reshape(r, codes, list, x.rank);
}

uint32_t recipe_quantize_linear_row(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_linear q = linear_of(asked);
  uint32_t of = asked->of[0];
  uint32_t *peeled = NULL;
  size_t cap = 0, n = 0;
  if (q.axis == RECIPE_PER_TENSOR) {
    q.scales = recipe_reshape(r, q.scales, NULL, 0);
    if (q.zeros != NO_ID) q.zeros = recipe_reshape(r, q.zeros, NULL, 0);
  }
  if (q.block > 0) q.block = min_u64(q.block, max_u64((uint64_t)recipe_dims(r, of)[q.axis], 1));
  for (uint32_t at = of; peel(r, &at, &q); of = at) {
    peeled = table_grow(peeled, &cap, n + 1, sizeof *peeled);
    peeled[n++] = of;
  }
  const uint32_t operands[3] = {of, q.scales, q.zeros};
  struct recipe_asked x;
  recipe_rows_ask(&x, r, RECIPE_QUANTIZE_LINEAR, operands);
  x.dtype = q.type;
  x.n_of = asked->n_of;
  x.numbers[0] = q.axis;
  x.numbers[1] = (int64_t)q.block;
  uint32_t id = recipe_rows_put(r, &x);
  while (n-- > 0)
    id = put_back(r, id, peeled[n]);
  table_free(peeled, cap, sizeof *peeled);
  return id;
}

static void ask(struct recipe_asked *x, const uint32_t of[3], const struct recipe_linear *q) {
  x->kind = RECIPE_QUANTIZE_LINEAR;
  x->dtype = q->type;
  x->of = of;
  x->n_of = of[2] == NO_ID ? 2 : 3;
  x->numbers[0] = q->axis;
  x->numbers[1] = q->block <= INT64_MAX ? (int64_t)q->block : INT64_MAX;
}

uint32_t recipe_quantize_linear(struct recipes *r, uint32_t of, const struct recipe_linear *q) {
  const uint32_t list[3] = {of, q->scales, q->zeros};
  struct recipe_asked x;
  ask(&x, list, q);
  return recipe_rows_make(r, &x);
}

bool recipe_can_quantize_linear(const struct recipes *r, uint32_t of,
                                const struct recipe_linear *q) {
  const uint32_t list[3] = {of, q->scales, q->zeros};
  struct recipe_asked x;
  ask(&x, list, q);
  return recipe_rows_fit(r, &x);
}

struct recipe_linear recipe_quantize_linear_of(const struct recipes *r, uint32_t id) {
  const struct recipe *x = &r->rows[id];
  assert(x->kind == RECIPE_QUANTIZE_LINEAR);
  return (struct recipe_linear){.type = (enum dtype)x->dtype,
                                .scales = r->args[x->args + 1],
                                .zeros = x->n_args == 3 ? r->args[x->args + 2] : NO_ID,
                                .axis = (uint32_t)recipe_rows_number(r, id, 0),
                                .block = (uint64_t)recipe_rows_number(r, id, 1)};
}

// Are these scales of FORMAT_LINEAR that are found of an operand?
static bool are_scales_of(const struct recipes *r, uint32_t id, uint32_t of) {
  const struct recipe *s = &r->rows[id];
  return s->kind == RECIPE_QUANTIZE && recipe_part_of(r, id) == PART_SCALES &&
         recipe_quantization_of(r, id).format == FORMAT_LINEAR &&
         recipe_unmoved(r, r->args[s->args]) == recipe_unmoved(r, of);
}

bool recipe_quantize_linear_found(const struct recipes *r, uint32_t id,
                                  struct recipe_quantization *q) {
  if (r->rows[id].kind != RECIPE_QUANTIZE_LINEAR) return false;
  const uint32_t scales = recipe_unmoved(r, recipe_quantize_linear_of(r, id).scales);
  if (!are_scales_of(r, scales, r->args[r->rows[id].args])) return false;
  *q = recipe_quantization_of(r, scales);
  return true;
}

// Through rows whose elements are functions of elements at the same place; `left` bounds the walk.
static uint32_t source_of(const struct recipes *r, uint32_t id, uint32_t of, uint32_t *left) {
  id = recipe_unmoved(r, id);
  const struct recipe *x = &r->rows[id];
  if (*left == 0 || are_scales_of(r, id, of)) return *left ? id : NO_ID;
  --*left;
  uint32_t source = NO_ID;
  for (uint32_t i = 0; (x->kind == RECIPE_MAP || x->kind == RECIPE_CAST) && i < x->n_args; i++) {
    const uint32_t arg = r->args[x->args + i];
    if (r->rows[arg].count == x->count && source == NO_ID) source = source_of(r, arg, of, left);
  }
  return source;
}

uint32_t recipe_quantize_linear_scales(const struct recipes *r, uint32_t id) {
  enum { WALK_MOST = 256 };
  uint32_t left = WALK_MOST;
  if (r->rows[id].kind != RECIPE_QUANTIZE_LINEAR) return NO_ID;
  return source_of(r, recipe_quantize_linear_of(r, id).scales, r->args[r->rows[id].args], &left);
}

// ---- roomy scales ------------------------------------------------------------------------------

// Has the bias rows, each with an element for each channel?
static bool has_rows_of_channels(const struct recipes *r, uint32_t w_scales, uint32_t bias) {
  const struct recipe *w = &r->rows[w_scales], *b = &r->rows[bias];
  return w->rank == 1 && b->rank > 1 && (uint64_t)recipe_dims(r, bias)[b->rank - 1] == w->count;
}

bool recipe_can_have_roomy_scales(const struct recipes *r, uint32_t w_scales, uint32_t x_scale,
                                  uint32_t bias) {
  const struct recipe *w = &r->rows[w_scales], *x = &r->rows[x_scale], *b = &r->rows[bias];
  return dtype_is_plain_float((enum dtype)w->dtype) && dtype_is_plain_float((enum dtype)x->dtype) &&
         dtype_is_plain_float((enum dtype)b->dtype) && x->count == 1 && b->count > 0 &&
         w->rank <= 1 &&
         (w->count == 1 || w->count == b->count || has_rows_of_channels(r, w_scales, bias));
}

static uint32_t constant(struct recipes *r, double value, enum dtype type) {
  return recipe_cast(r, recipe_bytes(r, DTYPE_DOUBLE, NULL, 0, span_of(&value, sizeof value)),
                     type);
}

// The least products that codes of the bias have room with: one for all, or one for each of so many channels.
static uint32_t least_products(struct recipes *r, uint32_t bias, uint64_t channels) {
  const uint64_t n = r->rows[bias].count;
  const bool by_channel = channels > 0;
  const int64_t dims[2] = {(int64_t)(by_channel ? n / channels : n), (int64_t)channels};
  const bool one_row = by_channel && channels == n;
  uint32_t b = recipe_reshape(r, bias, one_row ? dims + 1 : dims, by_channel && !one_row ? 2 : 1);
  b = recipe_map(r, RECIPE_MAP_ABS, &b);
  if (!one_row) b = recipe_reduce(r, b, &(struct recipe_reduction){RECIPE_MAX, 1});
  if (!by_channel) b = recipe_cast(r, b, DTYPE_DOUBLE);
  // Twice a number of float16 may be infinite there. And 1.0001 is 1 there, so float32 is only asked to hold twice the number.
  const bool half = r->rows[b].dtype == DTYPE_FLOAT16;
  if (half) b = recipe_cast(r, b, DTYPE_FLOAT);
  const enum dtype type = (enum dtype)r->rows[b].dtype;
  b = recipe_map_two(r, RECIPE_MAP_MUL, constant(r, 2, type), b);
  if (!half) b = recipe_map_two(r, RECIPE_MAP_MUL, constant(r, 1.0001, type), b);
  return recipe_map_two(r, RECIPE_MAP_DIV, recipe_cast(r, b, DTYPE_DOUBLE),
                        constant(r, 4294967294.0, DTYPE_DOUBLE));
}

// Numbers above 0 as float16, none smaller than it was. What is added is more than half of what is between two of float16, and less than all
// of it, so that what was rounded down becomes the next larger number. (No quotient of the numbers that there are is so near to one of float16
// that w * (least / (x * w)) would be rounded otherwise, and rows of this are few, however many biases a weight has.)
static uint32_t halves_above(struct recipes *r, uint32_t x) {
  const double by = 1 + 1.0001 * 0x1p-11, least = 1.0001 * 0x1p-25;
  const uint32_t half = recipe_cast(r, x, DTYPE_FLOAT16),
                 nearest = recipe_cast(r, half, DTYPE_DOUBLE);
  const uint32_t more = recipe_map_two(
      r, RECIPE_MAP_MAX, recipe_map_two(r, RECIPE_MAP_MUL, x, constant(r, by, DTYPE_DOUBLE)),
      recipe_map_two(r, RECIPE_MAP_ADD, x, constant(r, least, DTYPE_DOUBLE)));
  const uint32_t choice[3] = {recipe_map_two(r, RECIPE_MAP_LESS, nearest, x),
                              recipe_cast(r, more, DTYPE_FLOAT16), half};
  return recipe_map(r, RECIPE_MAP_WHERE, choice);
}

uint32_t recipe_roomy_scales(struct recipes *r, uint32_t w_scales, uint32_t x_scale, uint32_t bias,
                             bool up) {
  assert(recipe_can_have_roomy_scales(r, w_scales, x_scale, bias));
  const struct recipe w = r->rows[w_scales];
  const bool by_channel =
      w.rank == 1 && (w.count == r->rows[bias].count || has_rows_of_channels(r, w_scales, bias));
  const uint32_t wide = recipe_cast(r, w_scales, DTYPE_DOUBLE);
  const uint32_t x = recipe_reshape(r, recipe_cast(r, x_scale, DTYPE_DOUBLE), NULL, 0);
  const uint32_t least = least_products(r, bias, by_channel ? w.count : 0);
  if (up && w.dtype == DTYPE_FLOAT16)
    return recipe_map_two(r, RECIPE_MAP_MAX, w_scales,
                          halves_above(r, recipe_map_two(r, RECIPE_MAP_DIV, least, x)));
  const uint32_t product = recipe_map_two(r, RECIPE_MAP_MUL, x, wide);
  const uint32_t wanting = recipe_map_two(
      r, RECIPE_MAP_AND, recipe_map_two(r, RECIPE_MAP_LESS, constant(r, 0, DTYPE_DOUBLE), product),
      recipe_map_two(r, RECIPE_MAP_LESS, product, least));
  const uint32_t larger =
      recipe_map_two(r, RECIPE_MAP_MUL, wide, recipe_map_two(r, RECIPE_MAP_DIV, least, product));
  const uint32_t choice[3] = {wanting, larger, wide};
  return recipe_cast(r, recipe_map(r, RECIPE_MAP_WHERE, choice), (enum dtype)w.dtype);
}
