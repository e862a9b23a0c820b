// Functions of the rules that infer_rules.def names, and what families of them share.
#ifndef WEIR_INFER_RULES_H
#define WEIR_INFER_RULES_H

#include "infer_site.h"

// rules_elementwise.c
infer_rule infer_same, infer_bool_like, infer_broadcasting, infer_broadcasting_quantized,
    infer_multiply_integers, infer_multi_threshold, infer_where_quantized, infer_compare,
    infer_where, infer_cast, infer_cast_like, infer_quantize, infer_dequantize,
    infer_dynamic_quantize;

// rules_move.c
infer_rule infer_constant, infer_shape, infer_size, infer_constant_of_shape, infer_range,
    infer_reshape, infer_flatten, infer_squeeze, infer_unsqueeze, infer_transpose, infer_expand,
    infer_concat, infer_gather, infer_slice;

// rules_index.c
infer_rule infer_split, infer_tile, infer_pad, infer_center_crop_pad, infer_space_to_depth,
    infer_depth_to_space, infer_expand_dims, infer_qlinear_concat, infer_gather_elements,
    infer_gather_nd, infer_gather_block_quantized, infer_one_hot, infer_top_k, infer_nonzero,
    infer_compress, infer_unique, infer_non_max_suppression, infer_random, infer_random_like,
    infer_multinomial;

// rules_control.c
infer_steps infer_if, infer_loop, infer_scan, infer_sequence_map;
infer_rule infer_sequence_empty, infer_sequence_construct, infer_sequence_insert,
    infer_sequence_erase, infer_element, infer_sequence_length, infer_split_to_sequence,
    infer_concat_from_sequence, infer_optional, infer_optional_has_element;

// rules_window.c
infer_rule infer_conv, infer_conv_channels_last, infer_conv_quantized, infer_conv_transpose,
    infer_conv_transpose_padded, infer_pool, infer_pool_channels_last, infer_pool_quantized,
    infer_pool_global, infer_pool_global_quantized, infer_max_unpool, infer_max_roi_pool,
    infer_roi_align, infer_crop_and_resize, infer_col2im, infer_causal_conv;

// rules_reduce.c
infer_rule infer_reduce, infer_reduce_arg, infer_loss;

// rules_matmul.c
infer_rule infer_matmul, infer_matmul_quantized, infer_matmul_fused, infer_matmul_blocks,
    infer_gemm, infer_gemm_float8, infer_gemm_quantized, infer_einsum, infer_distances;

// rules_resize.c
infer_rule infer_resize, infer_upsample, infer_grid_sample, infer_affine_grid;

// rules_recurrent.c
infer_rule infer_recurrent;

// rules_norms.c
infer_rule infer_dropout, infer_layer_norm, infer_batch_norm, infer_skip_norm, infer_optimizer,
    infer_half, infer_gated_halves;

// rules_attention.c
infer_rule infer_attention, infer_attention_projected, infer_multi_head_attention,
    infer_group_query_attention, infer_embed_layer_norm, infer_linear_attention, infer_gated_delta,
    infer_dynamic_sparse;
infer_steps infer_flex_attention;

// rules_picked.c
infer_rule infer_picked, infer_unfold, infer_hash, infer_streams, infer_group_router,
    infer_norm_rotary, infer_packed_indexer, infer_prefix_commit;

// rules_signal.c
infer_rule infer_dft, infer_stft, infer_mel_weights, infer_window_function, infer_det,
    infer_image_decoder;

// rules_ml.c
infer_rule infer_ml_float, infer_label_encoder, infer_ml_classifier, infer_ml_regressor,
    infer_tree_ensemble, infer_one_hot_encoder, infer_feature_vectorizer, infer_array_feature,
    infer_zip_map, infer_dict_vectorizer, infer_cast_map, infer_category_mapper, infer_tf_idf,
    infer_string_split, infer_string_normalizer;

// ---- numbers of small values ---------------------------------------------------------------------

// A number as lists hold it; NO_ID: not known.
struct infer_number infer_number_of(struct infer_site *s, int64_t n);
static inline struct infer_number infer_no_number(void) {
  return (struct infer_number){NO_ID, 1};
}
static inline struct infer_number *infer_number_room(struct infer_site *s, uint32_t n) {
  struct infer_number *out = arena_alloc(s->a, n * sizeof *out + 1);
  for (uint32_t i = 0; i < n; i++)
    out[i] = infer_no_number();
  return out;
}
// Is it the number n, is it not, is that not known?
enum dims_answer infer_is(struct infer_site *s, struct infer_number x, int64_t n);
// The elements that an operand of a broadcast has: element i of the result is at[of(i)]. Dims of both are
// numbers.
struct infer_spread {
  const int64_t *dims; // of the result
  uint32_t rank;
  int64_t step[INFER_RANK_MAX]; // of the operand for a step along each of them; 0 where it repeats
};
bool infer_spread(struct infer_site *s, const struct infer_type *operand, const int64_t *dims,
                  uint32_t rank, struct infer_spread *out);
uint32_t infer_spread_at(const struct infer_spread *p, uint32_t i);
// Dims as numbers; false if one is not. In s->a.
bool infer_static(struct infer_site *s, const struct infer_type *t, const int64_t **dims);
// The product of dims, if it is at most INFER_LIST.
bool infer_list_size(const int64_t *dims, uint32_t rank, uint32_t *n);

// The dim of a Reshape that is -1; of the others none is unknown. NO_ID: not known.
dim_id infer_open_dim(struct infer_site *s, const struct infer_type *x, const dim_id *dims,
                      uint32_t rank, uint32_t open);
// False, and the node is invalid, where both sizes are known and differ.
bool infer_same_size(struct infer_site *s, const struct infer_type *x, const dim_id *dims,
                     uint32_t rank);
// Type and elements of a tensor of the model; its first element.
void infer_of_tensor(struct infer_site *s, uint32_t slot, uint32_t tensor);
struct infer_number infer_tensor_number(struct infer_site *s, uint32_t tensor);
int64_t infer_to_end(const struct infer_site *s); // infer_options

// Of a Loop: is at least one trip proved?
bool infer_runs_once(struct infer_site *s);

#endif
