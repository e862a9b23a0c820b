// Rules of inference for operators that give tensors back as large as they came, and others beside them: masks, means,
// deviations.
#include "infer/inside/infer_rules.h"

// The mask has the dims of the data.
void infer_dropout(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  infer_out(s, 0, &x);
  x.dtype = infer_dtype_by_signature(s, 1);
  infer_out(s, 1, &x);
}

// Means and deviations: dims from the axis on are 1, in the type of the sums.
void infer_layer_norm(struct infer_site *s) {
  struct infer_type x;
  int64_t axis, stash;
  uint32_t at;
  infer_in(s, 0, &x);
  const enum dtype own = x.dtype;
  x.dtype = infer_dtype_by_signature(s, 0);
  if (x.dtype == DTYPE_UNDEFINED) x.dtype = own;
  if (!infer_attr_int(s, "axis", -1, &axis) || !infer_attr_int(s, "stash_type", 1, &stash)) {
    infer_out(s, 0, &x);
    return;
  }
  const enum dtype sums = dtype_known(stash) ? (enum dtype)stash : DTYPE_UNDEFINED;
  if (!x.ranked) {
    infer_out(s, 0, &x);
    for (uint32_t i = 1; i < s->n_out; i++)
      infer_out_dtype(s, i, sums);
    return;
  }
  if (!infer_axis(s, axis, x.rank, &at)) return;
  infer_out(s, 0, &x);
  dim_id *dims = infer_dim_room(s, x.rank);
  for (uint32_t i = 0; i < x.rank; i++)
    dims[i] = i < at ? x.dims[i] : infer_one(s);
  for (uint32_t i = 1; i < s->n_out; i++)
    infer_out_dims(s, i, sums, dims, x.rank);
}

// Means and variances: one for each channel.
void infer_batch_norm(struct infer_site *s) {
  struct infer_type x, scale;
  int64_t spatial;
  infer_in(s, 0, &x);
  infer_in(s, 1, &scale);
  if (!infer_attr_int(s, "spatial", 1, &spatial)) return;
  if (spatial && x.ranked && x.rank >= 2 && scale.ranked && scale.rank == 1)
    infer_same_dim(s, x.dims[1], scale.dims[0]);
  if (s->why == INFER_WHY_INVALID) return;
  infer_out(s, 0, &x);
  for (uint32_t i = 1; i < s->n_out; i++) {
    scale.dtype = infer_dtype_by_signature(s, i);
    infer_out(s, i, &scale);
  }
}

// The sum of both inputs, where it is an output: the last one, of the input's type.
void infer_skip_norm(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  infer_out(s, 0, &x);
  if (!s->signature) return;
  const uint32_t sum = s->signature->n_outputs - 1u;
  if (sum < s->n_out) infer_out(s, sum, &x);
}

// Adagrad, Adam, Momentum: behind two scalars tensors, gradients and states, as many of each; tensors and
// states come back.
void infer_optimizer(struct infer_site *s) {
  const uint32_t kinds = strcmp(s->op->name, "Adam") == 0 ? 4 : 3;
  if (infer_invalid_if(s, s->n_in < 2 || (s->n_in - 2) % kinds != 0, "it has %u input%s", s->n_in,
                       plural(s->n_in)))
    return;
  const uint32_t each = (s->n_in - 2) / kinds;
  for (uint32_t i = 0; i < s->n_out && i < each * (kinds - 1); i++) {
    struct infer_type t;
    infer_in(s, 2 + i + (i >= each ? each : 0), &t);
    infer_out(s, i, &t);
  }
}

// One half of the last dim is a gate for the other.
void infer_half(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  if (!infer_known(s, x.ranked && x.rank > 0, x.dtype)) return;
  dim_id *dims = infer_dim_room(s, x.rank);
  memcpy(dims, x.dims, x.rank * sizeof *dims);
  dims[x.rank - 1] = dims_exact_div(s->d, dims[x.rank - 1], infer_size_of(s, 2));
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
}

// Both come as inputs, or as the halves of one.
void infer_gated_halves(struct infer_site *s) {
  (infer_has(s, 1) ? infer_same : infer_half)(s);
}
