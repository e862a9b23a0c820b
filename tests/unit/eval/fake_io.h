// Stands in for the queue in tests of the evaluator: source files are memory, or numbers made up
// from their offset; every byte and call is counted; any call can be made to fail; and a read
// outside of what the test declared to be an extent ends the test.
#ifndef WEIR_TEST_FAKE_IO_H
#define WEIR_TEST_FAKE_IO_H

#include "io.h"

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

static inline void fake_check(const struct io *io, uint32_t file, uint64_t off, uint64_t n) {
  for (uint32_t i = 0; i < io->n_allowed; i++) {
    const struct extent *e = &io->allowed[i];
    if (e->file == file && off >= e->off && range_fits(off - e->off, n, e->len)) return;
  }
  fprintf(stderr, "file %u: bytes %llu..%llu are in no extent\n", file, (unsigned long long)off,
          (unsigned long long)(off + n));
  abort();
}

int io_read(struct io *io, uint32_t file, uint64_t off, void *buf, size_t n, struct err *err) {
  fake_check(io, file, off, n);
  if (++io->calls == io->fail_at) return err_set(err, ERR_IO, "made to fail");
  if (file == FAKE_MADE_UP)
    fake_made_up(off, buf, n);
  else
    memcpy(buf, io->memory + off, n);
  io->bytes += n;
  return 0;
}

// A view is a copy, so that reading behind it or after its end shows.
int io_view(struct io *io, uint32_t file, uint64_t off, size_t n, struct io_view *view,
            struct err *err) {
  uint8_t *copy = malloc(n + 1);
  if (io_read(io, file, off, copy, n, err) != 0) {
    free(copy);
    return -1;
  }
  *view = (struct io_view){.at = copy, .n = n};
  return 0;
}

int io_view_done(struct io *io, struct io_view *view, struct err *err) {
  (void)io;
  (void)err;
  free((void *)(uintptr_t)view->at);
  view->at = NULL;
  return 0;
}

// One call, as many fragments as there may be.
int io_gather(struct io *io, const struct io_fragments *f, uint8_t *buf, struct err *err) {
  if (f->run == 0 || f->run > f->stride || f->stride > IO_GATHER_STRIDE_MAX) abort();
  const uint64_t calls = io->calls + 1;
  for (uint64_t i = 0; i < f->n; i++, buf += f->run) {
    io->calls = calls - 1;
    if (io_read(io, f->file, f->off + i * f->stride, buf, f->run, err) != 0) return -1;
  }
  return 0;
}

void io_will_need(struct io *io, uint32_t file, uint64_t off, uint64_t n) {
  fake_check(io, file, off, n);
}

uint64_t io_source_bytes_read(const struct io *io) {
  return io->bytes;
}

#endif
