// Bytes of the two .onnx files, side by side, in pieces.
#include "compare/inside/diff_parts.h"

enum { PIECE = 4096 };

int diff_bytes_differ(struct diff *d, struct place a, struct place b, bool *differ,
                      struct err *err) {
  uint8_t x[PIECE], y[PIECE];
  *differ = a.len != b.len;
  for (uint64_t at = 0; at < a.len && !*differ; at += PIECE) {
    const size_t n = (size_t)min_u64(PIECE, a.len - at);
    d->steps++;
    if (d->read(d->ctx, DIFF_A, a.off + at, x, n, err)) return -1;
    if (d->read(d->ctx, DIFF_B, b.off + at, y, n, err)) return -1;
    *differ = memcmp(x, y, n) != 0;
  }
  return 0;
}

// Fields beside each other are one place, so the same fields may be other places.
int diff_kept_differs(struct diff *d, enum kept_of of, uint32_t a, uint32_t b, bool *differ,
                      struct err *err) {
  const struct model_kept_field *f[DIFF_SIDES];
  struct place rest[DIFF_SIDES] = {{0, 0}, {0, 0}};
  uint32_t n[DIFF_SIDES];
  f[DIFF_A] = model_kept_fields(d->m[DIFF_A], of, a, &n[DIFF_A]);
  f[DIFF_B] = model_kept_fields(d->m[DIFF_B], of, b, &n[DIFF_B]);
  *differ = false;
  while (!*differ) {
    for (uint32_t s = 0; s < DIFF_SIDES; s++)
      for (; rest[s].len == 0 && n[s] > 0; n[s]--)
        rest[s] = f[s]++->at;
    const uint64_t both = min_u64(rest[0].len, rest[1].len);
    if (both == 0) break;
    if (diff_bytes_differ(d, (struct place){rest[0].off, both}, (struct place){rest[1].off, both},
                          differ, err))
      return -1;
    for (uint32_t s = 0; s < DIFF_SIDES; s++)
      rest[s] = (struct place){rest[s].off + both, rest[s].len - both};
  }
  *differ = *differ || rest[0].len || rest[1].len;
  return 0;
}

// A list of places as one stretch of bytes.
struct run {
  const struct model *m;
  const struct model_item *items;
  uint32_t n, kind, item, k; // the place that is next
  struct place rest;         // of the one that is read
};

static bool next_place(struct run *r) {
  for (; r->item < r->n && r->rest.len == 0; r->item++, r->k = 0) {
    const struct model_item *x = &r->items[r->item];
    if (x->kind != r->kind) continue;
    while (r->k < x->count && r->rest.len == 0)
      r->rest = r->m->others[x->first + r->k++];
    if (r->rest.len) return true;
  }
  return r->rest.len > 0;
}

int diff_bytes_items(struct diff *d, const struct model_item *const items[DIFF_SIDES],
                     const uint32_t n[DIFF_SIDES], uint32_t kind, bool *differ, struct err *err) {
  struct run r[DIFF_SIDES] = {{.m = d->m[0], .items = items[0], .n = n[0], .kind = kind},
                              {.m = d->m[1], .items = items[1], .n = n[1], .kind = kind}};
  *differ = false;
  for (;;) {
    const bool a = next_place(&r[0]), b = next_place(&r[1]);
    *differ = *differ || a != b;
    if (*differ || !a) return 0;
    const uint64_t both = min_u64(r[0].rest.len, r[1].rest.len);
    if (diff_bytes_differ(d, (struct place){r[0].rest.off, both},
                          (struct place){r[1].rest.off, both}, differ, err))
      return -1;
    for (uint32_t s = 0; s < DIFF_SIDES; s++)
      r[s].rest = (struct place){r[s].rest.off + both, r[s].rest.len - both};
  }
}
