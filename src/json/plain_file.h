// Files that a user named, which are read from front to end: rules, pipelines, edit logs, ranges, overrides.
#ifndef WEIR_PLAIN_FILE_H
#define WEIR_PLAIN_FILE_H

#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

// Opens a plain file for reading. NULL with ERR_INPUT for one that is not there or may not be read, and for a pipe, a device or
// a folder: who opens those may wait for ever, or read without end. `what`: what the message calls it, with a blank behind it
// ("the rules "); "": by its path alone.
FILE *plain_file_open(const char *path, const char *what, struct err *err);

// All of it, in *a. ERR_INPUT too for one of more than `most` bytes.
int plain_file_text(const char *path, size_t most, struct arena *a, struct span *out,
                    struct err *err);

#endif
