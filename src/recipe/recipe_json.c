//   {"transpose":3,"perm":[1,0]}       row form of a plan: operands are earlier rows
//    │           │ └ members, in the order of the kind's row in kinds.def
//    │           └ what the kind holds: operands, pieces or elements
//    └ its name
//
// Both ways follow kinds.def, so that no kind is known here; pieces alone have a form of their own.
// Reading is a border: a plan or an edit log is a file that anybody may have edited. It checks that a
// member is what it says, that operands are there, and that pieces lie inside their files; what the
// numbers mean together is checked by the kind's own function, before its constructor sees them.
//
// The canonical form of a row has one text. Who reads rows (recipe_json_read_row) takes no other.
#include "recipe/recipe_json.h"

#include "recipe/inside/recipe_rows.h"

#include <assert.h>

static const char *const encodings[] = {"raw", "fixed32", "fixed64", "varint"};
enum { N_ENCODINGS = sizeof encodings / sizeof encodings[0] };

const char *recipe_encoding_name(uint32_t encoding) {
  return encoding < N_ENCODINGS ? encodings[encoding] : NULL;
}

// ---- writing -----------------------------------------------------------------------------------

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

// Operands are written in place, or (leaves NULL) as their numbers, NULL being their ids.
static void write_held(struct json_out *j, const struct recipes *r, uint32_t id,
                       const struct recipe_json_leaves *leaves, const uint32_t *numbers) {
  const struct recipe *x = &r->rows[id];
  const struct recipe_kind_row *kind = recipe_rows_kind((enum recipe_kind)x->kind);
  json_key(j, kind->name);
  if (kind->holds == RECIPE_ELEMENTS || kind->holds == RECIPE_ELEMENT) {
    const struct span elements = recipe_elements(r, id);
    json_hex(j, elements.at, elements.n);
    return;
  }
  if (kind->holds != RECIPE_OPERAND) json_array(j);
  for (uint32_t i = 0; kind->holds == RECIPE_PIECES && i < x->n; i++)
    write_piece(j, r, x, &r->pieces[x->at + i]);
  for (uint32_t i = 0; i < x->n_args; i++) {
    const uint32_t of = r->args[x->args + i];
    if (leaves)
      recipe_json_write(j, r, of, leaves);
    else
      json_uint(j, numbers ? numbers[of] : of);
  }
  if (kind->holds != RECIPE_OPERAND) json_end_array(j);
}

static void write_member(struct json_out *j, const struct recipes *r, uint32_t id,
                         const struct recipe_member *m) {
  const struct recipe *x = &r->rows[id];
  const char *word = x->encoding < N_ENCODINGS ? encodings[x->encoding] : encodings[0];
  const struct span element = recipe_elements(r, id);
  const int64_t number = m->type >= MEMBER_NUMBER ? recipe_rows_number(r, id, m->number) : 0;
  if (m->may_lack && number == m->lacking) return;
  switch (m->type) {
  case MEMBER_DIMS: json_put_ints(j, m->key, recipe_dims(r, id), x->rank); break;
  case MEMBER_DTYPE: json_put_text(j, m->key, dtype_name((enum dtype)x->dtype)); break;
  case MEMBER_ENCODING: json_put_text(j, m->key, word); break;
  case MEMBER_ELEMENT: json_put_hex(j, m->key, element.at, element.n); break;
  case MEMBER_AXES: json_put_ints(j, m->key, recipe_rows_axes(r, id, m->number), x->rank); break;
  case MEMBER_NUMBER: json_put_uint(j, m->key, (uint64_t)number); break;
  case MEMBER_FLAG: json_put_bool(j, m->key, number != 0); break;
  case MEMBER_WORD: json_put_text(j, m->key, m->word((uint32_t)number)); break;
  case MEMBER_AXIS_SET:
    json_put_array(j, m->key);
    for (uint32_t i = 0; i < RECIPE_MAX_RANK; i++)
      if ((uint64_t)number >> i & 1) json_uint(j, i);
    json_end_array(j);
  }
}

static void write_row(struct json_out *j, const struct recipes *r, uint32_t id,
                      const struct recipe_json_leaves *leaves, const uint32_t *numbers) {
  const struct recipe_kind_row *kind = recipe_rows_kind((enum recipe_kind)r->rows[id].kind);
  json_object(j);
  write_held(j, r, id, leaves, numbers);
  for (const struct recipe_member *m = kind->members; m->key; m++)
    write_member(j, r, id, m);
  json_end_object(j);
}

void recipe_json_write(struct json_out *j, const struct recipes *r, uint32_t id,
                       const struct recipe_json_leaves *leaves) {
  if (!leaves->write || !leaves->write(leaves->ctx, j, id)) write_row(j, r, id, leaves, NULL);
}

void recipe_json_write_row(struct json_out *j, const struct recipes *r, uint32_t id,
                           const uint32_t *numbers) {
  write_row(j, r, id, NULL, numbers);
}

// ---- reading -----------------------------------------------------------------------------------

struct reading {
  struct recipes *r;
  const struct recipe_json_leaves *leaves; // NULL: row form
  uint32_t n_files;
  const uint64_t *file_sizes;
};

// A row on its way in, with what its members need room for.
struct row_read {
  struct recipe_asked x;
  struct arena scratch;
  TABLE(uint32_t, of);
  TABLE(struct piece, pieces);
  TABLE(uint64_t, points);
};

static int read_longs(const struct json_value *v, const char *key, int64_t *out, uint32_t *n,
                      struct err *err) {
  const struct json_value *list = json_get(v, key);
  if (!json_is_array(list) || json_count(list) > RECIPE_MAX_RANK)
    return err_set(err, ERR_MODEL, "a recipe has no list '%s' of at most %d numbers", key,
                   RECIPE_MAX_RANK);
  *n = 0;
  for (const struct json_value *x = json_first(list); x; x = json_next(x))
    if (!json_as_int(x, &out[(*n)++]))
      return err_set(err, ERR_MODEL, "a recipe's '%s' contains something that is not an integer",
                     key);
  return 0;
}

static int read_hex(const struct json_value *v, struct arena *scratch, struct span *out,
                    struct err *err) {
  struct span text;
  if (!json_as_string(v, &text) || text.n % 2)
    return recipe_rows_bad(err, "has bytes that are not hex");
  uint8_t *bytes = arena_alloc(scratch, text.n / 2 + 1);
  if (!hex_decode(text, bytes, text.n / 2))
    return recipe_rows_bad(err, "has bytes that are not hex");
  *out = span_of(bytes, text.n / 2);
  return 0;
}

// ---- pieces ----

static int read_checkpoints(const struct json_value *v, struct piece *p, struct row_read *row,
                            struct err *err) {
  uint64_t want = (p->count + CHECKPOINT_ENTRIES - 1) / CHECKPOINT_ENTRIES;
  if (!json_is_array(v) || json_count(v) != want)
    return recipe_rows_bad(err, "has the wrong number of varint checkpoints");
  p->checkpoint = row->n_points;
  uint64_t last = 0;
  for (const struct json_value *x = json_first(v); x; x = json_next(x)) {
    uint64_t at;
    if (!json_as_uint(x, &at) || at < last || at >= p->at.len)
      return recipe_rows_bad(err, "has a varint checkpoint outside its piece");
    last = *TABLE_PUSH(row, points) = at;
  }
  return 0;
}

// The fixed numbers of a piece: [file, off, len] or [file, off, len, entries, tag_bytes, …].
static int read_piece_numbers(const struct reading *in, const struct json_value *v, bool raw,
                              struct piece *p, const struct json_value **rest, struct err *err) {
  uint64_t x[5] = {0};
  const struct json_value *e = json_is_array(v) ? json_first(v) : NULL;
  for (int i = 0; i < (raw ? 3 : 5); i++, e = json_next(e))
    if (!e || !json_as_uint(e, &x[i]))
      return recipe_rows_bad(err, "has a piece that is not a list of numbers");
  *rest = e;
  if (x[0] >= in->n_files || !range_fits(x[1], x[2], in->file_sizes[x[0]]))
    return err_set(err, ERR_MODEL, "a recipe's piece [%s,%s,%s] is outside the source files",
                   decimal(x[0]).s, decimal(x[1]).s, decimal(x[2]).s);
  if (x[4] > 10 || (!raw && x[3] > x[2]))
    return recipe_rows_bad(err, "has a piece with impossible counts");
  *p = (struct piece){.at = {x[1], x[2], (uint32_t)x[0]},
                      .count = raw ? x[2] : x[3],
                      .tag_bytes = (uint32_t)x[4],
                      .checkpoint = NO_ID};
  return 0;
}

static bool piece_length_ok(enum encoding encoding, const struct piece *p) {
  uint64_t width = encoding == ENCODING_FIXED32 ? 4 : encoding == ENCODING_FIXED64 ? 8 : 0;
  if (width == 0) return true;
  uint64_t want;
  return !mul_overflows(p->count, width + p->tag_bytes, &want) && want == p->at.len;
}

// Pieces are read by their encoding, which is a member behind them.
static int read_pieces(const struct reading *in, const struct json_value *list,
                       const struct json_value *encoding, struct row_read *row, struct err *err) {
  struct span name;
  uint32_t i = 0;
  if (!json_as_string(encoding, &name)) return recipe_rows_bad(err, "has no encoding");
  while (i < N_ENCODINGS && !span_is(name, encodings[i]))
    i++;
  if (i == N_ENCODINGS) return recipe_rows_bad(err, "has an unknown encoding");
  row->x.encoding = (enum encoding)i;
  if (!json_is_array(list)) return recipe_rows_bad(err, "has an extent that is not a list");
  uint64_t entries = 0;
  for (const struct json_value *v = json_first(list); v; v = json_next(v)) {
    struct piece p;
    const struct json_value *rest;
    if (read_piece_numbers(in, v, i == ENCODING_RAW, &p, &rest, err)) return -1;
    if (!piece_length_ok(row->x.encoding, &p))
      return recipe_rows_bad(err, "has a piece whose length is not its entries'");
    if (i == ENCODING_VARINT && read_checkpoints(rest, &p, row, err)) return -1;
    p.first = entries;
    if (add_overflows(entries, p.count, &entries))
      return recipe_rows_bad(err, "has too many entries");
    *TABLE_PUSH(row, pieces) = p;
  }
  row->x.pieces = row->pieces;
  row->x.n_pieces = row->n_pieces;
  row->x.checkpoints = row->points;
  return 0;
}

// ---- operands and members ----

static int read_any(const struct reading *in, const struct json_value *v, uint32_t *id,
                    struct err *err);

static int read_operand(const struct reading *in, const struct json_value *v, struct row_read *row,
                        struct err *err) {
  uint32_t id;
  uint64_t number;
  if (in->leaves) {
    if (read_any(in, v, &id, err)) return -1;
  } else {
    if (!json_as_uint(v, &number) || number >= in->r->n_rows)
      return recipe_rows_bad(err, "has an operand that is not an earlier recipe");
    id = (uint32_t)number;
  }
  *TABLE_PUSH(row, of) = id;
  return 0;
}

static int read_held(const struct reading *in, const struct json_value *v, struct row_read *row,
                     struct err *err) {
  const struct recipe_kind_row *kind = recipe_rows_kind(row->x.kind);
  const struct json_value *held = json_get(v, kind->name);
  switch (kind->holds) {
  case RECIPE_PIECES: return read_pieces(in, held, json_get(v, "encoding"), row, err);
  case RECIPE_ELEMENTS:
  case RECIPE_ELEMENT: return read_hex(held, &row->scratch, &row->x.elements, err);
  case RECIPE_OPERAND:
    if (read_operand(in, held, row, err)) return -1;
    break;
  case RECIPE_OPERANDS:
    if (!json_is_array(held) || json_count(held) == 0)
      return recipe_rows_bad(err, "has no operands where it needs a list of them");
    for (const struct json_value *of = json_first(held); of; of = json_next(of))
      if (read_operand(in, of, row, err)) return -1;
  }
  row->x.of = row->of;
  row->x.n_of = row->n_of;
  row->x.dtype = (enum dtype)in->r->rows[row->of[0]].dtype;
  row->x.rank = in->r->rows[row->of[0]].rank;
  return 0;
}

static int read_member(const struct reading *in, const struct json_value *v,
                       const struct recipe_member *m, struct row_read *row, struct err *err) {
  const struct json_value *member = json_get(v, m->key);
  struct recipe_asked *x = &row->x;
  int64_t list[RECIPE_MAX_RANK], *number = &x->numbers[m->number];
  struct span text;
  uint32_t n, rank;
  uint64_t u, set = 0;
  bool yes;
  if (m->type >= MEMBER_NUMBER) *number = m->lacking;
  if (m->may_lack && !member) return 0;
  switch (m->type) {
  case MEMBER_DIMS: return read_longs(v, m->key, x->dims, &x->rank, err);
  case MEMBER_DTYPE:
    if (json_as_string(member, &text) && dtype_bits(x->dtype = dtype_by_name(text)) != 0) return 0;
    return err_set(err, ERR_MODEL, "a recipe's '%s' is not an element type", m->key);
  case MEMBER_ENCODING: return 0; // read with the pieces
  case MEMBER_ELEMENT: return read_hex(member, &row->scratch, &x->elements, err);
  case MEMBER_AXES: // a list as long as the operand has axes
    rank = in->r->rows[x->of[0]].rank;
    if (read_longs(v, m->key, list, &n, err)) return -1;
    if (n != rank)
      return err_set(err, ERR_MODEL, "a recipe has '%s' of another rank than its operand", m->key);
    if (n) memcpy(x->numbers + m->number * rank, list, n * sizeof *list);
    return 0;
  case MEMBER_AXIS_SET:
    if (read_longs(v, m->key, list, &n, err)) return -1;
    for (uint32_t i = 0; i < n; i++) {
      if (list[i] < (i ? list[i - 1] + 1 : 0) || list[i] >= RECIPE_MAX_RANK)
        return err_set(err, ERR_MODEL, "a recipe's '%s' are not axes in ascending order", m->key);
      set |= (uint64_t)1 << list[i];
    }
    *number = (int64_t)set;
    return 0;
  case MEMBER_WORD:
    for (uint32_t i = 0; json_as_string(member, &text) && m->word(i); i++)
      if (span_is(text, m->word(i))) {
        *number = i;
        return 0;
      }
    return err_set(err, ERR_MODEL, "a recipe's '%s' is not one of its values", m->key);
  case MEMBER_FLAG:
    if (!json_as_bool(member, &yes))
      return err_set(err, ERR_MODEL, "a recipe's '%s' is not true or false", m->key);
    *number = yes;
    return 0;
  case MEMBER_NUMBER:
    if (!json_as_uint(member, &u))
      return err_set(err, ERR_MODEL, "a recipe's '%s' is not a number", m->key);
    *number = (int64_t)u;
  }
  return 0;
}

// A key that means nothing here would be a conversion or an axis that somebody takes for said.
static int check_keys(const struct json_value *v, const struct recipe_kind_row *kind,
                      struct err *err) {
  for (const struct json_value *c = json_first(v); c; c = json_next(c)) {
    const struct recipe_member *m = kind->members;
    while (m->key && strcmp(m->key, json_name(c)) != 0)
      m++;
    if (!m->key && strcmp(kind->name, json_name(c)) != 0)
      return err_set(err, ERR_MODEL, "a recipe has a key '%s', which is not allowed with '%s'",
                     quote_str(json_name(c)).s, kind->name);
  }
  return 0;
}

static int read_row(const struct reading *in, const struct json_value *v, struct row_read *row,
                    struct err *err) {
  uint32_t k = 0; // the kind whose name is there
  while (k < RECIPE_KINDS && !json_get(v, recipe_rows_kind((enum recipe_kind)k)->name))
    k++;
  if (k == RECIPE_KINDS) return recipe_rows_bad(err, "names no operation");
  row->x.kind = (enum recipe_kind)k;
  const struct recipe_kind_row *kind = recipe_rows_kind(row->x.kind);
  if (check_keys(v, kind, err) || read_held(in, v, row, err)) return -1;
  for (const struct recipe_member *m = kind->members; m->key; m++)
    if (read_member(in, v, m, row, err)) return -1;
  return kind->fits(in->r, &row->x, err);
}

static int too_deep(struct err *err) {
  return err_set(err, ERR_MODEL, "recipes are nested more than %d deep", RECIPE_MAX_DEPTH);
}

// Before a row is made, which may go down through its operands, and after: it may have become several.
static int make_row(struct recipes *r, const struct recipe_asked *x, uint32_t *id,
                    struct err *err) {
  for (uint32_t i = 0; i < x->n_of; i++)
    if (r->rows[x->of[i]].depth >= RECIPE_MAX_DEPTH) return too_deep(err);
  *id = recipe_rows_kind(x->kind)->make(r, x);
  return r->rows[*id].depth > RECIPE_MAX_DEPTH ? too_deep(err) : 0;
}

// Nesting is bounded by json_parse's own limit, so this recursion is too.
static int read_any(const struct reading *in, const struct json_value *v, uint32_t *id,
                    struct err *err) {
  struct row_read row = {.n_of = 0};
  if (!json_is_object(v)) return recipe_rows_bad(err, "is not an object");
  if (in->leaves && in->leaves->read) {
    int rc = in->leaves->read(in->leaves->ctx, v, id, err);
    if (rc) return rc < 0 ? -1 : 0;
  }
  int rc = read_row(in, v, &row, err);
  if (rc == 0) rc = make_row(in->r, &row.x, id, err);
  arena_free(&row.scratch);
  TABLES_FREE(&row, of, pieces, points);
  return rc;
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
