// Rules of inference for LSTM, GRU and RNN. With T steps, a batch B, D directions and H hidden ones:
//
//              X          Y              Y_h, Y_c
//   layout 0   [T,B,I]    [T,D,B,H]      [D,B,H]
//   layout 1   [B,T,I]    [B,T,D,H]      [B,D,H]
//
// Weights are [D, gates*H, I], recurrent ones [D, gates*H, H]; of DynamicQuantizeLSTM with the last two dims
// exchanged.
#include "infer/inside/infer_rules.h"

void infer_recurrent(struct infer_site *s) {
  struct infer_type x, w, r;
  int64_t hidden, layout;
  struct span direction;
  infer_in(s, 0, &x);
  infer_in(s, 1, &w);
  infer_in(s, 2, &r);
  if (infer_invalid_if(
          s, (x.ranked && x.rank != 3) || (w.ranked && w.rank != 3) || (r.ranked && r.rank != 3),
          "its input and weights must have 3 dims"))
    return;
  if (!infer_attr_int(s, "hidden_size", -1, &hidden) || !infer_attr_int(s, "layout", 0, &layout) ||
      !infer_attr_string(s, "direction", "forward", &direction))
    return;
  const bool both = span_is(direction, "bidirectional");
  const dim_id t = infer_dim(&x, layout ? 1 : 0), b = infer_dim(&x, layout ? 0 : 1);
  const dim_id d = infer_same_dim(s, infer_size_of(s, both ? 2 : 1),
                                  infer_same_dim(s, infer_dim(&w, 0), infer_dim(&r, 0)));
  const bool exchanged = strcmp(s->op->name, "DynamicQuantizeLSTM") == 0;
  const dim_id h = infer_same_dim(s, hidden > 0 ? infer_size_of(s, hidden) : NO_ID,
                                  infer_dim(&r, exchanged ? 1 : 2));
  if (s->why == INFER_WHY_INVALID) return;
  infer_out_dims(s, 0, x.dtype,
                 layout ? (const dim_id[4]){b, t, d, h} : (const dim_id[4]){t, d, b, h}, 4);
  for (uint32_t i = 1; i < s->n_out && i < 3; i++)
    infer_out_dims(s, i, x.dtype, layout ? (const dim_id[3]){b, d, h} : (const dim_id[3]){d, b, h},
                   3);
}
