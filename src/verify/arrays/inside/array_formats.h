// Readers of one file each (array_files.h says what they take). All sizes are checked against the feed
// and the space.
#ifndef WEIR_ARRAY_FORMATS_H
#define WEIR_ARRAY_FORMATS_H

#include "verify/arrays/inside/feed.h"

// Fields and values of SequenceProto and OptionalProto.
enum { HELD_NAME = 1, HELD_TYPE = 2, HELD_TENSOR = 3, HELD_SEQUENCE = 5, HELD_OPTIONAL = 7 };

// A feed that is one .npy, named `name`.
int npy_read(const struct feed *f, const char *name, struct space *s, struct array *out,
             struct err *err);
bool npy_begins(const uint8_t *at, size_t n);
// All arrays of an archive, in the order of its directory.
int npz_read(const struct feed *f, struct space *s, struct arrays *out, struct err *err);
bool npz_begins(const uint8_t *at, size_t n);
// A TensorProto, SequenceProto or OptionalProto.
int pb_read(const struct feed *f, struct space *s, struct array *out, struct err *err);

#endif
