// ort/skip-layer-norm: the Add before a norm as a part of it, and what goes on with the sum.
//
//   x ──┐                              x ──┐
//   y ──┴ Add ─ s ┬ LayerNormalization ▶ n    y ──┴ SkipLayerNormalization ─▶ n
//                 └───────────────────▶ …                            └──────▶ s …
//
// Blocks of transformers normalize a sum that the next block adds to again, so the sum is an output of the new node where
// others use it; it is the same sum, bit by bit. A vector that was added to x or y before is the node's bias. Norms are
// LayerNormalization, RMSNormalization, and both as exporters spell them out, since ONNX has them from opset 17 and 23 only and
// the runtime has these two always: SkipLayerNormalization, SkipSimplifiedLayerNormalization.
//
// The runtime wants x and y of equal dims [b,s,h], gain and bias of [h], an epsilon that is not negative. In float32 alone: of float16 the sum would be
// rounded where it was not, or the other way round.
#include "passes/optimize/optimize.h"

#include "passes/kit/kit.h"
#include "passes/optimize/inside/known.h"

enum { MOST_INNER = 3 };

struct norm {
  uint32_t root;                       // its node, which makes the result
  uint32_t x, gain, bias;              // bias NO_ID: none
  uint32_t users[MOST_INNER], n_users; // nodes of it that use x
  float epsilon;
  bool simplified; // without a mean
};

// ---- norms ---------------------------------------------------------------------------------------

// The operand of a node of two that is made by that operator, and the other one.
static uint32_t made_by(struct kit *k, uint32_t node, enum op op, uint32_t *other) {
  for (uint32_t i = 0; i < 2; i++)
    if (kit_maker_op(k, kit_in(k, node, i)) == op) {
      *other = kit_in(k, node, 1 - i);
      return kit_maker(k, kit_in(k, node, i));
    }
  return NO_ID;
}

// The mean over the last axis, which stays.
static bool is_mean(struct kit *k, uint32_t node) {
  const int64_t *axes;
  uint32_t n;
  struct infer_type t;
  int64_t keeps;
  return kit_op(k, node) == OP_ReduceMean && kit_attr_int(k, node, "keepdims", 1, &keeps) &&
         keeps == 1 && kit_axes(k, node, &axes, &n) && n == 1 &&
         (axes[0] == -1 || (known_dims(k, kit_in(k, node, 0), &t) && axes[0] == t.rank - 1));
}

// value * value; its node.
static uint32_t square_of(struct kit *k, uint32_t squared, uint32_t value) {
  const uint32_t node = kit_maker(k, squared);
  if (kit_op(k, node) == OP_Mul && kit_in(k, node, 0) == value && kit_in(k, node, 1) == value)
    return node;
  const bool pow = kit_op(k, node) == OP_Pow && kit_in(k, node, 0) == value &&
                   kit_const_all(k, kit_in(k, node, 1), 2) == KIT_YES &&
                   kit_broadcasts(k, kit_in(k, node, 1), value);
  return pow ? node : NO_ID;
}

// Is it Sqrt(ReduceMean(value * value) + epsilon)? *square: the node that multiplies.
static bool is_spread(struct kit *k, uint32_t root, uint32_t value, float *epsilon,
                      uint32_t *square) {
  double e;
  uint32_t rest;
  if (kit_maker_op(k, root) != OP_Sqrt ||
      kit_maker_op(k, kit_in(k, kit_maker(k, root), 0)) != OP_Add)
    return false;
  const uint32_t sum = kit_maker(k, kit_in(k, kit_maker(k, root), 0));
  const uint32_t mean = made_by(k, sum, OP_ReduceMean, &rest);
  if (!is_mean(k, mean) || !kit_const_scalar(k, rest, &e) || !kit_broadcasts(k, rest, value))
    return false;
  *epsilon = (float)e;
  *square = square_of(k, kit_in(k, mean, 0), value);
  return *square != NO_ID;
}

// value / spread, in three spellings: the node that divides, and *value.
static uint32_t quotient(struct kit *k, uint32_t result, uint32_t *value, float *epsilon,
                         uint32_t *square) {
  const uint32_t node = kit_maker(k, result);
  if (kit_op(k, node) == OP_Div) {
    *value = kit_in(k, node, 0);
    return is_spread(k, kit_in(k, node, 1), *value, epsilon, square) ? node : NO_ID;
  }
  if (kit_op(k, node) != OP_Mul) return NO_ID;
  uint32_t inner = made_by(k, node, OP_Reciprocal, value);
  if (inner != NO_ID && is_spread(k, kit_in(k, inner, 0), *value, epsilon, square)) return node;
  inner = made_by(k, node, OP_Div, value);
  return inner != NO_ID && kit_const_all(k, kit_in(k, inner, 0), 1) == KIT_YES &&
                 is_spread(k, kit_in(k, inner, 1), *value, epsilon, square)
             ? node
             : NO_ID;
}

// A Mul of a quotient by a gain.
static bool scaled_quotient(struct kit *k, uint32_t node, struct norm *out, uint32_t *value,
                            uint32_t *divides, uint32_t *square) {
  if (kit_op(k, node) != OP_Mul) return false;
  for (uint32_t i = 0; i < 2; i++) {
    *divides = quotient(k, kit_in(k, node, i), value, &out->epsilon, square);
    out->gain = kit_in(k, node, 1 - i);
    if (*divides != NO_ID && kit_sole_user(k, kit_in(k, node, i)) == node) return true;
  }
  return false;
}

// x - ReduceMean(x): the node.
static uint32_t centred(struct kit *k, uint32_t value, uint32_t *x) {
  const uint32_t node = kit_maker(k, value);
  if (kit_op(k, node) != OP_Sub) return NO_ID;
  const uint32_t mean = kit_maker(k, kit_in(k, node, 1));
  *x = kit_in(k, node, 0);
  return is_mean(k, mean) && kit_in(k, mean, 0) == *x ? node : NO_ID;
}

// Spelled out: an Add of a bias to a norm with a mean, or the norm without one.
static bool spelled_out(struct kit *k, uint32_t node, struct norm *out) {
  uint32_t value, divides, square, inner;
  if (kit_op(k, node) == OP_Mul) {
    if (!scaled_quotient(k, node, out, &value, &divides, &square)) return false;
    if (centred(k, value, &out->x) != NO_ID) return false; // its bias is yet to come
    *out = (struct norm){.root = node,
                         .x = value,
                         .gain = out->gain,
                         .bias = NO_ID,
                         .users = {divides, square},
                         .n_users = 2,
                         .epsilon = out->epsilon,
                         .simplified = true};
    return true;
  }
  if (kit_op(k, node) != OP_Add) return false;
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t product = kit_in(k, node, i);
    if (kit_sole_user(k, product) != node ||
        !scaled_quotient(k, kit_maker(k, product), out, &value, &divides, &square))
      continue;
    inner = centred(k, value, &out->x);
    if (inner == NO_ID) continue;
    out->root = node;
    out->bias = kit_in(k, node, 1 - i);
    out->users[0] = inner;
    out->users[1] = kit_maker(k, kit_in(k, inner, 1));
    out->n_users = 2;
    out->simplified = false;
    return true;
  }
  return false;
}

static bool is_norm(struct kit *k, uint32_t node, struct norm *out) {
  const enum op op = kit_op(k, node);
  int64_t stash;
  struct infer_type t;
  *out = (struct norm){.root = node};
  if (op != OP_LayerNormalization && op != OP_RMSNormalization) return spelled_out(k, node, out);
  out->x = kit_in(k, node, 0);
  out->gain = kit_in(k, node, 1);
  out->bias = kit_in(k, node, 2);
  out->users[0] = node;
  out->n_users = 1;
  out->simplified = op == OP_RMSNormalization;
  return kit_n_out(k, node) == 1 && kit_attr_int(k, node, "stash_type", 1, &stash) && stash == 1 &&
         kit_attr_float(k, node, "epsilon", 1e-5f, &out->epsilon) && known_dims(k, out->x, &t) &&
         known_along_last(k, node, -1, t.rank);
}

// ---- the sum -------------------------------------------------------------------------------------

// A vector of the last dim of `like`.
static bool is_vector(struct kit *k, uint32_t value, const struct infer_type *like) {
  struct infer_type t;
  return known_dims(k, value, &t) && t.rank == 1 && t.dtype == like->dtype &&
         known_same(k, t.dims[0], like->dims[like->rank - 1]);
}

// May a node at the place of `add` use it?
static bool is_there(struct kit *k, uint32_t value, uint32_t add) {
  return kit_available(k, value, k->m->nodes[add].graph, add);
}

// Does a node outside the norm, or a caller, use the sum?
static bool used_elsewhere(struct kit *k, const struct norm *norm) {
  for (struct kit_use u = kit_uses(k, norm->x); kit_use(k, &u);) {
    bool inside = false;
    for (uint32_t i = 0; i < norm->n_users; i++)
      inside = inside || u.node == norm->users[i];
    if (!inside) return true;
  }
  return kit_is_output(k, norm->x);
}

// The Add of a vector that makes `value` for `add` alone: its node, and what it adds to.
static uint32_t with_vector(struct kit *k, uint32_t value, uint32_t add,
                            const struct infer_type *like, uint32_t *rest, uint32_t *vector) {
  const uint32_t node = kit_maker(k, value);
  if (kit_op(k, node) != OP_Add || kit_sole_user(k, value) != add) return NO_ID;
  for (uint32_t i = 0; i < 2; i++) {
    *vector = kit_in(k, node, i);
    *rest = kit_in(k, node, 1 - i);
    if (is_vector(k, *vector, like) && known_alike(k, *rest, value) && is_there(k, *vector, add))
      return node;
  }
  return NO_ID;
}

static void merge(struct kit *k, const struct norm *norm, uint32_t add) {
  const bool more = used_elsewhere(k, norm);
  struct infer_type t;
  uint32_t in[5], n_in = 0, x = kit_in(k, add, 0), y = kit_in(k, add, 1), rest, vector = NO_ID,
                  adds = NO_ID;
  known_dims(k, norm->x, &t);
  kit_begin(k, norm->root, "sum");
  kit_import(k, k->m->nodes[add].graph, "com.microsoft", 1);
  if ((adds = with_vector(k, x, add, &t, &rest, &vector)) != NO_ID)
    x = rest;
  else if ((adds = with_vector(k, y, add, &t, &rest, &vector)) != NO_ID)
    y = rest;
  in[n_in++] = x;
  in[n_in++] = y;
  in[n_in++] = norm->gain;
  if (!norm->simplified) in[n_in++] = norm->bias;
  if (adds != NO_ID) in[n_in++] = vector;
  while (in[n_in - 1] == NO_ID)
    n_in--;

  const uint32_t result = kit_out(k, norm->root, 0);
  const char *op = norm->simplified ? "SkipSimplifiedLayerNormalization" : "SkipLayerNormalization";
  const struct edit_output out[] = {{result, {0}}, {NO_ID, {0}}, {NO_ID, {0}}, {norm->x, {0}}};
  const struct edit_attr epsilon = {.name = "epsilon", .type = ATTR_FLOAT, .f = norm->epsilon};
  struct edit_node node = {.graph = k->m->nodes[add].graph,
                           .before = k->m->nodes[add].next,
                           .name = kit_name(k, op),
                           .op_type = span_str(op),
                           .domain = span_str("com.microsoft"),
                           .in = in,
                           .n_in = n_in,
                           .out = out,
                           .n_out = more ? 4 : 1,
                           .attrs = &epsilon,
                           .n_attrs = 1};
  uint32_t inner[4], n_inner = 0; // what made the norm's parts
  for (uint32_t i = 0; i < 2 && norm->users[0] != norm->root; i++)
    inner[n_inner++] = kit_maker(k, kit_in(k, norm->root, i));
  if (node.before == norm->root) node.before = k->m->nodes[norm->root].next;
  edit_remove_node(k->e, norm->root);
  if (more) edit_remove_node(k->e, add);
  edit_add_node(k->e, &node);
  for (uint32_t i = 0; i < n_inner; i++)
    if (inner[i] != NO_ID) kit_sweep(k, inner[i]);
  if (!more && !(k->m->nodes[add].flags & NODE_DEAD)) kit_sweep(k, add);
  if (adds != NO_ID && !(k->m->nodes[adds].flags & NODE_DEAD)) kit_sweep(k, adds);
}

static void visit(struct kit *k, uint32_t node) {
  struct norm norm;
  struct infer_type t;
  if (!is_norm(k, node, &norm) || !(norm.epsilon >= 0)) return;
  const uint32_t add = kit_maker(k, norm.x);
  if (kit_op(k, add) != OP_Add || k->m->nodes[add].graph != k->m->nodes[node].graph) return;
  if (!known_dims(k, norm.x, &t) || t.rank != 3 || t.dtype != DTYPE_FLOAT ||
      !known_alike(k, kit_in(k, add, 0), norm.x) || !known_alike(k, kit_in(k, add, 1), norm.x))
    return;
  if (!is_vector(k, norm.gain, &t) || !is_there(k, norm.gain, add)) return;
  if (norm.bias != NO_ID && (!is_vector(k, norm.bias, &t) || !is_there(k, norm.bias, add))) return;
  merge(k, &norm, add);
}

const struct pass ort_skip_layer_norm = {
    .name = "ort/skip-layer-norm",
    .summary = "fuse an Add and the LayerNormalization or RMSNormalization after it",
    .about =
        "Replaces an Add and the norm after it by SkipLayerNormalization or "
        "SkipSimplifiedLayerNormalization. The norm may be one operator or written as its parts. "
        "The sum may have other users. A vector that was added before becomes the bias of the new "
        "node.",
    .needs = "float32 values with three axes, whose dims are known to be equal",
    .promises = "the same results up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = kit_run,
    .visit = visit,
};
