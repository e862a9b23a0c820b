// What a row means to the kernels, and the two layouts of what is quantized in blocks: which scale an element has, where
// in the codes, scales and zero points what belongs to it lies, and the packing of codes and zero points into bytes.
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
#include "stream/eval/quantize/inside/eval_layout.h"

static enum kernels_float float_of(enum dtype t) {
  return t == DTYPE_FLOAT16 ? KERNELS_F16 : t == DTYPE_BFLOAT16 ? KERNELS_BF16 : KERNELS_F32;
}

static enum kernels_rule rule_of(enum recipe_format format) {
  switch (format) {
  case FORMAT_NBITS:
  case FORMAT_NBITS_GPTQ:
  case FORMAT_NBITS_CLIPPED:
    return KERNELS_NBITS; // its parameters, from what is left of the weights
  case FORMAT_NBITS_RTN: return KERNELS_RTN;
  case FORMAT_NBITS_KQUANT: return KERNELS_K_QUANT;
  case FORMAT_NBITS_KQUANT_BEST: return KERNELS_K_QUANT_BEST;
  case FORMAT_NBITS_HQQ: return KERNELS_HQQ;
  case FORMAT_GATHER: return KERNELS_GATHER;
  default: return KERNELS_QDQ;
  }
}

enum { BRIEF_ROWS = 64 };

static void set_key(struct eval_quantize *z) {
  const uint64_t scale_bytes = z->cells * sizeof(float);
  uint64_t zero_bytes = (z->cells * z->q.bits + 7) / 8;
  if (eval_has_float_zeros(z)) zero_bytes = scale_bytes;
  const bool zeros = !z->q.symmetric || z->f.rule == KERNELS_RTN || z->f.rule == KERNELS_K_QUANT ||
                     z->f.rule == KERNELS_K_QUANT_BEST;
  if (!zeros) zero_bytes = 0;
  // A column of some dozens of elements is read again with its neighbours, in one read of many.
  const bool brief = z->by_column && z->direct && z->k <= BRIEF_ROWS;
  z->key = (struct eval_cache_key){.of = z->of,
                                   .gram = z->by.gram,
                                   .rows = z->by.rows,
                                   .brief = brief,
                                   .q = z->q,
                                   .units = scale_bytes <= UINT32_MAX ? z->units : 0,
                                   .bytes = {(uint32_t)zero_bytes, (uint32_t)scale_bytes}};
}

void eval_layout_of(const struct recipes *r, uint32_t id, struct eval_quantize *z) {
  *z = (struct eval_quantize){.of = r->args[r->rows[id].args],
                              .by = recipe_statistics_of(r, id),
                              .q = recipe_quantization_of(r, id),
                              .part = recipe_part_of(r, id)};
  const struct recipe *x = &r->rows[z->of];
  const struct recipe_around a = recipe_around(r, z->of, z->q.axis);
  z->outer = a.outer;
  z->k = a.n;
  z->inner = a.inner;
  z->type = (enum dtype)x->dtype;
  z->width = dtype_bits(z->type) / 8;
  z->direct = recipe_is_copy(r, z->of, &z->at);
  z->block = z->q.block ? z->q.block : max_u64(z->k, 1);
  z->blocks = z->k ? (z->k - 1) / z->block + 1 : 0;
  // MLAS computes bfloat16 weights with scales of float32, which are rounded in the end.
  const enum kernels_float in = float_of(z->type);
  const enum kernels_rule rule = rule_of(z->q.format);
  const bool mlas = rule == KERNELS_NBITS || rule == KERNELS_QDQ;
  z->f = (struct kernels_block_format){.rule = (uint8_t)rule,
                                       .bits = (uint8_t)z->q.bits,
                                       .symmetric = z->q.symmetric,
                                       .in_type = (uint8_t)in,
                                       .scale_type =
                                           (uint8_t)(mlas && in == KERNELS_BF16 ? KERNELS_F32 : in),
                                       .block = (size_t)z->block};
  z->packs = recipe_is_nbits(z->q.format);
  z->by_column = z->packs || z->inner == 1;
  z->units = z->outer * (z->by_column ? z->inner : z->blocks);
  z->cells = z->by_column ? z->blocks : z->inner;
  z->group = z->packs ? 8 / z->q.bits : 1;
  set_key(z);
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

void eval_layout_forget(struct eval *ev, uint32_t id) {
  if (!recipe_quantizes(ev->r, id) || !eval_in_blocks(recipe_quantization_of(ev->r, id).format))
    return; // ranges hold for all
  for (uint32_t i = 0; i < ev->n_boxes; i++)
    if (ev->boxes[i].id == id) ev->boxes[i].count = 0;
}

// ---- parts --------------------------------------------------------------------------------------

void eval_layout_store_scales(enum dtype type, const float *scales, size_t n, uint8_t *out) {
  uint16_t half[256];
  if (type == DTYPE_FLOAT) {
    if (n) memcpy(out, scales, n * sizeof *scales);
    return;
  }
  while (n > 0) {
    const size_t m = n < 256 ? n : 256;
    (type == DTYPE_FLOAT16 ? kernels_f32_to_f16 : kernels_f32_to_bf16)(half, scales, m);
    memcpy(out, half, m * sizeof *half);
    scales += m;
    out += m * sizeof *half;
    n -= m;
  }
}

void eval_layout_pack_zeros(const struct eval_quantize *z, const uint8_t *zeros, size_t n,
                            uint8_t *out) {
  const uint32_t bits = z->q.bits, fill = z->packs ? 1u << (bits - 1) : 0;
  const size_t per = 8 / bits;
  for (size_t i = 0; i < n; i += per) {
    uint32_t byte = 0;
    for (size_t k = 0; k < per; k++)
      byte |= (uint32_t)(i + k < n ? zeros[i + k] : fill) << (k * bits);
    *out++ = (uint8_t)byte;
  }
}
