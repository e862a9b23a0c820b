// Base64 has one form; a file and its parts are hashed in one read.
#include "audit/base64.h"
#include "platform/descriptor.h"
#include "stream/sys/reread_files.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

// RFC 4648, section 10.
static void test_base64(void **state) {
  static const char *const rows[][2] = {{"", ""},
                                        {"f", "Zg=="},
                                        {"fo", "Zm8="},
                                        {"foo", "Zm9v"},
                                        {"foob", "Zm9vYg=="},
                                        {"fooba", "Zm9vYmE="},
                                        {"foobar", "Zm9vYmFy"},
                                        {"\xfb\xff\xbf", "+/+/"}};
  struct arena a = {0};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct span back;
    assert_string_equal(base64_encode(span_str(rows[i][0]), &a), rows[i][1]);
    assert_true(base64_decode(span_str(rows[i][1]), &back, &a));
    assert_true(span_is(back, rows[i][0]));
  }
  arena_free(&a);
}

// Another text for bytes that have one, or for none.
static void test_base64_refused(void **state) {
  static const char *const rows[] = {"Z",    "Zg",       "Zg=",   "Zh==",   "Zm9=",
                                     "=",    "====",     "Z===",  "Zm9v\n", "Zm 9",
                                     "Zm-_", "Zg==Zg==", "Zm9v=", "Z=g=",   "\xc3\xa4zz"};
  struct arena a = {0};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct span back;
    assert_false(base64_decode(span_str(rows[i]), &back, &a));
  }
  struct span back;
  assert_false(base64_decode(span_of("Zm\0v", 4), &back, &a));
  arena_free(&a);
}

enum { BYTES = 3 << 20, N_PARTS = 5, N_FILES = 4 };

static uint8_t bytes[BYTES];

static int make_file(size_t n) {
  char path[] = "/tmp/weir-sign-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0 && unlink(path) == 0 && write(fd, bytes, n) == (ssize_t)n);
  return fd;
}

// Files of several parts, of one and of none, with parts that agree, differ and are not compared.
static void test_files(void **state) {
  static const uint64_t ends[N_PARTS + 1] = {0, 1, 1000, (1 << 20) + 7, 2 << 20, BYTES};
  struct reread_known parts[N_FILES][N_PARTS] = {0};
  uint8_t sums[N_PARTS][DIGEST_BYTES], whole[DIGEST_BYTES];
  struct reread_file files[N_FILES];
  int fds[N_FILES];
  (void)state;
  for (size_t i = 0; i < BYTES; i++)
    bytes[i] = (uint8_t)(i * 2654435761u >> 13);
  digest_of(bytes, BYTES, whole);
  for (int f = 0; f < N_FILES; f++) {
    fds[f] = make_file(f == 3 ? 0 : BYTES);
    files[f] = (struct reread_file){.name = "x",
                                    .parts = parts[f],
                                    .n_parts = f == 0  ? N_PARTS
                                               : f < 3 ? 1
                                                       : 0};
    for (int k = 0; k < N_PARTS; k++) {
      digest_of(bytes + ends[k], ends[k + 1] - ends[k], sums[k]);
      parts[f][k] = (struct reread_known){.file = file_of_descriptor(fds[f]),
                                          .off = ends[k],
                                          .len = ends[k + 1] - ends[k],
                                          .sha256 = sums[k]};
    }
  }
  sums[3][5] ^= 1;
  parts[0][1].sha256 = NULL;
  parts[1][0] =
      (struct reread_known){.file = file_of_descriptor(fds[1]), .len = BYTES, .sha256 = sums[0]};
  parts[2][0] = (struct reread_known){.file = file_of_descriptor(fds[2]), .len = BYTES};
  for (uint32_t jobs = 1; jobs < 4; jobs += 2) {
    const struct reread_work work = {.jobs = jobs};
    struct err err = {0};
    assert_int_equal(reread_files(files, N_FILES, &work, &err), 0);
    for (int f = 0; f < 3; f++)
      assert_memory_equal(files[f].sha256, whole, DIGEST_BYTES);
    for (int k = 0; k < N_PARTS; k++)
      assert_int_equal(parts[0][k].differs, k == 3);
    assert_true(parts[1][0].differs);
    assert_false(parts[2][0].differs);
  }
  const int stop = 1;
  struct err err = {0};
  assert_int_equal(reread_files(files, N_FILES, &(struct reread_work){.stop = &stop}, &err), -1);
  assert_int_equal(err.kind, ERR_RETRY);
  parts[2][0].len++;
  err = (struct err){0};
  assert_int_equal(reread_files(files, N_FILES, &(struct reread_work){.jobs = 2}, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT);
  for (int f = 0; f < N_FILES; f++)
    close(fds[f]);
}

int test_sign(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_base64),
      cmocka_unit_test(test_base64_refused),
      cmocka_unit_test(test_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
