// All ranges were checked by who made the stretch: reading past its end is a mistake of ours, and a file
// that has become shorter meanwhile is an error of its own.
#include "verify/arrays/inside/feed.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum { SINK_BUFFER = 1 << 18 };

void feed_fill_error(const struct feed *f, struct err *err, const char *fmt, ...) {
  char what[600];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  if (f->member)
    err_set(err, ERR_MODEL, "'%s', array '%s': %s", quote_path(f->path).s, quote_str(f->member).s,
            what);
  else
    err_set(err, ERR_MODEL, "'%s': %s", quote_path(f->path).s, what);
}

struct feed feed_part(const struct feed *f, uint64_t off, uint64_t len) {
  assert(range_fits(off, len, f->len));
  struct feed part = *f;
  part.off += off;
  part.len = len;
  return part;
}

int feed_read(const struct feed *f, uint64_t off, void *to, size_t n, struct err *err) {
  assert(range_fits(off, n, f->len));
  if (f->at) {
    if (n) memcpy(to, f->at + f->off + off, n);
    return 0;
  }
  const int64_t got = file_read_all_at(f->file->file, to, n, f->off + off);
  if (got < 0) return err_errno(err, errno, ERR_IO, "cannot read '%s'", quote_path(f->path).s);
  if (got == (int64_t)n) return 0;
  return err_set(err, ERR_INPUT, "'%s' became shorter while it was read", quote_path(f->path).s);
}

int space_take(struct space *s, const struct feed *f, uint64_t n, struct err *err) {
  if (n > s->left)
    return feed_error(f, err,
                      "its elements have %s bytes, but all arrays together can have at most %s",
                      decimal(n).s, quote_bytes(s->most).s);
  s->left -= n;
  return 0;
}

void space_close(struct space *s) {
  file_close(&s->file);
}

static bool fits_memory(const struct space *s, uint64_t n) {
  return !s->scratch || (n <= FEED_SMALL && n <= s->memory);
}

static uint8_t *take_memory(struct space *s, uint64_t n) {
  s->memory -= min_u64(n, s->memory);
  return arena_alloc(s->a, (size_t)n + 1);
}

int feed_elements(struct space *s, const struct feed *f, uint64_t off, struct array *x,
                  struct err *err) {
  assert(range_fits(off, x->bytes, f->len));
  x->at = NULL;
  x->file = NO_FILE;
  if (f->at) {
    x->at = f->at + f->off + off;
    return 0;
  }
  if (fits_memory(s, x->bytes)) {
    uint8_t *at = take_memory(s, x->bytes);
    x->at = at;
    return feed_read(f, off, at, (size_t)x->bytes, err);
  }
  x->file = f->file->file;
  x->offset = f->off + off;
  f->file->stays = true;
  return 0;
}

// ---- sinks -------------------------------------------------------------------------------------

static int open_scratch(struct space *s, struct err *err) {
  if (file_is_open(s->file)) return 0;
  s->file = file_make_nameless(HERE, s->scratch, 0);
  if (file_is_open(s->file)) return 0;
  return err_errno(err, errno, ERR_IO, "cannot create a temporary file in '%s'",
                   quote_path(s->scratch).s);
}

int sink_open(struct sink *k, struct space *s, const struct feed *of, uint64_t n, struct err *err) {
  *k = (struct sink){.s = s, .of = of, .n = n};
  if (fits_memory(s, n)) {
    k->at = take_memory(s, n);
    return 0;
  }
  if (open_scratch(s, err) != 0) return -1;
  k->off = s->file_bytes;
  s->file_bytes += n;
  if (!s->buffer) s->buffer = arena_alloc(s->a, SINK_BUFFER);
  return 0;
}

static int empty(struct sink *k, struct err *err) {
  if (file_write_all_at(k->s->file, k->s->buffer, k->held, k->off + k->got - k->held))
    return err_errno(err, errno, ERR_IO, "cannot write to '%s'", quote_path(k->s->scratch).s);
  k->held = 0;
  return 0;
}

int sink_put(struct sink *k, const void *bytes, size_t n, struct err *err) {
  assert(n <= k->n - k->got);
  const uint8_t *at = bytes;
  if (k->at) {
    if (n) memcpy(k->at + k->got, at, n);
    k->got += n;
    return 0;
  }
  for (; n > 0;) {
    const size_t some = n < SINK_BUFFER - k->held ? n : SINK_BUFFER - k->held;
    memcpy(k->s->buffer + k->held, at, some);
    k->held += some;
    k->got += some;
    at += some;
    n -= some;
    if (k->held == SINK_BUFFER && empty(k, err) != 0) return -1;
  }
  return 0;
}

int sink_close(struct sink *k, struct feed_file *file, struct feed *out, struct err *err) {
  assert(k->got == k->n);
  *out = (struct feed){.path = k->of->path, .member = k->of->member, .len = k->n};
  if (k->at) {
    out->at = k->at;
    return 0;
  }
  if (empty(k, err) != 0) return -1;
  *file = (struct feed_file){.file = k->s->file};
  out->file = file;
  out->off = k->off;
  return 0;
}
