// The queue's other half: source bytes, in.
//
//   engine reads    io_view                           io_gather            io_read
//   MAP             a guarded window (io_window.h)    guarded windows      pread
//   COPY            pread into memory of ours         guarded windows      pread
//   WHOLE           a piece of the whole file         pieces of it         a copy of it
//
// Where a window cannot be had (address space limit, no room among the guarded ones, a file
// system that cannot map, pages that cannot be read) the bytes are read instead: that either works
// or gives the error its true name.
//
// Truncation has two faces. Lost whole pages break the window (zeros are laid over them); the bytes
// between a new end of file and the end of its page silently read as zeros. So the end of every
// mapped view looks at the file's size once more. Any other change is the business of
// sources_unchanged, before a unit is recorded.
#include "stream/io/inside/io_parts.h"

#include "resources/resources.h"

#include <assert.h>
#include <errno.h>

enum { SPARE_BYTES_MAX = 4 << 20, GATHER_BYTES_MAX = 4 << 20, READ_TRIES_MAX = 1000 };

static struct quoted name_of(const struct io *io, uint32_t file) {
  return sources_shown(io->sources, file);
}

static int truncated(const struct io *io, uint32_t file, uint64_t size, struct err *err) {
  err_fill(err, ERR_INPUT,
           "'%s' was truncated while it was being read: %s of its %s bytes are left",
           name_of(io, file).s, decimal(size).s, decimal(sources_size(io->sources, file)).s);
  return err_hint(err, "wait until no program writes to it, then run again");
}

static int check_range(const struct io *io, uint32_t file, uint64_t off, size_t n,
                       struct err *err) {
  uint64_t size = sources_size(io->sources, file);
  if (range_fits(off, n, size)) return 0;
  return err_set(err, ERR_INPUT, "'%s': %zu bytes at offset %s are past its end (%s bytes)",
                 name_of(io, file).s, n, decimal(off).s, decimal(size).s);
}

static int read_range(struct io *io, uint32_t file, uint64_t off, uint8_t *buf, size_t n,
                      struct err *err) {
  struct file fd;
  if (sources_fd(io->sources, file, &fd, err) < 0) return -1;
  int result = 0;
  uint32_t tries = 0;
  for (size_t got = 0; got < n;) {
    int64_t r = io->engine->read(io->self, fd, buf + got, n - got, off + got);
    if (r > 0) {
      got += (size_t)r;
      io->source_bytes += (uint64_t)r;
      tries = 0;
    } else if ((r != -EINTR && r != -EAGAIN) || ++tries == READ_TRIES_MAX) {
      result = r == 0 ? truncated(io, file, off + got, err)
                      : err_errno(err, (int)-r, ERR_IO, "'%s': reading at offset %s failed",
                                  name_of(io, file).s, decimal(off + got).s);
      break;
    }
  }
  sources_release_fd(io->sources, file);
  io_wake_add(&io->wake, io->sources, file, off, n);
  return result;
}

static int no_memory(const struct io *io, uint32_t file, uint64_t bytes, struct err *err) {
  return err_set(err, ERR_NO_MEMORY, "'%s': no memory for %s bytes of it", name_of(io, file).s,
                 decimal(bytes).s);
}

// The file in memory, read at the first call.
static int whole_of(struct io *io, uint32_t file, const uint8_t **at, struct err *err) {
  if (!io->whole) {
    io->n_whole = sources_count(io->sources);
    io->whole = resources_zalloc(io->n_whole, sizeof *io->whole);
    if (!io->whole) return no_memory(io, file, io->n_whole * sizeof *io->whole, err);
  }
  assert(file < io->n_whole);
  struct io_whole *w = &io->whole[file];
  if (!w->at) {
    size_t n = (size_t)sources_size(io->sources, file);
    uint8_t *all = pages_new(n);
    if (!all) return no_memory(io, file, n, err);
    if (read_range(io, file, 0, all, n, err) < 0) {
      pages_free(all, n);
      return -1;
    }
    *w = (struct io_whole){.at = all, .n = n};
  }
  *at = w->at;
  return 0;
}

// Memory for a copied view: the spare one if it is large enough. First touch of fresh pages is slow
// on small machines.
static bool borrow(struct io *io, size_t n, struct file_map *w) {
  if (io->spare && io->spare_bytes >= n) {
    *w = (struct file_map){.pages = io->spare, .pages_bytes = io->spare_bytes};
    io->spare = NULL;
    return true;
  }
  size_t bytes = (size_t)round_up(n, 1 << 16);
  *w = (struct file_map){.pages = pages_new(bytes), .pages_bytes = bytes};
  return w->pages != NULL;
}

static void give_back(struct io *io, const struct file_map *w) {
  bool keep = w->pages_bytes <= SPARE_BYTES_MAX && (!io->spare || w->pages_bytes > io->spare_bytes);
  if (!keep) {
    pages_free(w->pages, w->pages_bytes);
    return;
  }
  if (io->spare) pages_free(io->spare, io->spare_bytes);
  io->spare = w->pages;
  io->spare_bytes = w->pages_bytes;
}

static int view_copy(struct io *io, struct io_view *v, struct err *err) {
  if (!borrow(io, v->n, &v->window)) return no_memory(io, v->file, v->n, err);
  if (read_range(io, v->file, v->off, v->window.pages, v->n, err) < 0) {
    give_back(io, &v->window);
    return -1;
  }
  v->at = v->window.pages;
  v->kind = IO_VIEW_COPIED;
  return 0;
}

static int view_map(struct io *io, struct io_view *v, struct err *err) {
  struct file fd;
  if (sources_fd(io->sources, v->file, &fd, err) < 0) return -1;
  int r = io_window_open(&v->window, fd, v->off, v->n);
  sources_release_fd(io->sources, v->file);
  if (r < 0) return view_copy(io, v, err);
  io->source_bytes += v->n;
  v->at = v->window.at;
  v->kind = IO_VIEW_MAPPED;
  return 0;
}

static int view_of(struct io *io, uint32_t file, uint64_t off, size_t n, enum io_reads reads,
                   struct io_view *view, struct err *err) {
  static const uint8_t nothing;
  assert(n <= IO_VIEW_MAX);
  *view = (struct io_view){.at = &nothing, .n = n, .off = off, .file = file};
  if (check_range(io, file, off, n, err) < 0) return -1;
  if (n == 0) return 0;
  while (io->window_bytes + n > io->window_bytes_max && io->n_queued > 0)
    io_settle(io, true);
  if (reads == IO_READS_WHOLE) {
    if (whole_of(io, file, &view->at, err) < 0) return -1;
    view->at += off;
    view->kind = IO_VIEW_LENT;
  } else if ((reads == IO_READS_MAP ? view_map : view_copy)(io, view, err) < 0) {
    return -1;
  }
  io->window_bytes += n;
  return 0;
}

int io_view(struct io *io, uint32_t file, uint64_t off, size_t n, struct io_view *view,
            struct err *err) {
  return view_of(io, file, off, n, io->engine->reads, view, err);
}

void io_view_break(struct io_view *view) {
  view->unreadable = true;
}

// A mapped view was worth something if its pages could be read and the file still reaches that far.
static int end_mapped(struct io *io, struct io_view *v, bool fence, struct err *err) {
  const bool broken = (fence ? map_fence(&v->window) : map_close(&v->window)) || v->unreadable;
  io_wake_add(&io->wake, io->sources, v->file, v->off, v->n);
  struct file fd;
  struct entry_facts st;
  if (sources_fd(io->sources, v->file, &fd, err) < 0) return -1;
  const int cause = file_look(fd, &st) < 0 ? errno : 0;
  sources_release_fd(io->sources, v->file);
  if (cause) return err_errno(err, cause, ERR_IO, "'%s': fstat failed", name_of(io, v->file).s);
  const uint64_t size = st.size;
  if (!range_fits(v->off, v->n, size)) return truncated(io, v->file, size, err);
  if (!broken) return 0;
  return err_set(err, ERR_IO, "'%s': the system could not read %zu bytes at offset %s",
                 name_of(io, v->file).s, v->n, decimal(v->off).s);
}

static int end_view(struct io *io, struct io_view *view, bool fence, struct err *err) {
  struct io_view v = *view;
  view->kind = IO_VIEW_ENDED;
  view->at = NULL;
  if (v.kind == IO_VIEW_ENDED) return 0;
  io->window_bytes -= v.n;
  if (v.kind == IO_VIEW_MAPPED) return end_mapped(io, &v, fence, err);
  if (v.kind == IO_VIEW_COPIED && fence)
    pages_fence(v.window.pages, v.window.pages_bytes);
  else if (v.kind == IO_VIEW_COPIED)
    give_back(io, &v.window);
  return 0;
}

int io_view_done(struct io *io, struct io_view *view, struct err *err) {
  return end_view(io, view, false, err);
}

int io_view_fence(struct io *io, struct io_view *view, struct err *err) {
  return end_view(io, view, true, err);
}

int io_read(struct io *io, uint32_t file, uint64_t off, void *buf, size_t n, struct err *err) {
  if (check_range(io, file, off, n, err) < 0) return -1;
  if (n == 0) return 0;
  if (io->engine->reads != IO_READS_WHOLE) return read_range(io, file, off, buf, n, err);
  const uint8_t *all;
  if (whole_of(io, file, &all, err) < 0) return -1;
  memcpy(buf, all + off, n);
  return 0;
}

int io_gather(struct io *io, const struct io_fragments *f, uint8_t *buf, struct err *err) {
  assert(f->run > 0 && f->run <= f->stride && f->stride <= IO_GATHER_STRIDE_MAX);
  // An engine that copies would read, and count, all that lies between fragments.
  const enum io_reads reads = io->engine->reads == IO_READS_COPY ? IO_READS_MAP : io->engine->reads;
  // Half of what may be live, so that tiles that wait to be written can keep theirs.
  const uint64_t room = min_u64(GATHER_BYTES_MAX, io->window_bytes_max / 2);
  const uint64_t most = max_u64(room / f->stride, 1);
  for (uint64_t i = 0; i < f->n;) {
    const uint64_t n = min_u64(most, f->n - i), before = io->source_bytes;
    const size_t span = (size_t)((n - 1) * f->stride + f->run);
    struct io_view v;
    if (view_of(io, f->file, f->off + i * f->stride, span, reads, &v, err) < 0) return -1;
    if (v.kind == IO_VIEW_MAPPED) io->source_bytes = before + n * f->run;
    uint8_t *to = buf + i * f->run;
    const uint8_t *from = v.at;
    for (uint64_t k = 0; k < n; k++, to += f->run, from += f->stride)
      if (f->run == 64) // a whole line of memory, which most are: a length that is known
        memcpy(to, from, 64);
      else
        memcpy(to, from, f->run);
    if (io_view_done(io, &v, err) < 0) return -1;
    i += n;
  }
  return 0;
}

void io_will_need(struct io *io, uint32_t file, uint64_t off, uint64_t n) {
  struct err ignored = {0};
  struct file fd;
  if (n == 0 || sources_fd(io->sources, file, &fd, &ignored) < 0) return;
  io_window_advise(fd, off, n);
  sources_release_fd(io->sources, file);
}

uint64_t io_clone_lead(uint64_t off, uint64_t out_off) {
  if ((off - out_off) % IO_CLONE_BLOCK != 0) return UINT64_MAX;
  return -off % IO_CLONE_BLOCK;
}

uint64_t io_clone(struct io *io, uint32_t file, uint64_t off, struct file fd, uint64_t out_off,
                  uint64_t n) {
  n -= n % IO_CLONE_BLOCK;
  if (io->clone_refused || n == 0 || io_clone_lead(off, out_off) != 0) return 0;
  struct err ignored = {0};
  struct file source;
  if (sources_fd(io->sources, file, &source, &ignored) < 0) return 0;
  int r = io->engine->clone(io->self, source, off, fd, out_off, n);
  sources_release_fd(io->sources, file);
  // A refusal is about the pair of file systems: asking again for every tensor would be no use.
  // Whatever the reason, the caller's copy either works or names it.
  if (r < 0 && r != -EINTR) io->clone_refused = true;
  return r == 0 ? n : 0;
}

uint64_t io_source_bytes_read(const struct io *io) {
  return io->source_bytes;
}

void io_views_close(struct io *io) {
  if (io->spare) pages_free(io->spare, io->spare_bytes);
  for (uint32_t i = 0; i < io->n_whole; i++)
    if (io->whole[i].at) pages_free(io->whole[i].at, io->whole[i].n);
  resources_free(io->whole);
  io_wake_close(&io->wake);
}
