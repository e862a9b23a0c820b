// A field is read into a message where the table says that it is one and its bytes are fields to
// the end; else it stays bytes. So a tree that nothing changed is written as it was, but for
// varints that were longer than they had to be. Messages nest at most DEPTH deep here: what is
// deeper stays bytes, which bounds the recursion.
#include "mutate_tree.h"

enum { DEPTH = 24, VARINT_BYTES = 10 };

struct reading {
  struct span left;
  struct tree *t;
};

static bool read_varint(struct span *s, uint64_t *x) {
  *x = 0;
  for (unsigned shift = 0; shift < 70 && s->n > 0; shift += 7) {
    const uint8_t byte = *s->at;
    *s = span_of(s->at + 1, s->n - 1);
    if (shift < 64) *x |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

static bool read_bytes(struct span *s, uint64_t n, struct span *out) {
  if (n > s->n) return false;
  *out = span_of(s->at, (size_t)n);
  *s = span_of(s->at + n, s->n - (size_t)n);
  return true;
}

static bool read_fields(struct tree *t, struct span s, struct field *in, unsigned depth);

// The bytes of a field as a message, where they are one to their end.
static void open_message(struct tree *t, struct field *f, enum message in, unsigned depth) {
  const struct schema_field *row = onnx_schema_field(in, f->number);
  if (!row || row->form != FORM_MESSAGE || depth == 0 || row->submessage == MESSAGE_NONE) return;
  f->holds = row->submessage;
  if (read_fields(t, f->bytes, f, depth - 1)) return;
  f->holds = MESSAGE_NONE;
  f->first = f->last = NULL;
}

static bool read_value(struct span *s, struct field *f) {
  struct span raw;
  uint64_t n;
  switch (f->wire) {
  case WIRE_VARINT: return read_varint(s, &f->x);
  case WIRE_BYTES: return read_varint(s, &n) && read_bytes(s, n, &f->bytes);
  case WIRE_FIXED64:
  case WIRE_FIXED32:
    if (!read_bytes(s, f->wire == WIRE_FIXED64 ? 8 : 4, &raw)) return false;
    memcpy(&f->x, raw.at, raw.n);
    return true;
  default: return true; // ends and beginnings of groups have none
  }
}

static bool read_fields(struct tree *t, struct span s, struct field *in, unsigned depth) {
  while (s.n > 0) {
    uint64_t tag;
    if (!read_varint(&s, &tag) || tag >> 32) return false;
    struct field *f = tree_new(t, (uint32_t)(tag >> 3), (enum wire)(tag & 7));
    if (!read_value(&s, f)) return false;
    if (f->wire == WIRE_BYTES) open_message(t, f, in->holds, depth);
    tree_put(in, NULL, f);
  }
  return true;
}

void tree_read(struct tree *t, struct span model, struct arena *a) {
  *t = (struct tree){.a = a};
  t->root = tree_new(t, 0, WIRE_BYTES);
  t->root->holds = MESSAGE_MODEL;
  read_fields(t, model, t->root, DEPTH);
  tree_collect(t);
}

void tree_free(struct tree *t) {
  TABLE_FREE(t, all);
}

void tree_collect(struct tree *t) {
  t->n_all = 0;
  const struct field *f = t->root;
  while (f) { // in, then on, then out
    const struct field *next = f->first ? f->first : f->next;
    while (!next && f->up) {
      f = f->up;
      next = f->next;
    }
    if (!next) break;
    *TABLE_PUSH(t, all) = (struct field *)next;
    f = next;
  }
}

// ---- changes ------------------------------------------------------------------------------------

struct field *tree_new(struct tree *t, uint32_t number, enum wire wire) {
  struct field *f = arena_zalloc(t->a, sizeof *f);
  f->number = number;
  f->wire = (uint8_t)wire;
  return f;
}

struct field *tree_number(struct tree *t, uint32_t number, uint64_t x) {
  struct field *f = tree_new(t, number, WIRE_VARINT);
  f->x = x;
  return f;
}

struct field *tree_text(struct tree *t, uint32_t number, struct span text) {
  struct field *f = tree_new(t, number, WIRE_BYTES);
  f->bytes = text;
  return f;
}

struct field *tree_message(struct tree *t, uint32_t number, enum message holds) {
  struct field *f = tree_new(t, number, WIRE_BYTES);
  f->holds = (uint8_t)holds;
  return f;
}

struct field *tree_copy(struct tree *t, const struct field *f) {
  struct field *copy = tree_new(t, f->number, (enum wire)f->wire);
  copy->holds = f->holds;
  copy->longest = f->longest;
  copy->x = f->x;
  copy->bytes = f->bytes;
  for (const struct field *in = f->first; in; in = in->next)
    tree_put(copy, NULL, tree_copy(t, in));
  return copy;
}

void tree_put(struct field *in, struct field *after, struct field *f) {
  f->up = in;
  f->prev = after ? after : in->last;
  f->next = f->prev ? f->prev->next : NULL;
  *(f->prev ? &f->prev->next : &in->first) = f;
  *(f->next ? &f->next->prev : &in->last) = f;
}

void tree_take(struct field *f) {
  *(f->prev ? &f->prev->next : &f->up->first) = f->next;
  *(f->next ? &f->next->prev : &f->up->last) = f->prev;
  f->up = f->prev = f->next = NULL;
}

struct field *tree_find(const struct field *in, uint32_t number) {
  for (struct field *f = in->first; f; f = f->next)
    if (f->number == number) return f;
  return NULL;
}

// ---- writing ------------------------------------------------------------------------------------

static uint64_t varint_bytes(uint64_t x) {
  uint64_t n = 1;
  while (x >>= 7)
    n++;
  return n;
}

static uint64_t value_bytes(const struct field *f) {
  switch (f->wire) {
  case WIRE_VARINT: return f->longest ? VARINT_BYTES : varint_bytes(f->x);
  case WIRE_FIXED64: return 8;
  case WIRE_FIXED32: return 4;
  case WIRE_BYTES: {
    const uint64_t n = tree_bytes(f);
    return varint_bytes(n) + n;
  }
  default: return 0;
  }
}

uint64_t tree_bytes(const struct field *f) {
  uint64_t n = 0;
  if (f->holds == MESSAGE_NONE) return f->bytes.n;
  for (const struct field *in = f->first; in; in = in->next)
    n += varint_bytes((uint64_t)in->number << 3) + value_bytes(in);
  return n;
}

static uint8_t *put_varint(uint8_t *at, uint64_t x, bool longest) {
  const uint8_t *end = at + VARINT_BYTES - 1;
  for (; x > 127 || (longest && at < end); x >>= 7)
    *at++ = (uint8_t)(x | 128);
  *at++ = (uint8_t)x;
  return at;
}

static uint8_t *put_fields(uint8_t *at, const struct field *f) {
  if (f->holds == MESSAGE_NONE) {
    if (f->bytes.n) memcpy(at, f->bytes.at, f->bytes.n);
    return at + f->bytes.n;
  }
  for (const struct field *in = f->first; in; in = in->next) {
    at = put_varint(at, (uint64_t)in->number << 3 | in->wire, false);
    if (in->wire == WIRE_VARINT) at = put_varint(at, in->x, in->longest);
    if (in->wire == WIRE_FIXED64 || in->wire == WIRE_FIXED32) {
      const size_t n = in->wire == WIRE_FIXED64 ? 8 : 4;
      memcpy(at, &in->x, n);
      at += n;
    }
    if (in->wire == WIRE_BYTES) at = put_fields(put_varint(at, tree_bytes(in), false), in);
  }
  return at;
}

struct span tree_write(const struct tree *t) {
  const uint64_t n = tree_bytes(t->root);
  uint8_t *at = arena_alloc(t->a, (size_t)n + 1);
  put_fields(at, t->root);
  return span_of(at, (size_t)n);
}
