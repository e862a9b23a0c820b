// Error figures of what is stored in another form, but for the NBITS formats (eval_tell.c), whose
// kernels have them by column. Here they are of chunks of 4096 elements, numbered in the order of
// the codes:
//
//   range that is wanted      │◀────────── of this unit ──────────▶│
//   elements             …────┬────────┬────────┬────────┬─────────┼──┬──…
//   chunks                 c  │  c+1   │  c+2   │  c+3   │   c+4   │  │
//                             first whole one here        goes on behind: computed to its end
//
// Whoever has elements and what they are stored as gives them here as they come (eval_figures_add);
// what lies before the next element that is wanted was there already, or is another unit's, and is
// passed over. A chunk's sums have lanes that do not know how it was cut (kernels_figure_pairs), so memory
// and tiles do not show.
//
// Where codes are made in stripes (some columns of many rows, then the next columns) they are told of when
// all rows are there, from a second look at the elements.
//
// Where codes are moved about behind (a transpose), each unit takes the chunks whose number falls
// to its bytes, when the range was read: their figures were found with the codes (eval_once.c).
// Where those are not kept, and of casts, they are then computed apart.
#include "stream/eval/core/eval_figures.h"

#include <assert.h>
#include <math.h>

bool eval_figures_watches(const struct eval_task *t, uint32_t id) {
  return t->chunks.id == id;
}

bool eval_figures_wants(const struct eval_task *t, uint32_t id, uint64_t first, uint64_t n) {
  const struct eval_chunks *c = &t->chunks;
  return c->id == id && c->open && c->next < c->end && first <= c->next && c->next - first < n;
}

// ---- adding pairs ------------------------------------------------------------------------------

static double reduced(const double lane[KERNELS_LANES]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

void eval_figures_end_piece(const struct kernels_lanes *lanes, struct eval_piece *piece) {
  *piece = (struct eval_piece){
      .vv = reduced(lanes->vv), .ee = reduced(lanes->ee), .ve = reduced(lanes->ve)};
  for (uint32_t i = 0; i < KERNELS_LANES; i++)
    piece->max_error = fmax(piece->max_error, lanes->max_error[i]);
}

uint64_t eval_figures_piece_end(uint64_t line, uint64_t at) {
  const uint64_t chunk = (at / EVAL_CHUNK + 1) * EVAL_CHUNK;
  if (line == 0) return chunk;
  const uint64_t in = at % line;
  return min_u64(chunk, at - in + min_u64((in / EVAL_PIECE + 1) * EVAL_PIECE, line));
}

static void join_piece(struct eval_piece *before, const struct eval_piece *p) {
  before->vv += p->vv;
  before->ee += p->ee;
  before->ve += p->ve;
  before->max_error = fmax(before->max_error, p->max_error);
}

static void end_piece(struct eval_sums *s) {
  struct eval_piece piece;
  eval_figures_end_piece(&s->lanes, &piece);
  join_piece(&s->before, &piece);
  s->lanes = (struct kernels_lanes){0};
}

static void tell_chunk(struct eval_task *t) {
  struct eval_chunks *c = &t->chunks;
  const uint64_t number = (c->next - 1) / EVAL_CHUNK;
  end_piece(&c->sums);
  struct figures f = {.elements = c->next - number * EVAL_CHUNK,
                      .nonfinite = c->sums.nonfinite,
                      .overflows = c->sums.overflows,
                      .vv = c->sums.before.vv,
                      .ee = c->sums.before.ee,
                      .ve = c->sums.before.ve,
                      .max_error = c->sums.before.max_error};
  t->watcher.told(t->watcher.ctx, number, &f);
  c->sums = (struct eval_sums){0};
}

static int refuse_not_finite(const struct eval_task *t, uint64_t at, double v, struct err *err) {
  const struct recipes *r = t->r;
  const uint32_t of = r->args[r->rows[t->chunks.id].args];
  const int64_t *dims = recipe_dims(r, of);
  int64_t place[RECIPE_MAX_RANK];
  for (uint32_t i = r->rows[of].rank; i-- > 0; at /= (uint64_t)dims[i])
    place[i] = (int64_t)(at % (uint64_t)dims[i]);
  err_fill(err, ERR_FAIL, "element %s of the weight is not finite (%g)",
           quote_dims(place, r->rows[of].rank).s, v);
  return err_because(err, REASON_NOT_FINITE);
}

// Pairs among which some are not finite: those are counted, and take part in no sum.
static int add_one_by_one(const struct eval_task *t, struct eval_sums *s, uint64_t at,
                          const double *v, const double *w, size_t n, struct err *err) {
  static const double zero = 0;
  for (size_t i = 0; i < n; i++) {
    const size_t lane = (size_t)((at + i) % EVAL_CHUNK);
    if (kernels_figure_pairs(&s->lanes, lane, &v[i], &w[i], 1)) continue;
    kernels_figure_pairs(&s->lanes, lane, &zero, &zero, 1);
    if (isfinite(v[i])) {
      s->overflows++;
      continue;
    }
    if (t->r->rows[t->chunks.id].kind != RECIPE_CAST && !t->measures)
      return refuse_not_finite(t, at + i, v[i], err);
    s->nonfinite++;
  }
  return 0;
}

// n pairs of one chunk, from element `at` on.
static int add_pairs(const struct eval_task *t, struct eval_sums *s, uint64_t at, const double *v,
                     const double *w, size_t n, struct err *err) {
  if (kernels_figure_pairs(&s->lanes, (size_t)(at % EVAL_CHUNK), v, w, n)) return 0;
  return add_one_by_one(t, s, at, v, w, n, err);
}

static void went_on(struct eval_task *t, uint64_t n) {
  struct eval_chunks *c = &t->chunks;
  const bool ends = c->next + n == eval_figures_piece_end(c->line, c->next);
  c->next += n;
  if (c->next == c->end || c->next % EVAL_CHUNK == 0)
    tell_chunk(t);
  else if (ends)
    end_piece(&c->sums);
}

void eval_figures_add_piece(struct eval_task *t, const struct eval_piece *piece) {
  struct eval_chunks *c = &t->chunks;
  join_piece(&c->sums.before, piece);
  went_on(t, min_u64(eval_figures_piece_end(c->line, c->next), c->end) - c->next);
}

int eval_figures_add(struct eval_task *t, uint64_t first, const double *v, const double *w,
                     size_t n, struct err *err) {
  struct eval_chunks *c = &t->chunks;
  assert(first <= c->next && c->next - first < n);
  const size_t known = (size_t)(c->next - first);
  v += known;
  w += known;
  n = (size_t)min_u64(n - known, c->end - c->next);
  while (n > 0) {
    const size_t m = (size_t)min_u64(n, eval_figures_piece_end(c->line, c->next) - c->next);
    if (add_pairs(t, &c->sums, c->next, v, w, m, err) != 0) return -1;
    went_on(t, m);
    v += m;
    w += m;
    n -= m;
  }
  return 0;
}

bool eval_figures_add_codes(struct eval_task *t, uint64_t first, const float *v,
                            const uint8_t *codes, size_t n, const struct kernels_stored *stored) {
  struct eval_chunks *c = &t->chunks;
  assert(first <= c->next && c->next - first < n);
  const uint64_t end = min_u64(first + n, c->end);
  while (c->next < end) {
    const size_t at = (size_t)(c->next - first), lane = (size_t)(c->next % EVAL_CHUNK);
    const size_t m = (size_t)(min_u64(end, eval_figures_piece_end(c->line, c->next)) - c->next);
    if (!kernels_figure_pairs_codes(&c->sums.lanes, lane, v + at, codes + at, m, stored))
      return false;
    went_on(t, m);
  }
  return true;
}

bool eval_figures_add_scaled(struct eval_task *t, uint64_t first, const float *v,
                             const uint8_t *codes, size_t n, const struct kernels_scaled *scaled) {
  struct eval_chunks *c = &t->chunks;
  assert(first <= c->next && c->next - first < n);
  const uint64_t end = min_u64(first + n, c->end);
  while (c->next < end) {
    const size_t at = (size_t)(c->next - first), lane = (size_t)(c->next % EVAL_CHUNK);
    size_t m = (size_t)(min_u64(end, eval_figures_piece_end(c->line, c->next)) - c->next);
    struct kernels_scaled s = *scaled;
    if (at % s.share) m = min_u64(m, s.share - at % s.share); // up to where a share begins
    s.scales += at / s.share;
    if (s.zeros) s.zeros += at / s.share;
    if (!kernels_figure_pairs_scaled(&c->sums.lanes, lane, v + at, codes + at, m, &s)) return false;
    went_on(t, m);
  }
  return true;
}

// ---- chunks side by side -----------------------------------------------------------------------

size_t eval_open_chunks_bytes(uint64_t elements) {
  return (size_t)(elements / EVAL_CHUNK + 2) * sizeof(struct eval_open_chunk);
}

void eval_open_chunks_begin(const struct eval_task *t, struct eval_open_chunks *p, uint64_t first,
                            uint64_t n, void *memory) {
  const struct eval_chunks *c = &t->chunks;
  *p = (struct eval_open_chunks){.at = memory};
  if (!eval_figures_wants(t, c->id, first, n)) return;
  const uint64_t end = min_u64(first + n, c->end);
  p->first = c->next / EVAL_CHUNK;
  p->n = (end - 1) / EVAL_CHUNK + 1 - p->first;
  memset(p->at, 0, (size_t)p->n * sizeof *p->at);
  p->at[0] = (struct eval_open_chunk){.sums = c->sums, .have = (uint32_t)(c->next % EVAL_CHUNK)};
}

void eval_open_chunks_add(const struct eval_task *t, struct eval_open_chunks *p, uint64_t first,
                          const float *v, const uint8_t *codes, size_t n,
                          const struct kernels_scaled *scaled) {
  assert(scaled->share == 1);
  for (size_t i = 0, m; i < n; i += m) {
    const uint64_t number = (first + i) / EVAL_CHUNK, at = (first + i) % EVAL_CHUNK;
    m = (size_t)min_u64(n - i, EVAL_CHUNK - at);
    if (number < p->first || number - p->first >= p->n) continue;
    struct eval_open_chunk *x = &p->at[number - p->first];
    const uint64_t end = min_u64(at + m, t->chunks.end - number * EVAL_CHUNK);
    if (x->have < at || x->have >= end) continue;
    const size_t from = i + (size_t)(x->have - at), some = (size_t)(end - x->have);
    struct kernels_scaled s = *scaled;
    s.scales += from;
    if (s.zeros) s.zeros += from;
    if (kernels_figure_pairs_scaled(&x->sums.lanes, x->have, v + from, codes + from, some, &s))
      x->have = (uint32_t)end;
  }
}

void eval_open_chunks_settle(struct eval_task *t, const struct eval_open_chunks *p) {
  struct eval_chunks *c = &t->chunks;
  while (c->next < c->end) {
    const uint64_t number = c->next / EVAL_CHUNK;
    if (number < p->first || number - p->first >= p->n) return;
    const struct eval_open_chunk *x = &p->at[number - p->first];
    if (number * EVAL_CHUNK + x->have <= c->next) return;
    c->sums = x->sums;
    c->next = number * EVAL_CHUNK + x->have;
    if (c->next < c->end && x->have < EVAL_CHUNK) return;
    tell_chunk(t);
  }
}

void eval_figures_floats(enum dtype type, const void *in, size_t n, float *room) {
  uint16_t half[EVAL_PAIRS];
  assert(n <= EVAL_PAIRS);
  memcpy(type == DTYPE_FLOAT ? (void *)room : half, in, n * dtype_bits(type) / 8);
  if (type == DTYPE_FLOAT16) kernels_f16_to_f32(room, half, n);
  if (type == DTYPE_BFLOAT16) kernels_bf16_to_f32(room, half, n);
}

void eval_figures_widen(enum dtype type, const void *in, size_t n, double *out) {
  float room[EVAL_PAIRS];
  assert(n <= EVAL_PAIRS);
  if (type == DTYPE_DOUBLE) {
    memcpy(out, in, n * sizeof *out);
    return;
  }
  eval_figures_floats(type, in, n, room);
  kernels_f32_to_f64(out, room, n);
}
