// A window: a guarded map (platform/maps.h) of a piece of a source file, brought in before it is used.
#ifndef WEIR_IO_WINDOW_H
#define WEIR_IO_WINDOW_H

#include "platform/maps.h"

// Maps [off, off+n) of the file, n > 0, under the guard. Reading is asked for and most pages are brought in; the others come when they
// are used. -1 and errno: EFAULT where a page that was looked at, the last one among them, could not be read (the file is shorter than
// that, or the device failed), or map_open_guarded's own. Then reading will say more.
int io_window_open(struct file_map *w, struct file f, uint64_t off, size_t n);

// Asks the system to read n > 0 bytes at `off` ahead, where not all of them are in its cache.
// Never fails.
void io_window_advise(struct file f, uint64_t off, uint64_t n);

#endif
