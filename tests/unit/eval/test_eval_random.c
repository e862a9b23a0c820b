// Random recipes against a model that computes every element of every step, one by one, in memory:
// all dtypes, all encodings, all kinds; read whole, in order with random cuts, and at random
// ranges; with boxes of any size down to one cache line. A second round makes every read of the
// sources fail in turn and wants the error, and the right bytes when asked again.
#include "chance.h"
#include "fake_io.h"
#include "kernels/convert/kernels_convert.h"
#include "kernels/dequantize/kernels_dequantize.h"
#include "kernels/kernels.h"
#include "kernels/map/kernels_map.h"
#include "reduce_reference.h"
#include "stream/eval/core/eval_parts.h"
#include "stream/eval/eval.h"

#include <math.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum {
  FILE_BYTES = 4 << 20,
  ELEMENTS_MAX = 3000,
  NODES_MAX = 12,
  PIECES_MAX = 64,
  CASES = 4000,
  FAULT_CASES = 300,
};

// ---- the model: all elements of a recipe, wide -------------------------------------------------

struct node {
  uint32_t id;
  enum dtype dtype;
  uint32_t rank, width;
  int64_t dims[8];
  uint64_t count;
  uint8_t *elements; // count * width
};

struct world {
  struct recipes r;
  struct io io;
  size_t file_used;
  struct node nodes[NODES_MAX];
  uint32_t n;
};

static uint32_t width_of(enum dtype t) {
  return dtype_bits(t) < 8 ? 1 : dtype_bits(t) / 8;
}

static void set_shape(struct node *x, enum dtype dtype, const int64_t *dims, uint32_t rank) {
  x->dtype = dtype;
  x->rank = rank;
  x->width = width_of(dtype);
  memmove(x->dims, dims, rank * sizeof *dims);
  assert_true(dims_product(dims, rank, &x->count));
  x->elements = malloc(x->count * x->width + 1);
}

// The index of the element at coordinates c, all of them inside.
static uint64_t index_of(const struct node *x, const int64_t *c) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < x->rank; i++)
    at = at * (uint64_t)x->dims[i] + (uint64_t)c[i];
  return at;
}

static void coordinates(const struct node *x, uint64_t at, int64_t *c) {
  for (uint32_t i = x->rank; i-- > 0; at /= (uint64_t)x->dims[i])
    c[i] = (int64_t)(at % (uint64_t)x->dims[i]);
}

static uint8_t *element(const struct node *x, uint64_t at) {
  return x->elements + at * x->width;
}

// Packed bytes of a node, bit by bit.
static uint8_t *packed_bytes(const struct node *x, uint64_t *n) {
  uint32_t bits = dtype_bits(x->dtype);
  assert_true(dtype_bytes(x->dtype, x->count, n));
  uint8_t *out = calloc(1, *n + 1);
  if (bits >= 8) memcpy(out, x->elements, *n);
  for (uint64_t i = 0; bits < 8 && i < x->count * bits; i++)
    if (x->elements[i / bits] >> (i % bits) & 1) out[i / 8] |= (uint8_t)(1 << i % 8);
  return out;
}

// ---- leaves ------------------------------------------------------------------------------------

static uint8_t *file_space(struct world *w, size_t n, uint64_t *off) {
  *off = w->file_used + chance_below(30);
  assert_true(*off + n <= FILE_BYTES);
  w->file_used = *off + n;
  return w->io.memory + *off;
}

static size_t put_varint(uint8_t *at, uint64_t x) {
  size_t n = 0;
  for (; x >= 0x80; x >>= 7)
    at[n++] = (uint8_t)(x | 0x80);
  at[n++] = (uint8_t)x;
  return n;
}

// Writes entries [first, first+count) of `entry_bytes` bytes each as one piece.
static struct piece put_piece(struct world *w, const uint8_t *entries, uint64_t first,
                              uint64_t count, uint32_t entry_bytes, enum encoding encoding) {
  bool is_bool = w->nodes[w->n - 1].dtype == DTYPE_BOOL; // the leaf being made
  struct piece p = {.first = first, .count = count, .checkpoint = NO_ID};
  if (encoding != ENCODING_RAW && chance_below(2)) p.tag_bytes = 1 + chance_below(3);
  static uint8_t line[FILE_BYTES];
  assert_true(count * (entry_bytes + 13u) <= sizeof line);
  size_t n = 0;
  for (uint64_t i = first; i < first + count; i++) {
    memset(line + n, 0x7f, p.tag_bytes);
    n += p.tag_bytes;
    if (encoding != ENCODING_VARINT) {
      memcpy(line + n, entries + i * entry_bytes, entry_bytes);
      n += entry_bytes;
      continue;
    }
    uint64_t value = 0;
    memcpy(&value, entries + i * entry_bytes, entry_bytes);
    // Bits above the element's do not count; negative numbers fill them with ones.
    if (entry_bytes < 8 && !is_bool && chance_below(3) == 0)
      value |= UINT64_MAX << (entry_bytes * 8);
    if (is_bool && value && chance_below(2))
      value = chance_below(2) ? 256 : UINT64_MAX; // both true
    n += put_varint(line + n, value);
  }
  uint8_t *to = file_space(w, n, &p.at.off);
  if (n) memcpy(to, line, n);
  p.at.len = n;
  fake_allow(&w->io, p.at);
  return p;
}

static uint32_t put_pieces(struct world *w, const uint8_t *entries, uint64_t count,
                           uint32_t entry_bytes, enum encoding encoding, struct piece *pieces) {
  uint32_t n = 0, cuts = chance_below(4);
  uint64_t at = 0;
  if (chance_below(10) == 0) cuts = PIECES_MAX - 2;
  while (at < count || n == 0) {
    uint64_t part = n < cuts ? chance_below(count - at + 1) / (1 + chance_below(3)) : count - at;
    pieces[n++] = put_piece(w, entries, at, part, entry_bytes, encoding);
    at += part;
  }
  return n;
}

static void make_extent(struct world *w, struct node *x) {
  char field = dtype_field(x->dtype);
  uint32_t bits = dtype_bits(x->dtype), entry_bytes = 1;
  enum encoding encoding = ENCODING_RAW;
  if (chance_below(2)) {
    encoding = field == 'F' ? ENCODING_FIXED32 : field == 'D' ? ENCODING_FIXED64 : ENCODING_VARINT;
    entry_bytes = field == 'F' ? 4 : field == 'D' ? 8 : x->width;
  }
  uint64_t n;
  uint8_t *bytes = packed_bytes(x, &n), *entries = bytes;
  if (bits == 6 && encoding == ENCODING_VARINT) { // an entry an element, not a byte
    entries = x->elements;
    n = x->count;
  }
  struct piece pieces[PIECES_MAX];
  uint32_t n_pieces = put_pieces(w, entries, n / entry_bytes, entry_bytes, encoding, pieces);
  x->id = recipe_extent(&w->r, x->dtype, x->dims, x->rank, encoding, pieces, n_pieces, NULL);
  free(bytes);
}

static void make_bytes(struct world *w, struct node *x) {
  uint64_t n;
  uint8_t *bytes = packed_bytes(x, &n);
  x->id = recipe_bytes(&w->r, x->dtype, x->dims, x->rank, span_of(bytes, n));
  free(bytes);
}

static void random_element(enum dtype t, uint8_t *out) {
  for (uint32_t i = 0; i < width_of(t); i++)
    out[i] = (uint8_t)chance_64();
  if (t == DTYPE_BOOL) out[0] &= 1;
  if (dtype_bits(t) < 8) out[0] &= (uint8_t)((1 << dtype_bits(t)) - 1);
}

static enum dtype random_dtype(void) {
  static const enum dtype all[] = {
#define DTYPE(symbol, ...) DTYPE_##symbol,
#include "base/dtype.def"
  };
  enum dtype t;
  do
    t = all[chance_below(sizeof all / sizeof *all)];
  while (t == DTYPE_STRING);
  return t;
}

static void add_leaf(struct world *w, enum dtype dtype, const int64_t *dims, uint32_t rank) {
  struct node *x = &w->nodes[w->n++];
  set_shape(x, dtype, dims, rank);
  uint8_t first[16];
  random_element(dtype, first);
  uint32_t kind = chance_below(5);
  for (uint64_t i = 0; i < x->count; i++) {
    if (kind == 0)
      memcpy(element(x, i), first, x->width);
    else
      random_element(dtype, element(x, i));
  }
  if (kind == 0)
    x->id = recipe_fill(&w->r, dtype, dims, rank, span_of(first, x->width));
  else if (kind == 1)
    make_bytes(w, x);
  else
    make_extent(w, x);
}

// ---- operations: the recipe and, element by element, what it means -----------------------------

static void random_dims(int64_t *dims, uint32_t *rank) {
  *rank = chance_below(6);
  uint64_t left = 1 + chance_below(ELEMENTS_MAX);
  for (uint32_t i = 0; i < *rank; i++) {
    dims[i] = chance_below(8) == 0 ? 1
                                   : 1 + chance_below(i + 1 == *rank && chance_below(2) ? left
                                                      : left < 12                       ? left
                                                                                        : 12);
    left /= (uint64_t)dims[i];
    if (left == 0) left = 1;
  }
  if (*rank && chance_below(40) == 0) dims[chance_below(*rank)] = 0;
}

static void add_transpose(struct world *w, const struct node *of) {
  struct node *x = &w->nodes[w->n++];
  int64_t perm[8], dims[8], c[8], d[8];
  for (uint32_t i = 0; i < of->rank; i++)
    perm[i] = i;
  for (uint32_t i = of->rank; i > 1; i--) {
    uint32_t k = chance_below(i);
    int64_t t = perm[k];
    perm[k] = perm[i - 1];
    perm[i - 1] = t;
  }
  for (uint32_t i = 0; i < of->rank; i++)
    dims[i] = of->dims[perm[i]];
  set_shape(x, of->dtype, dims, of->rank);
  x->id = recipe_transpose(&w->r, of->id, perm);
  for (uint64_t at = 0; at < x->count; at++) {
    coordinates(x, at, c);
    for (uint32_t i = 0; i < x->rank; i++)
      d[perm[i]] = c[i];
    memcpy(element(x, at), element(of, index_of(of, d)), x->width);
  }
}

static void add_slice(struct world *w, const struct node *of) {
  struct node *x = &w->nodes[w->n++];
  int64_t starts[8], steps[8], dims[8], c[8];
  for (uint32_t i = 0; i < of->rank; i++) {
    int64_t dim = of->dims[i], room;
    starts[i] = dim ? chance_below((uint64_t)dim) : 0;
    steps[i] = chance_below(3) ? 1 : 1 + chance_below(4);
    if (chance_below(4) == 0) steps[i] = -steps[i];
    room = steps[i] > 0 ? dim - starts[i] : starts[i] + 1;
    int64_t most = (room + llabs(steps[i]) - 1) / llabs(steps[i]);
    dims[i] = dim ? (chance_below(2) ? most : 1 + chance_below((uint64_t)most)) : 0;
    if (dims[i] == 1 && chance_below(3) == 0) steps[i] = chance_below(2) ? INT64_MAX : -INT64_MAX;
  }
  set_shape(x, of->dtype, dims, of->rank);
  x->id = recipe_slice(&w->r, of->id, starts, steps, dims);
  for (uint64_t at = 0; at < x->count; at++) {
    coordinates(x, at, c);
    for (uint32_t i = 0; i < x->rank; i++)
      c[i] = starts[i] + (c[i] ? c[i] * steps[i] : 0);
    memcpy(element(x, at), element(of, index_of(of, c)), x->width);
  }
}

static void add_pad(struct world *w, const struct node *of) {
  struct node *x = &w->nodes[w->n++];
  int64_t befores[8], afters[8], dims[8], c[8];
  for (uint32_t i = 0; i < of->rank; i++) {
    befores[i] = chance_below(2) ? 0 : chance_below(4);
    afters[i] = chance_below(2) ? 0 : chance_below(4);
    dims[i] = of->dims[i] + befores[i] + afters[i];
  }
  uint8_t with[16];
  random_element(of->dtype, with);
  set_shape(x, of->dtype, dims, of->rank);
  x->id = recipe_pad(&w->r, of->id, befores, afters, span_of(with, x->width));
  for (uint64_t at = 0; at < x->count; at++) {
    bool inside = true;
    coordinates(x, at, c);
    for (uint32_t i = 0; i < x->rank; i++) {
      c[i] -= befores[i];
      if (c[i] < 0 || c[i] >= of->dims[i]) inside = false;
    }
    memcpy(element(x, at), inside ? element(of, index_of(of, c)) : with, x->width);
  }
}

// Of a node, itself, and a new leaf that fits.
static void add_concat(struct world *w, uint32_t of_index) {
  if (w->nodes[of_index].rank == 0 || w->n + 2 > NODES_MAX) return;
  uint32_t axis = chance_below(w->nodes[of_index].rank), parts[3] = {of_index, of_index, of_index},
           n = 2;
  int64_t dims[8], c[8];
  memcpy(dims, w->nodes[of_index].dims, sizeof dims);
  if (chance_below(2)) {
    dims[axis] = chance_below(5);
    parts[chance_below(3)] = w->n;
    n = 3;
    add_leaf(w, w->nodes[of_index].dtype, dims, w->nodes[of_index].rank);
  }
  struct node *x = &w->nodes[w->n++];
  uint32_t ids[3];
  dims[axis] = 0;
  for (uint32_t i = 0; i < n; i++) {
    ids[i] = w->nodes[parts[i]].id;
    dims[axis] += w->nodes[parts[i]].dims[axis];
  }
  set_shape(x, w->nodes[of_index].dtype, dims, w->nodes[of_index].rank);
  x->id = recipe_concat(&w->r, ids, n, axis);
  for (uint64_t at = 0; at < x->count; at++) {
    uint32_t i = 0;
    coordinates(x, at, c);
    for (; c[axis] >= w->nodes[parts[i]].dims[axis]; i++)
      c[axis] -= w->nodes[parts[i]].dims[axis];
    const struct node *of = &w->nodes[parts[i]];
    memcpy(element(x, at), element(of, index_of(of, c)), x->width);
  }
}

static void add_reshape(struct world *w, const struct node *of) {
  struct node *x = &w->nodes[w->n++];
  int64_t dims[8];
  uint32_t rank = 0;
  int64_t left = (int64_t)of->count;
  for (int64_t f = 2; f <= 7 && rank < 3; f++)
    if (left && left % f == 0 && chance_below(2)) {
      dims[rank++] = f;
      left /= f;
    }
  dims[rank++] = left;
  set_shape(x, of->dtype, dims, rank);
  x->id = recipe_reshape(&w->r, of->id, dims, rank);
  memcpy(x->elements, of->elements, of->count * of->width);
}

static bool may_be_open(enum dtype from, enum dtype to) {
  const bool low = to == DTYPE_FLOAT4E2M1 || to == DTYPE_FLOAT6E2M3 || to == DTYPE_FLOAT6E3M2 ||
                   to == DTYPE_FLOAT8E8M0;
  return low || (dtype_is_float(from) && dtype_is_integer(to) && to != DTYPE_BOOL);
}

// Casts of the four plain floats clip nothing and have kernels of their own.
static void add_cast(struct world *w, const struct node *of) {
  static const enum dtype floats[] = {DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_DOUBLE};
  const enum dtype to = chance_below(2) ? floats[chance_below(4)] : random_dtype();
  if (!recipe_can_convert(of->dtype, to)) return;
  const struct recipe_conversion q = {
      .to = to, .saturates = chance_below(2), .round = (enum recipe_round)chance_below(3)};
  const struct kernels_cast c = {.from = (uint8_t)of->dtype,
                                 .to = (uint8_t)to,
                                 .saturate = q.saturates,
                                 .round = (uint8_t)q.round};
  uint8_t *out = malloc(of->count * width_of(to) + 1);
  uint64_t open = 0;
  for (uint64_t i = 0; i < of->count && to != of->dtype; i++)
    open += kernels_convert(out + i * width_of(to), element(of, i), 1, &c);
  if (to == of->dtype) memcpy(out, of->elements, of->count * of->width); // no NaN becomes quiet
  assert_true(open == 0 || may_be_open(of->dtype, to));
  if (open) { // refused: test_eval_math.c
    free(out);
    return;
  }
  struct node *x = &w->nodes[w->n++];
  set_shape(x, to, of->dims, of->rank);
  memcpy(x->elements, out, of->count * x->width);
  x->id = recipe_convert(&w->r, of->id, &q);
  free(out);
}

// The index of the operand's element that falls on coordinates c of the result.
static uint64_t broadcast_index(const struct node *of, const struct node *x, const int64_t *c) {
  int64_t d[8];
  for (uint32_t i = 0; i < of->rank; i++)
    d[i] = of->dims[i] == 1 ? 0 : c[i + x->rank - of->rank];
  return index_of(of, d);
}

// A leaf that broadcasts against a node's dims, or against which the node does.
static const struct node *add_partner(struct world *w, const struct node *of, enum dtype dtype) {
  int64_t dims[8];
  uint32_t from = chance_below(3) ? 0 : chance_below(of->rank + 1), rank = 0;
  const bool grows = of->count < ELEMENTS_MAX / 8;
  for (uint32_t i = from; i < of->rank; i++)
    dims[rank++] = chance_below(2)             ? of->dims[i]
                   : of->dims[i] == 1 && grows ? 1 + chance_below(3)
                                               : 1;
  add_leaf(w, dtype, dims, rank);
  return &w->nodes[w->n - 1];
}

static void add_map(struct world *w, const struct node *of) {
  const enum recipe_map_op op = (enum recipe_map_op)chance_below(RECIPE_MAP_OPS);
  const uint32_t n = recipe_map_operands(op);
  if (w->n + 3 > NODES_MAX || recipe_map_result(op, of->dtype) == DTYPE_UNDEFINED) return;
  const struct node *operands[3] = {of, of, of};
  const uint32_t side = n == 3 ? 1 + chance_below(2) : chance_below(n), before = w->n;
  for (uint32_t i = 0; i < n; i++)
    if (i != side && (i == 0 || chance_below(8)))
      operands[i] = add_partner(w, of, n == 3 && i == 0 ? DTYPE_BOOL : of->dtype);
  uint32_t ids[3];
  for (uint32_t i = 0; i < n; i++)
    ids[i] = operands[i]->id;
  if (!recipe_can_map(&w->r, op, ids)) { // two partners that grew apart
    while (w->n > before)
      free(w->nodes[--w->n].elements);
    return;
  }
  struct node *x = &w->nodes[w->n++];
  int64_t dims[8], c[8];
  x->id = recipe_map(&w->r, op, ids);
  const uint32_t rank = w->r.rows[x->id].rank;
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = recipe_dims(&w->r, x->id)[i];
  set_shape(x, recipe_map_result(op, of->dtype), dims, rank);
  uint64_t open = 0;
  for (uint64_t at = 0; at < x->count; at++) {
    struct kernels_operand at_once[3];
    coordinates(x, at, c);
    for (uint32_t i = 0; i < n; i++)
      at_once[i].at = element(operands[i], broadcast_index(operands[i], x, c)),
      at_once[i].stride = 1;
    open += kernels_map((enum kernels_map)op, of->dtype, element(x, at), at_once, 1);
  }
  while (open && w->n > before) // refused: test_eval_math.c
    free(w->nodes[--w->n].elements);
}

// By indices that are known, or come out of a cast.
static void add_gather(struct world *w, const struct node *of) {
  if (of->rank == 0 || w->n + 3 > NODES_MAX) return;
  const uint32_t axis = chance_below(of->rank), rank = chance_below(3);
  int64_t list_dims[2], dims[8], list[64];
  uint64_t m = 1, inner = 1;
  for (uint32_t i = 0; i < rank; i++)
    m *= (uint64_t)(list_dims[i] = chance_below(of->count < ELEMENTS_MAX / 8 ? 7 : 3));
  const int64_t n = of->dims[axis], start = n ? chance_below((uint64_t)n) : 0;
  if ((m > 0 && n == 0) || of->rank + rank > 8) return;
  const bool follow = chance_below(3) == 0;
  for (uint64_t i = 0; i < m; i++) {
    list[i] = follow ? (start + (int64_t)i) % n : (int64_t)chance_below((uint64_t)n);
    if (chance_below(4) == 0) list[i] -= n;
  }
  uint32_t by = recipe_bytes(&w->r, DTYPE_INT64, list_dims, rank, span_of(list, m * sizeof *list));
  if (chance_below(2)) by = recipe_cast(&w->r, by, DTYPE_INT32);
  for (uint32_t i = 0; i < of->rank; i++) {
    if (i < axis) dims[i] = of->dims[i];
    if (i > axis) dims[i + rank - 1] = of->dims[i];
    if (i > axis) inner *= (uint64_t)of->dims[i];
  }
  memcpy(dims + axis, list_dims, rank * sizeof *dims);
  struct node *x = &w->nodes[w->n++];
  set_shape(x, of->dtype, dims, of->rank + rank - 1);
  x->id = recipe_gather(&w->r, of->id, by, axis);
  for (uint64_t at = 0; at < x->count; at++) {
    const int64_t index = list[at / inner % m], c = index < 0 ? index + n : index;
    const uint64_t from = (at / inner / m * (uint64_t)n + (uint64_t)c) * inner + at % inner;
    memcpy(element(x, at), element(of, from), x->width);
  }
}

// Scales for the elements of a node: one, one for each index of *axis, or for each block of *block of these. Their dims and
// rank; *axis is RECIPE_PER_TENSOR and *block 0 where they stay.
static uint32_t chance_scales(const struct node *of, uint32_t *axis, uint64_t *block,
                              int64_t *dims) {
  if (of->rank == 0 || !chance_below(4)) return 0;
  *axis = chance_below(of->rank);
  dims[0] = of->dims[*axis];
  if (!chance_below(2)) return 1;
  *block = 1 + chance_below(10);
  memcpy(dims, of->dims, sizeof of->dims);
  dims[*axis] = (dims[*axis] + (int64_t)*block - 1) / (int64_t)*block;
  return of->rank;
}

// Which of them is that of the element at c, which is changed.
static uint64_t scale_at(const struct node *scales, uint32_t axis, uint64_t block, int64_t *c) {
  if (axis == RECIPE_PER_TENSOR) return 0;
  if (block == 0) return (uint64_t)c[axis];
  c[axis] /= (int64_t)block;
  return index_of(scales, c);
}

static void add_dequantize(struct world *w, const struct node *of) {
  static const enum dtype types[] = {DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16};
  if (w->n + 3 > NODES_MAX) return;
  struct recipe_dequantization q = {.axis = RECIPE_PER_TENSOR, .zeros = NO_ID};
  int64_t dims[8], c[8];
  const uint32_t rank = chance_scales(of, &q.axis, &q.block, dims);
  const enum dtype type = types[chance_below(3)];
  const uint32_t before = w->n;
  add_leaf(w, type, dims, rank);
  const struct node *scales = &w->nodes[w->n - 1], *zeros = NULL;
  q.scales = scales->id;
  if (chance_below(2)) {
    add_leaf(w, of->dtype, dims, rank);
    zeros = &w->nodes[w->n - 1];
    q.zeros = zeros->id;
  }
  if (!recipe_can_dequantize(&w->r, of->id, &q)) {
    while (w->n > before)
      free(w->nodes[--w->n].elements);
    return;
  }
  struct node *x = &w->nodes[w->n++];
  set_shape(x, type, of->dims, of->rank);
  x->id = recipe_dequantize(&w->r, of->id, &q);
  const struct kernels_dequantized d = {
      .codes = (uint8_t)of->dtype, .scales = (uint8_t)type, .out = (uint8_t)type};
  for (uint64_t at = 0; at < x->count; at++) {
    coordinates(x, at, c);
    const uint64_t by = scale_at(scales, q.axis, q.block, c);
    const struct kernels_operand scale = {.at = element(scales, by)};
    const struct kernels_operand zero = {.at = zeros ? element(zeros, by) : NULL};
    kernels_dequantize(&d, element(x, at), element(of, at), scale, zero, 1);
  }
}

static void add_reduce(struct world *w, const struct node *of) {
  struct recipe_reduction q = {.op = (enum recipe_reduce_op)chance_below(5)};
  int64_t dims[8], c[8];
  uint32_t rank = 0;
  for (uint32_t i = 0; i < of->rank; i++)
    if (chance_below(2))
      q.axes |= UINT64_C(1) << i;
    else
      dims[rank++] = of->dims[i];
  if (!recipe_can_reduce(&w->r, of->id, &q)) return;
  struct node *x = &w->nodes[w->n++];
  set_shape(x, of->dtype, dims, rank);
  x->id = recipe_reduce(&w->r, of->id, &q);
  const uint64_t n = of->count / x->count;
  uint64_t *have = calloc(x->count, sizeof *have);
  uint8_t *columns = malloc(of->count * of->width);
  for (uint64_t at = 0; at < of->count; at++) {
    uint64_t to = 0;
    coordinates(of, at, c);
    for (uint32_t i = 0; i < of->rank; i++)
      if (!(q.axes >> i & 1)) to = to * (uint64_t)of->dims[i] + (uint64_t)c[i];
    memcpy(columns + (to * n + have[to]++) * of->width, element(of, at), of->width);
  }
  for (uint64_t at = 0; at < x->count; at++)
    reduce_reference(element(x, at), columns + at * n * of->width, n, (enum kernels_reduce)q.op,
                     of->dtype);
  free(have);
  free(columns);
}

// Codes that lie as the operand does, each slab of it [k, inner] by one call of the kernel.
static void add_quantize(struct world *w, const struct node *of) {
  if (of->rank == 0 || of->count == 0 || of->width > 4 || !dtype_is_float(of->dtype)) return;
  struct recipe_quantization q = {.format = FORMAT_QDQ,
                                  .bits = 2u << chance_below(3),
                                  .symmetric = chance_below(2),
                                  .axis = chance_below(of->rank)};
  q.block = chance_below(3) ? 1 + chance_below(40) : 0;
  if (!recipe_can_quantize(&w->r, of->id, &q, PART_CODES)) return;
  struct node *x = &w->nodes[w->n++];
  uint64_t outer = 1, inner = 1;
  const uint64_t k = (uint64_t)of->dims[q.axis];
  for (uint32_t i = 0; i < of->rank; i++) {
    if (i < q.axis) outer *= (uint64_t)of->dims[i];
    if (i > q.axis) inner *= (uint64_t)of->dims[i];
  }
  x->id = recipe_quantize(&w->r, of->id, &q, PART_CODES);
  set_shape(x, (enum dtype)w->r.rows[x->id].dtype, of->dims, of->rank);
  const enum kernels_float in = of->dtype == DTYPE_FLOAT     ? KERNELS_F32
                                : of->dtype == DTYPE_FLOAT16 ? KERNELS_F16
                                                             : KERNELS_BF16;
  const size_t block = q.block && q.block < k ? (size_t)q.block : (size_t)k;
  const struct kernels_block_format f = {.rule = KERNELS_QDQ,
                                         .bits = (uint8_t)q.bits,
                                         .symmetric = q.symmetric,
                                         .in_type = (uint8_t)in,
                                         .scale_type =
                                             in == KERNELS_F16 ? KERNELS_F16 : KERNELS_F32,
                                         .block = block};
  for (uint64_t o = 0; o < outer; o++) {
    const struct kernels_panel p = {.in = element(of, o * k * inner),
                                    .in_stride = (size_t)inner,
                                    .n = (size_t)inner,
                                    .k = (size_t)k,
                                    .codes = element(x, o * k * inner),
                                    .codes_stride = (size_t)inner};
    kernels_quantize_columns(&p, &f);
  }
}

// ---- linear quantization: spelled out ----

static double value_of(const struct node *x, uint64_t at) {
  const struct kernels_cast c = {.from = (uint8_t)x->dtype, .to = DTYPE_DOUBLE};
  double v;
  kernels_convert(&v, element(x, at), 1, &c);
  return v;
}

static bool is_finite_float(const struct node *x) {
  if (x->width > 4 || dtype_bits(x->dtype) < 16 || !dtype_is_float(x->dtype)) return false;
  for (uint64_t i = 0; i < x->count; i++)
    if (!isfinite(value_of(x, i))) return false;
  return true;
}

static void linear_code(void *out, enum dtype type, double x, double scale, double zero) {
  const double top = ldexp(1, (int)dtype_bits(type) - (int)dtype_is_signed(type)) - 1;
  const double low = dtype_is_signed(type) ? -top - 1 : 0;
  const float quotient = (float)x / (float)scale;
  const double y =
      type == DTYPE_INT32 ? rint(x / scale) : (double)((float)rint(quotient) + (float)zero);
  const int32_t code = (int32_t)(y < low ? low : y > top ? top : y);
  if (dtype_is_integer(type)) {
    const uint32_t bits = (uint32_t)code & (uint32_t)((UINT64_C(1) << dtype_bits(type)) - 1);
    memcpy(out, &bits, width_of(type));
    return;
  }
  const struct kernels_cast c = {.from = DTYPE_FLOAT, .to = (uint8_t)type, .saturate = true};
  kernels_convert(out, &quotient, 1, &c);
}

// A leaf of scales, none of them 0, or of zero points: some in float16.
static uint32_t add_list(struct world *w, enum dtype type, const int64_t *dims, uint32_t rank) {
  struct node *x = &w->nodes[w->n++];
  set_shape(x, type, dims, rank);
  for (uint64_t i = 0; i < x->count; i++) {
    const float scale = (1 + (float)chance_below(50)) / (chance_below(2) ? 64 : -3);
    const uint32_t bits = chance_below(1 << 16) & (uint32_t)((1 << dtype_bits(type) % 32) - 1);
    const struct kernels_cast c = {.from = DTYPE_FLOAT, .to = (uint8_t)type};
    memcpy(element(x, i), &bits, x->width < 4 ? x->width : 4);
    if (dtype_is_float(type)) kernels_convert(element(x, i), &scale, 1, &c);
  }
  uint64_t n;
  uint8_t *packed = packed_bytes(x, &n);
  x->id = recipe_bytes(&w->r, type, dims, rank, span_of(packed, n));
  free(packed);
  return x->id;
}

static void add_linear(struct world *w, const struct node *of) {
  static const enum dtype types[] = {
      DTYPE_INT2,  DTYPE_UINT2,  DTYPE_INT4,  DTYPE_UINT4,        DTYPE_INT8,          DTYPE_UINT8,
      DTYPE_INT16, DTYPE_UINT16, DTYPE_INT32, DTYPE_FLOAT8E4M3FN, DTYPE_FLOAT8E5M2FNUZ};
  if (w->n + 3 > NODES_MAX || !is_finite_float(of)) return;
  struct recipe_linear q = {
      .type = types[chance_below(11)], .zeros = NO_ID, .axis = RECIPE_PER_TENSOR};
  int64_t dims[8], c[8];
  const uint32_t rank = chance_scales(of, &q.axis, &q.block, dims);
  q.scales = add_list(w, chance_below(2) ? DTYPE_FLOAT : DTYPE_FLOAT16, dims, rank);
  const struct node *scales = &w->nodes[w->n - 1], *zeros = NULL;
  if (dtype_is_integer(q.type) && q.type != DTYPE_INT32 && chance_below(2)) {
    q.zeros = add_list(w, q.type, dims, rank);
    zeros = &w->nodes[w->n - 1];
  }
  assert_true(recipe_can_quantize_linear(&w->r, of->id, &q));
  struct node *x = &w->nodes[w->n++];
  set_shape(x, q.type, of->dims, of->rank);
  x->id = recipe_quantize_linear(&w->r, of->id, &q);
  for (uint64_t at = 0; at < x->count; at++) {
    coordinates(x, at, c);
    const uint64_t by = scale_at(scales, q.axis, q.block, c);
    linear_code(element(x, at), q.type, value_of(of, at), value_of(scales, by),
                zeros ? value_of(zeros, by) : 0);
  }
}

// Scales of FORMAT_LINEAR (asymmetric uint8, by channel or block), and the codes that they give.
static void add_linear_found(struct world *w, const struct node *of) {
  if (w->n + 3 > NODES_MAX || of->rank == 0 || of->count == 0 || of->dtype != DTYPE_FLOAT ||
      !is_finite_float(of))
    return;
  struct recipe_quantization q = {
      .format = FORMAT_LINEAR, .type = DTYPE_UINT8, .axis = chance_below(of->rank)};
  if (chance_below(2)) q.block = 1 + chance_below(20);
  int64_t dims[8] = {of->dims[q.axis]}, c[8];
  const int64_t block = q.block && (int64_t)q.block < of->dims[q.axis] ? (int64_t)q.block
                        : q.block                                      ? of->dims[q.axis]
                                                                       : 1;
  if (q.block) memcpy(dims, of->dims, sizeof dims);
  if (q.block) dims[q.axis] = (dims[q.axis] + block - 1) / block;
  struct node *scales = &w->nodes[w->n++], *codes = &w->nodes[w->n++];
  set_shape(scales, DTYPE_FLOAT, dims, q.block ? of->rank : 1);
  set_shape(codes, DTYPE_UINT8, of->dims, of->rank);
  scales->id = recipe_quantize(&w->r, of->id, &q, PART_SCALES);
  codes->id = recipe_quantize(&w->r, of->id, &q, PART_CODES);
  double *lo = calloc(scales->count, sizeof *lo), *hi = calloc(scales->count, sizeof *hi);
  for (int round = 0; round < 2; round++)
    for (uint64_t at = 0; at < of->count; at++) {
      coordinates(of, at, c);
      c[q.axis] /= block;
      const uint64_t by = q.block ? index_of(scales, c) : (uint64_t)c[q.axis];
      const double v = value_of(of, at);
      if (round == 0) {
        lo[by] = fmin(lo[by], v);
        hi[by] = fmax(hi[by], v);
        continue;
      }
      const double range = q.block ? (double)(float)(hi[by] - lo[by]) : hi[by] - lo[by];
      float s = (float)(range / 255);
      if (range / 255 < 0x1p-126) s = 1; // such elements are 0, or next to it
      const double zero =
          range / 255 < 0x1p-126 ? 0 : rint(0 - lo[by] / (q.block ? (double)s : range / 255));
      memcpy(element(scales, by), &s, 4);
      linear_code(element(codes, at), DTYPE_UINT8, v, (double)s, zero < 255 ? zero : 255);
    }
  bool usual = true;
  for (uint64_t i = 0; i < scales->count; i++)
    usual &= (hi[i] - lo[i] == 0 || hi[i] - lo[i] > 1e-30) && hi[i] - lo[i] < 1e38;
  free(lo);
  free(hi);
  for (int i = 0; i < 2 && !usual; i++)
    free(w->nodes[--w->n].elements);
}

static void add_operation(struct world *w) {
  uint32_t of = chance_below(3) ? w->n - 1 : chance_below(w->n);
  if (w->nodes[of].count > 4 * ELEMENTS_MAX) return;
  switch (chance_below(22)) {
  case 0:
  case 1: add_transpose(w, &w->nodes[of]); break;
  case 2: add_slice(w, &w->nodes[of]); break;
  case 3: add_pad(w, &w->nodes[of]); break;
  case 4: add_concat(w, of); break;
  case 5: add_reshape(w, &w->nodes[of]); break;
  case 6: add_quantize(w, &w->nodes[of]); break;
  case 7:
  case 8:
  case 9: add_map(w, &w->nodes[of]); break;
  case 10:
  case 11: add_gather(w, &w->nodes[of]); break;
  case 12:
  case 13: add_dequantize(w, &w->nodes[of]); break;
  case 14:
  case 15: add_reduce(w, &w->nodes[of]); break;
  case 16:
  case 17: add_linear(w, &w->nodes[of]); break;
  case 18: add_linear_found(w, &w->nodes[of]); break;
  default: add_cast(w, &w->nodes[of]); break;
  }
}

// ---- cases -------------------------------------------------------------------------------------

static uint8_t *file_memory;

static void world_open(struct world *w, uint64_t number) {
  static const enum dtype floats[] = {DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_DOUBLE};
  memset(w, 0, sizeof *w);
  chance_seed = number * 1000003;
  recipes_init(&w->r);
  w->io.memory = file_memory;
  for (size_t i = 0; i < FILE_BYTES / 64; i++)
    w->io.memory[i] = 0xff;
  int64_t dims[8];
  uint32_t rank;
  random_dims(dims, &rank);
  add_leaf(w, chance_below(3) ? random_dtype() : floats[chance_below(4)], dims, rank);
  for (uint32_t i = chance_below(8); i > 0 && w->n < NODES_MAX; i--)
    add_operation(w);
}

static void world_close(struct world *w) {
  for (uint32_t i = 0; i < w->n; i++)
    free(w->nodes[i].elements);
  recipes_free(&w->r);
}

static struct eval *open_small(struct world *w) {
  struct eval *ev;
  struct err err = {0};
  assert_int_equal(eval_open(&ev, &w->r, &w->io, EVAL_BUDGET_MIN, &err), 0);
  if (chance_below(4))
    ev->box_memory_bytes = (chance_below(2) ? 64 : 512) * EVAL_BOXES + chance_below(4096);
  return ev;
}

// Reads a range into junk with more junk behind and compares both.
static void check_range(struct eval *ev, const struct node *x, const uint8_t *want, uint64_t off,
                        size_t n, uint64_t number) {
  struct err err = {0};
  uint8_t *buf = malloc(n + 8);
  memset(buf, 0xa5, n + 8);
  if (recipe_read(ev, x->id, off, buf, n, &err) != 0)
    fail_msg("case %llu: %s", (unsigned long long)number, err.msg);
  for (size_t i = 0; i < n; i++)
    if (buf[i] != want[off + i])
      fail_msg("case %llu: %s %s, byte %llu of a read at %llu of %zu: %02x, not %02x",
               (unsigned long long)number, dtype_name(x->dtype), quote_dims(x->dims, x->rank).s,
               (unsigned long long)i, (unsigned long long)off, n, buf[i], want[off + i]);
  for (size_t i = n; i < n + 8; i++)
    assert_int_equal(buf[i], 0xa5);
  free(buf);
}

static void check_node(struct eval *ev, const struct node *x, uint64_t number) {
  uint64_t n;
  uint8_t *want = packed_bytes(x, &n);
  check_range(ev, x, want, 0, (size_t)n, number);
  for (uint64_t at = 0; at < n;) {
    uint64_t part = min_u64(1 + chance_below(chance_below(2) ? 40 : n), n - at);
    check_range(ev, x, want, at, (size_t)part, number);
    at += part;
  }
  for (int i = 0; i < 6; i++) {
    uint64_t from = chance_below(n + 1);
    check_range(ev, x, want, from, chance_below(n - from + 1), number);
  }
  free(want);
}

static void test_random_recipes(void **state) {
  (void)state;
  static struct world w;
  for (uint64_t number = 0; number < CASES; number++) {
    world_open(&w, number);
    struct eval *ev = open_small(&w);
    check_node(ev, &w.nodes[w.n - 1], number);
    check_node(ev, &w.nodes[chance_below(w.n)], number);
    eval_close(ev);
    world_close(&w);
  }
}

// Fails the first, second, third … read of the sources until nothing is left to fail.
static void check_faults(struct eval *ev, struct world *w, const struct node *x, uint64_t number) {
  uint64_t n;
  uint8_t *want = packed_bytes(x, &n), *buf = malloc(n + 1);
  for (uint64_t k = 1;; k++) {
    struct err err = {0};
    w->io.calls = 0;
    w->io.fail_at = k;
    int failed = recipe_read(ev, x->id, 0, buf, (size_t)n, &err);
    bool injected = w->io.calls >= k;
    w->io.fail_at = 0;
    assert_int_equal(failed, injected ? -1 : 0);
    assert_int_equal(err.kind, injected ? ERR_IO : ERR_NONE);
    check_range(ev, x, want, 0, (size_t)n, number);
    if (!injected || k > 50) break;
    ev->root = NO_ID; // forget the boxes, so that the sources are read again
  }
  free(want);
  free(buf);
}

static void test_faults(void **state) {
  (void)state;
  static struct world w;
  for (uint64_t number = 0; number < FAULT_CASES; number++) {
    world_open(&w, number);
    struct eval *ev = open_small(&w);
    check_faults(ev, &w, &w.nodes[w.n - 1], number);
    eval_close(ev);
    world_close(&w);
  }
}

int test_eval_random(void) {
  file_memory = malloc(FILE_BYTES);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_recipes),
      cmocka_unit_test(test_faults),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  free(file_memory);
  return failed;
}
