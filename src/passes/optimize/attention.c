// The pass optimize/attention: scaled dot products of queries and keys, their Softmax and the values, as one Attention.
//
//   q ─▶ MatMul ─▶ Mul(scale) ─▶ Add(mask) ─▶ Softmax ─▶ MatMul ─▶ y
//   k ─▶ Transpose ─┘                                   v ─┘
//                                                                     ──▶  y = Attention<scale>(q, k, v, mask)
//
// scale     a constant, behind the MatMul or before it, on q, on k or on both, by Mul or Div; above 0
// k         transposed by the last step, or from the start ([0,2,3,1]), or folded to rank 3 for it and back; where no
//           Transpose is found one is made
// mask      attention_mask.c; Where(IsNaN(p), 0, p) behind the Softmax
// rank      4: [batch, heads, length, size]; 3: Attention with one head
//
// What is found (and Attention nodes that were there) takes more in, attention_forms.c: heads of keys and values that
// are repeated for several heads of queries; Transposes and Reshapes that make heads of a last dim and back.
//
// Everything is asked of inference: dims of q, k and v must be known to be equal where Attention wants it, and what lies
// between must be used by nothing else. Products are taken in another order then: rounding.
#include "passes/optimize/inside/attention.h"
#include "passes/optimize/optimize.h"

#include <math.h>

struct run {
  struct kit k;                       // first: a visit is given it
  TABLE(uint32_t, made);              // Attention nodes
  uint32_t mask_of, mask, mask_graph; // the last mask that was made, and for which
};

// ---- scores ------------------------------------------------------------------------------------

// Steps over Mul and Div by one number, which it takes in; with `alone`, over values that have one user.
static uint32_t unscaled(struct kit *k, uint32_t value, bool alone, double *scale) {
  for (uint32_t i = 0; i < 4; i++) {
    const enum op op = kit_maker_op(k, value);
    const uint32_t node = kit_maker(k, value);
    struct infer_type x, y;
    double by;
    if ((op != OP_Mul && op != OP_Div) || (alone && kit_sole_user(k, value) == NO_ID)) return value;
    uint32_t slot = 1;
    if (!kit_const_scalar(k, kit_in(k, node, 1), &by)) {
      slot = 0;
      if (op == OP_Div || !kit_const_scalar(k, kit_in(k, node, 0), &by)) return value;
    }
    const uint32_t from = kit_in(k, node, 1 - slot);
    if (!known_dims(k, from, &x) || !known_dims(k, value, &y) || x.rank != y.rank) return value;
    *scale = op == OP_Mul ? *scale * by : *scale / by;
    value = from;
  }
  return value;
}

// k itself, where `value` is its transpose that goes through rank 3:
//   k [b,h,t,d] ── Reshape [b*h,t,d] ── Transpose [0,2,1] ── Reshape [b,h,d,t]
static uint32_t through_rank_3(struct kit *k, uint32_t value) {
  if (kit_maker_op(k, value) != OP_Reshape) return NO_ID;
  const uint32_t turned = kit_in(k, kit_maker(k, value), 0);
  const int64_t *perm;
  uint32_t n;
  if (kit_maker_op(k, turned) != OP_Transpose || !kit_perm(k, kit_maker(k, turned), &perm, &n) ||
      n != 3 || perm[0] != 0 || perm[1] != 2)
    return NO_ID;
  const uint32_t flat = kit_in(k, kit_maker(k, turned), 0);
  if (kit_maker_op(k, flat) != OP_Reshape) return NO_ID;
  const uint32_t from = kit_in(k, kit_maker(k, flat), 0);
  struct infer_type x, y, z;
  if (!known_dims(k, from, &x) || !known_dims(k, flat, &y) || !known_dims(k, value, &z))
    return NO_ID;
  const bool same = x.rank == 4 && y.rank == 3 && z.rank == 4 &&
                    known_same(k, x.dims[0], z.dims[0]) && known_same(k, x.dims[1], z.dims[1]) &&
                    known_same(k, x.dims[2], y.dims[1]) && known_same(k, x.dims[3], y.dims[2]) &&
                    known_same(k, x.dims[2], z.dims[3]) && known_same(k, x.dims[3], z.dims[2]);
  return same ? from : NO_ID;
}

// What k is, of which `value` [.., d, t] is the transpose.
static void find_keys(struct kit *k, uint32_t value, uint32_t rank, struct attention_found *f) {
  const int64_t *perm;
  uint32_t n;
  value = unscaled(k, value, false, &f->scale);
  for (uint32_t i = 0; i < rank; i++)
    f->perm[i] = i;
  f->perm[rank - 2] = rank - 1;
  f->perm[rank - 1] = rank - 2;
  f->turns = true;
  f->k = value;
  const uint32_t plain = rank == 4 ? through_rank_3(k, value) : NO_ID;
  if (plain != NO_ID) {
    f->turns = false;
    f->k = plain;
  } else if (kit_maker_op(k, value) == OP_Transpose &&
             kit_perm(k, kit_maker(k, value), &perm, &n) && n == rank) {
    f->turns = false;
    for (uint32_t i = 0; i < rank; i++) {
      const uint32_t at = i < rank - 2 ? i : 2 * rank - 3 - i;
      f->perm[i] = (uint32_t)perm[at];
      f->turns = f->turns || f->perm[i] != i;
    }
    f->k = kit_in(k, kit_maker(k, value), 0);
  }
  f->k = unscaled(k, f->k, false, &f->scale);
}

// Products of queries and keys, times a number. NULL, or why they are none.
static const char *find_scores(struct kit *k, uint32_t value, struct attention_found *f) {
  struct infer_type q, kt;
  f->scale = 1;
  const uint32_t product = unscaled(k, value, true, &f->scale), node = kit_maker(k, product);
  if (kit_maker_op(k, product) != OP_MatMul) return "scores";
  if (kit_sole_user(k, product) == NO_ID) return "used_elsewhere";
  const uint32_t keys = kit_in(k, node, 1);
  if (!known_dims(k, kit_in(k, node, 0), &q) || !known_dims(k, keys, &kt) ||
      !known_dims(k, product, &f->scores.type))
    return "dims";
  const uint32_t rank = f->scores.type.rank;
  if ((rank != 3 && rank != 4) || q.rank != rank || kt.rank != rank) return "rank";
  f->q = unscaled(k, kit_in(k, node, 0), false, &f->scale);
  find_keys(k, keys, rank, f);
  struct infer_type v;
  if (!known_dims(k, f->v, &v) || v.rank != rank) return "rank";
  for (uint32_t i = 0; i + 2 < rank; i++)
    if (!known_same(k, q.dims[i], kt.dims[i]) || !known_same(k, q.dims[i], v.dims[i]))
      return "dims";
  if (!known_same(k, kt.dims[rank - 1], v.dims[rank - 2])) return "dims";
  if (q.dtype != DTYPE_FLOAT && q.dtype != DTYPE_FLOAT16) return "float_type";
  if (!isfinite((float)f->scale) || (float)f->scale <= 0) return "scale";
  return NULL;
}

// ---- the rest of the pattern -------------------------------------------------------------------

// Steps over Where(IsNaN(p), 0, p).
static uint32_t unguarded(struct kit *k, uint32_t value, bool *guarded) {
  const uint32_t where = kit_maker(k, value), is_nan = kit_maker(k, kit_in(k, where, 0));
  struct kit_number zero;
  *guarded = false;
  if (kit_maker_op(k, value) != OP_Where || kit_op(k, is_nan) != OP_IsNaN) return value;
  const uint32_t p = kit_in(k, where, 2);
  if (p == NO_ID || kit_in(k, is_nan, 0) != p || !kit_const_number(k, kit_in(k, where, 1), &zero) ||
      zero.d != 0 || !known_alike(k, p, value))
    return value;
  *guarded = true;
  return p;
}

bool attention_weights(struct kit *k, uint32_t node, bool *guarded, uint32_t *softmax) {
  if (kit_op(k, node) != OP_MatMul || kit_in(k, node, 0) == NO_ID) return false;
  const uint32_t p = unguarded(k, kit_in(k, node, 0), guarded);
  *softmax = kit_maker(k, p);
  return kit_maker_op(k, p) == OP_Softmax;
}

static bool used_elsewhere(struct kit *k, uint32_t node, uint32_t softmax, bool guarded) {
  const uint32_t p = kit_in(k, node, 0), s = kit_out(k, softmax, 0);
  if (kit_sole_user(k, p) != node || kit_in(k, node, 1) == p) return true;
  if (!guarded) return false;
  const uint32_t is_nan = kit_in(k, kit_maker(k, p), 0);
  return kit_sole_user(k, is_nan) != kit_maker(k, p) || kit_use_count(k, s, 3) != 2;
}

const char *attention_find(struct kit *k, uint32_t node, uint32_t softmax, bool any_mask,
                           struct attention_found *f) {
  const uint32_t graph = k->m->nodes[node].graph, x = kit_in(k, softmax, 0);
  struct infer_type t;
  f->v = kit_in(k, node, 1);
  if (used_elsewhere(k, node, softmax, f->scores.guarded) || kit_sole_user(k, x) == NO_ID)
    return "used_elsewhere";
  if (k->m->nodes[softmax].graph != graph || f->v == NO_ID) return "used_elsewhere";
  if (!known_dims(k, x, &t)) return "dims";
  if (!known_along_last(k, softmax, -1, t.rank)) return "axis";
  const uint32_t add = kit_maker(k, x);
  if (kit_maker_op(k, x) != OP_Add) return find_scores(k, x, f);
  const char *why = NULL;
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t value = kit_in(k, add, i);
    f->mask_of = kit_in(k, add, 1 - i);
    // Of scores alone it is asked what they are; a mask that looks like scores has other users.
    const char *here =
        kit_sole_user(k, value) == NO_ID ? "used_elsewhere" : find_scores(k, value, f);
    if (!here && !any_mask) here = attention_mask_find(k, f->mask_of, &f->scores, &f->mask);
    if (!here) return known_alike(k, value, x) ? NULL : "mask_shape";
    if (!why || strcmp(why, "scores") == 0 || strcmp(why, "used_elsewhere") == 0) why = here;
  }
  return why;
}

static bool all_available(struct kit *k, uint32_t node, const struct attention_found *f) {
  const uint32_t graph = k->m->nodes[node].graph;
  const uint32_t list[] = {f->q, f->k, f->v, f->mask_of != NO_ID ? f->mask.value : f->q};
  for (uint32_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!kit_available(k, list[i], graph, node) || kit_may_be_left_out(k->m, list[i])) return false;
  return true;
}

// ---- the new node ------------------------------------------------------------------------------

static uint32_t mask_for(struct run *r, const struct attention_found *f) {
  if (f->mask_of == NO_ID) return NO_ID;
  if (r->mask_of != f->mask_of || r->mask_graph != r->k.graph || f->mask.rows || f->mask.columns ||
      r->k.m->values[r->mask].flags & VALUE_DEAD) {
    r->mask = attention_mask_make(&r->k, &f->mask, f->q, f->v);
    r->mask_of = r->mask == NO_ID ? NO_ID : f->mask_of;
    r->mask_graph = r->k.graph;
  }
  return r->mask;
}

static void fuse(struct run *r, uint32_t node, const struct attention_found *f) {
  struct kit *k = &r->k;
  const uint32_t weights = kit_maker(k, kit_in(k, node, 0)), rank = f->scores.type.rank;
  struct edit_attr attrs[4] = {{.name = "scale", .type = ATTR_FLOAT, .f = (float)f->scale}};
  uint32_t in[4] = {f->q, f->k, f->v, NO_ID}, n = 1;
  int64_t perm[4];
  kit_begin(k, node, "attention");
  for (uint32_t i = 0; i < rank; i++)
    perm[i] = f->perm[i];
  if (f->turns) in[1] = kit_make(k, OP_Transpose, KIT_IN(f->k), KIT_INTS("perm", perm, rank));
  in[3] = mask_for(r, f);
  if (f->mask_of != NO_ID && f->mask.kind == ATTENTION_CAUSAL)
    attrs[n++] = (struct edit_attr){.name = "is_causal", .type = ATTR_INT, .i = 1};
  if (rank == 3) {
    attrs[n++] = (struct edit_attr){.name = "q_num_heads", .type = ATTR_INT, .i = 1};
    attrs[n++] = (struct edit_attr){.name = "kv_num_heads", .type = ATTR_INT, .i = 1};
  }
  *TABLE_PUSH(r, made) = kit_replace(k, node, OP_Attention, KIT_INPUTS(in, in[3] == NO_ID ? 3 : 4),
                                     KIT_ATTRS(attrs, n), KIT_OUTPUTS(1));
  kit_sweep(k, weights);
}

static void visit(struct kit *k, uint32_t node) {
  struct run *r = (struct run *)k;
  struct attention_found f = {.mask_of = NO_ID};
  uint32_t softmax;
  if (kit_op(k, node) == OP_Attention) *TABLE_PUSH(r, made) = node;
  if (!attention_weights(k, node, &f.scores.guarded, &softmax)) return;
  const char *why = kit_opset(k, k->m->nodes[node].graph) < 23 ? "opset_below_23" : NULL;
  if (!why) why = attention_find(k, node, softmax, false, &f);
  if (!why && !all_available(k, node, &f)) why = "used_elsewhere";
  if (why)
    kit_skipped(k, node, why);
  else
    fuse(r, node, &f);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct run r = {.mask_of = NO_ID};
  struct kit *k = &r.k;
  kit_init(k, env, env->pass->name);
  kit_infer(k);
  kit_visit(k, with, visit);
  kit_infer_more(k);
  for (uint32_t i = 0; i < r.n_made; i++) {
    if (k->m->nodes[r.made[i]].flags & NODE_DEAD) continue;
    attention_kv_heads(k, r.made[i]);
    attention_packed(k, r.made[i]);
  }
  TABLE_FREE(&r, made);
  return kit_done(k, err);
}

const struct pass optimize_attention = {
    .name = "optimize/attention",
    .summary = "fuse MatMul, Softmax and MatMul of attention into Attention",
    .about = "Replaces MatMul, scale, mask, Softmax and MatMul by one Attention (opset 23), if "
             "inference knows that batch, heads and lengths are equal. The Attention also "
             "replaces repeated heads of keys and values, and the Transposes and Reshapes around "
             "it.",
    .needs = "nothing; below opset 23, the pass changes nothing",
    .promises = "all outputs of the model are the same up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = run,
};
