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
// MatMul's. Models are valid: com.microsoft is imported, nodes are in order.
#include "static_put.h"

#include "dead_ends.h"

// Is there an Add of a constant along the last axis after it, and nothing else?
static bool find_bias(struct static_run *s, uint32_t node, struct static_linear *out) {
  struct kit *k = &s->k;
  const uint32_t w = kit_in(k, node, 1), add = kit_sole_user(k, kit_out(k, node, 0));
  int64_t dims[2], bias[2];
  uint32_t rank;
  if (!static_is_constant(s, w) || kit_dtype(k, w) != DTYPE_FLOAT ||
      !kit_static_dims(k, w, dims, 2, &rank) || rank != 2 || kit_op(k, add) != OP_Add)
    return false;
  const uint32_t slot = kit_in(k, add, 0) == kit_out(k, node, 0);
  const uint32_t b = kit_in(k, add, slot);
  if (k->m->nodes[add].graph != s->graph || !static_is_constant(s, b) ||
      !kit_static_dims(k, b, bias, 2, &rank) || rank == 0 || bias[rank - 1] != dims[1] ||
      (rank == 2 && bias[0] != 1))
    return false;
  *out = (struct static_linear){node, add, b};
  return true;
}

static void want_room(struct static_run *s, const struct static_linear *l) {
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
  struct static_linear l;
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
  struct static_linear l;
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
  struct static_linear l;
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

static struct span node_stem(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const struct span name = model_name(k->m, k->m->nodes[node].name);
  if (name.n == 0) return static_stem(s, kit_out(k, node, 0));
  return span_of(arena_string(&k->site, name), name.n);
}

// A node <m><what> with the output <o><out>.
#define MAKE(op, what, out, ...)                                                                   \
  kit_make(k, op, KIT_CALLED(int8_node_name(k, m, what)),                                          \
           KIT_OUT(((struct edit_output){NO_ID, int8_value_name(k, o, out)})), __VA_ARGS__)

static void sweep(struct static_run *s, uint32_t value) {
  const uint32_t maker = kit_maker(&s->k, value);
  if (maker != NO_ID && kit_unused(&s->k, value)) kit_sweep(&s->k, maker);
}

// ---- the recipes ---------------------------------------------------------------------------------

static void put_to_float(struct static_run *s, const struct static_linear *l,
                         const struct int8_parts *a, const struct int8_parts *w) {
  struct kit *k = &s->k;
  const uint32_t before[2] = {kit_in(k, l->node, 0), kit_in(k, l->node, 1)};
  const struct span m = node_stem(s, l->node);
  const uint32_t out = kit_out(k, l->node, 0);
  kit_import(k, s->graph, "com.microsoft", 1);
  const uint32_t behind = k->m->nodes[l->node].next;
  edit_remove_node(k->e, l->node);
  k->before = behind;
  kit_make(k, OP_ms_MatMulIntegerToFloat,
           KIT_CALLED(int8_node_name(k, m, "_quant_matmulintegertofloat")),
           KIT_OUT(((struct edit_output){out, span_of("", 0)})),
           KIT_IN(a->codes, w->codes, a->scales, w->scales, a->zeros, w->zeros));
  sweep(s, before[0]);
  sweep(s, before[1]);
}

static bool put_int32(struct static_run *s, const struct static_linear *l,
                      const struct int8_parts *a, const struct int8_parts *w) {
  struct kit *k = &s->k;
  struct model_constant c;
  if (!model_resolve_constant(k->m, l->bias, &c))
    return false; // another one's, which is codes by now
  const struct int8_parts parts =
      int8_bias(k->r, edit_tensor_recipe(k->e, c.tensor), kit_recipe(k, a->scales),
                kit_recipe(k, w->scales), 1, NO_ID);
  if (parts.codes == NO_ID) return false;
  const bool linear = s->o->execution == STATIC_AS_QLINEAR;
  const uint32_t before[2] = {kit_in(k, l->node, 0), kit_in(k, l->node, 1)};
  const struct span m = node_stem(s, l->node), o = static_stem(s, kit_out(k, l->node, 0)),
                    b = static_stem(s, c.value);
  const uint32_t out = kit_out(k, l->add, 0);
  const uint32_t bias = int8_tensor(k, b, "_quantized", parts.codes, c.tensor),
                 scale = int8_tensor(k, m, "_bias_scale", parts.scales, c.tensor);
  k->before = l->add;
  const uint32_t sum = MAKE(OP_MatMulInteger, linear ? "_quant_matmulinteger" : "_matmulinteger",
                            linear ? "_quant_matmulinteger" : "_matmulinteger",
                            KIT_IN(a->codes, w->codes, a->zeros, w->zeros));
  const uint32_t with = MAKE(OP_Add, linear ? "_quant_add" : "_add", linear ? "_quant_add" : "_add",
                             KIT_IN(sum, bias));
  const uint32_t wide =
      MAKE(OP_Cast, linear ? "_quant_cast" : "_cast", linear ? "_quant_cast" : "_cast",
           KIT_IN(with), KIT_INT("to", DTYPE_FLOAT));
  const uint32_t behind = k->m->nodes[l->add].next;
  edit_remove_node(k->e, l->add);
  edit_remove_node(k->e, l->node);
  k->before = behind == l->node ? NO_ID : behind;
  kit_make(k, OP_Mul, KIT_CALLED(int8_node_name(k, m, linear ? "_quant_mul" : "_mul")),
           KIT_OUT(((struct edit_output){out, span_of("", 0)})), KIT_IN(wide, scale));
  sweep(s, before[0]);
  sweep(s, before[1]);
  dead_ends_drop(k->e, l->bias);
  return true;
}

// The Q after the Add, under the recipe's name.
static void name_quantize(struct static_run *s, uint32_t value, struct span stem) {
  struct kit *k = &s->k;
  for (struct kit_use u = kit_uses(k, value); kit_use(k, &u);)
    if (kit_op(k, u.node) == OP_QuantizeLinear || kit_op(k, u.node) == OP_ms_QuantizeLinear) {
      edit_rename_node(k->e, u.node, int8_node_name(k, stem, "_quant_quantizelinear"));
      return;
    }
}

void static_put_recipes(struct static_run *s) {
  struct kit *k = &s->k;
  const bool int32 = s->o->format == STATIC_INT32_BIAS;
  if (s->o->format == STATIC_QDQ) return;
  for (uint32_t i = 0; i < s->n_linears; i++) {
    const struct static_linear *l = &s->linears[i];
    struct int8_parts a, w;
    if (!parts_of(s, l->node, 0, &a) || !parts_of(s, l->node, 1, &w)) continue;
    kit_site(k, l->node, int32 ? "int32_bias" : "float_bias");
    const struct span stem = node_stem(s, l->node);
    const uint32_t sum = kit_out(k, l->add, 0);
    if (int32) {
      if (!put_int32(s, l, &a, &w)) kit_skipped(k, l->node, "float_bias");
      continue;
    }
    if (s->o->execution == STATIC_AS_QDQ) continue;
    put_to_float(s, l, &a, &w);
    if (s->o->format == STATIC_FP32_BIAS_QDQ) name_quantize(s, sum, stem);
  }
}
