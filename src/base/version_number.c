#include "base/version_number.h"

#include <stdlib.h>

#ifndef WEIR_VERSION
#error "WEIR_VERSION is set by the build"
#endif

const char version_number[] = WEIR_VERSION;

struct version_numbers version_numbers(const char *text) {
  char *end;
  const uint64_t major = strtoull(text, &end, 10);
  return (struct version_numbers){major, *end == '.' ? strtoull(end + 1, NULL, 10) : 0};
}
