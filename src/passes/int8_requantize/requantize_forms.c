// The table of operators, and how parameters of codes are read (requantize_forms.h).
#include "passes/int8_requantize/inside/requantize_forms.h"

#include <math.h>

static const struct requantize_row rows[] = {
    {OP_Conv, OP_QLinearConv, LAYOUT_CONV},
    {OP_MatMul, OP_QLinearMatMul, LAYOUT_BINARY},
    {OP_Gemm, OP_ms_QGemm, LAYOUT_GEMM},
    {OP_Add, OP_ms_QLinearAdd, LAYOUT_BINARY},
    {OP_Mul, OP_ms_QLinearMul, LAYOUT_BINARY},
    {OP_Concat, OP_ms_QLinearConcat, LAYOUT_CONCAT},
    {OP_Where, OP_ms_QLinearWhere, LAYOUT_WHERE},
    {OP_LeakyRelu, OP_ms_QLinearLeakyRelu, LAYOUT_UNARY},
    {OP_Sigmoid, OP_ms_QLinearSigmoid, LAYOUT_UNARY},
    {OP_Softmax, OP_ms_QLinearSoftmax, LAYOUT_UNARY},
    {OP_AveragePool, OP_ms_QLinearAveragePool, LAYOUT_UNARY},
    {OP_GlobalAveragePool, OP_ms_QLinearGlobalAveragePool, LAYOUT_UNARY},
    {OP_NONE, OP_ms_MatMulIntegerToFloat, LAYOUT_FLOAT},
    {OP_Reshape, OP_Reshape, LAYOUT_MOVE},
    {OP_Transpose, OP_Transpose, LAYOUT_MOVE},
    {OP_Squeeze, OP_Squeeze, LAYOUT_MOVE},
    {OP_Unsqueeze, OP_Unsqueeze, LAYOUT_MOVE},
    {OP_Flatten, OP_Flatten, LAYOUT_MOVE},
    {OP_MaxPool, OP_MaxPool, LAYOUT_MOVE},
    {OP_Resize, OP_Resize, LAYOUT_MOVE},
    {OP_Slice, OP_Slice, LAYOUT_MOVE},
    {OP_Split, OP_Split, LAYOUT_MOVE},
    {OP_Gather, OP_Gather, LAYOUT_MOVE},
    {OP_Pad, OP_Pad, LAYOUT_MOVE},
    {OP_ArgMax, OP_ArgMax, LAYOUT_MOVE},
};
static const struct requantize_row none = {OP_NONE, OP_NONE, LAYOUT_NONE};

struct requantize_row requantize_row_of(enum op plain) {
  for (size_t i = 0; plain != OP_NONE && i < sizeof rows / sizeof *rows; i++)
    if (rows[i].plain == plain) return rows[i];
  return none;
}

struct requantize_row requantize_row_on_codes(enum op on_codes) {
  for (size_t i = 0; on_codes != OP_NONE && i < sizeof rows / sizeof *rows; i++)
    if (rows[i].on_codes == on_codes && rows[i].layout != LAYOUT_MOVE) return rows[i];
  return none;
}

const char *requantize_form(struct kit *k, uint32_t codes, uint32_t scale, uint32_t zero,
                            struct form *out) {
  int64_t dims[2] = {1, 1};
  uint32_t rank, tensor;
  *out = (struct form){.codes = codes, .scale = scale, .zero = zero, .n = 1, .axis = 0};
  if (!kit_constant(k, scale, &tensor) || (zero != NO_ID && !kit_constant(k, zero, &tensor)))
    return "parameters";
  if (!kit_static_dims(k, scale, dims, 2, &rank)) return "parameters";
  if (rank == 2 || dims[0] < 1 || dims[0] > UINT32_MAX) return "blocks";
  out->n = rank == 0 ? 1 : (uint32_t)dims[0];
  out->of = kit_dtype(k, scale);
  out->type = zero != NO_ID ? kit_dtype(k, zero) : kit_dtype(k, codes);
  return out->type == DTYPE_UNDEFINED ? "code_types" : NULL;
}

const char *requantize_form_of(struct kit *k, uint32_t node, struct form *out) {
  int64_t block, axis;
  const bool quantizes = requantize_is_quantize(kit_op(k, node));
  const char *why = requantize_form(k, quantizes ? kit_out(k, node, 0) : kit_in(k, node, 0),
                                    kit_in(k, node, 1), kit_in(k, node, 2), out);
  if (why) return why;
  if (!kit_attr_int(k, node, "block_size", 0, &block) || block != 0) return "blocks";
  if (!kit_attr_int(k, node, "axis", 1, &axis)) return "parameters";
  out->axis = axis;
  return NULL;
}

bool requantize_zero(struct kit *k, const struct form *f, int64_t *out) {
  struct kit_number number;
  *out = 0;
  if (f->zero == NO_ID) return true;
  if (kit_const_fill(k, f->zero, &number) != KIT_YES || !number.exact) return false;
  *out = number.i;
  return true;
}

bool requantize_same(struct kit *k, const struct form *a, const struct form *b) {
  double x, y;
  int64_t zero, other;
  return a->n == 1 && b->n == 1 && a->type == b->type && kit_const_scalar(k, a->scale, &x) &&
         kit_const_scalar(k, b->scale, &y) && x == y && requantize_zero(k, a, &zero) &&
         requantize_zero(k, b, &other) && zero == other;
}

uint32_t requantize_zero_value(struct kit *k, const struct form *f) {
  const uint8_t zero = 0;
  const int64_t n = f->n;
  if (f->zero != NO_ID) return f->zero;
  if (f->n == 1) return kit_new_scalar(k, "zero_point", f->type, 0);
  return kit_new_tensor(k, "zero_point",
                        recipe_fill(k->r, f->type, &n, 1, span_of(&zero, sizeof zero)));
}

bool requantize_numbers(struct kit *k, uint32_t value, const double **list, uint32_t *n) {
  enum dtype dtype;
  struct span raw;
  if (!kit_long_elements(k, value, &dtype, &raw)) return false;
  const size_t count = raw.n * 8 / dtype_bits(dtype);
  double *out = arena_alloc(&k->site, (count + 1) * sizeof *out);
  for (size_t i = 0; i < count; i++) {
    struct kit_number x;
    if (!kit_number_at(dtype, raw.at, i, &x)) return false;
    out[i] = x.d;
  }
  *list = out;
  *n = (uint32_t)count;
  return true;
}

static uint32_t times(struct kit *k, uint32_t of, float by) {
  const uint32_t both[2] = {of, recipe_bytes(k->r, DTYPE_FLOAT, NULL, 0, span_of(&by, sizeof by))};
  return recipe_map(k->r, RECIPE_MAP_MUL, both);
}

// Of more scales than a log should have as numbers: they are computed.
static uint32_t long_product(struct kit *k, double x, uint32_t w_scale, double factor) {
  const double *scales;
  uint32_t n;
  if (!requantize_numbers(k, w_scale, &scales, &n)) return NO_ID;
  for (uint32_t i = 0; i < n; i++) {
    const float product = (float)x * (float)scales[i] * (float)factor;
    if (!(product > 0) || isinf(product)) return NO_ID;
  }
  uint32_t of = kit_recipe(k, w_scale);
  if (of == NO_ID) return NO_ID;
  if (k->r->rows[of].dtype != DTYPE_FLOAT) of = recipe_cast(k->r, of, DTYPE_FLOAT);
  of = times(k, of, (float)x);
  return factor == 1 ? of : times(k, of, (float)factor);
}

uint32_t requantize_product(struct kit *k, uint32_t x_scale, uint32_t w_scale, double factor) {
  const double *scales;
  double x;
  uint32_t n, rank;
  int64_t dims[2];
  if (!kit_const_scalar(k, x_scale, &x) || !kit_static_dims(k, w_scale, dims, 2, &rank))
    return NO_ID;
  if (!kit_const_floats(k, w_scale, &scales, &n)) return long_product(k, x, w_scale, factor);
  float *products = arena_alloc(&k->site, n * sizeof *products);
  for (uint32_t i = 0; i < n; i++) {
    products[i] = (float)x * (float)scales[i];
    if (factor != 1) products[i] = products[i] * (float)factor;
    if (!(products[i] > 0) || isinf(products[i])) return NO_ID;
  }
  return recipe_bytes(k->r, DTYPE_FLOAT, dims, rank, span_of(products, n * sizeof *products));
}
