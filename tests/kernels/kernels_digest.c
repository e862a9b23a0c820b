// Prints one line a family of kernels: a digest (FNV-1a, 64 bits) of everything it makes of a fixed
// set of pseudo-random cases. Two machines, or two sets of features, that print the same lines give
// the same bytes; tools/arm64 compares x86-64 with AArch64.
//
//   kernels_digest [all|portable]        the machine's best variants, or the references
//
// Elements come from a generator of integers and from bits alone, so that no arithmetic but that of
// the kernels is compared: numbers around 1, zeros of both signs, denormals, the largest numbers,
// infinities, NaNs with payloads, quiet and not, and any bits at all. The affine kernels are for
// finite elements; theirs are taken from the same set less what is not finite.
#include "kernels/kernels.h"

#include "kernels/convert/kernels_convert.h"
#include "kernels/dequantize/kernels_dequantize.h"
#include "kernels/reduce/kernels_reduce.h"
#include "kernels/tally/kernels_tally.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 7, LENGTH = 300, AREA = ROWS * LENGTH, CASES = 150 };

static uint64_t seed, digest;

static void begin(void) {
  seed = 0x243f6a8885a308d3;
  digest = 0xcbf29ce484222325;
}

static uint64_t random_64(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed * 0x2545f4914f6cdd1d;
}

static size_t below(size_t n) {
  return (size_t)(random_64() >> 20) % n;
}

static void put(const void *bytes, size_t n) {
  const uint8_t *at = bytes;
  for (size_t i = 0; i < n; i++)
    digest = (digest ^ at[i]) * 0x100000001b3;
}

static void end(const char *family) {
  printf("%-20s %016llx\n", family, (unsigned long long)digest);
}

// ---- elements ----------------------------------------------------------------------------------

static uint32_t float_bits(void) {
  static const uint32_t special[] = {0,          0x80000000, 0x00000001, 0x807fffff, 0x00800000,
                                     0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                     0xffc12345, 0x7f800001, 0xffa55555, 0x3f800000, 0xbf000000};
  uint64_t x = random_64();
  uint32_t bits = (uint32_t)x, exponent = 115 + (uint32_t)(x >> 32) % 14;
  switch (x >> 60) {
  case 0: return special[(x >> 32) % (sizeof special / sizeof *special)];
  case 1: return bits;
  case 2: return bits & 0x80ffffff;
  default: return (bits & 0x807fffff) | exponent << 23;
  }
}

// Kinds of buffers: ordinary numbers alone, the same among all others, and any.
static uint32_t element_bits(size_t kind, bool finite) {
  uint32_t bits = float_bits();
  if (kind == 0 || (kind == 1 && random_64() % 16))
    bits = (bits & 0x807fffff) | (115 + (bits >> 8) % 14) << 23;
  return finite && (bits & 0x7f800000) == 0x7f800000 ? bits & 0x807fffff : bits;
}

static void fill(void *out, size_t n, enum kernels_float type, bool finite) {
  size_t kind = below(3);
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = element_bits(kind, finite);
    uint16_t half = (uint16_t)(bits >> 16 ^ (type == KERNELS_F16 && kind < 2 ? 0x0700 : 0));
    if (type == KERNELS_F16 && finite && (half & 0x7c00) == 0x7c00) half &= 0x83ff;
    if (type == KERNELS_F32)
      memcpy((uint8_t *)out + 4 * i, &bits, 4);
    else
      memcpy((uint8_t *)out + 2 * i, &half, 2);
  }
}

static void fill_doubles(double *out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint64_t high = float_bits(), x = random_64();
    uint64_t exponent = 1023 - 160 + x % 320,
             bits = (high << 32 & ~(UINT64_C(0x7ff) << 52)) | x >> 40;
    if (x >> 61) bits |= exponent << 52;
    if (x >> 61 == 0) bits = high << 32 | (x >> 20 & 1);
    memcpy(&out[i], &bits, 8);
  }
}

// ---- families ----------------------------------------------------------------------------------

static void transposes(void) {
  static uint8_t in[90 * 90 * 16], out[90 * 90 * 16];
  begin();
  for (size_t i = 0; i < sizeof in; i++)
    in[i] = (uint8_t)random_64();
  for (int i = 0; i < CASES; i++) {
    size_t rows = 1 + below(90), cols = 1 + below(90);
    unsigned width = 1u << below(5);
    kernels_transpose(out, rows, in, cols, rows, cols, width);
    put(out, rows * cols * width);
  }
  end("transpose");
}

enum { CASTS = 20000 };
static union {
  float f[CASTS];
  double d[CASTS];
  uint16_t h[CASTS];
} from, to;

static void casts(void) {
#define CAST(name, in, out)                                                                        \
  kernels_##name(to.out, from.in, CASTS);                                                          \
  put(&to, CASTS * sizeof *to.out);                                                                \
  end(#name);                                                                                      \
  begin()
  begin();
  fill(&from, CASTS, KERNELS_F32, false);
  CAST(f32_to_f16, f, h);
  CAST(f32_to_bf16, f, h);
  CAST(f32_to_f64, f, d);
  for (size_t i = 0; i < CASTS; i++)
    from.h[i] = (uint16_t)(i * 40503 >> 1);
  CAST(f16_to_f32, h, f);
  CAST(bf16_to_f32, h, f);
  fill_doubles(from.d, CASTS);
  CAST(f64_to_f32, d, f);
  CAST(f64_to_f16, d, h);
  CAST(f64_to_bf16, d, h);
#undef CAST
}

static struct kernels_block_format random_format(enum kernels_rule rule) {
  static const uint8_t bits[] = {2, 4, 8};
  return (struct kernels_block_format){.rule = (uint8_t)rule,
                                       .bits = bits[below(3)],
                                       .symmetric = below(2),
                                       .in_type = (uint8_t)below(3),
                                       .scale_type = (uint8_t)below(3),
                                       .block = (size_t)16 << below(5)};
}

enum { WIDE = 70, SHORT = 40 };
static struct {
  uint8_t in[WIDE * SHORT * 4], codes[WIDE * 256], zeros[AREA];
  float scales[AREA], float_zeros[AREA], lo[WIDE], hi[WIDE];
  struct kernels_sums sums[WIDE];
} room;

// A few long columns of W, or many short ones.
static struct kernels_panel random_panel(bool rows, bool wide,
                                         const struct kernels_block_format *f) {
  const size_t columns = wide ? WIDE : ROWS, length = wide ? SHORT : LENGTH;
  memset(&room, 0, sizeof room);
  fill(room.in, columns * length, (enum kernels_float)f->in_type, false);
  bool in_place = f->rule == KERNELS_QDQ || f->rule == KERNELS_GATHER;
  struct kernels_panel p = {.in = room.in, .n = 1 + below(columns), .k = 1 + below(length)};
  p.in_stride = rows ? length : columns;
  p.codes = room.codes;
  p.codes_stride = in_place && !rows ? columns : wide ? 256 : 512;
  p.scales = room.scales;
  p.zeros = room.zeros;
  p.blocks_stride = length / 16 + 1;
  p.sums = room.sums;
  p.float_zeros = room.float_zeros;
  return p;
}

static void blocks(const char *family, enum kernels_rule rule) {
  begin();
  for (int i = 0; i < CASES; i++) {
    struct kernels_block_format f = random_format(rule);
    bool rows = below(2);
    struct kernels_panel p = random_panel(rows, below(4) == 0, &f);
    (rows ? kernels_quantize_rows : kernels_quantize_columns)(&p, &f);
    put(&room, sizeof room);
  }
  end(family);
}

static void given_codes(void) {
  begin();
  for (int i = 0; i < 2 * CASES; i++) {
    struct kernels_block_format f = random_format(KERNELS_QDQ);
    bool rows = below(2);
    struct kernels_panel p = random_panel(rows, below(2), &f);
    fill(room.scales, AREA, KERNELS_F32, false);
    for (size_t j = 0; j < AREA; j++)
      room.zeros[j] = (uint8_t)(random_64() & ((1u << f.bits) - 1));
    (rows ? kernels_codes_rows : kernels_codes_columns)(&p, &f);
    for (size_t j = 0; j < WIDE; j++) {
      room.lo[j] = FLT_MAX;
      room.hi[j] = -FLT_MAX;
    }
    (rows ? kernels_range_rows : kernels_range_columns)(&p, (enum kernels_float)f.in_type, room.lo,
                                                        room.hi);
    for (size_t j = 0; j < p.n; j++)
      kernels_scale_zero(&f, room.lo[j], room.hi[j], &room.float_zeros[j], &room.zeros[j]);
    put(&room, sizeof room);
  }
  end("codes and ranges");
}

static struct kernels_affine random_affine(void) {
  static const double inverses[] = {0.37, 1, 1e-6, 1e30, 0};
  struct kernels_affine a = {.steps = 255, .zero = (double)below(40) - 20, .lo = -128, .hi = 127};
  a.inverse = (double)(float)inverses[below(5)];
  a.offset = a.zero;
  a.scale = (double)(1 + below(1000)) / 256;
  return a;
}

static void affine(void) {
  static float in[AREA];
  static double wide[AREA], levels[AREA];
  static int8_t codes[AREA];
  begin();
  for (int i = 0; i < CASES / 2; i++) {
    struct kernels_affine a = random_affine();
    const size_t n = AREA - below(100);
    fill(in, AREA, KERNELS_F32, true);
    kernels_f32_to_f64(wide, in, AREA);
    kernels_affine_codes_f32(codes, in, n, &a);
    put(codes, sizeof codes);
    kernels_affine_codes_f16(codes, in, n, &a);
    put(codes, sizeof codes);
    kernels_affine_codes_f64(codes, wide, n, &a);
    put(codes, sizeof codes);
    kernels_affine_levels_f32(levels, in, n, &a);
    put(levels, sizeof levels);
    kernels_affine_levels_f16(levels, in, n, &a);
    put(levels, sizeof levels);
    kernels_affine_levels_f64(levels, wide, n, &a);
    put(levels, sizeof levels);
    kernels_affine_divide((uint8_t *)codes, in, n, (float)a.scale, 7, 0, 255);
    put(codes, sizeof codes);
  }
  end("affine");
}

static void affine_ranges(void) {
  static float in[AREA];
  static double wide[AREA];
  begin();
  for (int i = 0; i < CASES; i++) {
    float lo = FLT_MAX, hi = -FLT_MAX;
    double wide_lo = DBL_MAX, wide_hi = -DBL_MAX;
    fill(in, AREA, KERNELS_F32, false);
    kernels_f32_to_f64(wide, in, AREA);
    size_t n = below(AREA), bad = kernels_affine_range_f32(in, n, &lo, &hi);
    bad += kernels_affine_range_f64(wide, n, &wide_lo, &wide_hi);
    put(&bad, sizeof bad);
    put(&lo, sizeof lo);
    put(&hi, sizeof hi);
    put(&wide_lo, sizeof wide_lo);
    put(&wide_hi, sizeof wide_hi);
  }
  end("affine ranges");
}

static void linear(void) {
  static float in[AREA], scales[AREA], zeros[AREA], lo[AREA], hi[AREA];
  static uint16_t codes[AREA];
  begin();
  for (int i = 0; i < CASES / 2; i++) {
    struct kernels_linear m = {.scales = scales, .zeros = below(2) ? zeros : NULL};
    m.each = below(2);
    m.width = (uint8_t)(1 + below(2));
    m.lo = m.width == 1 ? -128 : 0;
    m.hi = m.width == 1 ? 127 : 65535;
    const size_t n = AREA - below(100);
    fill(in, AREA, KERNELS_F32, true);
    for (size_t k = 0; k < AREA; k++) {
      scales[k] = (float)(1 + below(1000)) / 256;
      zeros[k] = (float)below(100);
      lo[k] = hi[k] = (float)below(3);
    }
    bool finite = kernels_linear_codes(codes, in, n, &m);
    put(codes, n * m.width);
    finite &= kernels_linear_int32(lo, in, n, &m);
    put(lo, n * sizeof *lo);
    fill(in, AREA, KERNELS_F32, false);
    const size_t bad = kernels_linear_ranges(in, n, scales, hi);
    put(scales, n * sizeof *scales);
    put(hi, n * sizeof *hi);
    put(&bad, sizeof bad);
    put(&finite, sizeof finite);
  }
  end("linear");
}

static void pairs(void) {
  static float in[AREA];
  static double wide[AREA], values[AREA];
  static uint8_t codes[AREA];
  begin();
  for (int i = 0; i < CASES; i++) {
    struct kernels_lanes sums = {0};
    const struct kernels_stored stored = {.is_unsigned = below(2),
                                          .scale = (double)(1 + below(1000)) / 256,
                                          .zero = (double)below(40) - 20};
    const size_t n = below(AREA), first = below(100);
    for (size_t k = 0; k < AREA; k++) {
      in[k] = (float)below(1 << 20) / 256 - 2048;
      codes[k] = (uint8_t)below(256);
    }
    if (below(2)) fill(in, AREA, KERNELS_F32, below(2));
    kernels_f32_to_f64(wide, in, AREA);
    kernels_codes_values(values, codes, AREA, &stored);
    bool finite = kernels_figure_pairs_codes(&sums, first, in, codes, n, &stored);
    finite &= kernels_figure_pairs(&sums, first, wide, values, n);
    put(values, sizeof values);
    put(&sums, sizeof sums);
    put(&finite, sizeof finite);
  }
  end("pairs");
}

static void scaled_pairs(void) {
  static float in[AREA], scales[AREA];
  static uint8_t codes[AREA], zeros[AREA];
  begin();
  for (int i = 0; i < CASES; i++) {
    struct kernels_lanes sums = {0};
    const struct kernels_scaled scaled = {.bits = (uint8_t)(2u << below(3)),
                                          .is_signed = below(2),
                                          .share = below(2) ? 1 : 8 * (1 + below(4)),
                                          .scales = scales,
                                          .zeros = below(2) ? zeros : NULL};
    const size_t n = below(AREA), first = below(2) ? below(100) : 8 * below(10);
    for (size_t k = 0; k < AREA; k++) {
      in[k] = (float)below(1 << 20) / 256 - 2048;
      scales[k] = (float)(1 + below(1000)) / 256;
      codes[k] = (uint8_t)below(256);
      zeros[k] = (uint8_t)below(1u << scaled.bits);
    }
    const bool finite = kernels_figure_pairs_scaled(&sums, first, in, codes, n, &scaled);
    put(&sums, sizeof sums);
    put(&finite, sizeof finite);
  }
  end("scaled pairs");
}

static void products(void) {
  static float in[AREA];
  static double wide[AREA], sums[AREA];
  static _Alignas(64) uint8_t scratch[KERNELS_PRODUCTS_SCRATCH];
  begin();
  for (size_t k = 0; k < AREA; k++) {
    in[k] = ((float)below(1 << 20) / 256 - 2048) / 16;
    wide[k] = (double)in[k] / 3;
    sums[k] = 0;
  }
  for (int i = 0; i < CASES; i++) {
    const size_t rows = 1 + below(40), columns = 1 + below(AREA / 40), depth = below(40);
    const struct kernels_products p = {.a = {below(2) ? (void *)wide : (void *)in, 1, rows, false},
                                       .b = {wide, depth, 1, true},
                                       .rows = rows,
                                       .columns = columns,
                                       .depth = depth,
                                       .subtract = below(2)};
    struct kernels_products q = p;
    q.a.is_double = p.a.at == wide;
    kernels_products(sums, columns, &q, scratch);
    kernels_add_scaled(sums, wide, 0.3, rows * columns);
    put(sums, sizeof sums);
  }
  end("products");
}

static void sha256(void) {
  enum { LANES = 9, BLOCKS = 3 };
  static uint8_t in[LANES][BLOCKS * 64];
  uint32_t state[LANES][8];
  const uint8_t *at[LANES];
  begin();
  for (size_t lanes = 0; lanes <= LANES; lanes++) {
    for (size_t i = 0; i < LANES; i++) {
      at[i] = in[i];
      for (size_t k = 0; k < sizeof *in; k++)
        in[i][k] = (uint8_t)random_64();
      for (size_t k = 0; k < 8; k++)
        state[i][k] = (uint32_t)random_64();
    }
    kernels_sha256_lanes(state, at, lanes, BLOCKS);
    put(state, sizeof state);
  }
  end("sha256");
}

// ---- conversions and arithmetic of recipes -----------------------------------------------------

enum { ELEMENTS = 3000 };
static uint8_t operands[3][ELEMENTS * 8], results[ELEMENTS * 8];

static size_t width_of(enum dtype t) {
  return dtype_bits(t) < 8 ? 1 : dtype_bits(t) / 8;
}

// Any bits; of floats, numbers around 1 and what is special besides.
static void fill_type(uint8_t *out, enum dtype t) {
  static double doubles[ELEMENTS];
  if (t == DTYPE_FLOAT)
    fill(out, ELEMENTS, KERNELS_F32, false);
  else if (t == DTYPE_FLOAT16)
    fill(out, ELEMENTS, KERNELS_F16, false);
  else if (t == DTYPE_BFLOAT16)
    fill(out, ELEMENTS, KERNELS_BF16, false);
  else if (t == DTYPE_DOUBLE)
    fill_doubles(doubles, ELEMENTS);
  if (t == DTYPE_DOUBLE) memcpy(out, doubles, sizeof doubles);
  if (dtype_is_float(t) && dtype_bits(t) >= 16) return;
  for (size_t i = 0; i < ELEMENTS; i++) {
    uint64_t x = random_64();
    x >>= x % 64;
    memcpy(out + i * width_of(t), &x, width_of(t));
  }
}

static void conversions(void) {
  begin();
  for (int t = 1; t <= DTYPE_FLOAT6E3M2; t++)
    for (int u = 1; u <= DTYPE_FLOAT6E3M2; u++) {
      if (!kernels_convert_takes((enum dtype)t) || !kernels_convert_takes((enum dtype)u)) continue;
      fill_type(operands[0], (enum dtype)t);
      for (int how = 0; how < 6; how++) {
        const struct kernels_cast c = {(uint8_t)t, (uint8_t)u, how % 2, (uint8_t)(how / 2)};
        const uint64_t open = kernels_convert(results, operands[0], ELEMENTS, &c);
        put(results, ELEMENTS * width_of((enum dtype)u));
        put(&open, sizeof open);
      }
    }
  end("convert");
}

static void maps(void) {
  begin();
  for (int op = 0; op < KERNELS_MAPS; op++)
    for (int t = 1; t <= DTYPE_FLOAT6E3M2; t++) {
      const enum dtype type = (enum dtype)t, made = kernels_map_result((enum kernels_map)op, type);
      if (!made) continue;
      struct kernels_operand in[3];
      for (int k = 0; k < 3; k++) {
        fill_type(operands[k], k == 0 && op == KERNELS_WHERE ? DTYPE_BOOL : type);
        in[k] = (struct kernels_operand){operands[k], 1};
      }
      for (unsigned still = 0; still < 4; still++) {
        in[0].stride = !(still & 1);
        in[1].stride = !(still & 2);
        const uint64_t open = kernels_map((enum kernels_map)op, type, results, in, ELEMENTS);
        put(results, ELEMENTS * width_of(made));
        put(&open, sizeof open);
      }
    }
  end("map");
}

static void reductions(void) {
  static uint64_t lanes[KERNELS_REDUCE_LANES * ELEMENTS], partial[ELEMENTS], tree[2 * ELEMENTS];
  begin();
  for (int op = 0; op < KERNELS_REDUCES; op++)
    for (int t = 1; t <= DTYPE_FLOAT6E3M2; t++) {
      if (!kernels_convert_takes((enum dtype)t)) continue;
      static const size_t columns[] = {1, 3, 700};
      for (int k = 0; k < 3; k++) {
        const struct kernels_reduction r = {(uint8_t)op, (uint8_t)t, columns[k]};
        const size_t rows = ELEMENTS / columns[k];
        for (uint64_t chunk = 0; chunk < 3; chunk++) {
          fill_type(operands[0], (enum dtype)t);
          kernels_reduce_begin(&r, lanes);
          kernels_reduce_rows(&r, lanes, 0, operands[0], columns[k], rows / 3);
          kernels_reduce_rows(&r, lanes, rows / 3,
                              operands[0] + rows / 3 * columns[k] * width_of((enum dtype)t),
                              columns[k], rows - rows / 3);
          kernels_reduce_close(&r, partial, lanes);
          put(partial, columns[k] * sizeof *partial);
          kernels_reduce_push(&r, tree, chunk, partial);
        }
        kernels_reduce_finish(&r, partial, tree, 3);
        put(partial, columns[k] * sizeof *partial);
      }
    }
  end("reduce");
}

static void dequantizations(void) {
  begin();
  for (int t = 1; t <= DTYPE_FLOAT6E3M2; t++)
    for (int s = 1; s <= DTYPE_FLOAT6E3M2; s++)
      for (int o = 1; o <= DTYPE_FLOAT6E3M2; o++) {
        const struct kernels_dequantized d = {(uint8_t)t, (uint8_t)s, (uint8_t)o};
        if (!kernels_dequantize_takes(&d)) continue;
        const bool zeros = dtype_is_integer((enum dtype)t) && t != DTYPE_INT32;
        fill_type(operands[0], (enum dtype)t);
        fill_type(operands[1], (enum dtype)s);
        fill_type(operands[2], (enum dtype)t);
        for (size_t stride = 0; stride < 2; stride++) {
          kernels_dequantize(
              &d, results, operands[0], (struct kernels_operand){operands[1], stride},
              (struct kernels_operand){zeros ? operands[2] : NULL, stride}, ELEMENTS);
          put(results, ELEMENTS * width_of((enum dtype)o));
        }
      }
  end("dequantize");
}

static void tallies(void) {
  enum { BINS = 300 };
  static float edges[BINS + 1];
  static const enum dtype types[] = {DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_DOUBLE};
  begin();
  for (int t = 0; t < 4; t++)
    for (int round = 0; round < 4; round++) {
      struct kernels_extremes x = kernels_tally_nothing();
      uint64_t counts[BINS] = {0};
      struct kernels_bins b = {.n = BINS, .magnitudes = round % 2, .edges = edges};
      fill_type(operands[0], types[t]);
      kernels_tally_extremes(&x, types[t], operands[0], ELEMENTS);
      for (int i = 0; i <= BINS; i++)
        edges[i] = (float)i * 0.01f + -1.5f;
      if (round > 1) b.step = 0.01f;
      kernels_tally_bins(counts, &b, types[t], operands[0], ELEMENTS);
      put(&x.least, sizeof x.least);
      put(&x.most, sizeof x.most);
      put(&x.magnitude, sizeof x.magnitude);
      put(&x.numbers, sizeof x.numbers);
      put(&x.nans, sizeof x.nans);
      put(&x.infinities, sizeof x.infinities);
      put(counts, sizeof counts);
    }
  end("tally");
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "portable") == 0) kernels_mask(0);
  transposes();
  casts();
  blocks("blocks nbits", KERNELS_NBITS);
  blocks("blocks qdq", KERNELS_QDQ);
  blocks("blocks gather", KERNELS_GATHER);
  blocks("blocks rtn", KERNELS_RTN);
  blocks("blocks k_quant", KERNELS_K_QUANT);
  blocks("blocks hqq", KERNELS_HQQ);
  blocks("blocks k_quant_best", KERNELS_K_QUANT_BEST);
  given_codes();
  affine();
  affine_ranges();
  linear();
  pairs();
  scaled_pairs();
  products();
  sha256();
  conversions();
  maps();
  reductions();
  dequantizations();
  tallies();
  return fflush(stdout) == 0 ? 0 : EXIT_FAILURE;
}
