// Stands in for the queue in tests of the evaluator: source files are memory, or numbers made up
// from their offset; every byte and call is counted; any call can be made to fail; and a read
// outside of what the test declared to be an extent ends the test.
#ifndef WEIR_TEST_FAKE_IO_H
#define WEIR_TEST_FAKE_IO_H

#include "stream/io/io_queue.h"

#include <stdio.h>
#include <stdlib.h>

enum { FAKE_MEMORY = 0, FAKE_MADE_UP = 1, FAKE_EXTENTS_MAX = 4096 };

struct io {
  uint8_t *memory; // content of file FAKE_MEMORY
  size_t memory_bytes;
  struct extent allowed[FAKE_EXTENTS_MAX];
  uint32_t n_allowed;
  uint64_t bytes, calls;
  uint64_t fail_at; // the call that fails, counted from 1; 0: none
};

// Byte `off` of file FAKE_MADE_UP: words of a mixing function of their index.
static inline uint64_t fake_word(uint64_t index) {
  uint64_t x = index * 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  return x * 0xbf58476d1ce4e5b9u;
}

static inline void fake_made_up(uint64_t off, uint8_t *buf, size_t n) {
  for (; n > 0 && off % 8; n--, off++)
    *buf++ = (uint8_t)(fake_word(off / 8) >> (off % 8 * 8));
  for (; n >= 8; n -= 8, off += 8, buf += 8) {
    uint64_t word = fake_word(off / 8);
    memcpy(buf, &word, 8);
  }
  for (; n > 0; n--, off++)
    *buf++ = (uint8_t)(fake_word(off / 8) >> (off % 8 * 8));
}

static inline void fake_allow(struct io *io, struct extent at) {
  if (io->n_allowed == FAKE_EXTENTS_MAX) abort();
  io->allowed[io->n_allowed++] = at;
}

#endif
