// Opening a name that came from a file, beneath a folder and nowhere else.
#ifndef WEIR_BENEATH_H
#define WEIR_BENEATH_H

#include "base/err.h"
#include "base/span.h"
#include "platform/files.h"

enum { BENEATH_MAX = 4096 };

// Turns a location as written into the path that is opened: '.' and 'x/..' resolved, without a look
// at the disk. `path` has BENEATH_MAX + 1 bytes. ERR_MODEL with the reason: empty, over BENEATH_MAX
// bytes, a NUL, absolute, a backslash, a drive letter, a folder, or a ".." that leaves the folder.
int beneath_normalize(struct span location, char *path, struct err *err);

struct beneath_how {
  bool allow_links; // hard links, and as the last part links to any regular file outside
  bool walk;        // go component by component even where the system has a call for it
  bool linked;      // the .onnx is a link (for a hint)
  struct folder
      blobs; // the last part may be a link into this folder (beneath_blobs); none: into none
};

// The folder `blobs` of a Hugging Face cache, if link `name` in `folder` leads into one, to the file
// with these facts; else none. It is the caller's.
struct folder beneath_blobs(struct folder folder, const char *name, const struct entry_facts *is);

// Opens a normalized path for reading, beneath `folder`; links that stay in it are followed. The
// file is a regular one (checked when it is open; *st has its facts), without further names unless links are allowed. -1 with ERR_INPUT if missing or no regular file, ERR_PERMISSION,
// also for a link that leads out and for a hard link (the hint names --allow-links where that
// helps), else ERR_MODEL. `shown` is what messages call it, quoted. EMFILE and ENFILE are left to
// the caller: returns -2.
int beneath_open(struct folder folder, const char *path, struct beneath_how how, const char *shown,
                 struct entry_facts *st, struct file *fd, struct err *err);

#endif
