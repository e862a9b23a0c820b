// Rules of inference for Fourier transforms and what belongs to them, determinants, images.
#include "infer/inside/infer_rules.h"

// A size that an input gives as its only element; NO_ID: it is not known.
static dim_id size_in(struct infer_site *s, uint32_t slot) {
  const dim_id *list;
  uint32_t n;
  if (infer_whole(s, slot, &list, &n) && n == 1) return list[0];
  s->why = INFER_WHY_DATA;
  return NO_ID;
}

static dim_id half(struct infer_site *s, dim_id n) {
  return dims_add(s->d, dims_floor_div(s->d, n, infer_size_of(s, 2)), infer_one(s));
}

// The axis is transformed to dft_length elements, or to half of them; complex numbers are pairs in the last
// dim. Back from one half: real numbers.
void infer_dft(struct infer_site *s) {
  struct infer_type x;
  int64_t axis = -2, onesided, inverse;
  uint32_t at;
  infer_in(s, 0, &x);
  if (!infer_known(s,
                   x.ranked && infer_attr_int(s, "onesided", 0, &onesided) &&
                       infer_attr_int(s, "inverse", 0, &inverse),
                   x.dtype))
    return;
  if (infer_invalid_if(s, x.rank < 2, "the input has %u dim%s", x.rank, plural(x.rank))) return;
  bool known = true;
  if (s->version < 20)
    known = infer_attr_int(s, "axis", 1, &axis);
  else if (infer_has(s, 2))
    known = infer_int(s, 2, &axis);
  dim_id *dims = infer_dim_room(s, x.rank);
  const bool real = onesided && inverse;
  const bool as_long = !onesided && !infer_has(s, 1); // whichever axis it is
  if (!known && !as_long) {
    s->why = INFER_WHY_DATA;
    dims[x.rank - 1] = infer_size_of(s, real ? 1 : 2);
    infer_out_dims(s, 0, x.dtype, dims, x.rank);
    return;
  }
  if (!known) axis = 0;
  if (!infer_axis(s, axis, x.rank, &at)) return;
  if (infer_invalid_if(s, at + 1 == x.rank, "axis %u holds the parts of complex numbers", at))
    return;
  for (uint32_t i = 0; i + 1 < x.rank; i++)
    dims[i] = x.dims[i];
  dims[x.rank - 1] = infer_size_of(s, real ? 1 : 2);
  if (real && !infer_has(s, 1))
    dims[at] = dims_mul(s->d, dims_sub(s->d, dims[at], infer_one(s)), infer_size_of(s, 2));
  if (infer_has(s, 1)) dims[at] = size_in(s, 1);
  if (onesided && !inverse) dims[at] = half(s, dims[at]);
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
}

// [B, frames, frequencies, 2]
void infer_stft(struct infer_site *s) {
  struct infer_type x, window;
  int64_t onesided, by;
  infer_in(s, 0, &x);
  infer_in(s, 2, &window);
  if (!infer_attr_int(s, "onesided", 1, &onesided)) return;
  dim_id frame = NO_ID;
  if (infer_has(s, 3))
    frame = size_in(s, 3);
  else if (window.ranked && window.rank == 1)
    frame = window.dims[0];
  const dim_id step = size_in(s, 1);
  dim_id dims[4] = {infer_dim(&x, 0), NO_ID, onesided ? half(s, frame) : frame,
                    infer_size_of(s, 2)};
  if (step != NO_ID && dims_is_number(s->d, step, &by) && by > 0) {
    const dim_id rest = dims_sub(s->d, infer_dim(&x, 1), frame);
    dims[1] = dims_add(s->d, dims_floor_div(s->d, rest, step), infer_one(s));
  }
  infer_out_dims(s, 0, x.dtype, dims, 4);
}

static enum dtype output_datatype(struct infer_site *s) {
  int64_t dtype;
  const bool known =
      infer_attr_int(s, "output_datatype", DTYPE_FLOAT, &dtype) && dtype_known(dtype);
  return known ? (enum dtype)dtype : DTYPE_UNDEFINED;
}

void infer_mel_weights(struct infer_site *s) {
  const dim_id dims[2] = {half(s, size_in(s, 1)), size_in(s, 0)};
  infer_out_dims(s, 0, output_datatype(s), dims, 2);
}

// Hann, Hamming, Blackman.
void infer_window_function(struct infer_site *s) {
  const dim_id size = size_in(s, 0);
  infer_out_dims(s, 0, output_datatype(s), &size, 1);
}

// Of the matrices in the last two dims.
void infer_det(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  if (!infer_known(s, x.ranked, x.dtype)) return;
  if (infer_invalid_if(s, x.rank < 2, "the input has %u dim%s", x.rank, plural(x.rank))) return;
  infer_same_dim(s, infer_dim(&x, -1), infer_dim(&x, -2));
  if (s->why != INFER_WHY_INVALID) infer_out_dims(s, 0, x.dtype, x.dims, x.rank - 2);
}

// [height, width, channels]
void infer_image_decoder(struct infer_site *s) {
  struct span format;
  if (!infer_attr_string(s, "pixel_format", "RGB", &format)) return;
  s->why = INFER_WHY_DATA;
  const dim_id channels = infer_size_of(s, span_is(format, "Grayscale") ? 1 : 3);
  infer_out_dims(s, 0, DTYPE_UINT8, (const dim_id[3]){NO_ID, NO_ID, channels}, 3);
}
