// Which weir this is.
#ifndef WEIR_VERSION_NUMBER_H
#define WEIR_VERSION_NUMBER_H

#include <stdint.h>

// "0.2.0": what manifests, edit logs and --version name.
extern const char version_number[];

// The numbers at the beginning of a version, 1 and 20 of "1.20.1"; 0: there is none. What is past 2^64 - 1 counts as that.
struct version_numbers {
  uint64_t major, minor;
};
struct version_numbers version_numbers(const char *text);

#endif
