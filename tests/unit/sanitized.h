// Which sanitizer looks at this build, for tests that take less of the same there, and whether all is
// to be tested all the same: WEIR_TEST_ALL=1.
#ifndef WEIR_TEST_SANITIZED_H
#define WEIR_TEST_SANITIZED_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef __has_feature // of clang; gcc defines names
#define __has_feature(name) 0
#endif

#if defined __SANITIZE_THREAD__ || __has_feature(thread_sanitizer)
enum { SANITIZED_THREADS = 1 };
#else
enum { SANITIZED_THREADS = 0 };
#endif

#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
enum { SANITIZED_ADDRESSES = 1 };
#else
enum { SANITIZED_ADDRESSES = 0 };
#endif

static inline bool sanitized_tests_all(void) {
  const char *all = getenv("WEIR_TEST_ALL");
  return all && strcmp(all, "1") == 0;
}

#endif
