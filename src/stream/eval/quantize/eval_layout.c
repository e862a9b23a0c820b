// The two layouts of what is quantized in blocks: which scale an element has, and where in the codes,
// scales and zero points what belongs to it lies. Everything else about blocks is eval_blocks.c.
//
// The blocks of an operand [outer, k, inner] are a table of cells, a scale and a zero point each, by
// units, which the cache keeps whole:
//
//   packed (NBITS)                 unit: a column of W, cells: its blocks. Codes of a column lie together,
//                                  a block's after the other, several to a byte
//   as the operand, inner = 1      unit: a column (it lies as a row), cells: its blocks. A code lies in
//                                  the place of its element, a byte each here (eval.c packs them)
//   as the operand, inner > 1      unit: a line, that is of an outer position one block of k with all
//                                  of inner; cells: the inner positions
//
//   units  0  ┌─┬─┬─┬─┬─┐
//          1  ├─┼─┼─┼─┼─┤   scales and zero points lie in this order, unit by unit, in all of them
//          2  └─┴─┴─┴─┴─┘
//               cells
//
// A further layout is a further answer to these questions.
#include "eval_blocks.h"

void eval_layout_of(struct eval_quantize *z) {
  z->packs = recipe_is_nbits(z->q.format);
  z->by_column = z->packs || z->inner == 1;
  z->units = z->outer * (z->by_column ? z->inner : z->blocks);
  z->cells = z->by_column ? z->blocks : z->inner;
  z->group = z->packs ? 8 / z->q.bits : 1;
}

uint64_t eval_layout_line_start(const struct eval_quantize *z, uint64_t line) {
  return line / z->blocks * z->k * z->inner + line % z->blocks * z->block * z->inner;
}

uint64_t eval_layout_line_rows(const struct eval_quantize *z, uint64_t line) {
  return min_u64(z->block, z->k - line % z->blocks * z->block);
}

uint64_t eval_layout_unit(const struct eval_quantize *z, uint64_t element) {
  if (z->by_column || z->part != PART_CODES) return element / eval_layout_elements(z, 0);
  const uint64_t slab = z->k * z->inner;
  return element / slab * z->blocks + element % slab / (z->block * z->inner);
}

uint64_t eval_layout_start(const struct eval_quantize *z, uint64_t unit) {
  if (z->by_column || z->part != PART_CODES) return unit * eval_layout_elements(z, 0);
  return eval_layout_line_start(z, unit);
}

uint64_t eval_layout_elements(const struct eval_quantize *z, uint64_t unit) {
  if (z->part == PART_CODES && z->packs) return z->blocks * eval_layout_codes(z, 1);
  if (z->part == PART_CODES) return z->by_column ? z->k : eval_layout_line_rows(z, unit) * z->inner;
  const bool packed = z->part == PART_ZEROS && z->packs && !eval_has_float_zeros(z);
  return packed ? (z->cells - 1) / z->group + 1 : z->cells;
}

uint64_t eval_layout_cell(const struct eval_quantize *z, uint64_t at) {
  if (z->part == PART_CODES && z->by_column) return at / eval_layout_codes(z, 1);
  if (z->part == PART_CODES) return at % z->inner;
  return z->part == PART_ZEROS && z->packs && !eval_has_float_zeros(z) ? at * z->group : at;
}

uint64_t eval_layout_codes(const struct eval_quantize *z, uint64_t cells) {
  return cells * (z->packs ? z->block * z->q.bits / 8 : z->block);
}

struct eval_place eval_layout_place(const struct eval_block_box *h, uint64_t unit, uint64_t cell,
                                    uint64_t row) {
  const struct eval_quantize *z = &h->z;
  const uint64_t cells = h->to - h->from;
  struct eval_place p = {.cell = (size_t)((unit - h->first) * cells + cell - h->from)};
  if (!z->by_column) {
    p.stride = (size_t)z->inner;
    p.code = (size_t)(eval_layout_line_start(z, unit) - eval_layout_line_start(z, h->first) +
                      row * z->inner + cell);
    return p;
  }
  uint64_t line = cells * z->block; // of a column's codes in the box
  if (!z->packs) line = min_u64(h->to * z->block, z->k) - h->from * z->block;
  const uint64_t at = (cell - h->from) * z->block + row;
  const uint32_t bits = z->packs ? z->q.bits : 8;
  p.stride = (size_t)(line * bits / 8);
  p.code = (size_t)((unit - h->first) * p.stride + at * bits / 8);
  return p;
}

struct eval_run eval_layout_run(const struct eval_block_box *h, uint64_t element) {
  const struct eval_quantize *z = &h->z;
  const uint64_t unit = eval_layout_unit(z, element), at = element - eval_layout_start(z, unit);
  const uint64_t cell = eval_layout_cell(z, at);
  struct eval_run run = {.cell = (size_t)((unit - h->first) * (h->to - h->from) + cell - h->from),
                         .share = z->by_column ? (size_t)z->block : 1,
                         .n = h->to - cell};
  if (!z->by_column) return run;
  const bool begins = at % z->block == 0;
  run.n = min_u64((begins ? h->to : cell + 1) * z->block, z->k) - at;
  return run;
}
