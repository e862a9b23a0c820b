// Values as codes: what is held of them, and how that is made (static_qoperator.h).
//
//   v          ─▶ Q ─▶ v_quantized                       a float value, when the first operator wants its codes
//   w              w_quantized, w_scale, w_zero_point    a constant, once for each form that operators want it in
//   b              b_quantized                           a bias: a node's own (compat: the first one's, also for those that come later)
//
// The existing tool knows a constant by its name alone: it has the form that the first operator wanted, whatever the next one
// wants. So it is here with compat.
#include "passes/int8_static/inside/static_qoperator.h"

// ---- what is held ------------------------------------------------------------------------------

struct static_held *static_qoperator_held(struct static_qoperator_run *q, uint32_t value) {
  if (value >= q->n_held || q->held[value].codes == NO_ID) return NULL;
  return &q->held[value];
}

struct static_held *static_qoperator_hold(struct static_qoperator_run *q, uint32_t value,
                                          const struct static_held *held) {
  for (uint32_t i = q->n_held; i <= value; i++)
    *TABLE_PUSH(q, held) = (struct static_held){.codes = NO_ID};
  q->held[value] = *held;
  *TABLE_PUSH(q, order) = value;
  return &q->held[value];
}

// ---- activations -------------------------------------------------------------------------------

bool static_qoperator_result(struct static_qoperator_run *q, uint32_t value,
                             const struct int8_params *given, struct static_held *out) {
  struct static_run *s = q->s;
  struct static_params p;
  if (!static_params_of(s, value, &p)) return false;
  if (given) {
    p.own = *given;
    p.own.scale = int8_rounded(p.scale_type, given->scale);
  }
  if (given) p.type = s->o->activation;
  *out = (struct static_held){.codes = NO_ID,
                              .owner = value,
                              .type = p.type,
                              .axis = RECIPE_PER_TENSOR,
                              .known = true,
                              .scale_is = p.own.scale,
                              .zero_is = p.own.zero};
  const struct static_form f = static_new_form(s, kit_stem_of(&s->k, value), "", &p, NO_ID);
  out->scale = f.scale;
  out->zero = f.zero;
  return true;
}

bool static_qoperator_can_take(struct static_qoperator_run *q, uint32_t value) {
  struct static_params p;
  if (value == NO_ID || static_is_left(q->s, value)) return false;
  return static_qoperator_held(q, value) || static_is_constant(q->s, value) ||
         (static_holds_floats(q->s, value) && static_params_of(q->s, value, &p));
}

uint32_t static_qoperator_widened(struct static_qoperator_run *q, uint32_t value) {
  struct static_run *s = q->s;
  if (static_dtype(s, value) != DTYPE_FLOAT16) return value;
  const struct span stem = kit_stem_of(&s->k, value);
  const struct edit_output out = {NO_ID, int8_value_name(&s->k, stem, "_float")};
  const uint32_t wide = kit_make(&s->k, OP_Cast, KIT_IN(value), KIT_INT("to", DTYPE_FLOAT),
                                 KIT_OUT(out), KIT_CALLED(int8_node_name(&s->k, stem, "_Cast")));
  kit_note_like(&s->k, wide, value);
  kit_note_type(&s->k, wide, &(struct model_type){.dtype = DTYPE_FLOAT});
  return wide;
}

uint32_t static_qoperator_dequantized(struct static_qoperator_run *q, const struct static_form *f,
                                      uint32_t codes, struct span stem, struct edit_output out,
                                      enum dtype type) {
  struct kit *k = &q->s->k;
  const struct span name = kit_names_join(stem, "_DequantizeLinear", &k->site);
  if (type != DTYPE_FLOAT16) return static_put_node(q->s, OP_DequantizeLinear, f, codes, out, name);
  const struct edit_output wide = {NO_ID, int8_value_name(k, stem, "_DequantizeLinear_Output")};
  const uint32_t floats = static_put_node(q->s, OP_DequantizeLinear, f, codes, wide, name);
  return kit_make(k, OP_Cast, KIT_IN(floats), KIT_INT("to", DTYPE_FLOAT16), KIT_OUT(out),
                  KIT_CALLED(int8_node_name(k, stem, "_Cast")));
}

// Would a scale that has room for a bias be that of others too: who takes the value, what it shares its scale with, a constant's?
static bool is_for_others(struct static_qoperator_run *q, uint32_t value) {
  const struct static_held *held = static_qoperator_held(q, value);
  const struct static_run *s = q->s;
  if (s->o->compat || static_override_of(s, value)) return false;
  if (!static_may_grow(s, value)) return true;
  return held && (held->owner == NO_ID || !static_may_grow(s, held->owner));
}

// Codes of a weight that is computed, for one node.
static const struct static_held *take_own(struct static_qoperator_run *q, uint32_t value) {
  struct static_run *s = q->s;
  struct kit *k = &s->k;
  const struct static_held *there = static_qoperator_held(q, value);
  const struct span name = kit_stem_of(k, value), stem = kit_names_join(name, "_weight", &k->site);
  struct static_params p;
  uint32_t from;
  if (!static_params_of(s, value, &p)) return NULL;
  if (there) {
    const struct static_form f = {.scale = there->scale, .zero = there->zero, .axis = there->axis};
    from = static_qoperator_dequantized(q, &f, there->codes, stem,
                                        (struct edit_output){NO_ID, int8_value_name(k, stem, "")},
                                        DTYPE_FLOAT);
    kit_note_like(k, from, value);
    kit_note_type(k, from, &(struct model_type){.dtype = DTYPE_FLOAT});
  } else {
    from = static_qoperator_widened(q, value);
  }
  const struct static_form f = static_new_form(s, stem, "", &p, NO_ID);
  const struct edit_output out = {NO_ID, int8_value_name(k, stem, "_quantized")};
  q->own = (struct static_held){.owner = NO_ID,
                                .type = p.type,
                                .axis = RECIPE_PER_TENSOR,
                                .known = true,
                                .scale_is = p.own.scale,
                                .zero_is = p.own.zero,
                                .scale = f.scale,
                                .zero = f.zero};
  q->own.codes = static_put_node(s, OP_QuantizeLinear, &f, from, out,
                                 kit_names_join(stem, "_QuantizeLinear", &k->site));
  return &q->own;
}

static const struct static_held *take_float(struct static_qoperator_run *q, uint32_t value) {
  struct static_run *s = q->s;
  struct static_held held;
  if (!static_qoperator_result(q, value, NULL, &held)) return NULL;
  const struct span stem = kit_stem_of(&s->k, value);
  const struct static_form f = {.scale = held.scale, .zero = held.zero, .axis = RECIPE_PER_TENSOR};
  const uint32_t from = static_qoperator_widened(q, value);
  const struct edit_output out = {NO_ID, int8_value_name(&s->k, stem, "_quantized")};
  held.codes = static_put_node(s, OP_QuantizeLinear, &f, from, out,
                               kit_names_join(stem, "_QuantizeLinear", &s->k.site));
  return static_qoperator_hold(q, value, &held);
}

// ---- constants ---------------------------------------------------------------------------------

static bool same_form(const struct int8_weight_as *a, const struct int8_weight_as *b) {
  return a->type == b->type && a->axis == b->axis && a->symmetric == b->symmetric &&
         a->reduced == b->reduced;
}

uint32_t static_qoperator_roomy(struct static_qoperator_run *q, uint32_t scales, uint32_t bias,
                                uint32_t x_scale, double factor) {
  struct recipes *r = q->s->k.r;
  const uint32_t of = static_recipe(q->s, bias);
  if (factor != 1) {
    const uint32_t both[2] = {x_scale,
                              int8_floats(r, (enum dtype)r->rows[x_scale].dtype, &factor, NO_ID)};
    x_scale = recipe_map(r, RECIPE_MAP_MUL, both);
  }
  return recipe_can_have_roomy_scales(r, scales, x_scale, of)
             ? recipe_roomy_scales(r, scales, x_scale, of, false)
             : NO_ID;
}

// Scales as large as the bias of the node that takes the constant first needs them. Gives whether they changed.
static bool make_room(struct static_qoperator_run *q, struct static_coded *c,
                      const struct static_qoperator_weight *w) {
  struct static_run *s = q->s;
  const bool theirs =
      c->entry.as.type == DTYPE_INT8 && c->entry.as.symmetric && s->o->weight == DTYPE_INT8;
  if (w->bias == NO_ID || !w->x || (s->o->compat && !(theirs && w->x->known))) return false;
  c->biases++;
  const double scale = w->x->scale_is * (s->o->compat ? 1 : w->factor);
  const enum dtype type = (enum dtype)s->k.r->rows[static_recipe(s, w->bias)].dtype;
  const uint32_t roomy = w->x->known
                             ? static_qoperator_roomy(q, c->entry.scales, w->bias,
                                                      int8_floats(s->k.r, type, &scale, NO_ID), 1)
                             : static_qoperator_roomy(q, c->entry.scales, w->bias,
                                                      kit_recipe(&s->k, w->x->scale), w->factor);
  if (roomy == NO_ID || roomy == c->entry.scales) return false;
  c->entry.scales = roomy;
  c->codes_recipe = static_weight_codes(s, &c->entry);
  return true;
}

void static_qoperator_write_again(struct static_qoperator_run *q, const struct static_coded *c) {
  struct static_run *s = q->s;
  struct model_constant tensor;
  model_resolve_constant(s->k.m, c->held.scale, &tensor);
  edit_replace_tensor(s->k.e, tensor.tensor, c->entry.scales);
  model_resolve_constant(s->k.m, c->held.codes, &tensor);
  edit_replace_tensor(s->k.e, tensor.tensor, c->codes_recipe);
}

void static_qoperator_write(struct static_qoperator_run *q, struct static_coded *c) {
  struct static_run *s = q->s;
  const struct span stem = kit_stem_of(&s->k, c->entry.value);
  struct static_held *h = &c->held;
  h->codes = int8_tensor(&s->k, stem, "_quantized", c->codes_recipe, c->tensor);
  h->scale = int8_tensor(&s->k, stem, "_scale", c->entry.scales, c->tensor);
  h->zero = int8_tensor(&s->k, stem, "_zero_point", c->entry.zeros, c->tensor);
}

static void write_first(struct static_qoperator_run *q, struct static_coded *c) {
  static_qoperator_write(q, c);
  q->reported = true;
  kit_report(&q->s->k, &(struct kit_report){.node = q->node,
                                            .reason = "quantized",
                                            .weight = c->entry.value + 1,
                                            .codes = c->codes_recipe + 1,
                                            .of = c->tensor});
}

static const struct static_held *take_constant(struct static_qoperator_run *q,
                                               const struct static_qoperator_weight *w,
                                               const struct static_role *role, uint32_t axis) {
  struct static_run *s = q->s;
  struct model_constant at;
  model_resolve_constant(s->k.m, w->value, &at);
  struct static_coded new = {.tensor = at.tensor,
                             .entry = {.value = at.value,
                                       .weight = true,
                                       .per_channel = axis != RECIPE_PER_TENSOR,
                                       .axis = axis,
                                       .provider = NO_ID,
                                       .role = role}};
  q->failed = static_weight_params(s, &new.entry, q->err) != 0;
  if (q->failed) return NULL;
  new.codes_recipe = static_weight_codes(s, &new.entry);
  if (new.codes_recipe == NO_ID) return NULL;
  struct static_coded *c = NULL;
  if (at.tensor >= q->n_coded_of) TABLE_ADD(q, coded_of, at.tensor + 1 - q->n_coded_of);
  for (uint32_t i = q->coded_of[at.tensor]; i && !c; i = q->coded[i - 1].next)
    if (s->o->compat || same_form(&q->coded[i - 1].entry.as, &new.entry.as)) c = &q->coded[i - 1];
  if (c) {
    if (s->o->compat && c->biases < STATIC_NESTED && make_room(q, c, w))
      static_qoperator_write_again(q, c);
  } else {
    c = TABLE_PUSH(q, coded);
    *c = new;
    c->found = new.entry.scales;
    c->next = q->coded_of[at.tensor];
    q->coded_of[at.tensor] = q->n_coded;
    c->held = (struct static_held){.codes = NO_ID,
                                   .owner = NO_ID,
                                   .type = new.entry.as.type,
                                   .axis = new.entry.as.axis,
                                   .from_end = w->from_end,
                                   .constant = true};
    make_room(q, c, w);
    write_first(q, c);
  }
  c->entry.role = NULL;
  if (!static_qoperator_held(q, w->value)) static_qoperator_hold(q, w->value, &c->held);
  return &c->held;
}

static struct static_role role_of(const struct static_qoperator_run *q, enum dtype type,
                                  bool weight) {
  const struct static_options *o = q->s->o;
  return (struct static_role){.type = type,
                              .symmetric = weight || type == o->weight
                                               ? static_is_weight_symmetric(o, type)
                                               : o->activation_symmetric,
                              .reduced = weight && o->reduce_range};
}

const struct static_held *static_qoperator_take(struct static_qoperator_run *q, uint32_t value) {
  const struct static_held *held = static_qoperator_held(q, value);
  const struct static_role role = role_of(q, q->s->o->activation, false);
  if (held && (!held->constant || q->s->o->compat)) return held;
  if (!static_is_constant(q->s, value)) return take_float(q, value);
  const struct static_qoperator_weight w = {.value = value, .bias = NO_ID};
  return take_constant(q, &w, &role, RECIPE_PER_TENSOR);
}

const struct static_held *static_qoperator_take_weight(struct static_qoperator_run *q,
                                                       const struct static_qoperator_weight *w) {
  struct static_run *s = q->s;
  const struct static_held *held = static_qoperator_held(q, w->value);
  const enum dtype type = w->type == DTYPE_UNDEFINED ? s->o->weight : w->type;
  const struct static_role role = role_of(q, type, true);
  if (!static_is_constant(s, w->value)) {
    if (w->bias != NO_ID && is_for_others(q, w->value)) return take_own(q, w->value);
    return held ? held : take_float(q, w->value);
  }
  return take_constant(q, w, &role, w->axis);
}

// ---- biases ------------------------------------------------------------------------------------

struct static_bias_codes *static_qoperator_bias_of(struct static_qoperator_run *q, uint32_t bias) {
  return bias < q->n_bias_of && q->bias_of[bias] ? &q->biases[q->bias_of[bias] - 1] : NULL;
}

bool static_qoperator_can_bias(struct static_qoperator_run *q, uint32_t bias, uint64_t channels) {
  if (!static_is_constant(q->s, bias)) return false;
  const uint32_t of = static_recipe(q->s, bias), rank = q->s->k.r->rows[of].rank;
  if (q->s->k.r->rows[of].count == 0) return false;
  return channels == 1 || (rank > 0 && (uint64_t)recipe_dims(q->s->k.r, of)[rank - 1] == channels);
}

struct int8_parts static_qoperator_bias_parts(struct static_qoperator_run *q, uint32_t bias,
                                              uint32_t x, uint32_t w, double factor) {
  struct recipes *r = q->s->k.r;
  const uint32_t of = static_recipe(q->s, bias);
  return factor == 0 ? int8_bias(r, int8_zeros_like(r, of), x, w, 1, NO_ID)
                     : int8_bias(r, of, x, w, factor, NO_ID);
}

uint32_t static_qoperator_bias(struct static_qoperator_run *q, uint32_t bias,
                               const struct static_held *x, const struct static_held *w,
                               double factor) {
  struct kit *k = &q->s->k;
  struct model_constant c;
  const struct static_bias_codes *there = static_qoperator_bias_of(q, bias);
  if (q->s->o->compat && there) return there->codes;
  model_resolve_constant(k->m, bias, &c);
  const struct int8_parts parts = static_qoperator_bias_parts(q, bias, kit_recipe(k, x->scale),
                                                              kit_recipe(k, w->scale), factor);
  if (parts.codes == NO_ID) return NO_ID;
  const struct span stem = kit_stem_of(k, c.value);
  const uint32_t codes = int8_tensor(k, stem, "_quantized", parts.codes, c.tensor);
  *TABLE_PUSH(q, biases) = (struct static_bias_codes){
      .value = bias, .codes = codes, .scales = parts.scales, .zeros = parts.zeros};
  if (bias >= q->n_bias_of) TABLE_ADD(q, bias_of, bias + 1 - q->n_bias_of);
  q->bias_of[bias] = q->n_biases;
  return codes;
}
