// Values that stay float, whatever would quantize them, and the nodes that make them: asked once, before anything is marked, in both forms.
//
//   x ─▶ AveragePool(dilations) ─▶ y        y: ONNX Runtime makes QLinearAveragePool of what stands between DequantizeLinear and
//                                           QuantizeLinear, which has no dilations. So nothing is quantized after it
//   x ─▶ ReduceMax, opset 11 ─▶ y           y: it takes both away where they have one scale, and the operator has no codes yet
//   scores ─▶ Add(-1e9, where masked) ─▶ s ─▶ Softmax       s: a range that holds such a number leaves no codes for the others
//
// A range that ends below -8192 or beyond 1e9, with less than a 32nd of that on the other side of 0, or beyond 1e30 is taken for one whose
// end means "nothing here": the lowest float, -1e9, -1e4 of masks and frames. Its 256 codes are 32 apart at least, so that scores near 0
// share one; in the first two cases numbers on the other side of 0 have eight of them or fewer. (A value that has such numbers for another
// reason stays float too: nothing tells them apart.) Of sums before a Softmax, and what they are of, it is so from -256 on, as the Softmax takes
// it: times the numbers that multiply it on the way, and above 0 where it is subtracted. There a mask of -1000 is as good as any, and codes that
// are 1 apart leave nothing of probabilities. A range that an override gives is believed, and compat takes all of them for ranges,
// as the existing tool does.
//
// Why a value stays float is reported at the node that makes it and at those that take it, if they are asked for.
//
// ONNX Runtime moves a QuantizeLinear before what only passes its input on, drops a Relu before it, and takes a Dropout, a product with 1
// and the like away (static_vanishes): what stands after a value that must not be quantized for the first reason stays float too, up to a
// node that computes. Behind a mask so do sums, and what multiplies it by a number, whether samples had anything to mask or not.
#include "passes/int8_static/inside/static.h"

#include <math.h>

static const char lacks[] = "fused_operator", factors[] = "attributes", unseen[] = "no_range",
                  masked[] = "mask_values";

// ---- what ONNX Runtime fuses -------------------------------------------------------------------

// Operators that it makes of those between DequantizeLinear and QuantizeLinear, and which lack something.
static const struct {
  enum op op, fused;
} fused[] = {
    {OP_Add, OP_ms_QLinearAdd},
    {OP_AveragePool, OP_ms_QLinearAveragePool},
    {OP_Concat, OP_ms_QLinearConcat},
    {OP_Conv, OP_QLinearConv},
    {OP_GlobalAveragePool, OP_ms_QLinearGlobalAveragePool},
    {OP_LeakyRelu, OP_ms_QLinearLeakyRelu},
    {OP_MatMul, OP_QLinearMatMul},
    {OP_Mul, OP_ms_QLinearMul},
    {OP_Sigmoid, OP_ms_QLinearSigmoid},
    {OP_Softmax, OP_ms_QLinearSoftmax},
    {OP_Where, OP_ms_QLinearWhere},
};

// QLinearConcat is made of float16 too, whose scales it does not take.
static bool is_half_concat(struct static_run *s, uint32_t node) {
  return kit_op(&s->k, node) == OP_Concat && s->o->format != STATIC_QOPERATOR &&
         static_dtype(s, kit_out(&s->k, node, 0)) == DTYPE_FLOAT16;
}

// QLinearSoftmax gives 0 for 1 where it sums up one element. (compat: right as it stands, before it is fused.)
static bool is_lone_softmax(struct static_run *s, uint32_t node) {
  return kit_op(&s->k, node) == OP_Softmax && !s->o->compat && kit_softmax_terms(&s->k, node) == 1;
}

// It copies what dilations say, even if that is nothing.
static void drop_idle(struct static_run *s, uint32_t node) {
  struct kit_attr a;
  if (kit_op(&s->k, node) != OP_AveragePool || kit_attr(&s->k, node, "dilations", &a) != KIT_GIVEN)
    return;
  kit_site(&s->k, node, "idle_attribute");
  edit_set_attr(s->k.e, node, &(struct edit_attr){.name = "dilations", .type = ATTR_UNDEFINED});
}

// Operators that it lets take codes in place of floats where these have one scale before and behind, and the opset from which they do.
static const struct {
  enum op op;
  int64_t since;
} dropped[] = {{OP_DepthToSpace, 11}, {OP_ReduceMax, 12}, {OP_ReduceMin, 12}};

static bool have_one_scale(struct static_run *s, uint32_t a, uint32_t b) {
  struct static_params p, q;
  return static_params_of(s, a, &p) && static_params_of(s, b, &q) && p.own.scale == q.own.scale &&
         p.own.zero == q.own.zero;
}

// (compat: two scales are right as they are.)
static bool takes_no_codes(struct static_run *s, uint32_t node) {
  const enum op op = kit_op(&s->k, node);
  for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
    if (dropped[i].op == op && s->opset < dropped[i].since)
      return !s->o->compat || have_one_scale(s, kit_in(&s->k, node, 0), kit_out(&s->k, node, 0));
  return false;
}

// QLinearMatMul and QGemm write nothing where there is nothing to sum up: the floats are zeros, or the bias.
static bool is_empty_product(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  uint32_t rank = 0;
  if (kit_op(k, node) != OP_MatMul && kit_op(k, node) != OP_Gemm) return false;
  for (uint32_t i = 0; i < 2 && !static_override_of(s, kit_in(k, node, i)); i++)
    for (uint32_t d = 0; kit_rank(k, kit_in(k, node, i), &rank) && d < rank; d++)
      if (kit_dim(k, kit_in(k, node, i), d).value == 0) return true;
  return false;
}

// ---- scales that are too far apart ---------------------------------------------------------------

static void widen(struct static_scales *to, double least, double most) {
  to->least = fmin(to->least, least);
  to->most = fmax(to->most, most);
}

static struct static_scales own_scales(struct static_run *s, uint32_t value) {
  struct static_scales own = {.seen = true, .least = INFINITY};
  struct static_params p;
  if (!static_params_of(s, value, &p)) return own;
  widen(&own, p.own.scale, p.own.scale);
  if (p.with) widen(&own, p.converted.scale, p.converted.scale);
  return own;
}

// The value that this one shares its scale with, if both are quantized; NO_ID: none.
static uint32_t shares_with(struct static_run *s, uint32_t value) {
  const uint32_t maker = kit_maker(&s->k, value);
  if (maker == NO_ID || s->k.m->nodes[maker].graph != s->graph) return NO_ID;
  return static_shares(s, maker) ? kit_in(&s->k, maker, 0) : static_vanishes(s, maker);
}

static struct static_scales scales_of(struct static_run *s, uint32_t value) {
  struct {
    TABLE(uint32_t, values);
  } path = {0};
  if (s->n_scales == 0) TABLE_ADD(s, scales, s->k.m->n_values);
  for (; value != NO_ID && !s->scales[value].seen; value = shares_with(s, value)) {
    s->scales[value] = own_scales(s, value);
    *TABLE_PUSH(&path, values) = value;
  }
  struct static_scales found =
      value == NO_ID ? (struct static_scales){.least = INFINITY} : s->scales[value];
  while (path.n_values > 0) {
    struct static_scales *at = &s->scales[path.values[--path.n_values]];
    widen(at, found.least, found.most);
    found = *at;
  }
  TABLE_FREE(&path, values);
  return found;
}

// The scale of a constant without a range, as far as its elements are at hand: with symmetry or without.
static struct static_scales constant_scales(struct static_run *s, uint32_t value) {
  struct static_scales found = {.least = INFINITY};
  const double steps = ldexp(1, (int)dtype_bits(s->o->activation)) - 2, *list;
  double low = 0, high = 0;
  uint32_t n;
  if (value == NO_ID || !kit_const_floats(&s->k, value, &list, &n)) return found;
  for (uint32_t i = 0; i < n; i++) {
    low = fmin(low, list[i]);
    high = fmax(high, list[i]);
  }
  widen(&found, (high - low) / (steps + 2), 2 * fmax(-low, high) / steps);
  return found;
}

// The scales that the node's inputs may have together, as kit_takes_scales wants them: the largest of all, of a Mul their product. A constant of
// which nothing is known is left out, but of a Mul, if `whole`.
static struct static_scales input_scales(struct static_run *s, uint32_t node, bool whole) {
  const bool multiplies = kit_op(&s->k, node) == OP_Mul;
  struct static_scales all = {.least = INFINITY};
  if (kit_op(&s->k, node) == OP_Sigmoid) return (struct static_scales){.least = 1, .most = 1};
  for (uint32_t i = 0; i < kit_n_in(&s->k, node); i++) {
    const uint32_t in = kit_in(&s->k, node, i);
    struct static_scales x = scales_of(s, in);
    if (x.most == 0 && multiplies && whole) {
      x = constant_scales(s, in);
      if (x.most == 0) return x;
    }
    if (x.most == 0) continue;
    const bool is_product = multiplies && all.most > 0;
    all.most = is_product ? all.most * x.most : fmax(all.most, x.most);
    all.least = is_product ? all.least * x.least : fmin(all.least, x.least);
  }
  return all;
}

static bool are_apart(struct static_run *s, uint32_t node, enum op on_codes, bool whole) {
  struct static_params y;
  const struct static_scales x = input_scales(s, node, whole);
  if (x.most == 0 || !static_params_of(s, kit_out(&s->k, node, 0), &y)) return false;
  return !kit_takes_scales(&s->k, node, on_codes, x.most, y.own.scale) ||
         !kit_takes_scales(&s->k, node, on_codes, x.least, y.own.scale);
}

// (compat: what runs stays, right or wrong.) Elements of constants are read where the others are apart without them.
static bool is_far_apart(struct static_run *s, uint32_t node, enum op on_codes) {
  if (s->o->compat && on_codes != OP_ms_QLinearGlobalAveragePool) return false;
  return are_apart(s, node, on_codes, false) && are_apart(s, node, on_codes, true);
}

static bool lacks_something(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const enum op op = kit_op(k, node);
  if (takes_no_codes(s, node) || is_empty_product(s, node)) return true;
  for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) {
    if (fused[i].op != op) continue;
    if (is_half_concat(s, node) || is_lone_softmax(s, node)) return true;
    if (!kit_attrs_fit(k, node, fused[i].fused)) return kit_attrs_copyable(k, node);
    drop_idle(s, node);
    return is_far_apart(s, node, fused[i].fused);
  }
  return false;
}

// Are there codes of 8 bits, for which it fuses these?
static bool has_8_bits(const struct static_run *s) {
  bool has = dtype_bits(s->o->activation) == 8;
  for (uint32_t i = 0; i < s->n_overrides; i++)
    has = has || (s->overrides[i].of->has_type && dtype_bits(s->overrides[i].of->type) == 8);
  return has;
}

// Has what it gives elements of its first input, and no others?
static bool only_moves(enum op op) {
  switch (op) {
  case OP_Identity:
  case OP_Transpose:
  case OP_Reshape:
  case OP_Flatten:
  case OP_Squeeze:
  case OP_Unsqueeze:
  case OP_Slice:
  case OP_Gather:
  case OP_Expand: return true;
  default: return false;
  }
}

// ---- numbers that mean nothing -----------------------------------------------------------------

static bool means_nothing(double least, double most) {
  const double low = -fmin(least, 0), high = fmax(most, 0);
  return (low >= 8192 && high < low / 32) || (high >= 1e9 && low < high / 32) ||
         fmax(low, high) >= 1e30;
}

// ---- sums that a Softmax takes -------------------------------------------------------------------

// Of numbers that mean nothing in these, as the Softmax takes them.
static const double summed_most = 256;

// The number by which a Mul or Div multiplies what it takes there, unless that is a mask itself; 0: it is not known.
static double multiplied_by(struct static_run *s, uint32_t node, uint32_t slot) {
  const bool divides = kit_op(&s->k, node) == OP_Div;
  const uint32_t other = slot <= !divides ? kit_in(&s->k, node, 1 - slot) : NO_ID;
  double by;
  if (other == NO_ID || !kit_const_scalar(&s->k, other, &by) || by == 0) return 0;
  if (divides) by = 1 / by;
  return fabs(by) < summed_most ? by : 0;
}

// By what number does the node multiply what it takes there, if it does nothing else to it but adding, choosing and moving? 0: it does.
static double passed_by(struct static_run *s, uint32_t node, uint32_t slot) {
  const enum op op = kit_op(&s->k, node);
  switch (op) {
  case OP_Add:
  case OP_Concat:
  case OP_Max:
  case OP_Min: return 1;
  case OP_Sub: return slot == 0 ? 1 : -1;
  case OP_Where: return slot > 0;
  case OP_Cast:
  case OP_Clip: return slot == 0;
  case OP_Neg: return -1;
  case OP_Mul:
  case OP_Div: return multiplied_by(s, node, slot);
  default:
    return (slot == 0 && only_moves(op)) || static_vanishes(s, node) == kit_in(&s->k, node, slot);
  }
}

static bool makes_sum(enum op op) {
  return op == OP_Add || op == OP_Sub || op == OP_Where;
}

static void count(struct static_run *s, uint32_t value, double above, double below, bool summed) {
  if (value == NO_ID) return;
  struct static_counted *c = &s->counted[value];
  c->above = fmax(c->above, above);
  c->below = fmax(c->below, below);
  c->summed = c->summed || summed;
}

// What the node passes on counts as what it makes does.
static void count_inputs(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const enum op op = kit_op(k, node);
  if (op == OP_Softmax || op == OP_LogSoftmax) count(s, kit_in(k, node, 0), 1, 0, false);
  const uint32_t out = kit_out(k, node, 0);
  if (out == NO_ID || (s->counted[out].above == 0 && s->counted[out].below == 0)) return;
  s->counted[out].summed = s->counted[out].summed || makes_sum(op);
  const struct static_counted c = s->counted[out];
  for (uint32_t i = 0; i < kit_n_in(k, node); i++) {
    const double by = passed_by(s, node, i), above = c.above * fabs(by), below = c.below * fabs(by);
    if (by != 0)
      count(s, kit_in(k, node, i), by > 0 ? above : below, by > 0 ? below : above, c.summed);
  }
}

// Products have scores, however large, and so has what only moves or multiplies them.
static void note_product(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t out = kit_out(k, node, 0);
  const enum op op = kit_op(k, node);
  if (out == NO_ID) return;
  bool is_product = op == OP_Conv || op == OP_ConvTranspose || op == OP_Gemm || op == OP_MatMul;
  for (uint32_t i = 0; !is_product && !makes_sum(op) && i < kit_n_in(k, node); i++) {
    const uint32_t in = kit_in(k, node, i);
    is_product = in != NO_ID && s->counted[in].product && passed_by(s, node, i) != 0;
  }
  s->counted[out].product = is_product;
}

static void count_all(struct static_run *s) {
  struct kit *k = &s->k;
  uint32_t *nodes;
  TABLE_ADD(s, counted, k->m->n_values);
  const uint32_t n = kit_running(k, s->graph, &s->arena, &nodes);
  for (uint32_t i = n; i > 0; i--)
    count_inputs(s, nodes[i - 1]);
  for (uint32_t i = 0; i < n; i++)
    note_product(s, nodes[i]);
}

// Does a number of that size, on that side of 0, hide what is added to the value?
static bool hides(struct static_run *s, uint32_t value, double number) {
  if (value >= s->n_counted || !s->counted[value].summed || s->counted[value].product) return false;
  const struct static_counted *c = &s->counted[value];
  return number * c->above <= -summed_most || number * c->below >= summed_most;
}

// ---- ranges and numbers ----------------------------------------------------------------------------

// A range of another type than the value's is no mask, but a mistake, which is reported where it is used.
static bool fits(struct static_run *s, uint32_t value) {
  const enum dtype type = static_dtype(s, value);
  return isfinite(int8_rounded(type, s->range[value].least)) &&
         isfinite(int8_rounded(type, s->range[value].most));
}

static bool is_masked(struct static_run *s, uint32_t value) {
  const struct static_overrides *o = static_override_of(s, value);
  if (value == NO_ID || value >= s->n_range || s->range[value].type == DTYPE_UNDEFINED ||
      (o && (o->of->has_scale || o->of->has_range)))
    return false;
  const double least = s->range[value].least, most = s->range[value].most;
  const bool is_below = most < -least / 8 && hides(s, value, least),
             is_above = -least < most / 8 && hides(s, value, most);
  return (is_below || is_above || means_nothing(least, most)) && fits(s, value);
}

// One number, of a constant of few elements, of that kind, or one that hides what is added to `out`?
static bool is_such_number(struct static_run *s, uint32_t value, uint32_t out) {
  const struct model *m = s->k.m;
  uint32_t tensor;
  struct span raw;
  double x;
  return value != NO_ID && kit_constant(&s->k, value, &tensor) &&
         model_small_value(m, tensor, &raw) && kit_const_scalar(&s->k, value, &x) &&
         (hides(s, out, x) || means_nothing(x, x));
}

// Below which number what a Pad puts before a MaxPool, or a Concat, is none of the elements of that input.
static double frame_least(struct static_run *s, uint32_t node, uint32_t slot) {
  const uint32_t in = kit_in(&s->k, node, slot), out = kit_out(&s->k, node, 0);
  bool is_pooled = false;
  if (out == NO_ID || in >= s->n_range || s->range[in].type == DTYPE_UNDEFINED) return -INFINITY;
  for (struct kit_use u = kit_uses(&s->k, out); kit_use(&s->k, &u);)
    is_pooled = is_pooled || (kit_op(&s->k, u.node) == OP_MaxPool && u.slot == 0);
  const double most = fmax(-s->range[in].least, s->range[in].most);
  return is_pooled ? fmin(-summed_most, -32 * most) : -INFINITY;
}

// Does the Concat put a row of one such number beside something?
static bool puts_row(struct static_run *s, uint32_t node) {
  struct kit_number number;
  struct span raw;
  uint32_t tensor;
  double least = 0;
  for (uint32_t i = 0; i < kit_n_in(&s->k, node); i++)
    if (frame_least(s, node, i) > -INFINITY) least = fmin(least, frame_least(s, node, i));
  for (uint32_t i = 0; i < kit_n_in(&s->k, node) && least < 0; i++)
    if (kit_constant(&s->k, kit_in(&s->k, node, i), &tensor) &&
        model_small_value(s->k.m, tensor, &raw) &&
        kit_const_fill(&s->k, kit_in(&s->k, node, i), &number) == KIT_YES && number.d <= least)
      return true;
  return false;
}

// Does the Pad put such a number there, or one that is none of the elements of what it takes?
static bool pads_such_number(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t out = kit_out(k, node, 0);
  float value;
  double x;
  if (s->opset < 11) {
    if (!kit_attr_float(k, node, "value", 0, &value)) return false;
    x = (double)value;
  } else if (kit_in(k, node, 2) == NO_ID || !kit_const_scalar(k, kit_in(k, node, 2), &x)) {
    return false;
  }
  return x <= frame_least(s, node, 0) || hides(s, out, x) || means_nothing(x, x);
}

// Puts the node such a number somewhere, whether samples saw it or not?
static bool puts_such_number(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t out = kit_out(k, node, 0);
  switch (kit_op(k, node)) {
  case OP_Mul:
    return is_such_number(s, kit_in(k, node, 0), out) || is_such_number(s, kit_in(k, node, 1), out);
  case OP_Where:
    return is_such_number(s, kit_in(k, node, 1), out) || is_such_number(s, kit_in(k, node, 2), out);
  case OP_Concat: return puts_row(s, node);
  case OP_Pad: return pads_such_number(s, node);
  default: return false;
  }
}

// Does the node, if it is quantized, take such a number for a range?
static bool ranges_over_nothing(struct static_run *s, uint32_t node) {
  const struct static_op *op = static_op_of(s, node);
  const char *why;
  if (!static_takes(s, node, &why)) return false;
  if (op->qdq == STATIC_Q_WHERE && !s->o->force_quantize_no_input_check) return false;
  for (uint32_t i = 0; i < kit_n_in(&s->k, node); i++)
    if (is_masked(s, kit_in(&s->k, node, i))) return true;
  for (uint32_t i = 0; i < kit_n_out(&s->k, node); i++)
    if (is_masked(s, kit_out(&s->k, node, i))) return true;
  return false;
}

// ---- the walk ----------------------------------------------------------------------------------

void static_leave_value(struct static_run *s, uint32_t value, const char *why) {
  if (value == NO_ID) return;
  if (value >= s->n_left) TABLE_ADD(s, left, value + 1 - s->n_left);
  s->left[value] = why;
}

const char *static_left(const struct static_run *s, uint32_t value) {
  return value < s->n_left ? s->left[value] : NULL;
}

bool static_is_left(const struct static_run *s, uint32_t value) {
  return static_left(s, value) != NULL;
}

const char *static_left_input(struct static_run *s, uint32_t node) {
  const char *why = NULL;
  for (uint32_t i = 0; i < kit_n_in(&s->k, node) && !why; i++)
    why = static_left(s, kit_in(&s->k, node, i));
  return why;
}

const char *static_kept(const struct static_run *s, uint32_t node) {
  return node < s->n_kept ? s->kept[node] : NULL;
}

void static_keep(struct static_run *s, uint32_t node, const char *why) {
  if (node >= s->n_kept) TABLE_ADD(s, kept, node + 1 - s->n_kept);
  s->kept[node] = why;
  for (uint32_t i = 0; i < kit_n_out(&s->k, node); i++)
    static_leave_value(s, kit_out(&s->k, node, i), why);
}

// Is what the node does with that value to pass it on, or to mask others by it?
static bool passes_on(struct static_run *s, uint32_t node, uint32_t slot, const char *why) {
  const uint32_t value = kit_in(&s->k, node, slot);
  if (why == masked) return passed_by(s, node, slot) != 0;
  if (!s->o->compat && static_vanishes(s, node) == value) return true;
  const enum op op = kit_op(&s->k, node);
  return slot == 0 &&
         (only_moves(op) || op == OP_MaxPool || op == OP_Resize || op == OP_Relu || op == OP_Clip);
}

// What nodes make of the values, as far as they only pass them on, or mask others by them.
static void leave_behind(struct static_run *s, uint32_t first, const char *why) {
  struct kit *k = &s->k;
  struct {
    TABLE(uint32_t, queue);
  } at = {0};
  *TABLE_PUSH(&at, queue) = first;
  for (uint32_t i = 0; i < at.n_queue; i++)
    for (struct kit_use u = kit_uses(k, at.queue[i]); kit_use(k, &u);) {
      const uint32_t out = kit_out(k, u.node, 0);
      if (out == NO_ID || k->m->nodes[u.node].graph != s->graph || static_is_left(s, out) ||
          !passes_on(s, u.node, u.slot, why))
        continue;
      if (why == masked && !only_moves(kit_op(k, u.node)))
        static_keep(s, u.node, why);
      else
        static_leave_value(s, out, why);
      *TABLE_PUSH(&at, queue) = out;
    }
  TABLE_FREE(&at, queue);
}

// A bias has no codes beside a product that alpha makes nothing, or no number. (Operators on codes ask for more of a Gemm.)
static bool has_odd_factors(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  float alpha, beta;
  const char *why;
  return kit_op(k, node) == OP_Gemm && s->o->format != STATIC_QOPERATOR &&
         kit_in(k, node, 2) != NO_ID && static_takes(s, node, &why) &&
         kit_attr_float(k, node, "alpha", 1, &alpha) && kit_attr_float(k, node, "beta", 1, &beta) &&
         (alpha == 0 || !isfinite(alpha) || !isfinite(beta));
}

// Was nothing but 0 seen of what a node with a bias takes? Its scale says nothing then, and codes of the bias have it.
static bool has_bias_beside_nothing(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const enum static_qdq kind = static_op_of(s, node)->qdq;
  const uint32_t x = kit_in(k, node, 0), bias = kit_in(k, node, 2);
  const char *why;
  if (kind != STATIC_Q_CONV && kind != STATIC_Q_GEMM && kind != STATIC_Q_NORM) return false;
  if (s->o->compat || bias == NO_ID || x >= s->n_range || static_override_of(s, x)) return false;
  const struct int8_range *r = &s->range[x];
  return r->type != DTYPE_UNDEFINED && r->least == 0 && r->most == 0 &&
         static_takes(s, node, &why) && kit_const_all(k, bias, 0) != KIT_YES;
}

static const char *kept_reason(struct static_run *s, uint32_t node, bool fuses) {
  if (fuses && lacks_something(s, node)) return lacks;
  if (has_odd_factors(s, node)) return factors;
  if (has_bias_beside_nothing(s, node)) return unseen;
  if (s->o->compat) return NULL;
  for (uint32_t i = 0; i < kit_n_out(&s->k, node); i++)
    if (is_masked(s, kit_out(&s->k, node, i))) return masked;
  return puts_such_number(s, node) ? masked : NULL;
}

void static_leave(struct static_run *s) {
  struct kit *k = &s->k;
  const bool fuses = has_8_bits(s);
  const struct model_graph *g = &k->m->graphs[s->graph];
  count_all(s);
  for (uint32_t i = 0; i < g->n_inputs && !s->o->compat; i++)
    if (is_masked(s, k->m->graph_io[g->inputs + i]))
      static_leave_value(s, k->m->graph_io[g->inputs + i], masked);
  for (uint32_t n = g->first_node; n != NO_ID; n = k->m->nodes[n].next) {
    const char *why = kept_reason(s, n, fuses);
    if (!why && s->o->compat && ranges_over_nothing(s, n))
      static_note_theirs(s, n, STATIC_THEIRS_MASK);
    if (!why) continue;
    static_keep(s, n, why);
    if (kit_out(k, n, 0) != NO_ID) leave_behind(s, kit_out(k, n, 0), why);
  }
}
