// Room: transposes of matrices. The reference has plain loops over square blocks, so that the lines
// of both sides stay in the first-level cache while a block is worked on. A block is one cache line
// of elements wide and high; strides that are powers of two put all lines of a column into few
// cache sets, which is why blocks are no larger.
//
//        in  c→                out  r→
//      r ┌──┬──┬─             c ┌──┬──┬─
//      ↓ │ 1│ 2│              ↓ │ 1│ 3│        block by block, rows of blocks outermost
//        ├──┼──┼─               ├──┼──┼─
//        │ 3│ 4│                │ 2│ 4│
//
// Elements are moved with memcpy of a constant width: no alignment is needed and no bit is looked
// at.
#include "kernels/kernels_table.h"

#include <string.h>

enum { LINE = 64 };

static inline size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

// One block of rows × cols elements. Inlined with a constant width.
static inline __attribute__((always_inline)) void block(uint8_t *out, const uint8_t *in,
                                                        const struct transpose_shape *s,
                                                        size_t rows, size_t cols, size_t width) {
  for (size_t c = 0; c < cols; c++)
    for (size_t r = 0; r < rows; r++)
      memcpy(out + (c * s->out_stride + r) * width, in + (r * s->in_stride + c) * width, width);
}

static inline __attribute__((always_inline)) void
blocks(uint8_t *out, const uint8_t *in, const struct transpose_shape *s, size_t width) {
  size_t side = width < LINE / 8 ? LINE / width : 8;
  for (size_t r = 0; r < s->rows; r += side)
    for (size_t c = 0; c < s->cols; c += side)
      block(out + (c * s->out_stride + r) * width, in + (r * s->in_stride + c) * width, s,
            min_size(side, s->rows - r), min_size(side, s->cols - c), width);
}

void transpose_portable(void *out, const void *in, const struct transpose_shape *shape) {
  switch (shape->width) {
  case 1: blocks(out, in, shape, 1); break;
  case 2: blocks(out, in, shape, 2); break;
  case 4: blocks(out, in, shape, 4); break;
  case 8: blocks(out, in, shape, 8); break;
  default: blocks(out, in, shape, 16); break;
  }
}

void transpose_rest(void *out, const void *in, const struct transpose_shape *shape, size_t rows,
                    size_t cols) {
  const size_t width = shape->width;
  struct transpose_shape right = *shape, below = *shape;
  right.rows = rows;
  right.cols -= cols;
  below.rows -= rows;
  transpose_portable((uint8_t *)out + cols * shape->out_stride * width,
                     (const uint8_t *)in + cols * width, &right);
  transpose_portable((uint8_t *)out + rows * width,
                     (const uint8_t *)in + rows * shape->in_stride * width, &below);
}
