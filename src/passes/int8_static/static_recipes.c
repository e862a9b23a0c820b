// Neural Compressor's three recipes for a MatMul m and the Add of its bias, in both executions:
//
//   fp32-bias       Q ▸ DQ, DQ(w) ─▶ MatMul ─▶ Add                                          qdq
//                   Q ─▶ MatMulIntegerToFloat(a, w, scales, zero points) ─▶ Add             qlinear
//   int32-bias      Q ─▶ MatMulInteger ─▶ Add(b_quantized) ─▶ Cast ─▶ Mul(m_bias_scale)     both; other names
//   fp32-bias-qdq   the first, and Q ▸ DQ after the Add
//
// First the model is written in QDQ form, in which what MatMul gives is not quantized: that is the first recipe. Then the others are made of
// it: codes, scales and zero points are those of the DequantizeLinear nodes before the MatMul, which go where nobody else
// uses them. A bias is the constant operand of the Add, whatever it is called. The last recipe takes the Add's own range, not the
// MatMul's. Models are valid: com.microsoft is imported, nodes are in order. The nodes are written by int8_linear.c, for requantize too.
#include "passes/int8_static/inside/static_put.h"

// Is there an Add of a constant along the last axis after it, and nothing else?
static bool find_bias(struct static_run *s, uint32_t node, struct int8_linear *out) {
  struct kit *k = &s->k;
  const uint32_t w = kit_in(k, node, 1);
  int64_t dims[2];
  uint32_t rank, b = NO_ID;
  if (!static_is_constant(s, w) || kit_dtype(k, w) != DTYPE_FLOAT ||
      !kit_static_dims(k, w, dims, 2, &rank) || rank != 2)
    return false;
  const uint32_t add = int8_linear_add(k, node, &b);
  if (add == NO_ID || !static_is_constant(s, b) || !int8_linear_fits(k, b, dims[1])) return false;
  *out = (struct int8_linear){node, add, b};
  return true;
}

static void want_room(struct static_run *s, const struct int8_linear *l) {
  struct kit *k = &s->k;
  if (s->o->compat) return;
  *TABLE_PUSH(s, biases) = (struct static_bias){.value = l->bias,
                                                .node = l->node,
                                                .input = kit_in(k, l->node, 0),
                                                .weight = kit_in(k, l->node, 1),
                                                .alpha = 1,
                                                .beta = 1,
                                                .is_zero = kit_const_all(k, l->bias, 0) == KIT_YES,
                                                .summed = true};
}

// Does ONNX Runtime move a Q after the node in front of it, or take the node away there?
static bool lets_codes_pass(struct static_run *s, uint32_t node, uint32_t value) {
  const struct static_op *op = static_op_named(model_name(s->k.m, s->k.m->nodes[node].op_type));
  return static_vanishes(s, node) == value ||
         (kit_in(&s->k, node, 0) == value &&
          (static_moves(s, node) || (op && op->qdq == STATIC_Q_REMOVABLE)));
}

// Is there a Q after the value in the end?
static bool becomes_codes(struct static_run *s, uint32_t value) {
  struct kit *k = &s->k;
  while (!static_is_marked(s, value)) {
    const uint32_t user = kit_sole_user(k, value);
    if (user == NO_ID || k->m->nodes[user].graph != s->graph) return false;
    if (kit_op(k, user) == OP_QuantizeLinear || kit_op(k, user) == OP_ms_QuantizeLinear)
      return true;
    if (!lets_codes_pass(s, user, value)) return false;
    value = kit_out(k, user, 0);
    if (value == NO_ID) return false;
  }
  return true;
}

void static_mark_sums(struct static_run *s) {
  const bool is_fused = s->o->format == STATIC_QDQ ||
                        (s->o->format == STATIC_FP32_BIAS_QDQ && s->o->execution == STATIC_AS_QDQ);
  for (uint32_t i = 0; i < s->n_linears; i++) {
    const uint32_t sum = kit_out(&s->k, s->linears[i].add, 0);
    if (s->o->format == STATIC_FP32_BIAS_QDQ) static_mark_value(s, sum);
    if (s->o->format == STATIC_INT32_BIAS || (is_fused && becomes_codes(s, sum)))
      want_room(s, &s->linears[i]);
  }
}

// Was only the sum after it seen? Then it stays float.
static bool leave(struct static_run *s, uint32_t node) {
  struct int8_linear l;
  struct static_params p;
  const uint32_t y = kit_out(&s->k, node, 0);
  if (s->o->compat || y == NO_ID || static_params_of(s, y, &p) || !find_bias(s, node, &l))
    return false;
  static_leave_value(s, y, "");
  *TABLE_PUSH(s, linears) = l;
  return true;
}

bool static_adds_bias(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  struct int8_linear l;
  const char *why;
  if (!static_is_recipe(s->o->format) || kit_op(k, node) != OP_Add) return false;
  for (uint32_t slot = 0; slot < 2; slot++) {
    const uint32_t maker = kit_maker(k, kit_in(k, node, slot));
    if (kit_op(k, maker) == OP_MatMul && static_takes(s, maker, &why) && !static_kept(s, maker) &&
        find_bias(s, maker, &l) && l.add == node)
      return true;
  }
  return false;
}

bool static_mark_linear(struct static_run *s, uint32_t node) {
  struct int8_linear l;
  if (!static_is_recipe(s->o->format)) return leave(s, node);
  if (!find_bias(s, node, &l)) return true;
  *TABLE_PUSH(s, linears) = l;
  return true;
}

// ---- what the QDQ form has -----------------------------------------------------------------------

// The inputs of the DequantizeLinear that makes the node's input.
static bool parts_of(struct static_run *s, uint32_t node, uint32_t slot, struct int8_parts *out) {
  struct kit *k = &s->k;
  const uint32_t maker = kit_maker(k, kit_in(k, node, slot));
  if (kit_op(k, maker) != OP_DequantizeLinear && kit_op(k, maker) != OP_ms_DequantizeLinear)
    return false;
  *out = (struct int8_parts){kit_in(k, maker, 0), kit_in(k, maker, 1), kit_in(k, maker, 2)};
  return out->zeros != NO_ID;
}

// ---- the recipes ---------------------------------------------------------------------------------

static bool put_int32(struct static_run *s, const struct int8_linear *l, const struct int8_parts *a,
                      const struct int8_parts *w) {
  struct kit *k = &s->k;
  struct model_constant c;
  if (!model_resolve_constant(k->m, l->bias, &c))
    return false; // another one's, which is codes by now
  const struct int8_parts parts =
      int8_bias(k->r, edit_tensor_recipe(k->e, c.tensor), kit_recipe(k, a->scales),
                kit_recipe(k, w->scales), 1, NO_ID);
  if (parts.codes == NO_ID) return false;
  struct int8_parts bias = {.zeros = NO_ID};
  bias.codes = int8_tensor(k, kit_stem_of(k, c.value), "_quantized", parts.codes, c.tensor);
  bias.scales = int8_tensor(k, int8_linear_stem(k, l->node), "_bias_scale", parts.scales, c.tensor);
  int8_linear_to_int32(k, l, a, w, &bias, s->o->execution == STATIC_AS_QLINEAR);
  return true;
}

void static_put_recipes(struct static_run *s) {
  struct kit *k = &s->k;
  const bool int32 = s->o->format == STATIC_INT32_BIAS;
  if (s->o->format == STATIC_QDQ) return;
  for (uint32_t i = 0; i < s->n_linears; i++) {
    const struct int8_linear *l = &s->linears[i];
    struct int8_parts a, w;
    if (!parts_of(s, l->node, 0, &a) || !parts_of(s, l->node, 1, &w)) continue;
    kit_site(k, l->node, int32 ? "int32_bias" : "float_bias");
    const struct span stem = int8_linear_stem(k, l->node);
    const uint32_t sum = kit_out(k, l->add, 0);
    if (int32) {
      if (!put_int32(s, l, &a, &w)) kit_skipped(k, l->node, "float_bias");
      continue;
    }
    if (s->o->execution == STATIC_AS_QDQ) continue;
    int8_linear_to_float(k, l, &a, &w);
    if (s->o->format == STATIC_FP32_BIAS_QDQ) int8_linear_name_quantize(k, sum, stem);
  }
}
