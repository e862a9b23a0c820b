// What an Attention of four dims takes in, of those that optimize/attention made and of those that were there.
//
//   k [b,2,t,d] ─ Unsqueeze ─ Expand [b,2,3,t,d] ─ Reshape [b,6,t,d] ─▶ Attention      ──▶  k ─▶ Attention
//
// Its heads of queries share those of keys and values in turn (0 0 0 1 1 1), as the Expand has it.
//
//   x [b,s,h*d] ─ Reshape [b,s,h,d] ─ Transpose ─▶ Attention ─ Transpose ─ Reshape [b,s,h*d] ─▶ y
//                                                                           ──▶  x ─▶ Attention<q_num_heads=h> ─▶ y
//
// All of q, k and v, or none. A RotaryEmbedding between is made one of three dims too; without the Reshape before, one
// is made in place of the Transpose. Behind it a Reshape to other dims stays.
#include "passes/optimize/inside/attention.h"

// ---- heads that are repeated -------------------------------------------------------------------

// Of [b, h*g, t, d] the [b, h, t, d] of which each head is there g times; NO_ID: it is none such.
static uint32_t once(struct kit *k, uint32_t value, int64_t *heads) {
  if (kit_maker_op(k, value) != OP_Reshape) return NO_ID;
  const uint32_t wide = kit_in(k, kit_maker(k, value), 0);
  if (kit_maker_op(k, wide) != OP_Expand) return NO_ID;
  const uint32_t thin = kit_in(k, kit_maker(k, wide), 0);
  if (kit_maker_op(k, thin) != OP_Unsqueeze && kit_maker_op(k, thin) != OP_Reshape) return NO_ID;
  const uint32_t x = kit_in(k, kit_maker(k, thin), 0);
  struct infer_type at, u, w, y;
  if (!known_dims(k, x, &at) || !known_dims(k, thin, &u) || !known_dims(k, wide, &w) ||
      !known_dims(k, value, &y) || at.rank != 4 || u.rank != 5 || w.rank != 5 || y.rank != 4)
    return NO_ID;
  for (uint32_t i = 0; i < 4; i++) {
    const uint32_t five = i < 2 ? i : i + 1;
    if (!known_same(k, at.dims[i], u.dims[five]) || !known_same(k, at.dims[i], w.dims[five]) ||
        (i != 1 && !known_same(k, at.dims[i], y.dims[i])))
      return NO_ID;
  }
  int64_t h, all;
  if (!known_one(k, u.dims[2]) || !known_size(k, at.dims[1], &h) ||
      !known_size(k, y.dims[1], &all) || h < 1 || all % h != 0)
    return NO_ID;
  *heads = h;
  return x;
}

// Inputs, outputs and dims are those that the steps here know about.
static bool is_plain(struct kit *k, uint32_t node, struct infer_type *q, struct infer_type *v) {
  struct infer_type at;
  if (kit_op(k, node) != OP_Attention || kit_n_in(k, node) > 4) return false;
  for (uint32_t i = 1; i < k->m->nodes[node].n_out; i++)
    if (kit_out(k, node, i) != NO_ID) return false;
  return known_dims(k, kit_in(k, node, 0), q) && q->rank == 4 &&
         known_dims(k, kit_in(k, node, 1), &at) && at.rank == 4 &&
         known_dims(k, kit_in(k, node, 2), v) && v->rank == 4 && kit_attrs_copyable(k, node);
}

bool attention_kv_heads(struct kit *k, uint32_t node) {
  struct infer_type q, v, mask;
  uint32_t x[2];
  int64_t heads[2], all;
  if (!is_plain(k, node, &q, &v)) return false;
  // ONNX Runtime before 1.25 takes such a mask for one of the heads of keys.
  if (kit_in(k, node, 3) != NO_ID && (!known_dims(k, kit_in(k, node, 3), &mask) ||
                                      (mask.rank > 2 && !known_one(k, mask.dims[mask.rank - 3]))))
    return false;
  for (uint32_t i = 0; i < 2; i++) {
    x[i] = once(k, kit_in(k, node, i + 1), &heads[i]);
    if (x[i] == NO_ID || !kit_available(k, x[i], k->m->nodes[node].graph, node) ||
        kit_may_be_left_out(k->m, x[i]))
      return false;
  }
  if (heads[0] != heads[1] || !known_same(k, q.dims[1], v.dims[1]) ||
      !known_size(k, q.dims[1], &all))
    return false;
  kit_begin(k, node, "kv_heads");
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t before = kit_maker(k, kit_in(k, node, i + 1));
    edit_set_input(k->e, node, i + 1, x[i]);
    kit_sweep(k, before);
  }
  return true;
}

// ---- heads in the last dim ---------------------------------------------------------------------

bool attention_swaps_heads(struct kit *k, uint32_t node) {
  const int64_t *perm;
  uint32_t n;
  return kit_op(k, node) == OP_Transpose && kit_perm(k, node, &perm, &n) && n == 4 &&
         perm[0] == 0 && perm[1] == 2 && perm[2] == 1;
}

void attention_unparted(struct kit *k, struct attention_packing *p) {
  struct infer_type t, x;
  int64_t packed;
  p->x = NO_ID;
  if (kit_maker_op(k, p->parted) != OP_Reshape || !known_dims(k, p->parted, &t)) return;
  const uint32_t from = kit_in(k, kit_maker(k, p->parted), 0);
  if (known_dims(k, from, &x) && x.rank == 3 && known_same(k, x.dims[0], t.dims[0]) &&
      known_same(k, x.dims[1], t.dims[1]) && known_size(k, x.dims[2], &packed) &&
      packed / p->heads == p->size && packed % p->heads == 0)
    p->x = from;
}

bool attention_packing_find(struct kit *k, uint32_t value, struct attention_packing *p) {
  struct infer_type t, z;
  *p = (struct attention_packing){.x = NO_ID, .rotary = NO_ID};
  if (kit_maker_op(k, value) == OP_RotaryEmbedding) {
    p->rotary = kit_maker(k, value);
    if (kit_sole_user(k, value) == NO_ID || !kit_attrs_copyable(k, p->rotary)) return false;
    value = kit_in(k, p->rotary, 0);
  }
  const uint32_t turn = kit_maker(k, value);
  if (!known_dims(k, value, &t) || t.rank != 4 || !attention_swaps_heads(k, turn)) return false;
  p->parted = kit_in(k, turn, 0);
  if (!known_dims(k, p->parted, &z) || !known_size(k, t.dims[1], &p->heads) ||
      !known_size(k, t.dims[3], &p->size) || p->heads < 1 || p->size < 1)
    return false;
  attention_unparted(k, p);
  return p->x != NO_ID || kit_sole_user(k, value) != NO_ID;
}

static uint32_t packed(struct kit *k, const struct attention_packing *p) {
  uint32_t x = p->x, in[4];
  if (x == NO_ID) {
    const int64_t target[3] = {0, 0, p->heads * p->size};
    x = kit_make(k, OP_Reshape, KIT_IN(p->parted, kit_new_ints(k, "shape", target, 3)));
  }
  if (p->rotary == NO_ID) return x;
  const uint32_t n = kit_n_in(k, p->rotary);
  for (uint32_t i = 0; i < n && i < 4; i++)
    in[i] = kit_in(k, p->rotary, i);
  in[0] = x;
  const struct edit_attr heads = {.name = "num_heads", .type = ATTR_INT, .i = p->heads};
  return kit_make(k, OP_RotaryEmbedding, KIT_INPUTS(in, n), KIT_ATTRS(&heads, 1),
                  KIT_ATTRS_OF(p->rotary));
}

bool attention_keeps_meaning(struct kit *k, uint32_t reshape) {
  dim_id list[RECIPE_MAX_RANK];
  uint32_t n;
  int64_t x;
  struct dims *d = infer_dims(k->env->infer);
  if (!known_list(k, kit_in(k, reshape, 1), list, RECIPE_MAX_RANK, &n)) return false;
  for (uint32_t i = 2; i < n; i++)
    if (dims_is_number(d, list[i], &x) ? x == 0 : dims_least(d, list[i]) < 1) return false;
  return true;
}

bool attention_joins_heads(struct kit *k, uint32_t reshape, const struct infer_type *q,
                           int64_t last) {
  struct infer_type y;
  int64_t n;
  return known_dims(k, kit_out(k, reshape, 0), &y) && y.rank == 3 &&
         known_same(k, y.dims[0], q->dims[0]) && known_same(k, y.dims[1], q->dims[2]) &&
         known_size(k, y.dims[2], &n) && n == last;
}

bool attention_packed(struct kit *k, uint32_t node) {
  struct infer_type q, v;
  struct attention_packing p[3];
  if (!is_plain(k, node, &q, &v)) return false;
  const uint32_t turn = kit_sole_user(k, kit_out(k, node, 0)), graph = k->m->nodes[node].graph;
  if (turn == NO_ID || !attention_swaps_heads(k, turn) || k->m->nodes[turn].graph != graph)
    return false;
  const uint32_t reshape = kit_sole_user(k, kit_out(k, turn, 0));
  if (kit_op(k, reshape) != OP_Reshape || k->m->nodes[reshape].graph != graph ||
      kit_in(k, reshape, 0) != kit_out(k, turn, 0) || kit_in(k, reshape, 1) == kit_out(k, turn, 0))
    return false;
  for (uint32_t i = 0; i < 3; i++) {
    if (!attention_packing_find(k, kit_in(k, node, i), &p[i])) return false;
    const uint32_t x = p[i].x != NO_ID ? p[i].x : p[i].parted;
    if (!kit_available(k, x, graph, node) || kit_may_be_left_out(k->m, x)) return false;
    if (p[i].rotary != NO_ID && kit_n_in(k, p[i].rotary) > 4) return false;
  }
  const bool joins = attention_joins_heads(k, reshape, &q, p[0].heads * p[2].size);
  if (p[1].heads != p[2].heads || (!joins && !attention_keeps_meaning(k, reshape))) return false;
  // ONNX Runtime before 1.25 computes that wrongly in float16.
  if (p[0].heads != p[1].heads && q.dtype != DTYPE_FLOAT) return false;

  kit_begin(k, node, "packed");
  uint32_t in[4];
  for (uint32_t i = 0; i < 3; i++)
    in[i] = packed(k, &p[i]);
  in[3] = kit_in(k, node, 3);
  const struct edit_attr heads[2] = {{.name = "q_num_heads", .type = ATTR_INT, .i = p[0].heads},
                                     {.name = "kv_num_heads", .type = ATTR_INT, .i = p[1].heads}};
  const uint32_t made =
      kit_replace(k, joins ? reshape : NO_ID, OP_Attention, KIT_INPUTS(in, in[3] == NO_ID ? 3 : 4),
                  KIT_ATTRS(heads, 2), KIT_ATTRS_OF(node), KIT_OUTPUTS(1));
  if (!joins) edit_set_input(k->e, reshape, 0, kit_out(k, made, 0));
  kit_sweep(k, turn);
  return true;
}
