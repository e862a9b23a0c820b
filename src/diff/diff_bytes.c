// Bytes of the two .onnx files, side by side, in pieces.
#include "diff_parts.h"

enum { PIECE = 4096 };

int diff_bytes_differ(struct diff *d, struct place a, struct place b, bool *differ,
                      struct err *err) {
  uint8_t x[PIECE], y[PIECE];
  *differ = a.len != b.len;
  for (uint64_t at = 0; at < a.len && !*differ; at += PIECE) {
    const size_t n = (size_t)min_u64(PIECE, a.len - at);
    d->steps++;
    if (d->read(d->ctx, DIFF_A, a.off + at, x, n, err)) return -1;
    if (d->read(d->ctx, DIFF_B, b.off + at, y, n, err)) return -1;
    *differ = memcmp(x, y, n) != 0;
  }
  return 0;
}

int diff_bytes_kept(struct diff *d, enum kept_of of, uint32_t a, uint32_t b, bool *differ,
                    struct err *err) {
  uint32_t na, nb;
  const struct model_kept_field *x = model_kept_fields(d->m[DIFF_A], of, a, &na);
  const struct model_kept_field *y = model_kept_fields(d->m[DIFF_B], of, b, &nb);
  *differ = na != nb;
  for (uint32_t i = 0; i < na && !*differ; i++)
    if (diff_bytes_differ(d, x[i].at, y[i].at, differ, err)) return -1;
  return 0;
}
