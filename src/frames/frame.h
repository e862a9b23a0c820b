// Room: messages between weir and weir-ort, encoded and decoded; other rooms send and receive them.
//
//   frame   u32 magic "WRT1" | u16 kind | u16 zero | u64 length of the body      16 bytes, little-endian
//   body    the fields of the kind, in the order of frame_messages.def
//
//   NUMBER  u64
//   TEXT    u32 length, bytes: no NUL among them
//   TEXTS   u32 count, then as TEXT each
//   ARRAYS  u32 count, then each: TEXT name, u32 form, and
//             TENSOR    u32 dtype, u32 rank, i64 dims…, u32 place:  INLINE u64 length, bytes;  FILE u64 offset, u64 length;
//                       STRINGS u64 count, then u32 length, bytes each
//             SEQUENCE  u32 count, then arrays that are TENSOR
//             NOTHING   –
//   VALUES  u32 count, then each: TEXT name, u32 form, u32 dtype, u32 optional, u32 ranked, u32 rank, i64 dims… (-1: not
//           a number)
//
// Neither side trusts the other: every length is checked against what is left, dims against the bytes they take, and a body
// must end where its last field does.
#ifndef WEIR_FRAME_H
#define WEIR_FRAME_H

#include "base/arena.h"
#include "base/dtype.h"
#include "base/err.h"
#include "base/table.h"

enum {
  FRAME_PROTOCOL = 2,
  FRAME_HEAD = 16,
  FRAME_MAX_BODY = 256 << 20,
  FRAME_MAX_RANK = 64,
};

enum frame_kind {
#define MESSAGE(stem, number) FRAME_##stem = number,
#define FIELD(stem, type, name)
#define END(stem)
#include "frames/frame_messages.def"
};

enum frame_failure {
  FRAME_REFUSED = 1, // by the runtime: the text is its own
  FRAME_NO_LIBRARY,  // it cannot be loaded
  FRAME_TOO_OLD,     // it is older than what is supported
  FRAME_MISUSED,     // the request makes no sense: no such session, another protocol
  FRAME_LACKING,     // what is asked for, this version of the runtime does not have
  FRAME_NO_ROOM,     // a file could not be written or read
};

enum frame_form {
  FRAME_TENSOR,
  FRAME_SEQUENCE, // of tensors
  FRAME_NOTHING,  // an optional that holds nothing
  FRAME_UNKNOWN,  // VALUES only: a map, a sparse tensor, something opaque, a sequence of those
};

enum frame_place { FRAME_INLINE, FRAME_FILE, FRAME_STRINGS };

struct frame_array {
  const char *name; // "" for what a sequence holds
  enum frame_form form;
  enum dtype dtype;
  uint32_t rank;
  const int64_t *dims; // ≥ 0
  enum frame_place place;
  struct span bytes;          // INLINE; the place lies in the body, not aligned
  uint64_t offset, length;    // FILE
  const struct span *strings; // STRINGS: as many as the dims have elements
  uint64_t n_strings;
  const struct frame_array *items; // SEQUENCE
  uint32_t n_items;
};

struct frame_value {
  const char *name;
  enum frame_form form; // SEQUENCE: dtype and dims are those of its tensors
  enum dtype dtype;
  bool optional, ranked;
  uint32_t rank;
  const int64_t *dims;
};

struct frame_texts {
  const char *const *list;
  uint32_t n;
};
struct frame_arrays {
  const struct frame_array *list;
  uint32_t n;
};
struct frame_values {
  const struct frame_value *list;
  uint32_t n;
};

// struct frame_of_hello and so on: what a message holds.
#define FRAME_C_NUMBER uint64_t
#define FRAME_C_TEXT const char *
#define FRAME_C_TEXTS struct frame_texts
#define FRAME_C_ARRAYS struct frame_arrays
#define FRAME_C_VALUES struct frame_values
#define MESSAGE(stem, number) struct frame_of_##stem {
#define FIELD(stem, type, name) FRAME_C_##type name;
#define END(stem)                                                                                  \
  }                                                                                                \
  ;
#include "frames/frame_messages.def"

struct frame {
  enum frame_kind kind;
  union {
#define MESSAGE(stem, number) struct frame_of_##stem stem;
#define FIELD(stem, type, name)
#define END(stem)
#include "frames/frame_messages.def"
  };
};

// "run" and so on; "message 77" for others. For messages.
struct frame_words {
  char s[32];
};
struct frame_words frame_kind_words(uint32_t kind);

// Bytes to be sent. Starts zeroed.
struct frame_buffer {
  TABLE_BIG(uint8_t, bytes);
  bool full; // there was more than a message can have
};
void frame_buffer_done(struct frame_buffer *b);

// Puts the message into *b, in place of what it held. ERR_FAIL: the body would be too long. Texts that are NULL are "".
int frame_encode(struct frame_buffer *b, const struct frame *f, struct err *err);

// The head: FRAME_HEAD bytes. Gives the length of the body. ERR_FAIL with what is wrong.
int frame_head(const uint8_t *head, enum frame_kind *kind, uint64_t *body, struct err *err);
// The body: lists lie in *a, elements and strings in the body itself. ERR_FAIL with what is wrong and where.
int frame_decode(struct frame *f, enum frame_kind kind, struct span body, struct arena *a,
                 struct err *err);

// Elements of a tensor, and the bytes that they take (0: strings); false if the dims are not those of a tensor.
bool frame_array_size(const struct frame_array *x, uint64_t *count, uint64_t *bytes);

#endif
