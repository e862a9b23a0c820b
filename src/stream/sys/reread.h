// Bytes of a file that was written before.
#ifndef WEIR_REREAD_H
#define WEIR_REREAD_H

#include "digest.h"
#include "err.h"

struct reread {
  int fd;
  const char *name; // of the output, for messages
  uint64_t off, len;
  bool (*go_on)(void *ctx); // asked before every piece; false: no more. NULL: never asked
  void *ctx;
};

// Adds the range to a digest, in pieces of at most `n` bytes through `buf`. 0; -1 with ERR_IO where
// they cannot be read; 1 if go_on said stop.
int reread_hash(const struct reread *range, struct digest *sha, uint8_t *buf, size_t n,
                struct err *err);

// Ranges that are compared with what they were.
struct reread_known {
  int fd; // -1: cannot be read
  uint64_t off, len;
  const uint8_t *sha256; // DIGEST_BYTES
  bool differs;          // the answer; also where the range cannot be read
};
struct reread_work {
  uint32_t jobs; // 0: processors available to us
  const volatile int *stop;
  void (*tick)(void *ctx, uint64_t bytes_done, uint64_t bytes_total); // under a lock, or NULL
  void *ctx;
};
// Hashes them all, in parallel. False if it was stopped: then some were not looked at.
bool reread_compare(struct reread_known *rows, uint32_t n, const struct reread_work *work);

#endif
