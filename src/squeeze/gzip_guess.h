// Room: an estimate of the bytes that files would have after `gzip -9`: a server or a package compresses downloads.
// Found from samples at places that depend on the size alone, so that the same bytes give the same number on every
// machine (with the same zlib).
#ifndef WEIR_GZIP_GUESS_H
#define WEIR_GZIP_GUESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Of files of up to GZIP_WHOLE bytes together all is looked at.
enum {
  GZIP_SAMPLES = 32,
  GZIP_SAMPLE_BYTES = 32 << 10,
  GZIP_WHOLE = GZIP_SAMPLES * GZIP_SAMPLE_BYTES
};

// Reads bytes [off, off + n) of the files, joined in order, into buf. false: they are not known.
typedef bool (*gzip_read)(void *ctx, uint64_t off, uint8_t *buf, size_t n);

struct gzip_guess {
  uint64_t bytes;   // of all files, compressed, about
  uint64_t sampled; // bytes that were looked at, at most GZIP_WHOLE
};

// false: less than a quarter of the samples are known, or there are no bytes.
bool gzip_guess(uint64_t total, gzip_read read, void *ctx, struct gzip_guess *out);

#endif
