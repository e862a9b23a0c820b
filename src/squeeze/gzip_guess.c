//   |■·······|··■·····|···■····| … |·······■|     32 samples of 32 KiB, each compressed alone
//
// Strata of equal size, and in each a sample whose place moves on with the number of the stratum: places in step would meet
// the same part of every layer where layers are of one size. gzip looks back 32 KiB, so a sample alone loses little. The
// order goes up and down the file, so that who runs out of what may be read has looked everywhere.
#include "squeeze/gzip_guess.h"

#include "resources/resources.h"

#include <string.h>
#include <zlib.h>

enum { KNOWN_OF = 4, GZIP_FRAME = 18 }; // header and trailer

static bool begin(z_stream *z) {
  return deflateInit2(z, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK;
}

// What is made is counted and thrown away. Samples end (`flush` Z_FINISH), and the next one begins anew.
static uint64_t take(z_stream *z, uint8_t *in, size_t n, int flush) {
  uint8_t out[16 << 10];
  z->next_in = in;
  z->avail_in = (uInt)n;
  uint64_t made = 0;
  do {
    z->next_out = out;
    z->avail_out = sizeof out;
    (void)deflate(z, flush);
    made += sizeof out - z->avail_out;
  } while (z->avail_out == 0);
  if (flush == Z_FINISH) deflateReset(z);
  return made;
}

// A permutation of the samples: 0, 16, 8, 24, 4 …
static uint32_t in_order(uint32_t k) {
  uint32_t reversed = 0;
  for (uint32_t bit = 1; bit < GZIP_SAMPLES; bit <<= 1)
    reversed = reversed << 1 | !!(k & bit);
  return reversed;
}

static uint64_t place_of(uint64_t total, uint32_t sample) {
  const uint64_t stratum = total / GZIP_SAMPLES, room = stratum - GZIP_SAMPLE_BYTES;
  return stratum * sample + room / GZIP_SAMPLES * (sample * 13 % GZIP_SAMPLES);
}

bool gzip_guess(uint64_t total, gzip_read read, void *ctx, struct gzip_guess *out) {
  uint8_t sample[GZIP_SAMPLE_BYTES];
  const bool whole = total <= GZIP_WHOLE;
  z_stream z = {.zalloc = resources_alloc_for, .zfree = resources_free_for};
  uint64_t packed = 0;
  *out = (struct gzip_guess){0};
  if (total == 0 || !begin(&z)) return false;
  for (uint32_t k = 0; k < GZIP_SAMPLES; k++) {
    const uint64_t off = whole ? (uint64_t)k * GZIP_SAMPLE_BYTES : place_of(total, in_order(k));
    if (off >= total) break;
    const uint64_t left = total - off;
    const size_t n = left < GZIP_SAMPLE_BYTES ? (size_t)left : GZIP_SAMPLE_BYTES;
    if (!read(ctx, off, sample, n)) continue;
    packed += take(&z, sample, n, whole ? Z_NO_FLUSH : Z_FINISH);
    out->sampled += n;
  }
  if (whole) packed += take(&z, sample, 0, Z_FINISH);
  deflateEnd(&z);
  const uint64_t least = (whole ? total : GZIP_WHOLE) / KNOWN_OF;
  if (out->sampled < least || out->sampled == 0) return false;
  out->bytes = (uint64_t)((double)packed * ((double)total / (double)out->sampled)) + GZIP_FRAME;
  return true;
}
