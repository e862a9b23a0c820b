// Parameters, recipes and tensors of int8 with quantized activations: int8.h says what each is.
//
//   range ──int8_scale_zero──▶ scale, zero                           known now
//   weight ──int8_found──▶ codes, scales, zeros                      known when the weight is read
//   bias, x_scale, w_scales ──int8_bias──▶ codes, scales, zeros
//
// Activations have a range that is known, so their parameters are numbers; those of weights are recipes, since nothing
// is read here. Where a weight's range has a floor no format says it: it is written as arithmetic on the weight's least
// and largest elements, in the order and the types of compute_scale_zp.
#include "passes/int8/int8.h"

#include "ranges/ranges.h"
#include "recipe/recipe.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MOST_LIST = 1 << 20 };

// ---- types -------------------------------------------------------------------------------------

static bool is_signed(enum dtype type) {
  return type == DTYPE_INT4 || type == DTYPE_INT8 || type == DTYPE_INT16;
}

void int8_full_codes(enum dtype type, int64_t *least, int64_t *most) {
  const int64_t n = (int64_t)1 << dtype_bits(type);
  *least = is_signed(type) ? -n / 2 : 0;
  *most = *least + n - 1;
}

void int8_codes_of(const struct int8_how *how, int64_t *least, int64_t *most) {
  int8_full_codes(how->type, least, most);
  const int64_t half = (*most - *least + 1) / 2;
  const bool four = dtype_bits(how->type) == 4;
  if (how->reduced && is_signed(how->type)) {
    *least = -half / 2;
    *most = four ? half / 2 - 1 : half / 2;
  } else if (how->reduced) {
    *most = half - 1;
  } else if (how->symmetric && is_signed(how->type) && !four) {
    *least = -*most;
  }
}

// Least normal number, and least number above 0.
static double least_normal(enum dtype type) {
  switch (type) {
  case DTYPE_FLOAT16: return 0x1p-14;
  case DTYPE_DOUBLE: return DBL_MIN;
  default: return FLT_MIN;
  }
}
static double least_number(enum dtype type) {
  switch (type) {
  case DTYPE_FLOAT16: return 0x1p-24;
  case DTYPE_BFLOAT16: return 0x1p-133;
  case DTYPE_DOUBLE: return 0x1p-1074;
  default: return 0x1p-149;
  }
}

double int8_rounded(enum dtype type, double x) {
  uint8_t bits[8] = {0};
  struct kit_number n;
  if (!kit_number_put(type, x, bits) || !kit_number_at(type, bits, 0, &n)) return x;
  return n.d;
}

// ---- activations -------------------------------------------------------------------------------

// A scale below the smallest normal number, unchanged rather than 1: rounded up, so that nothing is clipped.
static double small_scale(enum dtype type, double s) {
  const double step = least_number(type);
  return ceil(s / step) * step;
}

// Has a range no scale: is that 1?
static bool is_too_small(enum dtype type, enum recipe_guard guard, double s) {
  if (guard == GUARD_NONE) return !(s > 0);
  if (guard == GUARD_NUMBER && type == DTYPE_FLOAT16) return !(int8_rounded(type, s) > 0);
  return s < least_normal(type);
}

// A scale as the type has it, which is never 0: nothing could be divided by that.
static double stored_scale(enum dtype type, double s) {
  const double rounded = int8_rounded(type, s);
  return rounded > 0 ? rounded : least_number(type);
}

static void snapped(const struct int8_range *x, const struct int8_how *how,
                    struct int8_params *out) {
  const double least = fmin(x->least, 0);
  double most = fmax(x->most, 0), scale;
  if (how->has_floor && how->real_floor > 0) most = fmax(most, least + how->real_floor);
  out->zero = least < 0 ? 128 : 0;
  if (most <= least)
    scale = 1.0 / 255;
  else
    scale = least < 0 ? fmax(-least / 128, most / 127) : most / 255;
  scale = int8_rounded(DTYPE_FLOAT, scale);
  if (how->has_floor && scale < how->real_floor / 255) scale = how->real_floor / 255;
  out->scale = stored_scale(x->type, scale);
}

// The standard deviation of all finite numbers of float8e4m3fn, as numpy.std gives it in float32.
static const double FLOAT8_DEVIATION = 0x1.903b1cp+6;
// The largest of them: the code of the largest element where the deviation would clip the mean.
static const double FLOAT8_MOST = 448;

bool int8_scale_zero(const struct int8_range *x, const struct int8_how *how,
                     struct int8_params *out) {
  *out = (struct int8_params){.scale = 1};
  if (how->type == DTYPE_FLOAT8E4M3FN) {
    if (!x->has_deviation) return false;
    const double most = fmax(-x->least, x->most) / FLOAT8_MOST;
    double scale = x->deviation / FLOAT8_DEVIATION;
    if (!(scale > 0) || (!how->guard && fabs(x->mean) / FLOAT8_MOST > scale)) scale = most;
    if (!(scale > 0)) return true; // of nothing but 0
    out->scale =
        stored_scale(x->type, x->type == DTYPE_DOUBLE ? scale : int8_rounded(DTYPE_FLOAT, scale));
    return true;
  }
  if (how->restricted && how->type == DTYPE_UINT8 && !how->symmetric) {
    snapped(x, how, out);
    return true;
  }
  double least = fmin(x->least, 0), most = fmax(x->most, 0);
  int64_t low, high;
  int8_codes_of(how, &low, &high);
  if (how->has_floor)
    most = fmax(most, int8_rounded(x->type, least + int8_rounded(x->type, how->real_floor)));
  if (how->symmetric) {
    most = fmax(-least, most);
    least = -most;
  }
  const double scale = (most - least) / (double)(high - low);
  if (is_too_small(x->type, how->guard, scale)) return true;
  out->zero = (int64_t)(how->symmetric ? nearbyint((double)(low + high) / 2)
                                       : nearbyint((double)low - least / scale));
  out->scale = !how->guard && scale < least_normal(x->type) ? small_scale(x->type, scale)
                                                            : int8_rounded(x->type, scale);
  return true;
}

// ---- recipes -----------------------------------------------------------------------------------

uint32_t int8_floats(struct recipes *r, enum dtype type, const double *list, uint32_t n) {
  const size_t bytes = dtype_bits(type) / 8, count = n == NO_ID ? 1 : n;
  const int64_t dims[1] = {(int64_t)count};
  struct arena a = {0};
  uint8_t *out = arena_alloc(&a, count * bytes + 8);
  for (size_t i = 0; i < count; i++) {
    uint8_t bits[8] = {0};
    kit_number_put(type, list[i], bits);
    memcpy(out + i * bytes, bits, bytes);
  }
  const uint32_t made =
      recipe_bytes(r, type, dims, n == NO_ID ? 0 : 1, span_of(out, count * bytes));
  arena_free(&a);
  return made;
}

uint32_t int8_codes(struct recipes *r, enum dtype type, const int64_t *list, uint32_t n) {
  const size_t bits = dtype_bits(type), count = n == NO_ID ? 1 : n;
  const int64_t dims[1] = {(int64_t)count};
  const size_t bytes = (count * bits + 7) / 8;
  struct arena a = {0};
  uint8_t *out = arena_alloc(&a, bytes + 8);
  memset(out, 0, bytes + 8);
  for (size_t i = 0; i < count; i++) {
    const uint64_t code = (uint64_t)list[i];
    if (bits == 4)
      out[i / 2] = (uint8_t)(out[i / 2] | (code & 15) << (i % 2 * 4));
    else
      for (size_t b = 0; b < bits / 8; b++)
        out[i * (bits / 8) + b] = (uint8_t)(code >> (8 * b));
  }
  const uint32_t made = recipe_bytes(r, type, dims, n == NO_ID ? 0 : 1, span_of(out, bytes));
  arena_free(&a);
  return made;
}

static const struct int8_parts none = {NO_ID, NO_ID, NO_ID};

struct int8_parts int8_found(struct recipes *r, uint32_t of, const struct int8_weight_as *as) {
  const struct recipe_quantization q = {.format = FORMAT_LINEAR,
                                        .bits = dtype_bits(as->type),
                                        .symmetric = as->symmetric,
                                        .axis = as->axis,
                                        .block = as->block,
                                        .type = as->type,
                                        .reduced = as->reduced,
                                        .guard = as->guard};
  if (!recipe_can_quantize(r, of, &q, PART_CODES) || !recipe_can_quantize(r, of, &q, PART_SCALES) ||
      !recipe_can_quantize(r, of, &q, PART_ZEROS))
    return none;
  return (struct int8_parts){recipe_quantize(r, of, &q, PART_CODES),
                             recipe_quantize(r, of, &q, PART_SCALES),
                             recipe_quantize(r, of, &q, PART_ZEROS)};
}

struct int8_parts int8_given(struct recipes *r, uint32_t of, const struct int8_weight_as *as,
                             uint32_t scales, uint32_t zeros) {
  const struct recipe_linear q = {.type = as->type,
                                  .scales = scales,
                                  .zeros = as->type == DTYPE_FLOAT8E4M3FN ? NO_ID : zeros,
                                  .axis = as->axis,
                                  .block = as->block};
  if (!recipe_can_quantize_linear(r, of, &q)) return none;
  return (struct int8_parts){recipe_quantize_linear(r, of, &q), scales, zeros};
}

static uint32_t number(struct recipes *r, enum dtype type, double x) {
  return int8_floats(r, type, &x, NO_ID);
}

static uint32_t extreme(struct recipes *r, uint32_t of, uint32_t axis, enum recipe_reduce_op op) {
  const uint32_t rank = r->rows[of].rank;
  struct recipe_reduction q = {.op = op};
  for (uint32_t i = 0; i < rank; i++)
    if (i != axis) q.axes |= (uint64_t)1 << i;
  if (q.axes == 0) return of;
  return recipe_can_reduce(r, of, &q) ? recipe_reduce(r, of, &q) : NO_ID;
}

struct int8_parts int8_ranged(struct recipes *r, uint32_t of, const struct int8_weight_as *as,
                              double real_floor) {
  const enum dtype type = (enum dtype)r->rows[of].dtype;
  const struct int8_how how = {
      .type = as->type, .symmetric = as->symmetric, .reduced = as->reduced};
  uint32_t low = extreme(r, of, as->axis, RECIPE_MIN), high = extreme(r, of, as->axis, RECIPE_MAX);
  if (low == NO_ID || high == NO_ID || as->block) return none;
  const uint32_t zero = number(r, type, 0);
  int64_t least, most;
  int8_codes_of(&how, &least, &most);
  low = recipe_map_two(r, RECIPE_MAP_MIN, low, zero);
  high = recipe_map_two(r, RECIPE_MAP_MAX, recipe_map_two(r, RECIPE_MAP_MAX, high, zero),
                        recipe_map_two(r, RECIPE_MAP_ADD, low, number(r, type, real_floor)));
  if (as->symmetric) {
    high = recipe_map_two(r, RECIPE_MAP_MAX, recipe_map(r, RECIPE_MAP_ABS, &low), high);
    low = recipe_map(r, RECIPE_MAP_NEG, &high);
  }
  const uint32_t low64 = recipe_cast(r, low, DTYPE_DOUBLE);
  const uint32_t width =
      recipe_map_two(r, RECIPE_MAP_SUB, recipe_cast(r, high, DTYPE_DOUBLE), low64);
  const uint32_t scale =
      recipe_map_two(r, RECIPE_MAP_DIV, width, number(r, DTYPE_DOUBLE, (double)(most - least)));
  const bool rounds = as->guard == GUARD_NUMBER && type == DTYPE_FLOAT16;
  // Half of the smallest number is rounded to 0, as what is below it.
  const double too_small = rounds      ? nextafter(0x1p-25, 1)
                           : as->guard ? least_normal(type)
                                       : least_number(type);
  const uint32_t small =
      recipe_map_two(r, RECIPE_MAP_LESS, scale, number(r, DTYPE_DOUBLE, too_small));
  const uint32_t scales[3] = {small, number(r, DTYPE_DOUBLE, 1), scale};
  uint32_t zeros[3] = {small, number(r, DTYPE_DOUBLE, 0),
                       number(r, DTYPE_DOUBLE, nearbyint((double)(least + most) / 2))};
  if (!as->symmetric) {
    zeros[2] = recipe_map_two(r, RECIPE_MAP_SUB, number(r, DTYPE_DOUBLE, (double)least),
                              recipe_map_two(r, RECIPE_MAP_DIV, low64, scale));
    zeros[2] = recipe_map(r, RECIPE_MAP_ROUND, &zeros[2]);
  }
  return int8_given(r, of, as, recipe_cast(r, recipe_map(r, RECIPE_MAP_WHERE, scales), type),
                    recipe_cast(r, recipe_map(r, RECIPE_MAP_WHERE, zeros), as->type));
}

uint32_t int8_zeros_like(struct recipes *r, uint32_t of) {
  const struct recipe x = r->rows[of];
  static const uint8_t zero[8] = {0};
  int64_t dims[RECIPE_MAX_RANK];
  memcpy(dims, recipe_dims(r, of), x.rank * sizeof *dims);
  return recipe_fill(r, (enum dtype)x.dtype, dims, x.rank,
                     span_of(zero, dtype_bits((enum dtype)x.dtype) / 8));
}

struct int8_parts int8_bias(struct recipes *r, uint32_t bias, uint32_t x_scale, uint32_t w_scales,
                            double beta, uint32_t least) {
  const enum dtype type = (enum dtype)r->rows[bias].dtype;
  const uint64_t n = r->rows[w_scales].count;
  const uint32_t rank = r->rows[bias].rank;
  const int64_t dims[1] = {(int64_t)n};
  if (r->rows[w_scales].rank > 1 || r->rows[x_scale].count != 1 || n == 0 || n > MOST_LIST ||
      (n > 1 && (rank == 0 || (uint64_t)recipe_dims(r, bias)[rank - 1] != n)))
    return none;
  if (r->rows[x_scale].dtype != type) x_scale = recipe_cast(r, x_scale, type);
  if (r->rows[w_scales].dtype != type) w_scales = recipe_cast(r, w_scales, type);
  uint32_t s = recipe_map_two(r, RECIPE_MAP_MUL, recipe_reshape(r, x_scale, NULL, 0), w_scales);
  if (beta != 1) s = recipe_map_two(r, RECIPE_MAP_MUL, s, number(r, type, beta));
  if (least != NO_ID) s = recipe_map_two(r, RECIPE_MAP_MAX, s, least);
  s = recipe_reshape(r, s, dims, 1);
  const uint8_t zero[4] = {0};
  const struct recipe_linear q = {.type = DTYPE_INT32,
                                  .scales = n > 1 ? s : recipe_reshape(r, s, NULL, 0),
                                  .zeros = NO_ID,
                                  .axis = n > 1 ? rank - 1 : RECIPE_PER_TENSOR};
  if (!recipe_can_quantize_linear(r, bias, &q)) return none;
  return (struct int8_parts){recipe_quantize_linear(r, bias, &q), s,
                             recipe_fill(r, DTYPE_INT32, dims, n > 1, span_of(zero, 4))};
}

// ---- ranges ------------------------------------------------------------------------------------

// What the elements of a node's first output are, of those of its first input.
enum view { VIEW_NONE, VIEW_ALL, VIEW_SOME, VIEW_ZEROS_TOO };

// What a Pad puts around: zeros, elements of its input, or something else.
static enum view pad_view(struct kit *k, uint32_t node) {
  struct span mode;
  float value;
  double x;
  if (!kit_attr_string(k, node, "mode", "constant", &mode)) return VIEW_NONE;
  if (!span_is(mode, "constant")) return VIEW_SOME;
  const enum kit_state given = kit_attr(k, node, "value", &(struct kit_attr){0});
  if (given != KIT_ABSENT && !(kit_attr_float(k, node, "value", 0, &value) && value == 0))
    return VIEW_NONE;
  const uint32_t with = kit_in(k, node, 2);
  return with == NO_ID || (kit_const_scalar(k, with, &x) && x == 0) ? VIEW_ZEROS_TOO : VIEW_NONE;
}

static enum view view_of(struct kit *k, uint32_t node) {
  switch (kit_op(k, node)) {
  case OP_Identity:
  case OP_Transpose:
  case OP_Reshape:
  case OP_Flatten:
  case OP_Squeeze:
  case OP_Unsqueeze: return VIEW_ALL;
  case OP_Slice: return VIEW_SOME;
  case OP_Pad: return pad_view(k, node);
  default: return VIEW_NONE;
  }
}

struct inheriting {
  struct kit *k;
  struct int8_range *range; // by value id
  TABLE(uint32_t, queue);   // values that have one
};

static void settle(struct inheriting *h, uint32_t value, const struct int8_range *range) {
  h->range[value] = *range;
  *TABLE_PUSH(h, queue) = value;
}

static bool is_open(const struct inheriting *h, uint32_t value) {
  const struct model_value *v = &h->k->m->values[value];
  return v->graph == h->k->graph && v->kind != VALUE_INITIALIZER &&
         h->range[value].type == DTYPE_UNDEFINED;
}

static void by_name(struct inheriting *h, const struct ranges *ranges) {
  const struct model *m = h->k->m;
  for (uint32_t i = 0; i < m->n_values; i++) {
    if (m->values[i].flags & VALUE_DEAD || m->values[i].graph != h->k->graph) continue;
    const struct ranges_value *v = ranges_find(ranges, model_value_name(m, i));
    if (!v) continue;
    const enum dtype type = v->type == DTYPE_UNDEFINED ? kit_dtype(h->k, i) : v->type;
    if (type == DTYPE_UNDEFINED) continue;
    settle(h, i,
           &(struct int8_range){.type = type,
                                .least = v->least,
                                .most = v->most,
                                .has_deviation = v->has_spread,
                                .mean = v->mean,
                                .deviation = v->deviation});
  }
}

// What a value with a range was made of, if it has the same elements.
static void backward(struct inheriting *h) {
  for (uint32_t i = 0; i < h->n_queue; i++) {
    const uint32_t value = h->queue[i], node = kit_maker(h->k, value);
    if (node == NO_ID || kit_out(h->k, node, 0) != value || view_of(h->k, node) != VIEW_ALL)
      continue;
    const uint32_t in = kit_in(h->k, node, 0);
    if (in != NO_ID && is_open(h, in)) settle(h, in, &h->range[value]);
  }
}

// What is made of a value with a range.
static void forward(struct inheriting *h) {
  for (uint32_t i = 0; i < h->n_queue; i++) {
    const uint32_t value = h->queue[i];
    for (struct kit_use u = kit_uses(h->k, value); kit_use(h->k, &u);) {
      const uint32_t out = u.slot == 0 ? kit_out(h->k, u.node, 0) : NO_ID;
      if (out == NO_ID || !is_open(h, out)) continue;
      const enum view view = view_of(h->k, u.node);
      struct int8_range range = h->range[value];
      if (view == VIEW_NONE) continue;
      if (view == VIEW_ZEROS_TOO) {
        range.least = fmin(range.least, 0);
        range.most = fmax(range.most, 0);
      }
      settle(h, out, &range);
    }
  }
}

void int8_ranges(struct kit *k, const struct ranges *ranges, bool inherit, struct int8_range *out) {
  struct inheriting h = {.k = k, .range = out};
  by_name(&h, ranges);
  if (inherit) backward(&h);
  if (inherit) forward(&h);
  TABLE_FREE(&h, queue);
}

// ---- tensors -----------------------------------------------------------------------------------

struct span int8_value_name(struct kit *k, struct span stem, const char *suffix) {
  return kit_names_take(&k->names, KIT_VALUES, k->graph, kit_names_join(stem, suffix, &k->site),
                        &k->site);
}

struct span int8_node_name(struct kit *k, struct span stem, const char *suffix) {
  return kit_names_free(&k->names, KIT_NODES, k->graph, kit_names_join(stem, suffix, &k->site),
                        &k->site);
}

uint32_t int8_tensor(struct kit *k, struct span stem, const char *suffix, uint32_t recipe,
                     uint32_t weight) {
  const struct span name = int8_value_name(k, stem, suffix);
  if (weight == NO_ID) return edit_add_tensor(k->e, k->graph, name, recipe);
  const uint32_t called = k->m->tensors[weight].name;
  return edit_add_tensor_for(k->e, k->graph, name, recipe, weight, called);
}
