#include "fake_io.h"

static void fake_check(const struct io *io, uint32_t file, uint64_t off, uint64_t n) {
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
