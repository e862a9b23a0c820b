// Reads .npz: a ZIP archive (APPNOTE of PKWARE) whose members are .npy, as numpy.savez and
// savez_compressed write it.
//
//   local header │ bytes │ (data descriptor) │ … │ directory │ (ZIP64 end, its locator) │ end
//        ▲───────────────────────────────────────── offset ┘ ▲───────────── offset ────────┘
//
// The directory at the end counts: NumPy streams members and writes their sizes there, and into a
// descriptor behind the bytes. Before anything is read of a member it is known that members lie in the
// file without sharing a byte, that no name is there twice, and that what they claim to become is not more
// than deflate can make of them and than is allowed. What comes out is counted against that claim and its
// CRC-32. Nothing is written under a member's name, so that it may have slashes, as names of values do.
//
// Stored members stay where they are; deflated ones go to memory or to the file without a name.
#include "verify/arrays/inside/array_formats.h"

#include "base/table.h"
#include "resources/resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum {
  END_BYTES = 22,
  LOCATOR_BYTES = 20,
  END64_BYTES = 56,
  ENTRY_BYTES = 46,
  LOCAL_BYTES = 30,
  COMMENT_MOST = 65535,
  DIRECTORY_MOST = 16 << 20,
  MEMBERS_MOST = 100000,
  PIECE = 1 << 16,
  STORED = 0,
  DEFLATED = 8,
  ENCRYPTED = 1,
  SIZES_BEHIND = 8,
};

bool npz_begins(const uint8_t *at, size_t n) {
  return n >= 4 && (memcmp(at, "PK\3\4", 4) == 0 || memcmp(at, "PK\5\6", 4) == 0);
}

static uint32_t u16(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}
static uint32_t u32(const uint8_t *at) {
  return u16(at) | u16(at + 2) << 16;
}
static uint64_t u64(const uint8_t *at) {
  return (uint64_t)u32(at + 4) << 32 | u32(at);
}

struct member {
  struct span name; // in the directory
  uint64_t header;  // offset of the local one
  uint64_t off, packed, bytes;
  uint32_t crc, place; // place: in the directory
  uint16_t method, flags;
};

struct inflation {
  z_stream z;
  const struct feed *f;
  struct sink sink;
  uint64_t read;
  uLong crc;
  uint8_t in[PIECE], out[PIECE];
};

struct archive {
  const struct feed *f;
  struct space *s;
  struct arena temp;
  struct inflation *inflation; // one for all members
  uint64_t directory, directory_bytes, members;
  TABLE(struct member, rows);
};

// ---- the end -----------------------------------------------------------------------------------

// Where the end lies: nothing but its comment is behind it.
static int find_end(struct archive *z, uint64_t *end, struct err *err) {
  const uint64_t size = z->f->len, n = min_u64(size, END_BYTES + COMMENT_MOST);
  uint8_t *tail = arena_alloc(&z->temp, (size_t)n + 1);
  if (feed_read(z->f, size - n, tail, (size_t)n, err) != 0) return -1;
  for (uint64_t i = n < END_BYTES ? 0 : n - END_BYTES + 1; i-- > 0;) {
    if (memcmp(tail + i, "PK\5\6", 4) != 0 || u16(tail + i + 20) != n - i - END_BYTES) continue;
    *end = size - n + i;
    return 0;
  }
  return feed_error(z->f, err, "it is not a complete ZIP archive: its end is missing");
}

static int bad_end(const struct archive *z, struct err *err) {
  return feed_error(z->f, err, "the end of the archive does not give the place of its directory");
}

// The ZIP64 one, which counts where there is one. *end moves to where the directory must end.
static int read_end64(struct archive *z, uint64_t *end, struct err *err) {
  uint8_t locator[LOCATOR_BYTES], at[END64_BYTES];
  if (*end < LOCATOR_BYTES) return 0;
  if (feed_read(z->f, *end - LOCATOR_BYTES, locator, sizeof locator, err) != 0) return -1;
  if (memcmp(locator, "PK\6\7", 4) != 0) return 0;
  const uint64_t off = u64(locator + 8), last = *end - LOCATOR_BYTES;
  if (!range_fits(off, END64_BYTES, last)) return bad_end(z, err);
  if (feed_read(z->f, off, at, sizeof at, err) != 0) return -1;
  if (memcmp(at, "PK\6\6", 4) != 0 || u64(at + 4) != last - off - 12 || u32(at + 16) ||
      u32(at + 20) || u64(at + 24) != u64(at + 32))
    return bad_end(z, err);
  z->members = u64(at + 32);
  z->directory_bytes = u64(at + 40);
  z->directory = u64(at + 48);
  *end = off;
  return 0;
}

static int read_end(struct archive *z, struct err *err) {
  uint64_t end;
  uint8_t at[END_BYTES];
  if (find_end(z, &end, err) != 0 || feed_read(z->f, end, at, sizeof at, err) != 0) return -1;
  if (u16(at + 4) || u16(at + 6) || u16(at + 8) != u16(at + 10))
    return feed_error(z->f, err, "it is one of several volumes of an archive");
  z->members = u16(at + 10);
  z->directory_bytes = u32(at + 12);
  z->directory = u32(at + 16);
  if (read_end64(z, &end, err) != 0) return -1;
  if (!range_fits(z->directory, z->directory_bytes, end) ||
      z->directory + z->directory_bytes != end)
    return bad_end(z, err);
  if (z->members > MEMBERS_MOST || z->directory_bytes > DIRECTORY_MOST)
    return feed_error(z->f, err,
                      "it has %s members in a directory of %s bytes; the limits are %d "
                      "members and %d bytes",
                      decimal(z->members).s, decimal(z->directory_bytes).s, MEMBERS_MOST,
                      DIRECTORY_MOST);
  return 0;
}

// ---- the directory -----------------------------------------------------------------------------

static int bad_directory(const struct archive *z, struct err *err) {
  return feed_error(z->f, err, "its directory is damaged at member %u", z->n_rows + 1);
}

// Sizes that do not fit 32 bits stand in an extra field, in this order.
static bool widen(struct member *m, struct span extra) {
  uint64_t *const wide[3] = {&m->bytes, &m->packed, &m->header};
  bool missing = false;
  for (unsigned i = 0; i < 3; i++)
    missing |= *wide[i] == UINT32_MAX;
  for (size_t at = 0; missing && at + 4 <= extra.n;) {
    const uint32_t id = u16(extra.at + at), n = u16(extra.at + at + 2);
    at += 4;
    if (n > extra.n - at) return false;
    if (id == 1) {
      const uint8_t *p = extra.at + at, *end = p + n;
      for (unsigned i = 0; i < 3; i++) {
        if (*wide[i] != UINT32_MAX) continue;
        if (end - p < 8) return false;
        *wide[i] = u64(p);
        p += 8;
      }
      return true;
    }
    at += n;
  }
  return !missing;
}

static int check_member(const struct archive *z, const struct member *m, struct err *err) {
  struct feed named = *z->f;
  named.member = arena_string(z->s->a, m->name);
  if (m->name.n == 0 || span_has_nul(m->name) || !utf8_valid(m->name))
    return feed_error(z->f, err, "the name of member %u is not text", m->place + 1);
  if (m->name.at[m->name.n - 1] == '/') return feed_error(&named, err, "it is a folder");
  if (m->name.n < 5 || !span_is(span_of(m->name.at + m->name.n - 4, 4), ".npy"))
    return feed_error(&named, err, "it is not a .npy");
  if (m->flags & ENCRYPTED) return feed_error(&named, err, "it is encrypted");
  if (m->method != STORED && m->method != DEFLATED) {
    feed_error(&named, err, "it is compressed by method %u; stored and deflated ones are read",
               m->method);
    return err_hint(err, "numpy.savez and numpy.savez_compressed write those");
  }
  // What deflate can make of so many bytes.
  if (m->method == STORED ? m->bytes != m->packed : m->bytes / 1032 > m->packed)
    return feed_error(&named, err,
                      "its size of %s bytes does not match its %s bytes in the archive",
                      decimal(m->bytes).s, decimal(m->packed).s);
  return 0;
}

static int read_directory(struct archive *z, struct err *err) {
  const size_t n = (size_t)z->directory_bytes;
  uint8_t *bytes = arena_alloc(&z->temp, n + 1);
  if (feed_read(z->f, z->directory, bytes, n, err) != 0) return -1;
  size_t at = 0;
  while (at < n) {
    const uint8_t *p = bytes + at;
    if (n - at < ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0) return bad_directory(z, err);
    const size_t name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
    if (n - at - ENTRY_BYTES < name + extra + comment || u16(p + 34)) return bad_directory(z, err);
    struct member m = {.name = span_of(p + ENTRY_BYTES, name),
                       .header = u32(p + 42),
                       .packed = u32(p + 20),
                       .bytes = u32(p + 24),
                       .crc = u32(p + 16),
                       .place = z->n_rows,
                       .method = (uint16_t)u16(p + 10),
                       .flags = (uint16_t)u16(p + 8)};
    if (!widen(&m, span_of(p + ENTRY_BYTES + name, extra))) return bad_directory(z, err);
    if (check_member(z, &m, err) != 0) return -1;
    *TABLE_PUSH(z, rows) = m;
    at += ENTRY_BYTES + name + extra + comment;
  }
  if (z->n_rows != z->members)
    return feed_error(z->f, err, "its directory has %u members, but its end counts %s", z->n_rows,
                      decimal(z->members).s);
  return 0;
}

// ---- where members lie -------------------------------------------------------------------------

static int bad_member(const struct archive *z, const struct member *m, struct err *err,
                      const char *what) {
  struct feed named = *z->f;
  named.member = arena_string(z->s->a, m->name);
  return feed_error(&named, err, "%s", what);
}

// The local header must speak of the same; its sizes may be behind the bytes.
static int find_bytes(struct archive *z, struct member *m, struct err *err) {
  uint8_t at[LOCAL_BYTES];
  uint8_t name[1 << 16];
  if (!range_fits(m->header, LOCAL_BYTES, z->directory))
    return bad_member(z, m, err, "its header is past the members");
  if (feed_read(z->f, m->header, at, sizeof at, err) != 0) return -1;
  const uint64_t n_name = u16(at + 26), body = LOCAL_BYTES + n_name + u16(at + 28);
  if (memcmp(at, "PK\3\4", 4) != 0 || !range_fits(m->header, body, z->directory))
    return bad_member(z, m, err, "its header is damaged");
  if (feed_read(z->f, m->header + LOCAL_BYTES, name, (size_t)n_name, err) != 0) return -1;
  if (!span_eq(span_of(name, (size_t)n_name), m->name) || u16(at + 8) != m->method ||
      (u16(at + 6) & ENCRYPTED))
    return bad_member(z, m, err, "its header disagrees with the directory");
  const uint64_t sizes[2] = {u32(at + 18), u32(at + 22)}, known[2] = {m->packed, m->bytes};
  for (unsigned i = 0; i < 2; i++)
    if (!(u16(at + 6) & SIZES_BEHIND) && sizes[i] != UINT32_MAX && sizes[i] != known[i])
      return bad_member(z, m, err, "its header has another size than the directory");
  m->off = m->header + body;
  if (!range_fits(m->off, m->packed, z->directory))
    return bad_member(z, m, err, "its bytes are past the members");
  return 0;
}

static int by_offset(const void *a, const void *b) {
  const struct member *x = a, *y = b;
  return (x->header > y->header) - (x->header < y->header);
}
static int by_name(const void *a, const void *b) {
  const struct member *x = *(const struct member *const *)a, *y = *(const struct member *const *)b;
  const size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
  const int order = memcmp(x->name.at, y->name.at, n);
  return order ? order : (x->name.n > y->name.n) - (x->name.n < y->name.n);
}
static int by_place(const void *a, const void *b) {
  const struct member *x = a, *y = b;
  return (x->place > y->place) - (x->place < y->place);
}

static int check_apart(struct archive *z, struct err *err) {
  const uint32_t n = z->n_rows;
  if (n == 0) return 0;
  qsort(z->rows, n, sizeof *z->rows, by_offset);
  for (uint32_t i = 1; i < n; i++)
    if (z->rows[i].header < z->rows[i - 1].off + z->rows[i - 1].packed)
      return bad_member(z, &z->rows[i], err, "it shares bytes with another member of the archive");
  const struct member **names = arena_alloc(&z->temp, (n + 1) * sizeof *names);
  for (uint32_t i = 0; i < n; i++)
    names[i] = &z->rows[i];
  qsort(names, n, sizeof *names, by_name);
  for (uint32_t i = 1; i < n; i++)
    if (span_eq(names[i]->name, names[i - 1]->name))
      return bad_member(z, names[i], err, "it is in the archive twice");
  qsort(z->rows, n, sizeof *z->rows, by_place);
  return 0;
}

// ---- bytes -------------------------------------------------------------------------------------

static int check_crc(const struct feed *f, const struct member *m, uLong crc, struct err *err) {
  if (crc == m->crc) return 0;
  return feed_error(f, err, "its bytes have CRC-32 %08lx, but the archive states %08x", crc,
                    (unsigned)m->crc);
}

static int check_stored(const struct feed *f, const struct member *m, struct err *err) {
  uint8_t piece[PIECE];
  uLong crc = crc32(0, NULL, 0);
  for (uint64_t at = 0; at < f->len; at += PIECE) {
    const size_t n = (size_t)min_u64(PIECE, f->len - at);
    if (feed_read(f, at, piece, n, err) != 0) return -1;
    crc = crc32(crc, piece, (uInt)n);
  }
  return check_crc(f, m, crc, err);
}

// Until the stream ends. Never more than the sink has room for.
static int pump(struct inflation *x, struct err *err) {
  for (;;) {
    if (x->z.avail_in == 0 && x->read < x->f->len) {
      const size_t n = (size_t)min_u64(PIECE, x->f->len - x->read);
      if (feed_read(x->f, x->read, x->in, n, err) != 0) return -1;
      x->read += n;
      x->z.next_in = x->in;
      x->z.avail_in = (uInt)n;
    }
    x->z.next_out = x->out;
    x->z.avail_out = PIECE;
    const int state = inflate(&x->z, Z_NO_FLUSH);
    if (state == Z_MEM_ERROR) return err_set(err, ERR_NO_MEMORY, "no memory to inflate arrays");
    if (state != Z_OK && state != Z_STREAM_END)
      return feed_error(x->f, err, "its deflated bytes are damaged or end too early");
    const size_t n = PIECE - x->z.avail_out;
    if (n > x->sink.n - x->sink.got)
      return feed_error(x->f, err, "it inflates to more than the %s bytes that the archive states",
                        decimal(x->sink.n).s);
    x->crc = crc32(x->crc, x->out, (uInt)n);
    if (sink_put(&x->sink, x->out, n, err) != 0) return -1;
    if (state == Z_STREAM_END) return 0;
  }
}

static int inflate_member(struct archive *z, const struct feed *f, const struct member *m,
                          struct feed_file *file, struct feed *out, struct err *err) {
  if (!z->inflation) z->inflation = arena_alloc(&z->temp, sizeof *z->inflation);
  struct inflation *x = z->inflation;
  x->z = (z_stream){.zalloc = resources_alloc_for, .zfree = resources_free_for};
  x->f = f;
  x->read = 0;
  if (sink_open(&x->sink, z->s, f, m->bytes, err) != 0) return -1;
  if (inflateInit2(&x->z, -MAX_WBITS) != Z_OK)
    return err_set(err, ERR_NO_MEMORY, "no memory to inflate arrays");
  x->crc = crc32(0, NULL, 0);
  const int bad = pump(x, err);
  const bool rest = x->z.avail_in > 0 || x->read < f->len;
  inflateEnd(&x->z);
  if (bad) return -1;
  if (rest || x->sink.got != m->bytes)
    return feed_error(f, err, "it inflates to %s bytes%s; the archive states %s",
                      decimal(x->sink.got).s, rest ? " with bytes left over" : "",
                      decimal(m->bytes).s);
  return check_crc(f, m, x->crc, err) != 0 ? -1 : sink_close(&x->sink, file, out, err);
}

static int read_member(struct archive *z, const struct member *m, struct array *out,
                       struct err *err) {
  struct feed f = feed_part(z->f, m->off, m->packed), inflated;
  struct feed_file file;
  const char *name = arena_string(z->s->a, span_of(m->name.at, m->name.n - 4));
  f.member = name;
  // Before a byte of it is made; npy_read counts its elements.
  if (m->bytes > z->s->left && m->bytes - z->s->left > PIECE + 12)
    return space_take(z->s, &f, m->bytes, err);
  if (m->method == STORED)
    return check_stored(&f, m, err) != 0 ? -1 : npy_read(&f, name, z->s, out, err);
  if (inflate_member(z, &f, m, &file, &inflated, err) != 0) return -1;
  return npy_read(&inflated, name, z->s, out, err);
}

static int read_members(struct archive *z, struct arrays *out, struct err *err) {
  for (uint32_t i = 0; i < z->n_rows; i++)
    if (find_bytes(z, &z->rows[i], err) != 0) return -1;
  if (check_apart(z, err) != 0) return -1;
  out->list = arena_zalloc(z->s->a, (z->n_rows + 1) * sizeof *out->list);
  for (; out->n < z->n_rows; out->n++)
    if (read_member(z, &z->rows[out->n], &out->list[out->n], err) != 0) return -1;
  return 0;
}

int npz_read(const struct feed *f, struct space *s, struct arrays *out, struct err *err) {
  struct archive z = {.f = f, .s = s};
  *out = (struct arrays){0};
  const int bad =
      read_end(&z, err) != 0 || read_directory(&z, err) != 0 || read_members(&z, out, err) != 0;
  TABLE_FREE(&z, rows);
  arena_free(&z.temp);
  return bad ? -1 : 0;
}
