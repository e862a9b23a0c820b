// ort/attention: attention as an operator that ONNX Runtime alone has, for models of opsets without ONNX's own Attention.
//
//   x ─┬─ MatMul(Wq) ─ Add(bq) ─ Reshape ─ Transpose ─┐
//      ├─ MatMul(Wk) ─ Add(bk) ─ Reshape ─ Transpose ─┤ MatMul, Mul, Add(mask), Softmax, MatMul ─ Transpose ─ Reshape ─▶ y
//      └─ MatMul(Wv) ─ Add(bv) ─ Reshape ─ Transpose ─┘
//                                                ──▶  y = Attention<num_heads>(x, Wq|Wk|Wv, bq|bk|bv, , , mask)
//
// Where q, k and v are made from several values, or by something else than constant matrices, MultiHeadAttention of [b,s,h*d] is
// made, with the biases in it if all three have one. Keys and values that have no such form (turned by a rotary embedding, repeated
// for several heads of queries) are given to it as they are, [b,h,t,d]; queries and the result always have three dims.
//
// attention.c finds the nodes. These operators add the mask to the scores and take the Softmax as it is:
// rows of -infinity are NaN, rows of the lowest number an average, as before. So a Where(IsNaN(p), 0, p) after the Softmax
// moves after the result, unless no mask or a mask of finite numbers is added (for inputs that are finite). The mask must have
// four dims, and its last two must be those of the scores: other masks are expanded, once for all layers.
//
// No GroupQueryAttention is made: it wants the lengths of all sequences, as numbers of tokens without padding, and it is
// causal; an export adds a mask that its caller computes, and nothing says that the mask only hides padding at an end.
#include "passes/optimize/inside/attention.h"
#include "passes/optimize/optimize.h"

#include <math.h>

enum { Q, K, V, SIDES, BIAS = SIDES, PADDING, MASK, SLOTS }; // of MultiHeadAttention

struct run {
  struct kit k;              // the first member: a visit receives a pointer to it
  TABLE(uint32_t, products); // MatMul nodes
  TABLE(uint32_t, made);     // MultiHeadAttention nodes
  uint32_t mask_of, rows_of, columns_of, mask, graph; // the last mask that was expanded
};

// One of q, k and v.
struct side {
  uint32_t value; // [b,h,t,d]
  bool packs;     // it is made of [b,t,h*d], or of [b,t,h,d] by a Transpose
  struct attention_packing packing;
};

struct plan {
  struct attention_found f;
  struct side side[SIDES];
  int64_t heads, sizes[SIDES]; // sizes: of a head
  uint32_t turn, reshape;      // after it: Transpose and Reshape
  bool joins;                  // the Reshape makes [b,s,h*d]
  bool guards;                 // Where(IsNaN(y), 0, y) must follow
};

// ---- queries, keys, values -----------------------------------------------------------------------

static bool number_at(struct kit *k, const struct infer_type *t, uint32_t axis, int64_t *n) {
  return axis < t->rank && known_size(k, t->dims[axis], n) && *n >= 1;
}

// The same for keys that are turned at once: k [b,t,h,d], which [0,2,1,3] would make heads of.
static bool turned_keys(struct kit *k, const struct attention_found *f, struct side *s) {
  struct infer_type t;
  if (!f->turns || f->perm[0] != 0 || f->perm[1] != 2 || f->perm[2] != 1 || f->perm[3] != 3)
    return false;
  s->packing = (struct attention_packing){.parted = f->k, .rotary = NO_ID};
  if (!known_dims(k, f->k, &t) || t.rank != 4 || !number_at(k, &t, 2, &s->packing.heads) ||
      !number_at(k, &t, 3, &s->packing.size))
    return false;
  attention_unparted(k, &s->packing);
  return true;
}

// The same for heads that a RotaryEmbedding of com.microsoft turns, which has a form with three dims too.
static bool find_packing(struct kit *k, uint32_t value, struct attention_packing *p) {
  const uint32_t rotary = kit_maker(k, value);
  if (kit_op(k, rotary) == OP_ms_RotaryEmbedding) {
    int64_t heads;
    if (kit_sole_user(k, value) == NO_ID || !kit_attrs_copyable(k, rotary) ||
        kit_n_in(k, rotary) != 4 || !kit_attr_int(k, rotary, "num_heads", 0, &heads) || heads != 0)
      return false;
    const bool packs = attention_packing_find(k, kit_in(k, rotary, 0), p) && p->rotary == NO_ID;
    p->rotary = rotary;
    return packs;
  }
  return attention_packing_find(k, value, p) && p->rotary == NO_ID;
}

static const char *find_sides(struct kit *k, struct plan *p) {
  const uint32_t values[SIDES] = {p->f.q, p->f.k, p->f.v};
  struct infer_type t;
  for (uint32_t i = 0; i < SIDES; i++) {
    struct side *s = &p->side[i];
    const uint32_t heads = i == K && p->f.turns ? 2 : 1;
    int64_t n;
    s->value = values[i];
    if (!known_dims(k, s->value, &t) || t.rank != 4 || !number_at(k, &t, heads, &n) ||
        !number_at(k, &t, 3, &p->sizes[i]))
      return "dims";
    if (t.dtype != DTYPE_FLOAT) return "not_float32";
    if (i > 0 && n != p->heads) return "dims";
    p->heads = n;
    s->packs =
        i == K && p->f.turns ? turned_keys(k, &p->f, s) : find_packing(k, s->value, &s->packing);
    if (i == K && p->f.turns && !s->packs) return "keys";
  }
  // Keys and values have one form.
  if (p->side[K].packs != p->side[V].packs) {
    if (p->f.turns) return "keys";
    p->side[K].packs = p->side[V].packs = false;
  }
  return NULL;
}

static const char *find_result(struct kit *k, uint32_t node, struct plan *p) {
  const uint32_t graph = k->m->nodes[node].graph;
  struct infer_type q;
  p->turn = kit_sole_user(k, kit_out(k, node, 0));
  if (p->turn == NO_ID || !attention_swaps_heads(k, p->turn) || k->m->nodes[p->turn].graph != graph)
    return "result";
  const uint32_t turned = kit_out(k, p->turn, 0);
  p->reshape = kit_sole_user(k, turned);
  if (kit_op(k, p->reshape) != OP_Reshape || k->m->nodes[p->reshape].graph != graph ||
      kit_in(k, p->reshape, 0) != turned || kit_in(k, p->reshape, 1) == turned)
    return "result";
  known_dims(k, p->f.q, &q);
  p->joins = attention_joins_heads(k, p->reshape, &q, p->heads * p->sizes[V]);
  return p->joins || attention_keeps_meaning(k, p->reshape) ? NULL : "result";
}

// Does the node that makes the value show that every element is a finite number?
static bool is_finite(struct kit *k, uint32_t value) {
  for (uint32_t i = 0; i < 16; i++) {
    const enum op op = kit_maker_op(k, value);
    const uint32_t node = kit_maker(k, value);
    struct kit_number a, b;
    if (op == OP_Where)
      return kit_const_number(k, kit_in(k, node, 1), &a) && isfinite(a.d) &&
             kit_const_number(k, kit_in(k, node, 2), &b) && isfinite(b.d);
    if (op != OP_Unsqueeze && op != OP_Expand && op != OP_Reshape && op != OP_Identity &&
        op != OP_Slice)
      return false;
    value = kit_in(k, node, 0);
  }
  return false;
}

static const char *find_mask(struct kit *k, struct plan *p) {
  const struct infer_type *scores = &p->f.scores.type;
  struct infer_type t;
  p->guards = false;
  if (p->f.mask_of == NO_ID) return NULL;
  if (!known_dims(k, p->f.mask_of, &t) || t.dtype != DTYPE_FLOAT || t.rank < 1 || t.rank > 4)
    return "mask_shape";
  for (uint32_t i = 1; i <= t.rank; i++)
    if (!known_one(k, t.dims[t.rank - i]) &&
        !known_same(k, t.dims[t.rank - i], scores->dims[4 - i]))
      return "mask_shape";
  p->guards = p->f.scores.guarded && !is_finite(k, p->f.mask_of);
  return NULL;
}

static uint32_t source_of(const struct side *s) {
  if (!s->packs) return s->value;
  return s->packing.x != NO_ID ? s->packing.x : s->packing.parted;
}

static const char *find(struct kit *k, uint32_t node, struct plan *p) {
  const uint32_t graph = k->m->nodes[node].graph;
  uint32_t softmax;
  p->f.mask_of = NO_ID;
  if (!attention_weights(k, node, &p->f.scores.guarded, &softmax)) return "";
  const char *why = attention_find(k, node, softmax, true, &p->f);
  if (!why && p->f.scores.type.rank != 4) why = "rank";
  if (!why) why = find_sides(k, p);
  if (!why) why = find_result(k, node, p);
  if (!why) why = find_mask(k, p);
  if (why) return why;
  for (uint32_t i = 0; i < SIDES; i++)
    if (!kit_available(k, source_of(&p->side[i]), graph, node) ||
        kit_may_be_left_out(k->m, source_of(&p->side[i])))
      return "used_elsewhere";
  if (p->f.mask_of != NO_ID &&
      (!kit_available(k, p->f.mask_of, graph, node) || kit_may_be_left_out(k->m, p->f.mask_of)))
    return "used_elsewhere";
  return NULL;
}

// ---- the new node --------------------------------------------------------------------------------

// The axis of a value that has this length; its rank if no axis has.
static uint32_t axis_of(struct kit *k, uint32_t value, dim_id length, uint32_t *rank) {
  struct infer_type t;
  uint32_t i = 0;
  *rank = 0;
  if (!known_dims(k, value, &t)) return 0;
  *rank = t.rank;
  while (i < t.rank && !known_same(k, t.dims[i], length))
    i++;
  return i;
}

// A length: a number, or -1 and in *open a value [1]. It is read from the mask, or from what a side is made of, so that the
// side itself has no other users.
static int64_t length_of(struct kit *k, const struct plan *p, uint32_t which, dim_id length,
                         uint32_t *open) {
  int64_t n;
  uint32_t rank, value = p->f.mask_of, axis = axis_of(k, value, length, &rank);
  *open = NO_ID;
  if (known_size(k, length, &n)) return n;
  if (axis == rank) {
    value = source_of(&p->side[which]);
    axis = axis_of(k, value, length, &rank);
  }
  if (axis == rank) {
    value = which == K ? p->f.k : p->f.q;
    axis = which == K && p->f.turns ? 1 : 2;
    rank = 4;
  }
  while (value != p->f.mask_of &&
         (kit_maker_op(k, value) == OP_MatMul || kit_maker_op(k, value) == OP_Add)) {
    const uint32_t node = kit_maker(k, value);
    uint32_t before, r, at = 0;
    for (before = 0; before < 2; before++)
      if ((at = axis_of(k, kit_in(k, node, before), length, &r)) < r && r == rank) break;
    if (before == 2) break;
    value = kit_in(k, node, before);
    axis = at;
  }
  const int64_t at = axis;
  const uint32_t shape = kit_make(k, OP_Shape, KIT_IN(value));
  *open = kit_make(k, OP_Gather, KIT_IN(shape, kit_new_ints(k, "axis", &at, 1)));
  return -1;
}

// [1, 1, rows, columns].
static uint32_t target(struct kit *k, const struct plan *p) {
  const struct infer_type *s = &p->f.scores.type;
  uint32_t open[3];
  int64_t list[4] = {1, 1, 0, 0};
  list[2] = length_of(k, p, Q, s->dims[2], &open[1]);
  open[2] = open[1];
  list[3] =
      known_same(k, s->dims[2], s->dims[3]) ? list[2] : length_of(k, p, K, s->dims[3], &open[2]);
  if (open[1] == NO_ID && open[2] == NO_ID) return kit_new_ints(k, "shape", list, 4);
  open[0] = kit_new_ints(k, "ones", list, 2);
  for (uint32_t i = 1; i < 3; i++)
    if (open[i] == NO_ID) open[i] = kit_new_ints(k, "length", &list[i + 1], 1);
  return kit_make(k, OP_Concat, KIT_INPUTS(open, 3), KIT_INT("axis", 0));
}

static uint32_t mask_for(struct run *r, const struct plan *p) {
  struct kit *k = &r->k;
  const struct infer_type *s = &p->f.scores.type;
  struct infer_type t;
  if (p->f.mask_of == NO_ID) return NO_ID;
  known_dims(k, p->f.mask_of, &t);
  if (t.rank == 4 && known_same(k, t.dims[2], s->dims[2]) && known_same(k, t.dims[3], s->dims[3]))
    return p->f.mask_of;
  if (r->mask_of != p->f.mask_of || r->graph != k->graph || r->rows_of != s->dims[2] ||
      r->columns_of != s->dims[3] || k->m->values[r->mask].flags & VALUE_DEAD) {
    r->mask = kit_make(k, OP_Expand, KIT_IN(p->f.mask_of, target(k, p)));
    r->mask_of = p->f.mask_of;
    r->rows_of = s->dims[2];
    r->columns_of = s->dims[3];
    r->graph = k->graph;
  }
  return r->mask;
}

// A copy of the RotaryEmbedding, for [b,t,h*d].
static uint32_t rotated(struct kit *k, uint32_t rotary, uint32_t x, int64_t heads) {
  uint32_t in[4] = {x, NO_ID, NO_ID, NO_ID};
  for (uint32_t i = 1; i < 4; i++)
    in[i] = kit_in(k, rotary, i);
  return kit_make(k, OP_ms_RotaryEmbedding, KIT_INPUTS(in, 4), KIT_ATTRS_OF(rotary),
                  KIT_INT("num_heads", heads));
}

// [b,t,h*d], or [b,h,t,d] where there is no such form.
static uint32_t given(struct kit *k, const struct plan *p, uint32_t which) {
  const struct side *s = &p->side[which];
  const int64_t shape[3] = {0, 0, p->heads * p->sizes[which]}, perm[4] = {0, 2, 1, 3};
  uint32_t x = s->packing.parted;
  if (!s->packs && which != Q) return s->value;
  if (!s->packs) x = kit_make(k, OP_Transpose, KIT_IN(s->value), KIT_INTS("perm", perm, 4));
  if (s->packs && s->packing.x != NO_ID)
    x = s->packing.x;
  else
    x = kit_make(k, OP_Reshape, KIT_IN(x, kit_new_ints(k, "shape", shape, 3)));
  return s->packs && s->packing.rotary != NO_ID ? rotated(k, s->packing.rotary, x, p->heads) : x;
}

static uint32_t attention(struct run *r, const struct plan *p, uint32_t as) {
  struct kit *k = &r->k;
  const struct edit_attr attrs[2] = {{.name = "num_heads", .type = ATTR_INT, .i = p->heads},
                                     {.name = "scale", .type = ATTR_FLOAT, .f = (float)p->f.scale}};
  uint32_t in[SLOTS];
  for (uint32_t i = 0; i < SLOTS; i++)
    in[i] = i < SIDES ? given(k, p, i) : NO_ID;
  in[MASK] = mask_for(r, p);
  const uint32_t node = kit_replace(k, as, OP_ms_MultiHeadAttention,
                                    KIT_INPUTS(in, in[MASK] == NO_ID ? SIDES : SLOTS),
                                    KIT_ATTRS(attrs, 2), KIT_OUTPUTS(1));
  *TABLE_PUSH(r, made) = node;
  return kit_out(k, node, 0);
}

static void fuse(struct run *r, uint32_t node, struct plan *p) {
  struct kit *k = &r->k;
  kit_begin(k, node, "attention");
  kit_import(k, k->graph, "com.microsoft", 1);
  if (p->joins && !p->guards) {
    attention(r, p, p->reshape);
  } else {
    uint32_t y = attention(r, p, NO_ID);
    if (p->guards) {
      const uint32_t is_nan = kit_make(k, OP_IsNaN, KIT_IN(y));
      const uint32_t in[3] = {is_nan, kit_new_scalar(k, "zero", DTYPE_FLOAT, 0), y};
      if (p->joins)
        kit_replace(k, p->reshape, OP_Where, KIT_INPUTS(in, 3));
      else
        y = kit_make(k, OP_Where, KIT_INPUTS(in, 3));
    }
    if (!p->joins) edit_set_input(k->e, p->reshape, 0, y);
  }
  if (!(k->m->nodes[p->turn].flags & NODE_DEAD)) kit_sweep(k, p->turn);
}

// ---- biases and products that become its inputs ---------------------------------------------------

// The length n of [.., n] that `node` alone uses, for one of its sides; 0: there is none.
static int64_t width_of(struct kit *k, uint32_t node, uint32_t value) {
  struct infer_type t;
  int64_t n;
  uint32_t times = 0;
  if (!known_dims(k, value, &t) || t.rank != 3 || t.dtype != DTYPE_FLOAT ||
      !number_at(k, &t, 2, &n))
    return 0;
  for (uint32_t i = 0; i < SIDES; i++)
    times += kit_in(k, node, i) == value;
  return kit_sole_user(k, value) == node && times == 1 ? n : 0;
}

// A constant of float32 with these dims.
static bool is_weight(struct kit *k, uint32_t value, uint32_t rank, int64_t last) {
  uint32_t tensor;
  const uint32_t recipe = kit_constant(k, value, &tensor) ? kit_recipe(k, value) : NO_ID;
  if (recipe == NO_ID || !recipe_can_grow(k->r, recipe)) return false;
  const struct recipe *row = &k->r->rows[recipe];
  return row->dtype == DTYPE_FLOAT && row->rank == rank &&
         recipe_dims(k->r, recipe)[rank - 1] == last;
}

// Constants, one after the other along the axis.
static uint32_t joined(struct kit *k, const char *what, const uint32_t *of, uint32_t axis) {
  uint32_t recipes[SIDES];
  for (uint32_t i = 0; i < SIDES; i++)
    recipes[i] = kit_recipe(k, of[i]);
  return kit_new_tensor(k, what, recipe_concat(k->r, recipes, SIDES, axis));
}

// Adds of constant vectors before all three sides become its bias. Returns the node that there is then.
static uint32_t take_biases(struct kit *k, uint32_t node) {
  uint32_t in[SLOTS], rest[SIDES], bias[SIDES];
  if (kit_in(k, node, BIAS) != NO_ID) return node;
  for (uint32_t i = 0; i < SIDES; i++) {
    const uint32_t value = kit_in(k, node, i), add = kit_maker(k, value);
    const int64_t n = width_of(k, node, value);
    if (n == 0 || kit_op(k, add) != OP_Add) return node;
    const uint32_t at = is_weight(k, kit_in(k, add, 1), 1, n) ? 1 : 0;
    bias[i] = kit_in(k, add, at);
    rest[i] = kit_in(k, add, 1 - at);
    if (!is_weight(k, bias[i], 1, n) || !known_alike(k, rest[i], value)) return node;
    if (!kit_available(k, rest[i], k->m->nodes[node].graph, node)) return node;
  }
  uint32_t adds[SIDES];
  for (uint32_t i = 0; i < SIDES; i++)
    adds[i] = kit_maker(k, kit_in(k, node, i));
  kit_begin(k, node, "biases");
  for (uint32_t i = 0; i < SLOTS; i++)
    in[i] = i < SIDES ? rest[i] : kit_in(k, node, i);
  in[BIAS] = joined(k, "bias", bias, 0);
  const uint32_t made =
      kit_replace(k, node, OP_ms_MultiHeadAttention,
                  KIT_INPUTS(in, in[MASK] == NO_ID ? BIAS + 1 : SLOTS), KIT_ATTRS_OF(node));
  for (uint32_t i = 0; i < SIDES; i++)
    kit_sweep(k, adds[i]);
  return made;
}

static uint32_t zeros(struct kit *k, int64_t n) {
  const float zero = 0;
  return kit_new_tensor(k, "bias",
                        recipe_fill(k->r, DTYPE_FLOAT, &n, 1, span_of(&zero, sizeof zero)));
}

// Puts Attention in place of the node: value, weights and bias are the first of `in`.
static void make_attention(struct kit *k, uint32_t node, uint32_t in[SLOTS],
                           const int64_t sizes[SIDES]) {
  const struct edit_attr wide = {
      .name = "qkv_hidden_sizes", .type = ATTR_INTS, .ints = sizes, .n = SIDES};
  in[MASK] = kit_in(k, node, MASK);
  kit_replace(k, node, OP_ms_Attention, KIT_INPUTS(in, in[MASK] == NO_ID ? 3 : SLOTS),
              KIT_ATTRS(&wide, sizes[V] != sizes[K]), KIT_ATTRS_OF(node), KIT_OUTPUTS(1));
}

// MatMuls of one value by constants before all three sides: Attention.
static void take_weights(struct kit *k, uint32_t node) {
  uint32_t in[SLOTS] = {NO_ID, NO_ID, NO_ID, NO_ID, NO_ID, NO_ID}, makers[SIDES], weights[SIDES];
  int64_t sizes[SIDES], all = 0;
  struct infer_type x;
  for (uint32_t i = 0; i < SIDES; i++) {
    makers[i] = kit_maker(k, kit_in(k, node, i));
    sizes[i] = width_of(k, node, kit_in(k, node, i));
    all += sizes[i];
    weights[i] = kit_in(k, makers[i], 1);
    if (sizes[i] == 0 || kit_op(k, makers[i]) != OP_MatMul ||
        kit_in(k, makers[i], 0) != kit_in(k, makers[0], 0) ||
        !is_weight(k, weights[i], 2, sizes[i]) || kit_constant_use_count(k, weights[i], 2) > 1)
      return;
  }
  in[0] = kit_in(k, makers[0], 0);
  if (!known_dims(k, in[0], &x) || x.rank != 3 || sizes[Q] != sizes[K] ||
      !kit_available(k, in[0], k->m->nodes[node].graph, node))
    return;
  kit_begin(k, node, "weights");
  in[1] = joined(k, "weights", weights, 1);
  in[2] = kit_in(k, node, BIAS) != NO_ID ? kit_in(k, node, BIAS) : zeros(k, all);
  make_attention(k, node, in, sizes);
  for (uint32_t i = 0; i < SIDES; i++)
    kit_sweep(k, makers[i]);
}

// q, k and v are parts of one product, which is a MatMul by [.., q|k|v] with or without an Add of a vector: Attention.
static void take_product(struct kit *k, uint32_t node) {
  uint32_t in[SLOTS] = {NO_ID, NO_ID, NO_ID, NO_ID, NO_ID, NO_ID};
  int64_t sizes[SIDES], all = 0, axis;
  struct infer_type x, w, b;
  const uint32_t split = kit_maker(k, kit_in(k, node, Q));
  if (kit_op(k, split) != OP_Split || kit_n_out(k, split) != SIDES ||
      kit_in(k, node, BIAS) != NO_ID || !known_along_last(k, split, 0, 3))
    return;
  for (uint32_t i = 0; i < SIDES; i++) {
    sizes[i] = width_of(k, node, kit_in(k, node, i));
    if (sizes[i] == 0 || kit_in(k, node, i) != kit_out(k, split, i)) return;
    all += sizes[i];
  }
  uint32_t product = kit_in(k, split, 0);
  if (kit_sole_user(k, product) != split || sizes[Q] != sizes[K]) return;
  const uint32_t add = kit_maker(k, product);
  if (kit_op(k, add) == OP_Add) {
    const uint32_t at = kit_maker_op(k, kit_in(k, add, 0)) == OP_MatMul ? 1 : 0;
    in[2] = kit_in(k, add, at);
    product = kit_in(k, add, 1 - at);
    if (!known_dims(k, in[2], &b) || b.rank != 1 || b.dtype != DTYPE_FLOAT ||
        !number_at(k, &b, 0, &axis) || axis != all || kit_sole_user(k, product) != add)
      return;
  }
  const uint32_t matmul = kit_maker(k, product);
  in[0] = kit_in(k, matmul, 0);
  in[1] = kit_in(k, matmul, 1);
  if (kit_op(k, matmul) != OP_MatMul || !known_dims(k, in[0], &x) || x.rank != 3 ||
      !known_dims(k, in[1], &w) || w.rank != 2 || !number_at(k, &w, 1, &axis) || axis != all)
    return;
  for (uint32_t i = 0; i < SIDES; i++)
    if (in[i] != NO_ID && (!kit_available(k, in[i], k->m->nodes[node].graph, node) ||
                           kit_may_be_left_out(k->m, in[i])))
      return;
  kit_begin(k, node, "weights");
  if (in[2] == NO_ID) in[2] = zeros(k, all);
  make_attention(k, node, in, sizes);
  kit_sweep(k, split);
}

// Nodes that have inputs or outputs which nothing here makes stay as they are; so does a model that is trained, whose training
// names the weights.
static void grow(struct kit *k, uint32_t node) {
  if (k->m->n_trainings > 0 || k->m->nodes[node].flags & NODE_DEAD || kit_n_in(k, node) > SLOTS ||
      kit_n_out(k, node) != 1 || kit_in(k, node, PADDING) != NO_ID || !kit_attrs_copyable(k, node))
    return;
  node = take_biases(k, node);
  if (kit_maker_op(k, kit_in(k, node, Q)) == OP_Split)
    take_product(k, node);
  else
    take_weights(k, node);
}

static void visit(struct kit *k, uint32_t node) {
  struct run *r = (struct run *)k;
  if (kit_op(k, node) == OP_MatMul)
    *TABLE_PUSH(r, products) = node;
  else if (kit_op(k, node) == OP_ms_MultiHeadAttention)
    *TABLE_PUSH(r, made) = node;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct run r = {.mask_of = NO_ID};
  struct kit *k = &r.k;
  kit_init(k, env, env->pass->name);
  kit_infer(k);
  kit_visit(k, with, visit);
  // A fusion may remove nodes that come after it.
  for (uint32_t i = 0; i < r.n_products; i++) {
    struct plan p = {0};
    if (k->m->nodes[r.products[i]].flags & NODE_DEAD) continue;
    const char *why = find(k, r.products[i], &p);
    if (!why)
      fuse(&r, r.products[i], &p);
    else if (*why)
      kit_skipped(k, r.products[i], why);
  }
  kit_infer_more(k);
  for (uint32_t i = 0; i < r.n_made; i++)
    if (kit_op(k, r.made[i]) != OP_NONE) grow(k, r.made[i]);
  TABLES_FREE(&r, products, made);
  return kit_done(k, err);
}

const struct pass ort_attention = {
    .name = "ort/attention",
    .summary = "fuse the parts of attention into com.microsoft's Attention or MultiHeadAttention",
    .about =
        "Replaces MatMul, scale, mask, Softmax and MatMul, the Transposes and Reshapes around "
        "them, and the biases before them by MultiHeadAttention. If queries, keys and values are "
        "MatMuls of the same value, uses Attention with joined weights instead.",
    .needs = "float32, a known number and size of heads",
    .promises = "the same results up to rounding, for finite inputs",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = run,
};
