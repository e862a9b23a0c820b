// Reads .npy, the format of NumPy for one array (numpy.lib.format):
//
//   \x93NUMPY  1 0  u16 n  {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  \n  elements
//              2 0  u32 n  (a longer header)
//              3 0  u32 n  (UTF-8 in it)
//
// The header is a literal of Python: it is read by a few rules, not evaluated. Elements that lie as we keep
// them stay where they are; those in Fortran order, those of the other byte order and strings are put in
// order in memory, up to FEED_MEMORY bytes.
//
// What a .npy cannot say is refused with the reason: objects are pickles, which are programs, and the types
// of ml_dtypes (bfloat16, float8, int4) are saved as bytes without a type.
#include "verify/arrays/inside/array_formats.h"

enum { HEADER_MOST = 1 << 16, STRING_MOST = 1 << 20 };

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

bool npy_begins(const uint8_t *at, size_t n) {
  return n >= sizeof magic && memcmp(at, magic, sizeof magic) == 0;
}

// ---- the header's literal ----------------------------------------------------------------------

struct header {
  struct span descr;
  bool fortran;
  int64_t dims[ARRAY_MAX_RANK];
  uint32_t rank;
  bool has[3]; // descr, fortran_order, shape
};

struct text {
  const uint8_t *at, *end;
};

static void blanks(struct text *t) {
  while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r'))
    t->at++;
}

static bool take(struct text *t, char c) {
  blanks(t);
  if (t->at == t->end || *t->at != (uint8_t)c) return false;
  t->at++;
  return true;
}

static bool take_word(struct text *t, const char *word) {
  blanks(t);
  const size_t n = strlen(word);
  if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0) return false;
  t->at += n;
  return true;
}

// A string without escapes: none of what we take has any.
static bool take_string(struct text *t, struct span *out) {
  blanks(t);
  if (t->at == t->end || (*t->at != '\'' && *t->at != '"')) return false;
  const uint8_t quote_mark = *t->at++, *begin = t->at;
  while (t->at < t->end && *t->at != quote_mark && *t->at != '\\')
    t->at++;
  if (t->at == t->end || *t->at == '\\') return false;
  *out = span_of(begin, (size_t)(t->at - begin));
  t->at++;
  return true;
}

// Digits, with the L that Python 2 puts behind them.
static bool take_number(struct text *t, int64_t *out) {
  blanks(t);
  const bool minus = take(t, '-');
  uint64_t x = 0;
  const uint8_t *begin = t->at;
  for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
    if (mul_overflows(x, 10, &x) || add_overflows(x, *t->at - '0', &x) || x > INT64_MAX)
      return false;
  if (t->at == begin) return false;
  if (t->at < t->end && *t->at == 'L') t->at++;
  *out = minus ? -(int64_t)x : (int64_t)x;
  return true;
}

static int bad_header(const struct feed *f, struct err *err) {
  return feed_error(f, err, "its header is not {'descr': …, 'fortran_order': …, 'shape': …}");
}

static int take_shape(const struct feed *f, struct text *t, struct header *h, struct err *err) {
  if (!take(t, '(')) return bad_header(f, err);
  while (!take(t, ')')) {
    int64_t dim;
    if (!take_number(t, &dim)) return bad_header(f, err);
    if (h->rank == ARRAY_MAX_RANK)
      return feed_error(f, err, "it has more than %d dims", ARRAY_MAX_RANK);
    if (dim < 0) return feed_error(f, err, "its dim %u is %s", h->rank, integer(dim).s);
    h->dims[h->rank++] = dim;
    if (take(t, ',')) continue;
    if (!take(t, ')')) return bad_header(f, err);
    // A number in parentheses is no tuple.
    return h->rank == 1 ? bad_header(f, err) : 0;
  }
  return 0;
}

static int take_descr(const struct feed *f, struct text *t, struct header *h, struct err *err) {
  if (take(t, '['))
    return feed_error(f, err, "its elements have fields (a structured dtype): save them as arrays");
  return take_string(t, &h->descr) ? 0 : bad_header(f, err);
}

static int take_member(const struct feed *f, struct text *t, struct header *h, struct err *err) {
  static const char *const keys[3] = {"descr", "fortran_order", "shape"};
  struct span key;
  if (!take_string(t, &key) || !take(t, ':')) return bad_header(f, err);
  unsigned k = 0;
  while (k < 3 && !span_is(key, keys[k]))
    k++;
  if (k == 3 || h->has[k]) return bad_header(f, err);
  h->has[k] = true;
  if (k == 0) return take_descr(f, t, h, err);
  if (k == 2) return take_shape(f, t, h, err);
  h->fortran = take_word(t, "True");
  return h->fortran || take_word(t, "False") ? 0 : bad_header(f, err);
}

static int parse_header(const struct feed *f, struct span text, struct header *h, struct err *err) {
  struct text t = {text.at, text.at + text.n};
  if (!take(&t, '{')) return bad_header(f, err);
  while (!take(&t, '}')) {
    if (take_member(f, &t, h, err) != 0) return -1;
    if (take(&t, ',')) continue;
    if (!take(&t, '}')) return bad_header(f, err);
    break;
  }
  blanks(&t);
  return t.at == t.end && h->has[0] && h->has[1] && h->has[2] ? 0 : bad_header(f, err);
}

// ---- types -------------------------------------------------------------------------------------

struct element {
  enum dtype dtype;
  uint32_t bytes;   // in the file
  uint32_t swapped; // bytes of the numbers that lie the other way round; 0: none do
  bool wide;        // strings of 4 bytes a character
};

static const struct {
  char kind;
  uint32_t bytes;
  enum dtype dtype;
} types[] = {
    {'b', 1, DTYPE_BOOL},      {'i', 1, DTYPE_INT8},        {'i', 2, DTYPE_INT16},
    {'i', 4, DTYPE_INT32},     {'i', 8, DTYPE_INT64},       {'u', 1, DTYPE_UINT8},
    {'u', 2, DTYPE_UINT16},    {'u', 4, DTYPE_UINT32},      {'u', 8, DTYPE_UINT64},
    {'f', 2, DTYPE_FLOAT16},   {'f', 4, DTYPE_FLOAT},       {'f', 8, DTYPE_DOUBLE},
    {'c', 8, DTYPE_COMPLEX64}, {'c', 16, DTYPE_COMPLEX128},
};

static int refuse_type(const struct feed *f, struct span descr, struct err *err) {
  const struct quoted q = quote(descr);
  switch (descr.n > 1 ? (char)descr.at[1] : 0) {
  case 'O':
    feed_error(f, err,
               "its elements are Python objects, which NumPy saves as a pickle: a pickle is a "
               "program, and weir runs no programs from data");
    return err_hint(err,
                    "save strings as array.astype(str), and arrays of several sizes one by one");
  case 'V':
    feed_error(f, err,
               "its elements are of type '%s': bytes without a type, as NumPy saves bfloat16, "
               "float8 and int4 of ml_dtypes",
               q.s);
    return err_hint(err, "save them as float32 or int8, or as a TensorProto (input_0.pb)");
  case 'M':
  case 'm':
    return feed_error(f, err, "its elements are times (type '%s'), which ONNX does not have", q.s);
  default:
    return feed_error(f, err, "its elements are of type '%s', which weir does not read", q.s);
  }
}

static int element_of(const struct feed *f, struct span descr, struct element *e, struct err *err) {
  if (descr.n < 2 || !memchr("<>|=", descr.at[0], 4)) return refuse_type(f, descr, err);
  if (descr.at[1] == 'O') return refuse_type(f, descr, err);
  uint64_t n;
  if (!span_decimal(span_of(descr.at + 2, descr.n - 2), &n)) return refuse_type(f, descr, err);
  const char kind = (char)descr.at[1];
  const bool other = descr.at[0] == '>';
  if (kind == 'U' || kind == 'S') {
    const uint32_t one = kind == 'U' ? 4 : 1;
    if (n > STRING_MOST)
      return feed_error(f, err, "its strings have %s characters; at most %d are read", decimal(n).s,
                        STRING_MOST);
    *e = (struct element){DTYPE_STRING, (uint32_t)n * one, other && one == 4 ? 4 : 0, one == 4};
    return 0;
  }
  for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
    if (types[i].kind != kind || types[i].bytes != n) continue;
    const uint32_t part = kind == 'c' ? types[i].bytes / 2 : types[i].bytes;
    *e = (struct element){types[i].dtype, types[i].bytes, other && part > 1 ? part : 0, false};
    return 0;
  }
  return refuse_type(f, descr, err);
}

// ---- elements in another order -----------------------------------------------------------------

static void swap(uint8_t *at, uint64_t bytes, uint32_t width) {
  for (uint64_t i = 0; i < bytes; i += width)
    for (uint32_t j = 0; j < width / 2; j++) {
      const uint8_t x = at[i + j];
      at[i + j] = at[i + width - 1 - j];
      at[i + width - 1 - j] = x;
    }
}

// From the first axis running fastest to the last one: `to` is written in order.
static void reorder(uint8_t *to, const uint8_t *from, const struct array *x, uint32_t width) {
  uint64_t stride[ARRAY_MAX_RANK], index[ARRAY_MAX_RANK] = {0}, step = width, at = 0;
  for (uint32_t i = 0; i < x->rank; i++) {
    stride[i] = step;
    step *= (uint64_t)x->dims[i];
  }
  for (uint64_t n = 0; n < x->count; n++, to += width) {
    memcpy(to, from + at, width);
    for (uint32_t i = x->rank; i-- > 0;) {
      at += stride[i];
      if (++index[i] < (uint64_t)x->dims[i]) break;
      at -= stride[i] * index[i];
      index[i] = 0;
    }
  }
}

static bool one_axis(const struct array *x) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->rank; i++)
    n += x->dims[i] != 1;
  return n <= 1;
}

static int refuse_order(const struct feed *f, const struct element *e, uint64_t bytes, bool fortran,
                        struct err *err) {
  const bool strings = e->dtype == DTYPE_STRING;
  feed_error(f, err, "weir would have to reorder %s bytes of %s; the limit is %d", decimal(bytes).s,
             strings   ? "strings"
             : fortran ? "elements in Fortran order"
                       : "elements in the other byte order",
             FEED_MEMORY);
  return err_hint(err, "%s",
                  strings   ? "save fewer elements in one array"
                  : fortran ? "save numpy.ascontiguousarray(array)"
                            : "save array.astype(array.dtype.newbyteorder('<'))");
}

// The elements in memory of *temp, row-major, in our byte order.
static int put_in_order(const struct feed *f, uint64_t off, const struct array *x,
                        const struct element *e, bool fortran, struct arena *temp, uint8_t **out,
                        struct err *err) {
  const uint64_t bytes = x->count * e->bytes;
  if (bytes > FEED_MEMORY) return refuse_order(f, e, bytes, fortran, err);
  uint8_t *at = arena_alloc(temp, (size_t)bytes + 1);
  if (feed_read(f, off, at, (size_t)bytes, err) != 0) return -1;
  if (e->swapped) swap(at, bytes, e->swapped);
  *out = at;
  if (!fortran || bytes == 0 || one_axis(x)) return 0;
  *out = arena_alloc(temp, (size_t)bytes + 1);
  reorder(*out, at, x, e->bytes);
  return 0;
}

static int read_in_order(const struct feed *f, uint64_t off, const struct element *e, bool fortran,
                         struct space *s, struct arena *temp, struct array *x, struct err *err) {
  uint8_t *at;
  struct sink sink;
  struct feed_file file;
  struct feed made;
  if (put_in_order(f, off, x, e, fortran, temp, &at, err) != 0 ||
      sink_open(&sink, s, f, x->bytes, err) != 0 ||
      sink_put(&sink, at, (size_t)x->bytes, err) != 0 || sink_close(&sink, &file, &made, err) != 0)
    return -1;
  return feed_elements(s, &made, 0, x, err);
}

// ---- strings -----------------------------------------------------------------------------------

static size_t put_utf8(uint8_t *to, uint32_t c) {
  if (c < 0x80) {
    to[0] = (uint8_t)c;
    return 1;
  }
  const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = n - 1; i > 0; i--, c >>= 6)
    to[i] = (uint8_t)(0x80 | (c & 0x3f));
  to[0] = (uint8_t)(lead[n] | c);
  return n;
}

static int read_string(const struct feed *f, const struct element *e, const uint8_t *in,
                       uint8_t **to, struct err *err) {
  const uint32_t width = e->wide ? 4 : 1;
  uint32_t n = e->bytes; // zeros at the end are none of it
  while (n > 0 && in[n - 1] == 0)
    n--;
  for (uint32_t i = 0; i < n; i += width) {
    uint32_t c = in[i];
    if (e->wide) memcpy(&c, in + i, 4);
    if (e->wide && (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)))
      return feed_error(f, err, "a string has U+%04X, which is not a character", (unsigned)c);
    if (e->wide)
      *to += put_utf8(*to, c);
    else
      *(*to)++ = (uint8_t)c;
  }
  return 0;
}

static int read_strings(const struct feed *f, uint64_t off, const struct element *e, bool fortran,
                        struct space *s, struct arena *temp, struct array *x, struct err *err) {
  const uint64_t bytes = x->count * e->bytes; // enough in UTF-8 too
  uint64_t spans, all;
  if (mul_overflows(x->count, sizeof(struct span), &spans) || add_overflows(spans, bytes, &all) ||
      all > s->memory)
    return feed_error(f, err, "it has %s strings: there is no memory for so many",
                      decimal(x->count).s);
  s->memory -= all;
  uint8_t *in;
  if (put_in_order(f, off, x, e, fortran, temp, &in, err) != 0) return -1;
  struct span *list = arena_alloc(s->a, (size_t)spans + 1);
  uint8_t *to = arena_alloc(s->a, (size_t)bytes + 1);
  for (uint64_t i = 0; i < x->count; i++, in += e->bytes) {
    list[i].at = to;
    if (read_string(f, e, in, &to, err) != 0) return -1;
    list[i].n = (size_t)(to - list[i].at);
  }
  x->strings = list;
  return 0;
}

// ---- the file ----------------------------------------------------------------------------------

// The literal, and where elements begin.
static int read_header(const struct feed *f, struct arena *temp, struct span *text,
                       uint64_t *elements, struct err *err) {
  uint8_t lead[12];
  const size_t have = (size_t)min_u64(f->len, sizeof lead);
  if (feed_read(f, 0, lead, have, err) != 0) return -1;
  if (!npy_begins(lead, have)) return feed_error(f, err, "it is not a .npy");
  if (have < 10) return feed_error(f, err, "it ends inside its header");
  const unsigned version = lead[6];
  if (version < 1 || version > 3 || lead[7] != 0)
    return feed_error(f, err, "it is of format %u.%u; 1.0 to 3.0 are read", version, lead[7]);
  const size_t at = version == 1 ? 10 : 12;
  if (have < at) return feed_error(f, err, "it ends inside its header");
  uint32_t n = (uint32_t)lead[8] | (uint32_t)lead[9] << 8;
  if (version > 1) n |= (uint32_t)lead[10] << 16 | (uint32_t)lead[11] << 24;
  if (!range_fits(at, n, f->len)) return feed_error(f, err, "it ends inside its header");
  if (n > HEADER_MOST)
    return feed_error(f, err, "its header has %u bytes; at most %d are read", n, HEADER_MOST);
  uint8_t *bytes = arena_alloc(temp, n + 1);
  if (feed_read(f, at, bytes, n, err) != 0) return -1;
  *text = span_of(bytes, n);
  *elements = at + n;
  return 0;
}

static int read_array(const struct feed *f, struct space *s, struct arena *temp, struct array *x,
                      struct err *err) {
  struct span text;
  uint64_t off, bytes;
  struct header h = {0};
  struct element e = {0};
  if (read_header(f, temp, &text, &off, err) != 0 || parse_header(f, text, &h, err) != 0 ||
      element_of(f, h.descr, &e, err) != 0)
    return -1;
  int64_t *dims = arena_copy(s->a, h.dims, h.rank * sizeof *dims);
  x->dtype = e.dtype;
  x->dims = dims;
  x->rank = h.rank;
  if (!array_sizes(e.dtype, h.rank, dims, &x->count, &x->bytes) ||
      mul_overflows(x->count, e.bytes, &bytes) || bytes > INT64_MAX)
    return feed_error(f, err, "its dims %s have too many elements", quote_dims(dims, h.rank).s);
  if (bytes != f->len - off)
    return feed_error(f, err, "its dims %s have %s bytes, but %s follow the header",
                      quote_dims(dims, h.rank).s, decimal(bytes).s, decimal(f->len - off).s);
  if (space_take(s, f, bytes, err) != 0) return -1;
  if (e.dtype == DTYPE_STRING) return read_strings(f, off, &e, h.fortran, s, temp, x, err);
  if (e.swapped || (h.fortran && bytes && !one_axis(x)))
    return read_in_order(f, off, &e, h.fortran, s, temp, x, err);
  return feed_elements(s, f, off, x, err);
}

int npy_read(const struct feed *f, const char *name, struct space *s, struct array *out,
             struct err *err) {
  *out = (struct array){.name = name, .kind = ARRAY_TENSOR};
  struct arena temp = {0};
  const int bad = read_array(f, s, &temp, out, err);
  arena_free(&temp);
  return bad;
}
