// Streams side by side against libcrypto: every length to 300 and some around a piece's, given in pieces of any size, as many
// lanes as there may be, which come and go at different times.
#include "stream/sys/lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

enum { SHORT = 300, PIECE = 128 << 10, LONG = 3 * PIECE };

static uint8_t bytes[LONG];
static const size_t long_ones[] = {PIECE - 1,  PIECE,     PIECE + 1, PIECE + 55,
                                   PIECE + 56, 2 * PIECE, LONG - 9,  LONG};
enum { STREAMS = SHORT + 1 + sizeof long_ones / sizeof *long_ones };

static size_t length_of(size_t stream) {
  return stream <= SHORT ? stream : long_ones[stream - SHORT - 1];
}

// The long ones lie between the short ones.
static size_t stream_at(size_t i) {
  return i * 101 % STREAMS;
}

struct fed {
  struct lane lane;
  size_t stream, given; // bytes of it
  struct span left;     // of those, to be hashed
};

static void compare(struct fed *f, size_t width, size_t piece) {
  const size_t n = length_of(f->stream);
  uint8_t is[DIGEST_BYTES], must[DIGEST_BYTES];
  lane_end(&f->lane, is);
  digest_of(bytes, n, must);
  if (memcmp(is, must, DIGEST_BYTES) != 0)
    fail_msg("%zu bytes, %zu lanes, pieces of %zu", n, width, piece);
}

// Gives each its next piece, ends those that have none, and says how many are left.
static size_t feed(struct fed fed[], size_t n, size_t width, size_t piece) {
  for (size_t i = n; i-- > 0;) {
    struct fed *f = &fed[i];
    const size_t more = (size_t)min_u64(length_of(f->stream) - f->given, piece);
    if (f->left.n > 0) continue;
    f->left = span_of(bytes + f->given, more);
    f->given += more;
    if (more > 0) continue;
    compare(f, width, piece);
    *f = fed[--n];
  }
  return n;
}

static void check(size_t width, size_t piece) {
  struct fed fed[LANES_MAX];
  struct lane *lanes[LANES_MAX];
  struct span left[LANES_MAX];
  size_t n = 0, next = 0;
  do {
    while (n < width && next < STREAMS) {
      fed[n] = (struct fed){.stream = stream_at(next++)};
      lane_start(&fed[n++].lane);
    }
    n = feed(fed, n, width, piece);
    for (size_t i = 0; i < n; i++) {
      lanes[i] = &fed[i].lane;
      left[i] = fed[i].left;
    }
    if (n > 0) lanes_add(lanes, left, n);
    size_t spent = 0;
    for (size_t i = 0; i < n; i++) {
      fed[i].left = left[i];
      spent += left[i].n == 0;
    }
    assert_true(n == 0 || spent > 0);
  } while (n > 0 || next < STREAMS);
}

static void test_digests(void **state) {
  (void)state;
  for (size_t i = 0; i < LONG; i++)
    bytes[i] = (uint8_t)(i * 2654435761u >> 13);
  for (size_t width = 1; width <= LANES_MAX; width++) {
    check(width, 7);
    check(width, 1000);
    check(width, PIECE);
  }
  assert_true(lanes_width() >= 1 && lanes_width() <= LANES_MAX);
}

int test_lanes(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_digests)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
