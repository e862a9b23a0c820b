// Conv over constant filters, as ConvInteger.
//
//   x ─▶ DynamicQuantizeLinear ─▶ ConvInteger(W_quantized, 0) ─▶ Cast ─▶ Mul(x_scale * W_scale [M,1,1]) ─▶ Add(bias) ─▶ y
//
// ConvInteger reads one zero point for all filters, but nothing keeps their scales from being one each: those are multiplied
// into what comes out. quantize_dynamic has one scale for all, and takes filters that are computed too. On x86 ConvInteger
// is several times slower than Conv in float32, and a depthwise one gains nothing: Conv is quantized where --op-types asks for it,
// and depthwise ones are not (with --compat all are).
#include "passes/int8_dynamic/inside/dynamic.h"
#include "passes/kit/dead_ends.h"

static bool is_depthwise(const struct dynamic *d, const struct dynamic_site *s, int64_t groups) {
  return groups > 1 && dynamic_weights_dim(d, &s->weights[0], 1) == 1;
}

const char *dynamic_conv_match(struct dynamic *d, struct dynamic_site *s) {
  struct kit *k = &d->k;
  const uint32_t x = kit_in(k, s->node, 0), w = kit_in(k, s->node, 1), b = kit_in(k, s->node, 2);
  const char *why;
  int64_t groups;
  if (x == NO_ID || w == NO_ID || kit_out(k, s->node, 0) == NO_ID || kit_may_be_left_out(k->m, x))
    return "signature";
  if (kit_refers(k->m, s->node)) return "attribute_reference";
  if (!kit_attrs_fit(k, s->node, OP_ConvInteger)) return "attributes";
  if (b != NO_ID && kit_may_be_left_out(k->m, b)) return "optional_bias";
  if (!kit_attr_int(k, s->node, "group", 1, &groups)) return "attributes";
  if (!dynamic_weights_find(d, s->node, 1, false, &s->weights[0], &why)) {
    if (!d->o->compat || b != NO_ID || kit_is_overridable(k->m, w)) return why;
    const enum dtype t = kit_dtype(k, x);
    if (dynamic_types_differ(d, x, w)) return "weight_dtype";
    s->half = t == DTYPE_FLOAT16;
    return t == DTYPE_FLOAT || s->half ? NULL : "type_unknown";
  }
  s->n_weights = 1;
  s->half = k->m->tensors[s->weights[0].tensor].dtype == DTYPE_FLOAT16;
  const uint32_t rank = dynamic_weights_rank(d, &s->weights[0]);
  if (rank < 3) return "weight_rank";
  int64_t rows = 1;
  for (uint32_t i = 1; i < rank; i++)
    rows *= dynamic_weights_dim(d, &s->weights[0], i);
  if (rows > DYNAMIC_DEEPEST && !d->o->compat) return "too_many_rows";
  return is_depthwise(d, s, groups) && !d->o->compat ? "depthwise" : NULL;
}

static struct dynamic_codes filters_of(struct dynamic *d, const struct dynamic_site *s) {
  // quantize_dynamic never has a scale a filter.
  struct dynamic_as as = dynamic_weights_as(d, s, d->o->compat ? RECIPE_PER_TENSOR : 0,
                                            d->o->compat ? DYNAMIC_PLAIN : DYNAMIC_FILTERS);
  as.zeros = true;
  return s->n_weights ? dynamic_weights_store(d, &s->weights[0], &as)
                      : dynamic_codes_of(d, kit_in(&d->k, s->node, 1));
}

// The bias as what broadcasts over the channels of y.
static uint32_t put_bias(struct dynamic *d, const struct dynamic_site *s, uint32_t bias) {
  struct kit *k = &d->k;
  int64_t shape[RECIPE_MAX_RANK];
  const uint32_t rank = dynamic_weights_rank(d, &s->weights[0]);
  const int64_t dim = rank;
  for (uint32_t i = 0; i < rank; i++)
    shape[i] = i == 1 ? -1 : 1;
  const uint32_t recipe =
      recipe_bytes(k->r, DTYPE_INT64, &dim, 1, span_of(shape, rank * sizeof *shape));
  const struct edit_output to = dynamic_codes_output(d, k->graph, d->y_name, "_bias_reshape_shape");
  const uint32_t list = edit_add_tensor(k->e, k->graph, to.name, recipe);
  return kit_make(k, OP_Reshape, KIT_IN(bias, list), KIT_CALLED(span_str("")),
                  KIT_OUT(dynamic_codes_output(d, k->graph, d->y_name, "_bias_reshape_output")));
}

void dynamic_conv_convert(struct dynamic *d, const struct dynamic_site *s) {
  struct kit *k = &d->k;
  const uint32_t x = kit_in(k, s->node, 0), w = kit_in(k, s->node, 1),
                 bias = dynamic_codes_floats(d, kit_in(k, s->node, 2));
  const struct dynamic_codes a = dynamic_codes_of(d, x), b = filters_of(d, s);
  const uint32_t in[4] = {a.codes, b.codes, a.zero, b.zero};
  struct dynamic_result to = {.as = s->node};
  const uint32_t sums =
      kit_make(k, OP_ConvInteger, KIT_INPUTS(in, 4), KIT_ATTRS_OF(s->node),
               KIT_CALLED(dynamic_codes_called(d, d->node_name, "_quant")),
               KIT_OUT(dynamic_codes_output(d, k->graph, d->y_name, "_output_quantized")));
  if (bias != NO_ID) {
    to.as = NO_ID;
    to.out = dynamic_codes_output(d, k->graph, d->y_name, "quant_scaled_output");
  }
  dynamic_matmul_scaled(d, sums, &a, &b, &to, s->half);
  if (bias != NO_ID) {
    const uint32_t scaled = model_lookup(k->m, k->graph, model_find_name(k->m, to.out.name));
    const uint32_t sum[2] = {scaled, put_bias(d, s, bias)};
    kit_replace(k, s->node, OP_Add, KIT_INPUTS(sum, 2),
                KIT_CALLED(kit_names_join(d->y_name, "_bias_add", &k->site)));
  }
  dead_ends_drop(k->e, w);
}
