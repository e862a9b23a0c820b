// Opening a name that came from a file, beneath a folder and nowhere else.
#ifndef WEIR_BENEATH_H
#define WEIR_BENEATH_H

#include "err.h"
#include "span.h"

#include <sys/stat.h>

enum { BENEATH_MAX = 4096 };

// Turns a location as written into the path that is opened: '.' and 'x/..' resolved, without a look
// at the disk. `path` has BENEATH_MAX + 1 bytes. ERR_MODEL with the reason: empty, over BENEATH_MAX
// bytes, a NUL, absolute, a backslash, a drive letter, a folder, or a ".." that leaves the folder.
int beneath_normalize(struct span location, char *path, struct err *err);

struct beneath_how {
  bool allow_links; // links that stay inside; the last may lead out of the folder to a regular file
  bool walk;        // go component by component even where openat2 exists
};

// Opens a normalized path for reading, beneath `folder`. The descriptor is a regular file (checked
// on the descriptor itself; *st is its stat), without further names unless links are allowed. -1
// with ERR_INPUT if missing, ERR_PERMISSION, ERR_MODEL if refused (the hint names --allow-links
// where that helps). `name` is what messages call it. EMFILE and ENFILE are left to the caller:
// returns -2.
int beneath_open(int folder, const char *path, struct beneath_how how, const char *name,
                 struct stat *st, int *fd, struct err *err);

#endif
