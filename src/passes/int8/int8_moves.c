// Where the channels of a value are in the input of its maker, if only moved:
//
//   x [N,C,H,W] ── Transpose(0,2,3,1) ── Reshape ─▶ t [N·H·W,C]          channels of t: those of x along axis 1
//
// A Reshape keeps an axis whole where one of the same length has as many elements before it, or after it, as that has.
#include "passes/int8/int8.h"

static bool from_front(struct kit *k, uint32_t value, int64_t *axis) {
  uint32_t rank;
  if (*axis >= 0) return true;
  if (!kit_rank(k, value, &rank) || *axis + rank < 0) return false;
  *axis += rank;
  return true;
}

// Have axes [from, from + n) of a and b the same lengths together?
static bool same_run(struct kit *k, uint32_t a, int64_t a_from, int64_t a_n, uint32_t b,
                     int64_t b_from, int64_t b_n) {
  bool same = a_n == b_n;
  for (int64_t i = 0; i < a_n && same; i++)
    same = kit_dim_equal(kit_dim(k, a, a_from + i), kit_dim(k, b, b_from + i));
  if (same) return true;
  int64_t product[2] = {1, 1};
  for (int64_t i = 0; i < a_n; i++)
    if (__builtin_mul_overflow(product[0], kit_dim(k, a, a_from + i).value, &product[0]) ||
        kit_dim(k, a, a_from + i).value < 1)
      return false;
  for (int64_t i = 0; i < b_n; i++)
    if (__builtin_mul_overflow(product[1], kit_dim(k, b, b_from + i).value, &product[1]) ||
        kit_dim(k, b, b_from + i).value < 1)
      return false;
  return product[0] == product[1];
}

// The axis of the input of a Reshape (Squeeze …) that is this axis of its output.
static bool through_reshape(struct kit *k, uint32_t in, uint32_t out, int64_t *axis) {
  uint32_t from, to;
  if (!kit_rank(k, in, &from) || !kit_rank(k, out, &to)) return false;
  const struct model_dim length = kit_dim(k, out, *axis);
  for (int64_t j = 0; j < from; j++)
    if (kit_dim_equal(kit_dim(k, in, j), length) &&
        (same_run(k, in, 0, j, out, 0, *axis) ||
         same_run(k, in, j + 1, from - j - 1, out, *axis + 1, to - *axis - 1))) {
      *axis = j;
      return true;
    }
  return false;
}

bool int8_moved_from(struct kit *k, struct int8_channels *p) {
  const uint32_t node = kit_maker(k, p->value), in = kit_in(k, node, 0);
  const int64_t *perm;
  uint32_t n;
  if (in == NO_ID || kit_out(k, node, 0) != p->value) return false;
  switch (kit_op(k, node)) {
  case OP_Identity: break;
  case OP_Transpose:
    if (!kit_perm(k, node, &perm, &n) || !from_front(k, p->value, &p->axis) || p->axis >= n)
      return false;
    p->axis = perm[p->axis];
    break;
  case OP_Reshape:
  case OP_Flatten:
  case OP_Squeeze:
  case OP_Unsqueeze:
    if (!from_front(k, p->value, &p->axis) || !through_reshape(k, in, p->value, &p->axis))
      return false;
    break;
  default: return false;
  }
  p->value = in;
  return true;
}

bool int8_same_axis(struct kit *k, const struct int8_channels *p, int32_t axis) {
  int64_t a = p->axis, b = axis;
  if (a == b) return true;
  return from_front(k, p->value, &a) && from_front(k, p->value, &b) && a == b;
}
