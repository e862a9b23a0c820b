// The pass optimize/rotary: positions that are turned into queries and keys, as one RotaryEmbedding.
//
//   x[..,:h] ──────────▶ Concat ─▶ Mul(sin) ─▶ Add ─▶ y         cos, sin [b,s,2h]: both halves equal
//   x[..,h:] ─▶ Neg ─┘      x ─▶ Mul(cos) ─┘
//                                                        ──▶  y = RotaryEmbedding(x, cos [b,s,h], sin [b,s,h])
//
//   Concat(Sub(Mul(x[..,:h], cos), Mul(x[..,h:], sin)), Add(Mul(x[..,h:], cos), Mul(x[..,:h], sin)))      the same
//   Concat(RotaryEmbedding(x[..,:r]), x[..,r:])          ──▶  RotaryEmbedding<rotary_embedding_dim=r>(x)
//
// x is [b, heads, s, d]. The operator wants half of each cache: what makes them is followed back to the Concat that
// doubles it, or to a constant that is made of one, and made anew without it (cos of the angles themselves).
//
//   angles ─▶ Concat(a, a) ─▶ Cos ─▶ Unsqueeze ─▶ cos    ──▶    angles ─▶ Cos
//
// A cache that is shared by the whole batch is repeated for it, as the operator wants it.
//
// The pass ort/rotary makes the operator of ONNX Runtime's own of the same, for models below opset 23: it takes rows of a
// cache [s,h], from position 0 on, and so only what the whole batch shares.
#include "passes/optimize/inside/known.h"
#include "passes/optimize/optimize.h"

enum { STEPS = 12 };

// A half that was made, for the next node that wants it.
struct half {
  uint32_t of, graph, value;
  dim_id batch;
  bool whole; // of a cache that is a half already
};

struct run {
  struct kit k; // first: a visit is given it
  TABLE(struct half, halves);
  bool foreign; // com.microsoft's
};

// A cache: the operators between the value that is doubled, or the constant, and what is multiplied.
struct cache {
  uint32_t value;        // what is multiplied
  uint32_t from;         // what was doubled; with `half`, the cache itself; NO_ID: `recipe`
  uint32_t recipe;       // of half of a constant
  struct infer_type at;  // of `from`, where that is
  uint32_t nodes[STEPS]; // to be made anew, the last one first
  uint32_t n_nodes;
  bool half; // it is one already
};

struct found {
  uint32_t x;
  struct infer_type type;
  struct cache cos, sin;
};

// ---- halves of x -------------------------------------------------------------------------------

// A part of the last axis of `of`, which begins at `from` and is `n` long.
struct part {
  uint32_t of;
  int64_t from, n;
};

static bool part_of_slice(struct kit *k, uint32_t value, const struct infer_type *t,
                          struct part *p) {
  const uint32_t node = kit_maker(k, value);
  int64_t step = 1, axis, d;
  struct infer_type x;
  p->of = kit_in(k, node, 0);
  if (kit_in(k, node, 3) == NO_ID || !known_number(k, kit_in(k, node, 3), &axis) ||
      !known_number(k, kit_in(k, node, 1), &p->from) ||
      (kit_in(k, node, 4) != NO_ID && !known_number(k, kit_in(k, node, 4), &step)))
    return false;
  if (step != 1 || (axis != -1 && axis != (int64_t)t->rank - 1)) return false;
  if (!known_dims(k, p->of, &x) || x.rank != t->rank || !known_size(k, x.dims[x.rank - 1], &d))
    return false;
  if (p->from < 0) p->from += d;
  return p->from >= 0 && p->from + p->n <= d;
}

static bool part_of_split(struct kit *k, uint32_t value, const struct infer_type *t,
                          struct part *p) {
  const uint32_t node = kit_maker(k, value);
  int64_t d;
  struct infer_type x;
  p->of = kit_in(k, node, 0);
  p->from = 0;
  if (!known_along_last(k, node, 0, t->rank)) return false;
  for (uint32_t i = 0; i < k->m->nodes[node].n_out && kit_out(k, node, i) != value; i++) {
    if (!known_dims(k, kit_out(k, node, i), &x) || !known_size(k, x.dims[x.rank - 1], &d))
      return false;
    p->from += d;
  }
  return true;
}

static bool find_part(struct kit *k, uint32_t value, struct part *p) {
  struct infer_type t;
  if (!known_dims(k, value, &t) || t.rank == 0 || !known_size(k, t.dims[t.rank - 1], &p->n))
    return false;
  const enum op op = kit_maker_op(k, value);
  return op == OP_Slice ? part_of_slice(k, value, &t, p)
                        : op == OP_Split && part_of_split(k, value, &t, p);
}

// Are they the first and the second half of one value, and which one is it?
static uint32_t halves_of(struct kit *k, uint32_t low, uint32_t high) {
  struct part a, b;
  struct infer_type x;
  int64_t d;
  if (!find_part(k, low, &a) || !find_part(k, high, &b) || a.of != b.of ||
      !known_dims(k, a.of, &x) || !known_size(k, x.dims[x.rank - 1], &d))
    return NO_ID;
  return a.from == 0 && a.n == b.n && b.from == a.n && d == 2 * a.n ? a.of : NO_ID;
}

// ---- halves of caches --------------------------------------------------------------------------

// Half of a constant's last axis, where the recipe says that it is doubled.
static uint32_t half_of_recipe(struct kit *k, uint32_t id) {
  if (id == NO_ID) return NO_ID;
  const struct recipe *row = &k->r->rows[id];
  uint32_t rank = row->rank;
  if (rank == 0) return NO_ID;
  if (row->kind == RECIPE_RESHAPE) {
    const uint32_t of = k->r->args[row->args];
    if (k->r->rows[of].rank == 0 ||
        recipe_dims(k->r, of)[k->r->rows[of].rank - 1] != recipe_dims(k->r, id)[rank - 1])
      return NO_ID;
    id = of;
    row = &k->r->rows[id];
    rank = row->rank;
  }
  if (row->kind != RECIPE_CONCAT || row->n_args != 2 || recipe_axis_of(k->r, id) != rank - 1)
    return NO_ID;
  const uint32_t a = k->r->args[row->args];
  return a == k->r->args[row->args + 1] ? a : NO_ID;
}

// The same of a small constant, element by element.
static uint32_t half_of_elements(struct kit *k, uint32_t value) {
  enum dtype dtype;
  struct span raw;
  uint32_t tensor;
  int64_t dims[RECIPE_MAX_RANK];
  if (!kit_constant(k, value, &tensor) || !kit_elements(k, value, &dtype, &raw)) return NO_ID;
  const struct model_tensor *t = &k->m->tensors[tensor];
  if (t->rank == 0 || t->rank > RECIPE_MAX_RANK || dtype_bits(dtype) % 8 != 0) return NO_ID;
  memcpy(dims, model_dims(k->m, t), t->rank * sizeof *dims);
  const int64_t d = dims[t->rank - 1];
  const size_t row = (size_t)d * dtype_bits(dtype) / 8, half = row / 2;
  if (d < 2 || d % 2 != 0 || raw.n == 0 || raw.n % row != 0) return NO_ID;
  uint8_t *to = arena_alloc(&k->site, raw.n / 2);
  for (size_t i = 0; i < raw.n / row; i++) {
    const uint8_t *at = raw.at + i * row;
    if (memcmp(at, at + half, half) != 0) return NO_ID;
    memcpy(to + i * half, at, half);
  }
  dims[t->rank - 1] = d / 2;
  return recipe_bytes(k->r, dtype, dims, t->rank, span_of(to, raw.n / 2));
}

static bool only_ones(struct kit *k, uint32_t from, uint32_t to) {
  struct infer_type x, y;
  uint32_t i = 0, j = 0;
  if (!known_dims(k, from, &x) || !known_dims(k, to, &y) || x.rank == 0 || y.rank == 0)
    return false;
  while (i < x.rank || j < y.rank) {
    if (i < x.rank && known_one(k, x.dims[i]))
      i++;
    else if (j < y.rank && known_one(k, y.dims[j]))
      j++;
    else if (i == x.rank || j == y.rank || !known_same(k, x.dims[i++], y.dims[j++]))
      return false;
  }
  return known_same(k, x.dims[x.rank - 1], y.dims[y.rank - 1]);
}

static bool is_scalar(struct kit *k, uint32_t value) {
  struct infer_type t;
  double by;
  return kit_const_scalar(k, value, &by) && known_dims(k, value, &t) && t.rank <= 2;
}

// Elementwise, of one operand that is not a number.
static uint32_t elementwise(struct kit *k, uint32_t node) {
  const uint32_t a = kit_in(k, node, 0), b = kit_in(k, node, 1);
  if (node == NO_ID || !kit_attrs_copyable(k, node)) return NO_ID;
  switch (kit_op(k, node)) {
  case OP_Cos:
  case OP_Sin:
  case OP_Neg:
  case OP_Cast: return a;
  case OP_Mul: return is_scalar(k, b) ? a : is_scalar(k, a) ? b : NO_ID;
  case OP_Div: return is_scalar(k, b) ? a : NO_ID;
  default: return NO_ID;
  }
}

static const char *find_half(struct kit *k, struct cache *c) {
  uint32_t value = c->value, tensor;
  for (uint32_t i = 0; i < 2 * STEPS; i++) {
    const uint32_t node = kit_maker(k, value);
    const enum op op = kit_maker_op(k, value);
    struct infer_type t;
    if (kit_constant(k, value, &tensor)) {
      c->recipe = half_of_recipe(k, kit_recipe(k, value));
      if (c->recipe == NO_ID) c->recipe = half_of_elements(k, value);
      return c->recipe == NO_ID ? "halves" : NULL;
    }
    if (op == OP_Unsqueeze || op == OP_Squeeze || op == OP_Reshape) {
      if (!only_ones(k, kit_in(k, node, 0), value)) return "halves";
      value = kit_in(k, node, 0);
      continue;
    }
    if (op == OP_Concat && kit_n_in(k, node) == 2 && kit_in(k, node, 0) == kit_in(k, node, 1)) {
      if (!known_dims(k, value, &t) || !known_along_last(k, node, -1, t.rank)) return "halves";
      c->from = kit_in(k, node, 0);
      return known_dims(k, c->from, &c->at) ? NULL : "halves";
    }
    const uint32_t from = elementwise(k, node);
    if (from == NO_ID || c->n_nodes == STEPS) return "halves";
    c->nodes[c->n_nodes++] = node;
    value = from;
  }
  return "halves";
}

// What is multiplied with x [b, heads, s, d] must be [b or 1, 1, s, n].
static const char *find_cache(struct kit *k, uint32_t value, const struct infer_type *x,
                              dim_id last, struct cache *c) {
  struct infer_type t;
  *c = (struct cache){.value = value, .from = NO_ID, .recipe = NO_ID, .half = c->half};
  if (!known_dims(k, value, &t) || t.rank < 2 || t.rank > 4) return "cache_shape";
  const dim_id *d = t.dims + t.rank;
  if (!known_same(k, d[-1], last) || !known_same(k, d[-2], x->dims[2])) return "cache_shape";
  if (t.rank > 2 && !known_one(k, d[-3])) return "cache_shape";
  if (t.rank > 3 && !known_same(k, d[-4], x->dims[0]) && !known_one(k, d[-4])) return "cache_shape";
  if (!c->half) return find_half(k, c);
  c->from = value;
  c->at = t;
  return NULL;
}

static const char *find_caches(struct kit *k, uint32_t cos, uint32_t sin, bool half,
                               struct found *f) {
  const struct infer_type *x = &f->type;
  int64_t d;
  if (x->rank != 4) return "rank";
  if (x->dtype != DTYPE_FLOAT && x->dtype != DTYPE_FLOAT16) return "float_type";
  if (!known_size(k, x->dims[3], &d) || d < 2 || d % 2 != 0) return "dims";
  const dim_id last = half ? dims_number(infer_dims(k->env->infer), d / 2) : x->dims[3];
  f->cos.half = f->sin.half = half;
  const char *why = find_cache(k, cos, x, last, &f->cos);
  return why ? why : find_cache(k, sin, x, last, &f->sin);
}

// ---- spellings ---------------------------------------------------------------------------------

static bool alone(struct kit *k, uint32_t value) {
  return kit_sole_user(k, value) != NO_ID;
}

// Concat(Neg(x[h:]), x[:h]): x, or NO_ID.
static uint32_t turned(struct kit *k, uint32_t value) {
  const uint32_t node = kit_maker(k, value), neg = kit_in(k, node, 0);
  struct infer_type t;
  if (kit_maker_op(k, value) != OP_Concat || kit_n_in(k, node) != 2 || !known_dims(k, value, &t) ||
      !known_along_last(k, node, 0, t.rank) || kit_maker_op(k, neg) != OP_Neg)
    return NO_ID;
  return halves_of(k, kit_in(k, node, 1), kit_in(k, kit_maker(k, neg), 0));
}

// Add(Mul(x, cos), Mul(turned(x), sin)). NULL; "": it is another Add; or why it stays.
static const char *find_sum(struct kit *k, uint32_t node, struct found *f) {
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t second = kit_in(k, node, i), first = kit_in(k, node, 1 - i);
    if (kit_maker_op(k, first) != OP_Mul || kit_maker_op(k, second) != OP_Mul) return "";
    for (uint32_t j = 0; j < 2; j++) {
      const uint32_t by_sin = kit_maker(k, second), by_cos = kit_maker(k, first);
      const uint32_t turn = kit_in(k, by_sin, j);
      f->x = turned(k, turn);
      if (f->x == NO_ID) continue;
      const uint32_t at = kit_in(k, by_cos, 0) == f->x ? 0 : 1;
      if (kit_in(k, by_cos, at) != f->x) continue;
      if (!alone(k, turn) || !alone(k, first) || !alone(k, second)) return "used_elsewhere";
      if (!known_dims(k, f->x, &f->type)) return "dims";
      return find_caches(k, kit_in(k, by_cos, 1 - at), kit_in(k, by_sin, 1 - j), false, f);
    }
  }
  return "";
}

// The two operands of a Mul that only `node` uses.
static bool factors(struct kit *k, uint32_t value, uint32_t in[2]) {
  const uint32_t node = kit_maker(k, value);
  in[0] = kit_in(k, node, 0);
  in[1] = kit_in(k, node, 1);
  return kit_maker_op(k, value) == OP_Mul && alone(k, value);
}

// Concat(low*cos - high*sin, high*cos + low*sin), whichever operands come first.
static const char *find_pair(struct kit *k, uint32_t node, struct found *f) {
  uint32_t real[2][2], imag[2][2];
  const uint32_t sub = kit_maker(k, kit_in(k, node, 0)), add = kit_maker(k, kit_in(k, node, 1));
  if (kit_op(k, sub) != OP_Sub || kit_op(k, add) != OP_Add || kit_n_in(k, node) != 2) return "";
  for (uint32_t i = 0; i < 2; i++)
    if (!factors(k, kit_in(k, sub, i), real[i]) || !factors(k, kit_in(k, add, i), imag[i]))
      return "";
  for (uint32_t way = 0; way < 8; way++) {
    const uint32_t a = way & 1, b = way >> 1 & 1, swap = way >> 2;
    const uint32_t low = real[0][a], cos = real[0][1 - a], high = real[1][b], sin = real[1][1 - b];
    const uint32_t *by_cos = imag[swap], *by_sin = imag[1 - swap];
    f->x = halves_of(k, low, high);
    if (f->x == NO_ID) continue;
    if (!((by_cos[0] == high && by_cos[1] == cos) || (by_cos[1] == high && by_cos[0] == cos)) ||
        !((by_sin[0] == low && by_sin[1] == sin) || (by_sin[1] == low && by_sin[0] == sin)))
      continue;
    if (!known_dims(k, f->x, &f->type) || !known_along_last(k, node, 0, f->type.rank))
      return "dims";
    if (!alone(k, kit_in(k, node, 0)) || !alone(k, kit_in(k, node, 1))) return "used_elsewhere";
    return find_caches(k, cos, sin, true, f);
  }
  return "";
}

// ---- what is made ------------------------------------------------------------------------------

// The dim of the batch in a cache of these dims, of 2 to 4 axes, as [n, s, h]; NO_ID: it is none such.
static dim_id batch_of(struct kit *k, const struct infer_type *t, const struct infer_type *x) {
  struct dims *d = infer_dims(k->env->infer);
  if (t->rank < 2 || t->rank > 4 || !known_same(k, t->dims[t->rank - 2], x->dims[2])) return NO_ID;
  if (t->rank == 2) return dims_number(d, 1);
  if (t->rank == 4 && !known_one(k, t->dims[1])) return NO_ID;
  return known_same(k, t->dims[0], x->dims[0]) || known_one(k, t->dims[0]) ? t->dims[0] : NO_ID;
}

// Where a Reshape of one with a batch only adds axes of length 1, what it is given.
static void step_back(struct kit *k, struct cache *c, const struct infer_type *x) {
  for (uint32_t i = 0; i < STEPS && c->at.rank != 3; i++) {
    const enum op op = kit_maker_op(k, c->from);
    const uint32_t before = kit_in(k, kit_maker(k, c->from), 0);
    struct infer_type t;
    if ((op != OP_Unsqueeze && op != OP_Squeeze && op != OP_Reshape) ||
        !only_ones(k, before, c->from) || !known_dims(k, before, &t) || batch_of(k, &t, x) == NO_ID)
      return;
    c->from = before;
    c->at = t;
  }
}

// Can what is doubled be given the form that the operator wants? With the batch that it has.
static bool has_form(struct kit *k, struct cache *c, const struct found *f, dim_id *batch) {
  int64_t length, n, h;
  if (c->from != NO_ID) {
    step_back(k, c, &f->type);
    *batch = batch_of(k, &c->at, &f->type);
    return *batch != NO_ID;
  }
  if (!known_size(k, f->type.dims[2], &length) || !known_size(k, f->type.dims[3], &h)) return false;
  const uint64_t each = (uint64_t)length * (uint64_t)h / 2, all = k->r->rows[c->recipe].count;
  if (each == 0 || all % each != 0) return false;
  *batch = dims_number(infer_dims(k->env->infer), (int64_t)(all / each));
  return all == each || (known_size(k, f->type.dims[0], &n) && (uint64_t)n == all / each);
}

static uint32_t base_of(struct kit *k, const struct cache *c, const struct found *f) {
  int64_t dims[3] = {1, 0, 0};
  const int64_t axis = c->from != NO_ID && c->at.rank == 4;
  if (c->from != NO_ID) {
    if (c->at.rank == 3) return c->from;
    return kit_make(k, c->at.rank == 2 ? OP_Unsqueeze : OP_Squeeze,
                    KIT_IN(c->from, kit_new_ints(k, "axes", &axis, 1)));
  }
  known_size(k, f->type.dims[2], &dims[1]);
  known_size(k, f->type.dims[3], &dims[2]);
  dims[2] /= 2;
  dims[0] = (int64_t)k->r->rows[c->recipe].count / (dims[1] * dims[2]);
  return kit_new_tensor(k, "cache", recipe_reshape(k->r, c->recipe, dims, 3));
}

// The same of one that the batch shares, as [s, h].
static uint32_t rows_of(struct kit *k, const struct cache *c, const struct found *f) {
  int64_t dims[2] = {-1, 0};
  known_size(k, f->type.dims[3], &dims[1]);
  dims[1] /= 2;
  if (c->from == NO_ID) {
    known_size(k, f->type.dims[2], &dims[0]);
    return kit_new_tensor(k, "cache", recipe_reshape(k->r, c->recipe, dims, 2));
  }
  if (c->at.rank == 2) return c->from;
  return kit_make(k, OP_Reshape, KIT_IN(c->from, kit_new_ints(k, "shape", dims, 2)));
}

static uint32_t repeated(struct kit *k, uint32_t value, const struct found *f) {
  int64_t list[3] = {0, 1, 1};
  if (known_size(k, f->type.dims[0], &list[0]))
    return kit_make(k, OP_Expand, KIT_IN(value, kit_new_ints(k, "shape", list, 3)));
  uint32_t of = f->x, axis = 0;
  known_source(k, &of, &axis);
  const uint32_t batch =
      kit_make(k, OP_Shape, KIT_IN(of), KIT_INT("start", axis), KIT_INT("end", axis + 1));
  const uint32_t ones = kit_new_ints(k, "ones", list + 1, 2);
  const uint32_t target = kit_make(k, OP_Concat, KIT_IN(batch, ones), KIT_INT("axis", 0));
  return kit_make(k, OP_Expand, KIT_IN(value, target));
}

// An operator of the cache again, of another value.
static uint32_t again(struct kit *k, uint32_t node, uint32_t value) {
  const uint32_t old = elementwise(k, node), n = kit_n_in(k, node);
  uint32_t in[2];
  for (uint32_t i = 0; i < 2; i++)
    in[i] = kit_in(k, node, i) == old ? value : kit_in(k, node, i);
  return kit_make(k, kit_op(k, node), KIT_INPUTS(in, n), KIT_ATTRS_OF(node));
}

static uint32_t remembered(struct run *r, const struct cache *c, dim_id batch, uint32_t node) {
  for (uint32_t i = r->n_halves; i-- > 0 && r->n_halves - i <= 2 * STEPS;) {
    const struct half *h = &r->halves[i];
    if (h->of == c->value && h->whole == c->half && h->batch == batch && h->graph == r->k.graph &&
        !(r->k.m->values[h->value].flags & VALUE_DEAD) &&
        kit_available(&r->k, h->value, h->graph, node))
      return h->value;
  }
  return NO_ID;
}

static uint32_t half_for(struct run *r, const struct cache *c, const struct found *f,
                         dim_id batch) {
  struct kit *k = &r->k;
  const dim_id wanted = dims_find(infer_dims(k->env->infer), f->type.dims[0]);
  uint32_t value = remembered(r, c, wanted, k->before);
  if (value != NO_ID) return value;
  value = r->foreign ? rows_of(k, c, f) : base_of(k, c, f);
  if (!r->foreign && !known_same(k, batch, wanted)) value = repeated(k, value, f);
  for (uint32_t i = c->n_nodes; i-- > 0;)
    value = again(k, c->nodes[i], value);
  *TABLE_PUSH(r, halves) = (struct half){c->value, k->graph, value, wanted, c->half};
  return value;
}

static bool available(struct kit *k, uint32_t node, const struct found *f) {
  const uint32_t list[] = {f->x, f->cos.value, f->sin.value};
  for (uint32_t i = 0; i < sizeof list / sizeof *list; i++)
    if (!kit_available(k, list[i], k->m->nodes[node].graph, node) ||
        kit_may_be_left_out(k->m, list[i]))
      return false;
  // What is made anew is made of what stands in the same graph.
  const uint32_t from[] = {f->cos.from, f->sin.from};
  for (uint32_t i = 0; i < 2; i++)
    if (from[i] != NO_ID && !kit_sees(k, k->m->nodes[node].graph, from[i])) return false;
  for (uint32_t i = 0; i < f->cos.n_nodes; i++)
    if (k->m->nodes[f->cos.nodes[i]].graph != k->m->nodes[node].graph) return false;
  for (uint32_t i = 0; i < f->sin.n_nodes; i++)
    if (k->m->nodes[f->sin.nodes[i]].graph != k->m->nodes[node].graph) return false;
  return true;
}

static void fuse(struct run *r, uint32_t node, const struct found *f, const dim_id batch[2]) {
  struct kit *k = &r->k;
  uint32_t makers[2], in[4] = {f->x, NO_ID, NO_ID, NO_ID};
  const int64_t first = 0;
  kit_begin(k, node, "rotary");
  for (uint32_t i = 0; i < 2; i++)
    makers[i] = kit_maker(k, kit_in(k, node, i));
  in[r->foreign ? 2 : 1] = half_for(r, &f->cos, f, batch[0]);
  in[r->foreign ? 3 : 2] = half_for(r, &f->sin, f, batch[1]);
  // ONNX Runtime before 1.24 wants the heads where only a part is turned.
  struct edit_attr heads = {.name = "num_heads", .type = ATTR_INT};
  if (r->foreign) {
    in[1] = kit_new_ints(k, "position", &first, 1);
    kit_import(k, k->graph, "com.microsoft", 1);
  }
  kit_replace(k, node, r->foreign ? OP_ms_RotaryEmbedding : OP_RotaryEmbedding,
              KIT_INPUTS(in, r->foreign ? 4 : 3),
              KIT_ATTRS(&heads, !r->foreign && known_size(k, f->type.dims[1], &heads.i)),
              KIT_OUTPUTS(1));
  for (uint32_t i = 0; i < 2; i++)
    kit_sweep(k, makers[i]);
}

// ---- a part of x -------------------------------------------------------------------------------

// Concat(RotaryEmbedding(x[..,:r]), x[..,r:]).
static bool widen(struct kit *k, uint32_t node) {
  const uint32_t rotary = kit_maker(k, kit_in(k, node, 0));
  struct part a, b;
  struct infer_type x;
  int64_t r, d;
  if (kit_op(k, rotary) != OP_RotaryEmbedding || kit_n_in(k, node) != 2 ||
      !alone(k, kit_in(k, node, 0)) || !kit_attrs_copyable(k, rotary) ||
      !kit_attr_int(k, rotary, "rotary_embedding_dim", 0, &r) || r != 0 ||
      !find_part(k, kit_in(k, rotary, 0), &a) || !find_part(k, kit_in(k, node, 1), &b) ||
      a.of != b.of || !known_dims(k, a.of, &x))
    return false;
  if (x.rank != 4 || !known_along_last(k, node, 0, 4) || !known_size(k, x.dims[3], &d) ||
      a.from != 0 || b.from != a.n || a.n + b.n != d ||
      !kit_available(k, a.of, k->m->nodes[node].graph, node))
    return false;
  uint32_t in[4];
  const uint32_t n = kit_n_in(k, rotary);
  if (n > 4) return false;
  for (uint32_t i = 0; i < n; i++)
    in[i] = i == 0 ? a.of : kit_in(k, rotary, i);
  kit_begin(k, node, "partial");
  const uint32_t rest = kit_maker(k, kit_in(k, node, 1));
  const struct edit_attr part = {.name = "rotary_embedding_dim", .type = ATTR_INT, .i = a.n};
  kit_replace(k, node, OP_RotaryEmbedding, KIT_INPUTS(in, n), KIT_ATTRS(&part, 1),
              KIT_ATTRS_OF(rotary), KIT_OUTPUTS(1));
  kit_sweep(k, rotary);
  if (!(k->m->nodes[rest].flags & NODE_DEAD)) kit_sweep(k, rest);
  return true;
}

// Is it for the operator of ONNX Runtime's own: float32, and the batch shares the caches?
static const char *is_foreign(struct kit *k, const struct found *f, const dim_id batch[2]) {
  if (f->type.dtype != DTYPE_FLOAT) return "not_float32";
  for (uint32_t i = 0; i < 2; i++)
    if (!known_one(k, batch[i])) return "cache_shape";
  return NULL;
}

// ---- the walk ----------------------------------------------------------------------------------

static void visit(struct kit *k, uint32_t node) {
  struct run *r = (struct run *)k;
  struct found f = {.x = NO_ID};
  dim_id batch[2];
  const enum op op = kit_op(k, node);
  if (op != OP_Add && op != OP_Concat) return;
  if (op == OP_Concat && kit_maker_op(k, kit_in(k, node, 0)) != OP_Sub &&
      kit_maker_op(k, kit_in(k, node, 0)) != OP_RotaryEmbedding)
    return;
  if (r->foreign && kit_opset(k, k->m->nodes[node].graph) >= 23) return;
  if (op == OP_Concat && !r->foreign && kit_opset(k, k->m->nodes[node].graph) >= 23 &&
      widen(k, node))
    return;
  arena_reset(&k->site);
  const char *why = op == OP_Add ? find_sum(k, node, &f) : find_pair(k, node, &f);
  if (why && !*why) return;
  if (!why && !r->foreign && kit_opset(k, k->m->nodes[node].graph) < 23) why = "opset_below_23";
  if (!why && !available(k, node, &f)) why = "used_elsewhere";
  if (!why && (!has_form(k, &f.cos, &f, &batch[0]) || !has_form(k, &f.sin, &f, &batch[1])))
    why = "cache_shape";
  if (!why && r->foreign) why = is_foreign(k, &f, batch);
  if (why)
    kit_skipped(k, node, why);
  else
    fuse(r, node, &f, batch);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct run r = {.foreign = env->pass == &ort_rotary};
  kit_init(&r.k, env, env->pass->name);
  kit_infer(&r.k);
  kit_visit(&r.k, with, visit);
  TABLE_FREE(&r, halves);
  return kit_done(&r.k, err);
}

const struct pass optimize_rotary = {
    .name = "optimize/rotary",
    .summary = "fuse x * cos + Concat(-x[h:], x[:h]) * sin into RotaryEmbedding",
    .about = "Replaces x * cos + Concat(-x[h:], x[:h]) * sin by one RotaryEmbedding (opset 23), "
             "if both halves of the caches are known to be equal. Also works if only a part of x "
             "is rotated. Caches that the whole batch shares are repeated for each element of the "
             "batch.",
    .needs = "nothing; below opset 23, the pass changes nothing",
    .promises = "all outputs of the model are the same up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = run,
};

const struct pass ort_rotary = {
    .name = "ort/rotary",
    .summary = "fuse rotary embeddings into com.microsoft's RotaryEmbedding, for opsets below 23",
    .about =
        "Below opset 23, replaces x * cos + Concat(-x[h:], x[:h]) * sin by one RotaryEmbedding, "
        "if both halves of the caches are known to be equal and the batch shares the caches.",
    .needs = "float32",
    .promises = "the same results up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = run,
};
