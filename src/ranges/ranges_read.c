// A file of ranges, of whoever made it: opened once, told by its first bytes, read to its end with its digest.
//
//   {"weir_ranges": …     RANGES: lines, each read and forgotten before the next (ranges_own.c)
//   {…                    the cache of onnxruntime: one JSON object (ranges_cache.c)
//   TRT-8501-…            TensorRT's table: lines of text (ranges_tensorrt.c)
//
// Nothing of a file is trusted: sizes, names and numbers pass the functions below, and messages have the line. Lines
// and files have limits, so that a file cannot make us take more memory than a few times its size, nor that without
// end.
#include "ranges/inside/ranges_in.h"

#include "base/again.h"
#include "json/plain_file.h"
#include "platform/files.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>

void ranges_in_fill(const struct ranges_in *in, struct err *err, const char *fmt, ...) {
  char text[768];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  err_fill(err, ERR_MODEL, "%s:%s: %s", in->path, decimal(in->line).s, text);
}

static int read_failed(const struct ranges_in *in, struct err *err) {
  return err_errno(err, errno ? errno : EIO, ERR_INPUT, "'%s' cannot be read", in->path);
}

static bool failed(const struct ranges_in *in) {
  return in->f && ferror(in->f);
}

// The next bytes, at most n; 0 at the end and where it failed.
static size_t take(struct ranges_in *in, char *to, size_t n) {
  if (in->f) return again_fread(to, n, in->f);
  if (n > in->left.n) n = in->left.n;
  if (n == 0) return 0;
  memcpy(to, in->left.at, n);
  in->left = span_of(in->left.at + n, in->left.n - n);
  return n;
}

static int take_char(struct ranges_in *in) {
  char c;
  if (in->f) return again_getc(in->f);
  return take(in, &c, 1) == 1 ? (uint8_t)c : EOF;
}

int ranges_in_line(struct ranges_in *in, bool *ended, struct err *err) {
  in->n_text = 0;
  in->line++;
  *ended = false;
  for (int c; (c = take_char(in)) != '\n';) {
    if (c == EOF && failed(in)) return read_failed(in, err);
    if (c == EOF && in->n_text == 0) {
      *ended = true;
      return 0;
    }
    if (c == EOF) return ranges_in_error(in, err, "the file ends in the middle of a line");
    if (in->n_text == RANGES_LINE_BYTES)
      return ranges_in_error(in, err, "the line is longer than %d MiB", RANGES_LINE_BYTES >> 20);
    *TABLE_PUSH(in, text) = (char)c;
  }
  digest_add(in->digest, in->text, in->n_text);
  digest_add(in->digest, "\n", 1);
  return 0;
}

int ranges_in_whole(struct ranges_in *in, struct err *err) {
  enum { PIECE = 1 << 16 };
  in->n_text = 0;
  in->line = 1;
  for (;;) {
    TABLE_ROOM(in, text, PIECE);
    const size_t n = take(in, in->text + in->n_text, PIECE);
    if (n == 0 && failed(in)) return read_failed(in, err);
    if (n == 0) break;
    in->n_text += n;
    if (in->n_text > RANGES_WHOLE_BYTES)
      return ranges_in_error(in, err, "the file is larger than %d MiB", RANGES_WHOLE_BYTES >> 20);
  }
  digest_add(in->digest, in->text, in->n_text);
  return 0;
}

// ---- numbers -----------------------------------------------------------------------------------

// Is x a multiple of 2^-`point` of at most `bits` significant bits?
static bool fits(double x, int bits, int point) {
  int exponent;
  const double significand = frexp(x, &exponent);
  const double scaled = ldexp(significand, bits);
  if (scaled != trunc(scaled)) return false;
  const double steps = ldexp(x, point);
  return steps == trunc(steps);
}

bool ranges_in_exact(double x, enum dtype type) {
  if (!isfinite(x)) return false;
  if (type == DTYPE_FLOAT) return (double)(float)x == x;
  if (type == DTYPE_FLOAT16) return fabs(x) <= dtype_largest(type) && fits(x, 11, 24);
  if (type == DTYPE_BFLOAT16) return (double)(float)x == x && fits(x, 8, 133);
  return true;
}

double ranges_in_rounded(double x, enum dtype type) {
  int exponent;
  if (type == DTYPE_FLOAT) return (double)(float)x;
  if (type == DTYPE_DOUBLE || !isfinite(x) || x == 0) return x;
  // So many significant bits, in steps of no less than the least subnormal.
  const bool half = type == DTYPE_FLOAT16;
  const int bits = half ? 11 : 8, least = half ? -24 : -133;
  frexp(x, &exponent);
  const int step = exponent - bits < least ? least : exponent - bits;
  const double rounded = ldexp(nearbyint(ldexp(x, -step)), step);
  const double most = dtype_largest(type);
  return fabs(rounded) > most ? copysign((double)INFINITY, x) : rounded;
}

struct ranges_value *ranges_in_value(const struct ranges_in *in, struct ranges *r, struct span name,
                                     struct err *err) {
  struct ranges_value *v = NULL;
  if (name.n == 0 || name.n > RANGES_NAME_BYTES || span_has_nul(name))
    ranges_in_fill(in, err, "the name of a value is empty, longer than %d KiB or has a NUL in it",
                   RANGES_NAME_BYTES >> 10);
  else if (!(v = ranges_add(r, name)))
    ranges_in_fill(in, err, "the value '%s' is listed twice", quote(name).s);
  return v;
}

void ranges_in_settle(struct ranges_value *v) {
  if (v->least <= v->most) return;
  if (v->most > 0)
    v->least = v->most;
  else if (v->least < 0)
    v->most = v->least;
  else
    v->least = v->most = 0;
}

int ranges_in_range(const struct ranges_in *in, const struct ranges_value *v, struct err *err) {
  const struct quoted name = quote(v->name);
  if (!isfinite(v->least) || !isfinite(v->most))
    return ranges_in_error(in, err, "the range of '%s' is not finite", name.s);
  if (v->least > v->most)
    return ranges_in_error(in, err, "the minimum of '%s' (%.9g) is above its maximum (%.9g)",
                           name.s, v->least, v->most);
  if (!ranges_in_exact(v->least, v->type) || !ranges_in_exact(v->most, v->type))
    return ranges_in_error(in, err, "the range of '%s' (%.17g to %.17g) is outside its type, %s",
                           name.s, v->least, v->most, dtype_name(v->type));
  return 0;
}

// ---- files -------------------------------------------------------------------------------------

static int read_any(struct ranges_in *in, struct ranges *r, struct err *err) {
  static const char own[] = "{\"weir_ranges\":", table[] = "TRT-";
  char begin[sizeof own] = "";
  const struct span all = in->left;
  const size_t n = take(in, begin, sizeof own - 1);
  if (n == 0 && failed(in)) return read_failed(in, err);
  if (n == 0) return ranges_in_error(in, err, "the file is empty");
  if (in->f) rewind(in->f);
  in->left = all;
  in->line = 0;
  if (strcmp(begin, own) == 0) return ranges_own_read(in, r, err);
  if (strncmp(begin, table, sizeof table - 1) == 0) return ranges_tensorrt_read(in, r, err);
  return ranges_cache_read(in, r, err);
}

// Of `f`, or of the text where that is NULL.
static int read_file(FILE *f, struct span text, struct ranges *r, const char *path,
                     struct err *err) {
  const struct quoted shown = quote_path(path);
  struct ranges_in in = {.f = f, .left = text, .path = shown.s, .line = 1, .digest = digest_new()};
  r->path = arena_string(&r->arena, span_str(path));
  const int rc = read_any(&in, r, err);
  digest_finish(in.digest, r->sha256);
  TABLE_FREE(&in, text);
  return rc;
}

static int companion_is_another(const char *path, uint64_t is, uint64_t wanted, struct err *err) {
  err_fill(err, ERR_INPUT, "'%s' has %s bytes, but the file of ranges next to it records %s",
           quote_path(path).s, decimal(is).s, decimal(wanted).s);
  return err_hint(err, "the two files were not written together: copy both again, or run 'weir "
                       "calibrate' again");
}

static int look_at_data(struct ranges *r, struct err *err) {
  struct entry_facts at;
  if (r->data_bytes == 0) return 0;
  const char *path = ranges_data_path(r->path, &r->arena);
  if (entry_look(HERE, path, 0, &at)) {
    err_fill_errno(err, errno, ERR_INPUT, "'%s', which has the Gram matrices, cannot be read",
                   quote_path(path).s);
    return err_hint(err, "it was written next to '%s': copy both files", quote_path(r->path).s);
  }
  return at.size == r->data_bytes ? 0 : companion_is_another(path, at.size, r->data_bytes, err);
}

int ranges_read(struct ranges *r, const char *path, struct err *err) {
  FILE *f = plain_file_open(path, "the ranges ", err);
  if (!f) return -1;
  const int rc = read_file(f, span_of(NULL, 0), r, path, err);
  stream_close(f);
  return rc ? rc : look_at_data(r, err);
}

int ranges_parse(struct ranges *r, struct span text, const char *path, struct err *err) {
  return read_file(NULL, text, r, path, err);
}

int ranges_check_data(const struct ranges *r, struct err *err) {
  enum { PIECE = 1 << 20 };
  struct arena room = {0};
  uint8_t sum[DIGEST_BYTES];
  size_t n;
  if (r->data_bytes == 0 || !r->path) return 0;
  const char *path = ranges_data_path(r->path, &room);
  FILE *f = plain_file_open(path, "", err);
  if (!f) {
    arena_free(&room);
    return -1;
  }
  struct digest *d = digest_new();
  uint8_t *piece = arena_alloc(&room, PIECE);
  uint64_t bytes = 0;
  for (; (n = again_fread(piece, PIECE, f)) > 0; bytes += n)
    digest_add(d, piece, n);
  digest_finish(d, sum);
  int rc = ferror(f) ? err_errno(err, errno ? errno : EIO, ERR_INPUT, "'%s' cannot be read",
                                 quote_path(path).s)
                     : 0;
  stream_close(f);
  if (rc == 0 && bytes != r->data_bytes) rc = companion_is_another(path, bytes, r->data_bytes, err);
  if (rc == 0 && memcmp(sum, r->data_sha256, sizeof sum) != 0) {
    err_fill(err, ERR_INPUT,
             "'%s' is not the file that was written with '%s': its SHA-256 is different",
             quote_path(path).s, path_base(r->path));
    rc = err_hint(err, "run 'weir calibrate' again");
  }
  arena_free(&room);
  return rc;
}
