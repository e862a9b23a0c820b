// Parts of pairs, off one cursor:
//
//   pair 0 │ part │ part │ … │  pair 1 │ part │          16 MiB each
//             worker: A ──▶ window ─┐
//                     B ──▶ window ─┴─ memcmp           what lies plainly in both files
//             worker: A ──▶ evaluator ─┐
//                     B ──▶ evaluator ─┴─ memcmp, or doubles and their figures
//
// A part of a pair that is known to differ is passed over, unless figures are wanted: so a pair of
// models that have nothing in common costs little. Figures are sums over leaves of 4096 elements,
// which a fixed tree joins: a part is a power of two of them, so nothing depends on who made which.
//
// Each worker has a queue and an evaluator for either side, on half of the memory.
#include "compare/values/contrast.h"

#include "kernels/convert/kernels_convert.h"
#include "platform/machine.h"
#include "resources/resources.h"
#include "stream/eval/eval.h"
#include "stream/run/memory_split.h"
#include "stream/sys/threads.h"

#include <math.h>
#include <stdatomic.h>

enum {
  PART_BYTES = 16 << 20,
  PIECE_BYTES = 1 << 20, // of what is compared in place
  CHUNK_BYTES = 64 << 10,
  LEAF = 4096, // elements
  PART_LEAVES = 1024,
  TICK_MS = 50,
  SAMPLES = 4,
};

struct part {
  uint32_t pair;
  uint64_t first, n; // bytes; with figures: elements
};

struct team {
  const struct contrast_side *side;
  const struct contrast_pair *pairs;
  const struct work_options *o;
  struct contrast_stats *stats;
  struct memory_split budget;
  TABLE(struct part, parts);
  struct contrast_found *figures; // by part; of pairs with figures only
  _Atomic bool *differs;          // by pair
  _Atomic uint64_t next;
  _Atomic bool stopped;
  pthread_mutex_t mu; // guards what follows, and stats
  struct err err;
  uint64_t bytes_done, bytes_total, told_ms;
};

struct worker {
  struct team *team;
  struct io *io[CONTRAST_SIDES];
  struct eval *ev[CONTRAST_SIDES];
  struct arena arena;
  struct buffers {
    uint8_t raw[CONTRAST_SIDES][CHUNK_BYTES];
    double wide[CONTRAST_SIDES][LEAF];
  } * b;
};

bool contrast_takes(enum dtype t) {
  return kernels_convert_takes(t) && dtype_bits(t) >= 8;
}

uint64_t contrast_least_memory(void) {
  return memory_split_minimum(1) * CONTRAST_SIDES;
}

// ---- a team ------------------------------------------------------------------------------------

static bool stopped(struct team *t) {
  if (threads_must_stop(t->o->stop)) t->stopped = true;
  return t->stopped;
}

static bool goes_on(void *ctx) {
  return !stopped(ctx);
}

static void tell_progress(struct team *t, uint64_t bytes) {
  if (!observer_ticks(t->o->observer)) return;
  resources_lock(&t->mu);
  t->bytes_done += bytes;
  const uint64_t now = machine_clock_ms();
  if (now - t->told_ms >= TICK_MS) {
    t->told_ms = now;
    observer_tick_bytes(t->o->observer, t->bytes_done, t->bytes_total);
  }
  resources_unlock(&t->mu);
}

static int open_sides(struct worker *w, struct err *err) {
  struct team *t = w->team;
  for (uint32_t s = 0; s < CONTRAST_SIDES; s++) {
    const struct io_options io = {.mode = t->o->mode, .tiles = 1, .tile_bytes = IO_CLONE_BLOCK};
    if (!t->side[s].sources) continue;
    if (io_open(&w->io[s], &io, t->side[s].sources, err)) return -1;
    if (eval_open(&w->ev[s], t->side[s].r, w->io[s], t->budget.eval_bytes, err)) return -1;
    eval_interrupt(w->ev[s], (struct eval_go_on){.ask = goes_on, .ctx = t});
  }
  w->b = arena_alloc(&w->arena, sizeof *w->b);
  return 0;
}

static void close_sides(struct worker *w) {
  for (uint32_t s = 0; s < CONTRAST_SIDES; s++) {
    if (w->io[s]) w->team->stats->bytes_read += io_source_bytes_read(w->io[s]);
    if (w->ev[s]) eval_close(w->ev[s]);
    if (w->io[s]) io_close(w->io[s]);
  }
  arena_free(&w->arena);
}

// ---- bytes -------------------------------------------------------------------------------------

static int views_differ(struct worker *w, const struct extent at[CONTRAST_SIDES], uint64_t off,
                        size_t n, bool *differ, struct err *err) {
  struct io_view v[CONTRAST_SIDES];
  if (io_view(w->io[0], at[0].file, at[0].off + off, n, &v[0], err)) return -1;
  if (io_view(w->io[1], at[1].file, at[1].off + off, n, &v[1], err)) {
    struct err unimportant = {0};
    (void)io_view_done(w->io[0], &v[0], &unimportant);
    return -1;
  }
  *differ = memcmp(v[0].at, v[1].at, n) != 0;
  const int a = io_view_done(w->io[0], &v[0], err), b = io_view_done(w->io[1], &v[1], err);
  return a || b ? -1 : 0;
}

static int elements_differ(struct worker *w, uint64_t off, size_t n, bool *differ,
                           struct eval_task *task[CONTRAST_SIDES], struct err *err) {
  for (uint32_t s = 0; s < CONTRAST_SIDES; s++)
    if (eval_read(task[s], off, w->b->raw[s], n, err)) return -1;
  *differ = memcmp(w->b->raw[0], w->b->raw[1], n) != 0;
  return 0;
}

static int compare_bytes(struct worker *w, const struct part *x, struct err *err) {
  struct team *t = w->team;
  const struct contrast_pair *p = &t->pairs[x->pair];
  struct extent at[CONTRAST_SIDES];
  const bool plain = recipe_is_copy(t->side[0].r, p->of[0], &at[0]) &&
                     recipe_is_copy(t->side[1].r, p->of[1], &at[1]);
  struct eval_task *task[CONTRAST_SIDES] = {NULL};
  for (uint32_t s = 0; s < CONTRAST_SIDES && !plain; s++)
    task[s] = eval_begin(w->ev[s], p->of[s], x->first, x->n, (struct eval_watcher){0});
  const size_t piece = plain ? PIECE_BYTES : CHUNK_BYTES;
  for (uint64_t done = 0; done < x->n; done += piece) {
    const size_t n = (size_t)min_u64(piece, x->n - done);
    bool differ = false;
    if (stopped(t)) return 0;
    if (t->differs[x->pair]) break;
    const int rc = plain ? views_differ(w, at, x->first + done, n, &differ, err)
                         : elements_differ(w, x->first + done, n, &differ, task, err);
    if (rc) return -1;
    if (differ) t->differs[x->pair] = true;
    tell_progress(t, n);
  }
  return 0;
}

// ---- figures -----------------------------------------------------------------------------------

static bool same(double x, double y) {
  return x == y || (isnan(x) && isnan(y));
}

static struct figures look(struct contrast_found *f, const double *x, const double *y, uint64_t at,
                           size_t n) {
  struct figures leaf = {.elements = n};
  for (size_t i = 0; i < n; i++) {
    const bool equal = same(x[i], y[i]);
    const double v = x[i], e = equal ? 0 : v - y[i], size = fabs(e);
    leaf.nonfinite += isfinite(v) ? 0 : 1;
    if (isfinite(v) || !equal) {
      leaf.vv += v * v;
      leaf.ve += v * e;
    }
    leaf.ee += e * e;
    if (size > leaf.max_error || isnan(size)) leaf.max_error = size;
    f->sum_abs += size;
    if (!equal && f->differing++ == 0) f->first = at + i;
  }
  return leaf;
}

static int compare_elements(struct worker *w, const struct part *x, struct contrast_found *f,
                            struct err *err) {
  struct team *t = w->team;
  const struct contrast_pair *p = &t->pairs[x->pair];
  struct figures_tree tree = {0};
  struct eval_task *task[CONTRAST_SIDES];
  size_t each[CONTRAST_SIDES];
  enum dtype type[CONTRAST_SIDES];
  for (uint32_t s = 0; s < CONTRAST_SIDES; s++) {
    type[s] = (enum dtype)t->side[s].r->rows[p->of[s]].dtype;
    each[s] = dtype_bits(type[s]) / 8;
    task[s] = eval_begin(w->ev[s], p->of[s], x->first * each[s], x->n * each[s],
                         (struct eval_watcher){0});
  }
  for (uint64_t done = 0; done < x->n; done += LEAF) {
    const size_t n = (size_t)min_u64(LEAF, x->n - done);
    if (stopped(t)) return 0;
    for (uint32_t s = 0; s < CONTRAST_SIDES; s++) {
      const struct kernels_cast widen = {.from = (uint8_t)type[s], .to = DTYPE_DOUBLE};
      if (eval_read(task[s], (x->first + done) * each[s], w->b->raw[s], n * each[s], err))
        return -1;
      kernels_convert(w->b->wide[s], w->b->raw[s], n, &widen);
    }
    const struct figures leaf = look(f, w->b->wide[0], w->b->wide[1], x->first + done, n);
    figures_push(&tree, &leaf);
    tell_progress(t, n * each[0]);
  }
  f->figures = figures_root(&tree);
  f->differs = f->differing > 0;
  return 0;
}

// ---- the whole ---------------------------------------------------------------------------------

static int work_as(struct worker *w, struct err *err) {
  struct team *t = w->team;
  if (open_sides(w, err)) return -1;
  for (uint64_t i; !stopped(t) && (i = t->next++) < t->n_parts;) {
    const struct part *x = &t->parts[i];
    const int rc = t->pairs[x->pair].figures ? compare_elements(w, x, &t->figures[i], err)
                                             : compare_bytes(w, x, err);
    if (rc) return -1;
  }
  return 0;
}

static void work(void *ctx, uint32_t i) {
  (void)i;
  struct team *t = ctx;
  struct worker w = {.team = t};
  struct err err = {0};
  const int bad = work_as(&w, &err);
  resources_lock(&t->mu);
  if (bad && t->err.kind == ERR_NONE) t->err = err;
  if (bad) t->stopped = true;
  close_sides(&w);
  resources_unlock(&t->mu);
}

static void cut(struct team *t, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const struct recipe *row = &t->side[0].r->rows[t->pairs[i].of[0]];
    const bool figures = t->pairs[i].figures;
    const uint64_t all = figures ? row->count : row->bytes,
                   part = figures ? (uint64_t)LEAF * PART_LEAVES : PART_BYTES;
    for (uint64_t at = 0; at < all; at += part)
      *TABLE_PUSH(t, parts) = (struct part){i, at, min_u64(part, all - at)};
    t->bytes_total += row->bytes;
  }
}

// Parts of a pair, in their order.
static void join(struct team *t, uint32_t n, struct contrast_found *out) {
  for (uint32_t i = 0, k = 0; i < n; i++) {
    struct figures_tree tree = {0};
    out[i] = (struct contrast_found){.differs = t->differs[i]};
    for (; k < t->n_parts && t->parts[k].pair == i; k++) {
      const struct contrast_found *f = &t->figures[k];
      if (!t->pairs[i].figures) continue;
      figures_push(&tree, &f->figures);
      if (f->differing && out[i].differing == 0) out[i].first = f->first;
      out[i].differing += f->differing;
      out[i].sum_abs += f->sum_abs;
      out[i].differs |= f->differs;
    }
    out[i].figures = figures_root(&tree);
  }
}

static int run_team(struct team *t, struct err *err) {
  pthread_mutex_init(&t->mu, NULL);
  const uint64_t memory = (t->o->memory ? t->o->memory : WORK_DEFAULT_MEMORY) / CONTRAST_SIDES;
  int rc = memory_split_of(&t->budget, memory, t->o->jobs,
                           (uint32_t)min_u64(t->n_parts ? t->n_parts : 1, UINT32_MAX), err);
  if (rc == 0 && t->n_parts > 0) t->stats->jobs = threads_run(t->budget.jobs, work, t);
  pthread_mutex_destroy(&t->mu);
  if (rc) return -1;
  if (threads_must_stop(t->o->stop) && (t->err.kind == ERR_NONE || t->err.kind == ERR_RETRY))
    return err_set(err, ERR_RETRY, "interrupted while comparing weights");
  if (t->err.kind != ERR_NONE) {
    if (err->kind == ERR_NONE) *err = t->err;
    return -1;
  }
  for (uint32_t s = 0; s < CONTRAST_SIDES; s++)
    if (t->side[s].sources && sources_unchanged(t->side[s].sources, err)) return -1;
  observer_tick_bytes(t->o->observer, t->bytes_total, t->bytes_total);
  return 0;
}

int contrast_run(const struct contrast_side side[CONTRAST_SIDES], const struct contrast_pair *pairs,
                 uint32_t n, const struct work_options *options, struct contrast_found *out,
                 struct contrast_stats *stats, struct err *err) {
  struct arena arena = {0};
  struct team t = {.side = side, .pairs = pairs, .o = options, .stats = stats};
  cut(&t, n);
  t.figures = arena_zalloc(&arena, (t.n_parts + (size_t)1) * sizeof *t.figures);
  t.differs = arena_zalloc(&arena, (n + (size_t)1) * sizeof *t.differs);
  const int rc = run_team(&t, err);
  if (rc == 0) join(&t, n, out);
  TABLE_FREE(&t, parts);
  arena_free(&arena);
  return rc;
}

// ---- samples -----------------------------------------------------------------------------------

static int sample(struct worker *w, uint32_t of, uint64_t *out, struct err *err) {
  const uint64_t bytes = w->team->side[0].r->rows[of].bytes;
  const uint64_t piece = CONTRAST_SAMPLE_BYTES / SAMPLES;
  const bool whole = bytes <= CONTRAST_SAMPLE_BYTES;
  *out = bytes;
  for (uint64_t i = 0; i < (whole ? 1 : SAMPLES); i++) {
    const uint64_t last = bytes - piece;
    const uint64_t off = whole ? 0 : i == SAMPLES - 1 ? last : last / (SAMPLES - 1) * i / 16 * 16;
    const size_t n = (size_t)(whole ? bytes : piece);
    if (n == 0) return 0;
    if (recipe_read(w->ev[0], of, off, w->b->raw[0], n, err)) return -1;
    *out = *out * 0x9e3779b97f4a7c15u ^ span_hash(span_of(w->b->raw[0], n));
  }
  return 0;
}

int contrast_samples(const struct contrast_side *side, const uint32_t *of, uint32_t n,
                     const struct work_options *options, uint64_t *out,
                     struct contrast_stats *stats, struct err *err) {
  const struct contrast_side alone[CONTRAST_SIDES] = {*side, {NULL, NULL}};
  struct team t = {.side = alone, .o = options, .stats = stats};
  struct worker w = {.team = &t};
  const uint64_t memory =
      (options->memory ? options->memory : WORK_DEFAULT_MEMORY) / CONTRAST_SIDES;
  int rc = memory_split_of(&t.budget, memory, 1, 1, err);
  if (rc == 0) rc = open_sides(&w, err);
  for (uint32_t i = 0; i < n && rc == 0; i++) {
    if (threads_must_stop(options->stop))
      rc = err_set(err, ERR_RETRY, "interrupted while comparing weights");
    else
      rc = sample(&w, of[i], &out[i], err);
  }
  close_sides(&w);
  return rc;
}
