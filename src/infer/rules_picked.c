// Rules of inference for operators, most of them of com.microsoft, whose dims are those of inputs, attributes and small
// values, put together: a text for each output says how.
//
//   "1.0 1.1 0.-1"      dims 0 and 1 of input 1, the last one of input 0
//   "=0 2.1"            all dims of input 0, then one more
//   "<0 @N"             all dims of input 0 but the last, then the attribute N
//   "2 #1 #3:1"         a 2, the first element of input 1, the element 1 of input 3
//   "? @heads*0.3 1.0+1 @size-1"   not known before the run; a product; one more, one less
//   "1.1-@size/2"       from left to right; a quotient without a remainder
//
// A dim that is not there, and an attribute without a default that is absent, is not known. The dtype is the signature's.
#include "infer/inside/infer_rules.h"

#include <stdlib.h>

enum { PICKED_OUTPUTS = 9 };

static const struct picked {
  const char *name;
  const char *outputs[PICKED_OUTPUTS];
} table[] = {
    {"Any", {""}},
    {"BitmaskBiasDropout", {"=0", "?"}},
    {"BitmaskDropout", {"=0", "?"}},
    {"ConvStateReplay", {"=2"}},
    {"DecoderAttention", {"=0", "0.1 @num_heads ? ?", "0.1 @num_heads ? ?"}},
    {"DecoderMaskedSelfAttention", {"0.0 0.1 ?", "2 0.0 @num_heads ? ?"}},
    {"DequantizeWithOrder", {"=0"}},
    {"DynamicTimeWarping", {"2 ?"}},
    {"EngramGate", {"=0", "=0"}},
    {"GatedDeltaNetStateReplay", {"=2"}},
    {"GatedRelativePositionBias", {"? @num_heads 2.2 2.3"}},
    {"GatherPacked", {"=1 @K"}},
    {"GemmaRotaryEmbedding", {"=1", "=3"}},
    {"HyperConnectionLowRankMix", {"<0 0.-1/@num_branches", "<0 @num_branches", "=0"}},
    {"Im2Col", {"0.0 =1"}},
    {"IsAllFinite", {""}},
    {"LinearAttentionGate", {"=0", "=0"}},
    {"Mamba2Verify", {"0.0 8.0", "=1", "=2", "0.0 1.1", "0.0 8.0"}},
    {"MatMulBlockQuantizedFp4Weight", {"<0 1.0"}},
    {"MatMulBlockQuantizedFp8Weight", {"<0 1.0"}},
    {"MatMulFpQ4", {"<0 #2:1"}},
    {"MatMulNBitsMlp", {"<0 @N", "=0"}},
    {"MatMulNBitsQLoRA", {"<0 @N"}},
    {"MatMulNBitsQkv", {"<0 @Nq", "<0 @Nkv", "<0 @Nkv", "=0"}},
    {"MatMulPacked", {"<0 @N"}},
    {"NGramHashMapping", {"0.0 0.1 2.0", "0.0 @max_ngram_size-1"}},
    {"NGramRepeatBlock", {"=1"}},
    {"PackedAttention", {"0.0 ?"}},
    {"PackedMultiHeadAttention", {"0.0 ?"}},
    {"PackedSparseAttentionIndexerMerge", {"2.0 @max_output_entries", "2.0", "2.0"}},
    {"PagedAttention", {"0.0 ?", "=3", "=4"}},
    {"QOrderedAttention", {"0.0 0.1 ?"}},
    {"QuantizeWithOrder", {"=0"}},
    {"RelativePositionBias", {"1 0.1 #1 #2"}},
    {"RemovePadding", {"? 0.2", "0.0 0.1", "1.0+1", "1"}},
    {"RestorePadding", {"1.0 1.1 0.1"}},
    {"RouterGateUpProj", {"<0 @router_size", "<0 1.1-@router_size/2"}},
    {"SparseAttention", {"0.0 0.1 @num_heads*3.3", "=3", "=4"}},
    {"SparsePagedAttention", {"0.0 ?", "=3", "=4"}},
    {"Tokenizer", {"=0 ?"}},
    {"TorchEmbedding", {"=1 0.1"}},
    {"VarlenCausalConvWithState", {"=0", "=4", "4.0 @state_update_capacity 4.1"}},
    {"VarlenNGramHashMapping", {"0.0 2.0", "3.0-1 @max_ngram_size-1"}},
    {"WordConvEmbedding", {"0.0 1.0"}},
};

// ---- a dim -------------------------------------------------------------------------------------

static dim_id attribute_dim(struct infer_site *s, const char **at) {
  char name[32];
  uint32_t n = 0;
  int64_t value;
  for (++*at; **at == '_' || (**at >= 'A' && **at <= 'z'); ++*at)
    if (n + 1 < sizeof name) name[n++] = **at;
  name[n] = 0;
  if (infer_attr_int(s, name, -1, &value) && value >= 0) return infer_size_of(s, value);
  s->why = INFER_WHY_ATTRIBUTE;
  return NO_ID;
}

static dim_id element_dim(struct infer_site *s, const char **at) {
  const struct infer_number *list;
  uint32_t n;
  const uint32_t slot = (uint32_t)strtoull(*at + 1, (char **)at, 10);
  const uint32_t i = **at == ':' ? (uint32_t)strtoull(*at + 1, (char **)at, 10) : 0;
  s->why = INFER_WHY_DATA;
  if (!infer_list(s, slot, &list, &n) || i >= n || list[i].num == NO_ID || list[i].den != 1)
    return NO_ID;
  return list[i].num;
}

// An input's dim, or a number.
static dim_id input_dim(struct infer_site *s, const char **at) {
  struct infer_type x;
  const int64_t n = strtoll(*at, (char **)at, 10);
  if (**at != '.') return infer_size_of(s, n);
  const int64_t i = strtoll(*at + 1, (char **)at, 10);
  infer_in(s, (uint32_t)n, &x);
  return infer_dim(&x, (int32_t)i);
}

static dim_id one_of(struct infer_site *s, const char **at) {
  if (**at == '@') return attribute_dim(s, at);
  if (**at == '#') return element_dim(s, at);
  if (**at != '?') return input_dim(s, at);
  ++*at;
  s->why = INFER_WHY_DATA;
  return NO_ID;
}

static dim_id picked_dim(struct infer_site *s, const char **at) {
  dim_id d = one_of(s, at);
  while (**at && **at != ' ') {
    const char how = *(*at)++;
    const dim_id by = one_of(s, at);
    d = how == '*'   ? dims_mul(s->d, d, by)
        : how == '+' ? dims_add(s->d, d, by)
        : how == '-' ? dims_sub(s->d, d, by)
                     : dims_exact_div(s->d, d, by);
  }
  return d;
}

// ---- an output -----------------------------------------------------------------------------------

static void pick(struct infer_site *s, uint32_t slot, const char *at) {
  dim_id *dims = infer_dim_room(s, INFER_RANK_MAX);
  uint32_t rank = 0;
  for (; *at; at += *at == ' ') {
    struct infer_type x;
    if (*at != '=' && *at != '<') {
      dims[rank++] = picked_dim(s, &at);
      continue;
    }
    const bool all = *at == '=';
    infer_in(s, (uint32_t)strtoull(at + 1, (char **)&at, 10), &x);
    if (!x.ranked || x.rank + 4 > INFER_RANK_MAX || x.rank + all == 0) {
      infer_out_dtype(s, slot, DTYPE_UNDEFINED);
      return;
    }
    for (uint32_t i = 0; i + !all < x.rank; i++)
      dims[rank++] = x.dims[i];
  }
  infer_out_dims(s, slot, DTYPE_UNDEFINED, dims, rank);
}

static void pick_all(struct infer_site *s, const char *const outputs[PICKED_OUTPUTS]) {
  for (uint32_t i = 0; i < s->n_out && i < PICKED_OUTPUTS; i++)
    if (outputs[i]) pick(s, i, outputs[i]);
}

void infer_picked(struct infer_site *s) {
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (strcmp(table[i].name, s->op->name) == 0) pick_all(s, table[i].outputs);
}

// ---- more than that --------------------------------------------------------------------------------

// All pieces of `size` elements, `step` apart; they lie in a dim behind the others.
void infer_unfold(struct infer_site *s) {
  struct infer_type x;
  int64_t dim, size, step;
  uint32_t at;
  infer_in(s, 0, &x);
  infer_out_dtype(s, 0, x.dtype);
  if (!x.ranked || x.rank >= INFER_RANK_MAX || !infer_attr_int(s, "dim", -1, &dim) ||
      !infer_attr_int(s, "size", 0, &size) || !infer_attr_int(s, "step", 1, &step))
    return;
  if (size < 1 || step < 1) {
    s->why = INFER_WHY_ATTRIBUTE;
    infer_out_dtype(s, 0, x.dtype);
    return;
  }
  if (!infer_axis(s, dim, x.rank, &at)) return;
  dim_id *dims = infer_dim_room(s, x.rank + 1);
  memcpy(dims, x.dims, x.rank * sizeof *dims);
  const dim_id over = dims_sub(s->d, dims[at], infer_size_of(s, size));
  dims[at] = dims_add(s->d, dims_floor_div(s->d, over, infer_size_of(s, step)), infer_one(s));
  dims[x.rank] = infer_size_of(s, size);
  infer_out_dims(s, 0, x.dtype, dims, x.rank + 1);
}

void infer_hash(struct infer_site *s) {
  struct infer_type x;
  int64_t positive;
  infer_in(s, 0, &x);
  x.dtype = DTYPE_UNDEFINED;
  if (infer_attr_int(s, "positive", 1, &positive)) x.dtype = positive ? DTYPE_UINT32 : DTYPE_INT32;
  infer_out(s, 0, &x);
}

// [..., C, H], or [..., C*H] where the attribute says C: the streams become one.
void infer_streams(struct infer_site *s) {
  struct infer_type x;
  int64_t branches;
  infer_in(s, 0, &x);
  infer_out_dtype(s, 0, x.dtype);
  if (!x.ranked || x.rank == 0 || !infer_attr_int(s, "num_branches", 0, &branches)) return;
  const bool flat = branches > 0;
  if (!flat && x.rank < 2) return;
  const uint32_t rank = x.rank - !flat;
  dim_id *dims = infer_dim_room(s, rank);
  memcpy(dims, x.dims, rank * sizeof *dims);
  dims[rank - 1] =
      flat ? dims_exact_div(s->d, dims[rank - 1], infer_size_of(s, branches)) : x.dims[x.rank - 1];
  infer_out_dims(s, 0, x.dtype, dims, rank);
}

// Scores of all experts, a row for each token. With a projection the first input has the tokens, as rows.
void infer_group_router(struct infer_site *s) {
  struct infer_type x, bias;
  infer_in(s, 0, &x);
  infer_in(s, 1, &bias);
  const bool projected = infer_has(s, 2);
  dim_id experts = infer_dim(&bias, 0), rows = NO_ID;
  if (infer_invalid_if(s, x.ranked && x.rank < 2, "its input has %u dim%s", x.rank, plural(x.rank)))
    return;
  if (x.ranked) rows = infer_product(s, x.dims, x.rank - 1);
  if (!projected) experts = infer_same_dim(s, infer_dim(&x, -1), experts);
  for (uint32_t i = 0; i < s->n_out; i++)
    infer_out_dims(s, i, DTYPE_UNDEFINED, (const dim_id[2]){rows, experts}, 2);
}

// [B, S, heads, stride]: a slice of the last axis comes back, heads side by side.
void infer_norm_rotary(struct infer_site *s) {
  struct infer_type x;
  int64_t width, flat, half;
  infer_in(s, 0, &x);
  if (!infer_attr_int(s, "input_width", 0, &width) || !infer_attr_int(s, "flatten_batch", 0, &flat))
    return;
  if (infer_invalid_if(s, x.ranked && x.rank != 4, "its input has %u dim%s", x.rank,
                       plural(x.rank)))
    return;
  dim_id b = infer_dim(&x, 0), length = infer_dim(&x, 1);
  const dim_id heads = infer_dim(&x, 2), size = width ? infer_size_of(s, width) : infer_dim(&x, 3);
  infer_out_dims(s, 1, DTYPE_UNDEFINED, (const dim_id[4]){b, length, heads, size}, 4);
  if (flat) {
    length = dims_mul(s->d, b, length);
    b = infer_one(s);
  }
  const enum dtype dtype = !infer_attr_int(s, "output_fp16", 0, &half) ? DTYPE_UNDEFINED
                           : half                                      ? DTYPE_FLOAT16
                                                                       : DTYPE_BFLOAT16;
  infer_out_dims(s, 0, dtype, (const dim_id[3]){b, length, dims_mul(s->d, heads, size)}, 3);
}

// What is selected has room for all that the policy may select; with selections that are merged, as the attribute says.
void infer_packed_indexer(struct infer_site *s) {
  static const char *const qsa = "0.0 @token_budget+@compress_ratio-1",
                           *const csa = "0.0 @index_topk",
                           *const merged = "0.0 @max_output_entries";
  struct span policy;
  if (!infer_attr_string(s, "policy_mode", "", &policy)) policy = span_of(NULL, 0);
  const char *const selected = infer_has(s, 18)         ? merged
                               : span_is(policy, "qsa") ? qsa
                               : span_is(policy, "csa") ? csa
                                                        : "0.0 ?";
  pick_all(s,
           (const char *const[PICKED_OUTPUTS]){selected, "0.0", "=12", "=13", "=14", "=15",
                                               "12.0 @state_update_capacity 12.2", "0.0", "12.0"});
}

// Rows of one request need no dim for the batch.
void infer_prefix_commit(struct infer_site *s) {
  struct infer_type x;
  const bool ranked = infer_in(s, 0, &x) && x.ranked;
  const char *const batch = !ranked ? "?" : x.rank == 1 ? "1" : "0.0";
  pick_all(s, (const char *const[PICKED_OUTPUTS]){batch, "=3", "=4"});
}
