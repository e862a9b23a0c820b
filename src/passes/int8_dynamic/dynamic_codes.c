// Values in codes: activations that DynamicQuantizeLinear quantizes, and what Gather and Transpose take from
// codes as codes.
//
//   x ─▶ MatMul            x ─▶ DynamicQuantizeLinear ─▶ x_quantized, x_scale, x_zero_point     one a value
//   E ─▶ Gather ─▶ y       E_quantized ─▶ Gather ─▶ y_quantized ─▶ DequantizeLinear ─▶ y        if y is read as floats
//
// A value whose codes are known is not quantized again: MatMulInteger reads y_quantized with the scale of E. With the
// fused form nothing does, since its operators take floats.
#include "passes/int8_dynamic/inside/dynamic.h"
#include "passes/kit/dead_ends.h"
#include "passes/kit/weights.h"

// ---- names -------------------------------------------------------------------------------------

struct edit_output dynamic_codes_output(struct dynamic *d, uint32_t graph, struct span stem,
                                        const char *suffix) {
  struct kit *k = &d->k;
  const struct span wanted = kit_names_join(stem, suffix, &k->site);
  return (struct edit_output){NO_ID,
                              kit_names_take(&k->names, KIT_VALUES, graph, wanted, &k->site)};
}

struct span dynamic_codes_called(struct dynamic *d, struct span stem, const char *suffix) {
  return stem.n == 0 ? stem : kit_names_join(stem, suffix, &d->k.site);
}

void dynamic_codes_put(struct dynamic *d, const struct kit_new *spec,
                       const struct dynamic_result *to, bool half) {
  struct kit *k = &d->k;
  struct kit_new last = *spec;
  const struct edit_output wide = half ? dynamic_codes_output(d, k->graph, d->y_name, "_float")
                                       : (struct edit_output){NO_ID, {0}};
  const struct edit_attr narrow = {.name = "to", .type = ATTR_INT, .i = DTYPE_FLOAT16};
  uint32_t floats;
  if (half) {
    last.as = NO_ID;
    last.out = &wide;
    floats = kit_out(k, kit_put(k, &last), 0);
    last = (struct kit_new){.op = OP_Cast,
                            .in = &floats,
                            .n_in = 1,
                            .attrs = &narrow,
                            .n_attrs = 1,
                            .attrs_of = NO_ID,
                            .name = dynamic_codes_called(d, spec->name, "_cast")};
  }
  last.called = true;
  last.as = to->as;
  last.out = to->as == NO_ID ? &to->out : NULL;
  kit_put(k, &last);
}

// ---- what is known -----------------------------------------------------------------------------

const struct dynamic_codes *dynamic_codes_found(const struct dynamic *d, uint32_t value) {
  const bool known = value != NO_ID && value < d->n_of_value && d->of_value[value] != 0;
  return known ? &d->codes[d->of_value[value] - 1] : NULL;
}

void dynamic_codes_note(struct dynamic *d, uint32_t value, const struct dynamic_codes *codes) {
  if (value >= d->n_of_value) TABLE_ADD(d, of_value, value + 1 - d->n_of_value);
  *TABLE_PUSH(d, codes) = *codes;
  d->of_value[value] = d->n_codes;
}

// ---- activations -------------------------------------------------------------------------------

// New nodes come right after the node that makes the value: before all that read it, in bodies too.
static void stand_behind(struct kit *k, uint32_t value) {
  const struct model *m = k->m;
  const uint32_t maker = kit_maker(k, value);
  k->graph = m->values[value].graph;
  k->before = maker == NO_ID ? m->graphs[k->graph].first_node : m->nodes[maker].next;
}

uint32_t dynamic_codes_widen(struct dynamic *d, uint32_t value, bool half) {
  if (!half) return value;
  return kit_make(
      &d->k, OP_Cast, KIT_IN(value), KIT_INT("to", DTYPE_FLOAT),
      KIT_CALLED(dynamic_codes_called(d, kit_stem_of(&d->k, value), "_cast")),
      KIT_OUT(dynamic_codes_output(d, d->k.graph, kit_stem_of(&d->k, value), "_cast_output")));
}

static struct dynamic_codes quantized(struct dynamic *d, uint32_t value, bool half) {
  struct kit *k = &d->k;
  const struct span stem = kit_stem_of(&d->k, value);
  stand_behind(k, value);
  const uint32_t x = dynamic_codes_widen(d, value, half);
  const struct edit_output out[3] = {dynamic_codes_output(d, k->graph, stem, "_quantized"),
                                     dynamic_codes_output(d, k->graph, stem, "_scale"),
                                     dynamic_codes_output(d, k->graph, stem, "_zero_point")};
  const struct edit_node node = {
      .graph = k->graph,
      .before = k->before,
      .name = kit_names_free(&k->names, KIT_NODES, k->graph,
                             kit_names_join(stem, "_QuantizeLinear", &k->site), &k->site),
      .op_type = span_str("DynamicQuantizeLinear"),
      .in = &x,
      .n_in = 1,
      .out = out,
      .n_out = 3};
  const uint32_t n = edit_add_node(k->e, &node);
  return (struct dynamic_codes){kit_out(k, n, 0), kit_out(k, n, 1), kit_out(k, n, 2), false, half};
}

struct dynamic_codes dynamic_codes_of(struct dynamic *d, uint32_t value) {
  struct kit *k = &d->k;
  const struct dynamic_codes *known = dynamic_codes_found(d, value);
  struct dynamic_operand w = {.value = value, .read = value, .named = value};
  struct model_constant c;
  if (known) return *known;
  // A constant that is taken as an activation.
  if (k->m->values[value].kind == VALUE_INITIALIZER && model_resolve_constant(k->m, value, &c)) {
    const struct dynamic_as as = dynamic_weights_as_activation(d);
    w.tensor = c.tensor, w.value = c.value;
    if (!dynamic_weights_unfit(d, &w)) return dynamic_weights_store(d, &w, &as);
  }
  const uint32_t graph = k->graph, before = k->before;
  const struct dynamic_codes made = quantized(d, value, d->site->half);
  k->graph = graph;
  k->before = before;
  dynamic_codes_note(d, value, &made);
  return made;
}

// ---- Gather ------------------------------------------------------------------------------------

const char *dynamic_codes_match_gather(struct dynamic *d, struct dynamic_site *s) {
  const char *why;
  if (kit_n_in(&d->k, s->node) != 2 || kit_out(&d->k, s->node, 0) == NO_ID) return "signature";
  if (!dynamic_weights_find(d, s->node, 0, false, &s->weights[0], &why)) return why;
  s->n_weights = 1;
  return NULL;
}

// Is it a node that may take codes?
static bool may_take(struct dynamic *d, uint32_t node) {
  const uint32_t types = d->o->op_types;
  switch (kit_op(&d->k, node)) {
  case OP_ms_Attention: return types & DYNAMIC_ATTENTION;
  case OP_Transpose: return types & DYNAMIC_TRANSPOSE;
  case OP_MatMul:
  case OP_Gemm:
  case OP_Conv: return d->o->form == DYNAMIC_INTEGER;
  default: return false;
  }
}

// The node reads codes and makes codes; its output keeps its place until it is known who reads it.
static void take_codes(struct dynamic *d, uint32_t node, const struct dynamic_codes *in) {
  struct kit *k = &d->k;
  const uint32_t y = kit_out(k, node, 0), old = kit_in(k, node, 0);
  edit_set_output(k->e, node, 0, dynamic_codes_output(d, k->graph, d->y_name, "_quantized"));
  edit_set_input(k->e, node, 0, in->codes);
  const struct dynamic_codes made = {kit_out(k, node, 0), in->scale, in->zero, in->per_channel,
                                     in->half};
  dynamic_codes_note(d, y, &made);
  *TABLE_PUSH(d, hollow) = y;
  if (!(k->m->values[old].flags & VALUE_DEAD)) dead_ends_drop(k->e, old);
  // With the change itself, so that it is whole without what comes later.
  bool read = kit_is_output(k, y);
  for (struct kit_use u = kit_uses(k, y); !read && kit_use(k, &u);)
    read = !may_take(d, u.node);
  if (read) dynamic_codes_floats(d, y);
}

void dynamic_codes_gather(struct dynamic *d, const struct dynamic_site *s) {
  const struct dynamic_as as = dynamic_weights_as_activation(d);
  const struct dynamic_codes table = dynamic_weights_store(d, &s->weights[0], &as);
  take_codes(d, s->node, &table);
}

// ---- Transpose (compat) ------------------------------------------------------------------------

const char *dynamic_codes_match_transpose(struct dynamic *d, struct dynamic_site *s) {
  const uint32_t x = kit_in(&d->k, s->node, 0);
  const struct dynamic_codes *known = dynamic_codes_found(d, x);
  const char *why;
  if (x == NO_ID || kit_out(&d->k, s->node, 0) == NO_ID) return "signature";
  // quantize_dynamic then takes constants alone, and leaves codes of anything else.
  if (d->o->force_quantize && !dynamic_weights_find(d, s->node, 0, false, &s->weights[0], &why))
    return "not_quantized";
  if (known) return known->per_channel ? "channels" : NULL;
  if (!d->o->force_quantize) return "not_quantized";
  s->n_weights = 1;
  return NULL;
}

void dynamic_codes_transpose(struct dynamic *d, const struct dynamic_site *s) {
  const struct dynamic_codes in = dynamic_codes_of(d, kit_in(&d->k, s->node, 0));
  take_codes(d, s->node, &in);
}

// ---- floats again ------------------------------------------------------------------------------

void dynamic_codes_want(struct dynamic *d, uint32_t node) {
  const struct model *m = d->k.m;
  for (uint32_t i = 0; i < kit_n_in(&d->k, node); i++) {
    const uint32_t x = kit_in(&d->k, node, i);
    if (x == NO_ID || !dynamic_codes_found(d, x) || m->values[x].kind != VALUE_INITIALIZER ||
        m->values[x].graph != m->nodes[node].graph)
      continue;
    *TABLE_PUSH(d, wanted) = x;
  }
}

static uint32_t dequantize(struct dynamic *d, const struct dynamic_codes *c, struct span stem,
                           struct edit_output out) {
  struct kit *k = &d->k;
  const struct edit_attr axis = {.name = "axis", .type = ATTR_INT, .i = -1};
  const uint32_t in[3] = {c->codes, c->scale, c->zero};
  const struct edit_output made =
      c->half ? dynamic_codes_output(d, k->graph, stem, "_dequantized") : out;
  const uint32_t floats =
      kit_make(k, OP_DequantizeLinear, KIT_INPUTS(in, 3), KIT_ATTRS(&axis, c->per_channel),
               KIT_CALLED(dynamic_codes_called(d, stem, "_DequantizeLinear")), KIT_OUT(made));
  if (!c->half) return floats;
  return kit_make(k, OP_Cast, KIT_IN(floats), KIT_INT("to", DTYPE_FLOAT16),
                  KIT_CALLED(dynamic_codes_called(d, stem, "_cast")), KIT_OUT(out));
}

uint32_t dynamic_codes_floats(struct dynamic *d, uint32_t value) {
  struct kit *k = &d->k;
  if (value == NO_ID || k->m->values[value].kind != VALUE_UNDEFINED ||
      !dynamic_codes_found(d, value))
    return value;
  const struct dynamic_codes c = *dynamic_codes_found(d, value);
  const uint32_t graph = k->graph, before = k->before;
  stand_behind(k, c.codes);
  dequantize(d, &c, kit_stem_of(&d->k, value), (struct edit_output){.value = value});
  k->graph = graph;
  k->before = before;
  return value;
}

// Of a constant: DequantizeLinear takes its name, as quantize_dynamic has it, if that hides no other.
static void give_floats(struct dynamic *d, uint32_t value) {
  struct kit *k = &d->k;
  const struct dynamic_codes c = *dynamic_codes_found(d, value);
  struct model_constant constant, codes;
  struct weight w;
  // Codes that are made of it in a run need it.
  if (!model_resolve_constant(k->m, c.codes, &codes)) return;
  if (k->m->values[value].flags & VALUE_DEAD || kit_unused(k, value) ||
      !model_resolve_constant(k->m, value, &constant) || !weights_at(k->m, constant.tensor, &w) ||
      weights_obstacle(k->e, &w))
    return;
  weights_site(k, &w, "dequantized");
  const struct span own = kit_stem_of(&d->k, value);
  const struct span spare = kit_names_take(&k->names, KIT_VALUES, k->graph,
                                           kit_names_join(own, "_float", &k->site), &k->site);
  weights_replace(k, &w, dequantize(d, &c, own, weights_output(k, &w, spare, spare, true)));
}

void dynamic_codes_finish(struct dynamic *d) {
  const struct model *m = d->k.m;
  for (uint32_t i = 0; d->o->compat && i < d->n_of_value; i++)
    if (d->of_value[i] && m->values[i].kind == VALUE_INITIALIZER && kit_is_output(&d->k, i))
      *TABLE_PUSH(d, wanted) = i;
  for (uint32_t i = 0; i < d->n_hollow; i++) {
    if (m->values[d->hollow[i]].flags & VALUE_DEAD || kit_unused(&d->k, d->hollow[i])) continue;
    kit_site(&d->k, kit_maker(&d->k, dynamic_codes_found(d, d->hollow[i])->codes), "dequantized");
    dynamic_codes_floats(d, d->hollow[i]);
  }
  for (uint32_t i = 0; i < d->n_wanted; i++)
    give_floats(d, d->wanted[i]);
}
