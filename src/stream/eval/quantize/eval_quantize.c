// Quantized tensors: codes, scales and zero points of an operand, any range of any of them.
//
// All three come of the same arithmetic over whole blocks, so a box (eval_parts.h) holds the
// *outputs* of a stretch of columns or blocks: codes, scales and zeros, made in one go while the
// operand streams by in small panels (eval_panel.c). The operand itself, many times as large, is
// never held.
//
//   operand ──panel──▶ kernel ──▶ │ codes │ scales │ zeros │  box ──▶ the range that was asked for
//                                            └────────┴──▶ statistics of the run (eval_cache.c)
//
// Scales and zeros are asked for after the codes and would cost a second and a third read of the
// operand. What was found out with the codes is therefore kept for all workers of the run, as far
// as its budget goes.
//
// How far a box reaches depends on what the caller is going to want (eval_begin): computing
// columns that another worker's unit holds would read them twice.
#include "eval_blocks.h"

#include "eval_affine.h"
#include "eval_figures.h"
#include "eval_linear.h"
#include "eval_once.h"

#include <assert.h>

enum { TILE_MOST = 1 << 20, TILE_ROOM = 64 << 10 };

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

void eval_quantize_of(const struct recipes *r, uint32_t id, struct eval_quantize *z) {
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
  eval_layout_of(z);
  set_key(z);
}

struct eval_room eval_quantize_room(struct eval *ev, struct eval_stripe_box *b) {
  struct eval_room room = {.tile = eval_scratch(ev),
                           .tile_bytes = EVAL_SCRATCH_BYTES,
                           .rest = b->data,
                           .rest_bytes = ev->box_bytes};
  if (ev->box_bytes < TILE_ROOM) return room;
  room.tile = b->data;
  room.tile_bytes = (size_t)min_u64(ev->box_bytes / 4, TILE_MOST) / 64 * 64;
  room.rest += room.tile_bytes;
  room.rest_bytes -= room.tile_bytes;
  return room;
}

void eval_quantize_store_scales(enum dtype type, const float *scales, size_t n, uint8_t *out) {
  uint16_t half[256];
  if (type == DTYPE_FLOAT) {
    if (n) memcpy(out, scales, n * sizeof *scales);
    return;
  }
  while (n > 0) {
    const size_t m = n < 256 ? n : 256;
    if (type == DTYPE_FLOAT16)
      kernels_f32_to_f16(half, scales, m);
    else
      kernels_f32_to_bf16(half, scales, m);
    memcpy(out, half, m * sizeof *half);
    scales += m;
    out += m * sizeof *half;
    n -= m;
  }
}

void eval_quantize_pack_zeros(const struct eval_quantize *z, const uint8_t *zeros, size_t n,
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

// ---- what is known -----------------------------------------------------------------------------

bool eval_quantize_publishes(const struct eval_quantize *z, const struct eval_room *room) {
  return z->key.units > 0 && z->key.bytes[EVAL_QUANTIZE_ZEROS] <= room->tile_bytes;
}

void eval_quantize_publish(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                           uint64_t n, const float *scales, const uint8_t *zeros,
                           const struct eval_room *room) {
  if (!t->ev->cache || !eval_quantize_publishes(z, room)) return;
  const size_t cells = (size_t)z->cells, bytes = z->key.bytes[EVAL_QUANTIZE_ZEROS];
  const bool packs = bytes > 0 && !eval_has_float_zeros(z);
  const uint64_t most = packs ? room->tile_bytes / bytes : n;
  for (uint64_t i = 0; i < n;) {
    const uint64_t m = min_u64(most, n - i);
    for (uint64_t k = 0; packs && k < m; k++)
      eval_quantize_pack_zeros(z, zeros + (i + k) * cells, cells, room->tile + k * bytes);
    // Zero points that are floats lie as they are kept.
    const uint8_t *kept = packs ? room->tile : zeros + i * bytes;
    eval_cache_put_units(t->ev->cache, &z->key, unit + i, m, kept,
                         (const uint8_t *)(scales + i * cells));
    i += m;
  }
}

bool eval_quantize_look(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                        float *scales, uint8_t *zeros, const struct eval_room *room) {
  struct eval_cache *c = t->ev->cache;
  const bool packed = z->key.bytes[EVAL_QUANTIZE_ZEROS] > 0;
  if (!eval_cache_look(c, &z->key, unit, EVAL_QUANTIZE_SCALES, (uint8_t *)scales) ||
      (packed && !eval_cache_look(c, &z->key, unit, EVAL_QUANTIZE_ZEROS, room->tile)))
    return false;
  if (packed)
    eval_bits_unpack(zeros, room->tile, 0, (size_t)z->cells, z->q.bits);
  else
    memset(zeros, 0, (size_t)z->cells);
  return true;
}

uint64_t eval_quantize_unknown_end(struct eval_task *t, const struct eval_quantize *z,
                                   uint64_t unit, uint64_t end) {
  if (!t->ev->cache || z->key.units == 0) return end;
  return eval_cache_next(t->ev->cache, &z->key, unit + 1, end);
}

enum { SHORT_UNITS_BYTES = 4096 }; // copied at a time, of units that are short

static bool is_kept_as_floats(const struct eval_quantize *z) {
  return z->part == PART_SCALES || z->f.rule == KERNELS_HQQ;
}

// Scales (NBITS_HQQ: or zeros) [from, from + n) of a unit as their part holds them.
static bool known_floats(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                         uint64_t from, uint64_t n, uint8_t *out) {
  float some[256];
  while (n > 0) {
    const size_t m = (size_t)min_u64(n, 256), bytes = m * sizeof *some;
    const size_t off = (size_t)from * sizeof *some;
    const bool there = eval_cache_get(t->ev->cache, &z->key, unit, eval_quantize_cached(z->part),
                                      off, (uint8_t *)some, bytes);
    if (!there) return false;
    eval_quantize_store_scales(z->type, some, m, out);
    out += m * z->width;
    from += m;
    n -= m;
  }
  return true;
}

// n packed zero points from number `from` of a unit on, a byte each.
static bool known_zeros(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                        uint64_t from, uint64_t n, uint8_t *out) {
  uint8_t packed[256];
  const uint32_t bits = z->q.bits;
  while (n > 0) {
    const uint64_t at = from * bits / 8, m = min_u64(n, 128);
    const uint64_t end = ((from + m) * bits + 7) / 8;
    if (!eval_cache_get(t->ev->cache, &z->key, unit, EVAL_QUANTIZE_ZEROS, (size_t)at, packed,
                        (size_t)(end - at)))
      return false;
    eval_bits_unpack(out, packed, from * bits - at * 8, (size_t)m, bits);
    from += m;
    out += m;
    n -= m;
  }
  return true;
}

// Of n units as many as are known together, as the part holds them: how many. Units are short.
static uint64_t known_units(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                            uint64_t n, uint8_t *out) {
  _Alignas(float) uint8_t some[SHORT_UNITS_BYTES];
  const bool floats = is_kept_as_floats(z), codes = !floats && !recipe_is_nbits(z->q.format);
  const enum eval_cache_part part = floats ? eval_quantize_cached(z->part) : EVAL_QUANTIZE_ZEROS;
  const size_t each = z->key.bytes[part];
  const size_t width = floats ? z->cells * z->width : codes ? z->cells : each; // of a unit, out
  uint64_t done = 0;
  while (done < n) {
    const uint64_t m = min_u64(sizeof some / each, n - done);
    const uint64_t got = eval_cache_get_units(t->ev->cache, &z->key, unit + done, m, part, some);
    uint8_t *to = out + done * width;
    if (floats)
      eval_quantize_store_scales(z->type, (const float *)(const void *)some,
                                 (size_t)(got * z->cells), to);
    else if (!codes)
      memcpy(to, some, (size_t)got * each);
    for (uint64_t i = 0; codes && i < got; i++)
      eval_bits_unpack(to + i * width, some + i * each, 0, (size_t)z->cells, z->q.bits);
    done += got;
    if (got < m) break;
  }
  return done;
}

bool eval_quantize_known(struct eval_task *t, const struct eval_quantize *z, uint64_t first,
                         uint64_t *n, uint8_t *out) {
  if (!t->ev->cache || z->key.units == 0) return false;
  const bool floats = is_kept_as_floats(z);
  const bool packed = !floats && recipe_is_nbits(z->q.format); // elements of the part are bytes
  const uint64_t of_unit = packed ? z->key.bytes[EVAL_QUANTIZE_ZEROS]
                                  : z->key.bytes[EVAL_QUANTIZE_SCALES] / sizeof(float);
  const uint64_t unit = first / of_unit, from = first % of_unit, m = min_u64(*n, of_unit - from);
  bool known;
  if (from == 0 && *n > of_unit && z->key.bytes[EVAL_QUANTIZE_SCALES] <= SHORT_UNITS_BYTES / 2) {
    const uint64_t units = known_units(t, z, unit, *n / of_unit, out);
    if (units > 0) *n = units * of_unit;
    return units > 0;
  }
  if (floats)
    known = known_floats(t, z, unit, from, m, out);
  else if (packed)
    known = eval_cache_get(t->ev->cache, &z->key, unit, EVAL_QUANTIZE_ZEROS, (size_t)from, out,
                           (size_t)m);
  else
    known = known_zeros(t, z, unit, from, m, out);
  if (known) *n = m;
  return known;
}

static bool is_affine(const struct recipes *r, uint32_t id) {
  const enum recipe_format format = recipe_quantization_of(r, id).format;
  return format == FORMAT_SHRINK || format == FORMAT_LEVELS || format == FORMAT_AFFINE ||
         format == FORMAT_LINEAR;
}

// Scales that are at hand for who makes others of them.
static bool copy_found(const struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                       uint8_t *out) {
  const struct eval_hold *h = &t->ev->found;
  const uint32_t width = eval_width(t->r, id);
  if (id != h->of || first < h->first || !range_fits(first - h->first, count, h->count))
    return false;
  memcpy(out, h->at + (first - h->first) * width, (size_t)(count * width));
  return true;
}

int eval_quantize_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                           uint8_t *out, struct err *err) {
  if (id == t->once) return eval_once_elements(t, id, first, count, out, err);
  if (copy_found(t, id, first, count, out)) return 0;
  struct eval_stripe_box *b = eval_box_for(t->ev, id);
  if (!b)
    return err_set(err, ERR_INTERNAL, "a quantized tensor is nested below more than %u others",
                   t->ev->n_boxes);
  b->busy = true;
  if (is_affine(t->r, id)) {
    const struct recipe_quantization q = recipe_quantization_of(t->r, id);
    const int bad = (q.format != FORMAT_LINEAR ? eval_affine_elements
                     : q.block > 0             ? eval_linear_block_elements
                                   : eval_linear_range_elements)(t, b, first, count, out, err);
    b->busy = false;
    return bad;
  }
  if (b->count == 0) {
    *eval_block_box_of(b) = (struct eval_block_box){0};
    eval_quantize_of(t->r, id, &eval_block_box_of(b)->z);
    b->count = 1;
  }
  const int failed = eval_blocks_elements(t, b, first, count, out, err);
  b->busy = false;
  return failed;
}

// ---- what is wanted ----------------------------------------------------------------------------

void eval_quantize_forget(struct eval *ev, uint32_t id) {
  if (!recipe_quantizes(ev->r, id) || is_affine(ev->r, id)) return; // ranges hold for all
  for (uint32_t i = 0; i < ev->n_boxes; i++)
    if (ev->boxes[i].id == id) ev->boxes[i].count = 0;
}

// Are figures told of this recipe's columns?
static bool has_columns(const struct recipes *r, uint32_t id) {
  return recipe_quantizes(r, id) && recipe_part_of(r, id) == PART_CODES && r->rows[id].count > 0 &&
         recipe_is_nbits(recipe_quantization_of(r, id).format);
}

void eval_quantize_begin(struct eval_task *t) {
  struct eval_quantize z;
  if (!has_columns(t->r, t->wanted.id)) return;
  eval_quantize_forget(t->ev, t->wanted.id); // what a box holds was told to somebody else
  eval_quantize_of(t->r, t->wanted.id, &z);
  t->columns = eval_tell_columns_of(&z, t->wanted.off, t->wanted.len);
}

int eval_quantize_end(struct eval_task *t, struct err *err) {
  struct eval *ev = t->ev;
  if (t->columns.next >= t->columns.end) return 0;
  struct eval_stripe_box *b = eval_box_for(ev, t->wanted.id);
  assert(b && b->count); // the range was read, by this box
  ev->depth++;
  b->busy = true;
  const int failed = eval_blocks_end(t, b, err);
  b->busy = false;
  ev->depth--;
  return failed;
}

uint64_t eval_quantize_wanted_end(const struct eval_task *t, uint32_t id, uint64_t at) {
  const struct recipe *x = &t->r->rows[id];
  if (t->wanted.id != id) return x->count;
  const uint32_t bits = dtype_bits((enum dtype)x->dtype);
  const uint64_t end =
      (t->wanted.off + t->wanted.len + bits - 1) / bits * 8; // packed ones are made by eights
  const uint64_t exact =
      bits >= 8 ? (t->wanted.off + t->wanted.len + bits / 8 - 1) / (bits / 8) : end;
  return max_u64(min_u64(exact, x->count), at + 1);
}
