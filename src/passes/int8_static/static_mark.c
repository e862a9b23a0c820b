// Which values are quantized: the rules of the operators, one function for each of the words of static_ops.def.
//
//   Conv ─▶ a ─▶ Relu ─▶ b ─▶ MaxPool ─▶ c         marked: x, w, b (its own), c (as b); the Relu goes
//
// Marks are made in the order of the nodes, since rules ask what is marked already: an operator that passes its input through
// takes part where its input does. A value that was marked and is to share another's parameters keeps its
// place in the row. All of this is what onnxruntime's QDQQuantizer does, and where that is wrong it is right here:
//
//   Relu, Clip   go only where the codes themselves hold no more than they let through, and no other node, in no body either,
//                sees the value before them
//   biases       belong to a node, not to a name: each node has its own
//   constants    in any place (not with compat): an initializer, a Constant, through Identity
//   MatMul       a scale a column for matrices; one for vectors and batches, whose axis 1 is no column
#include "passes/int8_static/inside/static.h"

#include <assert.h>
#include <math.h>

// ---- marks ---------------------------------------------------------------------------------------

// The entry of the value: a new one at the end, or the one that is there.
static struct static_entry *entry_for(struct static_run *s, uint32_t value) {
  struct static_entry *e = static_entry_of(s, value);
  if (e) return e;
  assert(value != NO_ID);
  if (value >= s->n_entry_of) TABLE_ADD(s, entry_of, value + 1 - s->n_entry_of);
  e = TABLE_PUSH(s, entries);
  s->entry_of[value] = s->n_entries;
  return e;
}

static const struct static_entry unmarked = {.provider = NO_ID, .scales = NO_ID, .zeros = NO_ID};

static void mark(struct static_run *s, uint32_t value, bool weight) {
  if (!static_is_float(s, value) || static_entry_of(s, value)) return;
  if (static_is_left(s, value)) return;
  struct static_entry *e = entry_for(s, value);
  *e = unmarked;
  e->value = value;
  e->weight = weight;
}

void static_mark_like(struct static_run *s, uint32_t value, uint32_t entry) {
  struct static_entry *e = entry_for(s, value);
  *e = s->entries[entry];
  e->value = value;
  e->owner = 0;
}

static void mark_shared(struct static_run *s, uint32_t value, uint32_t provider, uint32_t node) {
  if (!static_is_float(s, value) || static_is_left(s, value)) return;
  if (static_grows_alone(s, value, provider)) {
    mark(s, value, false);
    return;
  }
  struct static_entry *e = entry_for(s, value);
  *e = unmarked;
  e->value = value;
  e->provider = provider;
  e->provider_node = node;
}

// A copy of the weight for nodes that want its scales along another axis than those before them: operators on codes take
// scales for one a column, whatever the axis says. (The existing tool lets the last node decide.)
static uint32_t turned_weight(struct static_run *s, uint32_t node, uint32_t slot, uint32_t along) {
  struct kit *k = &s->k;
  const uint32_t value = kit_in(k, node, slot);
  struct model_constant c;
  uint32_t made = NO_ID;
  if (value >= s->n_turned_of) TABLE_ADD(s, turned_of, value + 1 - s->n_turned_of);
  for (uint32_t i = s->turned_of[value]; i && made == NO_ID; i = s->turned[i - 1].next)
    if (s->turned[i - 1].axis == along) made = s->turned[i - 1].copy;
  if (made == NO_ID) {
    model_resolve_constant(k->m, value, &c);
    kit_site(k, node, "own_weight");
    const struct span name = model_value_name(k->m, value);
    const struct span wanted =
        span_str(arena_printf(&k->site, "%.*s_axis%u", (int)name.n, (const char *)name.at, along));
    made = edit_add_tensor(k->e, s->graph,
                           kit_names_take(&k->names, KIT_VALUES, s->graph, wanted, &k->site),
                           edit_tensor_recipe(k->e, c.tensor));
    *TABLE_PUSH(s, turned) = (struct static_turned){value, along, made, s->turned_of[value]};
    s->turned_of[value] = s->n_turned;
  }
  edit_set_input(k->e, node, slot, made);
  return made;
}

static void mark_weight(struct static_run *s, uint32_t node, uint32_t slot, int64_t axis,
                        const char *op) {
  uint32_t along, value = slot == 1 ? static_own_weight(s, node) : kit_in(&s->k, node, slot);
  if (value == NO_ID || !static_is_per_channel(s, value, axis, op, &along)) {
    mark(s, value, true);
    return;
  }
  const struct static_entry *there = static_entry_of(s, value);
  if (there && there->per_channel && there->axis != along)
    value = turned_weight(s, node, slot, along);
  struct static_entry *e = entry_for(s, value);
  *e = unmarked;
  e->value = value;
  e->weight = e->per_channel = true;
  e->axis = along;
}

static void mark_output(struct static_run *s, uint32_t node) {
  if (static_leaves_output(s, node)) return;
  for (uint32_t i = 0; i < kit_n_out(&s->k, node); i++)
    mark(s, kit_out(&s->k, node, i), false);
}

// ---- biases --------------------------------------------------------------------------------------

enum { MOST_DIGITS = 9 };

// An initializer's name: the number at its end, for each name that may stand before it.
static void note_number(struct static_run *s, struct span name) {
  uint32_t number = 0, unit = 1;
  for (size_t n = 1; n < name.n && n <= MOST_DIGITS; n++, unit *= 10) {
    const uint8_t digit = name.at[name.n - n];
    if (digit < '0' || digit > '9') return;
    number += (uint32_t)(digit - '0') * unit;
    const uint32_t stem = model_find_name(s->k.m, span_of(name.at, name.n - n));
    if (stem == NO_ID) continue;
    if (stem >= s->n_numbers) TABLE_ADD(s, numbers, stem + 1 - s->n_numbers);
    if (number >= s->numbers[stem]) s->numbers[stem] = number + 1;
  }
}

// 1 + the largest number after a name, over all initializers.
static uint32_t next_number(struct static_run *s, uint32_t name) {
  const struct model *m = s->k.m;
  const uint32_t unseen = s->n_numbers == 0 ? m->n_tensors : 0;
  for (uint32_t i = 0; i < unseen; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (t->flags & TENSOR_DEAD || t->home != HOME_INITIALIZER || t->graph != s->graph) continue;
    note_number(s, model_name(m, t->name));
  }
  if (name >= s->n_numbers) TABLE_ADD(s, numbers, name + 1 - s->n_numbers);
  return s->numbers[name];
}

// A copy of the bias for this node alone, called as the existing tool calls it.
static uint32_t own_bias(struct static_run *s, uint32_t node, uint32_t slot) {
  struct kit *k = &s->k;
  const uint32_t value = kit_in(k, node, slot);
  struct model_constant c;
  model_resolve_constant(k->m, value, &c);
  kit_site(k, node, "own_bias");
  const struct span name = model_value_name(k->m, c.value);
  const struct span wanted =
      span_str(arena_printf(&k->site, "%.*s%u", (int)name.n, (const char *)name.at,
                            next_number(s, k->m->values[c.value].name)));
  const struct span taken = kit_names_take(&k->names, KIT_VALUES, s->graph, wanted, &k->site);
  const uint32_t made = edit_add_tensor(k->e, s->graph, taken, edit_tensor_recipe(k->e, c.tensor));
  note_number(s, taken);
  edit_set_input(k->e, node, slot, made);
  return made;
}

// Does another node read it: this value, or the constant that it comes from, through an Identity for each?
static bool is_shared(const struct kit *k, uint32_t value) {
  struct model_constant c;
  return kit_use_count(k, value, 2) > 1 ||
         (model_resolve_constant(k->m, value, &c) && kit_use_count(k, c.value, 2) > 1);
}

static void mark_bias(struct static_run *s, uint32_t node, double alpha, double beta) {
  struct kit *k = &s->k;
  uint32_t value = kit_in(k, node, 2);
  struct static_bias b = {.value = value,
                          .node = node,
                          .slot = 2,
                          .input = kit_in(k, node, 0),
                          .weight = kit_in(k, node, 1),
                          .alpha = static_drops_bias(s, beta) ? 1 : alpha,
                          .beta = beta};
  if (value == NO_ID || b.input == NO_ID || b.weight == NO_ID) return;
  if (static_override_of(s, value)) {
    mark_weight(s, node, 2, 0, NULL);
    return;
  }
  if (!static_is_constant(s, value)) {
    kit_skipped(k, node, "non_constant_bias");
    b.computed = !s->o->compat && static_is_folded(s, value) && value < s->n_range &&
                 s->range[value].type != DTYPE_UNDEFINED;
    if (b.computed) *TABLE_PUSH(s, biases) = b;
    return;
  }
  b.is_zero = kit_const_all(k, value, 0) == KIT_YES;
  const bool taken = value < s->n_bias_of && s->bias_of[value] != 0;
  if (taken || (!s->o->compat && is_shared(k, value))) value = own_bias(s, node, 2);
  if (value >= s->n_bias_of) TABLE_ADD(s, bias_of, value + 1 - s->n_bias_of);
  b.value = value;
  *TABLE_PUSH(s, biases) = b;
  s->bias_of[value] = s->n_biases;
}

// ---- operators with weights ----------------------------------------------------------------------

static void mark_conv(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  mark(s, kit_in(k, node, 0), false);
  mark_output(s, node);
  mark_weight(s, node, 1, strcmp(static_op_type(s, node), "Conv") == 0 ? 0 : 1, NULL);
  mark_bias(s, node, 1, 1);
}

static void mark_gemm(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  int64_t transposed = 0;
  float alpha = 1, beta = 1;
  mark(s, kit_in(k, node, 0), false);
  mark_output(s, node);
  const bool known = kit_attr_int(k, node, "transB", 0, &transposed) &&
                     kit_attr_float(k, node, "alpha", 1, &alpha) &&
                     kit_attr_float(k, node, "beta", 1, &beta);
  mark_weight(s, node, 1, transposed > 0 ? 0 : 1, NULL);
  if (known) mark_bias(s, node, alpha, beta);
}

// May a constant operand of a MatMul have a scale a channel? The existing tool has them in any place and rank: of a batch they are no
// columns, and what ONNX Runtime fuses codes of 8 bits to does not run with them.
static bool may_have_channels(struct static_run *s, uint32_t value, uint32_t place) {
  const struct static_options *o = s->o;
  uint32_t rank;
  const bool is_matrix = kit_rank(&s->k, value, &rank) && rank == 2;
  if (static_override_of(s, value)) return true;
  if (!o->compat) return is_matrix && place == 1;
  return is_matrix || dtype_bits(o->weight) != 8 || dtype_bits(o->activation) != 8 ||
         kit_dim(&s->k, value, 1).value == 1;
}

static void mark_matmul(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  for (uint32_t i = 0; i < kit_n_in(k, node); i++) {
    const uint32_t v = kit_in(k, node, i);
    if (!static_is_constant(s, v))
      mark(s, v, false);
    else if (may_have_channels(s, v, i))
      mark_weight(s, node, i, 1, "MatMul");
    else
      mark(s, v, true);
  }
  if (!static_mark_linear(s, node)) mark_output(s, node);
}

void static_mark_value(struct static_run *s, uint32_t value) {
  mark(s, value, false);
}

static void mark_norm(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t scale = kit_in(k, node, 1);
  mark(s, kit_in(k, node, 0), false);
  if (static_is_constant(s, scale))
    mark_weight(s, node, 1, 1, static_op_type(s, node));
  else
    mark(s, static_own_weight(s, node), false);
  mark_bias(s, node, 1, 1);
  mark_output(s, node);
}

// ---- operators that pass on ----------------------------------------------------------------------

static void share(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t x = kit_in(k, node, 0);
  if (s->o->force_quantize_no_input_check) mark(s, x, false);
  if ((s->o->force_quantize_no_input_check || static_is_marked(s, x)) &&
      !static_leaves_output(s, node))
    mark_shared(s, kit_out(k, node, 0), x, node);
}

bool static_stays_within(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  struct span mode, where;
  return kit_attr_string(k, node, "mode", "nearest", &mode) && !span_is(mode, "cubic") &&
         kit_attr_string(k, node, "coordinate_transformation_mode", "half_pixel", &where) &&
         !span_is(where, "tf_crop_and_resize");
}

// A value with numbers outside of the input's range has parameters of its own.
static void mark_resize(struct static_run *s, uint32_t node) {
  const uint32_t x = kit_in(&s->k, node, 0);
  struct static_params p;
  if (s->o->compat || static_stays_within(s, node) ||
      !static_params_of(s, kit_out(&s->k, node, 0), &p)) {
    share(s, node);
    return;
  }
  if (s->o->force_quantize_no_input_check) mark(s, x, false);
  if (static_is_marked(s, x)) mark_output(s, node);
}

static void mark_gather(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t x = kit_in(k, node, 0);
  if (static_is_constant(s, x) || s->o->force_quantize_no_input_check)
    mark(s, x, false);
  else if (!static_is_marked(s, x))
    return;
  mark_shared(s, kit_out(k, node, 0), x, node);
}

static void mark_split(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t x = kit_in(k, node, 0);
  if (!static_is_marked(s, x)) mark(s, x, false);
  for (uint32_t i = 0; i < kit_n_out(k, node) && !static_leaves_output(s, node); i++)
    mark_shared(s, kit_out(k, node, i), x, node);
}

// quantize_static looks for the type of what a number is put around among computed values and inputs only.
static bool knows_what_is_padded(struct static_run *s, uint32_t node) {
  const uint32_t x = kit_in(&s->k, node, 0);
  return x != NO_ID && static_is_typed(s, x) && s->k.m->values[x].kind != VALUE_INITIALIZER;
}

// Are the elements that it pads with known to be 0, or elements of the input?
static bool pads_within(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  struct span mode;
  double x = 0;
  float value = 0;
  if (!kit_attr_string(k, node, "mode", "constant", &mode)) return false;
  if (span_is(mode, "reflect") || span_is(mode, "edge") || span_is(mode, "wrap")) return true;
  if (!span_is(mode, "constant")) return false;
  if (s->o->compat && !knows_what_is_padded(s, node)) return false;
  if (s->opset < 11) return kit_attr_float(k, node, "value", 0, &value) && value == 0;
  return kit_in(k, node, 2) == NO_ID || (kit_const_scalar(k, kit_in(k, node, 2), &x) && x == 0);
}

static void mark_pad(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  for (uint32_t i = 0; i < kit_n_in(k, node); i++)
    mark(s, kit_in(k, node, i), false);
  if (static_leaves_output(s, node)) return;
  if (pads_within(s, node))
    mark_shared(s, kit_out(k, node, 0), kit_in(k, node, 0), node);
  else
    mark(s, kit_out(k, node, 0), false);
}

static void mark_where(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t a = kit_in(k, node, 1), b = kit_in(k, node, 2);
  if (s->o->force_quantize_no_input_check) {
    if (!static_is_marked(s, a)) mark(s, a, false);
    if (!static_is_marked(s, b)) mark(s, b, false);
  } else if (!static_is_marked(s, a) || !static_is_marked(s, b)) {
    return;
  }
  mark_output(s, node);
}

bool static_shares(struct static_run *s, uint32_t node) {
  const struct static_op *op = static_op_of(s, node);
  struct static_params p;
  switch (op->qdq) {
  case STATIC_Q_SHARE:
  case STATIC_Q_SPLIT:
  case STATIC_Q_GATHER: return true;
  case STATIC_Q_MAXPOOL: return s->opset >= 12 && s->o->activation != DTYPE_FLOAT8E4M3FN;
  case STATIC_Q_RESIZE:
    return s->opset >= 11 &&
           (static_stays_within(s, node) || !static_params_of(s, kit_out(&s->k, node, 0), &p));
  case STATIC_Q_PAD: return pads_within(s, node);
  case STATIC_Q_REMOVABLE: return kit_op(&s->k, node) == OP_Relu; // where it goes
  default: return false;
  }
}

// ---- operators that go ---------------------------------------------------------------------------

// The bounds of a Clip or Relu; false: not known.
static bool bounds_of(struct static_run *s, uint32_t node, double *low, double *high) {
  struct kit *k = &s->k;
  float x;
  *low = -INFINITY;
  *high = INFINITY;
  if (strcmp(static_op_type(s, node), "Relu") == 0) {
    *low = 0;
    return true;
  }
  if (s->opset < 11) {
    if (!kit_attr_float(k, node, "min", -INFINITY, &x)) return false;
    *low = x;
    if (!kit_attr_float(k, node, "max", INFINITY, &x)) return false;
    *high = x;
    return true;
  }
  return (kit_in(k, node, 1) == NO_ID || kit_const_scalar(k, kit_in(k, node, 1), low)) &&
         (kit_in(k, node, 2) == NO_ID || kit_const_scalar(k, kit_in(k, node, 2), high));
}

// Do codes with these parameters hold no more than the node lets through, but for the rounding of the zero
// point (half a step)?
static bool clipped_by_codes(struct static_run *s, uint32_t node, const struct static_params *p) {
  double low, high;
  int64_t least, most;
  if (!bounds_of(s, node, &low, &high) || p->type == DTYPE_FLOAT8E4M3FN) return false;
  int8_full_codes(p->type, &least, &most);
  const double from = (double)(least - p->own.zero) * p->own.scale,
               to = (double)(most - p->own.zero) * p->own.scale, half = 0.501 * p->own.scale;
  return from >= (low == 0 ? 0 : low - half) && to <= high + half;
}

// Where each node that takes the value gets a pair of its own, others see the value itself.
static bool all_get_pairs(struct static_run *s, uint32_t value) {
  const char *why;
  if (s->o->compat || !s->o->dedicated_qdq_pair) return true;
  if (kit_is_output(&s->k, value)) return false;
  for (struct kit_use u = kit_uses(&s->k, value); kit_use(&s->k, &u);)
    if (s->k.m->nodes[u.node].graph != s->graph || !static_takes(s, u.node, &why) ||
        static_kept(s, u.node))
      return false;
  return true;
}

static bool can_go(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t in = kit_in(k, node, 0), out = kit_out(k, node, 0);
  struct static_params before, behind;
  if (s->o->activation_symmetric || s->o->keep_removable_activations) return false;
  if (!static_params_of(s, out, &behind) || !static_params_of(s, in, &before)) return false;
  if (before.with || behind.with || kit_use_count(k, in, 2) != 1 || kit_is_output(k, in) ||
      kit_unused(k, out) || !all_get_pairs(s, out))
    return false;
  // The scale of a Softmax's output must be no smaller than its own (softmax_range).
  if (static_is_of_softmax(s, in) && behind.own.scale != before.own.scale) return false;
  return k->m->values[in].kind == VALUE_NODE_OUTPUT && k->m->values[in].graph == s->graph &&
         (strcmp(static_op_type(s, node), "Relu") == 0 || !static_may_grow(s, out)) &&
         clipped_by_codes(s, node, &behind);
}

// What makes its input makes its output instead.
static void remove_activation(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t in = kit_in(k, node, 0), out = kit_out(k, node, 0), maker = kit_maker(k, in);
  struct static_clip clip = {kit_op(k, node), kit_in(k, node, 1), kit_in(k, node, 2), {0}};
  uint32_t slot = 0;
  (void)bounds_of(s, node, &clip.bounds[0], &clip.bounds[1]); // they are known (can_go)
  while (kit_out(k, maker, slot) != in)
    slot++;
  struct static_entry *e = static_entry_of(s, in);
  if (e) {
    e->gone = true;
    s->entry_of[in] = 0;
  }
  kit_converted(k, node, "clipped_by_codes");
  kit_site(k, node, "clipped_by_codes");
  edit_remove_node(k->e, node);
  edit_set_output(k->e, maker, slot, (struct edit_output){out, span_of("", 0)});
  if (out >= s->n_clipped) TABLE_ADD(s, clipped, out + 1 - s->n_clipped);
  *TABLE_PUSH(s, clips) = clip;
  s->clipped[out] = s->n_clips;
}

static void mark_removable(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t in = kit_in(k, node, 0), out = kit_out(k, node, 0);
  const bool leaves = static_leaves_output(s, node);
  if (!static_is_marked(s, in)) return;
  // Where what it gives gets no codes of its own, none clip. (quantize_static lets it go all the same.)
  if ((s->o->compat || !leaves) && can_go(s, node))
    remove_activation(s, node);
  else if (static_comes_along(s, node))
    return;
  else
    mark(s, in, false);
  if (!leaves) mark(s, out, false);
}

// ---- the walk ------------------------------------------------------------------------------------

static void mark_own(struct static_run *s, uint32_t node) {
  for (uint32_t i = 0; i < kit_n_in(&s->k, node); i++)
    mark(s, kit_in(&s->k, node, i), false);
  mark_output(s, node);
}

static void mark_node(struct static_run *s, uint32_t node) {
  const struct static_op *op = static_op_of(s, node);
  switch (op->qdq) {
  case STATIC_Q_OWN: mark_own(s, node); break;
  case STATIC_Q_CONV: mark_conv(s, node); break;
  case STATIC_Q_GEMM: mark_gemm(s, node); break;
  case STATIC_Q_MATMUL: mark_matmul(s, node); break;
  case STATIC_Q_NORM: mark_norm(s, node); break;
  case STATIC_Q_SHARE: share(s, node); break;
  case STATIC_Q_MAXPOOL:
    if (s->opset >= 12 && s->o->activation != DTYPE_FLOAT8E4M3FN) share(s, node);
    break;
  case STATIC_Q_RESIZE:
    if (s->opset >= 11) mark_resize(s, node);
    break;
  case STATIC_Q_REMOVABLE: mark_removable(s, node); break;
  case STATIC_Q_PAD: mark_pad(s, node); break;
  case STATIC_Q_SPLIT: mark_split(s, node); break;
  case STATIC_Q_GATHER: mark_gather(s, node); break;
  case STATIC_Q_WHERE: mark_where(s, node); break;
  case STATIC_Q_NEVER: break;
  }
}

// Did the node get a mark, on its first input, and no weight, which is reported for itself?
static bool is_done(struct static_run *s, uint32_t node) {
  const uint32_t n = kit_n_in(&s->k, node);
  for (uint32_t i = 0; i < n; i++)
    if (static_is_constant(s, kit_in(&s->k, node, i)) &&
        static_is_marked(s, kit_in(&s->k, node, i)))
      return false;
  return static_is_marked(s, kit_in(&s->k, node, 0)) ||
         static_is_marked(s, kit_out(&s->k, node, 0));
}

static void note_receiver(struct static_run *s, uint32_t value, uint32_t node) {
  if (value >= s->n_receivers_of) TABLE_ADD(s, receivers_of, value + 1 - s->n_receivers_of);
  *TABLE_PUSH(s, receivers) = (struct static_receiver){.node = node};
  struct static_receivers *of = &s->receivers_of[value];
  if (of->last)
    s->receivers[of->last - 1].next = s->n_receivers;
  else
    of->first = s->n_receivers;
  of->last = s->n_receivers;
}

int static_mark(struct static_run *s, struct err *err) {
  struct kit *k = &s->k;
  (void)err;
  uint32_t *nodes;
  const uint32_t n_nodes = static_nodes(s, &nodes);
  for (uint32_t i = 0; i < n_nodes; i++) {
    const uint32_t n = nodes[i];
    const char *why;
    if (k->m->nodes[n].flags & NODE_DEAD) continue;
    const bool takes = static_takes(s, n, &why);
    if (takes && static_kept(s, n)) why = static_kept(s, n);
    const uint32_t passed = static_passes_codes(s, n);
    if (passed != NO_ID && static_is_marked(s, passed)) {
      mark_shared(s, kit_out(k, n, 0), passed, n);
      kit_converted(k, n, "quantized");
      continue;
    }
    if (!takes || static_kept(s, n)) {
      if (*why) kit_skipped(k, n, why);
      continue;
    }
    if (static_skips_overridable(s, n) || static_adds_bias(s, n)) continue;
    const char *left = static_left_input(s, n);
    if (left && *left) kit_skipped(k, n, left);
    mark_node(s, n);
    if (k->m->nodes[n].flags & NODE_DEAD) continue;
    if (is_done(s, n)) kit_converted(k, n, "quantized");
    for (uint32_t slot = 0; slot < kit_n_in(k, n); slot++)
      if (kit_in(k, n, slot) != NO_ID) note_receiver(s, kit_in(k, n, slot), n);
  }
  static_mark_sums(s);
  static_find_bare(s);
  static_find_before_bodies(s);
  return 0;
}
