// The recipe table: immutable rows, found again by hash so that equal recipes are one row.
//
// Canonical form is what makes "the same bytes" mean "the same id":
//
//   reshape(extent | bytes | fill)       → the leaf with other dims
//   reshape(reshape(x))                  → reshape(x);  reshape to the same dims → x
//   transpose(transpose(x))              → transpose(x) with composed perm; identity perm → x
//   transpose moving only length-1 axes  → reshape
//   slice that takes everything          → x;  concat of one → x;  pad by nothing → x;  cast to self → x
//   quantize of a transpose or reshape   → recipe_quantize.c
//
// A transpose keeps its operand's dims as they are: evaluation merges axes that stay adjacent.
#include "recipe.h"

#include "recipe_rows.h"

#include <assert.h>

void recipes_init(struct recipes *r) {
  *r = (struct recipes){0};
}

void recipes_free(struct recipes *r) {
  TABLE_FREE(r, rows);
  TABLE_FREE(r, longs);
  TABLE_FREE(r, args);
  TABLE_FREE(r, pieces);
  TABLE_FREE(r, checkpoints);
  TABLE_FREE(r, bytes);
  TABLE_FREE(r, slots);
  recipes_init(r);
}

// ---- appending parts: every row's variable parts lie in shared tables --------------------------

// `from` must not lie in the table itself: it moves.
static uint32_t put_longs(struct recipes *r, const int64_t *from, uint32_t n) {
  uint32_t at = r->n_longs;
  if (n == 0) return at;
  assert(!r->longs || from < r->longs || from >= r->longs + r->n_longs);
  r->longs = table_grow(r->longs, &r->longs_cap, (size_t)at + n, sizeof *r->longs);
  memcpy(r->longs + at, from, n * sizeof *from);
  r->n_longs += n;
  return at;
}

static uint32_t put_bytes(struct recipes *r, struct span s) {
  uint32_t at = r->n_bytes;
  if (s.n == 0) return at;
  assert(s.n < UINT32_MAX - at);
  r->bytes = table_grow(r->bytes, &r->bytes_cap, at + s.n, 1);
  memcpy(r->bytes + at, s.at, s.n);
  r->n_bytes += (uint32_t)s.n;
  return at;
}

static uint32_t put_args(struct recipes *r, const uint32_t *from, uint32_t n) {
  uint32_t at = r->n_args;
  if (n == 0) return at;
  r->args = table_grow(r->args, &r->args_cap, (size_t)at + n, sizeof *r->args);
  memcpy(r->args + at, from, n * sizeof *from);
  r->n_args += n;
  return at;
}

static uint64_t piece_checkpoints(const struct piece *p) {
  return p->checkpoint == NO_ID ? 0 : (p->count + CHECKPOINT_ENTRIES - 1) / CHECKPOINT_ENTRIES;
}

static uint32_t put_pieces(struct recipes *r, const struct piece *from, uint32_t n,
                           const uint64_t *checkpoints) {
  uint32_t at = r->n_pieces;
  if (n == 0) return at;
  r->pieces = table_grow(r->pieces, &r->pieces_cap, (size_t)at + n, sizeof *r->pieces);
  for (uint32_t i = 0; i < n; i++) {
    struct piece p = from[i];
    uint64_t points = piece_checkpoints(&p);
    if (points) {
      r->checkpoints = table_grow(r->checkpoints, &r->checkpoints_cap, r->n_checkpoints + points,
                                  sizeof *r->checkpoints);
      memcpy(r->checkpoints + r->n_checkpoints, checkpoints + p.checkpoint, points * 8);
      p.checkpoint = r->n_checkpoints;
      r->n_checkpoints += (uint32_t)points;
    }
    r->pieces[at + i] = p;
  }
  r->n_pieces += n;
  return at;
}

// ---- equality and hash of rows -----------------------------------------------------------------

static uint32_t row_longs(const struct recipe *x) {
  switch ((enum recipe_kind)x->kind) {
  case RECIPE_TRANSPOSE: return x->rank;
  case RECIPE_SLICE:
  case RECIPE_PAD: return 2u * x->rank;
  case RECIPE_QUANTIZE: return RECIPE_QUANTIZE_LONGS;
  default: return 0;
  }
}

static struct span row_bytes(const struct recipes *r, const struct recipe *x) {
  uint32_t bits = dtype_bits((enum dtype)x->dtype);
  size_t element = (bits + 7) / 8;
  switch ((enum recipe_kind)x->kind) {
  case RECIPE_BYTES: return span_of(r->bytes + x->at, x->n);
  case RECIPE_FILL: return span_of(r->bytes + x->at, element);
  case RECIPE_PAD: return span_of(r->bytes + x->n, element);
  default: return span_of(NULL, 0);
  }
}

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 31;
}

static uint64_t row_hash(const struct recipes *r, const struct recipe *x) {
  uint64_t h = mix(x->kind, (uint64_t)x->dtype << 16 | (uint64_t)x->encoding << 8 | x->rank);
  for (uint32_t i = 0; i < x->rank; i++)
    h = mix(h, (uint64_t)r->longs[x->dims + i]);
  for (uint32_t i = 0; i < x->n_args; i++)
    h = mix(h, r->args[x->args + i]);
  for (uint32_t i = 0; i < row_longs(x); i++)
    h = mix(h, (uint64_t)r->longs[x->at + i]);
  if (x->kind == RECIPE_CONCAT || x->kind == RECIPE_CAST) h = mix(h, x->n);
  for (uint32_t i = 0; x->kind == RECIPE_EXTENT && i < x->n; i++) {
    const struct piece *p = &r->pieces[x->at + i];
    h = mix(mix(mix(h, p->at.off), p->at.len), p->at.file);
  }
  return mix(h, span_hash(row_bytes(r, x)));
}

static bool pieces_equal(const struct piece *a, const struct piece *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (a[i].at.off != b[i].at.off || a[i].at.len != b[i].at.len || a[i].at.file != b[i].at.file ||
        a[i].first != b[i].first || a[i].count != b[i].count || a[i].tag_bytes != b[i].tag_bytes)
      return false;
  return true;
}

static bool longs_equal(const struct recipes *r, uint32_t a, uint32_t b, uint32_t n) {
  return n == 0 || memcmp(r->longs + a, r->longs + b, n * sizeof *r->longs) == 0;
}

static bool rows_equal(const struct recipes *r, const struct recipe *a, const struct recipe *b) {
  if (a->kind != b->kind || a->dtype != b->dtype || a->encoding != b->encoding ||
      a->rank != b->rank || a->n_args != b->n_args)
    return false;
  if (!longs_equal(r, a->dims, b->dims, a->rank)) return false;
  if (!longs_equal(r, a->at, b->at, row_longs(a))) return false;
  if (a->n_args && memcmp(r->args + a->args, r->args + b->args, a->n_args * sizeof *r->args) != 0)
    return false;
  if ((a->kind == RECIPE_CONCAT || a->kind == RECIPE_CAST) && a->n != b->n) return false;
  if (a->kind == RECIPE_EXTENT)
    return a->n == b->n && pieces_equal(r->pieces + a->at, r->pieces + b->at, a->n);
  return span_eq(row_bytes(r, a), row_bytes(r, b));
}

// ---- interning ---------------------------------------------------------------------------------

// How far each table was filled before a row's parts were appended, to take them back.
struct mark {
  uint32_t longs, args, pieces, checkpoints, bytes;
};

static struct mark marked(const struct recipes *r) {
  return (struct mark){r->n_longs, r->n_args, r->n_pieces, r->n_checkpoints, r->n_bytes};
}

static void take_back(struct recipes *r, const struct mark *m) {
  r->n_longs = m->longs;
  r->n_args = m->args;
  r->n_pieces = m->pieces;
  r->n_checkpoints = m->checkpoints;
  r->n_bytes = m->bytes;
}

static void grow_slots(struct recipes *r) {
  uint32_t n = r->n_slots ? r->n_slots * 2 : 64;
  TABLE_FREE(r, slots);
  r->slots_cap = 0;
  r->slots = table_grow(NULL, &r->slots_cap, n, sizeof *r->slots);
  r->n_slots = n;
  memset(r->slots, 0xff, n * sizeof *r->slots);
  for (uint32_t id = 0; id < r->n_rows; id++) {
    uint64_t at = row_hash(r, &r->rows[id]);
    while (r->slots[at & (n - 1)] != NO_ID)
      at++;
    r->slots[at & (n - 1)] = id;
  }
}

// The id of row x, whose parts were appended since `before`; an equal row's id if there is one.
static uint32_t intern(struct recipes *r, struct recipe x, const struct mark *before) {
  uint64_t count;
  bool fits = dims_product(r->longs + x.dims, x.rank, &count) &&
              dtype_bytes((enum dtype)x.dtype, count, &x.bytes);
  assert(fits);
  x.count = count;
  if (r->n_rows * 2 >= r->n_slots) grow_slots(r);
  uint64_t at = row_hash(r, &x);
  for (;; at++) {
    uint32_t id = r->slots[at & (r->n_slots - 1)];
    if (id == NO_ID) break;
    if (rows_equal(r, &r->rows[id], &x)) {
      take_back(r, before);
      return id;
    }
  }
  uint32_t id = r->n_rows;
  r->rows = table_grow(r->rows, &r->rows_cap, (size_t)id + 1, sizeof *r->rows);
  r->rows[id] = x;
  r->n_rows++;
  r->slots[at & (r->n_slots - 1)] = id;
  return id;
}

// A row of the given kind with its dims and one operand appended.
static struct recipe start(struct recipes *r, enum recipe_kind kind, enum dtype dtype,
                           const int64_t *dims, uint32_t rank) {
  assert(rank <= RECIPE_MAX_RANK);
  return (struct recipe){.kind = (uint8_t)kind,
                         .dtype = (uint8_t)dtype,
                         .rank = (uint8_t)rank,
                         .dims = put_longs(r, dims, rank),
                         .args = r->n_args};
}

static void add_operand(struct recipes *r, struct recipe *x, uint32_t of) {
  assert(of < r->n_rows);
  x->args = put_args(r, &of, 1);
  x->n_args = 1;
}

// Dims of a row, copied out: the tables they lie in move when they grow.
static uint32_t copy_dims(const struct recipes *r, uint32_t id, int64_t dims[RECIPE_MAX_RANK]) {
  assert(id < r->n_rows);
  uint32_t rank = r->rows[id].rank;
  if (rank) memcpy(dims, recipe_dims(r, id), rank * sizeof *dims);
  return rank;
}

uint32_t recipe_rows_intern(struct recipes *r, const struct recipe *type, const int64_t *dims,
                            uint32_t of, const int64_t *longs, uint32_t n_longs) {
  struct mark before = marked(r);
  struct recipe x =
      start(r, (enum recipe_kind)type->kind, (enum dtype)type->dtype, dims, type->rank);
  add_operand(r, &x, of);
  x.at = put_longs(r, longs, n_longs);
  return intern(r, x, &before);
}

// ---- leaves ------------------------------------------------------------------------------------

uint32_t recipe_extent(struct recipes *r, enum dtype dtype, const int64_t *dims, uint32_t rank,
                       enum encoding encoding, const struct piece *pieces, uint32_t n_pieces,
                       const uint64_t *checkpoints) {
  struct mark before = marked(r);
  uint64_t count;
  bool fits = dims_product(dims, rank, &count);
  assert(fits);
  int64_t flat = (int64_t)count;
  struct recipe x = rank > RECIPE_MAX_RANK ? start(r, RECIPE_EXTENT, dtype, &flat, 1)
                                           : start(r, RECIPE_EXTENT, dtype, dims, rank);
  x.encoding = (uint8_t)encoding;
  x.at = put_pieces(r, pieces, n_pieces, checkpoints);
  x.n = n_pieces;
  return intern(r, x, &before);
}

uint32_t recipe_bytes(struct recipes *r, enum dtype dtype, const int64_t *dims, uint32_t rank,
                      struct span elements) {
  struct mark before = marked(r);
  struct recipe x = start(r, RECIPE_BYTES, dtype, dims, rank);
  x.at = put_bytes(r, elements);
  x.n = (uint32_t)elements.n;
  uint32_t id = intern(r, x, &before);
  assert(r->rows[id].bytes == elements.n);
  return id;
}

uint32_t recipe_fill(struct recipes *r, enum dtype dtype, const int64_t *dims, uint32_t rank,
                     struct span element) {
  struct mark before = marked(r);
  assert(element.n == (dtype_bits(dtype) + 7) / 8);
  struct recipe x = start(r, RECIPE_FILL, dtype, dims, rank);
  x.at = put_bytes(r, element);
  return intern(r, x, &before);
}

// ---- operations --------------------------------------------------------------------------------

static bool same_dims(const struct recipes *r, uint32_t id, const int64_t *dims, uint32_t rank) {
  return r->rows[id].rank == rank &&
         (rank == 0 || memcmp(recipe_dims(r, id), dims, rank * sizeof *dims) == 0);
}

// The same leaf (extent, bytes, fill) with other dims.
static uint32_t redimension(struct recipes *r, uint32_t of, const int64_t *dims, uint32_t rank) {
  struct mark before = marked(r);
  struct recipe x = r->rows[of];
  x.dims = put_longs(r, dims, rank);
  x.rank = (uint8_t)rank;
  return intern(r, x, &before);
}

uint32_t recipe_reshape(struct recipes *r, uint32_t of, const int64_t *dims, uint32_t rank) {
  uint64_t count;
  bool fits = dims_product(dims, rank, &count) && rank <= RECIPE_MAX_RANK;
  assert(fits && count == r->rows[of].count);
  if (r->rows[of].kind == RECIPE_RESHAPE) of = r->args[r->rows[of].args];
  if (same_dims(r, of, dims, rank)) return of;
  if (r->rows[of].n_args == 0) return redimension(r, of, dims, rank);
  struct mark before = marked(r);
  struct recipe x = start(r, RECIPE_RESHAPE, (enum dtype)r->rows[of].dtype, dims, rank);
  add_operand(r, &x, of);
  return intern(r, x, &before);
}

// True if the axes longer than 1 keep their order under perm (or there are no elements at all):
// then no element moves.
static bool keeps_order(const int64_t *dims, const int64_t *perm, uint32_t rank, uint64_t count) {
  int64_t last = -1;
  for (uint32_t i = 0; i < rank && count > 0; i++) {
    if (dims[perm[i]] == 1) continue;
    if (perm[i] < last) return false;
    last = perm[i];
  }
  return true;
}

uint32_t recipe_transpose(struct recipes *r, uint32_t of, const int64_t *perm) {
  int64_t in[RECIPE_MAX_RANK], out[RECIPE_MAX_RANK], composed[RECIPE_MAX_RANK];
  uint32_t rank = r->rows[of].rank;
  if (rank) memcpy(composed, perm, rank * sizeof *perm);
  if (r->rows[of].kind == RECIPE_TRANSPOSE) {
    const int64_t *inner = r->longs + r->rows[of].at;
    for (uint32_t i = 0; i < rank; i++)
      composed[i] = inner[perm[i]];
    of = r->args[r->rows[of].args];
  }
  copy_dims(r, of, in);
  uint64_t seen = 0;
  for (uint32_t i = 0; i < rank; i++) {
    assert(composed[i] >= 0 && composed[i] < rank && !(seen >> composed[i] & 1));
    seen |= (uint64_t)1 << composed[i];
    out[i] = in[composed[i]];
  }
  if (keeps_order(in, composed, rank, r->rows[of].count)) return recipe_reshape(r, of, out, rank);
  struct mark before = marked(r);
  struct recipe x = start(r, RECIPE_TRANSPOSE, (enum dtype)r->rows[of].dtype, out, rank);
  add_operand(r, &x, of);
  x.at = put_longs(r, composed, rank);
  return intern(r, x, &before);
}

uint32_t recipe_slice(struct recipes *r, uint32_t of, const int64_t *starts, const int64_t *steps,
                      const int64_t *dims) {
  int64_t in[RECIPE_MAX_RANK];
  uint32_t rank = copy_dims(r, of, in);
  bool all = true;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t last = starts[i] + (dims[i] - 1) * steps[i];
    assert(steps[i] != 0 && dims[i] >= 0);
    assert(dims[i] == 0 || (starts[i] >= 0 && starts[i] < in[i] && last >= 0 && last < in[i]));
    if (dims[i] != in[i] || (steps[i] != 1 && dims[i] > 1)) all = false;
  }
  if (all) return of;
  struct mark before = marked(r);
  struct recipe x = start(r, RECIPE_SLICE, (enum dtype)r->rows[of].dtype, dims, rank);
  add_operand(r, &x, of);
  x.at = put_longs(r, starts, rank);
  put_longs(r, steps, rank);
  return intern(r, x, &before);
}

uint32_t recipe_concat(struct recipes *r, const uint32_t *of, uint32_t n, uint32_t axis) {
  assert(n > 0);
  if (n == 1) return of[0];
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t rank = copy_dims(r, of[0], dims);
  assert(axis < rank);
  for (uint32_t i = 1; i < n; i++) {
    const int64_t *d = recipe_dims(r, of[i]);
    assert(r->rows[of[i]].rank == rank && r->rows[of[i]].dtype == r->rows[of[0]].dtype);
    for (uint32_t k = 0; k < rank; k++)
      assert(k == axis || d[k] == dims[k]);
    dims[axis] += d[axis];
  }
  struct mark before = marked(r);
  struct recipe x = start(r, RECIPE_CONCAT, (enum dtype)r->rows[of[0]].dtype, dims, rank);
  x.args = put_args(r, of, n);
  x.n_args = n;
  x.n = axis;
  return intern(r, x, &before);
}

uint32_t recipe_pad(struct recipes *r, uint32_t of, const int64_t *befores, const int64_t *afters,
                    struct span element) {
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t rank = copy_dims(r, of, dims);
  bool nothing = true;
  for (uint32_t i = 0; i < rank; i++) {
    assert(befores[i] >= 0 && afters[i] >= 0);
    if (befores[i] || afters[i]) nothing = false;
    dims[i] += befores[i] + afters[i];
  }
  if (nothing) return of;
  assert(element.n == (dtype_bits((enum dtype)r->rows[of].dtype) + 7) / 8);
  struct mark before = marked(r);
  struct recipe x = start(r, RECIPE_PAD, (enum dtype)r->rows[of].dtype, dims, rank);
  add_operand(r, &x, of);
  x.at = put_longs(r, befores, rank);
  put_longs(r, afters, rank);
  x.n = put_bytes(r, element);
  return intern(r, x, &before);
}

static bool castable(enum dtype t) {
  return t == DTYPE_FLOAT || t == DTYPE_FLOAT16 || t == DTYPE_BFLOAT16 || t == DTYPE_DOUBLE;
}

bool recipe_can_cast(enum dtype from, enum dtype to) {
  return castable(from) && castable(to);
}

static uint32_t put_cast(struct recipes *r, uint32_t of, enum dtype to, bool clips) {
  enum dtype from = (enum dtype)r->rows[of].dtype;
  assert(recipe_can_cast(from, to));
  if (from == to) return of;
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t rank = copy_dims(r, of, dims);
  struct mark before = marked(r);
  struct recipe x = start(r, RECIPE_CAST, to, dims, rank);
  x.n = clips;
  add_operand(r, &x, of);
  return intern(r, x, &before);
}

uint32_t recipe_cast(struct recipes *r, uint32_t of, enum dtype to) {
  return put_cast(r, of, to, false);
}

uint32_t recipe_cast_clipped(struct recipes *r, uint32_t of, enum dtype to) {
  return put_cast(r, of, to, true);
}

bool recipe_cast_clips(const struct recipes *r, uint32_t id) {
  assert(r->rows[id].kind == RECIPE_CAST);
  return r->rows[id].n != 0;
}

bool recipe_is_copy(const struct recipes *r, uint32_t id, struct extent *at) {
  const struct recipe *x = &r->rows[id];
  if (x->kind != RECIPE_EXTENT || x->n != 1) return false;
  const struct piece *p = &r->pieces[x->at];
  bool packed_bytes =
      x->encoding == ENCODING_RAW ||
      (p->tag_bytes == 0 && (x->encoding == ENCODING_FIXED32 || x->encoding == ENCODING_FIXED64));
  if (!packed_bytes || p->at.len != x->bytes) return false;
  *at = p->at;
  return true;
}
