// Between what numbers the elements of a value lie because of how they are made: a site's input that is a softmax in
// the model lies between 0 and 1 there too, and a Sqrt behind a mean of squares never sees a negative number.
//
// The makers of the value are collected, nearest first, up to a number of them; then ranges are worked out from the
// farthest on, a few times, since the order is not quite that of the graph. What is not known lies anywhere, and so
// does what is farther away: each answer holds, and is perhaps wider than it need be.
//
// A mask that is added (0 and -inf, or a large negative number) is told by its range: it gets these two and nothing
// between them.
#include "verify/draw/inside/draw_parts.h"

#include <float.h>
#include <math.h>

enum { MAKERS = 48, SWEEPS = 3, ELEMENTS = 256 };

struct between {
  float low, high;
};

static const struct between anywhere = {-INFINITY, INFINITY};

struct makers {
  struct draw *d;
  uint32_t value[MAKERS];
  struct between range[MAKERS];
  uint32_t n;
};

// ---- arithmetic ---------------------------------------------------------------------------------------------

static float or_else(float x, float fallback) {
  return isnan(x) ? fallback : x;
}

static struct between joined(struct between a, struct between b) {
  return (struct between){fminf(a.low, b.low), fmaxf(a.high, b.high)};
}

static struct between sum(struct between a, struct between b) {
  return (struct between){or_else(a.low + b.low, -INFINITY), or_else(a.high + b.high, INFINITY)};
}

static struct between negative(struct between a) {
  return (struct between){-a.high, -a.low};
}

// Of 0 times infinity the end is 0: the operand itself is finite.
static float times(float a, float b) {
  return a == 0 || b == 0 ? 0 : a * b;
}

static struct between product(struct between a, struct between b) {
  const float w = times(a.low, b.low), x = times(a.low, b.high), y = times(a.high, b.low),
              z = times(a.high, b.high);
  return (struct between){fminf(fminf(w, x), fminf(y, z)), fmaxf(fmaxf(w, x), fmaxf(y, z))};
}

static struct between inverse(struct between a) {
  if (a.low <= 0 && a.high >= 0 && !(a.low == 0 || a.high == 0)) return anywhere;
  if (a.high == 0) return (struct between){-INFINITY, 1 / a.low};
  return (struct between){1 / a.high, a.low == 0 ? INFINITY : 1 / a.low};
}

static struct between size_of(struct between a) {
  const float most = fmaxf(fabsf(a.low), fabsf(a.high));
  return (struct between){a.low <= 0 && a.high >= 0 ? 0 : fminf(fabsf(a.low), fabsf(a.high)), most};
}

// ---- values ---------------------------------------------------------------------------------------------------

static bool of_constant(struct draw *d, uint32_t value, struct between *out) {
  double x[ELEMENTS];
  uint32_t n;
  if (!draw_known(d, value, x, ELEMENTS, &n) || n == 0) return false;
  *out = (struct between){INFINITY, -INFINITY};
  for (uint32_t i = 0; i < n; i++) {
    if (isnan(x[i])) return false;
    const float at = x[i] > FLT_MAX ? FLT_MAX : x[i] < -FLT_MAX ? -FLT_MAX : (float)x[i];
    *out = joined(*out, (struct between){at, at});
  }
  return true;
}

static struct between of_value(struct makers *k, uint32_t value) {
  struct between r;
  struct infer_type t;
  if (value == NO_ID) return anywhere;
  for (uint32_t i = 0; i < k->n; i++)
    if (k->value[i] == value) return k->range[i];
  if (of_constant(k->d, value, &r)) return r;
  if (infer_type_of(k->d->sized, value, &t) && t.dtype == DTYPE_BOOL) return (struct between){0, 1};
  return anywhere;
}

static struct between of_slot(struct makers *k, uint32_t node, uint32_t slot) {
  return of_value(k, model_input(k->d->m, &k->d->m->nodes[node], slot));
}

static struct between of_all(struct makers *k, uint32_t node) {
  struct between r = of_slot(k, node, 0);
  for (uint32_t i = 1; i < k->d->m->nodes[node].n_in; i++)
    r = joined(r, of_slot(k, node, i));
  return r;
}

// ---- nodes ------------------------------------------------------------------------------------------------------

enum shape_of_range { AS_INPUT, AS_ALL, AS_CHOICE, NOT_NEGATIVE, UNIT, ONE, WITH_ZERO, ADDED_UP };

static const struct {
  const char *op;
  uint8_t how;
} makers_of[] = {
    {"Abs", NOT_NEGATIVE},
    {"AveragePool", WITH_ZERO},
    {"Cast", AS_INPUT},
    {"Concat", AS_ALL},
    {"Cos", ONE},
    {"DepthToSpace", AS_INPUT},
    {"Dropout", AS_INPUT},
    {"Erf", ONE},
    {"Exp", NOT_NEGATIVE},
    {"Expand", AS_INPUT},
    {"Flatten", AS_INPUT},
    {"Gather", AS_INPUT},
    {"GatherElements", AS_INPUT},
    {"GatherND", AS_INPUT},
    {"GlobalAveragePool", AS_INPUT},
    {"GlobalMaxPool", AS_INPUT},
    {"HardSigmoid", UNIT},
    {"Identity", AS_INPUT},
    {"LpPool", NOT_NEGATIVE},
    {"MaxPool", WITH_ZERO},
    {"Pad", WITH_ZERO},
    {"ReduceL1", NOT_NEGATIVE},
    {"ReduceL2", NOT_NEGATIVE},
    {"ReduceMax", AS_INPUT},
    {"ReduceMean", AS_INPUT},
    {"ReduceMin", AS_INPUT},
    {"ReduceSum", ADDED_UP},
    {"ReduceSumSquare", NOT_NEGATIVE},
    {"Reshape", AS_INPUT},
    {"Sigmoid", UNIT},
    {"Sign", ONE},
    {"Sin", ONE},
    {"Slice", AS_INPUT},
    {"Softmax", UNIT},
    {"Softplus", NOT_NEGATIVE},
    {"SpaceToDepth", AS_INPUT},
    {"Split", AS_INPUT},
    {"Sqrt", NOT_NEGATIVE},
    {"Squeeze", AS_INPUT},
    {"Tanh", ONE},
    {"Tile", AS_INPUT},
    {"Transpose", AS_INPUT},
    {"Trilu", WITH_ZERO},
    {"Unsqueeze", AS_INPUT},
    {"Where", AS_CHOICE},
};

static bool is(const struct makers *k, uint32_t node, const char *op) {
  return model_op_is(k->d->m, node, op);
}

static struct between in_turn(struct makers *k, uint32_t node, uint32_t how) {
  const struct between x = of_slot(k, node, 0), zero = {0, 0};
  switch ((enum shape_of_range)how) {
  case AS_INPUT: return x;
  case AS_ALL: return of_all(k, node);
  case AS_CHOICE: return joined(of_slot(k, node, 1), of_slot(k, node, 2));
  case NOT_NEGATIVE: return (struct between){0, INFINITY};
  case UNIT: return (struct between){0, 1};
  case ONE: return (struct between){-1, 1};
  case WITH_ZERO: return joined(x, zero);
  case ADDED_UP: return (struct between){x.low >= 0 ? 0 : -INFINITY, x.high <= 0 ? 0 : INFINITY};
  }
  return anywhere;
}

static float attr_float(struct makers *k, uint32_t node, const char *name, float fallback) {
  const struct model_attr *a = model_attr_named(k->d->m, node, name);
  return a && a->type == ATTR_FLOAT ? a->u.f : fallback;
}

static struct between clipped(struct makers *k, uint32_t node) {
  const struct model_node *n = &k->d->m->nodes[node];
  struct between x = of_slot(k, node, 0), low = anywhere, high = anywhere;
  if (n->n_in > 1 && model_input(k->d->m, n, 1) != NO_ID) low = of_slot(k, node, 1);
  if (n->n_in > 2 && model_input(k->d->m, n, 2) != NO_ID) high = of_slot(k, node, 2);
  x.low = fmaxf(x.low, fmaxf(low.low, attr_float(k, node, "min", -INFINITY)));
  x.high = fminf(x.high, fminf(high.high, attr_float(k, node, "max", INFINITY)));
  return x.low <= x.high ? x : anywhere;
}

static struct between raised(struct makers *k, uint32_t node) {
  const struct between x = of_slot(k, node, 0), e = of_slot(k, node, 1);
  const bool even = e.low == e.high && fmodf(e.low, 2) == 0;
  return x.low >= 0 || even ? (struct between){0, INFINITY} : anywhere;
}

static struct between multiplied(struct makers *k, uint32_t node) {
  const struct model_node *n = &k->d->m->nodes[node];
  const struct between r = product(of_slot(k, node, 0), of_slot(k, node, 1));
  return model_input(k->d->m, n, 0) == model_input(k->d->m, n, 1) ? size_of(r) : r;
}

static struct between most_or_least(struct makers *k, uint32_t node, bool most) {
  struct between r = of_slot(k, node, 0);
  for (uint32_t i = 1; i < k->d->m->nodes[node].n_in; i++) {
    const struct between x = of_slot(k, node, i);
    r = most ? (struct between){fmaxf(r.low, x.low), fmaxf(r.high, x.high)}
             : (struct between){fminf(r.low, x.low), fminf(r.high, x.high)};
  }
  return r;
}

static struct between place_of(struct makers *k, uint32_t node) {
  int64_t axis, dims[ARRAY_MAX_RANK];
  uint32_t rank;
  const struct model_node *n = &k->d->m->nodes[node];
  if (!model_attr_int(k->d->m, node, "axis", 0, &axis) ||
      !draw_dims(k->d, model_input(k->d->m, n, 0), dims, &rank))
    return anywhere;
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank && dims[axis] > 0 ? (struct between){0, (float)(dims[axis] - 1)}
                                                    : anywhere;
}

static struct between made_by(struct makers *k, uint32_t node) {
  const struct between x = of_slot(k, node, 0);
  if (is(k, node, "Relu")) return (struct between){fmaxf(x.low, 0), fmaxf(x.high, 0)};
  if (is(k, node, "Add")) return sum(x, of_slot(k, node, 1));
  if (is(k, node, "Sub")) return sum(x, negative(of_slot(k, node, 1)));
  if (is(k, node, "Neg")) return negative(x);
  if (is(k, node, "Mul")) return multiplied(k, node);
  if (is(k, node, "Div")) return product(x, inverse(of_slot(k, node, 1)));
  if (is(k, node, "Reciprocal")) return inverse(x);
  if (is(k, node, "Pow")) return raised(k, node);
  if (is(k, node, "Clip")) return clipped(k, node);
  if (is(k, node, "Max")) return most_or_least(k, node, true);
  if (is(k, node, "Min")) return most_or_least(k, node, false);
  if (is(k, node, "ArgMax") || is(k, node, "ArgMin")) return place_of(k, node);
  const struct span op = model_name(k->d->m, k->d->m->nodes[node].op_type);
  for (uint32_t i = 0; i < sizeof makers_of / sizeof *makers_of; i++)
    if (span_is(op, makers_of[i].op)) return in_turn(k, node, makers_of[i].how);
  return anywhere;
}

// ---- all of it -------------------------------------------------------------------------------------------------

static void collect(struct makers *k, uint32_t value) {
  const struct model *m = k->d->m;
  k->value[k->n++] = value;
  for (uint32_t i = 0; i < k->n; i++) {
    k->range[i] = anywhere;
    const struct model_value *v = &m->values[k->value[i]];
    if (v->kind != VALUE_NODE_OUTPUT || model_calls_callee(&k->d->calls, v->def) != NO_ID) continue;
    const struct model_node *n = &m->nodes[v->def];
    for (uint32_t s = 0; s < n->n_in; s++) {
      const uint32_t x = model_input(m, n, s);
      struct model_constant c;
      uint32_t at = 0;
      if (x == NO_ID || m->values[x].kind != VALUE_NODE_OUTPUT || model_resolve_constant(m, x, &c))
        continue;
      while (at < k->n && k->value[at] != x)
        at++;
      if (at == k->n && k->n < MAKERS) k->value[k->n++] = x;
    }
  }
}

void draw_range_of(struct draw *d, uint32_t value, struct draw_range *out) {
  struct makers k = {.d = d};
  collect(&k, value);
  for (uint32_t sweep = 0; sweep < SWEEPS; sweep++)
    for (uint32_t i = k.n; i-- > 0;) {
      const struct model_value *v = &d->m->values[k.value[i]];
      // Ranges are of the first output; a Split has equal ones.
      if (v->kind == VALUE_NODE_OUTPUT && model_calls_callee(&d->calls, v->def) == NO_ID &&
          (model_output(d->m, &d->m->nodes[v->def], 0) == k.value[i] || is(&k, v->def, "Split")))
        k.range[i] = made_by(&k, v->def);
    }
  const struct between r = k.range[0];
  *out = (struct draw_range){
      .low = r.low, .high = r.high, .known = r.low > -INFINITY || r.high < INFINITY};
  if (!(r.low <= r.high)) *out = (struct draw_range){.low = -INFINITY, .high = INFINITY};
  if (out->known && r.high >= 0 && r.high < 1 && r.low <= -1000 && r.low > -INFINITY) {
    out->n_either = 2;
    out->either[0] = r.high;
    out->either[1] = r.low;
  }
}
