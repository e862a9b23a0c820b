// A protobuf message as a tree of fields, so that it can be changed and written again, whatever it
// is then. What lies where comes from the wire; the table of ONNX's fields (onnx_schema.h) says
// only which bytes are messages.
#ifndef WEIR_MUTATE_TREE_H
#define WEIR_MUTATE_TREE_H

#include "base/arena.h"
#include "base/span.h"
#include "base/table.h"
#include "stream/load/inside/onnx_schema.h"

enum wire { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_BEGIN, WIRE_END, WIRE_FIXED32 };

struct field {
  uint32_t number;
  uint8_t wire;  // enum wire, or 6 or 7, which do not exist
  uint8_t holds; // of WIRE_BYTES: the message that its fields are of; MESSAGE_NONE: it is `bytes`
  bool longest;  // the varint is written in ten bytes
  uint64_t x;    // a number
  struct span bytes;
  struct field *up, *first, *last, *next, *prev;
};

struct tree {
  struct field *root; // a model; its own number is not written
  struct arena *a;
  TABLE(struct field *, all); // every field but the root, in the order of the file
};

// What ends the message or cannot be read stays away. tree_free frees the list; fields lie in *a.
void tree_read(struct tree *t, struct span model, struct arena *a);
void tree_free(struct tree *t);
// Collects t->all anew, after changes.
void tree_collect(struct tree *t);
struct span tree_write(const struct tree *t);
uint64_t tree_bytes(const struct field *f); // of what is in it

struct field *tree_new(struct tree *t, uint32_t number, enum wire wire);
struct field *tree_number(struct tree *t, uint32_t number, uint64_t x);
struct field *tree_text(struct tree *t, uint32_t number, struct span text);
struct field *tree_message(struct tree *t, uint32_t number, enum message holds);
// A copy of it and of what is in it, in no message yet.
struct field *tree_copy(struct tree *t, const struct field *f);
// Behind `after`; NULL: at the end of the message `in`.
void tree_put(struct field *in, struct field *after, struct field *f);
void tree_take(struct field *f);
// The first field of that number in a message, or NULL.
struct field *tree_find(const struct field *in, uint32_t number);

#endif
