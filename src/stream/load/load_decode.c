// protobuf-c, behind a wall: its types are read all over this room, but here alone is it called.
//
// protobuf-c recurses without a limit, copies every bytes field and expands packed varints. None of
// that can hurt here: load.c hands over one unit at a time (nesting checked, payloads left
// out), and the memory comes from a scratch arena that is reset after every unit, so freeing does
// nothing and a million units cost no malloc.
#include "stream/load/inside/loader.h"

static void *take(void *scratch, size_t n) {
  return arena_alloc(scratch, n);
}

static void keep(void *scratch, void *at) {
  (void)scratch;
  (void)at;
}

const void *load_decode(struct loader *l, const struct frame *f,
                        const ProtobufCMessageDescriptor *of) {
  ProtobufCAllocator from = {.alloc = take, .free = keep, .allocator_data = &l->scratch};
  const void *unit = protobuf_c_message_unpack(of, &from, f->n_skeleton, f->skeleton);
  if (!unit) load_fatal(l, f->start, "the %s cannot be decoded", onnx_schema_message(f->message));
  return unit;
}
