// A sequence of bytes under construction: literals, copies of source bytes and recipes, joined in
// O(1). Messages are built from the inside out: the body first, then its tag and length in front.
#ifndef WEIR_ROPE_H
#define WEIR_ROPE_H

#include "plan/plan.h"

struct rope_part {
  uint64_t len;
  uint64_t at; // as struct segment
  uint32_t ref;
  uint32_t kind;   // enum segment_kind
  uint32_t tensor; // tensor id whose payload this is, or NO_ID
  uint32_t next;
};

// All ropes of one emission share the parts; literals go to the plan.
struct rope_pool {
  struct plan *plan;
  TABLE(struct rope_part, parts);
  bool marks_literals; // see rope_payload
};

struct rope {
  uint32_t first, last; // NO_ID: empty
  uint64_t len;
};

static inline struct rope rope_empty(void) {
  return (struct rope){NO_ID, NO_ID, 0};
}
void rope_pool_free(struct rope_pool *pool);

void rope_bytes(struct rope_pool *pool, struct rope *to, const void *bytes, size_t n);
// The bytes of a tensor. Which one is remembered only if the pool marks literals: parts of their
// own are many, where tensors are small.
void rope_payload(struct rope_pool *pool, struct rope *to, struct span bytes, uint32_t tensor);
void rope_copy(struct rope_pool *pool, struct rope *to, struct place from); // of file 0
void rope_extent(struct rope_pool *pool, struct rope *to, struct extent from, uint32_t tensor);
void rope_recipe(struct rope_pool *pool, struct rope *to, uint32_t recipe, uint64_t bytes,
                 uint32_t tensor);
void rope_join(struct rope_pool *pool, struct rope *to, struct rope other); // `other` is used up

// Protobuf wire format.
void rope_varint_field(struct rope_pool *pool, struct rope *to, uint32_t field, uint64_t value);
void rope_fixed32_field(struct rope_pool *pool, struct rope *to, uint32_t field, const void *bytes);
void rope_bytes_field(struct rope_pool *pool, struct rope *to, uint32_t field, struct span bytes);
void rope_message_field(struct rope_pool *pool, struct rope *to, uint32_t field, struct rope body);

// The plan's next output, of its segments from `first` on.
void rope_end_output(struct plan *plan, uint32_t first, const char *name, uint64_t size);
// One that is these bytes.
void rope_output(struct rope_pool *pool, const char *name, struct rope body);

#endif
