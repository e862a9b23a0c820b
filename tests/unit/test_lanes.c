// Streams side by side against libcrypto: every length to 300 and some around a buffer's, fed in pieces of any size, as many
// lanes as there may be, which come and go at different times.
#include "lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

enum { SHORT = 300, LONG = 3 * LANE_BYTES };

static uint8_t bytes[LONG];
static const size_t long_ones[] = {LANE_BYTES - 1,  LANE_BYTES,     LANE_BYTES + 1, LANE_BYTES + 55,
                                   LANE_BYTES + 56, 2 * LANE_BYTES, LONG - 9,       LONG};
enum { STREAMS = SHORT + 1 + sizeof long_ones / sizeof *long_ones };

static size_t length_of(size_t stream) {
  return stream <= SHORT ? stream : long_ones[stream - SHORT - 1];
}

// The long ones lie between the short ones.
static size_t stream_at(size_t i) {
  return i * 101 % STREAMS;
}

struct fed {
  size_t stream, at;
};

static void feed(struct lanes *l, struct fed fed[], size_t piece) {
  for (size_t i = 0; i < l->n; i++)
    while (lane_is_hungry(&l->lane[i])) {
      const size_t left = length_of(fed[i].stream) - fed[i].at;
      size_t n;
      if (left == 0) {
        lane_end(&l->lane[i]);
        break;
      }
      uint8_t *room = lane_room(&l->lane[i], &n);
      if (n > left) n = left;
      if (n > piece) n = piece;
      memcpy(room, bytes + fed[i].at, n);
      lane_put(&l->lane[i], n);
      fed[i].at += n;
    }
}

static void check(size_t width, size_t piece) {
  struct arena scratch = {0};
  struct lanes l;
  struct fed fed[LANES_MAX];
  uint8_t is[DIGEST_BYTES], must[DIGEST_BYTES];
  size_t next = 0, taken = 0;
  lanes_init(&l, width, &scratch);
  while (taken < STREAMS) {
    while (l.n < width && next < STREAMS) {
      fed[l.n] = (struct fed){.stream = stream_at(next++)};
      lanes_add(&l);
    }
    feed(&l, fed, piece);
    lanes_hash(&l);
    for (size_t i = l.n; i-- > 0;) {
      if (!lanes_is_done(&l, i)) continue;
      const size_t n = length_of(fed[i].stream);
      lanes_take(&l, i, is);
      fed[i] = fed[l.n];
      digest_of(bytes, n, must);
      if (memcmp(is, must, DIGEST_BYTES) != 0)
        fail_msg("%zu bytes, %zu lanes, pieces of %zu", n, width, piece);
      taken++;
    }
  }
  assert_int_equal(l.n, 0);
  arena_free(&scratch);
}

static void test_digests(void **state) {
  (void)state;
  for (size_t i = 0; i < LONG; i++)
    bytes[i] = (uint8_t)(i * 2654435761u >> 13);
  for (size_t width = 1; width <= LANES_MAX; width++) {
    check(width, 1000);
    check(width, LANE_BYTES);
  }
  assert_true(lanes_width() >= 1 && lanes_width() <= LANES_MAX);
}

// One that is given up takes nothing with it.
static void test_drop(void **state) {
  (void)state;
  struct arena scratch = {0};
  struct lanes l;
  uint8_t is[DIGEST_BYTES], must[DIGEST_BYTES];
  lanes_init(&l, 2, &scratch);
  for (size_t i = 0; i < 2; i++) {
    size_t n;
    struct lane *lane = lanes_add(&l);
    memset(lane_room(lane, &n), (int)i, 70);
    lane_put(lane, 70);
  }
  lanes_hash(&l);
  lanes_drop(&l, 0);
  lane_end(&l.lane[0]);
  lanes_hash(&l);
  assert_true(lanes_is_done(&l, 0));
  lanes_take(&l, 0, is);
  memset(bytes, 1, 70);
  digest_of(bytes, 70, must);
  assert_memory_equal(is, must, DIGEST_BYTES);
  arena_free(&scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_digests), cmocka_unit_test(test_drop)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
