// Protobuf bytes for tests, field by field; and a folder to put them in.
#ifndef WEIR_TEST_PB_BUILD_H
#define WEIR_TEST_PB_BUILD_H

#include "stream/load/load.h"

struct pb {
  uint8_t *at;
  size_t n, cap;
};

void pb_free(struct pb *p);
void pb_raw(struct pb *p, const void *bytes, size_t n); // as they are, no tag
void pb_number(struct pb *p, uint64_t x);               // a bare varint
void pb_varint(struct pb *p, uint32_t field, uint64_t x);
void pb_fixed32(struct pb *p, uint32_t field, uint32_t x);
void pb_fixed64(struct pb *p, uint32_t field, uint64_t x);
void pb_bytes(struct pb *p, uint32_t field, const void *bytes, size_t n);
void pb_text(struct pb *p, uint32_t field, const char *s);
// The message as a field; frees it.
void pb_message(struct pb *p, uint32_t field, struct pb *message);

// Parts of ONNX files.
void pb_entry(struct pb *p, uint32_t field, const char *key, const char *value);
// A node with up to two inputs and one output (NULL: left out).
void pb_node(struct pb *graph, const char *op, const char *a, const char *b, const char *out);
void pb_io(struct pb *graph, uint32_t field, const char *name); // a float [4] value
// x -> Identity -> y, so that a graph is whole.
void pb_identity(struct pb *graph);
// ir_version 9, the graph (freed), opset 18.
struct pb pb_model(struct pb *graph);

// A folder of its own with one model in it.
struct pb_home {
  char folder[64], onnx[96];
  struct sources *sources;
  struct model m;
  struct err err;
  bool loaded;
  char faults[8192]; // "level place: message\n" of the last collecting load
};
void pb_home_open(struct pb_home *h);
void pb_home_close(struct pb_home *h);
void pb_home_write(struct pb_home *h, const char *name, const void *bytes, size_t n);
// Writes the bytes as the .onnx and loads them; 0 or -1. A later load forgets the earlier one.
int pb_home_load(struct pb_home *h, const struct pb *model);
int pb_home_load_with(struct pb_home *h, const struct pb *model, struct load_options options);
// The same with a sink that fills h->faults.
int pb_home_collect(struct pb_home *h, const struct pb *model);

#endif
