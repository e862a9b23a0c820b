// A file that a record names by base name and SHA-256: wherever it lies now, it is known by its bytes.
#ifndef WEIR_FILE_LOOKUP_H
#define WEIR_FILE_LOOKUP_H

#include "base/arena.h"
#include "base/digest.h"

#define FILE_LOOKUP_ANY_SIZE UINT64_MAX

struct file_lookup {
  const char *name;
  uint64_t size; // or FILE_LOOKUP_ANY_SIZE
  const uint8_t *sha256;
};

// The first of n places (paths; NULL: none) where a plain file has these bytes, or NULL. *other: a place where there is
// another file, or NULL.
const char *file_lookup_in(const struct file_lookup *f, const char *const *places, size_t n,
                           const char **other);
// `name` in the folder that `file` is in.
const char *file_lookup_beside(struct arena *a, const char *file, const char *name);

#endif
