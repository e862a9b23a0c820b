// Where the elements of a tensor lie: a list of pieces (extents) plus an encoding. Inline, external
// and one-file-per-tensor models are the same thing in these terms.
#ifndef WEIR_SOURCE_H
#define WEIR_SOURCE_H

#include "base/span.h"

// How the elements lie in the pieces of a source.
enum encoding {
  ENCODING_RAW,     // little-endian elements, sub-byte types packed: raw_data and external data
  ENCODING_FIXED32, // float_data: 4-byte elements (complex64: pairs)
  ENCODING_FIXED64, // double_data: 8-byte elements (complex128: pairs)
  ENCODING_VARINT,  // int32_data, int64_data, uint64_data: one varint an entry
  ENCODING_STRINGS, // string_data: no byte form, copied as it stands
  ENCODING_NONE,    // no payload (zero elements)
};

// A run of entries. Unpacked typed fields put a tag before every entry: `tag_bytes` of them
// (packed and raw: 0). Entries of a VARINT piece are found through checkpoints.
struct piece {
  struct extent at;
  uint64_t first; // index of its first entry among the tensor's entries
  uint64_t count; // entries in it (RAW: bytes)
  uint32_t tag_bytes;
  uint32_t checkpoint; // VARINT: index into m->checkpoints of its first one, else NO_ID
};

// One checkpoint every CHECKPOINT_ENTRIES entries of a VARINT piece: the byte offset, relative to
// the piece, of entry k * CHECKPOINT_ENTRIES.
enum { CHECKPOINT_ENTRIES = 65536 };

#endif
