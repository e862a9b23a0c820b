// Ranges of values: one walk against the order of the nodes for what is wanted, one with it for what it is.
//
//   x ── Div(s) ── Clip(-4, 3) ── Round          wanted: Round's input; so Clip's inputs, Div's, and s
//        [-inf, inf]   [-4, 3]                   s is no small constant: least and most of it are asked for
//
// What an operator does to ranges holds for what runtimes compute, not for real numbers: sums, products and quotients of the
// ends are rounded to the type, as every sum, product and quotient in between is, and rounding keeps order. Operators that
// runtimes approximate have a rule only where they keep to it (a sigmoid lies in [0, 1]). Integers that leave their type may
// be anything in it. An infinity that a finite input makes (an overflow) is out of the rules, as NaN is.
//
// Operators without a rule have the range of their type, and so have inputs, loops' values and what bodies give. Wants go
// through operators with a rule alone, so that a weight is read only where something depends on its range.
#include "passes/thresholds/inside/sure_ranges.h"

#include "passes/questions/findings.h"
#include "passes/thresholds/inside/stairs.h"

#include <stdlib.h>

static const struct range anything = {-(double)INFINITY, (double)INFINITY};

struct range sure_ranges_of_dtype(enum dtype dtype) {
  if (dtype == DTYPE_BOOL) return (struct range){0, 1};
  if (!dtype_is_integer(dtype)) return anything;
  const bool is_signed = dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32 ||
                         dtype == DTYPE_INT64 || dtype == DTYPE_INT4 || dtype == DTYPE_INT2;
  const double size = ldexp(1, (int)dtype_bits(dtype) - is_signed);
  return (struct range){is_signed ? -size : 0, size - 1};
}

// ---- arithmetic of ranges ----------------------------------------------------------------------

static struct range join(struct range a, struct range b) {
  return (struct range){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}

// Of what four ends make.
static struct range around(const double ends[4]) {
  struct range r = {ends[0], ends[0]};
  for (uint32_t i = 0; i < 4; i++) {
    if (isnan(ends[i])) return anything;
    r = join(r, (struct range){ends[i], ends[i]});
  }
  return r;
}

static double times(double a, double b) {
  return a == 0 || b == 0 ? 0 : a * b; // an end that is infinity stands for finite numbers
}

static struct range product(struct range a, struct range b) {
  return around(
      (const double[]){times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)});
}

static struct range quotient(struct range a, struct range b) {
  if (b.lo <= 0 && b.hi >= 0) return anything;
  return around((const double[]){a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi});
}

static struct range sum(struct range a, struct range b) {
  const struct range r = {a.lo + b.lo, a.hi + b.hi};
  return isnan(r.lo) || isnan(r.hi) ? anything : r;
}

static struct range negative(struct range a) {
  return (struct range){-a.hi, -a.lo};
}

static struct range least(struct range a, struct range b) {
  return (struct range){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
}

static struct range most(struct range a, struct range b) {
  return (struct range){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
}

static struct range magnitude(struct range a) {
  const double farthest = fmax(fabs(a.lo), fabs(a.hi));
  return (struct range){a.lo <= 0 && a.hi >= 0 ? 0 : fmin(fabs(a.lo), fabs(a.hi)), farthest};
}

// As numbers of the type; what leaves a type of integers may be anything in it.
static struct range in_type(struct range r, enum dtype dtype) {
  const struct range all = sure_ranges_of_dtype(dtype);
  if (dtype_is_integer(dtype)) return r.lo < all.lo || r.hi > all.hi ? all : r;
  if (!dtype_is_plain_float(dtype)) return anything;
  return (struct range){stairs_rounded(dtype, r.lo), stairs_rounded(dtype, r.hi)};
}

// ---- operators ---------------------------------------------------------------------------------

// How an operator's range follows. NONE: not known; the others take ranges of some inputs.
enum way { NONE, FIRST, ALL, RULE };

static enum way way_of(enum op op) {
  switch (op) {
  case OP_Identity:
  case OP_Reshape:
  case OP_Flatten:
  case OP_Squeeze:
  case OP_Unsqueeze:
  case OP_Transpose:
  case OP_Expand:
  case OP_Tile:
  case OP_Slice:
  case OP_Split:
  case OP_Gather:
  case OP_GatherElements:
  case OP_GatherND:
  case OP_DepthToSpace:
  case OP_SpaceToDepth:
  case OP_ReduceMax:
  case OP_ReduceMin:
  case OP_GlobalMaxPool:
  case OP_MaxPool:
  case OP_ops_Im2Col: return FIRST;
  case OP_Concat: return ALL;
  case OP_Clip:
  case OP_Relu:
  case OP_Abs:
  case OP_Neg:
  case OP_Min:
  case OP_Max:
  case OP_Add:
  case OP_Sub:
  case OP_Mul:
  case OP_Div:
  case OP_Sign:
  case OP_Round:
  case OP_Floor:
  case OP_Ceil:
  case OP_Sigmoid:
  case OP_HardSigmoid:
  case OP_Softmax:
  case OP_Tanh:
  case OP_Erf:
  case OP_Where:
  case OP_Pad:
  case OP_Cast:
  case OP_CastLike:
  case OP_DequantizeLinear:
  case OP_ops_MultiThreshold: return RULE;
  default: return NONE;
  }
}

// Does the range depend on that of the input?
static bool depends(enum op op, uint32_t slot) {
  switch (way_of(op)) {
  case NONE: return false;
  case FIRST: return slot == 0;
  case ALL: return true;
  case RULE: break;
  }
  if (op == OP_Where) return slot > 0;
  if (op == OP_Pad) return slot == 0 || slot == 2;
  if (op == OP_CastLike) return slot == 0;
  return op != OP_ops_MultiThreshold;
}

static struct range input(struct sure_ranges *r, uint32_t node, uint32_t slot) {
  return sure_ranges_of(r, kit_in(r->k, node, slot));
}

static struct range clipped(struct sure_ranges *r, uint32_t node) {
  struct kit *k = r->k;
  struct range low = anything, high = anything;
  float x;
  const bool attrs = kit_opset(k, k->m->nodes[node].graph) < 11;
  if (attrs && kit_attr_float(k, node, "min", -INFINITY, &x))
    low = (struct range){(double)x, (double)x};
  if (attrs && kit_attr_float(k, node, "max", INFINITY, &x))
    high = (struct range){(double)x, (double)x};
  // An absent bound is no bound: max with less than anything, min with more than anything.
  if (!attrs && kit_in(k, node, 1) != NO_ID) low = input(r, node, 1);
  if (!attrs && kit_in(k, node, 2) != NO_ID) high = input(r, node, 2);
  const bool no_low = !attrs && kit_in(k, node, 1) == NO_ID,
             no_high = !attrs && kit_in(k, node, 2) == NO_ID;
  struct range x_range = input(r, node, 0);
  if (!no_low) x_range = most(x_range, low);
  return no_high ? x_range : least(x_range, high);
}

// From the sum of the steps down to that of the steps up; of all rows.
static struct range of_stairs(struct kit *k, uint32_t node) {
  const double *w;
  uint32_t n, t, w_rank;
  if (kit_n_in(k, node) != 3 || !kit_const_floats(k, kit_in(k, node, 2), &w, &n)) return anything;
  const int64_t steps = kit_dim(k, kit_in(k, node, 1), -1).value;
  if (!kit_rank(k, kit_in(k, node, 1), &t) || !kit_rank(k, kit_in(k, node, 2), &w_rank))
    return anything;
  const int64_t own = w_rank == 0 ? 1 : kit_dim(k, kit_in(k, node, 2), -1).value;
  if ((t > 0 && steps < 1) || own < 1) return anything;
  const double each = own == 1 && t > 0 ? (double)steps : 1;
  struct range all = {0, 0};
  for (uint32_t row = 0; row < n / (uint64_t)own; row++) {
    struct range one = {0, 0};
    for (int64_t j = 0; j < own; j++) {
      const double x = w[row * (uint64_t)own + (uint64_t)j] * each;
      if (!isfinite(x) || nearbyint(x) != x) return anything; // sums are rounded
      if (x < 0)
        one.lo += x;
      else
        one.hi += x;
    }
    all = join(all, one);
  }
  return fmax(-all.lo, all.hi) <= 0x1p24 ? all : anything;
}

static struct range cast(struct range x, enum dtype from, enum dtype to) {
  if (to == DTYPE_BOOL || !dtype_is_plain_number(to)) return sure_ranges_of_dtype(to);
  if (dtype_is_integer(to) && !dtype_is_integer(from)) x = (struct range){trunc(x.lo), trunc(x.hi)};
  return in_type(x, to);
}

static struct range dequantized(struct sure_ranges *r, uint32_t node, enum dtype dtype) {
  struct range codes = input(r, node, 0);
  if (kit_in(r->k, node, 2) != NO_ID) codes = sum(codes, negative(input(r, node, 2)));
  return in_type(product(codes, input(r, node, 1)), dtype);
}

static struct range folded(struct sure_ranges *r, uint32_t node,
                           struct range (*both)(struct range, struct range)) {
  struct range x = input(r, node, 0);
  for (uint32_t i = 1; i < kit_n_in(r->k, node); i++)
    x = both(x, input(r, node, i));
  return x;
}

static struct range range_of(struct sure_ranges *r, uint32_t node, enum op op, enum dtype dtype) {
  struct kit *k = r->k;
  const struct range x = input(r, node, 0), y = input(r, node, 1);
  switch (op) {
  case OP_Concat: return folded(r, node, join);
  case OP_Min: return folded(r, node, least);
  case OP_Max: return folded(r, node, most);
  case OP_Clip: return clipped(r, node);
  case OP_Relu: return most(x, (struct range){0, 0});
  case OP_Abs: return in_type(magnitude(x), dtype);
  case OP_Neg: return in_type(negative(x), dtype);
  case OP_Add: return in_type(sum(x, y), dtype);
  case OP_Sub: return in_type(sum(x, negative(y)), dtype);
  case OP_Mul: return in_type(product(x, y), dtype);
  case OP_Div: return dtype_is_plain_float(dtype) ? in_type(quotient(x, y), dtype) : anything;
  case OP_Sign:
    return (struct range){x.lo > 0 ? 1 : x.lo < 0 ? -1 : 0, x.hi < 0 ? -1 : x.hi > 0 ? 1 : 0};
  case OP_Round: return (struct range){nearbyint(x.lo), nearbyint(x.hi)};
  case OP_Floor: return (struct range){floor(x.lo), floor(x.hi)};
  case OP_Ceil: return (struct range){ceil(x.lo), ceil(x.hi)};
  case OP_Sigmoid:
  case OP_HardSigmoid:
  case OP_Softmax: return (struct range){0, 1};
  case OP_Tanh:
  case OP_Erf: return (struct range){-1, 1};
  case OP_Where: return join(y, input(r, node, 2));
  case OP_Pad: // by constants only, or 0: other modes repeat elements
    return join(x, kit_in(k, node, 2) == NO_ID ? (struct range){0, 0} : input(r, node, 2));
  case OP_Cast:
  case OP_CastLike: return cast(x, kit_dtype(k, kit_in(k, node, 0)), dtype);
  case OP_DequantizeLinear: return dequantized(r, node, dtype);
  case OP_ops_MultiThreshold: return of_stairs(k, node);
  default: return way_of(op) == FIRST ? x : anything;
  }
}

// ---- constants ---------------------------------------------------------------------------------

// Elements that need no read; where a stage can be asked, it is asked about the rest.
static bool elements(struct kit *k, uint32_t value, uint32_t tensor, struct span *raw) {
  const struct model_tensor *t = &k->m->tensors[tensor];
  enum dtype dtype;
  if (!k->env->ask) return kit_elements(k, value, &dtype, raw);
  if (model_small_value(k->m, tensor, raw)) return true;
  if (t->recipe == NO_ID || k->r->rows[t->recipe].kind != RECIPE_BYTES) return false;
  *raw = recipe_elements(k->r, t->recipe);
  return true;
}

// The range of elements at hand, false where they are not.
static bool at_hand(struct kit *k, uint32_t value, uint32_t tensor, struct range *out) {
  const enum dtype dtype = (enum dtype)k->m->tensors[tensor].dtype;
  struct kit_number x;
  struct span raw;
  if (kit_const_fill(k, value, &x) == KIT_YES && !isnan(x.d)) {
    *out = (struct range){x.d, x.d};
    return true;
  }
  if (!dtype_is_plain_number(dtype) || !elements(k, value, tensor, &raw)) return false;
  *out = (struct range){(double)INFINITY, -(double)INFINITY};
  for (uint64_t i = 0; i < raw.n / (dtype_bits(dtype) / 8); i++) {
    if (!kit_number_at(dtype, raw.at, i, &x) || isnan(x.d)) {
      *out = anything;
      return true;
    }
    *out = join(*out, (struct range){x.d, x.d});
  }
  if (out->lo > out->hi) *out = sure_ranges_of_dtype(dtype); // there are none
  return true;
}

static int ask(struct sure_ranges *r, struct err *err) {
  struct kit *k = r->k;
  const uint32_t n = r->n_constants;
  if (n == 0 || !k->env->ask) return 0;
  uint32_t *of = arena_alloc(k->env->scratch, n * sizeof *of);
  struct tensor_stats *found = arena_zalloc(k->env->scratch, n * sizeof *found);
  for (uint32_t i = 0; i < n; i++)
    of[i] = kit_recipe(k, r->constants[i]);
  if (findings_ask(k->env, of, n, false, found, err)) return -1;
  for (uint32_t i = 0; i < n; i++)
    if (found[i].nans == 0 && found[i].least <= found[i].most)
      r->of[r->constants[i]] = (struct range){found[i].least, found[i].most};
  return 0;
}

static void constant(struct sure_ranges *r, uint32_t value) {
  struct kit *k = r->k;
  uint32_t tensor;
  if (!r->wanted[value] || !kit_constant(k, value, &tensor)) return;
  const enum dtype dtype = (enum dtype)k->m->tensors[tensor].dtype;
  r->of[value] = sure_ranges_of_dtype(dtype);
  if (at_hand(k, value, tensor, &r->of[value]) || !dtype_is_plain_number(dtype)) return;
  if (kit_recipe(k, value) != NO_ID) *TABLE_PUSH(r, constants) = value;
}

// ---- what was said -----------------------------------------------------------------------------

static bool number(const char **at, double *out) {
  char *end;
  while (**at == ' ')
    ++*at;
  if (strncmp(*at, "null", 4) == 0) {
    *at += 4;
    return true;
  }
  *out = strtod(*at, &end);
  const bool read = end > *at && !isnan(*out);
  *at = end;
  while (**at == ' ')
    ++*at;
  return read;
}

// [lo, hi]: each a number, null for no bound, or a list of such, as onnx-passes has them of elements; then the least and
// the largest. What is no such pair says nothing.
static bool parse(const char *text, struct range *out) {
  uint32_t depth = 0, side = 0, numbers[2] = {0};
  *out = (struct range){(double)INFINITY, -(double)INFINITY};
  do {
    text += strspn(text, " ");
    double x = side == 0 ? anything.lo : anything.hi;
    if (*text == '[') {
      depth++, text++;
    } else if (*text == ']' && depth > 0) {
      depth--, text++;
    } else if (*text == ',' && depth > 0) {
      if (depth == 1 && ++side > 1) return false;
      text++;
    } else if (depth > 0 && number(&text, &x)) {
      numbers[side]++;
      if (side == 0)
        out->lo = fmin(out->lo, x);
      else
        out->hi = fmax(out->hi, x);
    } else {
      return false;
    }
  } while (depth > 0);
  return text[strspn(text, " ")] == '\0' && numbers[0] > 0 && numbers[1] > 0 && out->lo <= out->hi;
}

static void believe_of(struct sure_ranges *r, uint32_t value, uint32_t text) {
  struct range said;
  if (value == NO_ID || !parse(model_name_str(r->k->m, text), &said)) return;
  r->of[value] = (struct range){fmax(r->of[value].lo, said.lo), fmin(r->of[value].hi, said.hi)};
}

// The metadata of values, and entries of the model's about values of the main graph.
static void believe(struct sure_ranges *r) {
  const struct model *m = r->k->m;
  for (uint32_t i = 0; i < m->n_infos; i++)
    if (m->infos[i].range != m->empty && !(m->infos[i].flags & INFO_DEAD))
      believe_of(r, m->infos[i].value, m->infos[i].range);
  for (uint32_t i = 0; i < m->n_metadata && m->main_graph != NO_ID; i++) {
    const char *key = model_name_str(m, m->metadata[i].key);
    if (strncmp(key, SURE_RANGES_KEY, sizeof SURE_RANGES_KEY - 1) != 0) continue;
    const uint32_t name = model_find_name(m, span_str(key + sizeof SURE_RANGES_KEY - 1));
    if (name != NO_ID) believe_of(r, model_value_in(m, m->main_graph, name), m->metadata[i].value);
  }
}

// ---- the walks ---------------------------------------------------------------------------------

static void want_inputs(struct sure_ranges *r, uint32_t node, bool all) {
  struct kit *k = r->k;
  const enum op op = kit_op(k, node);
  const uint32_t n_in = k->m->nodes[node].n_in;
  bool want = all;
  for (uint32_t i = 0; i < k->m->nodes[node].n_out; i++) {
    const uint32_t out = kit_out(k, node, i);
    want = want || (out != NO_ID && r->wanted[out]);
  }
  for (uint32_t i = 0; want && i < n_in; i++) {
    const uint32_t in = kit_in(k, node, i);
    if (in != NO_ID && (all || depends(op, i))) r->wanted[in] = 1;
  }
}

static void visit(struct sure_ranges *r, uint32_t node) {
  struct kit *k = r->k;
  const enum op op = kit_op(k, node);
  arena_reset(&k->site);
  for (uint32_t i = 0; i < k->m->nodes[node].n_out; i++) {
    const uint32_t out = kit_out(k, node, i);
    uint32_t tensor;
    if (out == NO_ID || !r->wanted[out] || kit_constant(k, out, &tensor)) continue;
    const enum dtype dtype = kit_dtype(k, out);
    const struct range own = r->of[out], all = sure_ranges_of_dtype(dtype),
                       made = i == 0 || op == OP_Split ? range_of(r, node, op, dtype) : anything;
    r->of[out] =
        (struct range){fmax(fmax(all.lo, made.lo), own.lo), fmin(fmin(all.hi, made.hi), own.hi)};
    if (!(r->of[out].lo <= r->of[out].hi)) r->of[out] = all; // what was said cannot be
  }
}

int sure_ranges_find(struct sure_ranges *r, struct kit *k,
                     bool (*wants)(struct kit *k, uint32_t node), struct err *err) {
  const struct model *m = k->m;
  *r = (struct sure_ranges){.k = k};
  TABLE_ADD(r, of, m->n_values);
  TABLE_ADD(r, wanted, m->n_values);
  if (!wants && m->n_values > 0) memset(r->wanted, 1, m->n_values);
  for (uint32_t v = 0; v < m->n_values; v++)
    r->of[v] = anything;
  for (uint32_t g = m->n_graphs; g-- > 0;)
    for (uint32_t n = m->graphs[g].last_node; n != NO_ID; n = m->nodes[n].prev)
      want_inputs(r, n, wants && wants(k, n));
  for (uint32_t v = 0; v < m->n_values; v++) {
    if (m->values[v].flags & VALUE_DEAD) continue;
    arena_reset(&k->site);
    if (m->values[v].kind == VALUE_INPUT) r->of[v] = sure_ranges_of_dtype(kit_dtype(k, v));
    constant(r, v);
  }
  if (ask(r, err)) return -1;
  believe(r);
  for (uint32_t g = 0; g < m->n_graphs; g++)
    for (uint32_t n = m->graphs[g].first_node; n != NO_ID; n = m->nodes[n].next)
      visit(r, n);
  return 0;
}

void sure_ranges_done(struct sure_ranges *r) {
  TABLES_FREE(r, of, wanted, constants);
}
