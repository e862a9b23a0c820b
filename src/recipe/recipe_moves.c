// Leaves, and the kinds that move elements without changing them: what each takes, and its
// canonical form.
//
//   reshape(extent | bytes | fill)       → the leaf with other dims
//   reshape(reshape(x))                  → reshape(x);  reshape to the same dims → x
//   transpose(transpose(x))              → transpose(x) with composed perm; identity perm → x
//   transpose moving only length-1 axes  → reshape
//   slice that takes everything          → x;  concat of one → x;  pad by nothing → x
//
// A transpose keeps its operand's dims as they are: evaluation merges axes that stay adjacent.
//
// Of each kind there are two functions: one says whether there may be such a row, and is all that
// stands between the numbers of a file and the other, which makes the row.
#include "recipe/inside/recipe_rows.h"

#include <assert.h>

static size_t element_bytes(enum dtype dtype) {
  return (dtype_bits(dtype) + 7) / 8;
}

static const struct recipe *operand(const struct recipes *r, const struct recipe_asked *x) {
  return &r->rows[x->of[0]];
}

// ---- leaves ------------------------------------------------------------------------------------

// Entries (RAW: bytes) that pieces of this encoding must have in total.
static uint64_t entries_of(enum encoding encoding, enum dtype dtype, uint64_t count,
                           uint64_t bytes) {
  switch (encoding) {
  case ENCODING_FIXED32: return bytes / 4;
  case ENCODING_FIXED64: return bytes / 8;
  case ENCODING_VARINT: return dtype_bits(dtype) == 4 || dtype_bits(dtype) == 2 ? bytes : count;
  default: return bytes;
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

int recipe_moves_extent_fits(const struct recipes *r, const struct recipe_asked *x,
                             struct err *err) {
  (void)r;
  uint64_t count, bytes, entries = 0;
  if (recipe_rows_sized(x, err)) return -1;
  if (!encoding_fits(x->encoding, x->dtype))
    return err_set(err, ERR_MODEL, "a recipe's elements of %s cannot be encoded as %s",
                   dtype_name(x->dtype), recipe_encoding_name(x->encoding));
  for (uint32_t i = 0; i < x->n_pieces; i++)
    if (add_overflows(entries, x->pieces[i].count, &entries))
      return recipe_rows_bad(err, "has too many entries");
  dims_product(x->dims, x->rank, &count);
  dtype_bytes(x->dtype, count, &bytes);
  const uint64_t wanted = entries_of(x->encoding, x->dtype, count, bytes);
  if (entries == wanted) return 0;
  return err_set(err, ERR_MODEL, "a recipe's pieces hold %s entries where %s of %s needs %s",
                 decimal(entries).s, quote_dims(x->dims, x->rank).s, dtype_name(x->dtype),
                 decimal(wanted).s);
}

uint32_t recipe_moves_extent(struct recipes *r, const struct recipe_asked *x) {
  return recipe_rows_put(r, x);
}

uint32_t recipe_extent(struct recipes *r, enum dtype dtype, const int64_t *dims, uint32_t rank,
                       enum encoding encoding, const struct piece *pieces, uint32_t n_pieces,
                       const uint64_t *checkpoints) {
  struct recipe_asked x;
  uint64_t count;
  const bool counts = dims_product(dims, rank, &count);
  assert(counts);
  const int64_t flat = (int64_t)count;
  x.kind = RECIPE_EXTENT;
  x.dtype = dtype;
  x.encoding = encoding;
  if (rank > RECIPE_MAX_RANK)
    recipe_rows_set_dims(&x, &flat, 1);
  else
    recipe_rows_set_dims(&x, dims, rank);
  x.pieces = pieces;
  x.n_pieces = n_pieces;
  x.checkpoints = checkpoints;
  return recipe_moves_extent(r, &x); // checked where it was loaded
}

int recipe_moves_bytes_fits(const struct recipes *r, const struct recipe_asked *x,
                            struct err *err) {
  (void)r;
  uint64_t count, bytes;
  if (recipe_rows_sized(x, err)) return -1;
  dims_product(x->dims, x->rank, &count);
  dtype_bytes(x->dtype, count, &bytes);
  return x->elements.n == bytes ? 0 : recipe_rows_bad(err, "has literal bytes of the wrong length");
}

uint32_t recipe_moves_bytes(struct recipes *r, const struct recipe_asked *x) {
  return recipe_rows_put(r, x);
}

int recipe_moves_fill_fits(const struct recipes *r, const struct recipe_asked *x, struct err *err) {
  (void)r;
  if (recipe_rows_sized(x, err)) return -1;
  if (x->elements.n == element_bytes(x->dtype)) return 0;
  return recipe_rows_bad(err, "has literal bytes of the wrong length");
}

uint32_t recipe_moves_fill(struct recipes *r, const struct recipe_asked *x) {
  return recipe_rows_put(r, x);
}

static uint32_t literal(struct recipes *r, enum recipe_kind kind, enum dtype dtype,
                        const int64_t *dims, uint32_t rank, struct span elements) {
  struct recipe_asked x;
  x.kind = kind;
  x.dtype = dtype;
  recipe_rows_set_dims(&x, dims, rank);
  x.elements = elements;
  return recipe_rows_make(r, &x);
}

uint32_t recipe_bytes(struct recipes *r, enum dtype dtype, const int64_t *dims, uint32_t rank,
                      struct span elements) {
  return literal(r, RECIPE_BYTES, dtype, dims, rank, elements);
}

uint32_t recipe_fill(struct recipes *r, enum dtype dtype, const int64_t *dims, uint32_t rank,
                     struct span element) {
  return literal(r, RECIPE_FILL, dtype, dims, rank, element);
}

// ---- reshape -----------------------------------------------------------------------------------

int recipe_moves_reshape_fits(const struct recipes *r, const struct recipe_asked *x,
                              struct err *err) {
  uint64_t count;
  if (recipe_rows_sized(x, err)) return -1;
  dims_product(x->dims, x->rank, &count);
  return count == operand(r, x)->count
             ? 0
             : recipe_rows_bad(err, "reshapes to another number of elements");
}

uint32_t recipe_moves_reshape(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked x;
  uint32_t of = asked->of[0];
  if (r->rows[of].kind == RECIPE_RESHAPE) of = r->args[r->rows[of].args];
  if (recipe_has_dims(r, of, asked->dims, asked->rank)) return of;
  const struct recipe leaf = r->rows[of];
  recipe_rows_ask(&x, r, leaf.n_args ? RECIPE_RESHAPE : (enum recipe_kind)leaf.kind, &of);
  recipe_rows_set_dims(&x, asked->dims, asked->rank);
  x.encoding = (enum encoding)leaf.encoding;
  x.elements = recipe_elements(r, of);
  x.pieces = leaf.kind == RECIPE_EXTENT ? r->pieces + leaf.at : NULL;
  x.n_pieces = leaf.n;
  x.checkpoints = NULL;
  return recipe_rows_put(r, &x);
}

uint32_t recipe_reshape(struct recipes *r, uint32_t of, const int64_t *dims, uint32_t rank) {
  struct recipe_asked x;
  recipe_rows_ask(&x, r, RECIPE_RESHAPE, &of);
  recipe_rows_set_dims(&x, dims, rank);
  return recipe_rows_make(r, &x);
}

// ---- transpose ---------------------------------------------------------------------------------

int recipe_moves_transpose_fits(const struct recipes *r, const struct recipe_asked *x,
                                struct err *err) {
  const uint32_t rank = operand(r, x)->rank;
  uint64_t seen = 0;
  for (uint32_t i = 0; i < rank; i++) {
    const int64_t axis = x->numbers[i];
    if (axis < 0 || axis >= rank || (seen >> axis & 1))
      return recipe_rows_bad(err, "has a perm that is not a permutation");
    seen |= (uint64_t)1 << axis;
  }
  return 0;
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

uint32_t recipe_moves_transpose(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked x;
  uint32_t of = asked->of[0];
  const int64_t *inner = NULL;
  if (r->rows[of].kind == RECIPE_TRANSPOSE) {
    inner = recipe_rows_axes(r, of, 0);
    of = r->args[r->rows[of].args];
  }
  recipe_rows_ask(&x, r, RECIPE_TRANSPOSE, &of);
  const int64_t *dims = recipe_dims(r, of);
  for (uint32_t i = 0; i < x.rank; i++) {
    x.numbers[i] = inner ? inner[asked->numbers[i]] : asked->numbers[i];
    x.dims[i] = dims[x.numbers[i]];
  }
  if (keeps_order(dims, x.numbers, x.rank, r->rows[of].count))
    return recipe_reshape(r, of, x.dims, x.rank);
  return recipe_rows_put(r, &x);
}

uint32_t recipe_transpose(struct recipes *r, uint32_t of, const int64_t *perm) {
  struct recipe_asked x;
  recipe_rows_ask(&x, r, RECIPE_TRANSPOSE, &of);
  if (x.rank) memcpy(x.numbers, perm, x.rank * sizeof *perm);
  return recipe_rows_make(r, &x);
}

// ---- slice -------------------------------------------------------------------------------------

// Is every position that the slice takes from an axis of length `in` inside it?
static bool slice_fits(int64_t in, int64_t at, int64_t step, int64_t n) {
  int64_t reach, last;
  if (step == 0 || n < 0) return false;
  if (n == 0) return true;
  if (at < 0 || at >= in) return false;
  if (__builtin_mul_overflow(n - 1, step, &reach) || __builtin_add_overflow(at, reach, &last))
    return false;
  return last >= 0 && last < in;
}

int recipe_moves_slice_fits(const struct recipes *r, const struct recipe_asked *x,
                            struct err *err) {
  const uint32_t rank = operand(r, x)->rank;
  if (x->rank != rank) return recipe_rows_bad(err, "has a slice of another rank");
  for (uint32_t i = 0; i < rank; i++)
    if (!slice_fits(recipe_dims(r, x->of[0])[i], x->numbers[i], x->numbers[rank + i], x->dims[i]))
      return recipe_rows_bad(err, "has a slice that leaves its operand");
  return 0;
}

uint32_t recipe_moves_slice(struct recipes *r, const struct recipe_asked *x) {
  const int64_t *in = recipe_dims(r, x->of[0]);
  bool all = true;
  for (uint32_t i = 0; i < x->rank; i++)
    if (x->dims[i] != in[i] || (x->numbers[x->rank + i] != 1 && x->dims[i] > 1)) all = false;
  return all ? x->of[0] : recipe_rows_put(r, x);
}

uint32_t recipe_slice(struct recipes *r, uint32_t of, const int64_t *starts, const int64_t *steps,
                      const int64_t *dims) {
  struct recipe_asked x;
  recipe_rows_ask(&x, r, RECIPE_SLICE, &of);
  recipe_rows_set_dims(&x, dims, x.rank);
  for (uint32_t i = 0; i < x.rank; i++) {
    x.numbers[i] = starts[i];
    x.numbers[x.rank + i] = steps[i];
  }
  return recipe_rows_make(r, &x);
}

// ---- concat ------------------------------------------------------------------------------------

// Dims of what the operands make; the operands agree in everything but the axis.
static int join_dims(const struct recipes *r, const struct recipe_asked *x, struct recipe_asked *to,
                     struct err *err) {
  const int64_t axis = x->numbers[0];
  if (x->n_of == 0) return recipe_rows_bad(err, "concatenates nothing");
  recipe_rows_ask(to, r, RECIPE_CONCAT, x->of);
  if (axis < 0 || axis >= to->rank)
    return recipe_rows_bad(err, "concatenates along an axis it does not have");
  for (uint32_t i = 1; i < x->n_of; i++) {
    const struct recipe *row = &r->rows[x->of[i]];
    const int64_t *d = recipe_dims(r, x->of[i]);
    if (row->rank != to->rank || row->dtype != (uint8_t)to->dtype)
      return recipe_rows_bad(err, "concatenates operands of different types");
    for (uint32_t k = 0; k < to->rank; k++)
      if (k != axis && d[k] != to->dims[k])
        return recipe_rows_bad(err, "concatenates operands whose dims do not match");
    if (__builtin_add_overflow(to->dims[axis], d[axis], &to->dims[axis]))
      return recipe_rows_bad(err, "concatenates to too many elements");
  }
  return recipe_rows_sized(to, err);
}

int recipe_moves_concat_fits(const struct recipes *r, const struct recipe_asked *x,
                             struct err *err) {
  struct recipe_asked to;
  return join_dims(r, x, &to, err);
}

uint32_t recipe_moves_concat(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked x;
  struct err err;
  if (asked->n_of == 1) return asked->of[0];
  join_dims(r, asked, &x, &err);
  x.n_of = asked->n_of;
  x.numbers[0] = asked->numbers[0];
  return recipe_rows_put(r, &x);
}

static void ask_concat(struct recipe_asked *x, const uint32_t *of, uint32_t n, uint32_t axis) {
  x->kind = RECIPE_CONCAT;
  x->of = of;
  x->n_of = n;
  x->numbers[0] = axis;
}

uint32_t recipe_concat(struct recipes *r, const uint32_t *of, uint32_t n, uint32_t axis) {
  struct recipe_asked x;
  ask_concat(&x, of, n, axis);
  return recipe_rows_make(r, &x);
}

bool recipe_can_concat(const struct recipes *r, const uint32_t *of, uint32_t n, uint32_t axis) {
  struct recipe_asked x;
  ask_concat(&x, of, n, axis);
  return recipe_rows_fit(r, &x);
}

// ---- pad ---------------------------------------------------------------------------------------

static int pad_dims(const struct recipes *r, const struct recipe_asked *x, struct recipe_asked *to,
                    struct err *err) {
  recipe_rows_ask(to, r, RECIPE_PAD, x->of);
  for (uint32_t i = 0; i < to->rank; i++) {
    const int64_t before = x->numbers[i], after = x->numbers[to->rank + i];
    if (before < 0 || after < 0 || __builtin_add_overflow(to->dims[i], before, &to->dims[i]) ||
        __builtin_add_overflow(to->dims[i], after, &to->dims[i]))
      return recipe_rows_bad(err, "has a pad that is negative or too large");
  }
  return recipe_rows_sized(to, err);
}

int recipe_moves_pad_fits(const struct recipes *r, const struct recipe_asked *x, struct err *err) {
  struct recipe_asked to;
  if (pad_dims(r, x, &to, err)) return -1;
  if (x->elements.n == element_bytes(to.dtype)) return 0;
  return recipe_rows_bad(err, "has a pad value of the wrong length");
}

uint32_t recipe_moves_pad(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked x;
  struct err err;
  pad_dims(r, asked, &x, &err);
  if (recipe_has_dims(r, asked->of[0], x.dims, x.rank)) return asked->of[0];
  memcpy(x.numbers, asked->numbers, 2 * x.rank * sizeof *x.numbers);
  x.elements = asked->elements;
  return recipe_rows_put(r, &x);
}

static void ask_pad(struct recipe_asked *x, const struct recipes *r, const uint32_t *of,
                    const int64_t *befores, const int64_t *afters, struct span element) {
  recipe_rows_ask(x, r, RECIPE_PAD, of);
  for (uint32_t i = 0; i < x->rank; i++) {
    x->numbers[i] = befores[i];
    x->numbers[x->rank + i] = afters[i];
  }
  x->elements = element;
}

uint32_t recipe_pad(struct recipes *r, uint32_t of, const int64_t *befores, const int64_t *afters,
                    struct span element) {
  struct recipe_asked x;
  ask_pad(&x, r, &of, befores, afters, element);
  return recipe_rows_make(r, &x);
}

bool recipe_can_pad(const struct recipes *r, uint32_t of, const int64_t *befores,
                    const int64_t *afters, struct span element) {
  struct recipe_asked x;
  ask_pad(&x, r, &of, befores, afters, element);
  return recipe_rows_fit(r, &x);
}
