// What those that read a value want of its elements.
//
//   input_ids ── Cast ── Unsqueeze ── Add(2) ── Gather(table[512,768])      so: 0 … 509
//             └─ Equal(1) ── Where(·, -inf, …)
//
// A walk from the value along operators that hand elements on (draw_wants.def), with what was done to them on the way:
// index = mul x + add. Bodies of Loop, Scan and If and functions of the model are entered where the value goes into
// them, and branches of an If are left where it comes out. The walk looks at a value once for each way in which it comes
// about, and at so many of them at most: what it has not seen wants nothing.
#include "verify/draw/inside/draw_parts.h"

#include <math.h>

enum want_kind {
  WANT_NOTHING,
  WANT_PASS,
  WANT_SUM,
  WANT_DIFFERENCE,
  WANT_PRODUCT,
  WANT_NOT,
  WANT_COUNTED,
  WANT_INDEX,
  WANT_LAST,
  WANT_INDEX_ND,
  WANT_ROWS,
  WANT_ROTARY,
  WANT_CLASS,
  WANT_ONE_HOT,
  WANT_UNPOOL,
  WANT_CHOOSE,
  WANT_MASK,
  WANT_SOFTMAX,
  WANT_EQUAL,
  WANT_COMPARE,
  WANT_FIRST,
  WANT_LENGTH,
  WANT_STEP,
  WANT_TIME_OF,
  WANT_DIM_0_OF,
  WANT_KEYS_LESS_ONE,
  WANT_KEYS,
  WANT_ALL_KEYS,
  WANT_WRITE,
  WANT_HERTZ,
  WANT_TRIPS,
  WANT_CONDITION,
  WANT_RATIO,
  WANT_OFF,
  WANT_ASKS,
  WANT_AXIS,
  WANT_AXIS_LAST,
  WANT_COUNT,
  WANT_WITHIN_ONE,
  WANT_ABOVE_ONE,
  WANT_POSITIVE,
  WANT_PROBABILITY,
  WANT_FEW_BITS,
  WANT_SCALE,
  WANT_NONZERO,
  WANT_BASE,
};

enum { ANY = -1, WALK_AT_MOST = 2048, SLOTS = 4096, KNOWN_AT_MOST = 1024 };

static const struct want_row {
  const char *op;
  int8_t slot;
  uint8_t kind;
  uint8_t n;
} rows[] = {
#define WANT(op, slot, kind, n) {op, slot, WANT_##kind, n},
#include "verify/draw/draw_wants.def"
#undef WANT
};

// A value on the walk: what its elements are, of those of the value that is drawn.
struct step {
  uint32_t value;
  int64_t mul, add;
  bool inverted; // of a mask
  bool exact;    // mul and add say it
  bool added;    // something was added: as additive masks are
};

struct walk {
  struct draw *d;
  struct draw_want *w;
  const uint32_t *users;
  uint32_t n_users;
  struct step at; // and the use that is looked at
  uint32_t node, slot;
  TABLE(struct step, steps);
  uint32_t seen[SLOTS]; // step + 1, open addressing
};

static bool same_step(const struct step *a, const struct step *b) {
  return a->value == b->value && a->mul == b->mul && a->add == b->add &&
         a->inverted == b->inverted && a->exact == b->exact;
}

static void go(struct walk *k, uint32_t value, struct step s) {
  if (value == NO_ID || k->n_steps >= WALK_AT_MOST) return;
  s.value = value;
  uint32_t slot = (value + (uint32_t)s.add) * 0x9e3779b9u % SLOTS;
  for (; k->seen[slot]; slot = (slot + 1) % SLOTS)
    if (same_step(&k->steps[k->seen[slot] - 1], &s)) return;
  *TABLE_PUSH(k, steps) = s;
  k->seen[slot] = k->n_steps;
}

static void pass(struct walk *k, struct step s) {
  const struct model_node *n = &k->d->m->nodes[k->node];
  for (uint32_t i = 0; i < n->n_out; i++)
    go(k, model_output(k->d->m, n, i), s);
}

static uint32_t input(const struct walk *k, uint32_t slot) {
  return model_input(k->d->m, &k->d->m->nodes[k->node], slot);
}

#define LARGE ((int64_t)1 << 40) // what is larger is no index, and is not reckoned with

static bool whole(double x, int64_t *out) {
  if (!(x > -(double)LARGE && x < (double)LARGE)) return false;
  *out = (int64_t)x;
  return true;
}

static void move(struct step *s, int64_t mul, int64_t add) {
  int64_t m, a;
  if (__builtin_mul_overflow(s->mul, mul, &m) || __builtin_mul_overflow(s->add, mul, &a) ||
      __builtin_add_overflow(a, add, &a) || m > LARGE || a > LARGE || a < -LARGE)
    s->exact = false;
  else
    s->mul = m, s->add = a;
}

// The other operand of a node with two; its one number in *x, where it is a constant of one element.
static bool other_number(struct walk *k, double *x) {
  uint32_t n;
  return draw_known(k->d, input(k, 1 - k->slot), x, 1, &n) && n == 1;
}

// mul x + add is to be in 0 … end - 1.
static void index_below(struct walk *k, int64_t end) {
  struct draw_want *w = k->w;
  if (end <= 0) return;
  if (!k->at.exact) {
    if (!w->index_end) w->index_end = end;
    return;
  }
  const int64_t mul = k->at.mul > 0 ? k->at.mul : 1;
  const int64_t top = (end - 1 - k->at.add) / mul + 1,
                low = k->at.add < 0 ? (-k->at.add + mul - 1) / mul : 0;
  if (top <= low) return;
  w->index_end = w->index_end ? (top < w->index_end ? top : w->index_end) : top;
  if (low > w->index_low) w->index_low = low;
}

static int64_t dim(struct walk *k, uint32_t slot, int64_t axis) {
  int64_t dims[ARRAY_MAX_RANK];
  uint32_t rank;
  const uint32_t value = input(k, slot);
  if (value == NO_ID || !draw_dims(k->d, value, dims, &rank)) return 0;
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? (dims[axis] < LARGE ? dims[axis] : LARGE) : 0;
}

static int64_t attr(const struct walk *k, const char *name, int64_t fallback) {
  int64_t x;
  return model_attr_int(k->d->m, k->node, name, fallback, &x) ? x : fallback;
}

static void index_nd(struct walk *k, uint32_t data) {
  int64_t dims[ARRAY_MAX_RANK];
  uint32_t rank;
  const int64_t first = attr(k, "batch_dims", 0), depth = dim(k, k->slot, -1);
  if (!draw_dims(k->d, input(k, data), dims, &rank) || first < 0 || first > rank) return;
  for (int64_t i = 0; i < depth && first + i < rank; i++)
    index_below(k, dims[first + i] < LARGE ? dims[first + i] : LARGE);
}

static void unpool(struct walk *k) {
  int64_t dims[ARRAY_MAX_RANK], n = 1;
  uint32_t rank;
  if (!draw_dims(k->d, input(k, 0), dims, &rank)) return;
  for (uint32_t i = 0; i < rank; i++)
    if (__builtin_mul_overflow(n, dims[i], &n) || n > LARGE) return;
  index_below(k, n);
}

static void one_hot(struct walk *k) {
  double depth = 0;
  uint32_t n;
  int64_t dims[ARRAY_MAX_RANK];
  uint32_t rank;
  const int64_t axis = attr(k, "axis", -1);
  const uint32_t out = model_output(k->d->m, &k->d->m->nodes[k->node], 0);
  if (!draw_known(k->d, input(k, 1), &depth, 1, &n)) {
    if (out == NO_ID || !draw_dims(k->d, out, dims, &rank)) return;
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && at < rank) depth = (double)dims[at];
  }
  int64_t end;
  if (whole(depth, &end)) index_below(k, end);
}

static bool is_integer(struct walk *k, uint32_t value) {
  struct infer_type t;
  return infer_type_of(k->d->sized, value, &t) && dtype_is_integer(t.dtype) &&
         t.dtype != DTYPE_BOOL;
}

static const double mask_least = -9000, mask_subtracted = 65504;

static bool very_negative(struct walk *k, uint32_t slot) {
  double x;
  uint32_t n;
  return draw_known(k->d, input(k, slot), &x, 1, &n) && n == 1 && x <= -1000;
}

static void choose(struct walk *k) {
  k->w->mask = true;
  if (very_negative(k, 1)) k->w->inverted = !k->at.inverted;
  if (very_negative(k, 2)) k->w->inverted = k->at.inverted;
}

// To numbers of which the largest is known, that is added; of others it is taken that they are as large as these are.
static void add_unknown(struct walk *k, struct step *s, int32_t sign) {
  double list[KNOWN_AT_MOST], most = 0;
  int64_t x;
  uint32_t n;
  if (draw_known(k->d, input(k, 1 - k->slot), list, KNOWN_AT_MOST, &n)) {
    for (uint32_t i = 0; i < n; i++)
      most = sign * list[i] > most ? sign * list[i] : most;
    move(s, 1, whole(most, &x) ? x : LARGE);
  } else
    move(s, 2, 0);
}

static void sum(struct walk *k, int32_t sign) {
  double x;
  struct step s = k->at;
  const bool integer = is_integer(k, k->at.value);
  s.added = true;
  if (!integer) {
    // 1 - mask: a mask of ones and zeros that becomes 0 and -10000.
    if (sign < 0 && k->slot == 1 && other_number(k, &x) && x == 1) k->w->mask = true;
    pass(k, s);
    return;
  }
  int64_t moved;
  if (sign < 0 && k->slot == 1)
    s.exact = false;
  else if (other_number(k, &x) && whole(x, &moved))
    move(&s, 1, sign * moved);
  else
    add_unknown(k, &s, sign);
  pass(k, s);
}

static void product(struct walk *k) {
  double x;
  struct step s = k->at;
  if (!is_integer(k, k->at.value)) {
    // Times -10000, or a number that is subtracted later, beyond what signals are multiplied by: what is 1 is taken out.
    k->w->switched |= other_number(k, &x) && (x <= mask_least || x >= mask_subtracted);
    pass(k, s);
    return;
  }
  int64_t by;
  if (other_number(k, &x) && whole(x, &by) && by >= 1)
    move(&s, by, 0);
  else
    s.exact = false;
  pass(k, s);
}

static void equal(struct walk *k) {
  double x[DRAW_EQUALS];
  uint32_t n;
  struct step s = k->at;
  if (!draw_known(k->d, input(k, 1 - k->slot), x, DRAW_EQUALS, &n)) return;
  if (n == 1 && x[0] == 0) s.inverted = !s.inverted;
  for (uint32_t i = 0; i < n && k->w->n_equals < DRAW_EQUALS; i++) {
    int64_t is;
    if (s.exact && s.mul == 1 && whole(x[i], &is)) k->w->equals[k->w->n_equals++] = is - s.add;
  }
  pass(k, s);
}

// With numbers that are counted up along the last axis: as long as that is.
static void compare(struct walk *k) {
  double x;
  if (other_number(k, &x)) {
    pass(k, k->at);
    return;
  }
  if (!is_integer(k, k->at.value)) return;
  k->w->length = true;
  if (k->at.exact && k->at.mul == 1 && k->at.add == 0) k->w->length_of = dim(k, 1 - k->slot, -1);
}

static void between(struct draw_want *w, float low, float high) {
  if (low > w->low) w->low = low;
  if (high < w->high) w->high = high;
}

static void integers(struct draw_want *w, float low, float high) {
  w->bounded = true;
  between(w, low, high);
}

static void asks(struct walk *k) {
  k->w->counts = true;
  if (k->w->asks_node != NO_ID || k->at.mul != 1 || k->at.add != 0 || !k->at.exact) return;
  k->w->asks_node = k->node;
  k->w->asks_slot = k->slot;
}

static void base(struct walk *k) {
  double x;
  if (!other_number(k, &x) || x != floor(x))
    between(k->w, 0, INFINITY);
  else if (x < 0)
    k->w->nonzero = true;
}

// Keys of GroupQueryAttention: those of the past and those of now.
static int64_t keys(struct walk *k) {
  const int64_t past = input(k, 3) == NO_ID ? 0 : dim(k, 3, 2);
  return past + dim(k, 0, 1);
}

static void fixed(struct draw_want *w, int64_t n) {
  w->fixed = true;
  w->n_equals = 1;
  w->equals[0] = n;
}

static void write_at(struct walk *k) {
  const int64_t axis = attr(k, "axis", -2);
  index_below(k, dim(k, 0, axis) - dim(k, 1, axis) + 1);
}

static void take(struct walk *k, const struct want_row *row) {
  struct draw_want *w = k->w;
  const bool direct = k->at.exact && k->at.mul == 1 && k->at.add == 0 && !k->at.added;
  switch ((enum want_kind)row->kind) {
  case WANT_NOTHING: break;
  case WANT_PASS: pass(k, k->at); break;
  case WANT_SUM: sum(k, 1); break;
  case WANT_DIFFERENCE: sum(k, -1); break;
  case WANT_PRODUCT: product(k); break;
  case WANT_NOT:
    k->at.inverted = !k->at.inverted;
    pass(k, k->at);
    break;
  case WANT_INDEX:
    index_below(k, dim(k, row->n, attr(k, "gather_axis", attr(k, "axis", 0))));
    break;
  case WANT_LAST: index_below(k, dim(k, row->n, -1)); break;
  case WANT_INDEX_ND: index_nd(k, row->n); break;
  case WANT_ROWS: index_below(k, dim(k, row->n, 0)); break;
  case WANT_ROTARY:
    // (x, ids, cos, sin) of com.microsoft, (x, cos, sin, ids) of ONNX.
    index_below(k, dim(k, k->slot == 1 ? 2 : 1, 0));
    break;
  case WANT_CLASS: index_below(k, dim(k, row->n, 1)); break;
  case WANT_ONE_HOT: one_hot(k); break;
  case WANT_UNPOOL: unpool(k); break;
  case WANT_CHOOSE: choose(k); break;
  case WANT_MASK:
    w->mask = true;
    w->additive |= !is_integer(k, k->at.value);
    w->inverted = k->at.inverted;
    break;
  case WANT_SOFTMAX: w->additive |= k->at.added; break;
  case WANT_EQUAL: equal(k); break;
  case WANT_COMPARE: compare(k); break;
  case WANT_FIRST:
    if (direct) integers(w, 0, 0);
    break;
  case WANT_LENGTH:
    w->length = true;
    asks(k);
    break;
  case WANT_STEP:
    if (direct) integers(w, 1, 1);
    break;
  case WANT_TIME_OF: integers(w, 1, (float)dim(k, 0, attr(k, "time_axis", 0))); break;
  case WANT_DIM_0_OF: integers(w, 1, (float)dim(k, 0, 0)); break;
  case WANT_COUNTED:
    k->at.exact = false;
    pass(k, k->at);
    break;
  case WANT_KEYS_LESS_ONE:
    w->full |= !direct;
    if (direct) fixed(w, keys(k) - 1);
    break;
  case WANT_KEYS:
    if (direct) fixed(w, keys(k));
    break;
  case WANT_ALL_KEYS: fixed(w, dim(k, 1, -2)); break;
  case WANT_WRITE: write_at(k); break;
  case WANT_HERTZ: between(w, 1000, 4000); break;
  case WANT_TRIPS: w->trips = true; break;
  case WANT_CONDITION: w->condition = true; break;
  case WANT_RATIO: between(w, 0, 0.5f); break;
  case WANT_OFF:
    if (direct) fixed(w, 0);
    break;
  case WANT_ASKS: asks(k); break;
  case WANT_AXIS:
    if (direct) integers(w, 0, 0);
    break;
  case WANT_AXIS_LAST:
    if (direct) integers(w, 1, 1);
    break;
  case WANT_COUNT: w->counts = true; break;
  case WANT_WITHIN_ONE:
    if (direct) between(w, -0.9375f, 0.9375f);
    break;
  case WANT_ABOVE_ONE:
    if (direct) between(w, 1, INFINITY);
    break;
  case WANT_POSITIVE:
    if (direct) between(w, 0, INFINITY), w->nonzero = true;
    break;
  case WANT_PROBABILITY:
    if (direct) between(w, 0, 1);
    break;
  case WANT_FEW_BITS: integers(w, 0, 4); break;
  case WANT_SCALE:
    if (direct) between(w, 0.0078125f, 0.0625f);
    break;
  case WANT_NONZERO: w->nonzero |= direct; break;
  case WANT_BASE:
    if (direct) base(k);
    break;
  }
}

// ---- bodies and functions ------------------------------------------------------------------------------

static void into_graph(struct walk *k, uint32_t graph, uint32_t at) {
  const struct model_graph *g = &k->d->m->graphs[graph];
  if (at < g->n_inputs) go(k, k->d->m->graph_io[g->inputs + at], k->at);
}

// Input 2 + i of a Loop is input 2 + i of its body; of a Scan they are counted alike.
static bool enter(struct walk *k) {
  const struct model *m = k->d->m;
  const uint32_t function = model_calls_callee(&k->d->calls, k->node);
  if (function != NO_ID) {
    into_graph(k, m->functions[function].graph, k->slot);
    return true;
  }
  const bool loop = model_op_is(m, k->node, "Loop"), scan = model_op_is(m, k->node, "Scan");
  if ((!loop || k->slot < 2) && !scan) return false;
  const struct model_attr *body = model_attr_named(m, k->node, "body");
  if (body && body->type == ATTR_GRAPH) into_graph(k, body->first, k->slot);
  return true;
}

static bool counts(const struct walk *k, uint32_t node) {
  uint32_t i;
  if (k->n_users == 0) return true;
  BISECT(i, k->n_users, k->users[i] < node);
  return i < k->n_users && k->users[i] == node;
}

// What a branch of an If gives is what the If gives.
static void out_of_branch(struct walk *k) {
  const struct model *m = k->d->m;
  const struct model_value *v = &m->values[k->at.value];
  const struct model_graph *g = &m->graphs[v->graph];
  if (v->n_graph_outputs == 0 || g->kind != GRAPH_SUB || g->owner == NO_ID) return;
  const uint32_t node = m->attrs[g->owner].node;
  if (node == NO_ID || !model_op_is(m, node, "If") || !counts(k, node)) return;
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (m->graph_io[g->outputs + i] == k->at.value)
      go(k, model_output(m, &m->nodes[node], i), k->at);
}

static void look(struct walk *k, uint32_t ref) {
  const struct model *m = k->d->m;
  k->node = m->refs[ref].node;
  const struct model_node *n = &m->nodes[k->node];
  if (n->flags & NODE_DEAD || !counts(k, k->node)) return;
  k->slot = ref - n->refs;
  if (enter(k)) return;
  const struct span op = model_name(m, n->op_type);
  for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if ((rows[i].slot != ANY && (uint32_t)rows[i].slot != k->slot) || !span_is(op, rows[i].op))
      continue;
    take(k, &rows[i]);
    return;
  }
}

void draw_want_of(struct draw *d, uint32_t value, const uint32_t *users, uint32_t n_users,
                  struct draw_want *out) {
  struct walk k = {.d = d, .w = out, .users = users, .n_users = n_users};
  *out = (struct draw_want){.low = -INFINITY, .high = INFINITY, .asks_node = NO_ID};
  go(&k, value, (struct step){.mul = 1, .exact = true});
  for (uint32_t i = 0; i < k.n_steps; i++) {
    const struct step at = k.steps[i];
    for (uint32_t ref = d->m->values[at.value].first_use; ref != NO_ID;
         ref = d->m->refs[ref].next) {
      k.at = at;
      look(&k, ref);
    }
    k.at = at;
    out_of_branch(&k);
  }
  TABLE_FREE(&k, steps);
}
