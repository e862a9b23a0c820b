// The nodes that stand for a MatMul and the Add of its bias (int8_linear.h). Everything that there is to decide was decided: edits only.
//
// Nodes are called as Neural Compressor calls them, <m>_quant_matmulintegertofloat, <m>_add, what they give after the MatMul's result. The
// new ones stand where the Add stood, or the MatMul.
#include "passes/int8/int8_linear.h"

#include "passes/kit/dead_ends.h"

uint32_t int8_linear_add(struct kit *k, uint32_t node, uint32_t *other) {
  const uint32_t made = kit_out(k, node, 0), add = kit_sole_user(k, made);
  if (kit_op(k, add) != OP_Add || k->m->nodes[add].graph != k->m->nodes[node].graph) return NO_ID;
  *other = kit_in(k, add, kit_in(k, add, 0) == made);
  return add;
}

bool int8_linear_fits(struct kit *k, uint32_t bias, int64_t columns) {
  int64_t dims[2];
  uint32_t rank;
  return kit_static_dims(k, bias, dims, 2, &rank) && rank > 0 && dims[rank - 1] == columns &&
         (rank == 1 || dims[0] == 1);
}

struct span int8_linear_stem(struct kit *k, uint32_t node) {
  const struct span name = model_name(k->m, k->m->nodes[node].name);
  if (name.n == 0) return kit_stem_of(k, kit_out(k, node, 0));
  return span_of(arena_string(&k->site, name), name.n);
}

// A node <m><what> with the output <o><out>.
#define MAKE(op, what, ...)                                                                        \
  kit_make(k, op, KIT_CALLED(int8_node_name(k, m, what)),                                          \
           KIT_OUT(((struct edit_output){NO_ID, int8_value_name(k, o, what)})), __VA_ARGS__)

static void sweep(struct kit *k, uint32_t value) {
  const uint32_t maker = kit_maker(k, value);
  if (maker != NO_ID && kit_unused(k, value)) kit_sweep(k, maker);
}

void int8_linear_to_float(struct kit *k, const struct int8_linear *l, const struct int8_parts *a,
                          const struct int8_parts *w) {
  const uint32_t before[2] = {kit_in(k, l->node, 0), kit_in(k, l->node, 1)};
  const struct span m = int8_linear_stem(k, l->node);
  const uint32_t out = kit_out(k, l->node, 0);
  kit_import(k, k->graph, "com.microsoft", 1);
  const uint32_t behind = k->m->nodes[l->node].next;
  edit_remove_node(k->e, l->node);
  k->before = behind;
  kit_make(k, OP_ms_MatMulIntegerToFloat,
           KIT_CALLED(int8_node_name(k, m, "_quant_matmulintegertofloat")),
           KIT_OUT(((struct edit_output){out, span_of("", 0)})),
           KIT_IN(a->codes, w->codes, a->scales, w->scales, a->zeros, w->zeros));
  sweep(k, before[0]);
  sweep(k, before[1]);
}

void int8_linear_to_int32(struct kit *k, const struct int8_linear *l, const struct int8_parts *a,
                          const struct int8_parts *w, const struct int8_parts *bias, bool qlinear) {
  const uint32_t before[2] = {kit_in(k, l->node, 0), kit_in(k, l->node, 1)};
  const struct span m = int8_linear_stem(k, l->node), o = kit_stem_of(k, kit_out(k, l->node, 0));
  const uint32_t out = kit_out(k, l->add, 0);
  k->before = l->add;
  const uint32_t sum = MAKE(OP_MatMulInteger, qlinear ? "_quant_matmulinteger" : "_matmulinteger",
                            KIT_IN(a->codes, w->codes, a->zeros, w->zeros));
  const uint32_t with = MAKE(OP_Add, qlinear ? "_quant_add" : "_add", KIT_IN(sum, bias->codes));
  const uint32_t wide =
      MAKE(OP_Cast, qlinear ? "_quant_cast" : "_cast", KIT_IN(with), KIT_INT("to", DTYPE_FLOAT));
  const uint32_t behind = k->m->nodes[l->add].next;
  edit_remove_node(k->e, l->add);
  edit_remove_node(k->e, l->node);
  k->before = behind == l->node ? NO_ID : behind;
  kit_make(k, OP_Mul, KIT_CALLED(int8_node_name(k, m, qlinear ? "_quant_mul" : "_mul")),
           KIT_OUT(((struct edit_output){out, span_of("", 0)})), KIT_IN(wide, bias->scales));
  sweep(k, before[0]);
  sweep(k, before[1]);
  dead_ends_drop(k->e, l->bias);
}

void int8_linear_name_quantize(struct kit *k, uint32_t sum, struct span stem) {
  for (struct kit_use u = kit_uses(k, sum); kit_use(k, &u);)
    if (kit_op(k, u.node) == OP_QuantizeLinear || kit_op(k, u.node) == OP_ms_QuantizeLinear) {
      edit_rename_node(k->e, u.node, int8_node_name(k, stem, "_quant_quantizelinear"));
      return;
    }
}
