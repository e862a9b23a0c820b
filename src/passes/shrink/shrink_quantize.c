// integer_weights: one weight becomes codes of eight bits and the nodes that turn them back.
//
//   w_quantized ─▶ Cast ─▶ Mul(w_scale) ─▶ Add(w_zero_point) ─▶ w_add_tensor          cast-mul-add
//   w_quantized, w_scale, w_zero_point ─▶ DequantizeLinear ─▶ w_dequantized           dequantize
//
// In the first form the zero point is a float that is added, so the range of a weight needs not
// hold 0: a table of values from 5 to 6 keeps all its 256 steps. In the second it is one of the
// codes, and the range is extended to 0 (FORMAT_AFFINE).
//
// A constant without dims has scale and offset without dims, so that what comes out has none either.
//
// With a scale a channel, scales and offsets of the first form have the weight's rank with 1 along
// all other axes, so that Mul and Add broadcast them; those of the second are lists beside an axis.
//
//   float16_needs_opset_19       DequantizeLinear gives float16 from there on
//   channels_need_opset_13       and has an axis from there on
//   no_dequantize_to_double      and never gives double
#include "passes/shrink/inside/shrink_parts.h"

enum { DEQUANTIZE_AXIS_OPSET = 13, DEQUANTIZE_FLOAT16_OPSET = 19 };

static uint32_t axis_of(const struct shrinking *s, const struct weight *w) {
  const struct shrink_options *o = s->options;
  if (!o->per_channel || s->k.m->tensors[w->tensor].rank < 2) return RECIPE_PER_TENSOR;
  return w->tensor < o->n_axes ? o->axes[w->tensor] : RECIPE_PER_TENSOR;
}

struct recipe_quantization shrink_quantize_format(const struct shrinking *s,
                                                  const struct weight *w) {
  const struct shrink_options *o = s->options;
  if (o->method == SHRINK_FLOAT_WEIGHTS)
    return (struct recipe_quantization){
        .format = FORMAT_LEVELS, .axis = RECIPE_PER_TENSOR, .levels = o->levels};
  return (struct recipe_quantization){.format = o->form == SHRINK_DEQUANTIZE ? FORMAT_AFFINE
                                                                             : FORMAT_SHRINK,
                                      .bits = 8,
                                      .axis = axis_of(s, w)};
}

const char *shrink_quantize_obstacle(const struct shrinking *s, const struct weight *w) {
  const struct model *m = s->k.m;
  const int64_t opset = kit_opset(&s->k, w->graph);
  const enum dtype dtype = (enum dtype)m->tensors[w->tensor].dtype;
  if (opset == 0) return "ai_onnx_not_imported";
  if (!weights_takes_integers(m, w->graph)) return "opset_too_old";
  if (s->options->form == SHRINK_CAST_MUL_ADD)
    return opset < SHRINK_BROADCAST_OPSET ? "opset_too_old" : NULL;
  if (opset < SHRINK_DEQUANTIZE_OPSET) return "opset_too_old";
  if (dtype == DTYPE_DOUBLE) return "no_dequantize_to_double";
  if (dtype == DTYPE_FLOAT16 && opset < DEQUANTIZE_FLOAT16_OPSET) return "float16_needs_opset_19";
  if (axis_of(s, w) != RECIPE_PER_TENSOR && opset < DEQUANTIZE_AXIS_OPSET)
    return "channels_need_opset_13";
  return NULL;
}

// ---- names and nodes ---------------------------------------------------------------------------

enum {
  QUANTIZED,
  SCALE,
  ZERO_POINT,
  CAST_TENSOR,
  MUL_TENSOR,
  ADD_TENSOR,
  CAST_NODE,
  MUL_NODE,
  ADD_NODE,
  DEQUANTIZED,
  DEQUANTIZED_NODE,
  REPLACED,
  SUFFIXES
};

// One weight on its way.
struct family {
  struct kit *k;
  struct span names[SUFFIXES];
  uint32_t codes, scales, zeros; // value ids
  struct edit_output out;        // of the last node
};

#define NAMED(f, node, value)                                                                      \
  KIT_CALLED((f)->names[node]), KIT_OUT(((struct edit_output){NO_ID, (f)->names[value]}))

static uint32_t put_cast_mul_add(const struct family *f, enum dtype dtype) {
  const uint32_t x = kit_make(f->k, OP_Cast, NAMED(f, CAST_NODE, CAST_TENSOR), KIT_IN(f->codes),
                              KIT_INT("to", dtype));
  const uint32_t y = kit_make(f->k, OP_Mul, NAMED(f, MUL_NODE, MUL_TENSOR), KIT_IN(x, f->scales));
  return kit_make(f->k, OP_Add, KIT_CALLED(f->names[ADD_NODE]), KIT_OUT(f->out),
                  KIT_IN(y, f->zeros));
}

static uint32_t put_dequantize(const struct family *f, uint32_t channels) {
  const struct edit_attr axis = {.name = "axis", .type = ATTR_INT, .i = channels};
  const uint32_t in[3] = {f->codes, f->scales, f->zeros};
  return kit_make(f->k, OP_DequantizeLinear, KIT_INPUTS(in, 3),
                  KIT_ATTRS(&axis, channels == RECIPE_PER_TENSOR ? 0 : 1),
                  KIT_CALLED(f->names[DEQUANTIZED_NODE]), KIT_OUT(f->out));
}

// ---- tensors -----------------------------------------------------------------------------------

// The scales or offsets of channels with the weight's rank, for Mul and Add. A constant without dims stays one.
static uint32_t spread(struct recipes *r, uint32_t part, uint32_t of, uint32_t axis) {
  int64_t dims[RECIPE_MAX_RANK];
  const uint32_t rank = r->rows[of].rank;
  if (rank == 0) return recipe_reshape(r, part, NULL, 0);
  if (axis == RECIPE_PER_TENSOR) return part;
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = i == axis ? recipe_dims(r, of)[i] : 1;
  return recipe_reshape(r, part, dims, rank);
}

void shrink_quantize_weight(struct shrinking *s, const struct weight *w, uint32_t of,
                            const struct recipe_quantization *q) {
  static const char *const suffixes[SUFFIXES] = {
      "_quantized", "_scale",    "_zero_point", "_cast_tensor", "_mul_tensor",       "_add_tensor",
      "_cast_node", "_mul_node", "_add_node",   "_dequantized", "_dequantized_node", "_replaced"};
  struct kit *k = &s->k;
  struct family f = {.k = k};
  const uint32_t called = k->m->values[w->value].name; // which the last node may take
  const enum dtype dtype = (enum dtype)k->m->tensors[w->tensor].dtype;
  const bool dequantize = q->format == FORMAT_AFFINE;
  const uint32_t spread_axis = dequantize ? RECIPE_PER_TENSOR : q->axis;
  kit_name_family(k, shrink_base_name(s, w), suffixes, SUFFIXES, f.names);
  f.out = weights_output(k, w, f.names[dequantize ? DEQUANTIZED : ADD_TENSOR], f.names[REPLACED],
                         false);
  const uint32_t scales = spread(k->r, recipe_quantize(k->r, of, q, PART_SCALES), of, spread_axis);
  const uint32_t zeros = spread(k->r, recipe_quantize(k->r, of, q, PART_ZEROS), of, spread_axis);
  const uint32_t codes = recipe_quantize(k->r, of, q, PART_CODES);
  f.codes = edit_add_tensor_for(k->e, w->graph, f.names[QUANTIZED], codes, w->tensor, called);
  f.scales = edit_add_tensor_for(k->e, w->graph, f.names[SCALE], scales, w->tensor, called);
  f.zeros = edit_add_tensor_for(k->e, w->graph, f.names[ZERO_POINT], zeros, w->tensor, called);
  s->adds = true;
  weights_replace(k, w, dequantize ? put_dequantize(&f, q->axis) : put_cast_mul_add(&f, dtype));
}
