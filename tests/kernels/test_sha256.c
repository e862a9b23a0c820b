// SHA-256 of several streams against libcrypto, over every set of features: any number of streams, of any number of
// blocks, at any address; nothing is read behind a stream's last block.
#include "base/digest.h"
#include "guarded.h"
#include "kernels/kernels.h"

enum { LANES = 9, BLOCKS = 5, BLOCK = 64 };

static struct guarded pages[LANES];

static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// Data of `n` bytes, and what pads it: n ends a block.
static void pad(uint8_t block[BLOCK], uint64_t n) {
  memset(block, 0, BLOCK);
  block[0] = 0x80;
  for (unsigned i = 0; i < 8; i++)
    block[BLOCK - 1 - i] = (uint8_t)(n * 8 >> 8 * i);
}

static void check_lanes(size_t lanes, size_t blocks, bool at_end) {
  uint32_t state[LANES + 1][8], junk[8];
  uint8_t last[BLOCK], is[DIGEST_BYTES], must[DIGEST_BYTES];
  const uint8_t *at[LANES], *padding[LANES];
  const size_t n = blocks * BLOCK;
  memset(state, JUNK, sizeof state);
  memset(junk, JUNK, sizeof junk);
  pad(last, n);
  for (size_t i = 0; i < lanes; i++) {
    uint8_t *bytes = guarded_at(&pages[i], n, at_end);
    for (size_t k = 0; k < n; k++)
      bytes[k] = (uint8_t)random_64();
    memcpy(state[i], initial, sizeof initial);
    at[i] = bytes;
    padding[i] = last;
  }
  kernels_sha256_lanes(state, at, lanes, blocks);
  kernels_sha256_lanes(state, padding, lanes, 1);
  assert_memory_equal(state[lanes], junk, sizeof junk);
  for (size_t i = 0; i < lanes; i++) {
    for (size_t k = 0; k < DIGEST_BYTES; k++)
      is[k] = (uint8_t)(state[i][k / 4] >> (24 - k % 4 * 8));
    digest_of(at[i], n, must);
    if (memcmp(is, must, DIGEST_BYTES) != 0)
      fail_msg("stream %zu of %zu, %zu blocks, on %s", i, lanes, blocks, kernels_isa_name());
  }
}

static void check_all(void) {
  assert_true(kernels_sha256_width() >= 1);
  for (size_t lanes = 0; lanes <= LANES; lanes++)
    for (size_t blocks = 0; blocks <= BLOCKS; blocks++)
      check_lanes(lanes, blocks, blocks & 1);
}

static void test_lanes(void **state) {
  (void)state;
  for (size_t i = 0; i < LANES; i++)
    pages[i] = guarded_open(BLOCKS * BLOCK);
  sha256_is_tested = true;
  for_each_feature_set(check_all);
  for (size_t i = 0; i < LANES; i++)
    guarded_close(&pages[i]);
}

int test_sha256(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lanes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
