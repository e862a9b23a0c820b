// Which variant of a kernel runs. Rows of kernels.def are looked at once, in order; the last row
// of a family that the machine can run wins, so a row needs nothing but its line there and its
// function. The choice is made when the first kernel is called and kept for the process.
//
// Features are asked of the processor *and* of the system (an operating system that does not save
// the wide registers takes them away). KERNELS_AVX2 includes F16C and FMA: the conversions and the
// sums of products need them, and every processor with the one has had the others. KERNELS_AVX512 is what Ice Lake and Zen 4 have:
// F, BW, DQ, VL, VBMI and VBMI2; the processors with less of it are better off with AVX2.
//
// kernels_mask is for tests, before any thread runs: every variant gives the same bytes, so masking
// shows in time only.
#include "kernels/kernels.h"

#include "kernels/blocks/blocks.h"
#include "kernels/kernels_table.h"
#include "platform/machine.h"
#include "tensor_stats/second_moments.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#if defined(__x86_64__)
#include <cpuid.h>

// Registers that the system saves (Intel SDM, volume 1, 13.3): bits of XCR0.
enum { SAVES_YMM = 0x06, SAVES_ZMM = 0xe6 };

// CPUID and XGETBV themselves: not every compiler comes with the tables of __builtin_cpu_supports.
static uint32_t machine_features(void) {
  const unsigned avx512_b = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  const unsigned avx512_c = bit_AVX512VBMI | bit_AVX512VBMI2;
  const unsigned sha_first = bit_SSSE3 | bit_SSE4_1, avx2_first = bit_OSXSAVE | bit_F16C | bit_FMA;
  unsigned a, b, c, d, first, saved;
  if (!__get_cpuid(1, &a, &b, &first, &d) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  const bool has_sha = (b & bit_SHA) && (first & sha_first) == sha_first;
  const uint32_t sha = has_sha ? KERNELS_SHA : 0; // registers of 128 bits: every system saves them
  if ((first & avx2_first) != avx2_first) return sha;
  __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  if ((saved & SAVES_YMM) != SAVES_YMM || !(b & bit_AVX2)) return sha;
  if ((saved & SAVES_ZMM) != SAVES_ZMM || (b & avx512_b) != avx512_b || (c & avx512_c) != avx512_c)
    return sha | KERNELS_AVX2;
  return sha | KERNELS_AVX2 | KERNELS_AVX512;
}
#elif defined(__aarch64__)
static uint32_t machine_features(void) {
  // The former is part of the base architecture; who has the latter only the system says.
  return KERNELS_NEON | (machine_has_sha2() ? KERNELS_SHA : 0);
}
#else
static uint32_t machine_features(void) {
  return 0;
}
#endif

static uint32_t in_use;
static struct kernels_table current;
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct kernels_table kernels_choose(uint32_t features) {
  struct kernels_table t = {0};
#define TAKE(variant, result, name, parameters) t.name = name##_##variant;
#define KERNELS(family, variant, needs)                                                            \
  if ((features & (uint32_t)(needs)) == (uint32_t)(needs)) {                                       \
    KERNELS_##family(TAKE, variant) t.isa = #variant;                                              \
  }
#include "kernels/kernels.def"
#undef TAKE
  return t;
}

static void choose_for_machine(void) {
  in_use = machine_features();
  current = kernels_choose(in_use);
}

static const struct kernels_table *table(void) {
  pthread_once(&once, choose_for_machine);
  return &current;
}

uint32_t kernels_features(void) {
  table();
  return in_use;
}

void kernels_mask(uint32_t features) {
  table();
  in_use = machine_features() & features;
  current = kernels_choose(in_use);
}

const char *kernels_isa_name(void) {
  return table()->isa;
}

void kernels_transpose(void *out, size_t out_stride, const void *in, size_t in_stride, size_t rows,
                       size_t cols, unsigned width) {
  assert(width == 1 || width == 2 || width == 4 || width == 8 || width == 16);
  struct transpose_shape shape = {out_stride, in_stride, rows, cols, width};
  table()->transpose(out, in, &shape);
}

void kernels_f32_to_f16(uint16_t *out, const float *in, size_t n) {
  table()->cast_f32_f16(out, in, n);
}

void kernels_f32_to_bf16(uint16_t *out, const float *in, size_t n) {
  table()->cast_f32_bf16(out, in, n);
}

void kernels_f16_to_f32(float *out, const uint16_t *in, size_t n) {
  table()->cast_f16_f32(out, in, n);
}

void kernels_bf16_to_f32(float *out, const uint16_t *in, size_t n) {
  table()->cast_bf16_f32(out, in, n);
}

void kernels_f64_to_f32(float *out, const double *in, size_t n) {
  table()->cast_f64_f32(out, in, n);
}

void kernels_f32_to_f64(double *out, const float *in, size_t n) {
  table()->cast_f32_f64(out, in, n);
}

void kernels_f64_to_f16(uint16_t *out, const double *in, size_t n) {
  table()->cast_f64_f16(out, in, n);
}

void kernels_f64_to_bf16(uint16_t *out, const double *in, size_t n) {
  table()->cast_f64_bf16(out, in, n);
}

// ---- blockwise quantization --------------------------------------------------------------------

static void check_format(const struct kernels_block_format *f) {
  size_t b = f->block;
  assert(f->bits == 2 || f->bits == 4 || f->bits == 8);
  assert(f->rule == KERNELS_QDQ || f->rule == KERNELS_GATHER
             ? b >= 1
             : b >= 16 && b <= BLOCKS_NBITS_MAX && !(b & (b - 1)));
}

void kernels_quantize_rows(const struct kernels_panel *p, const struct kernels_block_format *f) {
  check_format(f);
  (blocks_searched(f) ? table()->search_rows : table()->blocks_rows)(p, f);
}

void kernels_quantize_columns(const struct kernels_panel *p, const struct kernels_block_format *f) {
  check_format(f);
  (blocks_searched(f) ? table()->search_columns : table()->blocks_columns)(p, f);
}

void kernels_codes_rows(const struct kernels_panel *p, const struct kernels_block_format *f) {
  assert(f->rule == KERNELS_QDQ);
  table()->codes_rows(p, f);
}

void kernels_codes_columns(const struct kernels_panel *p, const struct kernels_block_format *f) {
  assert(f->rule == KERNELS_QDQ);
  table()->codes_columns(p, f);
}

void kernels_range_rows(const struct kernels_panel *p, enum kernels_float in_type, float *lo,
                        float *hi) {
  table()->range_rows(p, in_type, lo, hi);
}

void kernels_range_columns(const struct kernels_panel *p, enum kernels_float in_type, float *lo,
                           float *hi) {
  table()->range_columns(p, in_type, lo, hi);
}

void kernels_scale_zero(const struct kernels_block_format *f, float lo, float hi, float *scale,
                        uint8_t *zero) {
  struct blocks_grid g = blocks_grid_of(f, lo, hi);
  *scale = g.scale;
  *zero = (uint8_t)g.zero;
}

// ---- affine quantization -----------------------------------------------------------------------

void kernels_affine_codes_f32(int8_t *out, const float *in, size_t n,
                              const struct kernels_affine *a) {
  table()->affine_codes_f32(out, in, n, a);
}

size_t kernels_affine_range_f32(const float *in, size_t n, float *lo, float *hi) {
  return table()->affine_range_f32(in, n, lo, hi);
}

bool kernels_linear_codes(void *out, const float *in, size_t n, const struct kernels_linear *m) {
  return table()->linear_codes(out, in, n, m);
}

size_t kernels_linear_ranges(const float *in, size_t n, float *lo, float *hi) {
  return table()->linear_ranges(in, n, lo, hi);
}

bool kernels_figure_pairs(struct kernels_lanes *sums, size_t first, const double *v,
                          const double *w, size_t n) {
  return table()->figure_pairs(sums, first, v, w, n);
}

bool kernels_figure_pairs_codes(struct kernels_lanes *sums, size_t first, const float *v,
                                const uint8_t *codes, size_t n, const struct kernels_stored *m) {
  return table()->figure_pairs_codes(sums, first, v, codes, n, m);
}

bool kernels_figure_pairs_scaled(struct kernels_lanes *sums, size_t first, const float *v,
                                 const uint8_t *codes, size_t n, const struct kernels_scaled *m) {
  return table()->figure_pairs_scaled(sums, first, v, codes, n, m);
}

void kernels_products(double *c, size_t stride, const struct kernels_products *p, void *scratch) {
  table()->gram_products(c, stride, p, scratch);
}

void kernels_add_scaled(double *y, const double *x, double a, size_t n) {
  table()->gram_add_scaled(y, x, a, n);
}

void kernels_gram(double *tile, uint64_t k, uint64_t r, uint64_t c, const float *x, size_t stride,
                  size_t rows, void *scratch) {
  assert(c <= r && r < second_moments_tiles(k));
  const struct kernels_products p = {.a = {x + r * SECOND_MOMENTS_SIDE, 1, stride, false},
                                     .b = {x + c * SECOND_MOMENTS_SIDE, 1, stride, false},
                                     .rows = (size_t)second_moments_side(k, r),
                                     .columns = (size_t)second_moments_side(k, c),
                                     .depth = rows};
  table()->gram_products(tile, p.columns, &p, scratch);
}

void kernels_sha256_lanes(uint32_t state[][8], const uint8_t *const at[], size_t lanes,
                          size_t blocks) {
  table()->sha256_lanes(state, at, lanes, blocks);
}

size_t kernels_sha256_width(void) {
  return table()->sha256_width();
}
