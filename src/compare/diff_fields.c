// Fields of the model that no row holds: who made it, its own version, a text … and unknown fields; and those of a type.
//
//   known       the last one of each counts, as in protobuf: its text for people, all of its bytes for the comparison
//   the others  one digest, in the order of the file
//   of a type   one digest too: denotations, unknown fields, negative dims. A type that is no longer than what its row holds
//               has none of them, and is not read
//
// The bytes come by in a window: a text may be as long as the file.
#include "base/digest.h"
#include "base/varint.h"
#include "compare/inside/diff_parts.h"

enum { LOOK_BYTES = 4096, HEAD_BYTES = 20, FIELDS = 7 };

static const char *const field_names[FIELDS] = {[2] = "producer_name",
                                                [3] = "producer_version",
                                                [4] = "domain",
                                                [5] = "model_version",
                                                [6] = "doc_string"};

struct fields {
  const char *text[FIELDS]; // the beginning; NULL: not there
  struct place at[FIELDS];  // of a text; len 0: a number
  struct digest *others;
};

struct window {
  struct diff *d;
  uint32_t side;
  uint64_t from, end; // of its bytes; of the place
  size_t n;
  uint8_t bytes[LOOK_BYTES];
};

// What begins at `off`: `want` bytes, or fewer at the end of the place. want: at most LOOK_BYTES.
static int look(struct window *w, uint64_t off, size_t want, struct span *out, struct err *err) {
  want = (size_t)min_u64(want, w->end - off);
  if (off < w->from || off + want > w->from + w->n) {
    w->from = off;
    w->n = (size_t)min_u64(LOOK_BYTES, w->end - off);
    w->d->steps++;
    if (w->d->read(w->d->ctx, w->side, off, w->bytes, w->n, err)) return -1;
  }
  *out = span_of(w->bytes + (off - w->from), want);
  return 0;
}

struct head {
  uint64_t number, value; // value: of a varint
  bool varint;
  struct place body; // of any other field
};

// Load checked the framing. Bytes that still have none are a body up to the end of the place.
static struct head head_of(const struct window *w, uint64_t off, struct span s) {
  struct head h = {.body = {off, w->end - off}};
  struct span rest = s;
  uint64_t tag, n;
  if (!varint_take(&rest, &tag)) return h;
  const unsigned form = tag & 7;
  if (form != 0 && form != 1 && form != 2 && form != 5) return h;
  n = form == 1 ? 8 : form == 5 ? 4 : 0;
  if ((form == 0 || form == 2) && !varint_take(&rest, &n)) return h;
  const uint64_t body = off + (s.n - rest.n);
  h = (struct head){tag >> 3, n, form == 0, {body, form == 0 ? 0 : min_u64(n, w->end - body)}};
  return h;
}

static int add_others(struct window *w, struct fields *f, uint64_t off, uint64_t end,
                      struct err *err) {
  struct span s;
  for (; off < end; off += s.n) {
    if (look(w, off, (size_t)min_u64(LOOK_BYTES, end - off), &s, err)) return -1;
    digest_add(f->others, s.at, s.n);
  }
  return 0;
}

static int read_place(struct window *w, struct place at, struct fields *f, struct err *err) {
  struct span s;
  w->n = 0;
  w->end = at.off + at.len;
  for (uint64_t off = at.off, next; off < w->end; off = next) {
    if (look(w, off, HEAD_BYTES, &s, err)) return -1;
    const struct head h = head_of(w, off, s);
    next = h.body.off + h.body.len;
    if (h.number >= FIELDS || !field_names[h.number]) {
      if (add_others(w, f, off, next, err)) return -1;
      continue;
    }
    if (look(w, h.body.off, (size_t)min_u64(LOOK_BYTES, h.body.len), &s, err)) return -1;
    f->text[h.number] =
        h.varint ? diff_number(w->d, (int64_t)h.value) : arena_string(&w->d->arena, s);
    f->at[h.number] = h.body;
  }
  return 0;
}

static int read_fields(struct diff *d, uint32_t side, struct fields *f, struct err *err) {
  const struct model *m = d->m[side];
  struct window w = {.d = d, .side = side};
  for (uint32_t i = 0; i < m->model_n_items; i++) {
    const struct model_item *item = &m->items[m->model_items + i];
    for (uint32_t k = 0; item->kind == ITEM_OTHER && k < item->count; k++)
      if (read_place(&w, m->others[item->first + k], f, err)) return -1;
  }
  return 0;
}

static int compare(struct diff *d, const struct fields f[DIFF_SIDES], struct err *err) {
  uint8_t others[DIFF_SIDES][DIGEST_BYTES];
  for (uint32_t i = 0; i < FIELDS; i++) {
    const char *was = f[0].text[i], *is = f[1].text[i];
    const uint32_t lines = d->n_lines;
    bool differ = false;
    if (!field_names[i]) continue;
    diff_texts(d, field_names[i], "", was, is);
    if (!was || !is || d->n_lines > lines) continue;
    if (diff_bytes_differ(d, f[0].at[i], f[1].at[i], &differ, err)) return -1;
    if (differ) diff_line(d, field_names[i], "", was, "another one with the same beginning");
  }
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    digest_end(f[s].others, others[s]);
  if (memcmp(others[0], others[1], DIGEST_BYTES) != 0)
    diff_line(d, "other fields", "", "configuration or unknown fields", "others");
  return 0;
}

int diff_fields_compare(struct diff *d, struct err *err) {
  struct fields f[DIFF_SIDES] = {{.others = digest_new()}, {.others = digest_new()}};
  int rc = 0;
  for (uint32_t s = 0; s < DIFF_SIDES && rc == 0; s++)
    rc = read_fields(d, s, &f[s], err);
  if (rc == 0) rc = compare(d, f, err);
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    digest_free(f[s].others);
  return rc;
}

// ---- types -------------------------------------------------------------------------------------

enum part { REST, HELD, TYPE, HOLDER, TENSOR, SHAPE, DIM, INFO, PARTS, NUMBERS = 10, NESTED = 8 };

// What a field of a message is, by its number: HELD by the row, or a message.
static const uint8_t part_of[PARTS][NUMBERS] = {
    [INFO] = {[2] = TYPE},
    [TYPE] = {[1] = TENSOR, [4] = HOLDER, [9] = HOLDER}, // of a sequence, of an optional
    [HOLDER] = {[1] = TYPE},
    [TENSOR] = {[1] = HELD, [2] = SHAPE},
    [SHAPE] = {[1] = DIM},
    [DIM] = {[1] = HELD, [2] = HELD},
};

// The bytes, after the number of the message they are in among its neighbours.
static int add_rest(struct window *w, struct digest *sha, uint64_t nth, uint64_t off, uint64_t end,
                    struct err *err) {
  struct span s;
  digest_add(sha, &nth, sizeof nth);
  for (; off < end; off += s.n) {
    if (look(w, off, (size_t)min_u64(LOOK_BYTES, end - off), &s, err)) return -1;
    digest_add(sha, s.at, s.n);
  }
  return 0;
}

// `nth`: its number among its neighbours; `depth`: how many messages it is in.
static int add_rest_of(struct window *w, struct digest *sha, struct place at, enum part message,
                       uint64_t nth, uint32_t depth, struct err *err) {
  const uint64_t end = at.off + at.len, around = w->end;
  struct span s;
  uint64_t n = 0;
  for (uint64_t off = at.off, next; off < end; off = next) {
    w->end = end;
    if (look(w, off, HEAD_BYTES, &s, err)) return -1;
    const struct head h = head_of(w, off, s);
    next = h.body.off + h.body.len;
    enum part part = h.number < NUMBERS ? part_of[message][h.number] : REST;
    if (part == HELD && h.varint && h.value > INT64_MAX) part = REST; // a dim that is not known
    if (depth == NESTED && part != HELD) part = REST;
    if (part == HELD) continue;
    if (part == REST ? add_rest(w, sha, nth, off, next, err)
                     : add_rest_of(w, sha, h.body, part, n++, depth + 1, err))
      return -1;
  }
  w->end = around;
  return 0;
}

// As long as the type of an info is at least, in whatever way it is written.
static uint64_t least_type_bytes(const struct model *m, const struct model_info *x) {
  uint64_t shape = 0;
  for (uint32_t i = 0; i < x->rank; i++) {
    const struct model_dim dim = m->info_dims[x->dims + i];
    const size_t param = model_name(m, dim.param).n;
    shape += varint_field_bytes(dim.value >= 0 ? 1 + varint_bytes((uint64_t)dim.value)
                                : param        ? varint_field_bytes(param)
                                               : 0);
  }
  const bool shaped = x->flags & (INFO_SHAPED | INFO_HELD_SHAPED);
  const uint64_t tensor = 1 + varint_bytes(x->dtype) + (shaped ? varint_field_bytes(shape) : 0);
  const bool held = x->flags & (INFO_SEQUENCE | INFO_OPTIONAL);
  const uint64_t type = varint_field_bytes(tensor);
  return varint_field_bytes(held ? varint_field_bytes(varint_field_bytes(type)) : type);
}

int diff_types_differ(struct diff *d, uint32_t a, uint32_t b, bool *differ, struct err *err) {
  const struct model_info *x[DIFF_SIDES] = {&d->m[0]->infos[a], &d->m[1]->infos[b]};
  uint8_t is[DIFF_SIDES][DIGEST_BYTES];
  bool long_one = false;
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    long_one |= x[s]->type.len > least_type_bytes(d->m[s], x[s]);
  *differ = false;
  if (!long_one) return 0;
  struct digest *sha = digest_new();
  int rc = 0;
  for (uint32_t s = 0; s < DIFF_SIDES && rc == 0; s++) {
    struct window w = {.d = d, .side = s};
    digest_start(sha);
    rc = add_rest_of(&w, sha, x[s]->type, INFO, 0, 0, err);
    digest_end(sha, is[s]);
  }
  digest_free(sha);
  if (rc == 0) *differ = memcmp(is[0], is[1], DIGEST_BYTES) != 0;
  return rc;
}

// ---- value_infos of values that nothing makes --------------------------------------------------

// No row has their names: they are compared as bytes, in any order.
static int add_stale(struct diff *d, uint32_t side, uint32_t graph, uint8_t sum[DIGEST_BYTES],
                     uint32_t *count, struct digest *sha, struct err *err) {
  const struct model *m = d->m[side];
  const struct model_graph *g = &m->graphs[graph];
  struct window w = {.d = d, .side = side};
  uint8_t one[DIGEST_BYTES];
  for (uint32_t i = 0; i < g->n_items; i++) {
    const struct model_item *item = &m->items[g->items + i];
    for (uint32_t k = 0; item->kind == ITEM_INFOS && k < item->count; k++) {
      const struct model_info *x = &m->infos[item->first + k];
      d->steps++;
      if (x->value != NO_ID || x->flags & INFO_DEAD) continue;
      w.end = x->src.off + x->src.len;
      w.n = 0;
      digest_start(sha);
      const int rc = add_rest(&w, sha, 0, x->src.off, w.end, err);
      digest_end(sha, one);
      if (rc) return -1;
      for (size_t at = 0; at < DIGEST_BYTES; at++)
        sum[at] = (uint8_t)(sum[at] + one[at]);
      *count += 1;
    }
  }
  return 0;
}

int diff_stale_infos_compare(struct diff *d, uint32_t a, uint32_t b, struct err *err) {
  const uint32_t graph[DIFF_SIDES] = {a, b};
  uint8_t sum[DIFF_SIDES][DIGEST_BYTES] = {{0}, {0}};
  uint32_t count[DIFF_SIDES] = {0};
  struct digest *sha = digest_new();
  int rc = 0;
  for (uint32_t s = 0; s < DIFF_SIDES && rc == 0; s++)
    rc = add_stale(d, s, graph[s], sum[s], &count[s], sha, err);
  digest_free(sha);
  if (rc == 0 && memcmp(sum[0], sum[1], DIGEST_BYTES) != 0)
    diff_line(d, "value_info", "values that no node produces", diff_number(d, count[0]),
              count[0] == count[1] ? "others" : diff_number(d, count[1]));
  return rc;
}
