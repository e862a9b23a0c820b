// Recipes as text and back. Reading is a border: a plan or an edit log is a file that anybody may
// have edited, so every number is checked here before a constructor asserts it.
#include "recipe_json.h"

#include <assert.h>

// ---- writing -----------------------------------------------------------------------------------

static void write_type(struct json_out *j, const struct recipes *r, const struct recipe *x) {
  json_put_text(j, "dtype", dtype_name((enum dtype)x->dtype));
  json_put_ints(j, "dims", r->longs + x->dims, x->rank);
}

static const char *const encodings[] = {"raw", "fixed32", "fixed64", "varint"};
enum { N_ENCODINGS = sizeof encodings / sizeof encodings[0] };

static void write_piece(struct json_out *j, const struct recipes *r, const struct recipe *x,
                        const struct piece *p) {
  json_array(j);
  json_uint(j, p->at.file);
  json_uint(j, p->at.off);
  json_uint(j, p->at.len);
  if (x->encoding != ENCODING_RAW) {
    json_uint(j, p->count);
    json_uint(j, p->tag_bytes);
  }
  if (x->encoding == ENCODING_VARINT) {
    uint64_t n = (p->count + CHECKPOINT_ENTRIES - 1) / CHECKPOINT_ENTRIES;
    json_array(j);
    for (uint64_t i = 0; i < n; i++)
      json_uint(j, r->checkpoints[p->checkpoint + i]);
    json_end_array(j);
  }
  json_end_array(j);
}

static void write_extent(struct json_out *j, const struct recipes *r, const struct recipe *x) {
  assert(x->encoding < N_ENCODINGS || x->n == 0);
  json_put_array(j, "extent");
  for (uint32_t i = 0; i < x->n; i++)
    write_piece(j, r, x, &r->pieces[x->at + i]);
  json_end_array(j);
  json_put_text(j, "encoding", x->encoding < N_ENCODINGS ? encodings[x->encoding] : encodings[0]);
  write_type(j, r, x);
}

static const char *const operation_keys[] = {
    [RECIPE_EXTENT] = "extent",       [RECIPE_BYTES] = "bytes",
    [RECIPE_FILL] = "fill",           [RECIPE_RESHAPE] = "reshape",
    [RECIPE_TRANSPOSE] = "transpose", [RECIPE_SLICE] = "slice",
    [RECIPE_CONCAT] = "concat",       [RECIPE_PAD] = "pad",
    [RECIPE_CAST] = "cast",           [RECIPE_QUANTIZE] = "quantize",
};
enum { N_KINDS = sizeof operation_keys / sizeof operation_keys[0] };

static void write_operands(struct json_out *j, const struct recipes *r, const struct recipe *x,
                           const struct recipe_json_leaves *leaves) {
  json_key(j, operation_keys[x->kind]);
  if (x->kind == RECIPE_CONCAT) json_array(j);
  for (uint32_t i = 0; i < x->n_args; i++) {
    uint32_t of = r->args[x->args + i];
    if (leaves)
      recipe_json_write(j, r, of, leaves);
    else
      json_uint(j, of);
  }
  if (x->kind == RECIPE_CONCAT) json_end_array(j);
}

static void write_quantization(struct json_out *j, const struct recipes *r, uint32_t id) {
  const struct recipe_quantization q = recipe_quantization_of(r, id);
  json_put_text(j, "part", recipe_part_name(recipe_part_of(r, id)));
  json_put_text(j, "format", recipe_format_row(q.format)->name);
  json_put_uint(j, "bits", q.bits);
  json_put_bool(j, "symmetric", q.symmetric);
  if (q.axis != RECIPE_PER_TENSOR) {
    json_put_uint(j, "axis", q.axis);
  }
  json_put_uint(j, "block", q.block);
  if (q.levels) {
    json_put_uint(j, "levels", q.levels);
  }
}

static void write_parameters(struct json_out *j, const struct recipes *r, const struct recipe *x) {
  const int64_t *longs = r->longs + x->at;
  size_t element = (dtype_bits((enum dtype)x->dtype) + 7) / 8;
  switch ((enum recipe_kind)x->kind) {
  case RECIPE_RESHAPE: json_put_ints(j, "dims", r->longs + x->dims, x->rank); break;
  case RECIPE_TRANSPOSE: json_put_ints(j, "perm", longs, x->rank); break;
  case RECIPE_SLICE:
    json_put_ints(j, "starts", longs, x->rank);
    json_put_ints(j, "steps", longs + x->rank, x->rank);
    json_put_ints(j, "dims", r->longs + x->dims, x->rank);
    break;
  case RECIPE_CONCAT: json_put_uint(j, "axis", x->n); break;
  case RECIPE_PAD:
    json_put_ints(j, "befores", longs, x->rank);
    json_put_ints(j, "afters", longs + x->rank, x->rank);
    json_put_hex(j, "value", r->bytes + x->n, element);
    break;
  case RECIPE_CAST:
    json_put_text(j, "to", dtype_name((enum dtype)x->dtype));
    if (recipe_cast_clips(r, (uint32_t)(x - r->rows))) {
      json_put_bool(j, "clip", true);
    }
    break;
  case RECIPE_QUANTIZE: write_quantization(j, r, (uint32_t)(x - r->rows)); break;
  default: break;
  }
}

void recipe_json_write(struct json_out *j, const struct recipes *r, uint32_t id,
                       const struct recipe_json_leaves *leaves) {
  if (leaves && leaves->write && leaves->write(leaves->ctx, j, id)) return;
  const struct recipe *x = &r->rows[id];
  size_t element = (dtype_bits((enum dtype)x->dtype) + 7) / 8;
  json_object(j);
  switch ((enum recipe_kind)x->kind) {
  case RECIPE_EXTENT: write_extent(j, r, x); break;
  case RECIPE_BYTES:
    json_put_hex(j, "bytes", r->bytes + x->at, x->n);
    write_type(j, r, x);
    break;
  case RECIPE_FILL:
    json_put_hex(j, "fill", r->bytes + x->at, element);
    write_type(j, r, x);
    break;
  default: write_operands(j, r, x, leaves); write_parameters(j, r, x);
  }
  json_end_object(j);
}

// ---- reading -----------------------------------------------------------------------------------

struct reading {
  struct recipes *r;
  const struct recipe_json_leaves *leaves; // NULL: row form
  uint32_t n_files;
  const uint64_t *file_sizes;
};

static int bad(struct err *err, const char *what) {
  return err_set(err, ERR_MODEL, "a recipe %s", what);
}

static int read_longs(const struct json_value *v, const char *key, int64_t *out, uint32_t *n,
                      struct err *err) {
  const struct json_value *list = json_get(v, key);
  if (!json_is_array(list) || json_count(list) > RECIPE_MAX_RANK)
    return err_set(err, ERR_MODEL, "a recipe has no list '%s' of at most %d numbers", key,
                   RECIPE_MAX_RANK);
  *n = 0;
  for (const struct json_value *x = json_first(list); x; x = json_next(x))
    if (!json_as_int(x, &out[(*n)++]))
      return err_set(err, ERR_MODEL, "a recipe's '%s' holds something that is not an integer", key);
  return 0;
}

struct type_read {
  enum dtype dtype;
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t rank;
  uint64_t count, bytes;
};

static int measure_type(struct type_read *t, struct err *err) {
  if (!dims_product(t->dims, t->rank, &t->count) || !dtype_bytes(t->dtype, t->count, &t->bytes))
    return err_set(err, ERR_MODEL, "a recipe's dims %s of %s have no size",
                   quote_dims(t->dims, t->rank).s, dtype_name(t->dtype));
  return 0;
}

static int read_dtype(const struct json_value *v, const char *key, enum dtype *out,
                      struct err *err) {
  struct span name;
  if (!json_as_string(json_get(v, key), &name) || (*out = dtype_by_name(name)) == DTYPE_UNDEFINED ||
      dtype_bits(*out) == 0)
    return err_set(err, ERR_MODEL, "a recipe's '%s' is not an element type", key);
  return 0;
}

static int read_type(const struct json_value *v, struct type_read *t, struct err *err) {
  if (read_dtype(v, "dtype", &t->dtype, err)) return -1;
  if (read_longs(v, "dims", t->dims, &t->rank, err)) return -1;
  return measure_type(t, err);
}

static int read_hex(const struct json_value *v, struct arena *scratch, struct span *out,
                    struct err *err) {
  struct span text;
  if (!json_as_string(v, &text) || text.n % 2) return bad(err, "has bytes that are not hex");
  uint8_t *bytes = arena_alloc(scratch, text.n / 2 + 1);
  if (!hex_decode(text, bytes, text.n / 2)) return bad(err, "has bytes that are not hex");
  *out = span_of(bytes, text.n / 2);
  return 0;
}

static int read_checkpoints(const struct json_value *v, struct piece *p, uint64_t **points,
                            uint32_t *n_points, size_t *cap, struct err *err) {
  uint64_t want = (p->count + CHECKPOINT_ENTRIES - 1) / CHECKPOINT_ENTRIES;
  if (!json_is_array(v) || json_count(v) != want)
    return bad(err, "has the wrong number of varint checkpoints");
  p->checkpoint = *n_points;
  *points = table_grow(*points, cap, *n_points + want, sizeof **points);
  uint64_t last = 0;
  for (const struct json_value *x = json_first(v); x; x = json_next(x)) {
    uint64_t at;
    if (!json_as_uint(x, &at) || at < last || at >= p->at.len)
      return bad(err, "has a varint checkpoint outside its piece");
    last = at;
    (*points)[(*n_points)++] = at;
  }
  return 0;
}

// The fixed numbers of a piece: [file, off, len] or [file, off, len, entries, tag_bytes, …].
static int read_piece_numbers(const struct reading *in, const struct json_value *v, bool raw,
                              struct piece *p, const struct json_value **rest, struct err *err) {
  uint64_t x[5] = {0};
  const struct json_value *e = json_is_array(v) ? json_first(v) : NULL;
  for (int i = 0; i < (raw ? 3 : 5); i++, e = json_next(e))
    if (!e || !json_as_uint(e, &x[i])) return bad(err, "has a piece that is not a list of numbers");
  *rest = e;
  if (x[0] >= in->n_files || !range_fits(x[1], x[2], in->file_sizes[x[0]]))
    return err_set(err, ERR_MODEL,
                   "a recipe's piece [%llu,%llu,%llu] lies outside the source files",
                   (unsigned long long)x[0], (unsigned long long)x[1], (unsigned long long)x[2]);
  if (x[4] > 10 || (!raw && x[3] > x[2])) return bad(err, "has a piece with impossible counts");
  *p = (struct piece){.at = {x[1], x[2], (uint32_t)x[0]},
                      .count = raw ? x[2] : x[3],
                      .tag_bytes = (uint32_t)x[4],
                      .checkpoint = NO_ID};
  return 0;
}

// Entries (RAW: bytes) that pieces of this encoding must have in total.
static uint64_t entries_of(enum encoding encoding, const struct type_read *t) {
  switch (encoding) {
  case ENCODING_FIXED32: return t->bytes / 4;
  case ENCODING_FIXED64: return t->bytes / 8;
  case ENCODING_VARINT:
    return dtype_bits(t->dtype) == 4 || dtype_bits(t->dtype) == 2 ? t->bytes : t->count;
  default: return t->bytes;
  }
}

// Typed fields hold the types that ONNX lets them hold: all else has no defined elements.
static bool encoding_fits(enum encoding encoding, enum dtype dtype) {
  const char field = dtype_field(dtype);
  switch (encoding) {
  case ENCODING_FIXED32: return field == 'F';
  case ENCODING_FIXED64: return field == 'D';
  case ENCODING_VARINT: return field == 'I' || field == 'L' || field == 'U';
  default: return true;
  }
}

static bool piece_length_ok(enum encoding encoding, const struct piece *p) {
  uint64_t width = encoding == ENCODING_FIXED32 ? 4 : encoding == ENCODING_FIXED64 ? 8 : 0;
  if (width == 0) return true;
  uint64_t want;
  return !mul_overflows(p->count, width + p->tag_bytes, &want) && want == p->at.len;
}

static int read_encoding(const struct json_value *v, enum encoding *out, struct err *err) {
  struct span name;
  if (!json_as_string(json_get(v, "encoding"), &name)) return bad(err, "has no encoding");
  for (int i = 0; i < N_ENCODINGS; i++)
    if (span_is(name, encodings[i])) {
      *out = (enum encoding)i;
      return 0;
    }
  return bad(err, "has an unknown encoding");
}

struct pieces_read {
  struct piece *list;
  uint32_t n;
  size_t cap;
  TABLE(uint64_t, points);
};

static int read_pieces(const struct reading *in, const struct json_value *list,
                       enum encoding encoding, struct pieces_read *out, uint64_t *entries,
                       struct err *err) {
  for (const struct json_value *x = json_first(list); x; x = json_next(x)) {
    struct piece p;
    const struct json_value *rest;
    if (read_piece_numbers(in, x, encoding == ENCODING_RAW, &p, &rest, err)) return -1;
    if (!piece_length_ok(encoding, &p))
      return bad(err, "has a piece whose length is not its entries'");
    if (encoding == ENCODING_VARINT &&
        read_checkpoints(rest, &p, &out->points, &out->n_points, &out->points_cap, err))
      return -1;
    p.first = *entries;
    if (add_overflows(*entries, p.count, entries)) return bad(err, "has too many entries");
    out->list = table_grow(out->list, &out->cap, (size_t)out->n + 1, sizeof *out->list);
    out->list[out->n++] = p;
  }
  return 0;
}

static int read_extent(const struct reading *in, const struct json_value *v, uint32_t *id,
                       struct err *err) {
  struct type_read t;
  enum encoding encoding;
  const struct json_value *list = json_get(v, "extent");
  if (read_type(v, &t, err) || read_encoding(v, &encoding, err)) return -1;
  if (!json_is_array(list)) return bad(err, "has an extent that is not a list");
  if (!encoding_fits(encoding, t.dtype))
    return err_set(err, ERR_MODEL, "a recipe's elements of %s cannot be encoded as %s",
                   dtype_name(t.dtype), encodings[encoding]);
  struct pieces_read pieces = {0};
  uint64_t entries = 0;
  int rc = read_pieces(in, list, encoding, &pieces, &entries, err);
  if (rc == 0 && entries != entries_of(encoding, &t))
    rc = err_set(err, ERR_MODEL, "a recipe's pieces hold %llu entries where %s of %s needs %llu",
                 (unsigned long long)entries, quote_dims(t.dims, t.rank).s, dtype_name(t.dtype),
                 (unsigned long long)entries_of(encoding, &t));
  if (rc == 0)
    *id = recipe_extent(in->r, t.dtype, t.dims, t.rank, encoding, pieces.list, pieces.n,
                        pieces.points);
  table_free(pieces.list, pieces.cap, sizeof *pieces.list);
  table_free(pieces.points, pieces.points_cap, sizeof *pieces.points);
  return rc;
}

static int read_literal(const struct reading *in, const struct json_value *v, bool fill,
                        uint32_t *id, struct err *err) {
  struct type_read t;
  struct span bytes;
  struct arena scratch = {0};
  int rc = read_type(v, &t, err);
  if (rc == 0) rc = read_hex(json_get(v, fill ? "fill" : "bytes"), &scratch, &bytes, err);
  uint64_t want = fill ? (dtype_bits(t.dtype) + 7) / 8 : t.bytes;
  if (rc == 0 && bytes.n != want) rc = bad(err, "has literal bytes of the wrong length");
  if (rc == 0)
    *id = fill ? recipe_fill(in->r, t.dtype, t.dims, t.rank, bytes)
               : recipe_bytes(in->r, t.dtype, t.dims, t.rank, bytes);
  arena_free(&scratch);
  return rc;
}

static int read_any(struct reading *in, const struct json_value *v, uint32_t *id, struct err *err);

static int read_operand(struct reading *in, const struct json_value *v, uint32_t *id,
                        struct err *err) {
  if (in->leaves) return read_any(in, v, id, err);
  uint64_t x;
  if (!json_as_uint(v, &x) || x >= in->r->n_rows)
    return bad(err, "has an operand that is not an earlier recipe");
  *id = (uint32_t)x;
  return 0;
}

static int read_reshape(struct reading *in, const struct json_value *v, uint32_t of, uint32_t *id,
                        struct err *err) {
  struct type_read t = {.dtype = (enum dtype)in->r->rows[of].dtype};
  if (read_longs(v, "dims", t.dims, &t.rank, err) || measure_type(&t, err)) return -1;
  if (t.count != in->r->rows[of].count) return bad(err, "reshapes to another number of elements");
  *id = recipe_reshape(in->r, of, t.dims, t.rank);
  return 0;
}

static int read_transpose(struct reading *in, const struct json_value *v, uint32_t of, uint32_t *id,
                          struct err *err) {
  int64_t perm[RECIPE_MAX_RANK];
  uint32_t n;
  uint64_t seen = 0;
  if (read_longs(v, "perm", perm, &n, err)) return -1;
  if (n != in->r->rows[of].rank) return bad(err, "has a perm of another rank than its operand");
  for (uint32_t i = 0; i < n; i++) {
    if (perm[i] < 0 || perm[i] >= n || (seen >> perm[i] & 1))
      return bad(err, "has a perm that is not a permutation");
    seen |= (uint64_t)1 << perm[i];
  }
  *id = recipe_transpose(in->r, of, perm);
  return 0;
}

// Is every position that the slice takes from an axis of length `in` inside it?
static bool slice_fits(int64_t in, int64_t at, int64_t step, int64_t n) {
  int64_t span, last;
  if (step == 0 || n < 0) return false;
  if (n == 0) return true;
  if (at < 0 || at >= in) return false;
  if (__builtin_mul_overflow(n - 1, step, &span) || __builtin_add_overflow(at, span, &last))
    return false;
  return last >= 0 && last < in;
}

static int read_slice(struct reading *in, const struct json_value *v, uint32_t of, uint32_t *id,
                      struct err *err) {
  int64_t starts[RECIPE_MAX_RANK], steps[RECIPE_MAX_RANK], dims[RECIPE_MAX_RANK];
  uint32_t a, b, c, rank = in->r->rows[of].rank;
  if (read_longs(v, "starts", starts, &a, err) || read_longs(v, "steps", steps, &b, err) ||
      read_longs(v, "dims", dims, &c, err))
    return -1;
  if (a != rank || b != rank || c != rank) return bad(err, "has a slice of another rank");
  for (uint32_t i = 0; i < rank; i++)
    if (!slice_fits(recipe_dims(in->r, of)[i], starts[i], steps[i], dims[i]))
      return bad(err, "has a slice that leaves its operand");
  *id = recipe_slice(in->r, of, starts, steps, dims);
  return 0;
}

static int read_pad(struct reading *in, const struct json_value *v, uint32_t of, uint32_t *id,
                    struct err *err) {
  int64_t befores[RECIPE_MAX_RANK], afters[RECIPE_MAX_RANK];
  uint32_t a, b;
  struct type_read t = {.dtype = (enum dtype)in->r->rows[of].dtype, .rank = in->r->rows[of].rank};
  struct span value;
  if (read_longs(v, "befores", befores, &a, err) || read_longs(v, "afters", afters, &b, err))
    return -1;
  if (a != t.rank || b != t.rank) return bad(err, "has a pad of another rank");
  for (uint32_t i = 0; i < t.rank; i++) {
    int64_t sum;
    if (befores[i] < 0 || afters[i] < 0 || __builtin_add_overflow(befores[i], afters[i], &sum) ||
        __builtin_add_overflow(sum, recipe_dims(in->r, of)[i], &t.dims[i]))
      return bad(err, "has a pad that is negative or too large");
  }
  if (measure_type(&t, err)) return -1;
  struct arena scratch = {0};
  int rc = read_hex(json_get(v, "value"), &scratch, &value, err);
  if (rc == 0 && value.n != (dtype_bits(t.dtype) + 7) / 8)
    rc = bad(err, "has a pad value of the wrong length");
  if (rc == 0) *id = recipe_pad(in->r, of, befores, afters, value);
  arena_free(&scratch);
  return rc;
}

static int read_cast(struct reading *in, const struct json_value *v, uint32_t of, uint32_t *id,
                     struct err *err) {
  enum dtype to;
  bool clips = false;
  if (read_dtype(v, "to", &to, err)) return -1;
  if (json_get(v, "clip") && !json_as_bool(json_get(v, "clip"), &clips))
    return bad(err, "casts with a 'clip' that is neither true nor false");
  if (!recipe_can_cast((enum dtype)in->r->rows[of].dtype, to))
    return err_set(err, ERR_MODEL, "a recipe casts %s to %s, which is not offered",
                   dtype_name((enum dtype)in->r->rows[of].dtype), dtype_name(to));
  *id = clips ? recipe_cast_clipped(in->r, of, to) : recipe_cast(in->r, of, to);
  return 0;
}

// A number that fits 32 bits, or `otherwise` if the key is absent.
static int read_uint32(const struct json_value *v, const char *key, uint32_t otherwise,
                       uint32_t *out, struct err *err) {
  const struct json_value *x = json_get(v, key);
  uint64_t n = otherwise;
  if ((x && !json_as_uint(x, &n)) || n > UINT32_MAX)
    return err_set(err, ERR_MODEL, "a recipe's '%s' is not a number that fits 32 bits", key);
  *out = (uint32_t)n;
  return 0;
}

static int read_quantize(struct reading *in, const struct json_value *v, uint32_t of, uint32_t *id,
                         struct err *err) {
  struct recipe_quantization q = {0};
  enum recipe_part part;
  struct span text;
  if (!json_as_string(json_get(v, "part"), &text) || !recipe_part_by_name(text, &part))
    return bad(err, "quantizes to a part that is not one of codes, scales, zeros");
  if (!json_as_string(json_get(v, "format"), &text) || !recipe_format_by_name(text, &q.format))
    return bad(err, "quantizes to an unknown format");
  if (!json_as_bool(json_get(v, "symmetric"), &q.symmetric) ||
      !json_as_uint(json_get(v, "block"), &q.block))
    return bad(err, "quantizes without saying 'symmetric' and 'block'");
  if (read_uint32(v, "bits", 0, &q.bits, err) || read_uint32(v, "levels", 0, &q.levels, err) ||
      read_uint32(v, "axis", RECIPE_PER_TENSOR, &q.axis, err))
    return -1;
  if (!recipe_can_quantize(in->r, of, &q, part))
    return err_set(err, ERR_MODEL, "a recipe's %s of %s %s quantized as %s do not exist",
                   recipe_part_name(part), dtype_name((enum dtype)in->r->rows[of].dtype),
                   quote_dims(recipe_dims(in->r, of), in->r->rows[of].rank).s,
                   recipe_format_row(q.format)->name);
  *id = recipe_quantize(in->r, of, &q, part);
  return 0;
}

// Do the operands agree in everything but the axis, and does their sum have a size?
static int check_concat(const struct recipes *r, const uint32_t *of, uint32_t n, uint64_t axis,
                        struct err *err) {
  const struct recipe *x = &r->rows[of[0]];
  struct type_read t = {.dtype = (enum dtype)x->dtype, .rank = x->rank};
  if (axis >= t.rank) return bad(err, "concatenates along an axis it does not have");
  memcpy(t.dims, recipe_dims(r, of[0]), t.rank * sizeof t.dims[0]);
  for (uint32_t i = 1; i < n; i++) {
    const int64_t *d = recipe_dims(r, of[i]);
    if (r->rows[of[i]].rank != t.rank || r->rows[of[i]].dtype != x->dtype)
      return bad(err, "concatenates operands of different types");
    for (uint32_t k = 0; k < t.rank; k++)
      if (k != axis && d[k] != t.dims[k]) return bad(err, "concatenates operands that do not fit");
    if (__builtin_add_overflow(t.dims[axis], d[axis], &t.dims[axis]))
      return bad(err, "concatenates to too many elements");
  }
  return measure_type(&t, err);
}

static int read_concat(struct reading *in, const struct json_value *v, uint32_t *id,
                       struct err *err) {
  const struct json_value *list = json_get(v, "concat");
  uint64_t axis;
  size_t n = json_count(list);
  if (!json_is_array(list) || n == 0) return bad(err, "concatenates nothing");
  if (!json_as_uint(json_get(v, "axis"), &axis)) return bad(err, "concatenates along no axis");
  struct arena scratch = {0};
  uint32_t *of = arena_alloc(&scratch, n * sizeof *of);
  uint32_t i = 0;
  int rc = 0;
  for (const struct json_value *x = json_first(list); x && rc == 0; x = json_next(x))
    rc = read_operand(in, x, &of[i++], err);
  if (rc == 0) rc = check_concat(in->r, of, i, axis, err);
  if (rc == 0) *id = recipe_concat(in->r, of, i, (uint32_t)axis);
  arena_free(&scratch);
  return rc;
}

static int read_operation(struct reading *in, enum recipe_kind kind, const struct json_value *v,
                          uint32_t *id, struct err *err) {
  uint32_t of;
  if (read_operand(in, json_get(v, operation_keys[kind]), &of, err)) return -1;
  switch (kind) {
  case RECIPE_RESHAPE: return read_reshape(in, v, of, id, err);
  case RECIPE_TRANSPOSE: return read_transpose(in, v, of, id, err);
  case RECIPE_SLICE: return read_slice(in, v, of, id, err);
  case RECIPE_PAD: return read_pad(in, v, of, id, err);
  case RECIPE_QUANTIZE: return read_quantize(in, v, of, id, err);
  default: return read_cast(in, v, of, id, err);
  }
}

// Which operation is it? Its key tells.
static int kind_of(const struct json_value *v, enum recipe_kind *kind, struct err *err) {
  for (int k = 0; k < N_KINDS; k++)
    if (json_get(v, operation_keys[k])) {
      *kind = (enum recipe_kind)k;
      return 0;
    }
  return bad(err, "names no operation");
}

// Nesting is bounded by json_parse's own limit, so this recursion is too.
static int read_any(struct reading *in, const struct json_value *v, uint32_t *id, struct err *err) {
  enum recipe_kind kind;
  if (!json_is_object(v)) return bad(err, "is not an object");
  if (in->leaves && in->leaves->read) {
    int rc = in->leaves->read(in->leaves->ctx, v, id, err);
    if (rc) return rc < 0 ? -1 : 0;
  }
  if (kind_of(v, &kind, err)) return -1;
  switch (kind) {
  case RECIPE_EXTENT: return read_extent(in, v, id, err);
  case RECIPE_BYTES: return read_literal(in, v, false, id, err);
  case RECIPE_FILL: return read_literal(in, v, true, id, err);
  case RECIPE_CONCAT: return read_concat(in, v, id, err);
  default: return read_operation(in, kind, v, id, err);
  }
}

int recipe_json_read(struct recipes *r, const struct json_value *v,
                     const struct recipe_json_leaves *leaves, uint32_t *id, struct err *err) {
  assert(leaves);
  struct reading in = {
      .r = r, .leaves = leaves, .n_files = leaves->n_files, .file_sizes = leaves->file_sizes};
  return read_any(&in, v, id, err);
}

int recipe_json_read_row(struct recipes *r, const struct json_value *v, uint32_t n_files,
                         const uint64_t *file_sizes, struct err *err) {
  struct reading in = {.r = r, .n_files = n_files, .file_sizes = file_sizes};
  uint32_t want = r->n_rows, id;
  if (read_any(&in, v, &id, err)) return -1;
  if (id != want)
    return err_set(err, ERR_MODEL, "recipe %u is not in canonical form (it equals recipe %u)", want,
                   id);
  return 0;
}
