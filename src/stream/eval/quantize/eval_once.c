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
#include "stream/eval/quantize/eval_quantize.h"

#include <assert.h>

enum { GROUP = 64 };

// What is kept of codes `id`.
static struct eval_cache_key key_of(const struct recipes *r, uint32_t id,
                                    enum eval_cache_kind kind) {
  const struct recipe *x = &r->rows[id];
  const uint64_t chunks = (x->count - 1) / EVAL_CHUNK + 1;
  struct eval_cache_key key = {.kind = kind, .of = id, .units = chunks};
  if (x->kind == RECIPE_QUANTIZE) key.q = recipe_quantization_of(r, id);
  if (kind == EVAL_CACHE_CODES) key.bytes[0] = EVAL_CHUNK / 8 * dtype_bits((enum dtype)x->dtype);
  if (kind == EVAL_CACHE_FIGURES) key.bytes[0] = sizeof(struct figures);
  if (kind == EVAL_CACHE_TURNS) key.units = (chunks - 1) / GROUP + 1;
  return key;
}

void eval_once_begin(struct eval_task *t, uint32_t id) {
  const struct recipes *r = t->r;
  bool turned = false;
  t->once = NO_ID;
  t->ev->once.goes_on = false;
  for (; r->rows[id].kind == RECIPE_RESHAPE || r->rows[id].kind == RECIPE_TRANSPOSE;
       id = r->args[r->rows[id].args])
    turned |= r->rows[id].kind == RECIPE_TRANSPOSE;
  const struct recipe *x = &r->rows[id];
  if (!turned || !t->ev->cache || x->count == 0) return;
  if (!recipe_quantizes(r, id) && x->kind != RECIPE_QUANTIZE_LINEAR) return;
  if (recipe_quantizes(r, id) && (recipe_part_of(r, id) != PART_CODES ||
                                  recipe_is_nbits(recipe_quantization_of(r, id).format)))
    return;
  if (eval_width(r, id) == 1) t->once = id; // levels are as large as what they are made of
}

// ---- making ------------------------------------------------------------------------------------

static void keep_figures(void *ctx, uint64_t leaf, const struct figures *f) {
  const struct eval_task *making = ctx;
  const struct eval_cache_key key = key_of(making->r, making->wanted.id, EVAL_CACHE_FIGURES);
  eval_cache_put(making->ev->cache, &key, leaf, (const uint8_t *)f, NULL);
}

// Makes and keeps one chunk. Its elements lie in scratch, which they share with their packed form.
static int make_chunk(struct eval_task *making, uint64_t chunk, struct err *err) {
  static_assert(2 * EVAL_CHUNK <= EVAL_SCRATCH_BYTES,
                "a chunk and its packed form fit a level's scratch");
  const uint32_t id = making->wanted.id;
  const struct recipe *x = &making->r->rows[id];
  const uint32_t bits = dtype_bits((enum dtype)x->dtype);
  const uint64_t first = chunk * EVAL_CHUNK, n = min_u64(EVAL_CHUNK, x->count - first);
  const struct eval_cache_key key = key_of(making->r, id, EVAL_CACHE_CODES);
  uint8_t *codes = eval_scratch(making->ev), *packed = codes;
  if (eval_elements(making, id, first, n, codes, err) != 0) return -1;
  if (bits < 8) eval_bits_pack(packed = codes + EVAL_CHUNK, codes, (size_t)n, bits);
  eval_cache_put(making->ev->cache, &key, chunk, packed, NULL);
  return 0;
}

// The task of making codes of t->once from a chunk on, with figures if anybody asks for them.
static struct eval_task task_of_making(const struct eval_task *t, uint64_t chunk) {
  struct eval_task making = {
      .ev = t->ev, .r = t->r, .root = t->root, .once = NO_ID, .chunks.id = NO_ID};
  making.wanted.id = t->once;
  if (!t->watcher.told) return making;
  assert(t->chunks.id == t->once);
  making.watcher = (struct eval_watcher){keep_figures, &t->ev->once.task};
  making.chunks = (struct eval_chunks){.id = t->once,
                                       .open = true,
                                       .next = chunk * EVAL_CHUNK,
                                       .end = t->r->rows[t->once].count,
                                       .line = t->chunks.line};
  return making;
}

// Chunks [chunk, end), whatever range is wanted by the caller.
static int make_chunks(struct eval_task *t, uint64_t chunk, uint64_t end, struct err *err) {
  struct eval_once *o = &t->ev->once;
  const uint32_t bits = dtype_bits((enum dtype)t->r->rows[t->once].dtype);
  const uint64_t chunk_bytes = (uint64_t)EVAL_CHUNK / 8 * bits;
  if (!o->goes_on || o->next != chunk) {
    eval_layout_forget(t->ev, t->once);
    o->task = task_of_making(t, chunk);
  }
  o->task.wanted.off = chunk * chunk_bytes;
  o->task.wanted.len = (end - chunk) * chunk_bytes;
  o->next = end;
  int failed = 0;
  for (; chunk < end && !failed; chunk++)
    failed = make_chunk(&o->task, chunk, err);
  o->goes_on = !failed;
  return failed;
}

// Makes what is missing of the group of a chunk.
struct missing {
  struct eval_task *t;
  struct eval_cache_key codes;
  uint64_t first, end;
};

static bool know_group(void *ctx) {
  struct missing *m = ctx;
  while (m->first < m->end && eval_cache_has(m->t->ev->cache, &m->codes, m->first))
    m->first++;
  return m->first == m->end;
}

static int find_group(void *ctx, struct err *err) {
  struct missing *m = ctx;
  return know_group(m) ? 0 : make_chunks(m->t, m->first, m->end, err);
}

static int make_group(struct eval_task *t, uint64_t chunk, struct err *err) {
  const struct eval_cache_key turns = key_of(t->r, t->once, EVAL_CACHE_TURNS);
  const uint64_t group = chunk / GROUP;
  struct missing m = {
      .t = t, .codes = key_of(t->r, t->once, EVAL_CACHE_CODES), .first = group * GROUP};
  m.end = min_u64((group + 1) * GROUP, m.codes.units);
  return eval_find_once(t, &turns, group, know_group, find_group, &m, err);
}

// ---- serving -----------------------------------------------------------------------------------

// Elements [at, at + n) of a chunk, if they are kept.
static bool take(struct eval_task *t, uint64_t chunk, uint64_t at, uint64_t n, uint8_t *out) {
  const struct eval_cache_key key = key_of(t->r, t->once, EVAL_CACHE_CODES);
  const uint32_t bits = key.bytes[0] / (EVAL_CHUNK / 8);
  const uint64_t from = at * bits / 8, end = ((at + n) * bits + 7) / 8;
  if (bits == 8) return eval_cache_get(t->ev->cache, &key, chunk, 0, (size_t)at, out, (size_t)n);
  uint8_t packed[EVAL_CHUNK / 2];
  if (!eval_cache_get(t->ev->cache, &key, chunk, 0, (size_t)from, packed, (size_t)(end - from)))
    return false;
  eval_bits_unpack(out, packed, at * bits - from * 8, (size_t)n, bits);
  return true;
}

int eval_once_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                       uint8_t *out, struct err *err) {
  while (count > 0) {
    const uint64_t chunk = first / EVAL_CHUNK, at = first % EVAL_CHUNK;
    const uint64_t n = min_u64(count, EVAL_CHUNK - at);
    if (!take(t, chunk, at, n, out)) {
      if (make_group(t, chunk, err) != 0) return -1;
      if (!take(t, chunk, at, n, out)) {
        t->once = NO_ID; // from now on everything is made as it is asked for
        return t->ev->kinds[t->r->rows[id].kind].elements(t, id, first, count, out, err);
      }
    }
    first += n;
    count -= n;
    out += n;
  }
  return 0;
}

static bool take_figures(struct eval_task *t, uint64_t chunk, struct figures *f) {
  const struct eval_cache_key key = key_of(t->r, t->once, EVAL_CACHE_FIGURES);
  return eval_cache_get(t->ev->cache, &key, chunk, 0, 0, (uint8_t *)f, sizeof *f);
}

int eval_once_end(struct eval_task *t, struct err *err) {
  struct eval_chunks *c = &t->chunks;
  if (t->once == NO_ID || t->once != c->id) return 0;
  while (c->next < c->end) {
    const uint64_t chunk = c->next / EVAL_CHUNK;
    struct figures f;
    if (!take_figures(t, chunk, &f)) {
      if (make_group(t, chunk, err) != 0) return -1;
      if (!take_figures(t, chunk, &f)) {
        t->once = NO_ID;
        return 0;
      }
    }
    t->watcher.told(t->watcher.ctx, chunk, &f);
    c->next = min_u64((chunk + 1) * EVAL_CHUNK, c->end);
  }
  return 0;
}
