// What operators on codes want of those that they stand for: types, where the channels of weights lie, and biases that fit int32.
#include "passes/int8_requantize/inside/requantize_look.h"

#include <math.h>

const char *requantize_look_input(struct kit *k, struct look *l, uint32_t slot) {
  const uint32_t value = kit_in(k, l->node, slot), maker = kit_maker(k, value);
  if (l->n == FORMS) return "signature";
  if (!requantize_is_dequantize(kit_op(k, maker))) return "input_not_quantized";
  l->slots[l->n] = slot;
  return requantize_form_of(k, maker, &l->x[l->n++]);
}

// ---- types and scales --------------------------------------------------------------------------

// ONNX Runtime: uint8 with both, int8 with int8.
bool requantize_look_types_fit(const struct look *l) {
  const bool products =
      l->row.layout == LAYOUT_CONV || l->row.layout == LAYOUT_GEMM || l->row.plain == OP_MatMul;
  for (uint32_t i = 0; i < l->n; i++) {
    if (!requantize_is_8bit(l->x[i].type)) return false;
    if (l->x[i].type != l->x[0].type && !(products && l->x[0].type == DTYPE_UINT8)) return false;
  }
  return l->quantize == NO_ID || l->y.type == l->x[0].type;
}

// Where the channels of a weight lie.
const char *requantize_look_weight(struct kit *k, const struct look *l) {
  const struct form *w = &l->x[1];
  int64_t zero, transposed;
  uint32_t rank, tensor;
  // Operators on codes leave the result unwritten where there is nothing to sum up.
  for (uint32_t d = 0; kit_rank(k, w->codes, &rank) && d < rank; d++)
    if (kit_dim(k, w->codes, d).value == 0) return "empty_weight";
  if (l->x[0].n != 1) return "axis";
  if (l->row.layout == LAYOUT_CONV && !requantize_zero(k, w, &zero)) return "zero_points";
  if (w->n == 1) return NULL;
  if (!kit_constant(k, w->codes, &tensor) || !kit_rank(k, w->codes, &rank)) return "axis";
  int64_t axis = w->axis < 0 ? w->axis + rank : w->axis, wanted = rank - 1;
  if (l->row.layout == LAYOUT_CONV) wanted = 0;
  if (l->row.layout == LAYOUT_GEMM) {
    if (!kit_attr_int(k, l->node, "transB", 0, &transposed)) return "attributes";
    wanted = transposed ? 0 : 1;
  }
  if (l->row.plain == OP_MatMul && rank != 2) return "axis";
  return axis == wanted ? NULL : "axis";
}

// ---- bias --------------------------------------------------------------------------------------

static const double CODES_MOST = 1073741824; // half of int32

static bool same_scales(struct kit *k, const struct look *l) {
  const double *own, *w;
  double x;
  uint32_t n, n_w;
  if (!kit_const_scalar(k, l->x[0].scale, &x) ||
      !requantize_numbers(k, l->bias_form.scale, &own, &n) ||
      !requantize_numbers(k, l->x[1].scale, &w, &n_w) || n != n_w)
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (!(fabs(own[i] / (x * w[i] * l->factor) - 1) < 1e-6)) return false;
  return true;
}

static bool bias_fits(struct kit *k, const struct look *l, uint32_t value) {
  int64_t dims[2];
  uint32_t rank;
  if (!kit_static_dims(k, value, dims, 2, &rank)) return false;
  if (l->row.layout == LAYOUT_CONV)
    return rank == 1 && (l->x[1].n == 1 || dims[0] == (int64_t)l->x[1].n);
  if (l->x[1].n == 1) return true;
  return rank > 0 && dims[rank - 1] == (int64_t)l->x[1].n && (rank == 1 || dims[0] == 1);
}

// The scales that new codes of the bias have, one for all or one for each channel.
struct products {
  double *at, least;
  uint32_t n;
};

static bool read_products(struct kit *k, const struct look *l, struct products *p) {
  const double *w;
  double x;
  if (!kit_const_scalar(k, l->x[0].scale, &x) || !requantize_numbers(k, l->x[1].scale, &w, &p->n) ||
      p->n == 0)
    return false;
  p->at = arena_alloc(&k->site, p->n * sizeof *p->at);
  p->least = INFINITY;
  for (uint32_t i = 0; i < p->n; i++) {
    p->at[i] = fabs(x * w[i] * l->factor);
    p->least = fmin(p->least, p->at[i]);
  }
  return true;
}

// The most that new codes are, of a bias of n numbers; NaN where one is no number.
static double most_codes(const struct products *p, const double *b, uint32_t n) {
  double most = 0;
  for (uint32_t i = 0; i < n; i++) {
    const double code = fabs(b[i]) / (n == p->n ? p->at[i] : p->least);
    if (!(code <= most)) most = code;
  }
  return most;
}

static bool most_of_floats(struct kit *k, const struct look *l, const struct products *p,
                           double *most) {
  const double *b;
  uint32_t n;
  if (!requantize_numbers(k, l->bias, &b, &n)) return false;
  *most = most_codes(p, b, n);
  return true;
}

// The same of a bias that has codes: by its scales, if they keep every possible code small enough; else by the codes.
static bool most_of_codes(struct kit *k, const struct look *l, const struct products *p,
                          double *most) {
  const double *own, *codes;
  uint32_t n_own, n;
  if (!requantize_numbers(k, l->bias_form.scale, &own, &n_own)) return false;
  *most = most_codes(p, own, n_own) * -(double)INT32_MIN;
  if (*most <= CODES_MOST) return true;
  if (!requantize_numbers(k, l->bias_form.codes, &codes, &n) || (n_own != 1 && n_own != n))
    return false;
  double *b = arena_alloc(&k->site, (n + (size_t)1) * sizeof *b);
  for (uint32_t i = 0; i < n; i++)
    b[i] = (codes[i] - (double)l->bias_zero) * own[n_own == 1 ? 0 : i];
  *most = most_codes(p, b, n);
  return true;
}

// May new codes of the bias take more than half of int32, of which sums of products need the rest? One that cannot be read is no larger
// than the result can be, as far as anybody knows.
static bool bias_passes_int32(struct kit *k, const struct look *l) {
  enum { RESULT_MOST = 65536 }; // of a result that stays float
  struct products p;
  double y = RESULT_MOST, scale, most = 0;
  if (!read_products(k, l, &p)) return false;
  if (l->bias_codes ? most_of_codes(k, l, &p, &most) : most_of_floats(k, l, &p, &most))
    return !(most <= CODES_MOST);
  if (l->quantize != NO_ID && kit_const_scalar(k, l->y.scale, &scale)) y = 256 * scale;
  return !(y <= CODES_MOST * p.least);
}

// How far from the code of 0 codes of that form may be.
static double farthest_code(struct kit *k, const struct form *f) {
  const double least = f->type == DTYPE_INT8 ? -128 : 0, most = least + 255;
  int64_t zero;
  if (!requantize_zero(k, f, &zero)) return 255;
  return fmax((double)zero - least, most - (double)zero);
}

// The most that a sum of products is in size; half of int32 where that is not known, and no more: larger ones fit without a bias as little.
static double most_of_sums(struct kit *k, const struct look *l) {
  double terms = farthest_code(k, &l->x[0]) * farthest_code(k, &l->x[1]);
  uint32_t rank;
  int64_t transposed = 0;
  if (!kit_rank(k, l->x[1].codes, &rank) || !kit_attr_int(k, l->node, "transB", 0, &transposed))
    return CODES_MOST;
  const uint32_t channel = l->row.layout == LAYOUT_CONV || transposed ? 0 : 1;
  for (uint32_t i = 0; i < rank; i++) {
    const int64_t dim = kit_dim(k, l->x[1].codes, i).value;
    if (dim < 1) return CODES_MOST;
    if (i != channel) terms *= (double)dim;
  }
  return fmin(terms, CODES_MOST);
}

// Codes that stay, and a sum on top of them: do these pass int32?
static bool kept_passes_int32(struct kit *k, const struct look *l) {
  const double *codes;
  uint32_t n;
  double most = 0;
  if (!requantize_numbers(k, l->bias_form.codes, &codes, &n)) return false;
  for (uint32_t i = 0; i < n; i++)
    most = fmax(most, fabs(codes[i]));
  return most > (double)INT32_MAX - most_of_sums(k, l);
}

// How codes of a bias are dequantized, along its last axis: their recipe.
static uint32_t dequantization(struct kit *k, const struct look *l,
                               struct recipe_dequantization *how) {
  const struct form *f = &l->bias_form;
  uint32_t rank;
  kit_rank(k, f->codes, &rank);
  *how = (struct recipe_dequantization){.scales = kit_recipe(k, f->scale),
                                        .zeros = l->bias_zero ? kit_recipe(k, f->zero) : NO_ID,
                                        .axis = f->n == 1 ? RECIPE_PER_TENSOR : rank - 1};
  return kit_recipe(k, f->codes);
}

static bool can_dequantize(struct kit *k, const struct look *l) {
  struct recipe_dequantization how;
  const uint32_t codes = dequantization(k, l, &how);
  return recipe_can_dequantize(k->r, codes, &how);
}

const char *requantize_look_bias(struct kit *k, struct look *l) {
  const uint32_t maker = kit_maker(k, l->bias);
  uint32_t tensor, rank;
  bool is_own = false; // codes of int32, as those that operators take
  if (l->bias == NO_ID) return NULL;
  if (kit_may_be_left_out(k->m, l->bias)) return "optional_bias";
  l->bias_codes = requantize_is_dequantize(kit_op(k, maker));
  if (l->bias_codes) {
    const char *why = requantize_form_of(k, maker, &l->bias_form);
    if (why) return why;
    if (!requantize_zero(k, &l->bias_form, &l->bias_zero)) return "code_types";
    is_own = l->bias_form.type == DTYPE_INT32 && l->bias_zero == 0;
    if (!is_own && l->row.plain != OP_MatMul) return "code_types";
    if (l->bias_form.n > 1 &&
        (!kit_rank(k, l->bias_form.codes, &rank) ||
         (l->bias_form.axis < 0 ? l->bias_form.axis + rank : l->bias_form.axis) != rank - 1))
      return "axis";
  }
  const uint32_t value = l->bias_codes ? l->bias_form.codes : l->bias;
  if (!kit_constant(k, value, &tensor) || !edit_tensor_readable(k->e, tensor))
    return "non_constant_bias";
  if (!bias_fits(k, l, value)) return "bias_shape";
  if (!l->bias_codes && kit_dtype(k, value) != DTYPE_FLOAT && kit_dtype(k, value) != DTYPE_FLOAT16)
    return "type";
  l->bias_kept = is_own && same_scales(k, l);
  if (!l->bias_kept && requantize_product(k, l->x[0].scale, l->x[1].scale, l->factor) == NO_ID)
    return "parameters";
  if (l->bias_codes && !l->bias_kept && !can_dequantize(k, l)) return "parameters";
  const bool passes = l->bias_kept ? kept_passes_int32(k, l) : bias_passes_int32(k, l);
  return passes ? "bias_range" : NULL;
}

// The float numbers of the bias.
static uint32_t bias_recipe(struct kit *k, const struct look *l) {
  struct recipe_dequantization how;
  if (!l->bias_codes) return kit_recipe(k, l->bias);
  const uint32_t codes = dequantization(k, l, &how);
  return recipe_dequantize(k->r, codes, &how);
}

// Codes of int32 by the scales that the operator takes for granted.
uint32_t requantize_look_bias_codes(struct kit *k, const struct look *l) {
  if (l->bias == NO_ID || l->bias_kept) return l->bias == NO_ID ? NO_ID : l->bias_form.codes;
  const uint32_t b = bias_recipe(k, l), n = l->x[1].n, rank = k->r->rows[b].rank;
  const uint32_t scales = requantize_product(k, l->x[0].scale, l->x[1].scale, l->factor);
  const struct recipe_linear how = {.type = DTYPE_INT32,
                                    .scales =
                                        n > 1 ? scales : recipe_reshape(k->r, scales, NULL, 0),
                                    .zeros = NO_ID,
                                    .axis = n > 1 ? rank - 1 : RECIPE_PER_TENSOR};
  return kit_new_tensor(k, "bias_quantized", recipe_quantize_linear(k->r, b, &how));
}

bool requantize_look_reaches(struct kit *k, const struct look *l, uint32_t at) {
  for (uint32_t i = 0; i < l->n; i++)
    if (!kit_available(k, l->x[i].codes, k->m->nodes[at].graph, at)) return false;
  return true;
}
