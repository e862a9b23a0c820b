// Blockwise quantization: vectors that ONNX Runtime produced (its quantize_matmul_{2,4,8}bits and
// quantize_qdq_matmul_4bits), then every variant against the portable reference, over all sets of
// features, comparing bytes of codes, scales, zero points and sums.
#include "guarded.h"
#include "kernels.h"
#include "kernels_table.h"

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
    print_message("%s\n", vector->name);
    for_each_feature_set(run_vector_both_ways);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vectors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
