// The protobuf wire format, as far as those who write it need it. Who reads it: load's wire.h.
#ifndef WEIR_VARINT_H
#define WEIR_VARINT_H

#include "base/span.h"

enum wire_type { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_GROUP, WIRE_END_GROUP, WIRE_FIXED32 };

enum { VARINT_MAX_BYTES = 10 };

// Writes x as a varint, at most VARINT_MAX_BYTES. Gives the end.
static inline uint8_t *varint_put(uint8_t *to, uint64_t x) {
  for (; x >= 0x80; x >>= 7)
    *to++ = (uint8_t)(x | 0x80);
  *to++ = (uint8_t)x;
  return to;
}

static inline uint64_t varint_bytes(uint64_t x) {
  uint64_t n = 1;
  for (; x > 0x7f; x >>= 7)
    n++;
  return n;
}
// Of a field with such a body, bytes or a message: one below 16, whose tag has one byte.
static inline uint64_t varint_field_bytes(uint64_t body) {
  return 1 + varint_bytes(body) + body;
}

// Writes the tag of a field. Gives the end.
static inline uint8_t *varint_put_tag(uint8_t *to, uint32_t number, enum wire_type type) {
  return varint_put(to, (uint64_t)number << 3 | type);
}

// Takes a varint off the front of *s. False: it does not end there.
static inline bool varint_take(struct span *s, uint64_t *x) {
  *x = 0;
  for (unsigned shift = 0; shift < 64 && s->n > 0; shift += 7) {
    const uint8_t b = *s->at;
    *s = span_of(s->at + 1, s->n - 1);
    *x |= (uint64_t)(b & 0x7f) << shift;
    if (b < 0x80) return true;
  }
  return false;
}

#endif
