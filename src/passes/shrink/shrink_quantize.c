// integer_weights: one weight becomes codes of eight bits and the nodes that turn them back.
//
//   w_quantized ─▶ Cast ─▶ Mul(w_scale) ─▶ Add(w_zero_point) ─▶ w_add_tensor          cast-mul-add
//   w_quantized, w_scale, w_zero_point ─▶ DequantizeLinear ─▶ w_dequantized           dequantize
//
// In the first form the zero point is a float that is added, so the range of a weight needs not
// hold 0: a table of values from 5 to 6 keeps all its 256 steps. In the second it is one of the
// codes, and the range is extended to 0 (FORMAT_AFFINE).
//
// With a scale a channel, scales and offsets of the first form have the weight's rank with 1 along
// all other axes, so that Mul and Add broadcast them; those of the second are lists beside an axis.
//
//   float16_needs_opset_19       DequantizeLinear gives float16 from there on
//   channels_need_opset_13       and has an axis from there on
//   no_dequantize_to_double      and never gives double
#include "shrink_parts.h"

enum { DEQUANTIZE_AXIS_OPSET = 13, DEQUANTIZE_FLOAT16_OPSET = 19 };

static uint32_t axis_of(const struct shrinking *s, const struct weight *w) {
  const struct shrink_options *o = s->options;
  if (!o->per_channel || s->env->m->tensors[w->tensor].rank < 2) return RECIPE_PER_TENSOR;
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
  const struct model *m = s->env->m;
  const int64_t opset = model_opset_version(m, w->graph, span_str(""));
  const enum dtype dtype = (enum dtype)m->tensors[w->tensor].dtype;
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
  struct shrinking *s;
  const struct weight *w;
  struct span names[SUFFIXES];
  uint32_t called;               // the weight's name, which the last node may take
  uint32_t codes, scales, zeros; // value ids
  uint32_t anchor;
  struct edit_output out; // of the last node
};

static void name_family(struct family *f) {
  static const char *const suffixes[SUFFIXES] = {
      "_quantized", "_scale",    "_zero_point", "_cast_tensor", "_mul_tensor",       "_add_tensor",
      "_cast_node", "_mul_node", "_add_node",   "_dequantized", "_dequantized_node", "_replaced"};
  struct arena *a = f->s->env->site_scratch;
  const struct span base = shrink_base_name(f->s, f->w);
  const struct span stem = stems_new(&f->s->stems, base, suffixes, SUFFIXES, a);
  for (uint32_t i = 0; i < SUFFIXES; i++)
    f->names[i] = stems_join(stem, suffixes[i], a);
}

static uint32_t put_node(struct family *f, const char *op, struct span name, const uint32_t *in,
                         uint32_t n_in, struct edit_output out, const struct edit_attr *attr) {
  const struct edit_node spec = {.graph = f->w->graph,
                                 .before = f->anchor,
                                 .name = name,
                                 .op_type = span_str(op),
                                 .in = in,
                                 .n_in = n_in,
                                 .out = &out,
                                 .n_out = 1,
                                 .attrs = attr,
                                 .n_attrs = attr ? 1 : 0};
  const struct edits *e = f->s->env->edits;
  const uint32_t node = edit_add_node(f->s->env->edits, &spec);
  return model_output(e->m, &e->m->nodes[node], 0);
}

static struct edit_output named(struct span name) {
  return (struct edit_output){NO_ID, name};
}

static uint32_t put_cast_mul_add(struct family *f, enum dtype dtype) {
  const struct edit_attr to = {.name = "to", .type = ATTR_INT, .i = dtype};
  const uint32_t x =
      put_node(f, "Cast", f->names[CAST_NODE], &f->codes, 1, named(f->names[CAST_TENSOR]), &to);
  const uint32_t scaled[2] = {x, f->scales};
  const uint32_t y =
      put_node(f, "Mul", f->names[MUL_NODE], scaled, 2, named(f->names[MUL_TENSOR]), NULL);
  const uint32_t moved[2] = {y, f->zeros};
  return put_node(f, "Add", f->names[ADD_NODE], moved, 2, f->out, NULL);
}

static uint32_t put_dequantize(struct family *f, uint32_t channels) {
  const struct edit_attr axis = {.name = "axis", .type = ATTR_INT, .i = channels};
  const uint32_t in[3] = {f->codes, f->scales, f->zeros};
  return put_node(f, "DequantizeLinear", f->names[DEQUANTIZED_NODE], in, 3, f->out,
                  channels == RECIPE_PER_TENSOR ? NULL : &axis);
}

// ---- tensors -----------------------------------------------------------------------------------

// The scales or offsets of channels with the weight's rank, for Mul and Add.
static uint32_t spread(struct recipes *r, uint32_t part, uint32_t of, uint32_t axis) {
  int64_t dims[RECIPE_MAX_RANK];
  const uint32_t rank = r->rows[of].rank;
  if (axis == RECIPE_PER_TENSOR) return part;
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = i == axis ? recipe_dims(r, of)[i] : 1;
  return recipe_reshape(r, part, dims, rank);
}

static uint32_t put_tensor(struct family *f, uint32_t name, uint32_t recipe) {
  return edit_add_tensor_for(f->s->env->edits, f->w->graph, f->names[name], recipe, f->w->tensor,
                             f->called);
}

static void put_tensors(struct family *f, uint32_t of, const struct recipe_quantization *q) {
  struct edits *e = f->s->env->edits;
  uint32_t scales = recipe_quantize(e->r, of, q, PART_SCALES);
  uint32_t zeros = recipe_quantize(e->r, of, q, PART_ZEROS);
  if (q->format == FORMAT_SHRINK) {
    scales = spread(e->r, scales, of, q->axis);
    zeros = spread(e->r, zeros, of, q->axis);
  }
  const uint32_t codes = recipe_quantize(e->r, of, q, PART_CODES);
  f->codes = put_tensor(f, QUANTIZED, codes);
  f->scales = put_tensor(f, SCALE, scales);
  f->zeros = put_tensor(f, ZERO_POINT, zeros);
}

void shrink_quantize_weight(struct shrinking *s, const struct weight *w, uint32_t of,
                            const struct recipe_quantization *q) {
  const struct model *m = s->env->m;
  struct family f = {.s = s, .w = w, .called = m->values[w->value].name};
  const enum dtype dtype = (enum dtype)m->tensors[w->tensor].dtype;
  const bool dequantize = q->format == FORMAT_AFFINE;
  name_family(&f);
  const struct weights_names names = {.made = f.names[dequantize ? DEQUANTIZED : ADD_TENSOR],
                                      .spare = f.names[REPLACED]};
  f.out = weights_output(s->env, w, &names);
  f.anchor = weights_anchor(&s->anchors, m, w);
  put_tensors(&f, of, q);
  s->adds = true;
  const uint32_t to = dequantize ? put_dequantize(&f, q->axis) : put_cast_mul_add(&f, dtype);
  weights_replace(s->env->edits, &s->anchors, w, to);
}
