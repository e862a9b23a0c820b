// Everything that is read passes through the page cache and would stay there until the system wants
// the memory back. Sources that fit are welcome to stay: the next run is faster. A source far
// larger than memory would push out what others have there, its own pages included, to no use at
// all, and reclaiming pages under pressure costs more than giving them back:
//
//   conv2matmul of a sparse 24 GB model, null engine, 23 GB of memory, two processors      wall     system
//   everything left behind                                                                 19-28 s  20-36 s
//   given back, 64 MiB a reader behind                                                     15-22 s  14 s
//
// So a reader of such a source drops what it has read, some way behind itself: many recipes look at
// a tensor twice within a short time (its range, then its codes), and find the second time what is
// still in its wake.
//
//      dropped │ held: the last `most` bytes, as ranges in the order they were read │ being read
//
// Ranges that follow one another are one, up to MERGED bytes (or `most`): the system drops whole
// pages, and large ones only when all of them lies in the range. Pages that other processes have
// mapped stay in any case.
#include "stream/io/io_wake.h"

#include "base/span.h"
#include "resources/resources.h"


enum { MERGED = 16 << 20 };

uint64_t io_wake_most(uint64_t source_bytes, uint64_t memory, uint32_t readers) {
  if (memory == 0 || source_bytes <= memory / 2) return UINT64_MAX;
  return memory / 16 / max_u64(readers, 1);
}

static void drop_first(struct io_wake *w, struct sources *s) {
  const struct io_wake_range r = w->ranges[w->first];
  w->first = (w->first + 1) % IO_WAKE_RANGES;
  w->count--;
  w->held -= r.n;
  struct err ignored = {0};
  struct file fd;
  if (sources_fd(s, r.file, &fd, &ignored) < 0) return;
  file_forget(fd, r.off, r.n);
  sources_release_fd(s, r.file);
}

void io_wake_add(struct io_wake *w, struct sources *s, uint32_t file, uint64_t off, uint64_t n) {
  if (w->most == UINT64_MAX) return;
  if (!w->ranges) w->ranges = resources_zalloc(IO_WAKE_RANGES, sizeof *w->ranges);
  if (!w->ranges) return;
  struct io_wake_range *last = &w->ranges[(w->first + w->count - 1) % IO_WAKE_RANGES];
  if (w->count > 0 && last->file == file && last->off + last->n == off &&
      last->n + n <= min_u64(MERGED, w->most)) {
    last->n += n;
  } else {
    if (w->count == IO_WAKE_RANGES) drop_first(w, s);
    w->ranges[(w->first + w->count++) % IO_WAKE_RANGES] =
        (struct io_wake_range){.file = file, .off = off, .n = n};
  }
  w->held += n;
  while (w->count > 1 && w->held > w->most)
    drop_first(w, s);
}

void io_wake_close(struct io_wake *w) {
  resources_free(w->ranges);
  *w = (struct io_wake){.most = UINT64_MAX};
}
