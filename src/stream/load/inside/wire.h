// The protobuf wire format as a stream: one field header after the other, read through a window of
// at most 1 MiB. Values that nobody asks for are stepped over and never read.
//
// The reader knows no messages. Who uses it keeps the stack of messages (load.c) and says, with
// every call, where the message at hand ends: nothing is ever read past that, nor past the file.
#ifndef WEIR_WIRE_H
#define WEIR_WIRE_H

#include "base/err.h"
#include "base/span.h"
#include "base/varint.h"
#include "stream/io/sources.h"

enum { WIRE_WINDOW = 1 << 20, WIRE_GROUPS = 100 };

struct wire {
  struct sources *sources; // file 0 of these; NULL: all bytes are in buf
  const char *name;        // for messages
  uint64_t size;           // of the file
  uint8_t *buf;
  uint64_t at; // where in the file buf begins
  size_t have; // bytes in buf
  size_t pos;  // the next byte, in buf
  size_t ask;  // how much the next read takes
};

// A field header. For VARINT and FIXED fields the reader then stands behind the value, else at it.
struct wire_field {
  uint64_t start; // of its tag, in the file
  uint64_t body;  // of its value (BYTES: behind the length)
  uint64_t len;   // of its value in bytes (groups: 0)
  uint64_t value; // VARINT, FIXED32, FIXED64
  uint32_t number;
  uint8_t type; // enum wire_type
  uint8_t tag_bytes;
};

// Starts at byte 0 of file 0. wire_open_memory: over bytes that outlive the reader.
void wire_open(struct wire *w, struct sources *s);
void wire_open_memory(struct wire *w, struct span bytes, const char *name);
void wire_close(struct wire *w);

static inline uint64_t wire_offset(const struct wire *w) {
  return w->at + w->pos;
}

// The next field of a message that ends at `end` (> the offset, <= the size). ERR_MODEL, with the
// byte offset: a tag of more than 5 bytes, field number 0, wire type 6 or 7, a varint of more than
// 10 bytes or 64 bits, a value that does not end before `end`. END_GROUP comes as a field.
int wire_next(struct wire *w, uint64_t end, struct wire_field *f, struct err *err);

// Steps over the value of a field just read, groups included (up to WIRE_GROUPS deep); their
// framing is checked.
int wire_skip_value(struct wire *w, const struct wire_field *f, uint64_t end, struct err *err);

// Steps over n bytes, or back to an offset already passed.
void wire_skip(struct wire *w, uint64_t n);
void wire_seek(struct wire *w, uint64_t offset);

// Takes n bytes (they lie inside the file) to `to`.
int wire_copy(struct wire *w, void *to, size_t n, struct err *err);
// Takes at least 1 and at most `max` bytes that stay valid until the next call.
int wire_window(struct wire *w, uint64_t max, struct span *out, struct err *err);
// Bytes [off, off+n) of the file, without moving: from the window if they are still in it.
int wire_read_at(struct wire *w, uint64_t off, void *to, size_t n, struct err *err);

// ERR_MODEL "'file': byte N: …".
int wire_error(const struct wire *w, uint64_t at, struct err *err, const char *fmt, ...)
    ERR_PRINTF(4, 5);

// Bytes of the varint at p, or 0 if it does not end before `end`, is longer than 10 bytes or holds
// more than 64 bits.
size_t wire_varint(const uint8_t *p, const uint8_t *end, uint64_t *value);

#endif
