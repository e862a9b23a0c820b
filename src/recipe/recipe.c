// The table of recipes: immutable rows, found again by hash so that equal recipes are one row.
//
//   rows    [kind dtype rank | dims args at n | count bytes]
//                               │    │    └──▶ longs: numbers   pieces: places in files   bytes: elements
//                               │    └───────▶ args: operands, which are earlier rows
//                               └────────────▶ longs: dims
//
// A new row appends its parts to the tables that all rows share; if an equal row exists, the parts
// are removed again. A kind's row in kinds.def says which parts the kind has; the table knows no kind
// by name. Equal bytes have equal ids because each kind brings its rows into canonical form:
// recipe_moves.c (kinds that only move elements), recipe_math.c and recipe_quantize.c.
//
// A row refers to earlier rows only. So there are no cycles, and a reader that takes the rows in order
// of their ids knows every operand.
#include "recipe/recipe.h"

#include "recipe/inside/recipe_rows.h"

#include <assert.h>

void recipes_init(struct recipes *r) {
  *r = (struct recipes){0};
}

void recipes_free(struct recipes *r) {
  TABLES_FREE(r, rows, longs, args, pieces, checkpoints, bytes, slots);
  recipes_init(r);
}

void recipes_copy(struct recipes *to, const struct recipes *from) {
  recipes_init(to);
  TABLE_COPY(to, from, rows);
  TABLE_COPY(to, from, longs);
  TABLE_COPY(to, from, args);
  TABLE_COPY(to, from, pieces);
  TABLE_COPY(to, from, checkpoints);
  TABLE_COPY(to, from, bytes);
  TABLE_COPY(to, from, slots);
}

// ---- appending parts: all rows store their variable parts in shared tables ---------------------

// `from` must not point into the table itself, which may move.
static uint32_t put_longs(struct recipes *r, const int64_t *from, uint32_t n) {
  uint32_t at = r->n_longs;
  if (n == 0) return at;
  assert(!r->longs || from < r->longs || from >= r->longs + r->n_longs);
  r->longs = table_grow(r->longs, &r->longs_cap, (size_t)at + n, sizeof *r->longs);
  memcpy(r->longs + at, from, n * sizeof *from);
  r->n_longs += n;
  return at;
}

// A leaf with other dims shares the elements and pieces that the table has.
static uint32_t put_bytes(struct recipes *r, struct span s) {
  uint32_t at = r->n_bytes;
  if (s.n == 0) return at;
  if (r->bytes && s.at >= r->bytes && s.at < r->bytes + at) return (uint32_t)(s.at - r->bytes);
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
  if (r->pieces && from >= r->pieces && from < r->pieces + at) return (uint32_t)(from - r->pieces);
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

// ---- what a row holds, by its kind --------------------------------------------------------------

static const struct recipe_kind_row kinds[] = {
#define KIND(id, word, what, axes, more, place, stem, ...)                                         \
  [RECIPE_##id] = {.name = word,                                                                   \
                   .holds = RECIPE_##what,                                                         \
                   .per_axis = axes,                                                               \
                   .numbers = more,                                                                \
                   .where = RECIPE_##place,                                                        \
                   .fits = stem##_fits,                                                            \
                   .make = stem,                                                                   \
                   .members = {__VA_ARGS__}},
#include "recipe/kinds.def"
};

const struct recipe_kind_row *recipe_rows_kind(enum recipe_kind kind) {
  assert(kind < RECIPE_KINDS);
  return &kinds[kind];
}

const char *recipe_kind_name(enum recipe_kind kind) {
  return recipe_rows_kind(kind)->name;
}

static uint32_t longs_of(const struct recipe *x) {
  const struct recipe_kind_row *k = &kinds[x->kind];
  return k->where == RECIPE_AT ? k->per_axis * x->rank + k->numbers : 0;
}

static bool has_element(const struct recipe_kind_row *k) {
  bool has = k->holds == RECIPE_ELEMENT;
  for (const struct recipe_member *m = k->members; m->key; m++)
    has |= m->type == MEMBER_ELEMENT;
  return has;
}

struct span recipe_elements(const struct recipes *r, uint32_t id) {
  const struct recipe *x = &r->rows[id];
  const struct recipe_kind_row *k = &kinds[x->kind];
  if (k->holds == RECIPE_ELEMENTS) return span_of(r->bytes + x->at, x->n);
  if (!has_element(k)) return span_of(NULL, 0);
  return span_of(r->bytes + (k->holds == RECIPE_ELEMENT ? x->at : x->n),
                 (dtype_bits((enum dtype)x->dtype) + 7) / 8);
}

const int64_t *recipe_rows_axes(const struct recipes *r, uint32_t id, uint32_t i) {
  const struct recipe *x = &r->rows[id];
  assert(i < kinds[x->kind].per_axis);
  return r->longs + x->at + i * x->rank;
}

int64_t recipe_rows_number(const struct recipes *r, uint32_t id, uint32_t i) {
  const struct recipe *x = &r->rows[id];
  const struct recipe_kind_row *k = &kinds[x->kind];
  assert(i < k->numbers);
  return k->where == RECIPE_N ? x->n : r->longs[x->at + k->per_axis * x->rank + i];
}

// ---- equality and hash of rows -----------------------------------------------------------------

// A row that is being added has no id yet; it counts as the row after the last.
static struct span elements_at(const struct recipes *r, const struct recipe *x) {
  const struct recipes one = {.rows = (struct recipe *)x, .bytes = r->bytes};
  return recipe_elements(&one, 0);
}

static uint64_t row_hash(const struct recipes *r, const struct recipe *x) {
  const struct recipe_kind_row *k = &kinds[x->kind];
  uint64_t h =
      span_hash_mix(x->kind, (uint64_t)x->dtype << 16 | (uint64_t)x->encoding << 8 | x->rank);
  for (uint32_t i = 0; i < x->rank; i++)
    h = span_hash_mix(h, (uint64_t)r->longs[x->dims + i]);
  for (uint32_t i = 0; i < x->n_args; i++)
    h = span_hash_mix(h, r->args[x->args + i]);
  for (uint32_t i = 0; i < longs_of(x); i++)
    h = span_hash_mix(h, (uint64_t)r->longs[x->at + i]);
  if (k->where == RECIPE_N) h = span_hash_mix(h, x->n);
  for (uint32_t i = 0; k->holds == RECIPE_PIECES && i < x->n; i++) {
    const struct piece *p = &r->pieces[x->at + i];
    h = span_hash_mix(span_hash_mix(span_hash_mix(h, p->at.off), p->at.len), p->at.file);
  }
  return span_hash_mix(h, span_hash(elements_at(r, x)));
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
  if (!longs_equal(r, a->at, b->at, longs_of(a))) return false;
  if (a->n_args && memcmp(r->args + a->args, r->args + b->args, a->n_args * sizeof *r->args) != 0)
    return false;
  const struct recipe_kind_row *k = &kinds[a->kind];
  if (k->where == RECIPE_N && a->n != b->n) return false;
  if (k->holds == RECIPE_PIECES)
    return a->n == b->n && pieces_equal(r->pieces + a->at, r->pieces + b->at, a->n);
  return span_eq(elements_at(r, a), elements_at(r, b));
}

// ---- interning ---------------------------------------------------------------------------------

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

// Passes compute only from rows that are at least this far below the largest depth.
enum { ROOM_TO_GROW = 19 };

bool recipe_can_grow(const struct recipes *r, uint32_t id) {
  return r->rows[id].depth <= RECIPE_MAX_DEPTH - ROOM_TO_GROW;
}

static uint32_t depth_of(const struct recipes *r, const struct recipe *row) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < row->n_args; i++)
    if (r->rows[r->args[row->args + i]].depth > most) most = r->rows[r->args[row->args + i]].depth;
  return most + 1;
}

static struct recipe append_parts(struct recipes *r, const struct recipe_asked *x) {
  const struct recipe_kind_row *k = &kinds[x->kind];
  struct recipe row = {.kind = (uint8_t)x->kind,
                       .dtype = (uint8_t)x->dtype,
                       .rank = (uint8_t)x->rank,
                       .dims = put_longs(r, x->dims, x->rank)};
  if (k->holds == RECIPE_OPERAND || k->holds == RECIPE_OPERANDS) {
    row.args = put_args(r, x->of, x->n_of);
    row.n_args = x->n_of;
  }
  if (k->holds == RECIPE_PIECES) {
    row.encoding = (uint8_t)x->encoding;
    row.at = put_pieces(r, x->pieces, x->n_pieces, x->checkpoints);
    row.n = x->n_pieces;
  } else if (k->holds == RECIPE_ELEMENTS || k->holds == RECIPE_ELEMENT) {
    row.at = put_bytes(r, x->elements);
    if (k->holds == RECIPE_ELEMENTS) row.n = (uint32_t)x->elements.n;
  } else {
    row.at = put_longs(r, x->numbers, longs_of(&row));
    if (k->where == RECIPE_N) row.n = (uint32_t)x->numbers[0];
    if (has_element(k)) row.n = put_bytes(r, x->elements);
  }
  return row;
}

uint32_t recipe_rows_put(struct recipes *r, const struct recipe_asked *x) {
  const uint32_t longs = r->n_longs, args = r->n_args, pieces = r->n_pieces, bytes = r->n_bytes,
                 checkpoints = r->n_checkpoints;
  struct recipe row = append_parts(r, x);
  const bool sized =
      dims_product(x->dims, x->rank, &row.count) && dtype_bytes(x->dtype, row.count, &row.bytes);
  assert(sized);
  if (r->n_rows * 2 >= r->n_slots) grow_slots(r);
  uint64_t at = row_hash(r, &row);
  for (;; at++) {
    const uint32_t id = r->slots[at & (r->n_slots - 1)];
    if (id == NO_ID) break;
    if (!rows_equal(r, &r->rows[id], &row)) continue;
    r->n_longs = longs;
    r->n_args = args;
    r->n_pieces = pieces;
    r->n_bytes = bytes;
    r->n_checkpoints = checkpoints;
    return id;
  }
  r->slots[at & (r->n_slots - 1)] = r->n_rows;
  row.depth = depth_of(r, &row);
  *TABLE_PUSH(r, rows) = row;
  return r->n_rows - 1;
}

// ---- asking for rows ---------------------------------------------------------------------------

bool recipe_has_dims(const struct recipes *r, uint32_t id, const int64_t *dims, uint32_t rank) {
  return r->rows[id].rank == rank &&
         (rank == 0 || memcmp(recipe_dims(r, id), dims, rank * sizeof *dims) == 0);
}

struct recipe_around recipe_around(const struct recipes *r, uint32_t id, uint32_t axis) {
  const int64_t *dims = recipe_dims(r, id);
  struct recipe_around a = {1, 1, 1};
  assert(axis < r->rows[id].rank);
  for (uint32_t i = 0; i < r->rows[id].rank; i++)
    *(i < axis ? &a.outer : i == axis ? &a.n : &a.inner) *= (uint64_t)dims[i];
  return a;
}

void recipe_rows_set_dims(struct recipe_asked *x, const int64_t *dims, uint32_t rank) {
  assert(rank <= RECIPE_MAX_RANK);
  x->rank = rank;
  if (rank) memcpy(x->dims, dims, rank * sizeof *dims);
}

int recipe_rows_sized(const struct recipe_asked *x, struct err *err) {
  uint64_t count, bytes;
  if (dims_product(x->dims, x->rank, &count) && dtype_bytes(x->dtype, count, &bytes)) return 0;
  return err_set(err, ERR_MODEL, "a recipe's dims %s of %s have no size",
                 quote_dims(x->dims, x->rank).s, dtype_name(x->dtype));
}

bool recipe_rows_fit(const struct recipes *r, const struct recipe_asked *x) {
  struct err err;
  err.kind = ERR_NONE;
  return kinds[x->kind].fits(r, x, &err) == 0;
}

uint32_t recipe_rows_make(struct recipes *r, const struct recipe_asked *x) {
  const bool fits = recipe_rows_fit(r, x);
  assert(fits);
  return kinds[x->kind].make(r, x);
}

void recipe_rows_ask(struct recipe_asked *x, const struct recipes *r, enum recipe_kind kind,
                     const uint32_t *of) {
  assert(*of < r->n_rows);
  const struct recipe *row = &r->rows[*of];
  x->kind = kind;
  x->of = of;
  x->n_of = 1;
  x->dtype = (enum dtype)row->dtype;
  recipe_rows_set_dims(x, recipe_dims(r, *of), row->rank);
}

uint32_t recipe_unmoved(const struct recipes *r, uint32_t id) {
  while (r->rows[id].kind == RECIPE_RESHAPE || r->rows[id].kind == RECIPE_TRANSPOSE)
    id = r->args[r->rows[id].args];
  return id;
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
