// Blockwise quantization: vectors that ONNX Runtime produced (its quantize_matmul_{2,4,8}bits and
// quantize_qdq_matmul_4bits), then every variant against the portable reference, over all sets of
// features, comparing bytes of codes, scales, zero points and sums.
#include "guarded.h"
#include "kernels/kernels.h"
#include "kernels/kernels_table.h"
#include "suites.h"

#include <float.h>

// ---- vectors -----------------------------------------------------------------------------------

enum { K_MAX = 37, N_MAX = 3 };

struct vector {
  const char *name;
  struct kernels_block_format f;
  size_t k, n, column;
  float (*element)(size_t k, size_t j);
  const char
      *codes; // NBITS: bytes of the column; QDQ: the matrix, two codes a byte, low bits first
  const char *scales; // NBITS: of the column; QDQ: [blocks,n]
  const char *zeros;  // in the order of scales, one byte each; NULL: symmetric
};

static float ramp(size_t k, size_t j) {
  return (float)((int)((k * 7 + j * 13) % 31) - 11) * 0.125f;
}

static float nothing(size_t k, size_t j) {
  (void)k, (void)j;
  return 0;
}

static float tenths(size_t k, size_t j) {
  (void)j;
  return (float)(0.1 * (double)(k + 1));
}

static float ties(size_t k, size_t j) {
  static const float v[] = {-8, 7, -.5f, .5f, -1.5f, 1.5f, 2.5f, -2.5f, 0, 1, 2, 3, 4, 5, 6, -7};
  (void)j;
  return v[k];
}

#define NBITS(bits, sym)                                                                           \
  { KERNELS_NBITS, bits, sym, KERNELS_F32, KERNELS_F32, 16 }
#define QDQ(sym)                                                                                   \
  { KERNELS_QDQ, 4, sym, KERNELS_F32, KERNELS_F32, 16 }

static const struct vector vectors[] = {
    {"4 bits", NBITS(4, false), 16, 1, 0, ramp, "40b82fa61d84fc73", "3e777777", "06"},
    {"4 bits symmetric", NBITS(4, true), 16, 1, 0, ramp, "ad47b058c269038b", "be900000", NULL},
    {"K 35, column 0", NBITS(4, false), 35, 2, 0, ramp,
     "40b82fa61d84fc73ea52c94fb72e961d707f000000000000", "3e777777 3e800000 3deeeeef", "060604"},
    {"K 35, column 1", NBITS(4, false), 35, 2, 1, ramp,
     "b72f950d84fb62ea30b72e960d84fb62fbf0000000000000", "3e6eeeef 3e777777 3e4ccccd", "060505"},
    {"K 35 symmetric, column 0", NBITS(4, true), 35, 2, 0, ramp,
     "ad47b058c269038b259c36a047b158d36b60000000000000", "be900000 be980000 be200000", NULL},
    {"K 35 symmetric, column 1", NBITS(4, true), 35, 2, 1, ramp,
     "47c058d27a038b159c36b058c269037a040c000000000000", "be880000 be980000 be800000", NULL},
    {"8 bits", NBITS(8, false), 19, 1, 0, ramp,
     "003e7bb9f623619fdc094784c2ff2c6ab5ff0000000000000000000000000000", "3c68e8e9 3c40c0c1",
     "6160"},
    {"8 bits symmetric", NBITS(8, true), 19, 1, 0, ramp,
     "ce9c6b3907b2804e1cc795643200ab793c00cd00000000000000000000000000", "bc900000 bc700000", NULL},
    {"2 bits", NBITS(2, false), 37, 1, 0, ramp, "9493524e4e7a3929e5e40000",
     "3f9aaaab 3fa00000 3f800000", "010101"},
    {"2 bits symmetric", NBITS(2, true), 37, 1, 0, ramp, "6b6cacb1b1c5c6d61a1b0000",
     "bf900000 bf980000 bf880000", NULL},
    {"zeros", NBITS(4, false), 16, 1, 0, nothing, "0000000000000000", "00000000", "00"},
    {"zeros symmetric", NBITS(4, true), 16, 1, 0, nothing, "8888888888888888", "80000000", NULL},
    {"a last byte that begins a group", NBITS(4, false), 33, 1, 0, tenths,
     "2143658798badcfe8899aabbccddeeff0f00000000000000", "3dda740e 3e5a740e 3e6147ae", "000000"},
    {"ties", NBITS(4, false), 16, 1, 0, ties, "f098a76b98badc1e", "3f800000", "08"},
    {"ties symmetric", NBITS(4, true), 16, 1, 0, ties, "f098a76b98badc1e", "3f800000", NULL},
    {"QDQ, K 35", QDQ(false), 35, 2, 0, ramp,
     "70b4f82b5f92d60a4d81b4f82c6fa3e70a3e71b5e92c6f93d70b4e82b5f92d60b0f70f",
     "3e777777 3e6eeeef 3e800000 3e777777 3deeeeef 3e4ccccd", "060606050405"},
    {"QDQ symmetric, K 35", QDQ(true), 35, 2, 0, ramp,
     "f5c28f4c08d3a05d2af4b18e3b08d3904d1ae4b18e3b08d2af4c19e3b08d2bf5b38e48", NULL, NULL},
    {"QDQ, K 5", QDQ(false), 5, 3, 0, ramp, "604f0bf8b5904f0e", NULL, "060506"},
    {"QDQ ties", QDQ(false), 16, 1, 0, ties, "f097a65b98badc1e", "3f800000", "08"},
    {"QDQ ties symmetric", QDQ(true), 16, 1, 0, ties, "781f2ed310325496", "3f800000", NULL},
};

static void hex_of(char *out, const uint8_t *bytes, size_t n) {
  out[0] = 0;
  for (size_t i = 0; i < n; i++)
    sprintf(out + 2 * i, "%02x", bytes[i]);
}

static float unit(void) {
  return (float)((double)(random_64() >> 11) * 0x1p-52 - 1);
}

static const struct vector *vector;

struct results {
  uint8_t codes[512], zeros[16];
  float scales[16];
};

static size_t blocks_of(const struct vector *v) {
  return (v->k + v->f.block - 1) / v->f.block;
}

// NBITS: the column's bytes. QDQ: the matrix in pairs of codes.
static void check_codes(const struct vector *v, const struct results *r, bool rows) {
  uint8_t packed[256] = {0};
  char text[513];
  size_t n = blocks_of(v) * v->f.block * v->f.bits / 8;
  if (v->f.rule == KERNELS_NBITS) {
    memcpy(packed, r->codes + v->column * n, n);
  } else {
    n = (v->k * v->n + 1) / 2;
    for (size_t i = 0; i < v->k * v->n; i++) {
      size_t k = i / v->n, j = i % v->n;
      packed[i / 2] |= (uint8_t)(r->codes[rows ? j * v->k + k : i] << i % 2 * 4);
    }
  }
  hex_of(text, packed, n);
  assert_string_equal(text, v->codes);
}

static void check_scales(const struct vector *v, const struct results *r) {
  char scales[256] = "", zeros[64] = "";
  size_t blocks = blocks_of(v), n = v->f.rule == KERNELS_NBITS ? 1 : v->n;
  for (size_t i = 0; i < blocks * n; i++) {
    size_t at = (v->column + i % n) * blocks + i / n;
    uint32_t bits;
    memcpy(&bits, &r->scales[at], sizeof bits);
    sprintf(scales + strlen(scales), "%s%08x", i ? " " : "", bits);
    sprintf(zeros + strlen(zeros), "%02x", r->zeros[at]);
    if (!v->zeros)
      assert_int_equal(r->zeros[at], v->f.rule == KERNELS_NBITS ? 1 << (v->f.bits - 1) : 0);
  }
  if (v->scales) assert_string_equal(scales, v->scales);
  if (v->zeros) assert_string_equal(zeros, v->zeros);
}

static void run_vector(bool rows) {
  const struct vector *v = vector;
  float in[K_MAX * N_MAX];
  for (size_t i = 0; i < v->k * v->n; i++) {
    size_t k = rows ? i % v->k : i / v->n, j = rows ? i / v->k : i % v->n;
    in[i] = v->element(k, j);
  }
  struct results r;
  memset(&r, JUNK, sizeof r);
  size_t blocks = blocks_of(v);
  struct kernels_panel p = {in, rows ? v->k : v->n, v->n,    v->k,   r.codes,
                            0,  r.scales,           r.zeros, blocks, NULL};
  p.codes_stride = v->f.rule == KERNELS_NBITS ? blocks * v->f.block * v->f.bits / 8
                   : rows                     ? v->k
                                              : v->n;
  if (rows)
    kernels_quantize_rows(&p, &v->f);
  else
    kernels_quantize_columns(&p, &v->f);
  check_codes(v, &r, rows);
  check_scales(v, &r);
}

static void run_vector_both_ways(void) {
  run_vector(true);
  run_vector(false);
}

static void test_vectors(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
    vector = &vectors[i];

    for_each_feature_set(run_vector_both_ways);
  }
}

// ---- rules beyond MLAS -------------------------------------------------------------------------

// What onnxruntime 1.31.1 makes of sixteen elements at 4 bits: quantize_ndarray, quant_tensor,
// quant_tensor_k_quant_cpu.
struct rule_vector {
  uint8_t rule;
  bool symmetric;
  const char *codes; // GATHER: a byte a code; others packed
  uint32_t scale;
  uint8_t zero;
};

static const struct rule_vector rule_vectors[] = {
    {KERNELS_GATHER, false, "070b0f0205090d0004080b0f02060a0e", 0x3e6eeeef, 6},
    {KERNELS_RTN, false, "b72f950d84fb62ea", 0x3e6eeeef, 6},
    {KERNELS_GATHER, true, "0f0c0804000d0a05020f0b0803000d09", 0xbe880000, 0},
    {KERNELS_RTN, true, "c94fb83e96fc85eb", 0x3e911111, 8},
    {KERNELS_K_QUANT, false, "b72f950d84fb62ea", 0x3e6a511f, 6},
};

static void run_rule_vector(const struct rule_vector *v, bool rows) {
  struct kernels_block_format f = {v->rule, 4, v->symmetric, KERNELS_F32, KERNELS_F32, 16};
  float in[16], scale = 0;
  uint8_t codes[16], zero = JUNK;
  char text[40];
  bool bytes = v->rule == KERNELS_GATHER;
  for (size_t k = 0; k < 16; k++)
    in[k] = ramp(k, 1);
  struct kernels_panel p = {.in = in, .in_stride = rows ? 16 : 1, .n = 1, .k = 16, .codes = codes};
  p.codes_stride = rows ? 16 : 1;
  p.scales = &scale;
  p.zeros = &zero;
  p.blocks_stride = 1;
  (rows ? kernels_quantize_rows : kernels_quantize_columns)(&p, &f);
  hex_of(text, codes, bytes ? 16 : 8);
  assert_string_equal(text, v->codes);
  uint32_t bits;
  memcpy(&bits, &scale, sizeof bits);
  assert_int_equal(bits, v->scale);
  assert_int_equal(zero, v->zero);
}

static void run_rule_vectors(void) {
  for (size_t i = 0; i < sizeof rule_vectors / sizeof *rule_vectors; i++) {
    run_rule_vector(&rule_vectors[i], true);
    run_rule_vector(&rule_vectors[i], false);
  }
}

static void test_rules(void **state) {
  (void)state;
  for_each_feature_set(run_rule_vectors);
}

// Mean |v - (code - zero) * scale| of 4-bit codes over a block.
static double mean_error(const float *v, const uint8_t *codes, float scale, float zero) {
  double sum = 0;
  for (size_t k = 0; k < 64; k++)
    sum += fabs((double)v[k] -
                ((double)(codes[k / 2] >> k % 2 * 4 & 15) - (double)zero) * (double)scale);
  return sum / 64;
}

// The half-quadratic search begins at what rounding to nearest would do, keeps its best, and is
// better on the whole.
static void test_hqq(void **state) {
  (void)state;
  double searched = 0, plain = 0;
  for (int i = 0; i < 100; i++) {
    float v[64], scale, float_zero;
    uint8_t codes[32], zero;
    for (size_t k = 0; k < 64; k++)
      v[k] = unit() * unit() * unit();
    struct kernels_panel p = {
        .in = v, .in_stride = 64, .n = 1, .k = 64, .codes = codes, .codes_stride = 32};
    p.scales = &scale;
    p.zeros = &zero;
    p.float_zeros = &float_zero;
    p.blocks_stride = 1;
    struct kernels_block_format f = {KERNELS_RTN, 4, false, KERNELS_F32, KERNELS_F32, 64};
    kernels_quantize_rows(&p, &f);
    double of_rtn = mean_error(v, codes, scale, zero);
    f.rule = KERNELS_HQQ;
    kernels_quantize_rows(&p, &f);
    double of_hqq = mean_error(v, codes, scale, float_zero);
    assert_true(of_hqq <= of_rtn * 1.000001);
    searched += of_hqq;
    plain += of_rtn;
  }
  assert_true(searched < plain * 0.99);
}

// ---- every variant against the reference -------------------------------------------------------

enum { CASES = 1200, SIDE = 24, LENGTH = 700, AREA = SIDE * LENGTH };

// A random panel, its operands in guarded pages and what the reference makes of it.
struct panel_case {
  struct kernels_block_format f;
  struct kernels_panel p; // of the reference
  bool rows, given;
  size_t codes_n, blocks_n;
  float lo[LENGTH], hi[LENGTH]; // what ranges are joined to
  float want_lo[LENGTH], want_hi[LENGTH];
};
static struct panel_case panel;
static struct guarded in_pages, codes_pages, scales_pages, zeros_pages, floats_pages, sums_pages;

static float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

enum kind {
  PLAIN,
  HALVES,
  ONE_SIGN,
  SPARSE,
  ZEROS_BELOW, // of both signs, and numbers above them
  ZEROS_ABOVE,
  ZEROS,
  TINY,
  HUGE_ONES,
  LARGE,
  SOME_ODD,
  ALL_NAN,
  ANY_BITS,
  KINDS
};

static float any_zero(void) {
  return random_64() % 2 ? 0.0f : -0.0f;
}

static float element_of(enum kind kind) {
  static const uint32_t odd[] = {0x7fc00000, 0xffc00001, 0x7f800001, 0x7f800000, 0xff800000};
  switch (kind) {
  case PLAIN: return unit();
  case HALVES: return (float)(random_64() % 64) / 2 - 16;
  case ONE_SIGN: return unit() / 2 + 3;
  case SPARSE: return random_64() % 8 ? any_zero() : unit();
  case ZEROS_BELOW: return random_64() % 2 ? any_zero() : fabsf(unit());
  case ZEROS_ABOVE: return random_64() % 2 ? any_zero() : -fabsf(unit());
  case ZEROS: return any_zero();
  case TINY: return unit() * 0x1p-120f * (float)(1 << random_64() % 20) * 0x1p-20f;
  case HUGE_ONES: return unit() * 0x1.8p127f;
  case LARGE: return unit() * (float)(1 << random_64() % 12); // more than noise to HQQ's norm
  case SOME_ODD:
    return random_64() % 40 ? unit() : float_of_bits(odd[random_64() % (sizeof odd / sizeof *odd)]);
  case ALL_NAN: return float_of_bits(odd[random_64() % 3]);
  default: return float_of_bits((uint32_t)random_64());
  }
}

static void fill_kind(uint8_t *in, size_t n, enum kernels_float type, enum kind kind) {
  for (size_t i = 0; i < n; i++) {
    float x = element_of(kind);
    if (type == KERNELS_F16) x = kind == ANY_BITS ? x : x * (kind == TINY ? 0x1p100f : 1);
    if (type == KERNELS_F32) memcpy(in + 4 * i, &x, 4);
    if (type == KERNELS_F16) cast_f32_f16_portable(in + 2 * i, &x, 1);
    if (type == KERNELS_BF16) cast_f32_bf16_portable(in + 2 * i, &x, 1);
  }
}

// The kind changes from place to place, so that blocks of all kinds meet in one vector.
static void fill_input(uint8_t *in, size_t n, enum kernels_float type) {
  const size_t width = type == KERNELS_F32 ? 4 : 2;
  bool mixed = random_64() % 2;
  size_t run = 16 * (1 + random_64() % 8);
  enum kind kind = (enum kind)(random_64() % KINDS);
  if (!mixed) run = n;
  for (size_t i = 0; i < n; i += run) {
    if (mixed) kind = (enum kind)(random_64() % KINDS);
    fill_kind(in + i * width, n - i < run ? n - i : run, type, kind);
  }
}

static bool in_place(const struct kernels_block_format *f) {
  return f->rule == KERNELS_QDQ || f->rule == KERNELS_GATHER;
}

// Of MLAS, or of the rules beyond.
static struct kernels_block_format random_format(bool searched) {
  static const uint8_t bits[] = {2, 4, 8};
  static const size_t odd_blocks[] = {1, 3, 8, 24, 48, 100, 272, 512};
  const uint64_t rule = searched ? KERNELS_GATHER + random_64() % 5 : random_64() % 2;
  struct kernels_block_format f = {
      .rule = (uint8_t)rule,
      .bits = bits[random_64() % 3],
      .symmetric = random_64() % 2,
      .in_type = (uint8_t)(random_64() % 3),
      .scale_type = (uint8_t)(random_64() % 3),
      .block = (size_t)16 << random_64() % 5,
  };
  if (in_place(&f) && random_64() % 2) f.block = odd_blocks[random_64() % 8];
  return f;
}

static size_t codes_extent(const struct panel_case *c, size_t blocks) {
  const struct kernels_panel *p = &c->p;
  if (!in_place(&c->f)) return (p->n - 1) * p->codes_stride + blocks * c->f.block * c->f.bits / 8;
  return c->rows ? (p->n - 1) * p->codes_stride + p->k : (p->k - 1) * p->codes_stride + p->n;
}

static void reference(struct panel_case *c) {
  const struct kernels_panel *p = &c->p;
  if (c->given)
    (c->rows ? codes_rows_portable : codes_columns_portable)(p, &c->f);
  else if (c->f.rule > KERNELS_QDQ)
    (c->rows ? search_rows_portable : search_columns_portable)(p, &c->f);
  else
    (c->rows ? blocks_rows_portable : blocks_columns_portable)(p, &c->f);
  memcpy(c->want_lo, c->lo, sizeof c->lo);
  memcpy(c->want_hi, c->hi, sizeof c->hi);
  (c->rows ? range_rows_portable : range_columns_portable)(p, (enum kernels_float)c->f.in_type,
                                                           c->want_lo, c->want_hi);
}

static void random_size(struct panel_case *c) {
  struct kernels_panel *p = &c->p;
  bool wide = random_64() % 2; // long along n, or along k
  p->n = 1 + random_64() % (wide && !c->rows ? 100 : SIDE);
  p->k = 1 + random_64() % (wide && !c->rows ? 160 : LENGTH);
  if (random_64() % 3 == 0) p->k = (p->k + 127) / 128 * 128;
}

static void shape(struct panel_case *c) {
  struct kernels_panel *p = &c->p;
  size_t blocks = c->given ? 1 : (p->k + c->f.block - 1) / c->f.block;
  size_t slack = random_64() % 2 ? random_64() % 9 : 0;
  p->in_stride = (c->rows ? p->k : p->n) + slack;
  p->blocks_stride = blocks + slack;
  p->codes_stride = (!in_place(&c->f) ? blocks * c->f.block * c->f.bits / 8
                     : c->rows        ? p->k
                                      : p->n) +
                    slack;
  c->codes_n = codes_extent(c, blocks);
  c->blocks_n = (p->n - 1) * p->blocks_stride + blocks;
}

// Sums begin anywhere, NaN and all.
static void fill_sums(struct kernels_sums *sums, size_t n) {
  bool fresh = random_64() % 4;
  for (size_t j = 0; j < n; j++) {
    struct kernels_sums some = {unit(), unit(), unit(), fabsf(unit()), UINT32_MAX - 2};
    sums[j] = fresh ? (struct kernels_sums){0} : some;
  }
}

static uint8_t *junk(size_t n) {
  uint8_t *at = malloc(n + 1);
  memset(at, JUNK, n + 1);
  return at;
}

static void check_panel(void) {
  struct panel_case *c = &panel;
  struct kernels_panel p = c->p;
  float lo[LENGTH], hi[LENGTH];
  bool end = random_64() % 2;
  size_t scales_n = c->blocks_n * sizeof(float), sums_n = p.n * sizeof(struct kernels_sums);
  struct kernels_sums *before = malloc(sums_n);
  p.codes = p.codes ? memset(guarded_at(&codes_pages, c->codes_n, end), JUNK, c->codes_n) : NULL;
  if (!c->given) {
    p.scales = memset(guarded_at(&scales_pages, scales_n, end), JUNK, scales_n);
    p.zeros = memset(guarded_at(&zeros_pages, c->blocks_n, end), JUNK, c->blocks_n);
    p.float_zeros = memset(guarded_at(&floats_pages, scales_n, end), JUNK, scales_n);
  }
  // The reference begins with the same sums: both start from those of sums_pages.
  if (p.sums) {
    p.sums = memcpy(before, sums_pages.pages, sums_n);
  }
  if (c->given)
    (c->rows ? kernels_codes_rows : kernels_codes_columns)(&p, &c->f);
  else
    (c->rows ? kernels_quantize_rows : kernels_quantize_columns)(&p, &c->f);
  memcpy(lo, c->lo, sizeof lo);
  memcpy(hi, c->hi, sizeof hi);
  (c->rows ? kernels_range_rows : kernels_range_columns)(&p, (enum kernels_float)c->f.in_type, lo,
                                                         hi);
  const char *wrong = NULL;
  if (p.codes && memcmp(p.codes, c->p.codes, c->codes_n) != 0) wrong = "codes";
  if (memcmp(p.scales, c->p.scales, scales_n) != 0) wrong = "scales";
  if (memcmp(p.zeros, c->p.zeros, c->blocks_n) != 0) wrong = "zeros";
  if (memcmp(p.float_zeros, c->p.float_zeros, scales_n) != 0) wrong = "float zeros";
  if (p.sums && memcmp(p.sums, c->p.sums, sums_n) != 0) wrong = "sums";
  if (memcmp(lo, c->want_lo, sizeof lo) != 0 || memcmp(hi, c->want_hi, sizeof hi) != 0)
    wrong = "range";
  free(before);
  if (wrong)
    fail_msg(
        "%s: rule %d, %d bits, symmetric %d, types %d %d, block %zu, %zu columns of %zu, rows %d, "
        "given %d, sums %d, on %s",
        wrong, c->f.rule, c->f.bits, c->f.symmetric, c->f.in_type, c->f.scale_type, c->f.block, p.n,
        p.k, c->rows, c->given, p.sums != NULL, kernels_isa_name());
}

static void random_ranges(struct panel_case *c) {
  for (size_t j = 0; j < LENGTH; j++) {
    bool fresh = random_64() % 2;
    c->lo[j] = fresh ? FLT_MAX : element_of(SPARSE);
    c->hi[j] = fresh ? -FLT_MAX : element_of(SPARSE);
  }
}

static void run_panel(struct panel_case *c) {
  shape(c);
  random_ranges(c);
  size_t width = c->f.in_type == KERNELS_F32 ? 4 : 2;
  size_t lines = c->rows ? c->p.n : c->p.k, length = c->rows ? c->p.k : c->p.n;
  size_t in_n = (lines - 1) * c->p.in_stride + length;
  uint8_t *in = guarded_at(&in_pages, in_n * width, random_64() % 2);
  fill_input(in, in_n, (enum kernels_float)c->f.in_type);
  c->p.in = in;
  c->p.codes = random_64() % 8 ? junk(c->codes_n) : NULL;
  c->p.scales = (float *)(void *)junk(c->blocks_n * sizeof(float));
  c->p.zeros = junk(c->blocks_n);
  c->p.float_zeros = (float *)(void *)junk(c->blocks_n * sizeof(float));
  for (size_t i = 0; c->given && i < c->blocks_n; i++) {
    c->p.scales[i] = random_64() % 4 ? unit() / 4 : element_of(ANY_BITS);
    c->p.zeros[i] = (uint8_t)(random_64() & ((1u << c->f.bits) - 1));
  }
  struct kernels_sums *sums = (struct kernels_sums *)(void *)junk(c->p.n * sizeof *sums);
  fill_sums(sums, c->p.n);
  memcpy(sums_pages.pages, sums, c->p.n * sizeof *sums);
  c->p.sums = random_64() % 2 ? sums : NULL;
  reference(c);
  for_each_feature_set(check_panel);
  free(c->p.codes);
  free(c->p.scales);
  free(c->p.zeros);
  free(c->p.float_zeros);
  free(sums);
}

static void random_panel(bool searched) {
  struct panel_case *c = &panel;
  c->f = random_format(searched);
  c->rows = random_64() % 2;
  c->given = c->f.rule == KERNELS_QDQ && random_64() % 2;
  random_size(c);
  run_panel(c);
}

static void open_pages(void) {
  in_pages = guarded_open((size_t)AREA * 8);
  codes_pages = guarded_open((size_t)AREA * 8);
  scales_pages = guarded_open((size_t)AREA * 8);
  zeros_pages = guarded_open((size_t)AREA * 2);
  floats_pages = guarded_open((size_t)AREA * 8);
  sums_pages = guarded_open(128 * sizeof(struct kernels_sums));
}

static void close_pages(void) {
  guarded_close(&in_pages);
  guarded_close(&codes_pages);
  guarded_close(&scales_pages);
  guarded_close(&zeros_pages);
  guarded_close(&floats_pages);
  guarded_close(&sums_pages);
}

static void test_variants(void **state) {
  (void)state;
  open_pages();
  for (int i = 0; i < CASES; i++)
    random_panel(false);
  close_pages();
}

// Columns shorter than a block, as those of a weight of few rows are; and behind whole blocks.
static void test_short_columns(void **state) {
  (void)state;
  struct panel_case *c = &panel;
  open_pages();
  for (size_t i = 0; i < CASES; i++) {
    do
      c->f = random_format(false);
    while (c->f.rule != KERNELS_NBITS);
    c->rows = c->given = false;
    c->p.k = random_64() % 3 * c->f.block + 1 + random_64() % (i % 2 ? 3 : c->f.block - 1);
    c->p.n = 1 + random_64() % (c->p.k < 160 ? 100 : SIDE);
    run_panel(c);
  }
  close_pages();
}

static int searched_cases = CASES;

static void test_searched_variants(void **state) {
  (void)state;
  open_pages();
  for (int i = 0; i < searched_cases; i++)
    random_panel(true);
  close_pages();
}

// ---- error figures of any magnitude ------------------------------------------------------------

// Squares that float32 does not hold, of either kind: sums are what double makes of them.
static double magnitude;
static uint8_t magnitude_rule;

static void check_magnitude(void) {
  enum { BLOCK = 64 };
  const struct kernels_block_format f = {magnitude_rule, 8, false, KERNELS_F32, KERNELS_F32, BLOCK};
  float v[BLOCK], scale;
  uint8_t codes[BLOCK], zero;
  double vv = 0, ee = 0, most = 0;
  struct kernels_sums sums = {0};
  for (size_t k = 0; k < BLOCK; k++)
    v[k] = (float)(((int)(k * 37 % BLOCK) - 21) * magnitude / BLOCK);
  const struct kernels_panel p = {.in = v,
                                  .in_stride = BLOCK,
                                  .n = 1,
                                  .k = BLOCK,
                                  .codes = codes,
                                  .codes_stride = BLOCK,
                                  .scales = &scale,
                                  .zeros = &zero,
                                  .blocks_stride = 1,
                                  .sums = &sums};
  kernels_quantize_rows(&p, &f);
  for (size_t k = 0; k < BLOCK; k++) {
    const double e = (double)v[k] - (codes[k] - zero) * (double)scale;
    vv += (double)v[k] * (double)v[k];
    ee += e * e;
    if (fabs(e) > most) most = fabs(e);
  }
  assert_true(vv > 0 && ee > 0 && isfinite(vv));
  assert_true(fabs(sums.vv - vv) <= 1e-5 * vv);
  assert_true(fabs(sums.ee - ee) <= 1e-3 * ee); // e has lost what v and its code share
  assert_true(fabs((double)sums.max_error - most) <= 1e-3 * most);
  assert_int_equal(sums.nonfinite, 0);
}

static void test_magnitudes(void **state) {
  (void)state;
  for (int exponent = -120; exponent <= 120; exponent += 5)
    for (magnitude_rule = KERNELS_NBITS; magnitude_rule <= KERNELS_QDQ; magnitude_rule++) {
      magnitude = ldexp(1, exponent);
      for_each_feature_set(check_magnitude);
    }
}

// ---- quotients at the end of int32 -------------------------------------------------------------

// The last float before it passes it with a zero point of 200; the next is past it alone.
static void check_ends(void) {
  enum { N = 32, ENDS = 8 };
  static const struct kernels_block_format f = {KERNELS_QDQ, 8, false, KERNELS_F32, KERNELS_F32, N};
  static const float elements[ENDS] = {0x1.fffffep30f, -0x1.fffffep30f, 0x1p31f, -0x1p31f,
                                       0x1.fffffcp30f, 54.5f,           -200.5f, 53.49f};
  static const uint8_t want[][ENDS] = {{0, 0, 0, 0, 255, 255, 0, 253},
                                       {255, 0, 0, 0, 255, 56, 0, 54}};
  float v[N], scales[N];
  uint8_t zeros[N], rows[N], columns[N];
  struct kernels_panel p = {.in = v,
                            .in_stride = N,
                            .codes_stride = N,
                            .scales = scales,
                            .zeros = zeros,
                            .blocks_stride = 1};
  for (size_t i = 0; i < N; i++) {
    v[i] = elements[i % ENDS];
    scales[i] = 1;
  }
  for (int small = 0; small < 2; small++) {
    memset(zeros, small ? 1 : 200, N);
    p.codes = rows;
    p.n = 1;
    p.k = N;
    kernels_codes_rows(&p, &f);
    p.codes = columns;
    p.n = N;
    p.k = 1;
    kernels_codes_columns(&p, &f);
    for (size_t i = 0; i < N; i++) {
      assert_int_equal(rows[i], want[small][i % ENDS]);
      assert_int_equal(columns[i], want[small][i % ENDS]);
    }
  }
}

static void test_ends(void **state) {
  (void)state;
  for_each_feature_set(check_ends);
}

// ---- panels of many rows -----------------------------------------------------------------------

// What a variant takes in several strips, one below the other.
enum { FAR_ROWS = 5000, FAR_COLUMNS = 37 };
struct far_result {
  uint8_t codes[FAR_ROWS * FAR_COLUMNS + FAR_COLUMNS * 256];
  float scales[FAR_ROWS * FAR_COLUMNS / 16 + FAR_COLUMNS];
  uint8_t zeros[FAR_ROWS * FAR_COLUMNS / 16 + FAR_COLUMNS];
};
static struct far_result far_want[2], far_got; // want: without codes, and with them
static struct kernels_block_format far_format;
static float far_in[FAR_ROWS * FAR_COLUMNS];

static struct kernels_panel far_panel(struct far_result *to, bool codes) {
  const struct kernels_block_format *f = &far_format;
  const size_t blocks = (FAR_ROWS - 1) / f->block + 1;
  memset(to, 0xa5, sizeof *to);
  return (struct kernels_panel){
      .in = far_in,
      .in_stride = FAR_COLUMNS,
      .n = FAR_COLUMNS,
      .k = FAR_ROWS,
      .codes = codes ? to->codes : NULL,
      .codes_stride = f->rule == KERNELS_QDQ ? FAR_COLUMNS : blocks * f->block * f->bits / 8,
      .scales = to->scales,
      .zeros = to->zeros,
      .blocks_stride = blocks};
}

static void check_far(void) {
  for (int codes = 0; codes < 2; codes++) {
    const struct kernels_panel got = far_panel(&far_got, codes);
    kernels_quantize_columns(&got, &far_format);
    if (memcmp(&far_want[codes], &far_got, sizeof far_got) != 0)
      fail_msg("rule %d, %d bits, block %zu, codes %d, on %s", far_format.rule, far_format.bits,
               far_format.block, codes, kernels_isa_name());
  }
}

static void test_far(void **state) {
  static const size_t blocks[] = {16, 32, 64, 100, 128, 256};
  (void)state;
  for (size_t i = 0; i < FAR_ROWS * FAR_COLUMNS; i++)
    far_in[i] = unit();
  for (size_t i = 0; i < 6 * 6; i++) {
    far_format = (struct kernels_block_format){.rule = i % 2 ? KERNELS_QDQ : KERNELS_NBITS,
                                               .bits = (uint8_t)(2u << i / 2 % 3),
                                               .block = blocks[i / 6]};
    if (far_format.rule == KERNELS_NBITS && far_format.block == 100) continue;
    for (int codes = 0; codes < 2; codes++) {
      const struct kernels_panel want = far_panel(&far_want[codes], codes);
      blocks_columns_portable(&want, &far_format);
    }
    for_each_feature_set(check_far);
  }
}

// ---- long rows ---------------------------------------------------------------------------------

// What a variant takes in several groups of blocks, one behind the other, with all ends that there
// are: of groups of any size, of a group, of a block.
enum { LONG_K = 2 * 1024 + 700, LONG_N = 2, LONG_CASES = 600 };
struct long_result {
  uint8_t codes[LONG_N * (LONG_K + 256)], zeros[LONG_N * (LONG_K / 16 + 1)];
  float scales[LONG_N * (LONG_K / 16 + 1)];
  struct kernels_sums sums[LONG_N];
};
static struct long_result long_want, long_got;
static struct kernels_sums long_begin[LONG_N];
static struct kernels_block_format long_format;
static struct kernels_panel long_panel; // without outputs
static bool long_sums;

// Rows of one kind that hold a few elements or blocks of another: a variant takes most of them
// together, and must see the few.
static void fill_long(uint8_t *in, size_t n, enum kernels_float type) {
  static const enum kind most[] = {PLAIN, HALVES, ONE_SIGN, SPARSE, TINY, HUGE_ONES};
  const size_t width = type == KERNELS_F32 ? 4 : 2;
  fill_kind(in, n, type, most[random_64() % (sizeof most / sizeof *most)]);
  for (size_t i = random_64() % 6; i > 0; i--) {
    const enum kind kind = (enum kind)(random_64() % KINDS);
    if (random_64() % 2)
      fill_kind(in + random_64() % (n / 16) * 16 * width, 16, type, kind);
    else
      fill_kind(in + random_64() % n * width, 1, type, random_64() % 2 ? ALL_NAN : kind);
  }
}

static struct kernels_panel long_panel_to(struct long_result *to) {
  struct kernels_panel p = long_panel;
  memset(to, JUNK, sizeof *to);
  memcpy(to->sums, long_begin, sizeof to->sums);
  p.codes = to->codes;
  p.scales = to->scales;
  p.zeros = to->zeros;
  p.sums = long_sums ? to->sums : NULL;
  return p;
}

static void check_long(void) {
  const struct kernels_panel got = long_panel_to(&long_got);
  kernels_quantize_rows(&got, &long_format);
  if (memcmp(&long_want, &long_got, sizeof long_want) != 0)
    fail_msg("rule %d, %d bits, symmetric %d, types %d %d, block %zu, rows of %zu, sums %d, on %s",
             long_format.rule, long_format.bits, long_format.symmetric, long_format.in_type,
             long_format.scale_type, long_format.block, got.k, long_sums, kernels_isa_name());
}

static void long_rows(const uint8_t *in, size_t k) {
  const struct kernels_block_format *f = &long_format;
  const size_t blocks = (k - 1) / f->block + 1;
  long_panel = (struct kernels_panel){
      .in = in,
      .in_stride = k,
      .n = LONG_N,
      .k = k,
      .codes_stride = f->rule == KERNELS_QDQ ? k : blocks * f->block * f->bits / 8,
      .blocks_stride = blocks};
  const struct kernels_panel want = long_panel_to(&long_want);
  blocks_rows_portable(&want, f);
  for_each_feature_set(check_long);
}

static void test_long(void **state) {
  (void)state;
  struct guarded pages = guarded_open((size_t)LONG_N * LONG_K * 4);
  for (int i = 0; i < LONG_CASES; i++) {
    long_format = random_format(false);
    if (long_format.block < 16) long_format.block = 16;
    if (i % 4) { // the format that is taken together
      long_format.rule = KERNELS_NBITS;
      long_format.bits = 4;
      long_format.in_type = KERNELS_F32;
      long_format.block = 16;
    }
    long_sums = random_64() % 2;
    fill_sums(long_begin, LONG_N);
    const size_t k = LONG_K - random_64() % 1400;
    const size_t width = long_format.in_type == KERNELS_F32 ? 4 : 2;
    uint8_t *in = guarded_at(&pages, LONG_N * k * width, random_64() % 2);
    fill_long(in, LONG_N * k, (enum kernels_float)long_format.in_type);
    long_rows(in, k);
  }
  guarded_close(&pages);
}

// No errors but of 0, and products with them that are -0: the reference's sums of them are 0, and
// so is what they are added to.
static void test_minus_zero(void **state) {
  (void)state;
  static float in[LONG_N * 1024];
  for (size_t i = 0; i < LONG_N * 1024; i++)
    in[i] = -0x1.ep-1f; // code 0 of 15
  long_format =
      (struct kernels_block_format){KERNELS_NBITS, 4, false, KERNELS_F32, KERNELS_F32, 16};
  long_sums = true;
  for (size_t j = 0; j < LONG_N; j++)
    long_begin[j] = (struct kernels_sums){.vv = -0.0, .ee = -0.0, .ve = -0.0};
  long_rows((const uint8_t *)in, 1024);
  assert_true(long_want.sums[0].ve == 0 && !signbit(long_want.sums[0].ve));
}

// Without a word: all but the searched variants; with one: they alone. With a number after it: so
// many of their cases, but all of them with WEIR_TEST_ALL=1.
int test_blocks(void) {
  const char *all = getenv("WEIR_TEST_ALL"), *cases = suite_argument(2);
  if (cases && !(all && strcmp(all, "1") == 0)) searched_cases = atoi(cases);
  const struct CMUnitTest searched[] = {cmocka_unit_test(test_searched_variants)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors),       cmocka_unit_test(test_rules),
      cmocka_unit_test(test_hqq),           cmocka_unit_test(test_variants),
      cmocka_unit_test(test_short_columns), cmocka_unit_test(test_magnitudes),
      cmocka_unit_test(test_ends),          cmocka_unit_test(test_far),
      cmocka_unit_test(test_long),          cmocka_unit_test(test_minus_zero),
  };
  if (suite_argument(1)) return cmocka_run_group_tests(searched, NULL, NULL);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
