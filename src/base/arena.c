// Arenas and the growth of tables: the two places from which memory comes. And rows of tables in order.
//
//   arena   last ─▶ chunk ─▶ chunk before ─▶ …     chunks double from 64 KiB to 1 MiB
//                   [used····|free        ]
//
// A request larger than a chunk gets a chunk of its own. Nothing is freed singly: a reset keeps the
// newest chunk, so that a scratch arena that is reset often asks the system for nothing.
//
// Tables grow by a quarter: with realloc on top of mremap the old rows move without being copied,
// and rows never touched cost nothing resident. What both hold is counted in one number for the
// reports.
#include "base/arena.h"

#include "base/table.h"
#include "platform/maps.h"
#include "resources/resources.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct arena_chunk {
  struct arena_chunk *before;
  size_t size; // usable bytes
  _Alignas(16) uint8_t bytes[];
};

enum { CHUNK_MIN = 64 << 10, CHUNK_MAX = 1 << 20, TABLE_MIN_BYTES = 512 };
enum { SCATTER_MIN_BYTES = 4 << 20 }; // up to that, the processor's own tables reach

void *arena_must(void *at, size_t bytes) {
  if (!at) resources_exhausted(bytes);
  return at;
}

struct attempt {
  int (*work)(void *ctx, struct err *err);
  void *ctx;
  struct err *err;
  int rc;
};

static void attempt(void *at) {
  struct attempt *a = at;
  a->rc = a->work(a->ctx, a->err);
}

int arena_try(int (*work)(void *ctx, struct err *err), void *ctx, struct err *err) {
  struct attempt a = {work, ctx, err, 0};
  if (!resources_try(attempt, &a)) return a.rc;
  *err = (struct err){0}; // the work had not ended: it has no other error
  err_fill(err, ERR_NO_MEMORY,
           "the system refused %s more memory (%s are in use for the model's index)",
           quote_bytes(resources_refused()).s, quote_bytes(resources_held()).s);
  return err_because(err, REASON_REFUSED);
}

static void add_chunk(struct arena *a, size_t n) {
  size_t size = a->last ? a->last->size * 2 : CHUNK_MIN;
  if (size > CHUNK_MAX) size = CHUNK_MAX;
  if (size < n) size = n;
  struct arena_chunk *c = arena_must(resources_alloc(sizeof *c + size), size);
  c->before = a->last;
  c->size = size;
  resources_count((int64_t)size);
  a->last = c;
  a->used = 0;
}

void *arena_alloc(struct arena *a, size_t n) {
  if (n > SIZE_MAX / 2) arena_must(NULL, n);
  n = (n + 15) & ~(size_t)15;
  if (!a->last || a->last->size - a->used < n) add_chunk(a, n);
  void *p = a->last->bytes + a->used;
  a->used += n;
  return p;
}

void *arena_zalloc(struct arena *a, size_t n) {
  return memset(arena_alloc(a, n), 0, n);
}

void *arena_copy(struct arena *a, const void *from, size_t n) {
  void *to = arena_alloc(a, n + 1);
  if (n > 0) memcpy(to, from, n);
  return to;
}

char *arena_string(struct arena *a, struct span s) {
  char *p = arena_alloc(a, s.n + 1);
  if (s.n) memcpy(p, s.at, s.n);
  p[s.n] = '\0';
  return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char none[1];
  assert(fmt);
  int n = vsnprintf(none, sizeof none, fmt, ap);
  va_end(ap);
  char *p = arena_alloc(a, (size_t)n + 1);
  va_start(ap, fmt);
  vsnprintf(p, (size_t)n + 1, fmt, ap);
  va_end(ap);
  return p;
}

const char *arena_folder(struct arena *a, const char *path) {
  const size_t n = (size_t)(path_base(path) - path);
  if (n < 2) return n ? "/" : ".";
  return arena_string(a, span_of(path, n - 1));
}

static void free_chunks(struct arena_chunk *c) {
  while (c) {
    struct arena_chunk *before = c->before;
    resources_count(-(int64_t)c->size);
    resources_free(c);
    c = before;
  }
}

void arena_reset(struct arena *a) {
  if (!a->last) return;
  free_chunks(a->last->before);
  a->last->before = NULL;
  a->used = 0;
}

void arena_free(struct arena *a) {
  free_chunks(a->last);
  *a = (struct arena){0};
}

void *table_grow(void *at, size_t *cap, size_t need, size_t row_bytes) {
  if (need <= *cap) return at;
  size_t rows = *cap + *cap / 4;
  if (rows < TABLE_MIN_BYTES / row_bytes) rows = TABLE_MIN_BYTES / row_bytes;
  if (rows < need) rows = need;
  size_t bytes;
  if (__builtin_mul_overflow(rows, row_bytes, &bytes)) arena_must(NULL, SIZE_MAX);
  void *grown = arena_must(resources_realloc(at, bytes), bytes);
  resources_count((int64_t)((rows - *cap) * row_bytes));
  *cap = rows;
  return grown;
}

void table_scatter(void *at, size_t cap, size_t row_bytes) {
  if (cap * row_bytes > SCATTER_MIN_BYTES) pages_scatter(at, cap * row_bytes);
}

void *table_trim(void *at, size_t *cap, size_t n, size_t row_bytes) {
  if (n == 0 || n == *cap) return at;
  void *trimmed = resources_realloc(at, n * row_bytes);
  if (!trimmed) return at;
  resources_count(-(int64_t)((*cap - n) * row_bytes));
  *cap = n;
  return trimmed;
}

void table_free(void *at, size_t cap, size_t row_bytes) {
  resources_free(at);
  resources_count(-(int64_t)(cap * row_bytes));
}

// ---- sorting ----
//
// Heapsort. The rows are a heap whose first one comes last; it changes places with the last row of the heap, which is one row
// shorter then:
//
//   |---------- heap ----------|------ in order ------|
//   `- the largest of these       all are larger

struct heap {
  uint8_t *rows;
  size_t bytes;
  table_compare *compare;
  const void *ctx;
};

static void exchange(const struct heap *h, size_t i, size_t k) {
  uint8_t *a = h->rows + i * h->bytes, *b = h->rows + k * h->bytes, kept[64];
  for (size_t left = h->bytes, n; left > 0; left -= n, a += n, b += n) {
    n = left < sizeof kept ? left : sizeof kept;
    memcpy(kept, a, n);
    memcpy(a, b, n);
    memcpy(b, kept, n);
  }
}

static int compare_rows(const struct heap *h, size_t i, size_t k) {
  return h->compare(h->rows + i * h->bytes, h->rows + k * h->bytes, h->ctx);
}

// Row i goes down until it is no smaller than both rows below it.
static void settle(const struct heap *h, size_t i, size_t n) {
  for (size_t below; (below = 2 * i + 1) < n; i = below) {
    if (below + 1 < n && compare_rows(h, below, below + 1) < 0) below++;
    if (compare_rows(h, i, below) >= 0) return;
    exchange(h, i, below);
  }
}

void table_sort(void *rows, size_t n, size_t row_bytes, table_compare *compare, const void *ctx) {
  const struct heap h = {rows, row_bytes, compare, ctx};
  for (size_t i = n / 2; i > 0; i--)
    settle(&h, i - 1, n);
  for (size_t end = n; end > 1; end--) {
    exchange(&h, 0, end - 1);
    settle(&h, 0, end - 1);
  }
}
