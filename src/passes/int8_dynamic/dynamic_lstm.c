// LSTM, as com.microsoft's DynamicQuantizeLSTM: the same inputs, weights in codes and transposed.
//
//   W [D,4H,I] ─▶ W_quantized int8 [D,I,4H], W_scale [D,4H] (one scale: [D]), W_zero_point     R likewise
//
// The operator knows no batches in front (layout=1), and is for float32 alone. quantize_dynamic drops the one without a
// word; both stay unchanged here.
#include "passes/int8_dynamic/inside/dynamic.h"
#include "passes/kit/dead_ends.h"

const char *dynamic_lstm_match(struct dynamic *d, struct dynamic_site *s) {
  struct kit *k = &d->k;
  const char *why;
  int64_t layout;
  if (kit_in(k, s->node, 0) == NO_ID) return "signature";
  if (kit_refers(k->m, s->node)) return "attribute_reference";
  if (!kit_attr_int(k, s->node, "layout", 0, &layout)) return "attributes";
  if (layout != 0) return "data_layout";
  if (!kit_attrs_fit(k, s->node, OP_ms_DynamicQuantizeLSTM)) return "attributes";
  for (uint32_t i = 3; i < kit_n_in(k, s->node); i++)
    if (kit_in(k, s->node, i) != NO_ID && kit_may_be_left_out(k->m, kit_in(k, s->node, i)))
      return "signature";
  for (uint32_t i = 0; i < 2; i++) {
    if (!dynamic_weights_find(d, s->node, 1 + i, false, &s->weights[i], &why)) return why;
    if (dynamic_weights_rank(d, &s->weights[i]) != 3) return "weight_rank";
    if (k->m->tensors[s->weights[i].tensor].dtype != DTYPE_FLOAT) return "not_float32";
  }
  s->n_weights = 2;
  return NULL;
}

void dynamic_lstm_convert(struct dynamic *d, const struct dynamic_site *s) {
  struct kit *k = &d->k;
  struct dynamic_as as = dynamic_weights_as(d, s, 1, DYNAMIC_RECURRENT);
  struct kit_attr layout;
  uint32_t in[12], old[2];
  if (as.axis == RECIPE_PER_TENSOR) as.axis = 0; // the directions'
  for (uint32_t i = 0; i < 8; i++)
    in[i] =
        i == 1 || i == 2 ? kit_in(k, s->node, i) : dynamic_codes_floats(d, kit_in(k, s->node, i));
  for (uint32_t i = 0; i < 2; i++) {
    const struct dynamic_codes w = dynamic_weights_store(d, &s->weights[i], &as);
    old[i] = in[1 + i];
    in[1 + i] = w.codes;
    in[8 + 2 * i] = w.scale;
    in[9 + 2 * i] = w.zero;
  }
  // Absent it means what DynamicQuantizeLSTM does, which has no such attribute.
  if (kit_attr(k, s->node, "layout", &layout) == KIT_GIVEN)
    edit_set_attr(k->e, s->node, &(struct edit_attr){.name = "layout", .type = ATTR_UNDEFINED});
  kit_import(k, k->graph, "com.microsoft", 1);
  kit_replace(k, s->node, OP_ms_DynamicQuantizeLSTM, KIT_INPUTS(in, 12), KIT_ATTRS_OF(s->node),
              KIT_CALLED(dynamic_codes_called(d, d->node_name, "_quant")));
  for (uint32_t i = 0; i < 2; i++)
    dead_ends_drop(k->e, old[i]);
}
