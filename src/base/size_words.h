// Sizes as people write them: "400M", "1.5GiB", "2MB".
#ifndef WEIR_SIZE_WORDS_H
#define WEIR_SIZE_WORDS_H

#include "base/span.h"

// "64", "64K", "64M", "1G", "2T" and "64MiB" count in powers of 1024, "64kB" and "64MB" in powers
// of 1000. The number may have a decimal fraction if there is a unit: "12.5M", "1.5GiB"; what is no
// whole number of bytes is rounded down. False for anything else and past 2^63 - 1.
bool size_words_parse(const char *text, uint64_t *bytes);
// The shortest of the words that are exactly n bytes: "48MiB", "700KB", "1000001 bytes". What was given
// as a whole number with a unit comes back in the same unit, but that "48M" is "48MiB".
struct quoted size_words_of(uint64_t n);

#endif
