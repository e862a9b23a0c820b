// The leaves that lie in files: bytes of an extent in RAW form, whatever its encoding.
//
//   raw        bytes of the pieces, one after the other
//   fixed      the same without the tags that unpacked fields put before every entry
//   varint     decoded, low bytes of each entry (eval_varint.c)
//
// Reads of a page or more go straight to the caller's buffer. Smaller ones come in bunches, when a
// recipe above takes a few elements of each row, often of several places in turn; each such place
// becomes a stream. The first read of a stream is exact; one that starts where the last one ended
// confirms it, and from then on the stream reads ahead, twice as much each time. So a stream never
// reads more than twice what was asked of it, and lonely small reads read nothing more.
//
// Who knows beforehand that it wants small fragments at a short stride (eval_view.c) asks for all
// of them at once, and they are picked from windows.
#include "stream/eval/core/eval_parts.h"

#include <assert.h>

enum { SMALL_BYTES = 4096 }; // reads below this go through a stream

static size_t copy_held(struct eval_stream *s, uint64_t off, uint8_t *buf, size_t n) {
  if (off < s->at || off - s->at >= s->have) return 0;
  size_t from = (size_t)(off - s->at), m = s->have - from < n ? s->have - from : n;
  memcpy(buf, s->buf + from, m);
  s->next = off + m;
  return m;
}

// The stream that holds the byte at `off` or ended right before it; NULL if none.
static struct eval_stream *stream_at(struct eval *ev, uint32_t file, uint64_t off) {
  for (uint32_t i = 0; i < EVAL_STREAMS; i++) {
    struct eval_stream *s = &ev->streams[i];
    if (!s->used || s->file != file) continue;
    if (s->next == off || (off >= s->at && off - s->at < s->have)) return s;
  }
  return NULL;
}

static struct eval_stream *oldest_stream(struct eval *ev) {
  struct eval_stream *oldest = &ev->streams[0];
  for (uint32_t i = 1; i < EVAL_STREAMS; i++)
    if (ev->streams[i].used < oldest->used) oldest = &ev->streams[i];
  return oldest;
}

// Reads ahead from `off`, at least n bytes, nothing at or past `end`.
static int stream_refill(struct eval *ev, struct eval_stream *s, uint64_t off, size_t n,
                         uint64_t end, struct err *err) {
  s->grow = s->grow * 2 > EVAL_STREAM_BYTES ? EVAL_STREAM_BYTES : s->grow * 2;
  if (s->grow < n) s->grow = n;
  size_t want = (size_t)min_u64(s->grow, end - off);
  s->have = 0;
  if (io_read(ev->io, s->file, off, s->buf, want, err) != 0) return -1;
  s->at = off;
  s->have = want;
  return 0;
}

// A lonely read, or the first of a stream: exactly what was asked for.
static int read_exact(struct eval *ev, struct eval_stream *s, struct extent at, uint8_t *buf,
                      struct err *err) {
  if (!s && at.len < SMALL_BYTES) {
    s = oldest_stream(ev);
    *s = (struct eval_stream){.buf = s->buf, .grow = (size_t)at.len, .file = at.file};
  }
  if (s) {
    s->next = at.off + at.len;
    s->used = ++ev->stamp;
  }
  return io_read(ev->io, at.file, at.off, buf, (size_t)at.len, err);
}

int eval_leaf_source(struct eval *ev, struct extent at, uint64_t end, uint8_t *buf,
                     struct err *err) {
  assert(range_fits(at.off, at.len, end));
  while (at.len > 0) {
    struct eval_stream *s = stream_at(ev, at.file, at.off);
    size_t m = s ? copy_held(s, at.off, buf, (size_t)at.len) : 0;
    if (s && m == 0 && at.len < SMALL_BYTES) {
      if (stream_refill(ev, s, at.off, (size_t)at.len, end, err) != 0) return -1;
      m = copy_held(s, at.off, buf, (size_t)at.len);
    }
    if (m == 0) return read_exact(ev, s, at, buf, err);
    s->used = ++ev->stamp;
    at.off += m;
    at.len -= m;
    buf += m;
  }
  return 0;
}

uint32_t eval_leaf_piece(const struct eval *ev, const struct recipe *x, uint64_t entry) {
  const struct piece *pieces = ev->r->pieces + x->at;
  uint32_t behind;
  assert(x->n > 0 && pieces[0].first <= entry);
  BISECT(behind, x->n, pieces[behind].first <= entry);
  assert(entry - pieces[behind - 1].first < pieces[behind - 1].count);
  return x->at + behind - 1;
}

// Entries of `entry_bytes` bytes without tags: for RAW an entry is a byte.
static int read_packed(struct eval *ev, const struct piece *p, uint64_t off, uint8_t *buf, size_t n,
                       struct err *err) {
  struct extent at = {p->at.off + off, n, p->at.file};
  return eval_leaf_source(ev, at, p->at.off + p->at.len, buf, err);
}

// Bytes [off, off+n) of the entries of a piece that has a tag before each of them.
static int read_tagged(struct eval *ev, const struct piece *p, uint64_t off, uint8_t *buf, size_t n,
                       uint32_t entry_bytes, struct err *err) {
  uint64_t step = p->tag_bytes + (uint64_t)entry_bytes;
  uint8_t *scratch = eval_scratch(ev);
  while (n > 0) {
    uint64_t entry = off / entry_bytes, skip = off % entry_bytes;
    uint64_t entries =
        min_u64((n + skip + entry_bytes - 1) / entry_bytes, EVAL_SCRATCH_BYTES / step);
    struct extent at = {p->at.off + entry * step, entries * step, p->at.file};
    if (eval_leaf_source(ev, at, p->at.off + p->at.len, scratch, err) != 0) return -1;
    for (uint64_t i = 0; i < entries; i++, skip = 0) {
      size_t m = (size_t)min_u64(entry_bytes - skip, n);
      memcpy(buf, scratch + i * step + p->tag_bytes + skip, m);
      buf += m;
      off += m;
      n -= m;
    }
  }
  return 0;
}

static int read_fixed(struct eval *ev, const struct recipe *x, uint64_t off, uint8_t *buf, size_t n,
                      uint32_t entry_bytes, struct err *err) {
  while (n > 0) {
    const struct piece *p = &ev->r->pieces[eval_leaf_piece(ev, x, off / entry_bytes)];
    uint64_t from = off - p->first * entry_bytes;
    size_t m = (size_t)min_u64(n, p->count * entry_bytes - from);
    int failed = p->tag_bytes ? read_tagged(ev, p, from, buf, m, entry_bytes, err)
                              : read_packed(ev, p, from, buf, m, err);
    if (failed) return -1;
    off += m;
    buf += m;
    n -= m;
  }
  return 0;
}

// Bytes of elements whose entries are varints: whole entries in between, parts of one at the ends.
static int read_varint(struct eval *ev, const struct recipe *x, uint64_t off, uint8_t *buf,
                       size_t n, struct err *err) {
  uint32_t bits = dtype_bits((enum dtype)x->dtype), width = bits < 8 ? 1 : bits / 8;
  while (n > 0) {
    uint64_t entry = off / width, skip = off % width;
    if (skip == 0 && n >= width) {
      size_t whole = n / width;
      if (eval_varint_entries(ev, x, entry, whole, buf, err) != 0) return -1;
      off += whole * width;
      buf += whole * width;
      n -= whole * width;
      continue;
    }
    uint8_t one[16];
    size_t m = (size_t)min_u64(width - skip, n);
    if (eval_varint_entries(ev, x, entry, 1, one, err) != 0) return -1;
    memcpy(buf, one + skip, m);
    off += m;
    buf += m;
    n -= m;
  }
  return 0;
}

int eval_leaf_bytes(struct eval *ev, const struct recipe *x, uint64_t off, uint8_t *buf, size_t n,
                    struct err *err) {
  switch ((enum encoding)x->encoding) {
  case ENCODING_RAW: return read_fixed(ev, x, off, buf, n, 1, err);
  case ENCODING_FIXED32: return read_fixed(ev, x, off, buf, n, 4, err);
  case ENCODING_FIXED64: return read_fixed(ev, x, off, buf, n, 8, err);
  case ENCODING_VARINT: return read_varint(ev, x, off, buf, n, err);
  case ENCODING_STRINGS:
  case ENCODING_NONE: break;
  }
  assert(n == 0 && "strings and absent payloads have no bytes");
  return 0;
}

// Sub-byte elements of an extent or of literal bytes.
static int unpack_leaf(struct eval *ev, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                       struct err *err) {
  const struct recipe *x = &ev->r->rows[id];
  uint32_t bits = dtype_bits((enum dtype)x->dtype);
  if (x->kind == RECIPE_BYTES) {
    eval_bits_unpack(out, ev->r->bytes + x->at, first * bits, (size_t)count, bits);
    return 0;
  }
  uint8_t *packed = eval_scratch(ev);
  while (count > 0) {
    uint64_t n = min_u64(count, EVAL_SCRATCH_BYTES / 2), from = first * bits / 8;
    uint64_t end = ((first + n) * bits + 7) / 8;
    if (eval_leaf_bytes(ev, x, from, packed, (size_t)(end - from), err) != 0) return -1;
    eval_bits_unpack(out, packed, first * bits - from * 8, (size_t)n, bits);
    first += n;
    count -= n;
    out += n;
  }
  return 0;
}

int eval_leaf_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                       uint8_t *out, struct err *err) {
  struct eval *ev = t->ev;
  const struct recipe *x = &ev->r->rows[id];
  uint32_t bits = dtype_bits((enum dtype)x->dtype), width = eval_width(ev->r, id);
  if (bits == 6 && x->kind == RECIPE_EXTENT && x->encoding == ENCODING_VARINT) {
    if (eval_varint_entries(ev, x, first, count, out, err) != 0) return -1;
    for (uint64_t i = 0; i < count; i++)
      out[i] &= 63;
    return 0;
  }
  if (bits < 8) return unpack_leaf(ev, id, first, count, out, err);
  if (x->kind == RECIPE_EXTENT)
    return eval_leaf_bytes(ev, x, first * width, out, (size_t)(count * width), err);
  memcpy(out, ev->r->bytes + x->at + first * width, (size_t)(count * width));
  return 0;
}

// Are the elements plain bytes of a file, and where.
static bool is_plain(const struct eval *ev, uint32_t id, struct extent *at) {
  while (ev->r->rows[id].kind == RECIPE_RESHAPE)
    id = ev->r->args[ev->r->rows[id].args];
  return dtype_bits((enum dtype)ev->r->rows[id].dtype) >= 8 && recipe_is_copy(ev->r, id, at);
}

void eval_leaf_will_need(struct eval *ev, uint32_t id, uint64_t first, uint64_t count) {
  struct extent at;
  const uint32_t width = eval_width(ev->r, id);
  if (is_plain(ev, id, &at)) io_will_need(ev->io, at.file, at.off + first * width, count * width);
}

bool eval_leaf_gathers(const struct eval *ev, const struct eval_fragments *f) {
  struct extent at;
  return f->run * f->width < SMALL_BYTES && f->stride <= IO_GATHER_STRIDE_MAX / f->width &&
         is_plain(ev, f->of, &at);
}

int eval_leaf_gather(struct eval *ev, const struct eval_fragments *f, uint8_t *out,
                     struct err *err) {
  struct extent at;
  const bool plain = is_plain(ev, f->of, &at);
  assert(plain);
  const struct io_fragments bytes = {.file = at.file,
                                     .off = at.off + f->at * f->width,
                                     .n = f->n,
                                     .run = (size_t)(f->run * f->width),
                                     .stride = (size_t)(f->stride * f->width)};
  return io_gather(ev->io, &bytes, out, err);
}
