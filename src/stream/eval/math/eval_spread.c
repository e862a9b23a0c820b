// Operands that are smaller than the result they go into: the vector of a channel's factors, a bias, a
// table of scales. What they mean is a look with strides of 0 along the axes they do not have; scales
// of blocks have axes of which several steps share one element.
//
//   result  (c0, c1, c2)        operand by channel: strides (1, 0, 0)
//     │                         a bias:                     (0, 0, 1)
//     ▼                         scales of blocks of 32:     (n, 1 for 32 steps)
//   element Σ c / share · stride
//
// A range of the result is walked run by run along the last axis: a run is one element again and again,
// or elements that lie together. Operands of a moderate size are read once into the box of the recipe
// that asks, because they are asked for again and again and may be costly (a reduction of a large
// weight); larger ones come through a window of a few elements, or straight where runs are long.
#include "stream/eval/math/inside/eval_spread.h"

#include <assert.h>

enum { HELD_MOST = 256 << 10, LINE = 64 };

void eval_spread_axis(struct eval_spread *s, uint64_t dim, uint64_t share, uint64_t stride) {
  if (dim == 1) return;
  const uint32_t last = s->rank - 1;
  const bool one_behind =
      s->rank > 0 && share == 1 && s->shares[last] == 1 && s->strides[last] == stride * dim;
  if (one_behind) {
    s->dims[last] *= dim;
    s->strides[last] = stride;
    return;
  }
  s->dims[s->rank] = dim;
  s->shares[s->rank] = share;
  s->strides[s->rank++] = stride;
}

void eval_spread_of(const struct recipes *r, uint32_t of, const int64_t *dims, uint32_t rank,
                    struct eval_spread *s) {
  const uint32_t own = r->rows[of].rank, more = rank - own;
  const int64_t *own_dims = recipe_dims(r, of);
  uint64_t strides[RECIPE_MAX_RANK], step = 1;
  *s = (struct eval_spread){.of = of, .width = eval_width(r, of)};
  for (uint32_t i = rank; i-- > 0;) {
    const uint64_t dim = i < more ? 1 : (uint64_t)own_dims[i - more];
    strides[i] = dim == 1 ? 0 : step;
    step *= dim;
  }
  for (uint32_t i = 0; i < rank; i++)
    eval_spread_axis(s, (uint64_t)dims[i], 1, strides[i]);
}

bool eval_spread_holds(const struct recipes *r, uint32_t of) {
  const uint64_t count = r->rows[of].count;
  return count > 1 && count <= HELD_MOST / eval_width(r, of);
}

int eval_spread_hold(struct eval_task *t, struct eval_stripe_box *b, struct eval_spread *s,
                     uint32_t n, struct err *err) {
  uint64_t used = 0;
  if (!b) return 0;
  const bool fresh = b->count == 0;
  for (uint32_t i = 0; i < n; i++) {
    if (s[i].of == NO_ID || !eval_spread_holds(t->r, s[i].of)) continue;
    const uint64_t count = t->r->rows[s[i].of].count, bytes = count * s[i].width;
    if (bytes > t->ev->box_bytes - used) continue;
    if (fresh && eval_elements(t, s[i].of, 0, count, b->data + used, err) != 0) return -1;
    s[i].held = b->data + used;
    used = min_u64(round_up(used + bytes, LINE), t->ev->box_bytes);
  }
  b->count = 1;
  return 0;
}

uint64_t eval_spread_same(const struct eval_spread *s, uint64_t first) {
  uint64_t inner = 1;
  uint32_t i = s->rank;
  for (; i > 0 && s->strides[i - 1] == 0; i--)
    inner *= s->dims[i - 1];
  if (i == 0) return UINT64_MAX;
  const uint64_t at = first / inner % s->dims[i - 1], share = s->shares[i - 1];
  const uint64_t steps = min_u64(share - at % share, s->dims[i - 1] - at);
  return steps * inner - first % inner;
}

// One element of the operand, by way of the window.
static int element(struct eval_task *t, struct eval_spread *s, uint64_t at, uint8_t *out,
                   struct err *err) {
  if (s->held) {
    memcpy(out, s->held + at * s->width, s->width);
    return 0;
  }
  if (at < s->at || at - s->at >= s->have) {
    const uint64_t n = min_u64(EVAL_SPREAD_WINDOW / s->width, t->r->rows[s->of].count - at);
    s->have = 0;
    if (eval_elements(t, s->of, at, n, s->window, err) != 0) return -1;
    s->at = at;
    s->have = n;
  }
  memcpy(out, s->window + (at - s->at) * s->width, s->width);
  return 0;
}

static void repeat(uint8_t *out, uint32_t width, uint64_t n) {
  if (width == 1) {
    memset(out, *out, (size_t)n);
    return;
  }
  for (uint64_t done = 1; done < n; done *= 2)
    memcpy(out + done * width, out, (size_t)(min_u64(done, n - done) * width));
}

int eval_spread_elements(struct eval_task *t, struct eval_spread *s, uint64_t first, uint64_t count,
                         uint8_t *out, struct err *err) {
  while (count > 0) {
    uint64_t rest = first, at = 0, n = count;
    for (uint32_t i = s->rank; i-- > 0; rest /= s->dims[i])
      at += rest % s->dims[i] / s->shares[i] * s->strides[i];
    const uint32_t last = s->rank ? s->rank - 1 : 0;
    const bool together = s->rank > 0 && s->strides[last] == 1 && s->shares[last] == 1;
    if (together) {
      n = min_u64(count, s->dims[last] - first % s->dims[last]);
      if (s->held)
        memcpy(out, s->held + at * s->width, (size_t)(n * s->width));
      else if (eval_elements(t, s->of, at, n, out, err) != 0)
        return -1;
    } else {
      n = min_u64(count, eval_spread_same(s, first));
      if (element(t, s, at, out, err) != 0) return -1;
      repeat(out, s->width, n);
    }
    first += n;
    count -= n;
    out += n * s->width;
  }
  return 0;
}
