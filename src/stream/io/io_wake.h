// The wake of a reader: source pages that it leaves behind in the page cache, and when to let go of
// them. Part of the queue (io_parts.h).
#ifndef WEIR_IO_WAKE_H
#define WEIR_IO_WAKE_H

#include "stream/io/sources.h"

struct io_wake_range {
  uint64_t off, n;
  uint32_t file;
};

enum { IO_WAKE_RANGES = 1024 };

struct io_wake {
  uint64_t most;                // bytes that may stay; UINT64_MAX: all
  uint64_t held;                // in the ranges
  struct io_wake_range *ranges; // a ring of IO_WAKE_RANGES, made when the first is added
  uint32_t first, count;
};

// How many bytes a reader may leave behind: all (UINT64_MAX) where the sources fit half the memory,
// else its share of a sixteenth of it. memory = 0: nobody knows, so all.
uint64_t io_wake_most(uint64_t source_bytes, uint64_t memory, uint32_t readers);

// These bytes were read and given back. Lets go of the oldest ones where too many are held. Never
// fails: what goes wrong here costs the system some memory and nothing else.
void io_wake_add(struct io_wake *w, struct sources *s, uint32_t file, uint64_t off, uint64_t n);

void io_wake_close(struct io_wake *w); // what is held stays in the cache

#endif
