//   who makes one        where its elements lie
//   array_make           in the arena, row-major, types below a byte packed from the low bits up
//   array_files.h        a stretch of the file they were found in, or of one without a name
//   the runtime          the same
//
// Whoever reads elements goes through array_read, or through `at` where they are in memory. Nothing here
// closes a file.
#include "verify/arrays/array.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

bool array_sizes(enum dtype dtype, uint32_t rank, const int64_t *dims, uint64_t *count,
                 uint64_t *bytes) {
  *bytes = 0;
  if (rank > ARRAY_MAX_RANK || !dims_product(dims, rank, count)) return false;
  return dtype == DTYPE_STRING || dtype_bytes(dtype, *count, bytes);
}

uint8_t *array_make(struct array *x, const char *name, enum dtype dtype, uint32_t rank,
                    const int64_t *dims, struct arena *a) {
  uint64_t count, bytes;
  if (dtype == DTYPE_STRING || !array_sizes(dtype, rank, dims, &count, &bytes)) return NULL;
  int64_t *own = arena_alloc(a, (rank + 1) * sizeof *own);
  for (uint32_t i = 0; i < rank; i++)
    own[i] = dims[i];
  uint8_t *at = arena_alloc(a, (size_t)bytes + 1);
  if (bytes) at[bytes - 1] = 0; // bits behind the last element of types below a byte
  *x = (struct array){.name = arena_string(a, span_str(name)),
                      .kind = ARRAY_TENSOR,
                      .dtype = dtype,
                      .rank = rank,
                      .dims = own,
                      .count = count,
                      .bytes = bytes,
                      .at = at};
  return at;
}

static int read_file(const struct array *x, uint64_t off, uint8_t *buf, size_t n, struct err *err) {
  const int64_t got = file_read_all_at(x->file, buf, n, x->offset + off);
  if (got == (int64_t)n) return 0;
  if (got < 0)
    return err_errno(err, errno, ERR_IO, "the elements of array '%s' cannot be read",
                     quote_str(x->name).s);
  return err_set(err, ERR_INPUT, "the file that holds array '%s' became shorter",
                 quote_str(x->name).s);
}

int array_read(const struct array *x, uint64_t off, void *buf, size_t n, struct err *err) {
  assert(x->kind == ARRAY_TENSOR && range_fits(off, n, x->bytes));
  if (n == 0) return 0;
  if (!x->at) return read_file(x, off, buf, n, err);
  memcpy(buf, x->at + off, n);
  return 0;
}

int array_load(const struct array *x, struct arena *a, const uint8_t **at, struct err *err) {
  *at = x->at;
  if (x->at) return 0;
  uint8_t *read = arena_alloc(a, (size_t)x->bytes + 1);
  *at = read;
  return array_read(x, 0, read, (size_t)x->bytes, err);
}

void array_settle(struct array *x, bool optional) {
  if (!x->either) return;
  x->either = false;
  if (!optional) return;
  const char *name = x->name;
  if (x->n_items == 0)
    *x = (struct array){.name = name, .kind = ARRAY_NOTHING};
  else
    *x = x->items[0];
  if (*name) x->name = name;
  x->optional = true;
}

static bool is_nested(const struct array *x) {
  return x->kind == ARRAY_SEQUENCE && x->n_items > 0 && x->items[0].kind == ARRAY_SEQUENCE;
}

void array_settle_like(struct array *x, const struct array *like) {
  array_settle(x, like->kind != ARRAY_SEQUENCE || (is_nested(x) && !is_nested(like)));
}

const struct array *array_named(const struct arrays *x, const char *name) {
  for (uint32_t i = 0; i < x->n; i++)
    if (strcmp(x->list[i].name, name) == 0) return &x->list[i];
  return NULL;
}

struct array_words array_words(const struct array *x) {
  struct array_words w;
  if (x->kind == ARRAY_NOTHING)
    snprintf(w.s, sizeof w.s, "nothing");
  else if (x->kind == ARRAY_SEQUENCE)
    snprintf(w.s, sizeof w.s, "a sequence of %u", x->n_items);
  else
    snprintf(w.s, sizeof w.s, "%s%.130s", dtype_name(x->dtype), quote_dims(x->dims, x->rank).s);
  return w;
}

bool array_same_dims(const struct array *a, const struct array *b) {
  return a->rank == b->rank &&
         (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}
