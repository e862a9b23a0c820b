// Two turns, so that no more is read than is needed to tell equal tensors from others:
//
//   sample   of every tensor PIECES pieces, spread from its first byte to its last
//   all      of those for which another has the same dtype, dims and sample
//
//   |▒▒|··········|▒▒|··········|▒▒|··········|▒▒|     the sample: 4 × 16 KiB
//
// Pieces are spread because tensors that differ often begin alike: with zeros, or with the rows of
// a vocabulary that were there before it was extended. An item is one tensor, read by one worker from
// its beginning to its end: a digest is no sum of parts.
#include "stream/measure/measure_equal.h"

#include "base/table.h"
#include "stream/measure/inside/measure_parts.h"

#include <stdlib.h>

enum { PIECES = 4, PIECE_BYTES = CONTENT_HASH_SAMPLE_BYTES / PIECES };

struct comparing {
  const struct recipes *r;
  const uint32_t *of;
  struct content_hash *out;
  const uint32_t *items; // of the turn: indexes of `of`
  bool all;              // the second turn
};

// Adds bytes [off, off + n) of a tensor. 1: told to stop.
static int add_range(struct measure_worker *w, struct digest *d, uint32_t recipe, uint64_t off,
                     uint64_t n, uint8_t *buf, struct err *err) {
  struct eval_task *t = eval_begin(w->ev, recipe, off, n, (struct eval_watcher){0});
  int rc = 0;
  while (n > 0 && rc == 0) {
    const size_t now = (size_t)min_u64(n, CONTENT_HASH_SAMPLE_BYTES);
    if (measure_stopped(w)) return 1;
    rc = eval_read(t, off, buf, now, err);
    if (rc == 0) digest_add(d, buf, now);
    if (rc == 0) measure_tell(w, now);
    off += now;
    n -= now;
  }
  return rc;
}

static int add_sample(struct measure_worker *w, struct digest *d, uint32_t recipe, uint64_t bytes,
                      uint8_t *buf, struct err *err) {
  int rc = 0;
  if (bytes <= CONTENT_HASH_SAMPLE_BYTES) return add_range(w, d, recipe, 0, bytes, buf, err);
  for (uint64_t i = 0; i < PIECES && rc == 0; i++) {
    const uint64_t last = bytes - PIECE_BYTES;
    const uint64_t off = i == PIECES - 1 ? last : last / (PIECES - 1) * i;
    rc = add_range(w, d, recipe, off, PIECE_BYTES, buf, err);
  }
  return rc;
}

static int work(struct measure_worker *w, struct err *err) {
  const struct comparing *c = w->team->ctx;
  uint8_t *buf = arena_alloc(&w->arena, CONTENT_HASH_SAMPLE_BYTES);
  struct digest *d = digest_new();
  uint64_t item;
  int rc = 0;
  while (rc == 0 && measure_next(w, &item)) {
    const uint32_t i = c->items[item];
    const uint64_t bytes = c->r->rows[c->of[i]].bytes;
    digest_start(d);
    rc = c->all ? add_range(w, d, c->of[i], 0, bytes, buf, err)
                : add_sample(w, d, c->of[i], bytes, buf, err);
    if (rc == 0) digest_end(d, c->all ? c->out[i].all : c->out[i].sample);
    if (rc == 0 && c->all) c->out[i].whole = true;
  }
  digest_free(d);
  return rc < 0 ? -1 : 0;
}

static int turn(struct comparing *c, const uint32_t *items, uint32_t n, struct sources *s,
                const struct work_options *options, struct measure_stats *stats, struct err *err) {
  struct measure_team team = {
      .r = c->r, .sources = s, .o = options, .stats = stats, .n_items = n, .ctx = c, .work = work};
  c->items = items;
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t bytes = c->r->rows[c->of[items[i]]].bytes;
    team.bytes_total += c->all ? bytes : min_u64(bytes, CONTENT_HASH_SAMPLE_BYTES);
  }
  return measure_team_run(&team, err);
}

// ---- which samples agree -----------------------------------------------------------------------

static int compare(const void *a, const void *b, const void *ctx) {
  const struct comparing *c = ctx;
  const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
  const struct recipe *x = &c->r->rows[c->of[i]], *y = &c->r->rows[c->of[k]];
  if (x->dtype != y->dtype) return x->dtype < y->dtype ? -1 : 1;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  for (uint32_t d = 0; d < x->rank; d++) {
    const int64_t p = c->r->longs[x->dims + d], q = c->r->longs[y->dims + d];
    if (p != q) return p < q ? -1 : 1;
  }
  return memcmp(c->out[i].sample, c->out[k].sample, DIGEST_BYTES);
}

// Those to be read whole, in the order asked, into `items`; the small ones are known already.
static uint32_t find_alike(struct comparing *c, uint32_t *items, uint32_t n, struct arena *a) {
  uint32_t *order = arena_alloc(a, (n + (size_t)1) * sizeof *order), found = 0;
  bool *alike = arena_zalloc(a, n + (size_t)1);
  for (uint32_t i = 0; i < n; i++)
    order[i] = i;
  table_sort(order, n, sizeof *order, compare, c);
  for (uint32_t i = 1; i < n; i++)
    if (compare(&order[i - 1], &order[i], c) == 0) alike[order[i - 1]] = alike[order[i]] = true;
  for (uint32_t i = 0; i < n; i++) {
    if (c->r->rows[c->of[i]].bytes <= CONTENT_HASH_SAMPLE_BYTES) {
      memcpy(c->out[i].all, c->out[i].sample, DIGEST_BYTES);
      c->out[i].whole = true;
    } else if (alike[i]) {
      items[found++] = i;
    }
  }
  return found;
}

int measure_equal_run(const struct recipes *r, struct sources *s, const uint32_t *of, uint32_t n,
                      const struct work_options *options, struct content_hash *out,
                      struct measure_stats *stats, struct err *err) {
  struct arena arena = {0};
  struct comparing c = {.r = r, .of = of, .out = out};
  uint32_t *items = arena_alloc(&arena, (n + (size_t)1) * sizeof *items);
  *stats = (struct measure_stats){0};
  for (uint32_t i = 0; i < n; i++) {
    items[i] = i;
    out[i].whole = false;
  }
  int rc = turn(&c, items, n, s, options, stats, err);
  if (rc == 0) {
    c.all = true;
    rc = turn(&c, items, find_alike(&c, items, n, &arena), s, options, stats, err);
  }
  arena_free(&arena);
  return rc;
}
