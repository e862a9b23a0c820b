// Is a file the one that was looked at before, unchanged?
#ifndef WEIR_FINGERPRINT_H
#define WEIR_FINGERPRINT_H

#include "sources.h"

#include <sys/stat.h>

struct fingerprint fingerprint_of(const struct stat *st);
bool fingerprint_same(struct fingerprint a, struct fingerprint b);

#endif
