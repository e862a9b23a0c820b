// Figures without bytes: what `measure`, budgets and gates ask about quantizations is what a run
// would find while it writes them, to the last bit, because it is found by the same code.
//
//   NBITS          one walk over the operand, every quantization on each panel of it, and of what
//                  the kernels give only the sums are kept (eval_blocks.c)
//   QDQ, GATHER    a task for each, which is ended without being read: its codes are made for their
//                  figures alone
//
// Tasks of several quantizations read the same stretch one after the other. Where it fits into
// memory of the caller's it is read there first, with as much around it as the largest lines need.
#include "stream/eval/eval.h"
#include "stream/eval/quantize/eval_quantize.h"

#include <assert.h>

enum {
  WAYS_MOST = 64,         // of one walk; more take another one
  HOLD_BYTES = 512 << 10, // stays in the cache of the core while every way goes over it
  SEAM_LINES = 8,
};

static bool is_nbits(const struct recipes *r, uint32_t codes) {
  return recipe_is_nbits(recipe_quantization_of(r, codes).format);
}

uint64_t eval_measure_leaves(const struct recipes *r, uint32_t codes) {
  struct eval_quantize z;
  if (!is_nbits(r, codes)) return (r->rows[codes].count + EVAL_CHUNK - 1) / EVAL_CHUNK;
  if (r->rows[codes].count == 0) return 0;
  eval_layout_of(r, codes, &z);
  return z.outer * z.inner;
}

static int measure_columns(struct eval *ev, const struct eval_measurement *m, struct err *err) {
  struct eval_quantize ways[WAYS_MOST];
  for (uint32_t i = 0, n; i < m->n; i += n) {
    n = m->n - i < WAYS_MOST ? m->n - i : WAYS_MOST;
    for (uint32_t k = 0; k < n; k++)
      eval_layout_of(ev->r, m->codes[i + k], &ways[k]);
    struct eval_task *t = eval_begin(ev, m->codes[i], 0, 0, (struct eval_watcher){0});
    if (eval_blocks_measure(t, ways, n, m->first, m->end, m->watchers + i, err) != 0) return -1;
  }
  return 0;
}

static int measure_chunks(struct eval *ev, uint32_t codes, uint64_t first, uint64_t end,
                          struct eval_watcher watcher, struct err *err) {
  const struct recipe *x = &ev->r->rows[codes];
  const uint64_t chunk = (uint64_t)EVAL_CHUNK / 8 * dtype_bits((enum dtype)x->dtype);
  const uint64_t off = first * chunk, len = min_u64(end * chunk, x->bytes) - off;
  struct eval_task *t = eval_begin(ev, codes, off, len, watcher);
  t->measures = true;
  return eval_end(t, err);
}

// ---- several at once ---------------------------------------------------------------------------

// The start of the line that holds element `at`.
static uint64_t line_start(const struct eval_quantize *z, uint64_t at) {
  const uint64_t slab = z->k * z->inner, line = z->block * z->inner;
  return at / slab * slab + at % slab / line * line;
}

// Holds elements [lo, hi) of what z is made of; what is held of them already is not read again.
static int hold(struct eval *ev, const struct eval_quantize *z, uint64_t lo, uint64_t hi,
                uint8_t *memory, struct err *err) {
  struct eval_hold *h = &ev->hold;
  uint64_t from = lo;
  if (h->count > 0 && lo >= h->first && lo < h->first + h->count) {
    from = min_u64(h->first + h->count, hi);
    memmove(memory, memory + (lo - h->first) * z->width, (size_t)((from - lo) * z->width));
  }
  h->count = 0;
  const uint64_t off = from * z->width, n = (hi - from) * z->width;
  struct eval_task *t = eval_begin(ev, z->of, off, n, (struct eval_watcher){0});
  if (eval_read(t, off, memory + (from - lo) * z->width, (size_t)n, err) != 0) return -1;
  *h = (struct eval_hold){.of = z->of, .first = lo, .count = hi - lo, .at = memory};
  return 0;
}

// Is a line of it too long to be held?
static bool is_long(const struct eval_quantize *z, size_t bytes) {
  return z->block > bytes / z->width / z->inner;
}

// Measures chunks as far as whole lines of the longest of these codes fit the memory, step by step,
// of all codes but those whose lines are too long. *left: the chunk that it did not come to.
static int measure_held(struct eval *ev, const struct eval_measurement *m, uint64_t *left,
                        struct err *err) {
  const uint64_t count = ev->r->rows[m->codes[0]].count;
  struct eval_quantize z, longest = {0};
  for (uint32_t i = 0; i < m->n; i++) {
    eval_layout_of(ev->r, m->codes[i], &z);
    if (!is_long(&z, m->memory_bytes) && z.block > longest.block) longest = z;
  }
  if (longest.block == 0) return 0;
  // Where chunks do not end with lines, a line at every seam is made twice.
  const uint64_t line = longest.block * longest.inner * longest.width;
  const bool seams = longest.block * longest.inner % EVAL_CHUNK != 0;
  const uint64_t bytes = max_u64(HOLD_BYTES, seams ? SEAM_LINES * line : line);
  const uint64_t most = min_u64(bytes, m->memory_bytes) / longest.width;
  while (*left < m->end) {
    const uint64_t lo = line_start(&longest, *left * EVAL_CHUNK);
    const uint64_t hi = most >= count - lo ? count : line_start(&longest, lo + most);
    const uint64_t next = hi == count ? m->end : min_u64(hi / EVAL_CHUNK, m->end);
    if (next <= *left) return 0;
    if (hold(ev, &longest, lo, hi, m->memory, err) != 0) return -1;
    for (uint32_t i = 0; i < m->n; i++) {
      eval_layout_of(ev->r, m->codes[i], &z);
      if (is_long(&z, m->memory_bytes)) continue;
      if (measure_chunks(ev, m->codes[i], *left, next, m->watchers[i], err) != 0) return -1;
    }
    *left = next;
  }
  return 0;
}

int eval_measure(struct eval *ev, const struct eval_measurement *m, struct err *err) {
  if (m->first == m->end) return 0;
  if (is_nbits(ev->r, m->codes[0])) return measure_columns(ev, m, err);
  uint64_t left = m->first; // from here on each reads for itself
  int failed = m->n > 1 ? measure_held(ev, m, &left, err) : 0;
  ev->hold.count = 0;
  for (uint32_t i = 0; i < m->n && !failed; i++) {
    struct eval_quantize z;
    eval_layout_of(ev->r, m->codes[i], &z);
    const uint64_t from = is_long(&z, m->memory_bytes) ? m->first : left;
    if (from < m->end) failed = measure_chunks(ev, m->codes[i], from, m->end, m->watchers[i], err);
  }
  return failed;
}
