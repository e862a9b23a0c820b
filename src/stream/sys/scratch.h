// A folder for large temporary files of a run: in $TMPDIR, else in /var/tmp. Not next to the model, whose disk may be full or read-only.
//
//   /var/tmp/weir-calibrate-u3kQzT/      locked for as long as its process lives
//
// A process that is killed leaves its folder. The next one that makes a folder for the same purpose removes those of its own
// user that nobody has locked.
#ifndef WEIR_SCRATCH_H
#define WEIR_SCRATCH_H

#include "base/arena.h"
#include "base/err.h"
#include "platform/files.h"

struct scratch {
  const char *path; // NULL: none
  struct folder at;
};

// A new one for a purpose ("verify"), its path in *a. ERR_IO with the hint to set TMPDIR.
int scratch_make(struct scratch *s, const char *purpose, struct arena *a, struct err *err);
// Removes it; files that are in it are left, and it with them. Nothing where there is none ({0}).
void scratch_end(struct scratch *s);

#endif
