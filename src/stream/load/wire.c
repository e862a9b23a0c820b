// Reading protobuf framing without holding the file.
//
//            at               at+pos           at+have
//   file  ───┴────────────────┴────────────────┴─────────────────────────
//            └──── passed ────┴── still here ──┘  next read: `ask` bytes
//
// A header (tag, length or scalar) is at most 15 bytes, so it is made contiguous first and then
// read with plain pointers. Stepping over a large value forgets the window: the file position moves
// and the next read starts small (16 KiB) and grows fourfold to 1 MiB, so that a file of many
// payloads with a little metadata between them is not read five times over.
//
// There is no map: a file that shrinks under us is a short read with a message, not a signal, and
// memory does not depend on the file.
//
// Groups (wire types 3 and 4) belong to no known field, but a file may carry them in fields from
// the future or the past. They are stepped over with a stack of field numbers.
#include "stream/load/inside/wire.h"

#include "base/arena.h"
#include "resources/resources.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum { HEADER_MAX = 5 + 10, ASK_FIRST = 64 << 10, ASK_AFTER_SKIP = 16 << 10 };

void wire_open(struct wire *w, struct sources *s) {
  *w = (struct wire){.sources = s,
                     .name = sources_given(s),
                     .size = sources_size(s, 0),
                     .buf = arena_must(resources_alloc(WIRE_WINDOW), WIRE_WINDOW),
                     .ask = ASK_FIRST};
}

void wire_open_memory(struct wire *w, struct span bytes, const char *name) {
  *w = (struct wire){.name = name, .size = bytes.n, .have = bytes.n};
  // Never written through: only a reader with sources refills.
  memcpy(&w->buf, &bytes.at, sizeof w->buf);
}

void wire_close(struct wire *w) {
  if (w->sources) resources_free(w->buf);
  w->buf = NULL;
}

int wire_error(const struct wire *w, uint64_t at, struct err *err, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return err_set(err, ERR_MODEL, "'%s': byte %s: %s", quote_path(w->name).s, decimal(at).s, text);
}

static int refill(struct wire *w, size_t n, struct err *err) {
  if (!w->sources) return 0;
  assert(n <= WIRE_WINDOW);
  const size_t left = w->have - w->pos;
  const uint64_t unread = w->size - w->at - w->have;
  if (unread == 0) return 0;
  memmove(w->buf, w->buf + w->pos, left);
  w->at += w->pos;
  w->pos = 0;
  w->have = left;
  size_t take = w->ask > n ? w->ask : n;
  if (take > WIRE_WINDOW - left) take = WIRE_WINDOW - left;
  if (take > unread) take = (size_t)unread;
  if (sources_read(w->sources, 0, w->at + left, w->buf + left, take, err)) return -1;
  w->have += take;
  w->ask = w->ask * 4 < WIRE_WINDOW ? w->ask * 4 : WIRE_WINDOW;
  return 0;
}

// Makes n bytes (fewer at the end of the file) contiguous from pos on.
static inline int need(struct wire *w, size_t n, struct err *err) {
  return w->have - w->pos >= n ? 0 : refill(w, n, err);
}

size_t wire_varint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
  uint64_t x = 0;
  for (size_t i = 0; i < 10 && p + i < end; i++) {
    x |= (uint64_t)(p[i] & 0x7f) << (7 * i);
    if (p[i] & 0x80) continue;
    if (i == 9 && p[i] > 1) return 0;
    *value = x;
    return i + 1;
  }
  return 0;
}

// A message that ends with the file, and whose last field does not: most of all a file that was not
// written to its end.
static int cut_off(const struct wire *w, uint64_t end, struct err *err) {
  if (!w->sources || end != w->size) return -1;
  return err_hint(err, "the file is cut off at its end: was the download complete?");
}

// Says why the varint at `at` could not be read.
static int varint_error(const struct wire *w, uint64_t at, uint64_t end, struct err *err) {
  if (end - at < 10) {
    wire_error(w, at, err, "a varint runs past the end of its message at byte %s", decimal(end).s);
    return cut_off(w, end, err);
  }
  return wire_error(w, at, err, "a varint is longer than 10 bytes or holds more than 64 bits");
}

// Most tags and lengths are one byte.
static inline size_t short_varint(const uint8_t *p, const uint8_t *end, uint64_t *value) {
  if (p == end || *p & 0x80) return wire_varint(p, end, value);
  *value = *p;
  return 1;
}

static int past_end(const struct wire *w, const struct wire_field *f, uint64_t end,
                    struct err *err) {
  wire_error(w, f->start, err, "field %u is %s bytes long, but its message ends at byte %s",
             f->number, decimal(f->len).s, decimal(end).s);
  return cut_off(w, end, err);
}

int wire_next(struct wire *w, uint64_t end, struct wire_field *f, struct err *err) {
  if (need(w, HEADER_MAX, err)) return -1;
  f->start = wire_offset(w);
  assert(f->start < end && end <= w->size);
  const uint8_t *p = w->buf + w->pos;
  const uint8_t *stop = p + min_u64(w->have - w->pos, end - f->start);
  uint64_t tag;
  size_t n = short_varint(p, stop, &tag);
  if (n == 0) return varint_error(w, f->start, end, err);
  if (n > 5 || tag > UINT32_MAX) return wire_error(w, f->start, err, "a field tag is too long");
  f->tag_bytes = (uint8_t)n;
  f->number = (uint32_t)tag >> 3;
  f->type = tag & 7;
  if (f->number == 0) return wire_error(w, f->start, err, "field number 0 does not exist");
  if (f->type > WIRE_FIXED32)
    return wire_error(w, f->start, err, "wire type %u does not exist", f->type);
  w->pos += n;
  p += n;
  f->body = f->start + n;
  f->len = 0;
  if (f->type == WIRE_GROUP || f->type == WIRE_END_GROUP) return 0;
  if (f->type == WIRE_VARINT || f->type == WIRE_BYTES) {
    n = short_varint(p, stop, &f->value);
    if (n == 0) return varint_error(w, f->body, end, err);
  } else {
    n = f->type == WIRE_FIXED32 ? 4 : 8;
    f->len = n;
    if ((size_t)(stop - p) < n) return past_end(w, f, end, err);
    f->value = 0;
    memcpy(&f->value, p, n); // little-endian hosts only, as everywhere
  }
  w->pos += n;
  f->len = n;
  if (f->type != WIRE_BYTES) return 0;
  f->body += n;
  f->len = f->value;
  return range_fits(f->body, f->len, end) ? 0 : past_end(w, f, end, err);
}

static int skip_group(struct wire *w, const struct wire_field *group, uint64_t end,
                      struct err *err) {
  uint32_t open[WIRE_GROUPS];
  size_t n = 0;
  open[n++] = group->number;
  while (n > 0) {
    struct wire_field f;
    if (wire_offset(w) == end)
      return wire_error(w, group->start, err, "group %u does not end before byte %s", open[n - 1],
                        decimal(end).s);
    if (wire_next(w, end, &f, err)) return -1;
    if (f.type == WIRE_BYTES) wire_skip(w, f.len);
    if (f.type == WIRE_GROUP) {
      if (n == WIRE_GROUPS)
        return wire_error(w, f.start, err, "groups are nested deeper than %d", WIRE_GROUPS);
      open[n++] = f.number;
    }
    if (f.type == WIRE_END_GROUP && f.number != open[--n])
      return wire_error(w, f.start, err, "group %u ends where group %u is open", f.number, open[n]);
  }
  return 0;
}

int wire_skip_value(struct wire *w, const struct wire_field *f, uint64_t end, struct err *err) {
  if (f->type == WIRE_END_GROUP)
    return wire_error(w, f->start, err, "the end of group %u, which is not open", f->number);
  if (f->type == WIRE_GROUP) return skip_group(w, f, end, err);
  if (f->type == WIRE_BYTES) wire_skip(w, f->len);
  return 0;
}

void wire_skip(struct wire *w, uint64_t n) {
  wire_seek(w, wire_offset(w) + n);
}

void wire_seek(struct wire *w, uint64_t offset) {
  assert(offset <= w->size);
  if (offset >= w->at && offset - w->at <= w->have) {
    w->pos = (size_t)(offset - w->at);
    return;
  }
  w->at = offset;
  w->have = w->pos = 0;
  w->ask = ASK_AFTER_SKIP;
}

int wire_window(struct wire *w, uint64_t max, struct span *out, struct err *err) {
  if (need(w, 1, err)) return -1;
  const size_t n = (size_t)min_u64(w->have - w->pos, max);
  assert(n > 0);
  *out = span_of(w->buf + w->pos, n);
  w->pos += n;
  return 0;
}

int wire_copy(struct wire *w, void *to, size_t n, struct err *err) {
  uint8_t *at = to;
  while (n > 0) {
    struct span got;
    if (wire_window(w, n, &got, err)) return -1;
    memcpy(at, got.at, got.n);
    at += got.n;
    n -= got.n;
  }
  return 0;
}

int wire_read_at(struct wire *w, uint64_t off, void *to, size_t n, struct err *err) {
  assert(range_fits(off, n, w->size));
  if (off >= w->at && range_fits(off - w->at, n, w->have)) {
    memcpy(to, w->buf + (off - w->at), n);
    return 0;
  }
  assert(w->sources);
  return sources_read(w->sources, 0, off, to, n, err);
}
