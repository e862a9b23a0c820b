// The protobuf wire format, as far as those who write it need it. Who reads it: load's wire.h.
#ifndef WEIR_VARINT_H
#define WEIR_VARINT_H

#include <stdint.h>

enum wire_type { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_GROUP, WIRE_END_GROUP, WIRE_FIXED32 };

enum { VARINT_MAX_BYTES = 10 };

// Writes x as a varint, at most VARINT_MAX_BYTES. Gives the end.
static inline uint8_t *varint_put(uint8_t *to, uint64_t x) {
  for (; x >= 0x80; x >>= 7)
    *to++ = (uint8_t)(x | 0x80);
  *to++ = (uint8_t)x;
  return to;
}

// Writes the tag of a field. Gives the end.
static inline uint8_t *varint_put_tag(uint8_t *to, uint32_t number, enum wire_type type) {
  return varint_put(to, (uint64_t)number << 3 | type);
}

#endif
