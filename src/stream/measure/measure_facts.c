// Facts of tensors, part by part:
//
//   tensor 0 │ part │ part │ … │  tensor 1 │ part │      items, 16 MiB each
//              worker: read, widen to doubles, look ──▶ join, under the team's lock
//
// Parts are joined in whatever order they are done; nothing of a fact depends on it (tensor_stats.c). That all
// elements have the same bits is told by each part against the first element of its tensor, which it
// reads anew: one element.
//
// Whether all are multiples of the finest one can be asked when that is known: a second turn, over those
// that are finite, which ends for a tensor at the first part that says no.
#include "stream/measure/measure_facts.h"

#include "kernels/convert/kernels_convert.h"
#include "resources/resources.h"
#include "stream/measure/inside/measure_parts.h"

#include <math.h>

enum { CHUNK = 8192, PART_BYTES = 16 << 20, WIDEST = 16 };

struct item {
  uint32_t tensor;       // index of `of`
  uint64_t first, count; // elements
};

struct looking {
  const struct recipes *r;
  const uint32_t *of;
  struct tensor_stats *out;
  const struct item *items;
  bool second; // the turn
};

struct buffers {
  uint8_t raw[CHUNK * sizeof(double)];
  double wide[CHUNK];
};

bool measure_facts_can(const struct recipes *r, uint32_t recipe) {
  return dtype_is_plain_number((enum dtype)r->rows[recipe].dtype);
}

// The side of the matrices that a tensor consists of; 0: they are not square.
static uint64_t side_of(const struct recipes *r, uint32_t recipe) {
  const struct recipe *x = &r->rows[recipe];
  const int64_t *dims = recipe_dims(r, recipe);
  if (x->rank < 2 || dims[x->rank - 1] != dims[x->rank - 2]) return 0;
  return (uint64_t)dims[x->rank - 1];
}

static void look(struct tensor_stats *f, const struct buffers *b, uint64_t first, uint64_t n,
                 uint64_t side, const uint8_t *element, size_t each) {
  f->elements += n;
  for (uint64_t i = 0; i < n; i++) {
    const double x = b->wide[i], size = fabs(x);
    if (isnan(x)) {
      f->nans++;
      continue;
    }
    if (isinf(x)) f->infinities++;
    if (x == 0) f->zeros++;
    // A zero is +0: which one comes last must not show.
    if (x < f->least) f->least = x == 0 ? 0 : x;
    if (x > f->most) f->most = x == 0 ? 0 : x;
    if (size > 0 && size < f->finest) f->finest = size;
  }
  for (uint64_t i = 0; f->alike && i < n; i++)
    f->alike = memcmp(b->raw + i * each, element, each) == 0;
  for (uint64_t i = 0; f->identity && i < n; i++) {
    const uint64_t at = first + i;
    f->identity = b->wide[i] == (double)(at / side % side == at % side);
  }
}

// 1: told to stop, or it need not go on.
static int look_at(struct measure_worker *w, const struct item *x, struct buffers *b,
                   struct tensor_stats *f, struct err *err) {
  const struct looking *c = w->team->ctx;
  const uint32_t id = c->of[x->tensor];
  const struct recipe *row = &c->r->rows[id];
  const size_t each = dtype_bits((enum dtype)row->dtype) / 8;
  const uint64_t side = side_of(c->r, id);
  const struct kernels_cast widen = {.from = row->dtype, .to = DTYPE_DOUBLE};
  uint8_t element[WIDEST];
  if (!c->second && recipe_read(w->ev, id, 0, element, each, err)) return -1;
  struct eval_task *t =
      eval_begin(w->ev, id, x->first * each, x->count * each, (struct eval_watcher){0});
  for (uint64_t done = 0, n; done < x->count; done += n) {
    n = min_u64(CHUNK, x->count - done);
    if (measure_stopped(w)) return 1;
    if (eval_read(t, (x->first + done) * each, b->raw, (size_t)(n * each), err)) return -1;
    kernels_convert(b->wide, b->raw, (size_t)n, &widen);
    measure_tell(w, n * each);
    if (!c->second) {
      look(f, b, x->first + done, n, side, element, each);
      continue;
    }
    for (uint64_t i = 0; f->multiples && i < n; i++)
      f->multiples = tensor_stats_multiple(b->wide[i], f->finest);
    if (!f->multiples) return 0;
  }
  return 0;
}

static int work(struct measure_worker *w, struct err *err) {
  const struct looking *c = w->team->ctx;
  struct buffers *b = arena_alloc(&w->arena, sizeof *b);
  uint64_t item;
  int rc = 0;
  while (rc == 0 && measure_next(w, &item)) {
    const struct item *x = &c->items[item];
    struct tensor_stats *out = &c->out[x->tensor];
    struct tensor_stats f = tensor_stats_none(side_of(c->r, c->of[x->tensor]) > 0);
    resources_lock(&w->team->mu);
    if (c->second) f = *out;
    resources_unlock(&w->team->mu);
    if (c->second && !f.multiples) continue;
    rc = look_at(w, x, b, &f, err);
    resources_lock(&w->team->mu);
    if (rc == 0 && c->second) out->multiples = out->multiples && f.multiples;
    if (rc == 0 && !c->second) tensor_stats_join(out, &f);
    resources_unlock(&w->team->mu);
  }
  return rc < 0 ? -1 : 0;
}

static int turn(struct looking *c, uint32_t n, struct sources *s,
                const struct work_options *options, struct measure_stats *stats, struct err *err) {
  struct measure_team team = {
      .r = c->r, .sources = s, .o = options, .stats = stats, .ctx = c, .work = work};
  struct {
    TABLE(struct item, rows);
  } items = {0};
  for (uint32_t i = 0; i < n; i++) {
    const struct recipe *row = &c->r->rows[c->of[i]];
    const uint64_t part = PART_BYTES / (dtype_bits((enum dtype)row->dtype) / 8);
    if (c->second && !c->out[i].multiples) continue;
    for (uint64_t at = 0; at < row->count; at += part)
      *TABLE_PUSH(&items, rows) = (struct item){i, at, min_u64(part, row->count - at)};
    team.bytes_total += row->bytes;
  }
  c->items = items.rows;
  team.n_items = items.n_rows;
  const int rc = measure_team_run(&team, err);
  TABLE_FREE(&items, rows);
  return rc;
}

int measure_facts_run(const struct recipes *r, struct sources *s, const uint32_t *of, uint32_t n,
                      bool multiples, const struct work_options *options, struct tensor_stats *out,
                      struct measure_stats *stats, struct err *err) {
  struct looking c = {.r = r, .of = of, .out = out};
  *stats = (struct measure_stats){0};
  for (uint32_t i = 0; i < n; i++)
    out[i] = tensor_stats_none(side_of(r, of[i]) > 0);
  int rc = turn(&c, n, s, options, stats, err);
  if (rc || !multiples) return rc;
  c.second = true;
  for (uint32_t i = 0; i < n; i++)
    out[i].multiples = dtype_is_plain_float((enum dtype)r->rows[of[i]].dtype) &&
                       tensor_stats_finite(&out[i]) && isfinite(out[i].finest);
  return turn(&c, n, s, options, stats, err);
}
