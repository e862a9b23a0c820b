// Reads what ONNX's own tests keep: a file that is one TensorProto, SequenceProto or OptionalProto (onnx.proto,
// onnx-data.proto).
//
// Fields are read one after the other, through a window: nothing is decoded before its size is known, and
// raw elements of a large tensor stay in their file.
//
//   TensorProto     1 dims  2 data_type  4 float_data … 9 raw_data … 14 data_location
//   SequenceProto   1 name  2 elem_type  3 tensors      5 sequences      7 optionals
//   OptionalProto   1 name  2 elem_type  3 the tensor   5 the sequence   7 the optional
//
// A file does not say which message it is. It is a sequence or an optional if all of its fields are of
// these and the values are of the kind that elem_type names; else it is a tensor. A sequence of one and an
// optional that holds one are the same bytes: such an array is `either`, taken for a sequence until
// array_settle says what the model wants. An optional whose elem_type is UNDEFINED holds nothing.
#include "verify/arrays/inside/array_formats.h"

#include "base/table.h"
#include "base/varint.h"
#include "model/onnx_fields.h"

enum { WINDOW = 1 << 16, ITEMS_MOST = 100000, DEPTH_MOST = 8 };

// ---- the wire ----------------------------------------------------------------------------------

struct reader {
  struct feed f;
  uint64_t at; // of the next field
  uint64_t window_at;
  size_t window_n;
  uint8_t window[WINDOW];
};

struct field {
  uint32_t number;
  uint8_t type;   // enum wire_type
  uint64_t value; // VARINT, FIXED32, FIXED64
  uint64_t off;   // BYTES, FIXED: in the feed
  uint64_t len;
};

static void reader_at(struct reader *r, const struct feed *f) {
  r->f = *f;
  r->at = 0;
  r->window_at = 0;
  r->window_n = 0;
}

// At least one byte at r->at, which is before the end.
static int window_at(struct reader *r, const uint8_t **at, size_t *n, struct err *err) {
  const uint64_t behind = r->window_at + r->window_n;
  if (r->at < r->window_at || r->at >= behind || (behind - r->at < 16 && behind < r->f.len)) {
    r->window_at = r->at;
    r->window_n = (size_t)min_u64(WINDOW, r->f.len - r->at);
    if (feed_read(&r->f, r->at, r->window, r->window_n, err) != 0) return -1;
  }
  *at = r->window + (r->at - r->window_at);
  *n = r->window_n - (size_t)(r->at - r->window_at);
  return 0;
}

static int damaged(const struct reader *r, struct err *err) {
  return feed_error(&r->f, err, "byte %s: it is not a TensorProto, SequenceProto or OptionalProto",
                    decimal(r->f.off + r->at).s);
}

static int take_varint(struct reader *r, uint64_t end, uint64_t *out, struct err *err) {
  const uint8_t *at;
  size_t n;
  *out = 0;
  if (r->at >= end) return damaged(r, err);
  if (window_at(r, &at, &n, err) != 0) return -1;
  n = (size_t)min_u64(n, end - r->at);
  for (size_t i = 0; i < n && i < VARINT_MAX_BYTES; i++) {
    *out |= (uint64_t)(at[i] & 0x7f) << (7 * i);
    if (i == 9 && at[i] > 1) break;
    if (at[i] & 0x80) continue;
    r->at += i + 1;
    return 0;
  }
  return damaged(r, err);
}

static int take_fixed(struct reader *r, size_t n, uint64_t *out, struct err *err) {
  const uint8_t *at;
  size_t have;
  *out = 0;
  if (!range_fits(r->at, n, r->f.len)) return damaged(r, err);
  if (window_at(r, &at, &have, err) != 0) return -1;
  for (size_t i = 0; i < n; i++)
    *out |= (uint64_t)at[i] << (8 * i);
  r->at += n;
  return 0;
}

// 1: a field; 0: the end.
static int next_field(struct reader *r, struct field *x, struct err *err) {
  uint64_t tag;
  if (r->at == r->f.len) return 0;
  if (take_varint(r, r->f.len, &tag, err) != 0) return -1;
  *x = (struct field){.number = (uint32_t)(tag >> 3), .type = tag & 7, .off = r->at};
  if (tag >> 32 || x->number == 0) return damaged(r, err);
  switch (x->type) {
  case WIRE_VARINT: return take_varint(r, r->f.len, &x->value, err) != 0 ? -1 : 1;
  case WIRE_FIXED32: x->len = 4; return take_fixed(r, 4, &x->value, err) != 0 ? -1 : 1;
  case WIRE_FIXED64: x->len = 8; return take_fixed(r, 8, &x->value, err) != 0 ? -1 : 1;
  case WIRE_BYTES: break;
  default: return damaged(r, err);
  }
  if (take_varint(r, r->f.len, &x->len, err) != 0) return -1;
  if (!range_fits(r->at, x->len, r->f.len)) return damaged(r, err);
  x->off = r->at;
  r->at += x->len;
  return 1;
}

// ---- a tensor ----------------------------------------------------------------------------------

struct tensor {
  int64_t dims[ARRAY_MAX_RANK];
  uint32_t rank;
  uint64_t dtype;
  struct field raw, name;
  uint64_t entries;                    // of typed fields
  uint32_t typed;                      // the number of the field that has them; 0: none
  uint64_t typed_off, typed_len, runs; // the last run of them, and how many there are
};

static int bad_tensor(const struct reader *r, struct err *err, const char *what) {
  return feed_error(&r->f, err, "%s", what);
}

static int take_dim(struct reader *r, struct tensor *t, uint64_t dim, struct err *err) {
  if (t->rank == ARRAY_MAX_RANK)
    return feed_error(&r->f, err, "its tensor has more than %d dims", ARRAY_MAX_RANK);
  if (dim > INT64_MAX)
    return feed_error(&r->f, err, "dim %u of its tensor is %s", t->rank, integer((int64_t)dim).s);
  t->dims[t->rank++] = (int64_t)dim;
  return 0;
}

static int take_dims(struct reader *r, struct tensor *t, const struct field *x, struct err *err) {
  if (x->type == WIRE_VARINT) return take_dim(r, t, x->value, err);
  if (x->type != WIRE_BYTES) return damaged(r, err);
  const uint64_t back = r->at;
  r->at = x->off;
  while (r->at < back) {
    uint64_t dim;
    if (take_varint(r, back, &dim, err) != 0 || take_dim(r, t, dim, err) != 0) return -1;
  }
  return 0;
}

// What an entry of a typed field is on the wire, and its bytes; strings: BYTES.
static enum wire_type entry_type(uint32_t number) {
  switch (number) {
  case ONNX_TENSOR_float_data: return WIRE_FIXED32;
  case ONNX_TENSOR_double_data: return WIRE_FIXED64;
  case ONNX_TENSOR_string_data: return WIRE_BYTES;
  default: return WIRE_VARINT;
  }
}

static int count_varints(struct reader *r, const struct field *x, uint64_t *n, struct err *err) {
  uint8_t piece[4096];
  uint8_t last = 0;
  for (uint64_t at = 0; at < x->len;) {
    const size_t some = (size_t)min_u64(sizeof piece, x->len - at);
    if (feed_read(&r->f, x->off + at, piece, some, err) != 0) return -1;
    for (size_t i = 0; i < some; i++)
      *n += piece[i] < 0x80;
    last = piece[some - 1];
    at += some;
  }
  return last & 0x80 ? damaged(r, err) : 0;
}

// Counts the entries of a run, which may be packed or one.
static int take_typed(struct reader *r, struct tensor *t, const struct field *x, struct err *err) {
  const enum wire_type entry = entry_type(x->number);
  if (t->typed && t->typed != x->number)
    return bad_tensor(r, err, "its tensor has elements in two fields");
  t->typed = x->number;
  t->runs++;
  t->typed_off = x->off;
  t->typed_len = x->len;
  if (x->type == entry) {
    t->entries++;
    return 0;
  }
  if (x->type != WIRE_BYTES) return damaged(r, err);
  if (entry == WIRE_VARINT) return count_varints(r, x, &t->entries, err);
  const uint64_t bytes = entry == WIRE_FIXED32 ? 4 : 8;
  if (x->len % bytes) return damaged(r, err);
  t->entries += x->len / bytes;
  return 0;
}

static int take_tensor_field(struct reader *r, struct tensor *t, const struct field *x,
                             struct err *err) {
  switch (x->number) {
  case ONNX_TENSOR_dims: return take_dims(r, t, x, err);
  case ONNX_TENSOR_data_type:
    t->dtype = x->value;
    return x->type == WIRE_VARINT ? 0 : damaged(r, err);
  case ONNX_TENSOR_segment: return bad_tensor(r, err, "its tensor is only a segment of a tensor");
  case ONNX_TENSOR_float_data:
  case ONNX_TENSOR_int32_data:
  case ONNX_TENSOR_string_data:
  case ONNX_TENSOR_int64_data:
  case ONNX_TENSOR_double_data:
  case ONNX_TENSOR_uint64_data: return take_typed(r, t, x, err);
  case ONNX_TENSOR_name: t->name = *x; return x->type == WIRE_BYTES ? 0 : damaged(r, err);
  case ONNX_TENSOR_raw_data: t->raw = *x; return x->type == WIRE_BYTES ? 0 : damaged(r, err);
  case ONNX_TENSOR_data_location:
    if (x->value == 0) return 0;
    bad_tensor(r, err, "its tensor has its elements in another file");
    return err_hint(err, "save the tensor with its elements, as onnx.numpy_helper.from_array does");
  default: return 0;
  }
}

static int scan_tensor(struct reader *r, struct tensor *t, struct err *err) {
  struct field x;
  int more;
  while ((more = next_field(r, &x, err)) > 0) {
    const uint64_t at = r->at;
    if (take_tensor_field(r, t, &x, err) != 0) return -1;
    r->at = at;
  }
  return more;
}

static int read_name(struct reader *r, struct space *s, const struct field *x, const char **name,
                     struct err *err) {
  if (x->len > 4096 || x->len > s->memory)
    return feed_error(&r->f, err, "the name of its tensor has %s bytes", decimal(x->len).s);
  s->memory -= x->len;
  char *at = arena_alloc(s->a, (size_t)x->len + 1);
  if (feed_read(&r->f, x->off, at, (size_t)x->len, err) != 0) return -1;
  at[x->len] = 0;
  if (span_has_nul(span_of(at, (size_t)x->len)))
    return bad_tensor(r, err, "the name of its tensor has a zero byte");
  *name = at;
  return 0;
}

// Entries of typed fields, in the order of the file, each as element bytes for the sink.
struct entries {
  struct sink *sink;
  uint32_t bits; // of an element
  uint64_t left; // entries that the tensor has
  uint8_t held[512];
  size_t n_held;
  uint32_t part, part_bits; // bits of elements below a byte that fill no byte yet
};

static int flush(struct entries *e, struct err *err) {
  const size_t n = e->n_held;
  e->n_held = 0;
  return sink_put(e->sink, e->held, n, err);
}

// The low bits of an entry. Types of 2 and 4 bits have a byte of packed elements an entry (onnx.proto).
static int put_entry(struct entries *e, uint64_t value, struct err *err) {
  if (e->n_held + 8 > sizeof e->held && flush(e, err) != 0) return -1;
  if (e->bits == 6) {
    e->part |= ((uint32_t)value & 63) << e->part_bits;
    e->part_bits += 6;
    for (; e->part_bits >= 8; e->part_bits -= 8, e->part >>= 8)
      e->held[e->n_held++] = (uint8_t)e->part;
    return 0;
  }
  const size_t n = e->bits < 8 ? 1 : e->bits / 8;
  for (size_t i = 0; i < n; i++, value >>= 8)
    e->held[e->n_held++] = (uint8_t)value;
  return 0;
}

static int put_run(struct reader *r, const struct field *x, enum wire_type entry, struct entries *e,
                   struct err *err) {
  if (x->type == entry) return put_entry(e, x->value, err);
  const uint64_t end = x->off + x->len, back = r->at;
  r->at = x->off;
  while (r->at < end) {
    uint64_t value;
    const int bad = entry == WIRE_VARINT
                        ? take_varint(r, end, &value, err)
                        : take_fixed(r, entry == WIRE_FIXED32 ? 4 : 8, &value, err);
    if (bad || put_entry(e, value, err) != 0) return -1;
  }
  r->at = back;
  return 0;
}

static int put_entries(struct reader *r, const struct tensor *t, struct entries *e,
                       struct err *err) {
  struct field x;
  int more;
  reader_at(r, e->sink->of);
  while ((more = next_field(r, &x, err)) > 0)
    if (x.number == t->typed && put_run(r, &x, entry_type(t->typed), e, err) != 0) return -1;
  if (more) return -1;
  if (e->part_bits) e->held[e->n_held++] = (uint8_t)e->part;
  return flush(e, err);
}

static int decode_entries(struct reader *r, const struct tensor *t, struct space *s,
                          struct array *x, struct err *err) {
  struct sink sink;
  struct feed made;
  struct feed_file file;
  const struct feed of = r->f;
  struct entries e = {.sink = &sink, .bits = dtype_bits(x->dtype)};
  if (x->dtype == DTYPE_COMPLEX64 || x->dtype == DTYPE_COMPLEX128) e.bits /= 2;
  if (sink_open(&sink, s, &of, x->bytes, err) != 0 || put_entries(r, t, &e, err) != 0 ||
      sink_close(&sink, &file, &made, err) != 0)
    return -1;
  return feed_elements(s, &made, 0, x, err);
}

// How many entries the typed field of so many elements has.
static uint64_t entries_of(enum dtype t, uint64_t count) {
  const uint32_t bits = dtype_bits(t);
  if (t == DTYPE_COMPLEX64 || t == DTYPE_COMPLEX128) return count * 2;
  if (bits == 2 || bits == 4) return (count * bits + 7) / 8;
  return count;
}

static int read_strings(struct reader *r, struct space *s, struct array *x, struct err *err) {
  const uint64_t spans = x->count * sizeof(struct span);
  if (spans > s->memory || r->f.len > s->memory - spans)
    return feed_error(&r->f, err, "it has %s strings: there is no memory for so many",
                      decimal(x->count).s);
  s->memory -= spans;
  struct span *list = arena_alloc(s->a, (size_t)spans + 1);
  struct field f;
  struct feed whole = r->f;
  uint64_t n = 0;
  int more;
  reader_at(r, &whole);
  while ((more = next_field(r, &f, err)) > 0) {
    if (f.number != ONNX_TENSOR_string_data) continue;
    if (space_take(s, &r->f, f.len, err) != 0) return -1;
    s->memory -= min_u64(f.len, s->memory);
    uint8_t *at = arena_alloc(s->a, (size_t)f.len + 1);
    if (feed_read(&r->f, f.off, at, (size_t)f.len, err) != 0) return -1;
    list[n++] = span_of(at, (size_t)f.len);
  }
  x->strings = list;
  return more;
}

static int check_elements(struct reader *r, const struct tensor *t, const struct array *x,
                          struct err *err) {
  const char field = dtype_field(x->dtype);
  static const struct {
    char field;
    uint32_t number;
  } numbers[] = {{'F', ONNX_TENSOR_float_data},  {'I', ONNX_TENSOR_int32_data},
                 {'L', ONNX_TENSOR_int64_data},  {'D', ONNX_TENSOR_double_data},
                 {'U', ONNX_TENSOR_uint64_data}, {'S', ONNX_TENSOR_string_data}};
  for (unsigned i = 0; t->typed && i < sizeof numbers / sizeof *numbers; i++)
    if (numbers[i].number == t->typed && numbers[i].field != field)
      return feed_error(&r->f, err,
                        "its tensor of type %s has its elements in a field for other types",
                        dtype_name(x->dtype));
  if (t->raw.number && (t->typed || x->dtype == DTYPE_STRING))
    return bad_tensor(r, err, "its tensor has elements in two fields");
  const uint64_t have = t->raw.number ? t->raw.len : t->entries;
  const uint64_t want = t->raw.number ? x->bytes : entries_of(x->dtype, x->count);
  if (have == want) return 0;
  return feed_error(&r->f, err, "its tensor %s needs %s %s, but has %s", array_words(x).s,
                    decimal(want).s, t->raw.number ? "bytes" : "entries", decimal(have).s);
}

// The tensor that the reader's feed is.
static int read_tensor(struct reader *r, struct space *s, struct array *out, struct err *err) {
  struct tensor t = {0};
  if (scan_tensor(r, &t, err) != 0) return -1;
  *out = (struct array){.name = "", .kind = ARRAY_TENSOR};
  if (!dtype_known((int64_t)t.dtype) || t.dtype > INT32_MAX)
    return feed_error(&r->f, err, "its tensor is of type %s, which does not exist",
                      decimal(t.dtype).s);
  if (t.name.number && read_name(r, s, &t.name, &out->name, err) != 0) return -1;
  out->dtype = (enum dtype)t.dtype;
  int64_t *dims = arena_copy(s->a, t.dims, t.rank * sizeof *dims);
  out->dims = dims;
  out->rank = t.rank;
  if (!array_sizes(out->dtype, t.rank, dims, &out->count, &out->bytes) ||
      out->count > INT64_MAX / sizeof(struct span))
    return feed_error(&r->f, err, "the dims %s of its tensor have too many elements",
                      quote_dims(dims, t.rank).s);
  if (check_elements(r, &t, out, err) != 0 || space_take(s, &r->f, out->bytes, err) != 0) return -1;
  if (out->dtype == DTYPE_STRING) return read_strings(r, s, out, err);
  if (t.raw.number) return feed_elements(s, &r->f, t.raw.off, out, err);
  // One packed run of numbers that are elements as they are.
  if (t.runs == 1 && t.typed_len == out->bytes && entry_type(t.typed) != WIRE_VARINT)
    return feed_elements(s, &r->f, t.typed_off, out, err);
  return decode_entries(r, &t, s, out, err);
}

// ---- sequences and optionals -------------------------------------------------------------------

struct held {
  uint64_t type;
  uint32_t value; // the field that values are in; 0: there are none
  uint32_t values;
  struct field last;
  bool fits;
};

// Are all fields those of SequenceProto or OptionalProto, and the values of the kind that it names?
static int look(struct reader *r, struct held *h, struct err *err) {
  static const uint8_t value_of[] = {0, HELD_TENSOR, 4, HELD_SEQUENCE, 6, HELD_OPTIONAL};
  struct field x;
  bool typed = false;
  int more;
  *h = (struct held){.fits = true};
  while ((more = next_field(r, &x, err)) > 0) {
    if (x.number == HELD_TYPE && x.type == WIRE_VARINT && !typed) {
      h->type = x.value;
      typed = true;
    } else if (x.number >= HELD_TENSOR && x.number <= HELD_OPTIONAL && x.type == WIRE_BYTES) {
      h->fits &= !h->value || h->value == x.number;
      h->value = x.number;
      h->values += h->values < UINT32_MAX;
      h->last = x;
    } else {
      h->fits &= x.number == HELD_NAME && x.type == WIRE_BYTES;
    }
  }
  if (more) return -1;
  h->fits &= typed && h->type < sizeof value_of && (!h->value || h->value == value_of[h->type]);
  if (!h->fits || h->type != DTYPE_INT8 || h->values != 1 || h->last.len > VARINT_MAX_BYTES)
    return 0;
  // Also what a scalar int8 without a name is, in int32_data: one number, which is no SequenceProto.
  uint64_t numbers = 0;
  struct err none = {0};
  h->fits = count_varints(r, &h->last, &numbers, &none) != 0 || numbers != 1;
  return 0;
}

// A sequence or optional that is being read.
struct frame {
  struct feed f;
  uint64_t at;
  struct array *to;
  bool optional;
  TABLE(struct array, items);
};

struct levels {
  struct space *s;
  struct reader *r;
  struct frame frame[DEPTH_MOST];
  uint32_t n, items;
};

static int go_down(struct levels *l, const struct feed *f, bool optional, struct array *to,
                   struct err *err) {
  if (l->n == DEPTH_MOST)
    return feed_error(f, err, "its sequences are nested more than %d deep", DEPTH_MOST);
  *to = (struct array){.name = "", .kind = ARRAY_SEQUENCE};
  l->frame[l->n++] = (struct frame){.f = *f, .to = to, .optional = optional};
  return 0;
}

static int go_up(struct levels *l, struct err *err) {
  struct frame *f = &l->frame[l->n - 1];
  struct array *items = arena_zalloc(l->s->a, (f->n_items + 1) * sizeof *items);
  for (uint32_t i = 0; i < f->n_items; i++)
    items[i] = f->items[i];
  f->to->items = items;
  f->to->n_items = f->n_items;
  if (f->optional && f->n_items > 1)
    return feed_error(&f->f, err, "an optional in it holds %u values", f->n_items);
  f->to->either = f->optional;
  array_settle(f->to, true);
  TABLE_FREE(f, items);
  l->n--;
  return 0;
}

static struct array *add_item(struct levels *l, struct err *err) {
  struct frame *f = &l->frame[l->n - 1];
  if (l->items++ == ITEMS_MOST) {
    feed_error(&f->f, err, "it has more than %d tensors", ITEMS_MOST);
    return NULL;
  }
  return TABLE_PUSH(f, items);
}

// A field of the message that is being read.
static int take_value(struct levels *l, const struct field *x, struct err *err) {
  struct frame *f = &l->frame[l->n - 1];
  if (x->number == HELD_NAME && x->type == WIRE_BYTES)
    return read_name(l->r, l->s, x, &f->to->name, err);
  if (x->number == HELD_TYPE && x->type == WIRE_VARINT) return 0;
  if (x->type != WIRE_BYTES || x->number < HELD_TENSOR || x->number > HELD_OPTIONAL)
    return damaged(l->r, err);
  const struct feed whole = f->f, part = feed_part(&whole, x->off, x->len);
  if (x->number != HELD_TENSOR && x->number != HELD_SEQUENCE && x->number != HELD_OPTIONAL)
    return feed_error(&whole, err, "it holds %s, which weir does not read as an array",
                      x->number == 4 ? "a sparse tensor" : "a map");
  struct array *to = add_item(l, err);
  if (!to) return -1;
  if (x->number != HELD_TENSOR) return go_down(l, &part, x->number == HELD_OPTIONAL, to, err);
  reader_at(l->r, &part);
  return read_tensor(l->r, l->s, to, err);
}

static int read_levels(struct levels *l, struct err *err) {
  while (l->n > 0) {
    struct frame *f = &l->frame[l->n - 1];
    struct field x;
    const struct feed whole = f->f;
    reader_at(l->r, &whole);
    l->r->at = f->at;
    const int more = next_field(l->r, &x, err);
    if (more < 0) return -1;
    if (more == 0) {
      if (go_up(l, err) != 0) return -1;
      continue;
    }
    f->at = l->r->at;
    if (take_value(l, &x, err) != 0) return -1;
  }
  return 0;
}

static int read_held(struct reader *r, struct space *s, const struct held *h, struct array *out,
                     struct err *err) {
  struct levels *l = arena_zalloc(s->a, sizeof *l);
  l->s = s;
  l->r = r;
  const struct feed f = r->f;
  int bad = go_down(l, &f, false, out, err) != 0 || read_levels(l, err) != 0;
  for (; l->n > 0; l->n--)
    TABLE_FREE(&l->frame[l->n - 1], items);
  if (bad) return -1;
  out->either = out->n_items <= 1;
  if (h->type == 0) array_settle(out, true);
  return 0;
}

int pb_read(const struct feed *f, struct space *s, struct array *out, struct err *err) {
  if (f->len == 0) return feed_error(f, err, "it is empty");
  struct arena temp = {0};
  struct reader *r = arena_alloc(&temp, sizeof *r);
  struct held h;
  reader_at(r, f);
  int bad = look(r, &h, err);
  reader_at(r, f);
  if (bad == 0) bad = h.fits ? read_held(r, s, &h, out, err) : read_tensor(r, s, out, err);
  arena_free(&temp);
  return bad;
}
