//   rope   first ─▶ [source 10..90] ─▶ [literal] ─▶ [recipe 7] ◀─ last
//
// A message's length stands before its body, and is known only after it: so bodies are ropes, and
// joining one behind its tag and length costs one link. Parts that continue each other (source
// bytes behind source bytes, literal behind literal) become one, so an untouched graph is a handful
// of parts, however many nodes it has. The bytes of literals lie in the plan, where they stay.
#include "plan/rope.h"
#include "base/varint.h"

#include <assert.h>

enum { MOVED_MAX = 4096 }; // bytes of a literal that are moved rather than linked

void rope_pool_free(struct rope_pool *pool) {
  TABLE_FREE(pool, parts);
  *pool = (struct rope_pool){.plan = pool->plan, .marks_literals = pool->marks_literals};
}

static bool continues(const struct rope_part *a, const struct rope_part *b) {
  if (a->kind != b->kind || a->ref != b->ref || a->at + a->len != b->at) return false;
  if (a->tensor != NO_ID || b->tensor != NO_ID) return false;
  return a->kind == SEGMENT_EXTENT || a->kind == SEGMENT_LITERAL;
}

static void add_part(struct rope_pool *pool, struct rope *to, struct rope_part part) {
  if (part.len == 0) return;
  to->len += part.len;
  if (to->last != NO_ID && continues(&pool->parts[to->last], &part)) {
    pool->parts[to->last].len += part.len;
    return;
  }
  const uint32_t id = TABLE_ADD(pool, parts, 1);
  assert(pool->n_parts < NO_ID);
  part.next = NO_ID;
  pool->parts[id] = part;
  if (to->first == NO_ID)
    to->first = id;
  else
    pool->parts[to->last].next = id;
  to->last = id;
}

static void add_literal(struct rope_pool *pool, struct rope *to, const void *bytes, size_t n,
                        uint32_t tensor) {
  struct plan *p = pool->plan;
  if (n == 0) return;
  TABLE_ROOM(p, literals, n);
  memcpy(p->literals + p->n_literals, bytes, n);
  add_part(
      pool, to,
      (struct rope_part){.len = n, .at = p->n_literals, .kind = SEGMENT_LITERAL, .tensor = tensor});
  p->n_literals += n;
}

void rope_bytes(struct rope_pool *pool, struct rope *to, const void *bytes, size_t n) {
  add_literal(pool, to, bytes, n, NO_ID);
}

void rope_payload(struct rope_pool *pool, struct rope *to, struct span bytes, uint32_t tensor) {
  add_literal(pool, to, bytes.at, bytes.n, pool->marks_literals ? tensor : NO_ID);
}

void rope_copy(struct rope_pool *pool, struct rope *to, struct place from) {
  rope_extent(pool, to, (struct extent){from.off, from.len, 0}, NO_ID);
}

void rope_extent(struct rope_pool *pool, struct rope *to, struct extent from, uint32_t tensor) {
  add_part(pool, to,
           (struct rope_part){.len = from.len,
                              .at = from.off,
                              .ref = from.file,
                              .kind = SEGMENT_EXTENT,
                              .tensor = tensor});
}

void rope_recipe(struct rope_pool *pool, struct rope *to, uint32_t recipe, uint64_t bytes,
                 uint32_t tensor) {
  add_part(
      pool, to,
      (struct rope_part){.len = bytes, .ref = recipe, .kind = SEGMENT_RECIPE, .tensor = tensor});
}

void rope_join(struct rope_pool *pool, struct rope *to, struct rope other) {
  if (other.first == NO_ID) return;
  to->len += other.len;
  if (to->first == NO_ID) {
    to->first = other.first;
  } else {
    struct rope_part *end = &pool->parts[to->last];
    const struct rope_part *head = &pool->parts[other.first];
    if (continues(end, head)) {
      end->len += head->len;
      end->next = head->next;
      if (other.first == other.last) return;
    } else {
      end->next = other.first;
    }
  }
  to->last = other.last;
}

// A tag and a number behind it: a value, or the length of what follows.
static void put_number(struct rope_pool *pool, struct rope *to, uint32_t field, enum wire_type wire,
                       uint64_t number) {
  uint8_t b[2 * VARINT_MAX_BYTES];
  const uint8_t *end = varint_put(varint_put_tag(b, field, wire), number);
  rope_bytes(pool, to, b, (size_t)(end - b));
}

void rope_varint_field(struct rope_pool *pool, struct rope *to, uint32_t field, uint64_t value) {
  put_number(pool, to, field, WIRE_VARINT, value);
}

void rope_fixed32_field(struct rope_pool *pool, struct rope *to, uint32_t field,
                        const void *bytes) {
  uint8_t b[VARINT_MAX_BYTES + 4], *end = varint_put_tag(b, field, WIRE_FIXED32);
  memcpy(end, bytes, 4);
  rope_bytes(pool, to, b, (size_t)(end - b) + 4);
}

void rope_bytes_field(struct rope_pool *pool, struct rope *to, uint32_t field, struct span bytes) {
  put_number(pool, to, field, WIRE_BYTES, bytes.n);
  rope_bytes(pool, to, bytes.at, bytes.n);
}

// Is it one literal, the newest, and short?
static bool may_move(const struct rope_pool *pool, struct rope body) {
  if (body.first == NO_ID || body.first != body.last || body.first + 1 != pool->n_parts)
    return false;
  const struct rope_part *part = &pool->parts[body.first];
  return part->kind == SEGMENT_LITERAL && part->tensor == NO_ID && part->len <= MOVED_MAX &&
         part->at + part->len == pool->plan->n_literals;
}

// A short literal moves to let its tag and length in before it: then it continues what `to` ends with, and messages
// of messages, of which a model has as many as values, take no part at all.
void rope_message_field(struct rope_pool *pool, struct rope *to, uint32_t field, struct rope body) {
  struct plan *p = pool->plan;
  if (!may_move(pool, body)) {
    put_number(pool, to, field, WIRE_BYTES, body.len);
    rope_join(pool, to, body);
    return;
  }
  uint8_t b[2 * VARINT_MAX_BYTES];
  const size_t n = (size_t)(varint_put(varint_put_tag(b, field, WIRE_BYTES), body.len) - b);
  TABLE_ROOM(p, literals, n);
  uint8_t *at = p->literals + pool->parts[body.first].at;
  memmove(at + n, at, body.len);
  memcpy(at, b, n);
  p->n_literals += n;
  struct rope_part part = pool->parts[body.first];
  part.len += n;
  pool->n_parts--;
  add_part(pool, to, part);
}

void rope_end_output(struct plan *plan, uint32_t first, const char *name, uint64_t size) {
  *TABLE_PUSH(plan, outputs) = (struct plan_output){
      .name = name, .size = size, .first_segment = first, .n_segments = plan->n_segments - first};
}

void rope_output(struct rope_pool *pool, const char *name, struct rope body) {
  struct plan *plan = pool->plan;
  const uint32_t first = plan->n_segments;
  uint64_t off = 0;
  for (uint32_t i = body.first; i != NO_ID; i = pool->parts[i].next) {
    const struct rope_part *part = &pool->parts[i];
    *TABLE_PUSH(plan, segments) = (struct segment){
        .off = off, .len = part->len, .at = part->at, .ref = part->ref, .kind = part->kind};
    off += part->len;
  }
  rope_end_output(plan, first, name, off);
}
