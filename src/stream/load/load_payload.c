// Payload fields: where elements lie, without holding them.
//
// A payload comes in pieces. A packed field is one piece (its content); several packed fields of
// one tensor are several pieces, in order. Unpacked entries carry a tag each; neighbours become one
// run:
//
//   packed     [tag][length][e e e e e e e e]              piece: e…e, tag_bytes 0
//   unpacked   [tag][e][tag][e][tag][e]                    piece: all of it, tag_bytes 1
//   strings    [tag][length][bytes][tag][length][bytes]    piece: all of it, tag_bytes 1
//
// Fixed-size entries are found by arithmetic. Varints have to be walked: once here, to count and to
// check them, leaving a checkpoint every 65536 entries, so that whoever wants a range later walks
// one interval at most.
//
// Lists of attributes (floats, ints, strings, s) go through the same door: up to 64 KiB they are
// held in the skeleton and decoded as well, beyond that they stay where they are.
#include "stream/load/inside/loader.h"

#include <assert.h>

void load_payload_clear(struct payload *p) {
  p->n_pieces = p->n_marks = 0;
  p->field = p->other = NULL;
  p->entries = p->wire_bytes = 0;
  p->run_end = UINT64_MAX;
  p->held = true;
}

void load_payload_free(struct payload *p) {
  TABLES_FREE(p, pieces, marks);
}

static struct piece *add_piece(struct payload *p, uint64_t off, uint64_t len, uint32_t tag_bytes) {
  struct piece *piece = TABLE_PUSH(p, pieces);
  *piece = (struct piece){.at = {.off = off, .len = len, .file = 0},
                          .first = p->entries,
                          .tag_bytes = tag_bytes,
                          .checkpoint = NO_ID};
  return piece;
}

// ---- unpacked entries ---------------------------------------------------------------------------

// One (tag, value) pair: joins the run before it if nothing lies between.
static void add_entry(struct payload *p, const struct wire_field *wf, bool varint) {
  const uint64_t len = wf->body + wf->len - wf->start;
  struct piece *run = p->n_pieces ? &p->pieces[p->n_pieces - 1] : NULL;
  if (!run || p->run_end != wf->start || run->tag_bytes != wf->tag_bytes) {
    run = add_piece(p, wf->start, 0, wf->tag_bytes);
    if (varint) run->checkpoint = p->n_marks;
  }
  if (varint && run->count % CHECKPOINT_ENTRIES == 0)
    *TABLE_PUSH(p, marks) = wf->start - run->at.off;
  run->at.len += len;
  run->count++;
  p->run_end = wf->start + len;
  p->entries++;
}

// ---- packed varints -----------------------------------------------------------------------------

struct varint_walk {
  uint64_t count;  // varints that have ended
  uint64_t offset; // of the next byte
  uint32_t open;   // bytes of the varint that has not ended
};

static bool walk_varints(struct payload *p, struct varint_walk *walk, struct span bytes) {
  for (size_t i = 0; i < bytes.n; i++) {
    if (walk->open == 0 && walk->count % CHECKPOINT_ENTRIES == 0)
      *TABLE_PUSH(p, marks) = walk->offset + i;
    const uint8_t b = bytes.at[i];
    if (++walk->open == 10 && b > 1) return false;
    if (b & 0x80) continue;
    walk->open = 0;
    walk->count++;
  }
  walk->offset += bytes.n;
  return true;
}

// The packed content, already taken from the reader into `held`, or still there.
static int add_varints(struct loader *l, struct payload *p, const struct wire_field *wf,
                       const struct span *held) {
  struct varint_walk walk = {0};
  struct piece *piece = add_piece(p, wf->body, wf->len, 0);
  piece->checkpoint = p->n_marks;
  while (walk.offset < wf->len) {
    struct span bytes;
    if (held)
      bytes = *held;
    else if (wire_window(&l->w, wf->len - walk.offset, &bytes, l->err))
      return -1;
    if (!walk_varints(p, &walk, bytes))
      return load_fatal(l, wf->start, "%s: entry %s is longer than 10 bytes or 64 bits",
                        p->field->name, decimal(walk.count).s);
  }
  if (walk.open)
    return load_fatal(l, wf->start, "%s: entry %s, the last one, is cut off", p->field->name,
                      decimal(walk.count).s);
  piece->count = walk.count;
  p->entries += walk.count;
  p->run_end = UINT64_MAX;
  return 0;
}

// ---- packed fixed-size entries and bytes --------------------------------------------------------

static int add_fixed(struct loader *l, struct payload *p, const struct wire_field *wf,
                     uint32_t size) {
  if (wf->len % size)
    return load_fatal(l, wf->start, "%s: %s byte%s not a whole number of %u-byte entries",
                      p->field->name, decimal(wf->len).s, wf->len == 1 ? " is" : "s are", size);
  if (wf->len > 0) add_piece(p, wf->body, wf->len, 0)->count = wf->len / size;
  p->entries += wf->len / size;
  p->run_end = UINT64_MAX;
  return 0;
}

// ---- the door -----------------------------------------------------------------------------------

static bool is_raw(const struct schema_field *field) {
  return field == onnx_schema_field(MESSAGE_TENSOR, ONNX_TENSOR_raw_data);
}

static enum encoding encoding_of(const struct schema_field *field) {
  switch ((enum field_form)field->form) {
  case FORM_VARINTS: return ENCODING_VARINT;
  case FORM_FIXED32S: return ENCODING_FIXED32;
  case FORM_FIXED64S: return ENCODING_FIXED64;
  default: return is_raw(field) ? ENCODING_RAW : ENCODING_STRINGS;
  }
}

static int record(struct loader *l, struct payload *p, const struct wire_field *wf,
                  const struct span *held) {
  const enum encoding encoding = encoding_of(p->field);
  const bool packed = wf->type == WIRE_BYTES, varints = encoding == ENCODING_VARINT;
  if (packed && varints) return add_varints(l, p, wf, held);
  if (packed && encoding == ENCODING_FIXED32) return add_fixed(l, p, wf, 4);
  if (packed && encoding == ENCODING_FIXED64) return add_fixed(l, p, wf, 8);
  if (encoding == ENCODING_RAW) { // a singular field: the last one wins
    p->n_pieces = 0;
    p->entries = 0;
    return add_fixed(l, p, wf, 1);
  }
  add_entry(p, wf, varints);
  return 0;
}

// `run`: one of several fields that follow one another; what counts of it is `bytes` of content.
static void elide(struct loader *l, struct place at, uint64_t bytes, bool run) {
  if (at.len == 0) return;
  l->elided_bytes += bytes;
  struct elided *last = l->n_elided ? &l->elided[l->n_elided - 1] : NULL;
  if (last && last->run == run && last->at.off + last->at.len == at.off)
    last->at.len += at.len;
  else
    *TABLE_PUSH(l, elided) = (struct elided){at, run};
}

void load_payload_elide(struct loader *l, struct place at) {
  elide(l, at, at.len, false);
}

int load_payload_add(struct loader *l, struct frame *f, const struct schema_field *field,
                     const struct wire_field *wf) {
  struct payload *p = &f->payload;
  const bool empty_list = wf->type == WIRE_BYTES && wf->len == 0 && field->form != FORM_BYTES;
  const bool empty_raw = is_raw(field) && wf->len == 0 && p->field != field;
  if (empty_list || empty_raw) return 0;
  if (!p->field) p->field = field;
  if (p->field != field) {
    p->other = field;
    return wire_skip_value(&l->w, wf, f->end, l->err);
  }
  if (f->message == MESSAGE_ATTRIBUTE && field->number == ONNX_ATTRIBUTE_s)
    load_payload_clear(p), p->field = field; // singular: the last one wins
  const bool packed = wf->type == WIRE_BYTES;
  const uint64_t end = wf->body + wf->len, from = packed ? wf->body : wf->start;
  struct span held = {0};
  p->wire_bytes += end - wf->start;
  // A part of an attribute's list is kept in the skeleton as long as the list is small.
  if (p->wire_bytes > NAME_MAX_BYTES) p->held = false;
  if (f->message == MESSAGE_ATTRIBUTE && p->held) {
    if (load_skeleton_add(l, f, wf)) return -1;
    if (packed) held = span_of(f->skeleton + f->n_skeleton - (size_t)wf->len, (size_t)wf->len);
  } else if (f->message == MESSAGE_ATTRIBUTE && field->form == FORM_BYTES) {
    elide(l, (struct place){wf->start, end - wf->start}, wf->len, true);
  } else if (f->message == MESSAGE_ATTRIBUTE) {
    load_payload_elide(l, (struct place){from, end - from});
  }
  if (load_room(l, l->m->n_pieces, p->n_pieces, "pieces")) return -1;
  if (record(l, p, wf, held.at ? &held : NULL)) return -1;
  // Whatever has not been read by now is stepped over.
  wire_seek(&l->w, end);
  return 0;
}

enum encoding load_payload_encoding(const struct payload *p) {
  return p->field && p->entries ? encoding_of(p->field) : ENCODING_NONE;
}

uint32_t load_payload_commit(struct loader *l, const struct payload *p) {
  struct model *m = l->m;
  const uint32_t marks = TABLE_ADD(m, checkpoints, p->n_marks);
  for (uint32_t i = 0; i < p->n_marks; i++)
    m->checkpoints[marks + i] = p->marks[i];
  const uint32_t first = TABLE_ADD(m, pieces, p->n_pieces);
  for (uint32_t i = 0; i < p->n_pieces; i++) {
    struct piece *piece = &m->pieces[first + i];
    *piece = p->pieces[i];
    if (piece->checkpoint != NO_ID) piece->checkpoint += marks;
  }
  return first;
}

// ---- small tensors as bytes ---------------------------------------------------------------------

uint8_t *load_payload_small_room(struct loader *l, uint64_t n, uint32_t *small) {
  struct model *m = l->m;
  const uint64_t pad = round_up(m->n_small_bytes, 8) - m->n_small_bytes;
  if (!range_fits(m->n_small_bytes + pad, n, UINT32_MAX - 8)) {
    load_fatal(l, wire_offset(&l->w), "small tensors take more than 4 GiB");
    return NULL;
  }
  // An empty tensor has a place too, also where it is the first: never NULL.
  TABLE_ROOM(m, small_bytes, 8);
  TABLE_ADD(m, small_bytes, (size_t)pad);
  const uint32_t at = TABLE_ADD(m, small_bytes, (size_t)n);
  *small = at / 8;
  return m->small_bytes + at;
}

// Puts the low bits of one entry at its place. Types under 8 bits: an entry of a 4- or 2-bit type
// is a whole byte of elements, one of a 6-bit type is one element of a bit stream.
static void put_entry(uint8_t *to, uint64_t index, enum dtype dtype, uint64_t value) {
  const uint32_t bits = dtype_bits(dtype);
  if (bits == 6) {
    const uint64_t bit = index * 6;
    const uint32_t shifted = (uint32_t)(value & 63) << (bit % 8);
    to[bit / 8] |= (uint8_t)shifted;
    if (bit % 8 > 2) to[bit / 8 + 1] |= (uint8_t)(shifted >> 8);
    return;
  }
  if (dtype == DTYPE_BOOL) value = (uint32_t)value != 0; // an int32: higher bits do not count
  const size_t size = bits < 8 ? 1 : bits / 8;
  memcpy(to + index * size, &value, size);
}

static void spread_varints(const struct piece *piece, const uint8_t *at, enum dtype dtype,
                           uint8_t *to) {
  const uint8_t *end = at + piece->at.len;
  for (uint64_t i = 0; i < piece->count; i++) {
    uint64_t value;
    at += piece->tag_bytes;
    const size_t n = wire_varint(at, end, &value);
    assert(n > 0); // walked before
    at += n;
    put_entry(to, piece->first + i, dtype, value);
  }
}

static void spread_fixed(const struct piece *piece, const uint8_t *at, size_t size, uint8_t *to) {
  const size_t stride = size + piece->tag_bytes;
  for (uint64_t i = 0; i < piece->count; i++)
    memcpy(to + (piece->first + i) * size, at + i * stride + piece->tag_bytes, size);
}

int load_payload_materialize(struct loader *l, const struct payload_source *from, enum dtype dtype,
                             uint64_t bytes, uint32_t *small) {
  uint8_t *to = load_payload_small_room(l, bytes, small);
  if (!to) return -1;
  for (uint32_t i = 0; i < from->n; i++) {
    const struct piece *piece = &from->pieces[i];
    if (from->encoding == ENCODING_RAW)
      return wire_read_at(&l->w, piece->at.off, to, (size_t)bytes, l->err);
    l->bytes = table_grow(l->bytes, &l->bytes_cap, (size_t)piece->at.len, 1);
    if (wire_read_at(&l->w, piece->at.off, l->bytes, (size_t)piece->at.len, l->err)) return -1;
    if (from->encoding == ENCODING_VARINT)
      spread_varints(piece, l->bytes, dtype, to);
    else
      spread_fixed(piece, l->bytes, from->encoding == ENCODING_FIXED32 ? 4 : 8, to);
  }
  return 0;
}
