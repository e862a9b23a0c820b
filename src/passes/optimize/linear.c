// The pass optimize/linear: a Gemm of rows that two Reshapes make and undo, as the MatMul that it is.
//
//   x [b,s,k] ─ Reshape [b*s,k] ─ Gemm(W, c) ─ Reshape [b,s,n] ─▶ y      ──▶      x ─ MatMul(W) ─ Add(c) ─▶ y
//
// W [k,n] and c [n] are taken as they are; a Gemm with a factor, a transposed operand or another c stays. What stands
// before and behind then sees three dims: heads of attention, a bias that a norm or GELU takes in.
#include "passes/optimize/inside/known.h"
#include "passes/optimize/optimize.h"

// A Gemm that is x · W + c.
static bool is_plain(struct kit *k, uint32_t node) {
  int64_t a, b;
  float alpha, beta;
  return kit_op(k, node) == OP_Gemm && kit_opset(k, k->m->nodes[node].graph) >= 7 &&
         kit_attr_int(k, node, "transA", 0, &a) && a == 0 &&
         kit_attr_int(k, node, "transB", 0, &b) && b == 0 &&
         kit_attr_float(k, node, "alpha", 1, &alpha) && alpha == 1 &&
         kit_attr_float(k, node, "beta", 1, &beta) && beta == 1;
}

static void visit(struct kit *k, uint32_t node) {
  struct infer_type x, y, w, c;
  const uint32_t product = kit_in(k, node, 0), gemm = kit_maker(k, product);
  if (kit_op(k, node) != OP_Reshape || !is_plain(k, gemm) || kit_sole_user(k, product) != node ||
      kit_in(k, node, 1) == product)
    return;
  const uint32_t rows = kit_maker(k, kit_in(k, gemm, 0)), graph = k->m->nodes[node].graph;
  const uint32_t from = kit_in(k, rows, 0), weight = kit_in(k, gemm, 1), bias = kit_in(k, gemm, 2);
  if (kit_op(k, rows) != OP_Reshape || k->m->nodes[gemm].graph != graph ||
      !known_dims(k, from, &x) || !known_dims(k, kit_out(k, node, 0), &y) ||
      !known_dims(k, weight, &w) || x.rank < 3 || y.rank != x.rank || w.rank != 2)
    return;
  for (uint32_t i = 0; i + 1 < x.rank; i++)
    if (!known_same(k, x.dims[i], y.dims[i])) return;
  if (!known_same(k, x.dims[x.rank - 1], w.dims[0]) ||
      !known_same(k, y.dims[y.rank - 1], w.dims[1]) || !dtype_is_float(x.dtype))
    return;
  if (bias != NO_ID &&
      (!known_dims(k, bias, &c) || c.rank != 1 || !known_same(k, c.dims[0], w.dims[1])))
    return;
  if (!kit_available(k, from, graph, node) || kit_may_be_left_out(k->m, from) ||
      (bias != NO_ID && kit_may_be_left_out(k->m, bias)))
    return;
  kit_begin(k, node, "rows");
  if (bias == NO_ID) {
    kit_replace(k, node, OP_MatMul, KIT_IN(from, weight));
  } else {
    const uint32_t y3 = kit_make(k, OP_MatMul, KIT_IN(from, weight));
    kit_note_like(k, y3, kit_out(k, node, 0));
    kit_replace(k, node, OP_Add, KIT_IN(y3, bias));
  }
  kit_sweep(k, gemm);
}

const struct pass optimize_linear = {
    .name = "optimize/linear",
    .summary = "replace a Gemm between two Reshapes by MatMul and Add",
    .about =
        "Replaces Reshape, Gemm and Reshape by MatMul and Add, if the first Reshape flattens the "
        "leading dims and the second one restores them.",
    .needs = "a Gemm without factors and without transposed operands, whose result has no other "
             "users",
    .promises = "the same results up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = kit_run,
    .visit = visit,
};
