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

#endif
