// Room: inputs and outputs of models: named tensors with their elements, in memory or in a file.
//
//   small   elements in memory, in the arena of who made the array
//   large   a stretch of a file that is read a megabyte at a time: outputs of gigabytes are compared
//           without being in memory
//
// Elements are in RAW form, as ONNX stores them: little-endian, row-major, types below a byte packed.
// Strings, sequences and optionals have forms of their own.
#ifndef WEIR_ARRAY_H
#define WEIR_ARRAY_H

#include "base/arena.h"
#include "base/dtype.h"
#include "base/err.h"
#include "platform/files.h"

#include <stdbool.h>

enum array_kind {
  ARRAY_TENSOR,
  ARRAY_SEQUENCE, // of `n_items` arrays
  ARRAY_NOTHING,  // an optional that holds nothing
};

enum { ARRAY_MAX_RANK = 64 };

struct array {
  const char *name;
  enum array_kind kind;
  enum dtype dtype;
  uint32_t rank;
  const int64_t *dims;        // ≥ 0
  uint64_t count;             // elements
  uint64_t bytes;             // of the elements; 0 for strings
  const uint8_t *at;          // in memory; NULL: in the file, or strings
  struct file file;           // which somebody else closes; none: in memory
  uint64_t offset;            // of the first byte in the file
  const struct span *strings; // dtype STRING: `count` of them
  const struct array *items;  // SEQUENCE
  uint32_t n_items;
  // From a file that does not say whether it is a sequence, of one or none, or an optional.
  bool either;
  bool optional; // what an optional holds, which it is written as again
};

struct arrays {
  struct array *list;
  uint32_t n;
};

// Elements and bytes of a tensor (bytes: 0 for strings). False: too many elements or dims, a negative dim, or
// a type without a byte form.
bool array_sizes(enum dtype dtype, uint32_t rank, const int64_t *dims, uint64_t *count,
                 uint64_t *bytes);
// A tensor in memory of the arena, with elements to be filled (through the result) and count and bytes
// computed. NULL: the dims have too many elements, or the type has no byte form.
uint8_t *array_make(struct array *x, const char *name, enum dtype dtype, uint32_t rank,
                    const int64_t *dims, struct arena *a);
// Bytes [off, off + n) of the elements. ERR_INPUT if the file became shorter, ERR_IO.
int array_read(const struct array *x, uint64_t off, void *buf, size_t n, struct err *err);
// All elements of a tensor in memory, in *at: where they are, or read into the arena. Errors as of array_read.
int array_load(const struct array *x, struct arena *a, const uint8_t **at, struct err *err);
// What is `either` becomes what the model wants: the optional holds the item, or nothing. Without effect on others.
void array_settle(struct array *x, bool optional);
// The same where an array of what the model wants is there: the one that it is compared with.
void array_settle_like(struct array *x, const struct array *like);
// The array of that name, or NULL.
const struct array *array_named(const struct arrays *x, const char *name);
// Do both have the same rank and dims?
bool array_same_dims(const struct array *a, const struct array *b);
// "float[1,128,64]" for messages.
struct array_words {
  char s[160];
};
struct array_words array_words(const struct array *x);

#endif
