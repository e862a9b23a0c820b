// Windows are resident as far as they are used, so they stay small and are closed as soon as they were used.
#include "stream/io/io_window.h"

// The system maps the neighbours of a page that is touched, as far as they are in its cache:
// so many bytes, unless told otherwise.
enum { FAULT_AROUND = 64 << 10 };

// Maps the pages, under the guard. Cheaper than MADV_POPULATE_READ, which goes page by page; pages
// that do not come with a neighbour come when they are used.
static void touch(const struct file_map *w) {
  const volatile uint8_t *at = w->pages;
  for (size_t i = 0; i < w->pages_bytes; i += FAULT_AROUND)
    (void)at[i];
  (void)at[w->pages_bytes - 1];
}

void io_window_advise(struct file f, uint64_t off, uint64_t n) {
  if (!file_is_cached(f, off, n)) file_will_need(f, off, n);
}

int io_window_open(struct file_map *w, struct file f, uint64_t off, size_t n) {
  if (map_open_guarded(w, f, off, n)) return -1;
  // Faults bring pages in by small neighbourhoods; told beforehand, the system reads the window in
  // large pieces: a third less processor time from a cold cache.
  io_window_advise(f, off, n);
  touch(w);
  if (!map_is_broken(w)) return 0;
  map_close(w);
  errno = EFAULT;
  return -1;
}
