// Opening a name that came from a file, beneath a folder and nowhere else.
#ifndef WEIR_BENEATH_H
#define WEIR_BENEATH_H

#include "base/err.h"
#include "base/span.h"

#include <sys/stat.h>

enum { BENEATH_MAX = 4096 };

// Turns a location as written into the path that is opened: '.' and 'x/..' resolved, without a look
// at the disk. `path` has BENEATH_MAX + 1 bytes. ERR_MODEL with the reason: empty, over BENEATH_MAX
// bytes, a NUL, absolute, a backslash, a drive letter, a folder, or a ".." that leaves the folder.
int beneath_normalize(struct span location, char *path, struct err *err);

struct beneath_how {
  bool allow_links; // hard links, and as the last part links to any regular file outside
  bool walk;        // go component by component even where openat2 exists
  bool linked;      // the .onnx is a link (for a hint)
  int blobs;        // the last part may be a link into this folder (beneath_blobs); -1: into none
};

// The folder `blobs` of a Hugging Face cache, if link `name` in `folder` leads into one, to the file
// with this stat; else -1. The descriptor is the caller's.
int beneath_blobs(int folder, const char *name, const struct stat *is);

// Opens a normalized path for reading, beneath `folder`; links that stay in it are followed. The
// descriptor is a regular file (checked on the descriptor itself; *st is its stat), without further
// names unless links are allowed. -1 with ERR_INPUT if missing or no regular file, ERR_PERMISSION,
// also for a link that leads out and for a hard link (the hint names --allow-links where that
// helps), else ERR_MODEL. `shown` is what messages call it, quoted. EMFILE and ENFILE are left to
// the caller: returns -2.
int beneath_open(int folder, const char *path, struct beneath_how how, const char *shown,
                 struct stat *st, int *fd, struct err *err);

#endif
