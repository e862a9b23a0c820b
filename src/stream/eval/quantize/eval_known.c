// What the run knows of scales and zero points. They are found with the codes, and would cost a second and a third read of
// the operand when they are asked for; so whole units (eval_layout.c) are kept for all workers, as far as the
// budget of the cache goes (eval_cache.c): zero points packed, scales as floats.
#include "stream/eval/quantize/inside/eval_panel.h"

// How the cache holds a unit: zero points come first.
#define ZEROS EVAL_CACHE_FIRST
#define SCALES EVAL_CACHE_OTHER
static enum eval_cache_part cached(const struct eval_quantize *z) {
  return z->part == PART_ZEROS ? ZEROS : SCALES;
}

bool eval_known_keeps(const struct eval_filling *f) {
  return f->z->key.units > 0 && f->z->key.bytes[ZEROS] <= f->room.tile_bytes;
}

void eval_known_publish(const struct eval_filling *f) {
  const struct eval_quantize *z = f->z;
  const struct eval_block_box *h = f->h;
  struct eval_cache *c = f->t->ev->cache;
  if (!c || !eval_known_keeps(f) || h->from > 0 || h->to < z->cells) return;
  const uint8_t *zeros = h->float_zeros ? (const uint8_t *)h->float_zeros : h->zeros;
  const size_t cells = (size_t)z->cells, bytes = z->key.bytes[ZEROS];
  const bool packs = bytes > 0 && !h->float_zeros;
  const uint64_t n = h->last - h->first, most = packs ? f->room.tile_bytes / bytes : n;
  for (uint64_t i = 0; i < n;) {
    const uint64_t m = min_u64(most, n - i);
    for (uint64_t k = 0; packs && k < m; k++)
      eval_layout_pack_zeros(z, zeros + (i + k) * cells, cells, f->room.tile + k * bytes);
    // Zero points that are floats lie as they are kept.
    const uint8_t *kept = packs ? f->room.tile : zeros + i * bytes;
    const uint8_t *scales = (const uint8_t *)(h->scales + i * cells);
    eval_cache_put_units(c, &z->key, h->first + i, m, kept, scales);
    i += m;
  }
}

bool eval_known_unit(const struct eval_filling *f) {
  const struct eval_quantize *z = f->z;
  const struct eval_block_box *h = f->h;
  struct eval_cache *c = f->t->ev->cache;
  const bool packed = z->key.bytes[ZEROS] > 0;
  if (!eval_cache_look(c, &z->key, h->first, SCALES, (uint8_t *)h->scales) ||
      (packed && !eval_cache_look(c, &z->key, h->first, ZEROS, f->room.tile)))
    return false;
  if (packed)
    eval_bits_unpack(h->zeros, f->room.tile, 0, (size_t)z->cells, z->q.bits);
  else
    memset(h->zeros, 0, (size_t)z->cells);
  return true;
}

uint64_t eval_known_next(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                         uint64_t end) {
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
    const bool there =
        eval_cache_get(t->ev->cache, &z->key, unit, cached(z), off, (uint8_t *)some, bytes);
    if (!there) return false;
    eval_layout_store_scales(z->type, some, m, out);
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
    if (!eval_cache_get(t->ev->cache, &z->key, unit, ZEROS, (size_t)at, packed, (size_t)(end - at)))
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
  const enum eval_cache_part part = cached(z);
  const size_t each = z->key.bytes[part];
  const size_t width = floats ? z->cells * z->width : codes ? z->cells : each; // of a unit, out
  uint64_t done = 0;
  while (done < n) {
    const uint64_t m = min_u64(sizeof some / each, n - done);
    const uint64_t got = eval_cache_get_units(t->ev->cache, &z->key, unit + done, m, part, some);
    uint8_t *to = out + done * width;
    if (floats)
      eval_layout_store_scales(z->type, (const float *)(const void *)some, (size_t)(got * z->cells),
                               to);
    else if (!codes)
      memcpy(to, some, (size_t)got * each);
    for (uint64_t i = 0; codes && i < got; i++)
      eval_bits_unpack(to + i * width, some + i * each, 0, (size_t)z->cells, z->q.bits);
    done += got;
    if (got < m) break;
  }
  return done;
}

bool eval_known_elements(struct eval_task *t, const struct eval_quantize *z, uint64_t first,
                         uint64_t *n, uint8_t *out) {
  if (!t->ev->cache || z->key.units == 0) return false;
  const bool floats = is_kept_as_floats(z);
  const bool packed = !floats && recipe_is_nbits(z->q.format); // elements of the part are bytes
  const uint64_t of_unit = packed ? z->key.bytes[ZEROS] : z->key.bytes[SCALES] / sizeof(float);
  const uint64_t unit = first / of_unit, from = first % of_unit, m = min_u64(*n, of_unit - from);
  bool known;
  if (from == 0 && *n > of_unit && z->key.bytes[SCALES] <= SHORT_UNITS_BYTES / 2) {
    const uint64_t units = known_units(t, z, unit, *n / of_unit, out);
    if (units > 0) *n = units * of_unit;
    return units > 0;
  }
  if (floats)
    known = known_floats(t, z, unit, from, m, out);
  else if (packed)
    known = eval_cache_get(t->ev->cache, &z->key, unit, ZEROS, (size_t)from, out, (size_t)m);
  else
    known = known_zeros(t, z, unit, from, m, out);
  if (known) *n = m;
  return known;
}
