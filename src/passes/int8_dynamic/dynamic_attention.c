// Attention and EmbedLayerNormalization of com.microsoft, as QAttention and QEmbedLayerNormalization.
//
//   x, W ─▶ DynamicQuantizeLinear(x), W_quantized ─▶ QAttention(bias, scales, mask, zero points, past)
//   five tables ─▶ uint8, a scale and a zero point each ─▶ QEmbedLayerNormalization
//
// What the quantized operators have no input or attribute for stays (quantize_dynamic drops position ids and biases of scores).
#include "passes/int8_dynamic/inside/dynamic.h"
#include "passes/kit/dead_ends.h"

static bool is_left(struct dynamic *d, uint32_t node, uint32_t from) {
  return kit_n_in(&d->k, node) <= from;
}

// ---- Attention ---------------------------------------------------------------------------------

const char *dynamic_attention_match(struct dynamic *d, struct dynamic_site *s) {
  struct kit *k = &d->k;
  struct kit_attr sizes;
  const char *why;
  if (!is_left(d, s->node, 5) || kit_in(k, s->node, 0) == NO_ID || kit_in(k, s->node, 2) == NO_ID)
    return "inputs";
  if (kit_refers(k->m, s->node)) return "attribute_reference";
  if (!kit_attrs_fit(k, s->node, OP_ms_QAttention) ||
      kit_attr(k, s->node, "qkv_hidden_sizes", &sizes) != KIT_ABSENT ||
      kit_attr(k, s->node, "rotary_embedding_dim", &sizes) == KIT_GIVEN)
    return "attributes";
  if (!dynamic_weights_find(d, s->node, 1, false, &s->weights[0], &why)) return why;
  if (dynamic_weights_rank(d, &s->weights[0]) != 2) return "weight_rank";
  if (k->m->tensors[s->weights[0].tensor].dtype != DTYPE_FLOAT) return "not_float32";
  s->n_weights = 1;
  return NULL;
}

void dynamic_attention_convert(struct dynamic *d, const struct dynamic_site *s) {
  struct kit *k = &d->k;
  struct dynamic_as as = dynamic_weights_as(d, s, 1, DYNAMIC_PLAIN);
  const uint32_t w = kit_in(k, s->node, 1);
  as.zeros = true;
  const struct dynamic_codes a = dynamic_codes_of(d, kit_in(k, s->node, 0));
  const struct dynamic_codes b = dynamic_weights_store(d, &s->weights[0], &as);
  const uint32_t in[9] = {a.codes, b.codes, kit_in(k, s->node, 2),
                          a.scale, b.scale, kit_in(k, s->node, 3),
                          a.zero,  b.zero,  kit_in(k, s->node, 4)};
  kit_import(k, k->graph, "com.microsoft", 1);
  kit_replace(k, s->node, OP_ms_QAttention, KIT_INPUTS(in, in[8] == NO_ID ? 8 : 9),
              KIT_ATTRS_OF(s->node), KIT_CALLED(dynamic_codes_called(d, d->node_name, "_quant")));
  dead_ends_drop(k->e, w);
}

// ---- EmbedLayerNormalization -------------------------------------------------------------------

enum { TABLES = 5, FIRST = 2, MASK = 7 };

const char *dynamic_attention_match_embed(struct dynamic *d, struct dynamic_site *s) {
  struct kit *k = &d->k;
  struct kit_attr type;
  const char *why;
  if (kit_n_out(k, s->node) > 2) return "outputs";
  if (!is_left(d, s->node, MASK + 1)) return "inputs";
  if (kit_refers(k->m, s->node)) return "attribute_reference";
  if (!kit_attrs_fit(k, s->node, OP_ms_QEmbedLayerNormalization)) return "attributes";
  if (kit_attr(k, s->node, "mask_index_type", &type) == KIT_GIVEN) return "attributes";
  for (uint32_t i = 0; i < TABLES; i++) {
    if (kit_in(k, s->node, FIRST + i) == NO_ID) continue;
    if (!dynamic_weights_find(d, s->node, FIRST + i, false, &s->weights[i], &why)) return why;
    if (k->m->tensors[s->weights[i].tensor].dtype != DTYPE_FLOAT) return "not_float32";
  }
  s->n_weights = TABLES;
  return NULL;
}

void dynamic_attention_convert_embed(struct dynamic *d, const struct dynamic_site *s) {
  struct kit *k = &d->k;
  const struct dynamic_as as = dynamic_weights_as_activation(d);
  uint32_t in[18], old[TABLES];
  in[0] = kit_in(k, s->node, 0);
  in[1] = kit_in(k, s->node, 1);
  in[MASK] = kit_in(k, s->node, MASK);
  for (uint32_t i = 0; i < TABLES; i++) {
    struct dynamic_codes t = {NO_ID, NO_ID, NO_ID, false, false};
    old[i] = kit_in(k, s->node, FIRST + i);
    if (old[i] != NO_ID) t = dynamic_weights_store(d, &s->weights[i], &as);
    in[FIRST + i] = t.codes;
    in[MASK + 1 + i] = t.scale;
    in[MASK + 1 + TABLES + i] = t.zero;
  }
  kit_import(k, k->graph, "com.microsoft", 1);
  kit_replace(k, s->node, OP_ms_QEmbedLayerNormalization, KIT_INPUTS(in, 18), KIT_ATTRS_OF(s->node),
              KIT_CALLED(dynamic_codes_called(d, d->node_name, "_quant")));
  for (uint32_t i = 0; i < TABLES; i++)
    if (old[i] != NO_ID) dead_ends_drop(k->e, old[i]);
}
