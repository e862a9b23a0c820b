// Elements that lie in a file as varints (int32_data and its like): entry i has no place of its
// own, it has to be counted to. Loading left a checkpoint every CHECKPOINT_ENTRIES entries, and a
// cursor remembers where the last read ended, so that reading on costs nothing and any other place
// costs one interval at most:
//
//   piece   │ checkpoint k      cursor          checkpoint k+1
//           ├──▼──────────────────▼───────────────▼────────────
//                                 └─ window of undecoded bytes, kept for the next read
//
// Varints are at most ten bytes; an unpacked entry has its tag before it. Loading checked all that,
// so a varint that does not end means the file changed since.
#include "stream/eval/core/eval_parts.h"

enum { VARINT_MAX_BYTES = 10 };

static int fail_changed(const struct piece *p, uint64_t pos, struct err *err) {
  err_set(err, ERR_INPUT,
          "varint at byte %s of source file %u does not end within its field (bytes %s..%s)",
          decimal(p->at.off + pos).s, p->at.file, decimal(p->at.off).s,
          decimal(p->at.off + p->at.len).s);
  return err_hint(err, "the file changed while it was read; run again on an unchanged file");
}

// Makes bytes from c->pos on the window's content: what is left of it, and more of the piece, up to
// what `entries` entries can take.
static int refill(struct eval *ev, struct eval_cursor *c, uint64_t entries, struct err *err) {
  const struct piece *p = &ev->r->pieces[c->piece];
  size_t kept = c->at <= c->pos && c->pos - c->at < c->have ? c->have - (c->pos - c->at) : 0;
  if (kept) memmove(c->buf, c->buf + (c->pos - c->at), kept);
  c->at = c->pos;
  c->have = kept;
  uint64_t from = c->at + kept, want = EVAL_CURSOR_BYTES - kept;
  uint64_t most = entries < EVAL_CURSOR_BYTES ? entries * (VARINT_MAX_BYTES + p->tag_bytes) : want;
  want = min_u64(want, most > kept ? most - kept : 0);
  want = min_u64(want, p->at.len - from);
  struct extent at = {p->at.off + from, want, p->at.file};
  if (want && eval_leaf_source(ev, at, p->at.off + p->at.len, c->buf + kept, err) != 0) return -1;
  c->have += want;
  return 0;
}

// Decodes the entry at the cursor from its window. False if the window ends before the entry does.
static bool decode(struct eval_cursor *c, uint32_t tag_bytes, uint64_t *value) {
  size_t i = (size_t)(c->pos - c->at) + tag_bytes;
  uint64_t x = 0;
  for (uint32_t k = 0; k < VARINT_MAX_BYTES && i < c->have; k++, i++) {
    uint8_t b = c->buf[i];
    x |= (uint64_t)(b & 0x7f) << (7 * k);
    if (b & 0x80) continue;
    c->pos = c->at + i + 1;
    c->entry++;
    *value = x;
    return true;
  }
  return false;
}

static int next_entry(struct eval *ev, struct eval_cursor *c, uint64_t entries, uint64_t *value,
                      struct err *err) {
  const struct piece *p = &ev->r->pieces[c->piece];
  bool inside = c->at <= c->pos && c->pos - c->at < c->have;
  if (inside && decode(c, p->tag_bytes, value)) return 0;
  if (refill(ev, c, entries, err) != 0) return -1;
  return decode(c, p->tag_bytes, value) ? 0 : fail_changed(p, c->pos, err);
}

// Puts the cursor at the last checkpoint at or before the entry.
static int rewind_cursor(struct eval *ev, struct eval_cursor *c, uint32_t piece, uint64_t entry,
                         struct err *err) {
  const struct piece *p = &ev->r->pieces[piece];
  uint64_t k = p->checkpoint == NO_ID ? 0 : entry / CHECKPOINT_ENTRIES;
  c->piece = piece;
  c->entry = k * CHECKPOINT_ENTRIES;
  c->pos = p->checkpoint == NO_ID ? 0 : ev->r->checkpoints[p->checkpoint + k];
  c->at = c->pos;
  c->have = 0;
  return c->pos <= p->at.len ? 0 : fail_changed(p, c->pos, err);
}

// A cursor of the piece at or before the entry and not before its checkpoint; else the one longest
// unused, rewound.
static struct eval_cursor *cursor_for(struct eval *ev, uint32_t piece, uint64_t entry,
                                      struct err *err) {
  struct eval_cursor *oldest = &ev->cursors[0], *best = NULL;
  uint64_t checkpoint = ev->r->pieces[piece].checkpoint == NO_ID
                            ? 0
                            : entry / CHECKPOINT_ENTRIES * CHECKPOINT_ENTRIES;
  for (uint32_t i = 0; i < EVAL_CURSORS; i++) {
    struct eval_cursor *c = &ev->cursors[i];
    if (c->used < oldest->used) oldest = c;
    if (c->piece != piece || c->entry > entry || c->entry < checkpoint) continue;
    if (!best || c->entry > best->entry) best = c;
  }
  if (!best && rewind_cursor(ev, oldest, piece, entry, err) != 0) {
    oldest->piece = NO_ID;
    return NULL;
  }
  if (!best) best = oldest;
  best->used = ++ev->stamp;
  return best;
}

static uint32_t entry_width(enum dtype dtype) {
  uint32_t bits = dtype_bits(dtype);
  return bits < 8 ? 1 : bits / 8;
}

// The low bytes of each entry; a bool is true for any int32 but zero, also one whose low byte is
// zero. (What a varint has above 32 bits is no part of an int32.)
static void put_entry(uint8_t *out, uint64_t value, enum dtype dtype, uint32_t width) {
  if (dtype == DTYPE_BOOL) value = (uint32_t)value != 0;
  memcpy(out, &value, width); // little-endian, as all of our machines
}

// Entries [first, first + count) of one piece, counted from its first.
static int piece_entries(struct eval *ev, uint32_t piece, uint64_t first, uint64_t count,
                         uint8_t *out, enum dtype dtype, struct err *err) {
  struct eval_cursor *c = cursor_for(ev, piece, first, err);
  if (!c) return -1;
  uint64_t end = first + count, value = 0;
  uint32_t width = entry_width(dtype);
  while (c->entry < first)
    if (next_entry(ev, c, end - c->entry, &value, err) != 0) goto lost;
  for (; c->entry < end; out += width) {
    if (next_entry(ev, c, end - c->entry, &value, err) != 0) goto lost;
    put_entry(out, value, dtype, width);
  }
  return 0;
lost:
  c->piece = NO_ID;
  return -1;
}

int eval_varint_entries(struct eval *ev, const struct recipe *x, uint64_t first, uint64_t count,
                        uint8_t *out, struct err *err) {
  enum dtype dtype = (enum dtype)x->dtype;
  while (count > 0) {
    uint32_t piece = eval_leaf_piece(ev, x, first);
    const struct piece *p = &ev->r->pieces[piece];
    uint64_t from = first - p->first, n = min_u64(count, p->count - from);
    if (piece_entries(ev, piece, from, n, out, dtype, err) != 0) return -1;
    first += n;
    count -= n;
    out += n * entry_width(dtype);
  }
  return 0;
}
