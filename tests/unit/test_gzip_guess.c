// Compressed sizes from samples: what is read, where, and how near the guess comes to what zlib makes of all of it.
#include "squeeze/gzip_guess.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { MIB = 1 << 20, LARGE = 3 * MIB };

// Bytes of 0 .. values - 1, by splitmix64; what is asked for is counted. Places from `unknown` on cannot be read.
struct made {
  uint8_t *bytes;
  uint64_t total, unknown, read, calls, last;
};

static void make(struct made *m, uint64_t total, unsigned values) {
  uint64_t state = 1;
  *m = (struct made){.bytes = malloc(total), .total = total, .unknown = UINT64_MAX};
  assert_non_null(m->bytes);
  for (uint64_t i = 0; i < total; i++) {
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    m->bytes[i] = (uint8_t)((x ^ x >> 31) % values);
  }
}

static bool read_made(void *ctx, uint64_t off, uint8_t *buf, size_t n) {
  struct made *m = ctx;
  assert_true(n > 0 && n <= GZIP_SAMPLE_BYTES && off < m->total && n <= m->total - off);
  m->calls++;
  m->last = off;
  if (off >= m->unknown) return false;
  m->read += n;
  memcpy(buf, m->bytes + off, n);
  return true;
}

// What gzip -9 makes of it: a header and a trailer beside what deflate makes.
static uint64_t truly(const struct made *m) {
  z_stream z = {.next_in = m->bytes, .avail_in = (uInt)m->total};
  assert_int_equal(
      deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
      Z_OK);
  const uLong most = deflateBound(&z, (uLong)m->total);
  z.next_out = malloc(most);
  z.avail_out = (uInt)most;
  uint8_t *out = z.next_out;
  assert_non_null(out);
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  const uint64_t n = z.total_out;
  deflateEnd(&z);
  free(out);
  return n;
}

static void test_small_files_are_looked_at_whole(void **state) {
  static const uint64_t totals[] = {1,      100,       GZIP_SAMPLE_BYTES, GZIP_SAMPLE_BYTES + 1,
                                    100000, GZIP_WHOLE};
  (void)state;
  for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
    for (unsigned values = 1; values <= 256; values *= 256) {
      struct made m;
      struct gzip_guess g;
      make(&m, totals[i], values);
      assert_true(gzip_guess(m.total, read_made, &m, &g));
      assert_int_equal(g.sampled, m.total);
      assert_int_equal(m.read, m.total);
      const uint64_t is = truly(&m);
      assert_true(g.bytes + 64 > is && g.bytes < is + 64);
      free(m.bytes);
    }
}

static void test_large_files_are_sampled(void **state) {
  (void)state;
  for (unsigned values = 16; values <= 256; values *= 4) {
    struct made m;
    struct gzip_guess g, again;
    make(&m, LARGE + values, values);
    assert_true(gzip_guess(m.total, read_made, &m, &g));
    assert_int_equal(m.calls, GZIP_SAMPLES);
    assert_int_equal(m.read, GZIP_WHOLE);
    assert_int_equal(g.sampled, GZIP_WHOLE);
    const double is = (double)truly(&m), said = (double)g.bytes;
    assert_true(said > is * 0.95 && said < is * 1.05);
    assert_true(gzip_guess(m.total, read_made, &m, &again));
    assert_int_equal(again.bytes, g.bytes);
    free(m.bytes);
  }
}

// Where three quarters cannot be read, there is no guess; where half can, it is of that half.
static void test_what_is_not_known(void **state) {
  struct made m;
  struct gzip_guess all, half;
  (void)state;
  make(&m, LARGE, 16);
  assert_true(gzip_guess(m.total, read_made, &m, &all));
  m.unknown = m.total / 2;
  assert_true(gzip_guess(m.total, read_made, &m, &half));
  assert_int_equal(half.sampled, GZIP_WHOLE / 2);
  assert_true((double)half.bytes > 0.99 * (double)all.bytes &&
              (double)half.bytes < 1.01 * (double)all.bytes);
  m.unknown = m.total / 5;
  assert_false(gzip_guess(m.total, read_made, &m, &half));
  m.unknown = 0;
  assert_false(gzip_guess(m.total, read_made, &m, &half));
  assert_false(gzip_guess(0, read_made, &m, &half));
  free(m.bytes);
}

static void test_sizes_at_the_border(void **state) {
  (void)state;
  for (uint64_t total = GZIP_WHOLE; total <= GZIP_WHOLE + 70; total += 10) {
    struct made m;
    struct gzip_guess g;
    make(&m, total, 16);
    assert_true(gzip_guess(total, read_made, &m, &g));
    assert_true(m.read <= GZIP_WHOLE);
    free(m.bytes);
  }
}

int test_gzip_guess(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_files_are_looked_at_whole),
      cmocka_unit_test(test_large_files_are_sampled),
      cmocka_unit_test(test_what_is_not_known),
      cmocka_unit_test(test_sizes_at_the_border),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
