// A window: a mapped piece of a source file that may be truncated under us without killing us.
#ifndef WEIR_IO_WINDOW_H
#define WEIR_IO_WINDOW_H

#include "platform/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct io_window {
  const uint8_t *at; // byte `off` of the file
  void *map;         // page-aligned
  size_t map_bytes;
  uint32_t guard; // its place among the guarded windows
};

enum { IO_WINDOWS_MAX = 1024 }; // live at a time, in the process

// Installs the process-wide guard, unless it is in place, and lets SIGBUS through in the calling
// thread: a fault with the signal blocked would kill the process. To be called by every thread that
// uses windows. A handler that somebody else installs later takes the guard away until the next
// call.
void io_window_guard(void);

// Maps [off, off+n) of fd, n > 0, shared and read-only. Reading is asked for and most pages are
// brought in; the others come when they are used, under the guard. The descriptor may be closed
// afterwards. 0, or -errno: EFAULT where a page that was looked at, the last one among them, could
// not be read (the file is shorter than that, or the device failed), EMFILE past IO_WINDOWS_MAX, or
// mmap's own. Then read() will say more.
int io_window_open(struct io_window *w, struct file fd, uint64_t off, size_t n);

// Unmaps it. True if pages could not be read while it was in use: what they held was taken as
// zeros. (Bytes between a new end of the file and the end of its page are zeros too, and nobody can
// see that here: compare the file's size.)
bool io_window_close(struct io_window *w);

// As io_window_close, for a window that the system may still be reading from on our behalf.
bool io_window_fence(struct io_window *w);
// Takes whole pages of memory away and keeps their addresses from being used again: who still reads from
// there gets EFAULT, never somebody else's bytes.
void io_fence(void *at, size_t bytes);

// Asks the system to read n > 0 bytes at `off` ahead, where not all of them are in the page cache.
// Never fails.
void io_window_advise(struct file fd, uint64_t off, uint64_t n);

#endif
