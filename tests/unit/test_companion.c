// A listing: its digests are those of the file, whatever pieces the text came in.
#include "platform/descriptor.h"
#include "stream/seal/companion.h"

#include "fs_fault.h"
#include "plan/plan.h"
#include "toy_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

static void expect_digest(const uint8_t *got, const uint8_t *bytes, size_t n) {
  uint8_t must[DIGEST_BYTES];
  digest_of(bytes, n, must);
  assert_memory_equal(got, must, DIGEST_BYTES);
}

// Two units and a bit, in pieces that end before, on and behind the edges of units.
static void test_digests(void **state) {
  (void)state;
  static const uint64_t ends[] = {1, PLAN_UNIT_BYTES - 1, PLAN_UNIT_BYTES + 7, 2 * PLAN_UNIT_BYTES,
                                  2 * PLAN_UNIT_BYTES + 1000};
  const int folder = open(toy.dest, O_RDONLY | O_DIRECTORY);
  const size_t all = ends[4];
  uint8_t *text = malloc(all);
  assert_non_null(text);
  for (size_t i = 0; i < all; i++)
    text[i] = (uint8_t)(i * 2654435761u >> 24);
  toy_write(toy.dest, "x.jsonl", text, all); // something longer or equal is there: it goes
  for (int nowhere = 0; nowhere < 2; nowhere++) {
    struct err err = {0};
    struct companion *l;
    uint64_t at = 0;
    uint32_t n;
    assert_int_equal(
        companion_open(&l, nowhere ? NO_FOLDER : folder_of_descriptor(folder), "x.jsonl", &err), 0);
    for (size_t i = 0; i < 5; at = ends[i++])
      assert_int_equal(companion_add(l, span_of(text + at, ends[i] - at), &err), 0);
    assert_int_equal(companion_add(l, span_of("", 0), &err), 0);
    assert_int_equal(companion_end(l, &err), 0);
    expect_digest(companion_sha256(l), text, all);
    const uint8_t(*units)[DIGEST_BYTES] = companion_units(l, &n);
    assert_int_equal(n, 3);
    expect_digest(units[0], text, PLAN_UNIT_BYTES);
    expect_digest(units[1], text + PLAN_UNIT_BYTES, PLAN_UNIT_BYTES);
    expect_digest(units[2], text + 2 * PLAN_UNIT_BYTES, 1000);
    assert_string_equal(companion_name(l), "x.jsonl");
    companion_close(l);
  }
  size_t n;
  uint8_t *file = toy_read(toy.dest, "x.jsonl", &n);
  assert_int_equal(n, all);
  assert_memory_equal(file, text, all);
  free(file);
  free(text);
  close(folder);
}

static void test_whole_units(void **state) {
  (void)state;
  struct err err = {0};
  uint32_t n;
  for (uint32_t units = 0; units < 2; units++) {
    struct companion *l;
    uint8_t *text = calloc(1, PLAN_UNIT_BYTES);
    assert_int_equal(companion_open(&l, NO_FOLDER, "x", &err), 0);
    assert_int_equal(companion_add(l, span_of(text, units * PLAN_UNIT_BYTES), &err), 0);
    assert_int_equal(companion_end(l, &err), 0);
    (void)companion_units(l, &n);
    assert_int_equal(n, units);
    expect_digest(companion_sha256(l), text, units * PLAN_UNIT_BYTES);
    companion_close(l);
    free(text);
  }
}

static void test_failures(void **state) {
  (void)state;
  const int folder = open(toy.dest, O_RDONLY | O_DIRECTORY);
  static const char *const faults[] = {"EACCES:openat:1", "ENOSPC:write:1", "EIO:fsync:1"};
  static const char *const said[] = {"cannot create 'x'", "cannot write 'x'", "cannot sync 'x'"};
  for (int i = 0; i < 3; i++) {
    struct err err = {0};
    struct companion *l = NULL;
    fs_fault_install(faults[i]);
    const bool bad = companion_open(&l, folder_of_descriptor(folder), "x", &err) ||
                     companion_add(l, span_str("text"), &err) || companion_end(l, &err);
    fs_fault_remove();
    assert_true(bad);
    assert_non_null(strstr(err.msg, said[i]));
    companion_close(l);
  }
  close(folder);
}

int test_companion(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_digests, set_up, tear_down),
      cmocka_unit_test(test_whole_units),
      cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
