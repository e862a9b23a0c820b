// Tensor rows: what a TensorProto claims, checked against what it holds.
//
//   dims × dtype ──▶ bytes in RAW form ──▶ must equal what the payload, or the external range, has
//
// Exactly one payload kind may be there, and it must be the one that the type is stored in
// (dtype.def's typed field) or raw_data. Typed fields count entries, not bytes: one per element;
// complex numbers take two; a 4- or 2-bit type packs 2 or 4 elements into an int32_data entry of
// one byte; a 6-bit type takes an entry an element.
//
// Small tensors are materialized at once, wherever they lie. An inline one then needs no pieces; an
// external one keeps them, because its bytes may also be copied.
#include "stream/load/inside/loader.h"

#include <assert.h>

struct tensor_unit {
  struct model_tensor row;
  struct row_name name;
  struct external external;
  uint64_t elements;
  bool shaped, good; // its dims are; all of it is
};

// ---- where the elements are ---------------------------------------------------------------------

// Entries that the payload must have.
static uint64_t entries_wanted(const struct tensor_unit *u, enum encoding encoding) {
  const enum dtype dtype = u->row.dtype;
  if (encoding == ENCODING_RAW) return u->row.bytes;
  if (dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128) return 2 * u->elements;
  const uint32_t bits = dtype_bits(dtype);
  return bits == 4 || bits == 2 ? u->row.bytes : u->elements;
}

static char letter_of(const struct schema_field *field) {
  return field->name[0] == 'f'   ? 'F'
         : field->name[0] == 'd' ? 'D'
         : field->name[0] == 's' ? 'S'
         : field->name[0] == 'u' ? 'U'
         : field->name[3] == '6' ? 'L'  // int64_data
                                 : 'I'; // int32_data
}

// ---- the row ------------------------------------------------------------------------------------

static bool is_small(const struct model_tensor *t) {
  if (t->dtype == DTYPE_STRING) return false;
  return t->bytes <= (uint64_t)(dtype_is_integer(t->dtype) ? SMALL_INTEGER_BYTES : SMALL_ANY_BYTES);
}

static void set_pieces(struct loader *l, struct model_tensor *t, uint32_t first, uint32_t n) {
  struct model *m = l->m;
  t->pieces = first;
  t->n_pieces = n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
  if (t->n_pieces < UINT16_MAX) return;
  // Rows are made in order, so these pairs are sorted by tensor.
  const uint32_t pair = TABLE_ADD(m, piece_counts, 2);
  m->piece_counts[pair] = m->n_tensors;
  m->piece_counts[pair + 1] = n;
}

// For who wants to say where a tensor lies that keeps no pieces (model_plain_place).
static uint32_t plain_start(const struct model_tensor *t, const struct payload *p) {
  const bool fixed = t->encoding == ENCODING_FIXED32 || t->encoding == ENCODING_FIXED64;
  if (p->n_pieces != 1) return 0;
  const struct piece *piece = &p->pieces[0];
  const uint64_t start = piece->at.off - t->src.off;
  if (t->encoding != ENCODING_RAW && !(fixed && piece->tag_bytes == 0)) return 0;
  return start < UINT32_MAX ? (uint32_t)start : 0;
}

static int take_inline(struct loader *l, struct model_tensor *t, const struct payload *p) {
  t->encoding = (uint8_t)load_payload_encoding(p);
  const struct payload_source from = {p->pieces, p->n_pieces, t->encoding};
  if (is_small(t)) {
    t->pieces = plain_start(t, p);
    return load_payload_materialize(l, &from, t->dtype, t->bytes, &t->small);
  }
  for (uint32_t i = 0; i < p->n_pieces; i++)
    load_payload_elide(l, (struct place){p->pieces[i].at.off, p->pieces[i].at.len});
  set_pieces(l, t, load_payload_commit(l, p), p->n_pieces);
  return 0;
}

static int take_external(struct loader *l, struct tensor_unit *u) {
  struct model *m = l->m;
  const struct external *x = &u->external;
  u->row.encoding = x->len ? ENCODING_RAW : ENCODING_NONE;
  const uint32_t id = TABLE_ADD(m, pieces, 1);
  m->pieces[id] = (struct piece){
      .at = {.off = x->off, .len = x->len, .file = x->file}, .count = x->len, .checkpoint = NO_ID};
  set_pieces(l, &u->row, id, 1);
  if (!is_small(&u->row) || l->options.no_external || !load_external_readable(l, x)) return 0;
  uint8_t *to = load_payload_small_room(l, x->len, &u->row.small);
  return to ? sources_read(l->s, x->file, x->off, to, (size_t)x->len, l->err) : -1;
}

static enum tensor_home home_of(const struct loader *l, uint8_t *flags) {
  const struct frame *around = &l->frames[l->depth - 1];
  if (around->message == MESSAGE_GRAPH) return HOME_INITIALIZER;
  if (around->message == MESSAGE_ATTRIBUTE) return HOME_ATTRIBUTE;
  *flags |= TENSOR_SPARSE;
  return l->frames[l->depth - 2].message == MESSAGE_GRAPH ? HOME_SPARSE_INITIALIZER
                                                          : HOME_ATTRIBUTE;
}

// Initializers often come in the order in which nodes named them, so the name after the last one,
// or as far after it as that was after the one before, is a good guess. A guess that holds saves a
// look into a table much larger than the cache.
static uint32_t guess_name(struct loader *l, struct span name) {
  const struct model *m = l->m;
  const uint32_t guess = l->tensor_name + l->tensor_stride;
  const uint32_t id = load_name_like(l, name, guess < m->n_name_at ? guess : m->empty);
  if (id == m->empty) return id;
  l->tensor_stride = id - l->tensor_name;
  l->tensor_name = id;
  return id;
}

// A row whose data is at fault (and a sink goes on) keeps its name and place and nothing else.
static int check_unit(struct loader *l, const struct frame *f, const Pb__Tensor *t,
                      struct tensor_unit *u) {
  struct model_tensor *row = &u->row;
  const struct payload *p = &f->payload;
  if (t->n_dims > RANK_MAX)
    return load_fault(l, FAULT_ERROR, row_place(&u->name).s, "%zu dims; at most %d are allowed",
                      t->n_dims, RANK_MAX);
  if (!dims_product(t->dims, (uint32_t)t->n_dims, &u->elements))
    return load_fault(l, FAULT_ERROR, row_place(&u->name).s,
                      "dims %s are negative, or their product overflows",
                      quote_dims(t->dims, (uint32_t)t->n_dims).s);
  u->shaped = true;
  if (!dtype_known(t->data_type))
    return load_fault(l, FAULT_ERROR, row_place(&u->name).s,
                      "data_type %d is not an element type that weir knows", t->data_type);
  const enum dtype dtype = row->dtype = (uint8_t)t->data_type;
  if (dtype != DTYPE_STRING && !dtype_bytes(dtype, u->elements, &row->bytes))
    return load_fault(l, FAULT_ERROR, row_place(&u->name).s,
                      "%s elements of %s need more than 2^63-1 bytes", decimal(u->elements).s,
                      dtype_name(dtype));
  if (t->segment)
    return load_fault(l, FAULT_ERROR, row_place(&u->name).s,
                      "has a segment: tensors stored in chunks are not supported");
  if (t->data_location == 1) {
    row->flags |= TENSOR_EXTERNAL;
    if (p->field && p->entries)
      return load_fault(l, FAULT_ERROR, row_place(&u->name).s, "is EXTERNAL, but has %s too",
                        p->field->name);
    if (dtype == DTYPE_STRING)
      return load_fault(l, FAULT_ERROR, row_place(&u->name).s, "strings cannot be external data");
    return load_external_parse(l, t, &u->name, row->bytes, &u->external, &u->good);
  }
  if (t->data_location != 0)
    return load_fault(l, FAULT_ERROR, row_place(&u->name).s, "data_location %d does not exist",
                      t->data_location);
  if (t->n_external_data &&
      load_fault(l, FAULT_WARNING, row_place(&u->name).s,
                 "its external_data is ignored: data_location is not EXTERNAL"))
    return -1;
  if (p->other)
    return load_fault(l, FAULT_ERROR, row_place(&u->name).s, "has both %s and %s", p->field->name,
                      p->other->name);
  const enum encoding encoding = load_payload_encoding(p);
  const bool raw = encoding == ENCODING_RAW;
  if (encoding != ENCODING_NONE &&
      (raw ? dtype == DTYPE_STRING : letter_of(p->field) != dtype_field(dtype)))
    return load_fault(l, FAULT_ERROR, row_place(&u->name).s, "its type %s cannot be stored in %s",
                      dtype_name(dtype), p->field->name);
  const uint64_t wanted = entries_wanted(u, encoding);
  const uint64_t takes = encoding == ENCODING_NONE ? row->bytes : wanted;
  const bool bytes = raw || encoding == ENCODING_NONE;
  if (p->entries != wanted)
    return load_fault(l, FAULT_ERROR, row_place(&u->name).s,
                      "dims and type %s need %s %s, but %s has %s", dtype_name(dtype),
                      decimal(takes).s,
                      takes == 1 ? (bytes ? "byte" : "entry") : (bytes ? "bytes" : "entries"),
                      encoding == ENCODING_NONE ? "it" : p->field->name, decimal(p->entries).s);
  u->good = true;
  return 0;
}

int load_end_tensor(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  struct frame *around = frame_above(l);
  const Pb__Tensor *t = load_decode(l, f, &pb__tensor__descriptor);
  if (!t) return -1;
  if (t->name.len == 0 && load_keep_empty_name(l, f)) return -1;
  struct tensor_unit u = {.name = {"tensor", load_text(t->name), f->start}};
  u.row = (struct model_tensor){.name = guess_name(l, u.name.name),
                                .graph = f->graph,
                                .owner = NO_ID,
                                .small = NO_ID,
                                .recipe = NO_ID,
                                .encoding = ENCODING_NONE,
                                .flags = f->n_kept ? TENSOR_HAS_KEPT : 0,
                                .src = frame_place(f)};
  u.row.home = (uint8_t)home_of(l, &u.row.flags);
  if (check_unit(l, f, t, &u)) return -1;
  const bool is_external = u.row.flags & TENSOR_EXTERNAL;
  if (u.good && (is_external ? take_external(l, &u) : take_inline(l, &u.row, &f->payload)))
    return -1;
  if (!u.good) u.row.bytes = 0;
  if (load_room(l, m->n_tensors, 1, "tensors")) return -1;
  if (u.shaped) {
    if (load_room(l, m->n_dims, t->n_dims, "dims")) return -1;
    u.row.rank = (uint16_t)t->n_dims;
    u.row.dims = TABLE_ADD(m, dims, (uint32_t)t->n_dims);
    if (t->n_dims) memcpy(m->dims + u.row.dims, t->dims, t->n_dims * sizeof *t->dims);
  }
  const uint32_t id = TABLE_ADD(m, tensors, 1);
  m->tensors[id] = u.row;
  if (u.row.home == HOME_INITIALIZER && u.row.name != m->empty)
    m->tensors[id].owner = load_initializer(l, id);
  else if (u.row.home == HOME_INITIALIZER &&
           load_fault(l, FAULT_ERROR, row_place(&u.name).s, "an initializer needs a name"))
    return -1;
  load_flush_kept_fields(l, f, KEPT_TENSOR, id);
  if (around->message == MESSAGE_GRAPH)
    load_add_item(around, ITEM_TENSORS, id);
  else if (around->message == MESSAGE_SPARSE)
    *load_sparse_part(around, f) = id;
  else if (around->n_children++ == 0)
    around->first_child = id;
  return 0;
}

// ---- Constant nodes -----------------------------------------------------------------------------

static bool is_scalar(enum attr_type type) {
  return type == ATTR_FLOAT || type == ATTR_INT || type == ATTR_STRING;
}

// f and i are in the row, lists are where the pieces say.
static int take_constant(struct loader *l, struct model_tensor *t, const struct model_attr *a,
                         const struct pending_attr *p) {
  struct model *m = l->m;
  if (!is_small(t)) {
    set_pieces(l, t, p->pieces, p->n_pieces);
    return 0;
  }
  if (!is_scalar(a->type)) {
    const struct payload_source from = {m->pieces + p->pieces, p->n_pieces, t->encoding};
    if (load_payload_materialize(l, &from, t->dtype, t->bytes, &t->small)) return -1;
    if (p->pieces + p->n_pieces == m->n_pieces) m->n_pieces = p->pieces;
    return 0;
  }
  uint8_t *to = load_payload_small_room(l, t->bytes, &t->small);
  if (!to) return -1;
  memcpy(to, a->type == ATTR_FLOAT ? (const void *)&a->u.f : (const void *)&a->u.i,
         (size_t)t->bytes);
  return 0;
}

int load_constant_tensor(struct loader *l, uint32_t attr, const struct pending_attr *p) {
  struct model *m = l->m;
  const struct model_attr a = m->attrs[attr];
  const bool is_float = a.type == ATTR_FLOAT || a.type == ATTR_FLOATS;
  const bool is_int = a.type == ATTR_INT || a.type == ATTR_INTS;
  const bool is_empty = !is_scalar(a.type) && a.count == 0;
  struct model_tensor t = {.name = m->empty,
                           .graph = m->nodes[a.node].graph,
                           .owner = attr,
                           .small = NO_ID,
                           .recipe = NO_ID,
                           .rank = is_scalar(a.type) ? 0 : 1,
                           .dtype = is_float ? DTYPE_FLOAT
                                    : is_int ? DTYPE_INT64
                                             : DTYPE_STRING,
                           .encoding = is_empty   ? ENCODING_NONE
                                       : is_float ? ENCODING_FIXED32
                                       : is_int   ? ENCODING_VARINT
                                                  : ENCODING_STRINGS,
                           .home = HOME_ATTRIBUTE};
  if (load_room(l, m->n_tensors, 1, "tensors")) return -1;
  const uint64_t elements = t.rank == 0 ? 1 : a.count;
  if (t.rank) {
    t.dims = TABLE_ADD(m, dims, 1);
    m->dims[t.dims] = (int64_t)elements;
  }
  if (t.dtype != DTYPE_STRING) t.bytes = elements * (dtype_bits(t.dtype) / 8);
  if (take_constant(l, &t, &a, p)) return -1;
  const uint32_t id = TABLE_ADD(m, tensors, 1);
  m->tensors[id] = t;
  m->attrs[attr].first = id;
  return 0;
}
