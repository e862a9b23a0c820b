// Messages as bytes. The rows of frame_messages.def become tables of fields, which one encoder and one decoder walk:
//
//   struct frame ──frame_encode──▶ head, body ──(socket)──▶ frame_head, frame_decode ──▶ struct frame
//
// The decoder keeps a cursor over the body that remembers the first thing that was wrong; behind it all reads give
// zeros, so that checks stand where lists begin and where the message ends. No count makes it ask for more memory
// than the bytes that are there can fill: an entry of a list has at least four bytes.
#include "frames/frame.h"

#include "base/size_words.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

enum type { TYPE_NUMBER, TYPE_TEXT, TYPE_TEXTS, TYPE_ARRAYS, TYPE_VALUES };

struct field {
  enum type type;
  size_t at; // in struct frame
  const char *name;
};

#define MESSAGE(stem, number) static const struct field stem##_fields[] = {
#define FIELD(stem, type, name) {TYPE_##type, offsetof(struct frame, stem.name), #name},
#define END(stem)                                                                                  \
  }                                                                                                \
  ;
#include "frames/frame_messages.def"

static const struct message {
  const char *name;
  const struct field *fields;
  uint32_t kind, n;
} messages[] = {
#define MESSAGE(stem, number)                                                                      \
  {#stem, stem##_fields, number, sizeof stem##_fields / sizeof *stem##_fields},
#define FIELD(stem, type, name)
#define END(stem)
#include "frames/frame_messages.def"
};

static const uint8_t magic[4] = {'W', 'R', 'T', '1'};

static const struct message *message_of(uint32_t kind) {
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
    if (messages[i].kind == kind) return &messages[i];
  return NULL;
}

struct frame_words frame_kind_words(uint32_t kind) {
  struct frame_words words;
  const struct message *m = message_of(kind);
  if (m)
    snprintf(words.s, sizeof words.s, "%s", m->name);
  else
    snprintf(words.s, sizeof words.s, "message %u", kind);
  return words;
}

bool frame_array_size(const struct frame_array *x, uint64_t *count, uint64_t *bytes) {
  if (x->rank > FRAME_MAX_RANK || !dims_product(x->dims, x->rank, count)) return false;
  *bytes = 0;
  return x->dtype == DTYPE_STRING || dtype_bytes(x->dtype, *count, bytes);
}

// ---- to bytes -----------------------------------------------------------------------------------

static void put(struct frame_buffer *b, const void *at, size_t n) {
  if (n > FRAME_HEAD + (size_t)FRAME_MAX_BODY - b->n_bytes) b->full = true;
  if (n == 0 || b->full) return;
  TABLE_ROOM(b, bytes, n);
  memcpy(b->bytes + b->n_bytes, at, n);
  b->n_bytes += n;
}

static void put_uint(struct frame_buffer *b, uint64_t x, size_t n) {
  uint8_t bytes[8];
  for (size_t i = 0; i < n; i++)
    bytes[i] = (uint8_t)(x >> 8 * i);
  put(b, bytes, n);
}

static void put_span(struct frame_buffer *b, struct span s) {
  put_uint(b, s.n, 4);
  put(b, s.at, s.n);
}

static void put_text(struct frame_buffer *b, const char *s) {
  put_span(b, span_str(s ? s : ""));
}

static void put_dims(struct frame_buffer *b, const int64_t *dims, uint32_t rank) {
  assert(rank <= FRAME_MAX_RANK);
  put_uint(b, rank, 4);
  for (uint32_t i = 0; i < rank; i++)
    put_uint(b, (uint64_t)dims[i], 8);
}

static void put_elements(struct frame_buffer *b, const struct frame_array *x) {
  put_uint(b, x->place, 4);
  if (x->place == FRAME_INLINE) {
    put_uint(b, x->bytes.n, 8);
    put(b, x->bytes.at, x->bytes.n);
  } else if (x->place == FRAME_FILE) {
    put_uint(b, x->offset, 8);
    put_uint(b, x->length, 8);
  } else {
    put_uint(b, x->n_strings, 8);
    for (uint64_t i = 0; i < x->n_strings; i++)
      put_span(b, x->strings[i]);
  }
}

static void put_one(struct frame_buffer *b, const struct frame_array *x) {
  put_text(b, x->name);
  put_uint(b, x->form, 4);
  if (x->form != FRAME_TENSOR) return;
  put_uint(b, x->dtype, 4);
  put_dims(b, x->dims, x->rank);
  put_elements(b, x);
}

static void put_arrays(struct frame_buffer *b, const struct frame_arrays *list) {
  put_uint(b, list->n, 4);
  for (uint32_t i = 0; i < list->n; i++) {
    const struct frame_array *x = &list->list[i];
    put_one(b, x);
    if (x->form != FRAME_SEQUENCE) continue;
    put_uint(b, x->n_items, 4);
    for (uint32_t k = 0; k < x->n_items; k++)
      put_one(b, &x->items[k]);
  }
}

static void put_values(struct frame_buffer *b, const struct frame_values *list) {
  put_uint(b, list->n, 4);
  for (uint32_t i = 0; i < list->n; i++) {
    const struct frame_value *x = &list->list[i];
    put_text(b, x->name);
    put_uint(b, x->form, 4);
    put_uint(b, x->dtype, 4);
    put_uint(b, x->optional, 4);
    put_uint(b, x->ranked, 4);
    put_dims(b, x->dims, x->ranked ? x->rank : 0);
  }
}

static void put_field(struct frame_buffer *b, enum type type, const void *at) {
  switch (type) {
  case TYPE_NUMBER: put_uint(b, *(const uint64_t *)at, 8); return;
  case TYPE_TEXT: put_text(b, *(const char *const *)at); return;
  case TYPE_TEXTS: {
    const struct frame_texts *list = at;
    put_uint(b, list->n, 4);
    for (uint32_t i = 0; i < list->n; i++)
      put_text(b, list->list[i]);
    return;
  }
  case TYPE_ARRAYS: put_arrays(b, at); return;
  case TYPE_VALUES: put_values(b, at); return;
  }
}

int frame_encode(struct frame_buffer *b, const struct frame *f, struct err *err) {
  const struct message *m = message_of(f->kind);
  assert(m);
  b->n_bytes = 0;
  b->full = false;
  put(b, magic, sizeof magic);
  put_uint(b, f->kind, 2);
  put_uint(b, 0, 2);
  put_uint(b, 0, 8); // the length, below
  for (uint32_t i = 0; i < m->n; i++)
    put_field(b, m->fields[i].type, (const uint8_t *)f + m->fields[i].at);
  if (b->full)
    return err_set(err, ERR_FAIL, "a message '%s' is longer than %s", m->name,
                   size_words_of(FRAME_MAX_BODY).s);
  const uint64_t body = b->n_bytes - FRAME_HEAD;
  for (size_t i = 0; i < 8; i++)
    b->bytes[8 + i] = (uint8_t)(body >> 8 * i);
  return 0;
}

void frame_buffer_done(struct frame_buffer *b) {
  TABLE_FREE(b, bytes);
}

// ---- from bytes ---------------------------------------------------------------------------------

struct cursor {
  const uint8_t *at;
  size_t left;
  struct arena *a;
  const char *wrong; // the first thing; NULL: nothing yet
};

static const uint8_t *take(struct cursor *c, uint64_t n) {
  if (!c->wrong && n > c->left) c->wrong = "ends too early";
  if (c->wrong) return NULL;
  const uint8_t *at = c->at;
  c->at += n;
  c->left -= (size_t)n;
  return at;
}

static uint64_t take_uint(struct cursor *c, size_t n) {
  const uint8_t *at = take(c, n);
  uint64_t x = 0;
  for (size_t i = 0; at && i < n; i++)
    x |= (uint64_t)at[i] << 8 * i;
  return x;
}

// A number below `most`.
static uint32_t take_choice(struct cursor *c, uint32_t most, const char *wrong) {
  const uint32_t x = (uint32_t)take_uint(c, 4);
  if (!c->wrong && x >= most) c->wrong = wrong;
  return c->wrong ? 0 : x;
}

// How many entries a list has, of at least `least` bytes each.
static uint64_t take_count(struct cursor *c, size_t bytes, size_t least) {
  const uint64_t n = take_uint(c, bytes);
  if (!c->wrong && n > c->left / least) c->wrong = "counts more than it holds";
  return c->wrong ? 0 : n;
}

static struct span take_span(struct cursor *c) {
  const uint64_t n = take_uint(c, 4);
  const uint8_t *at = take(c, n);
  return at ? span_of(at, (size_t)n) : (struct span){0};
}

static const char *take_text(struct cursor *c) {
  const struct span s = take_span(c);
  if (!c->wrong && span_has_nul(s)) c->wrong = "has a text with a NUL in it";
  return c->wrong ? "" : arena_string(c->a, s);
}

static const int64_t *take_dims(struct cursor *c, uint32_t *rank, int64_t least) {
  *rank = take_choice(c, FRAME_MAX_RANK + 1, "has a rank that is too large");
  if (*rank > c->left / 8 && !c->wrong) c->wrong = "ends too early";
  if (c->wrong) *rank = 0;
  int64_t *dims = arena_alloc(c->a, *rank * sizeof *dims + 1);
  for (uint32_t i = 0; i < *rank; i++) {
    dims[i] = (int64_t)take_uint(c, 8);
    if (dims[i] < least && !c->wrong) c->wrong = "has a negative dim";
  }
  return dims;
}

static enum dtype take_dtype(struct cursor *c, bool may_be_undefined) {
  const uint64_t number = take_uint(c, 4);
  const bool fits = dtype_known((int64_t)number) || (may_be_undefined && number == DTYPE_UNDEFINED);
  if (!c->wrong && !fits) c->wrong = "has an unknown element type";
  return c->wrong ? DTYPE_UNDEFINED : (enum dtype)number;
}

static void take_strings(struct cursor *c, struct frame_array *x, uint64_t count) {
  x->n_strings = take_count(c, 8, 4);
  if (!c->wrong && x->n_strings != count)
    c->wrong = "has a different number of strings than elements";
  if (c->wrong) x->n_strings = 0;
  struct span *list = arena_alloc(c->a, (size_t)x->n_strings * sizeof *list + 1);
  for (uint64_t i = 0; i < x->n_strings; i++)
    list[i] = take_span(c);
  x->strings = list;
}

static void take_elements(struct cursor *c, struct frame_array *x) {
  uint64_t count = 0, bytes = 0;
  x->place = take_choice(c, FRAME_STRINGS + 1, "has elements in an unknown place");
  if (!c->wrong && !frame_array_size(x, &count, &bytes)) c->wrong = "has dims that are too large";
  if (!c->wrong && (x->dtype == DTYPE_STRING) != (x->place == FRAME_STRINGS))
    c->wrong = "has strings among numbers";
  if (c->wrong) return;
  if (x->place == FRAME_STRINGS) {
    take_strings(c, x, count);
    return;
  }
  if (x->place == FRAME_FILE) x->offset = take_uint(c, 8);
  x->length = take_uint(c, 8);
  if (!c->wrong && x->length != bytes)
    c->wrong = "has a number of bytes that does not match its dims";
  if (!c->wrong && x->offset > INT64_MAX - x->length) c->wrong = "has an offset that is too large";
  if (x->place != FRAME_INLINE) return;
  const uint8_t *at = take(c, x->length);
  if (at) x->bytes = span_of(at, (size_t)x->length);
}

static void take_one(struct cursor *c, struct frame_array *x, bool nested) {
  memset(x, 0, sizeof *x);
  x->name = take_text(c);
  x->form = take_choice(c, nested ? FRAME_TENSOR + 1 : FRAME_NOTHING + 1, "has an unknown form");
  if (c->wrong || x->form != FRAME_TENSOR) return;
  x->dtype = take_dtype(c, false);
  x->dims = take_dims(c, &x->rank, 0);
  take_elements(c, x);
}

enum { LEAST_ARRAY = 8, LEAST_VALUE = 24 };

static struct frame_arrays take_arrays(struct cursor *c) {
  const uint32_t n = (uint32_t)take_count(c, 4, LEAST_ARRAY);
  struct frame_array *list = arena_zalloc(c->a, n * sizeof *list + 1);
  for (uint32_t i = 0; i < n && !c->wrong; i++) {
    take_one(c, &list[i], false);
    if (c->wrong || list[i].form != FRAME_SEQUENCE) continue;
    list[i].n_items = (uint32_t)take_count(c, 4, LEAST_ARRAY);
    struct frame_array *items = arena_zalloc(c->a, list[i].n_items * sizeof *items + 1);
    for (uint32_t k = 0; k < list[i].n_items && !c->wrong; k++)
      take_one(c, &items[k], true);
    list[i].items = items;
  }
  return (struct frame_arrays){list, n};
}

static struct frame_values take_values(struct cursor *c) {
  const uint32_t n = (uint32_t)take_count(c, 4, LEAST_VALUE);
  struct frame_value *list = arena_zalloc(c->a, n * sizeof *list + 1);
  for (uint32_t i = 0; i < n && !c->wrong; i++) {
    struct frame_value *x = &list[i];
    x->name = take_text(c);
    x->form = take_choice(c, FRAME_UNKNOWN + 1, "has an unknown form");
    x->dtype = take_dtype(c, true);
    x->optional = take_choice(c, 2, "has a flag that is not 0 or 1");
    x->ranked = take_choice(c, 2, "has a flag that is not 0 or 1");
    x->dims = take_dims(c, &x->rank, -1);
    if (!c->wrong && !x->ranked && x->rank > 0) c->wrong = "has dims without a rank";
  }
  return (struct frame_values){list, n};
}

static struct frame_texts take_texts(struct cursor *c) {
  const uint32_t n = (uint32_t)take_count(c, 4, 4);
  const char **list = arena_zalloc(c->a, n * sizeof *list + 1);
  for (uint32_t i = 0; i < n; i++)
    list[i] = take_text(c);
  return (struct frame_texts){list, n};
}

static void take_field(struct cursor *c, enum type type, void *at) {
  switch (type) {
  case TYPE_NUMBER: *(uint64_t *)at = take_uint(c, 8); return;
  case TYPE_TEXT: *(const char **)at = take_text(c); return;
  case TYPE_TEXTS: *(struct frame_texts *)at = take_texts(c); return;
  case TYPE_ARRAYS: *(struct frame_arrays *)at = take_arrays(c); return;
  case TYPE_VALUES: *(struct frame_values *)at = take_values(c); return;
  }
}

int frame_head(const uint8_t *head, enum frame_kind *kind, uint64_t *body, struct err *err) {
  struct cursor c = {.at = head, .left = FRAME_HEAD};
  if (memcmp(take(&c, sizeof magic), magic, sizeof magic) != 0)
    return err_set(err, ERR_FAIL,
                   "the bytes received are not a message: they do not begin with 'WRT1'");
  const uint32_t number = (uint32_t)take_uint(&c, 2);
  const uint32_t zero = (uint32_t)take_uint(&c, 2);
  *body = take_uint(&c, 8);
  if (!message_of(number) || zero != 0)
    return err_set(err, ERR_FAIL, "message %u (flags %u) is unknown", number, zero);
  *kind = (enum frame_kind)number;
  if (*body > FRAME_MAX_BODY)
    return err_set(err, ERR_FAIL, "message '%s' declares a length of %s; the limit is %s",
                   frame_kind_words(number).s, quote_bytes(*body).s,
                   size_words_of(FRAME_MAX_BODY).s);
  return 0;
}

int frame_decode(struct frame *f, enum frame_kind kind, struct span body, struct arena *a,
                 struct err *err) {
  const struct message *m = message_of(kind);
  assert(m);
  struct cursor c = {body.at, body.n, a, NULL};
  const char *where = m->fields[0].name;
  memset(f, 0, sizeof *f);
  f->kind = kind;
  for (uint32_t i = 0; i < m->n && !c.wrong; i++) {
    where = m->fields[i].name;
    take_field(&c, m->fields[i].type, (uint8_t *)f + m->fields[i].at);
  }
  if (!c.wrong && c.left > 0) c.wrong = "is followed by extra bytes";
  if (!c.wrong) return 0;
  return err_set(err, ERR_FAIL, "message '%s': field '%s' %s (byte %zu of %zu)", m->name, where,
                 c.wrong, body.n - c.left, body.n);
}
