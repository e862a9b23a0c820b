// Codes that are moved about behind (the weights of convolutions that became MatMuls, say) are
// wanted in an order in which they are dear to make: a few of each row at a time, with a read of
// the weight, or more, for each stripe, and one for the error figures, which go by their own order.
// So they are made in their own order, once, a chunk of 4096 after the other, and kept with their
// figures for all workers of the run (eval_cache.c: in memory, or in its file):
//
//   operand ──▶ │ chunk │ chunk │ chunk │ …  ──▶ codes, figures of chunks ──▶ eval_view: any order
//                 └───── a group ─────┘          └── kept for the run ──┘
//
// Workers take turns at groups of chunks: who wants one that another one is at waits for it, and
// finds it there. One evaluator that makes group after group goes on where it was: its box holds
// what lies across.
//
// Where they cannot be kept, codes are made as they are asked for, and figures afterwards
// (eval_figures.c).
#include "eval_once.h"

#include "eval_figures.h"
#include "eval_quantize.h"

#include <assert.h>

enum { GROUP = 64 };

static struct eval_cache_key key_of(const struct eval *ev, enum eval_cache_kind kind) {
  const struct recipe *x = &ev->r->rows[ev->turned.id];
  struct eval_cache_key key = {.kind = kind,
                               .of = ev->turned.id,
                               .q = recipe_quantization_of(ev->r, ev->turned.id),
                               .units = (x->count - 1) / EVAL_CHUNK + 1};
  if (kind == EVAL_CACHE_CODES) key.scale_bytes = EVAL_CHUNK / 8 * dtype_bits((enum dtype)x->dtype);
  if (kind == EVAL_CACHE_FIGURES) key.scale_bytes = sizeof(struct figures);
  if (kind == EVAL_CACHE_TURNS) key.units = (key.units - 1) / GROUP + 1;
  return key;
}

void eval_once_expect(struct eval *ev, uint32_t id) {
  const struct recipes *r = ev->r;
  bool turned = false;
  ev->turned = (struct eval_once){.id = NO_ID};
  for (; r->rows[id].kind == RECIPE_RESHAPE || r->rows[id].kind == RECIPE_TRANSPOSE;
       id = r->args[r->rows[id].args])
    turned |= r->rows[id].kind == RECIPE_TRANSPOSE;
  const struct recipe *x = &r->rows[id];
  if (!turned || !ev->cache || x->kind != RECIPE_QUANTIZE || x->count == 0) return;
  if (recipe_part_of(r, id) != PART_CODES || recipe_is_nbits(recipe_quantization_of(r, id).format))
    return;
  if (eval_width(r, id) == 1) ev->turned.id = id; // levels are as large as what they are made of
}

bool eval_once_serves(const struct eval *ev, uint32_t id) {
  return ev->turned.id == id && !ev->turned.making;
}

// ---- making ------------------------------------------------------------------------------------

static void keep_figures(void *ctx, uint64_t leaf, const struct figures *f) {
  struct eval *ev = ctx;
  const struct eval_cache_key key = key_of(ev, EVAL_CACHE_FIGURES);
  eval_cache_put(ev->cache, &key, leaf, (const uint8_t *)f, NULL);
}

// Makes and keeps one chunk. Its elements lie in scratch, which they share with their packed form.
static int make_chunk(struct eval *ev, uint64_t chunk, struct err *err) {
  static_assert(2 * EVAL_CHUNK <= EVAL_SCRATCH_BYTES,
                "a chunk and its packed form fit a level's scratch");
  const struct recipe *x = &ev->r->rows[ev->turned.id];
  const uint32_t bits = dtype_bits((enum dtype)x->dtype);
  const uint64_t first = chunk * EVAL_CHUNK, n = min_u64(EVAL_CHUNK, x->count - first);
  const struct eval_cache_key key = key_of(ev, EVAL_CACHE_CODES);
  uint8_t *codes = eval_scratch(ev), *packed = codes;
  ev->depth++;
  assert(ev->depth < EVAL_DEPTH);
  const int failed = eval_quantize_elements(ev, ev->turned.id, first, n, codes, err);
  ev->depth--;
  if (failed) return -1;
  if (bits < 8) eval_bits_pack(packed = codes + EVAL_CHUNK, codes, (size_t)n, bits);
  eval_cache_put(ev->cache, &key, chunk, packed, NULL);
  return 0;
}

// Chunks [chunk, end), with figures if anybody asks for them, whatever range is wanted by the
// caller.
static int make_chunks(struct eval *ev, uint64_t chunk, uint64_t end, struct err *err) {
  struct eval_once *t = &ev->turned;
  const struct eval_chunks wanted_chunks = ev->chunks;
  const struct eval_wanted wanted = ev->wanted;
  const struct eval_watcher watcher = ev->watcher;
  const uint32_t bits = dtype_bits((enum dtype)ev->r->rows[t->id].dtype);
  const uint64_t chunk_bytes = (uint64_t)EVAL_CHUNK / 8 * bits;
  if (!t->goes_on || t->next != chunk) {
    eval_quantize_forget(ev, t->id);
    t->chunks = (struct eval_chunks){.id = watcher.told ? t->id : NO_ID,
                                     .in_order = true,
                                     .open = true,
                                     .next = chunk * EVAL_CHUNK,
                                     .end = ev->r->rows[t->id].count};
  }
  ev->chunks = t->chunks;
  ev->wanted = (struct eval_wanted){
      .id = t->id, .off = chunk * chunk_bytes, .len = (end - chunk) * chunk_bytes};
  ev->watcher.ctx = ev;
  if (watcher.told) ev->watcher.told = keep_figures;
  t->making = true;
  int failed = 0;
  for (; chunk < end && !failed; chunk++)
    failed = make_chunk(ev, chunk, err);
  t->making = false;
  t->goes_on = !failed;
  t->next = end;
  t->chunks = ev->chunks;
  ev->chunks = wanted_chunks;
  ev->wanted = wanted;
  ev->watcher = watcher;
  return failed;
}

// Makes what is missing of the group of a chunk, unless another worker does.
static int make_group(struct eval *ev, uint64_t chunk, struct err *err) {
  const struct eval_cache_key turns = key_of(ev, EVAL_CACHE_TURNS),
                              codes = key_of(ev, EVAL_CACHE_CODES);
  const uint64_t group = chunk / GROUP, end = min_u64((group + 1) * GROUP, codes.units);
  if (eval_cache_wait(ev->cache, &turns, group, ev->go_on) == EVAL_CACHE_STOPPED)
    return eval_interrupted(err);
  uint64_t first = group * GROUP;
  while (first < end && eval_cache_has(ev->cache, &codes, first))
    first++;
  const int failed = first < end ? make_chunks(ev, first, end, err) : 0;
  eval_cache_done(ev->cache, &turns, group);
  return failed;
}

// ---- serving -----------------------------------------------------------------------------------

// Elements [at, at + n) of a chunk, if they are kept.
static bool take(struct eval *ev, uint64_t chunk, uint64_t at, uint64_t n, uint8_t *out) {
  const struct eval_cache_key key = key_of(ev, EVAL_CACHE_CODES);
  const uint32_t bits = key.scale_bytes / (EVAL_CHUNK / 8);
  const uint64_t from = at * bits / 8, end = ((at + n) * bits + 7) / 8;
  if (bits == 8) return eval_cache_scales(ev->cache, &key, chunk, (size_t)at, out, (size_t)n);
  uint8_t packed[EVAL_CHUNK / 2];
  if (!eval_cache_scales(ev->cache, &key, chunk, (size_t)from, packed, (size_t)(end - from)))
    return false;
  eval_bits_unpack(out, packed, at * bits - from * 8, (size_t)n, bits);
  return true;
}

// From now on until the next eval_expect everything is made as it is asked for.
static void give_up(struct eval *ev) {
  ev->turned.id = NO_ID;
}

int eval_once_elements(struct eval *ev, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                       struct err *err) {
  while (count > 0) {
    const uint64_t chunk = first / EVAL_CHUNK, at = first % EVAL_CHUNK;
    const uint64_t n = min_u64(count, EVAL_CHUNK - at);
    if (!take(ev, chunk, at, n, out)) {
      if (make_group(ev, chunk, err) != 0) return -1;
      if (!take(ev, chunk, at, n, out)) {
        give_up(ev);
        return eval_quantize_elements(ev, id, first, count, out, err);
      }
    }
    first += n;
    count -= n;
    out += n;
  }
  return 0;
}

static bool take_figures(struct eval *ev, uint64_t chunk, struct figures *f) {
  const struct eval_cache_key key = key_of(ev, EVAL_CACHE_FIGURES);
  return eval_cache_scales(ev->cache, &key, chunk, 0, (uint8_t *)f, sizeof *f);
}

int eval_once_finish(struct eval *ev, struct err *err) {
  struct eval_chunks *c = &ev->chunks;
  if (ev->turned.id == NO_ID || ev->turned.id != c->id) return 0;
  while (c->next < c->end) {
    const uint64_t chunk = c->next / EVAL_CHUNK;
    struct figures f;
    if (!take_figures(ev, chunk, &f)) {
      if (make_group(ev, chunk, err) != 0) return -1;
      if (!take_figures(ev, chunk, &f)) {
        give_up(ev);
        return 0;
      }
    }
    ev->watcher.told(ev->watcher.ctx, chunk, &f);
    c->next = min_u64((chunk + 1) * EVAL_CHUNK, c->end);
  }
  return 0;
}
