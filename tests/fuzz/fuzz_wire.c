// The wire reader over arbitrary bytes: every length-delimited field is taken for a message too,
// with a stack of ends as the loader keeps one. Whatever comes out of the reader must lie inside
// its message, and the same bytes must read the same when a window moves over them.
#include "stream/load/inside/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds) {
  if (!holds) abort();
}

// Reads to the end or to the first error, going into every submessage while there is room.
static void walk(struct wire *w) {
  uint64_t ends[32];
  size_t depth = 0;
  struct err err = {0};
  ends[0] = w->size;
  for (;;) {
    const uint64_t at = wire_offset(w);
    demand(at <= ends[depth]);
    if (at == ends[depth]) {
      if (depth-- == 0) return;
      continue;
    }
    struct wire_field f;
    if (wire_next(w, ends[depth], &f, &err)) break;
    demand(f.start == at && f.number > 0 && f.tag_bytes >= 1 && f.tag_bytes <= 5);
    demand(range_fits(f.body, f.len, ends[depth]) && f.body > f.start);
    if (f.type == WIRE_BYTES && depth + 1 < 32 && f.number % 2) {
      ends[++depth] = f.body + f.len;
      continue;
    }
    if (wire_skip_value(w, &f, ends[depth], &err)) break;
  }
  demand(err.kind == ERR_MODEL && err.msg[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct wire w;
  wire_open_memory(&w, span_of(data, size), "fuzz");
  walk(&w);
  wire_close(&w);
  for (size_t i = 0; i < size && i < 16; i++) {
    uint64_t value;
    const size_t n = wire_varint(data + i, data + size, &value);
    demand(n <= 10 && n <= size - i);
  }
  return 0;
}
