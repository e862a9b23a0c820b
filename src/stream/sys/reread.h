// Bytes of a file that was written before.
#ifndef WEIR_REREAD_H
#define WEIR_REREAD_H

#include "base/digest.h"
#include "base/err.h"
#include "platform/files.h"

struct reread {
  struct file file;
  const char *name; // of the output, for messages
  uint64_t off, len;
  void (*add)(void *ctx, const uint8_t *bytes, size_t n); // to a digest
  bool (*go_on)(void *ctx); // asked before every piece; false: no more. NULL: never asked
  void *ctx;
};

// Adds the range to a digest, in pieces of at most `n` bytes through `buf`. 0; -1 with ERR_IO where
// they cannot be read; 1 if go_on said stop.
int reread_hash(const struct reread *range, uint8_t *buf, size_t n, struct err *err);
// The error of output `name`, which cannot be read at `at`: ERR_IO, and -1. ENODATA: it has ended.
int reread_failed(const char *name, uint64_t at, int why, struct err *err);

// Ranges that are compared with what they were.
struct reread_known {
  struct file file; // none: cannot be read; unused where the work opens them
  uint64_t off, len;
  const uint8_t *sha256; // DIGEST_BYTES; NULL: not compared
  bool differs;          // the answer; also where the range cannot be read
  int why;               // which is an errno then (ENODATA: the file ends before it does); else 0
};
struct reread_work {
  uint32_t jobs; // 0: processors available to us
  const volatile int *stop;
  // Or NULL: opens the file of a row when its turn comes, and it is closed behind it; none with errno. From any
  // thread.
  struct file (*open)(void *ctx, uint32_t row);
  // Both under one lock, from any thread, or NULL. Ticks come every 50 ms or more, and at the end. A row is done with
  // its digest, or with none and why it cannot be read (ENODATA: the file ends before it does).
  void (*tick)(void *ctx, uint64_t bytes_done, uint64_t bytes_total);
  void (*done)(void *ctx, uint32_t row, const uint8_t *sha256, int why);
  void *ctx;
};
// Hashes them all, in parallel, through less than 1 MiB a worker. False if it was stopped: then some were not looked at.
bool reread_compare(struct reread_known *rows, uint32_t n, const struct reread_work *work);

#endif
