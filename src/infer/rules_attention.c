// Rules of inference for attention: heads are packed in the last dim, or have one of their own; caches of keys and values grow.
//
//   result    the dims of the queries, with the last one of the values
//   present   [B, heads of keys, past + new, size of a head]
#include "infer/inside/infer_rules.h"

static dim_id over(struct infer_site *s, dim_id d, int64_t n) {
  return n > 0 ? dims_exact_div(s->d, d, infer_size_of(s, n)) : NO_ID;
}

static dim_id heads_of(struct infer_site *s, int64_t n) {
  return n > 0 ? infer_size_of(s, n) : NO_ID;
}

// A rank that the operator takes; false: another one, or not known.
static bool ranked_as(struct infer_site *s, const struct infer_type *t, uint32_t a, uint32_t b,
                      const char *what) {
  if (!t->ranked) return false;
  if (t->rank == a || t->rank == b) return true;
  infer_invalid(s, "its %s has %u dim%s", what, t->rank, plural(t->rank));
  return false;
}

static void present(struct infer_site *s, uint32_t slot, const struct infer_type *like, dim_id b,
                    dim_id heads, dim_id length, dim_id size) {
  infer_out_dims(s, slot, like->dtype, (const dim_id[4]){b, heads, length, size}, 4);
}

// ---- ai.onnx --------------------------------------------------------------------------------------------

// [B, heads, L, size] of queries, keys or values.
struct heads {
  dim_id b, n, length, size;
};

static struct heads heads_in(struct infer_site *s, const struct infer_type *t, int64_t n) {
  if (!t->ranked || (t->rank != 3 && t->rank != 4))
    return (struct heads){NO_ID, heads_of(s, n), NO_ID, NO_ID};
  if (t->rank == 4) return (struct heads){t->dims[0], t->dims[1], t->dims[2], t->dims[3]};
  return (struct heads){t->dims[0], heads_of(s, n), t->dims[1], over(s, t->dims[2], n)};
}

void infer_attention(struct infer_site *s) {
  struct infer_type q, k, v, past, past_v;
  int64_t q_heads, kv_heads;
  infer_in(s, 0, &q);
  infer_in(s, 1, &k);
  infer_in(s, 2, &v);
  infer_in(s, 4, &past);
  infer_in(s, 5, &past_v);
  if (!infer_attr_int(s, "q_num_heads", 0, &q_heads) ||
      !infer_attr_int(s, "kv_num_heads", 0, &kv_heads))
    return;
  ranked_as(s, &q, 3, 4, "query");
  ranked_as(s, &k, 3, 4, "key");
  ranked_as(s, &v, 3, 4, "value");
  if (s->why == INFER_WHY_INVALID) return;
  const uint32_t rank = q.ranked ? q.rank : v.ranked ? v.rank : k.ranked ? k.rank : 0;
  const struct heads a = heads_in(s, &q, q_heads), b = heads_in(s, &k, kv_heads),
                     c = heads_in(s, &v, kv_heads);
  const dim_id batch = infer_same_dim(s, a.b, infer_same_dim(s, b.b, c.b));
  const dim_id fresh = infer_same_dim(s, b.length, c.length);
  if (s->why == INFER_WHY_INVALID) return;
  if (rank == 4)
    infer_out_dims(s, 0, q.dtype, (const dim_id[4]){batch, a.n, a.length, c.size}, 4);
  else if (rank == 3)
    infer_out_dims(s, 0, q.dtype, (const dim_id[3]){batch, a.length, dims_mul(s->d, a.n, c.size)},
                   3);
  const bool grows = infer_has(s, 4);
  const dim_id before = past.ranked && past.rank == 4 ? infer_dim(&past, 2) : NO_ID;
  const dim_id length = grows ? dims_add(s->d, before, fresh) : fresh;
  present(s, 1, &k, batch, b.n, length, b.size);
  present(s, 2, &v, batch, c.n, length, c.size);
  infer_out_dims(s, 3, q.dtype, (const dim_id[4]){batch, a.n, a.length, length}, 4);
}

// Its bodies change scores, one by one: they are walked for what is in them.
uint32_t infer_flex_attention(struct infer_site *s, uint32_t step) {
  static const char *const bodies[] = {"score_mod", "prob_mod"};
  struct infer_type q, v;
  for (uint32_t i = 0, at = 0; i < 2; i++) {
    const uint32_t graph = infer_attr_graph(s, bodies[i]);
    if (graph != NO_ID && at++ == step) return graph;
  }
  infer_in(s, 0, &q);
  infer_in(s, 2, &v);
  if (ranked_as(s, &q, 4, 4, "query"))
    infer_out_dims(
        s, 0, q.dtype,
        (const dim_id[4]){infer_dim(&q, 0), infer_dim(&q, 1), infer_dim(&q, 2), infer_dim(&v, 3)},
        4);
  return NO_ID;
}

// The state is [B, heads, size of a key, size of a value].
void infer_linear_attention(struct infer_site *s) {
  struct infer_type q, k, v, past;
  int64_t q_heads, kv_heads;
  infer_in(s, 0, &q);
  infer_in(s, 1, &k);
  infer_in(s, 2, &v);
  infer_in(s, 3, &past);
  if (!infer_attr_int(s, "q_num_heads", 0, &q_heads) ||
      !infer_attr_int(s, "kv_num_heads", 0, &kv_heads))
    return;
  if (infer_invalid_if(s, q.ranked && q.rank != 3, "its query has %u dim%s", q.rank,
                       plural(q.rank)))
    return;
  const struct heads a = heads_in(s, &q, q_heads), c = heads_in(s, &v, kv_heads);
  dim_id key = a.size;
  if (past.ranked && past.rank == 4 && key == NO_ID) key = infer_dim(&past, 2);
  infer_out_dims(s, 0, q.dtype,
                 (const dim_id[3]){a.b, a.length, dims_mul(s->d, heads_of(s, q_heads), c.size)}, 3);
  infer_out_dims(s, 1, past.dtype != DTYPE_UNDEFINED ? past.dtype : q.dtype,
                 (const dim_id[4]){a.b, heads_of(s, kv_heads), key, c.size}, 4);
}

// ---- com.microsoft: linear attention, sparse attention ---------------------------------------------------

// Tokens lie side by side, [T, heads, size] or [B, L, heads, size]; the state is [B, heads, size of a value, size of a key].
// Packed, queries, keys and values share the last dim, and the state says which is which.
struct delta {
  struct infer_type q, k, v, decay, state;
  dim_id heads, value, key; // of values
};

// What is kept of a token beside its key: the decay of each head, or of each number of a key.
static dim_id decay_width(struct infer_site *s, const struct delta *a, uint32_t leading) {
  if (!infer_has(s, 4)) return a->heads;
  if (!a->decay.ranked) return NO_ID;
  return a->decay.rank == leading + 1 ? a->heads : dims_mul(s->d, a->heads, a->key);
}

static void delta_updates(struct infer_site *s, const struct delta *a, uint32_t leading, dim_id b) {
  const dim_id values = dims_mul(s->d, a->heads, a->value);
  const dim_id keys = infer_has(s, 1) ? dims_mul(s->d, infer_dim(&a->k, -2), infer_dim(&a->k, -1))
                                      : over(s, dims_sub(s->d, infer_dim(&a->q, -1), values), 2);
  int64_t capacity;
  if (!infer_attr_int(s, "state_update_capacity", 0, &capacity)) return;
  const dim_id each = dims_add(s->d, dims_add(s->d, decay_width(s, a, leading), keys), values);
  infer_out_dims(s, 2, DTYPE_FLOAT,
                 (const dim_id[2]){b, dims_mul(s->d, infer_size_of(s, capacity), each)}, 2);
}

void infer_gated_delta(struct infer_site *s) {
  struct delta a;
  struct infer_type sums;
  infer_in(s, 0, &a.q);
  infer_in(s, 1, &a.k);
  infer_in(s, 2, &a.v);
  infer_in(s, 3, &sums);
  infer_in(s, 4, &a.decay);
  infer_in(s, 6, &a.state);
  const bool packed = !infer_has(s, 1);
  const uint32_t own = packed ? 1 : 2; // dims behind those of tokens
  if (!ranked_as(s, &a.q, own + 1, own + 2, "query") && s->why == INFER_WHY_INVALID) return;
  if (a.state.ranked && !ranked_as(s, &a.state, 4, 4, "state")) return;
  a.heads = packed ? infer_dim(&a.state, 1) : infer_dim(&a.v, -2);
  a.value = packed ? infer_dim(&a.state, 2) : infer_dim(&a.v, -1);
  a.key = packed ? infer_dim(&a.state, 3) : infer_dim(&a.k, -1);
  const dim_id b = infer_has(s, 6)   ? infer_dim(&a.state, 0)
                   : infer_has(s, 3) ? dims_sub(s->d, infer_dim(&sums, 0), infer_one(s))
                                     : NO_ID;
  const uint32_t leading = a.q.ranked ? a.q.rank - own : 0;
  if (leading) {
    const dim_id dims[4] = {a.q.dims[0], leading == 2 ? a.q.dims[1] : a.heads,
                            leading == 2 ? a.heads : a.value, a.value};
    infer_out_dims(s, 0, a.q.dtype, dims, leading + 2);
  } else {
    infer_out_dtype(s, 0, a.q.dtype);
  }
  present(s, 1, &(struct infer_type){.dtype = DTYPE_FLOAT}, b, a.heads, a.value, a.key);
  delta_updates(s, &a, leading, b);
}

// The cache keeps its dims and may have a type of its own. What was not there before grows to a length that data says.
void infer_dynamic_sparse(struct infer_site *s) {
  struct infer_type q, past[2];
  int64_t heads, kv, wide;
  infer_in(s, 0, &q);
  if (!infer_attr_int(s, "num_heads", 0, &heads) || !infer_attr_int(s, "kv_num_heads", 0, &kv) ||
      !infer_attr_int(s, "output_bf16", 0, &wide) || (q.ranked && !ranked_as(s, &q, 3, 3, "query")))
    return;
  const bool packed = !infer_has(s, 1);
  const bool few = heads > 0 && heads < 1 << 20 && kv > 0 && kv < 1 << 20;
  const dim_id size = over(s, infer_dim(&q, 2), !few ? 0 : packed ? heads + 2 * kv : heads);
  const dim_id hidden = packed ? dims_mul(s->d, heads_of(s, heads), size) : infer_dim(&q, 2);
  infer_out_dims(s, 0, wide ? DTYPE_BFLOAT16 : q.dtype,
                 (const dim_id[3]){infer_dim(&q, 0), infer_dim(&q, 1), hidden}, 3);
  for (uint32_t i = 0; i < 2; i++) {
    infer_in(s, 3 + i, &past[i]);
    if (infer_has(s, 3 + i)) {
      infer_out(s, 1 + i, &past[i]);
      continue;
    }
    s->why = INFER_WHY_DATA;
    present(s, 1 + i, &q, infer_dim(&q, 0), heads_of(s, kv), NO_ID, size);
  }
  infer_out_dims(s, 3, DTYPE_INT32, (const dim_id[1]){infer_one(s)}, 1);
}

// ---- com.microsoft ----------------------------------------------------------------------------------------

// Where MultiHeadAttention and its masked form have their inputs.
struct slots {
  uint32_t past_key, past_value, past_length;
};

void infer_multi_head_attention(struct infer_site *s) {
  const bool masked = strcmp(s->op->name, "DecoderMaskedMultiHeadAttention") == 0;
  const struct slots at = masked ? (struct slots){5, 6, 7} : (struct slots){6, 7, 8};
  struct infer_type q, k, v, past, past_v;
  int64_t heads, share;
  infer_in(s, 0, &q);
  infer_in(s, 1, &k);
  infer_in(s, 2, &v);
  infer_in(s, at.past_key, &past);
  infer_in(s, at.past_value, &past_v);
  if (!infer_attr_int(s, "num_heads", 0, &heads) ||
      !infer_attr_int(s, "past_present_share_buffer", 0, &share))
    return;
  if (q.ranked && !ranked_as(s, &q, 3, 5, "query")) return;
  dim_id v_last = NO_ID, size = NO_ID, v_size = NO_ID, fresh = NO_ID;
  if (q.ranked && q.rank == 5) { // [B, L, heads, 3, size]
    size = v_size = infer_dim(&q, 4);
    v_last = dims_mul(s->d, infer_dim(&q, 2), infer_dim(&q, 4));
    fresh = infer_dim(&q, 1);
  } else if (!infer_has(s, 1)) { // packed in the last dim, or not known
    s->why = INFER_WHY_INPUT;
    if (q.ranked && masked) fresh = infer_dim(&q, 1);
  } else if (!infer_has(s, 2)) { // [B, L, heads, 2, size]
    if (k.ranked && k.rank == 5) {
      size = v_size = infer_dim(&k, 4);
      v_last = dims_mul(s->d, infer_dim(&k, 2), infer_dim(&k, 4));
      fresh = infer_dim(&k, 1);
    }
  } else {
    if (v.ranked && v.rank == 3) {
      v_last = infer_dim(&v, 2);
      v_size = over(s, infer_dim(&v, 2), heads);
    } else if (v.ranked && v.rank == 4) {
      v_last = dims_mul(s->d, infer_dim(&v, 1), infer_dim(&v, 3));
      v_size = infer_dim(&v, 3);
    }
    if (k.ranked && k.rank == 3) {
      fresh = infer_dim(&k, 1);
      size = over(s, infer_dim(&k, 2), heads);
    } else if (k.ranked && k.rank == 4) {
      fresh = infer_dim(&k, 2);
      size = infer_dim(&k, 3);
    }
  }
  const dim_id b = infer_dim(&q, 0), length = infer_dim(&q, 1);
  infer_out_dims(s, 0, q.dtype, (const dim_id[3]){b, length, v_last}, 3);
  dim_id all = fresh;
  if (share)
    all = infer_dim(&past, 2);
  else if (infer_has(s, at.past_length)) {
    all = NO_ID; // keys are written into a longer buffer
    s->why = INFER_WHY_DATA;
  } else if (infer_has(s, at.past_key))
    all = dims_add(s->d, past.ranked && past.rank == 4 ? infer_dim(&past, 2) : NO_ID, fresh);
  const dim_id n = heads_of(s, heads);
  if (size == NO_ID && past.ranked && past.rank == 4) size = infer_dim(&past, 3);
  if (v_size == NO_ID && past_v.ranked && past_v.rank == 4) v_size = infer_dim(&past_v, 3);
  present(s, 1, &q, b, n, all, size);
  present(s, 2, &q, b, n, all, v_size);
  if (!share && !infer_has(s, at.past_length))
    infer_out_dims(s, 3, infer_dtype_by_signature(s, 3), (const dim_id[4]){b, n, length, all}, 4);
}

// The cache holds as much as it did, or all tokens.
void infer_group_query_attention(struct infer_site *s) {
  struct infer_type q, v, past, past_v;
  const dim_id *total;
  int64_t heads, kv, window, bits;
  uint32_t n;
  infer_in(s, 0, &q);
  infer_in(s, 2, &v);
  infer_in(s, 3, &past);
  infer_in(s, 4, &past_v);
  if (!infer_attr_int(s, "num_heads", 0, &heads) || !infer_attr_int(s, "kv_num_heads", 0, &kv) ||
      !infer_attr_int(s, "sliding_window_cache", 0, &window) ||
      !infer_attr_int(s, "kv_cache_bit_width", 0, &bits))
    return;
  if (infer_invalid_if(s, q.ranked && q.rank != 3, "its query has %u dim%s", q.rank,
                       plural(q.rank)))
    return;
  const bool packed = !infer_has(s, 1);
  const bool few = heads > 0 && heads < 1 << 20 && kv > 0 && kv < 1 << 20;
  const dim_id size = over(s, infer_dim(&q, 2), !few ? 0 : packed ? heads + 2 * kv : heads);
  const dim_id hidden = packed ? dims_mul(s->d, heads_of(s, heads), size) : infer_dim(&q, 2);
  infer_out_dims(s, 0, q.dtype, (const dim_id[3]){infer_dim(&q, 0), infer_dim(&q, 1), hidden}, 3);
  dim_id length = NO_ID;
  const bool whole = infer_whole(s, 6, &total, &n) && n == 1;
  if (whole && !window) {
    length = total[0];
    if (infer_has(s, 3))
      length = past.ranked && past.rank == 4 ? dims_max(s->d, infer_dim(&past, 2), length) : NO_ID;
  }
  if (!whole) s->why = INFER_WHY_DATA;
  // A quantized cache has its own type, and perhaps two numbers in a byte.
  const enum dtype dtype = infer_dtype_by_signature(s, 1);
  const bool kept = past.ranked && past.rank == 4;
  const struct infer_type cache = {.dtype = dtype != DTYPE_UNDEFINED || infer_has(s, 3) ? dtype
                                                                                        : q.dtype};
  const dim_id cached = kept ? infer_dim(&past, 3) : bits ? NO_ID : size;
  present(s, 1, &cache, infer_dim(&q, 0), heads_of(s, kv), length, cached);
  present(s, 2, &cache, infer_dim(&q, 0), heads_of(s, kv), length, cached);
}

// Attention, QAttention: one matrix makes queries, keys and values.
void infer_attention_projected(struct infer_site *s) {
  const bool quantized = strcmp(s->op->name, "QAttention") == 0;
  struct infer_type x, w, past;
  const int64_t *sizes;
  int64_t heads, share;
  uint32_t n;
  infer_in(s, 0, &x);
  infer_in(s, 1, &w);
  const uint32_t slot = quantized ? 8 : 4;
  infer_in(s, slot, &past);
  const enum dtype dtype = infer_dtype_by_signature(s, 0);
  if (!infer_attr_int(s, "num_heads", 0, &heads) ||
      !infer_attr_ints(s, "qkv_hidden_sizes", &sizes, &n) ||
      !infer_attr_int(s, "past_present_share_buffer", 0, &share))
    return;
  if ((x.ranked && x.rank != 3) || (w.ranked && w.rank != 2)) {
    const bool input = x.ranked && x.rank != 3;
    infer_invalid(s, "its %s %u dim%s", input ? "input has" : "weights have",
                  input ? x.rank : w.rank, plural(input ? x.rank : w.rank));
    return;
  }
  infer_same_dim(s, infer_dim(&x, 2), infer_dim(&w, 0));
  if (s->why == INFER_WHY_INVALID) return;
  const dim_id third = over(s, infer_dim(&w, 1), 3);
  const dim_id hidden = n == 3 ? infer_size_of(s, sizes[2]) : third;
  const dim_id b = infer_dim(&x, 0), length = infer_dim(&x, 1);
  infer_out_dims(s, 0, dtype, (const dim_id[3]){b, length, hidden}, 3);
  dim_id dims[5] = {
      infer_size_of(s, 2), b, heads_of(s, heads), length,
      n == 3 && (sizes[0] != sizes[1] || sizes[1] != sizes[2]) ? NO_ID : over(s, hidden, heads)};
  if (n == 3 && dims[4] == NO_ID) s->why = INFER_WHY_ATTRIBUTE;
  const bool kept = past.ranked && past.rank == 5;
  if (infer_has(s, slot))
    dims[3] = !kept   ? NO_ID
              : share ? infer_dim(&past, 3)
                      : dims_add(s->d, infer_dim(&past, 3), length);
  infer_out_dims(s, 1, dtype, dims, 5);
}

void infer_embed_layer_norm(struct infer_site *s) {
  struct infer_type ids, words;
  infer_in(s, 0, &ids);
  infer_in(s, 2, &words);
  if (infer_invalid_if(s, (ids.ranked && ids.rank != 2) || (words.ranked && words.rank != 2),
                       "its ids and embeddings must have 2 dims"))
    return;
  const dim_id dims[3] = {infer_dim(&ids, 0), infer_dim(&ids, 1), infer_dim(&words, 1)};
  infer_out_dims(s, 0, DTYPE_UNDEFINED, dims, 3);
  infer_out_dims(s, 1, DTYPE_INT32, dims, 1);
  infer_out_dims(s, 2, DTYPE_UNDEFINED, dims, 3);
}
