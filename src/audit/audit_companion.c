// A damaged unit is 64 MiB and may hold thousands of tensors. Where the run left digests per
// tensor, those that lie in the unit are hashed again, piece by piece, and only those that differ
// are named:
//
//   unit          |····························|      differs
//   tensors       [ a ][ b       ][ c ][    d     …   a, b and c agree: d it is
//   pieces of d                        |   1   |  2   only those that touch the unit are read
//
// A piece that reaches into the next unit is hashed whole, so where both units are damaged its
// tensor is named in both. What has no line of its own (of a manifest that older releases wrote:
// small values inside the .onnx) stays named.
//
// Names and places are the model's. A damaged .onnx is not asked: then they are those of the lines.
//
// The companion came with the files and may be as damaged as they: before any of it is believed its
// SHA-256 must be the manifest's, every line must lie within the files, have as many digests as its
// length wants, and name a tensor of the model. Lines are read one by one; only those that touch
// damage are kept.
#include "audit/audit_tensors.h"

#include "base/again.h"
#include "json/json.h"
#include "stream/seal/manifest.h"

#include "base/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_MAX_BYTES = 64 << 20, READ_BYTES = 1 << 20 };

struct row {
  uint64_t off, len;
  uint64_t reach; // the furthest end of this place and all before it in the same file
  uint32_t file;  // of the manifest
  const uint8_t (*pieces)[DIGEST_BYTES];
  const char *name;
};

struct companion_reader {
  struct folder dir;
  const volatile int *stop;
  FILE *file;
  struct manifest_names beside;
  const struct manifest *manifest;
  const struct model *m; // NULL: not to be believed
  const struct audit_found *found;
  size_t n_found;
  struct arena arena;
  TABLE(struct row, rows); // sorted by place, once all are read
  char *line;
  size_t line_cap;
  uint64_t number; // of the line last read
  char why[200];   // it is not used; or ""
  uint8_t *buf;    // READ_BYTES
};

static bool useless(struct companion_reader *c, const char *what) {
  if (!c->why[0]) snprintf(c->why, sizeof c->why, "line %s %s", decimal(c->number).s, what);
  return false;
}

// ---- lines -------------------------------------------------------------------------------------

// Tensors in attributes are called "g0/n12.value": the attribute's name must be known.
static bool is_known(const struct model *m, struct span name) {
  unsigned graph, node;
  int n = 0;
  if (model_find_name(m, name) != NO_ID) return true;
  if (sscanf((const char *)name.at, "g%u/n%u.%n", &graph, &node, &n) != 2 || n == 0) return false;
  return model_find_name(m, span_of(name.at + n, name.n - (size_t)n)) != NO_ID;
}

static bool take_line(struct companion_reader *c, const struct json_value *v) {
  struct span name, file;
  struct row row = {0};
  const struct json_value *list = json_get(v, "sha256");
  if (!json_as_string(json_get(v, "name"), &name) || !json_as_string(json_get(v, "file"), &file) ||
      !json_as_uint(json_get(v, "offset"), &row.off) ||
      !json_as_uint(json_get(v, "length"), &row.len) || !json_is_array(list))
    return useless(c, "is not that of a tensor");
  row.file = manifest_file_named(c->manifest, file);
  if (row.file == NO_ID) return useless(c, "names a file that is not in the manifest");
  if (!range_fits(row.off, row.len, c->manifest->sizes[row.file]))
    return useless(c, "is outside its file");
  if (json_count(list) != (row.len + PLAN_UNIT_BYTES - 1) / PLAN_UNIT_BYTES)
    return useless(c, "does not have one digest for every 64 MiB");
  if (c->m && !is_known(c->m, name))
    return useless(c, "names a tensor that the model does not have");
  if (row.len == 0 ||
      !audit_found_meets(c->found, c->n_found, c->manifest->files[row.file], row.off, row.len))
    return true;
  uint8_t(*pieces)[DIGEST_BYTES] = arena_alloc(&c->arena, json_count(list) * sizeof *pieces);
  size_t n = 0;
  struct span hex;
  for (const struct json_value *x = json_first(list); x; x = json_next(x))
    if (!json_as_string(x, &hex) || !hex_decode(hex, pieces[n++], DIGEST_BYTES))
      return useless(c, "has an invalid digest");
  row.pieces = (const uint8_t(*)[DIGEST_BYTES])pieces;
  row.name = arena_string(&c->arena, name);
  *TABLE_PUSH(c, rows) = row;
  return true;
}

// The next line without its break, hashed with it: 1, 0 at the end, -1 where it is too long.
static int next_line(struct companion_reader *c, struct digest *sha, struct span *line) {
  size_t n = 0;
  int ch;
  c->number++;
  while ((ch = again_getc(c->file)) != EOF && ch != '\n') {
    if (n == LINE_MAX_BYTES) return -1;
    c->line = table_grow(c->line, &c->line_cap, n + 1, 1);
    c->line[n++] = (char)ch;
  }
  *line = span_of(c->line, n);
  digest_add(sha, c->line, n);
  if (ch == '\n') digest_add(sha, "\n", 1);
  return ch != EOF || n > 0;
}

// All lines and their digest. After the first fault they are only hashed: that the file is not the
// manifest's says more than what is wrong with it.
static void read_lines(struct companion_reader *c) {
  struct span line;
  struct digest *sha = digest_new();
  uint8_t is[DIGEST_BYTES];
  int got;
  while ((got = next_line(c, sha, &line)) > 0) {
    struct err malformed = {0};
    if (c->why[0]) continue;
    struct json_value *v = json_parse(line, c->beside.tensors, &malformed);
    if (v)
      take_line(c, v);
    else
      useless(c, "is not JSON");
    json_free(v);
  }
  digest_finish(sha, is);
  if (got < 0 || ferror(c->file) || memcmp(is, c->manifest->tensors_sha256, DIGEST_BYTES) != 0)
    snprintf(c->why, sizeof c->why, "its SHA-256 is not the one in the manifest");
}

// ---- hashing again -----------------------------------------------------------------------------

static int by_place(const void *a, const void *b) {
  const struct row *x = a, *y = b;
  if (x->file != y->file) return x->file < y->file ? -1 : 1;
  if (x->off != y->off) return x->off < y->off ? -1 : 1;
  return (x->len > y->len) - (x->len < y->len);
}

static void sort_rows(struct companion_reader *c) {
  if (c->n_rows) qsort(c->rows, c->n_rows, sizeof *c->rows, by_place);
  for (size_t i = 0; i < c->n_rows; i++) {
    struct row *row = &c->rows[i];
    row->reach = row->off + row->len;
    if (i > 0 && row[-1].file == row->file && row[-1].reach > row->reach)
      row->reach = row[-1].reach;
  }
}

// The first row of the file that could touch bytes from `off` on.
static size_t first_row(const struct companion_reader *c, uint32_t file, uint64_t off) {
  const struct row *rows = c->rows;
  size_t i;
  BISECT(i, c->n_rows, rows[i].file < file || (rows[i].file == file && rows[i].reach <= off));
  return i;
}

static void map_range(const struct companion_reader *c, struct audit_found *f,
                      struct arena *arena) {
  const uint32_t file = manifest_file_named(c->manifest, span_str(f->file));
  const size_t first = first_row(c, file, f->off);
  size_t end = first;
  while (end < c->n_rows && c->rows[end].file == file &&
         (c->rows[end].off < f->off || c->rows[end].off - f->off < f->len))
    end++;
  f->tensors = arena_alloc(arena, (end - first + 1) * sizeof *f->tensors);
  f->places = arena_alloc(arena, (end - first + 1) * sizeof *f->places);
  f->mapped = true;
  for (size_t i = first; i < end; i++) {
    const struct row *row = &c->rows[i];
    if (!ranges_meet(row->off, row->len, f->off, f->len)) continue;
    f->tensors[f->n_tensors] = arena_string(arena, span_str(row->name));
    f->places[f->n_tensors++] = (struct audit_place){row->off, row->len};
  }
}

static bool piece_agrees(const struct companion_reader *c, struct file in, uint64_t off,
                         uint64_t len, const uint8_t want[DIGEST_BYTES]) {
  uint8_t is[DIGEST_BYTES];
  struct digest *sha = digest_new();
  uint64_t at = 0;
  while (at < len && !*c->stop) {
    const int64_t got = file_read_at(in, c->buf, (size_t)min_u64(READ_BYTES, len - at), off + at);
    if (got <= 0) break;
    digest_add(sha, c->buf, (size_t)got);
    at += (uint64_t)got;
  }
  digest_finish(sha, is);
  return at == len && memcmp(is, want, DIGEST_BYTES) == 0;
}

// Do the pieces that touch the damaged range agree?
static bool is_whole(const struct companion_reader *c, struct file in, const struct audit_found *f,
                     const struct row *row) {
  for (uint64_t at = 0; at < row->len; at += PLAN_UNIT_BYTES) {
    const uint64_t off = row->off + at, len = min_u64(PLAN_UNIT_BYTES, row->len - at);
    if (ranges_meet(off, len, f->off, f->len) &&
        !piece_agrees(c, in, off, len, row->pieces[at / PLAN_UNIT_BYTES]))
      return false;
  }
  return true;
}

static void narrow(const struct companion_reader *c, struct audit_found *f) {
  const uint32_t file = manifest_file_named(c->manifest, span_str(f->file));
  struct file in = file_open(c->dir, f->file, FILE_NO_WAIT);
  if (!file_is_open(in)) return; // gone: all in it is
  uint32_t kept = 0;
  for (uint32_t i = 0; i < f->n_tensors; i++) {
    const struct row key = {.file = file, .off = f->places[i].off, .len = f->places[i].len};
    const struct row *row =
        c->n_rows ? bsearch(&key, c->rows, c->n_rows, sizeof key, by_place) : NULL;
    if (row && is_whole(c, in, f, row)) continue;
    f->tensors[kept] = f->tensors[i];
    f->places[kept++] = f->places[i];
  }
  file_close(&in);
  f->narrowed = true;
  f->n_whole = f->n_tensors - kept;
  f->n_tensors = kept;
}

// ---- the whole ---------------------------------------------------------------------------------

// False where there is no companion.
static bool open_companion(struct companion_reader *c) {
  c->beside = manifest_names(c->manifest->subject);
  c->file = file_stream(file_open(c->dir, c->beside.tensors, FILE_NO_LINK | FILE_NO_WAIT), "r");
  return c->file != NULL;
}

static void close_companion(struct companion_reader *c) {
  if (c->file) stream_close(c->file);
  TABLE_FREE(c, rows);
  table_free(c->line, c->line_cap, 1);
  arena_free(&c->arena);
}

bool audit_companion_narrow(struct folder dir, const struct manifest *manifest,
                            const struct model *m, struct audit_found *found, size_t n,
                            struct observer *o, struct arena *arena) {
  struct companion_reader c = {.stop = observer_stop(o),
                               .dir = dir,
                               .manifest = manifest,
                               .m = m,
                               .found = found,
                               .n_found = n};
  const bool there = open_companion(&c);
  if (there) {
    c.buf = arena_alloc(arena, READ_BYTES);
    if (!manifest->lists_tensors)
      snprintf(c.why, sizeof c.why, "the manifest does not record it");
    else
      read_lines(&c);
    if (c.why[0])
      observer_notice(o, "'%s' is not used to name damaged tensors: %s",
                      quote_str(c.beside.tensors).s, c.why);
    else
      sort_rows(&c);
    for (size_t i = 0; !c.why[0] && i < n; i++) {
      if (!m) map_range(&c, &found[i], arena);
      if (found[i].mapped) narrow(&c, &found[i]);
    }
  }
  close_companion(&c);
  return there && !c.why[0];
}

bool audit_companion_look(struct folder dir, const struct manifest *manifest, struct observer *o) {
  struct companion_reader c = {.stop = observer_stop(o), .dir = dir, .manifest = manifest};
  const bool opened = manifest->lists_tensors && open_companion(&c);
  const bool there = opened || !manifest->lists_tensors || errno != ENOENT;
  if (opened) read_lines(&c);
  if (c.why[0])
    observer_notice(o,
                    "'%s' (digests per tensor) is damaged: %s; the files of the model are intact",
                    quote_str(c.beside.tensors).s, c.why);
  close_companion(&c);
  return there;
}
