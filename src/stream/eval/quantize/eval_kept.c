// Elements of an operand that are looked at, and then wanted again:
//
//   look    ──▶ │ tile │ ──▶ │ kept: from … to │ ──▶ │ tile │ ──▶      what does not fit passes by
//   codes       ◀──────────── kept ────────────┘                       and is read a second time
//
// A tile is half a second-level cache: what was read into it is still there when it is computed with. (Mapped
// windows would save the copy and cost twice as much, since every page of the weight has to be entered and taken out
// again.)
#include "stream/eval/quantize/inside/eval_kept.h"

enum { TILE_MOST = EVAL_KEPT_TILE_MOST, LINES_AHEAD = 16 };

void eval_kept_of(struct eval_kept *k, struct eval_task *t, uint32_t of) {
  *k = (struct eval_kept){.t = t, .of = of, .width = eval_width(t->r, of)};
  k->direct = recipe_is_copy(t->r, of, &k->at);
}

void eval_kept_share(struct eval_kept *k, uint8_t *at, uint64_t bytes, uint64_t step,
                     size_t spare) {
  const bool small = bytes < 2 * EVAL_SCRATCH_BYTES;
  const uint64_t each = step * k->width, most = small ? spare : min_u64(bytes, TILE_MOST);
  k->tile = small ? eval_scratch(k->t->ev) : at;
  k->tile_elements = most / each * step;
  k->kept = k->tile + k->tile_elements * k->width;
  k->room = small ? 0 : bytes / k->width - k->tile_elements;
}

void eval_kept_begin(struct eval_kept *k, uint64_t first) {
  *k->held = (struct eval_kept_held){.from = first, .to = first};
}

// The system hears of what lies behind bytes [off, off + n): of tiles the next one; of lines of a stripe the next TILE_MOST
// whenever they come to as many, or, where they lie farther apart, a line that comes later.
static void hint(const struct eval_kept *k, uint64_t off, uint64_t n) {
  const uint64_t step = k->stripe.run ? k->stripe.step * k->width : 0;
  uint64_t at = off + n, bytes = k->tile_elements * k->width;
  if (step >= TILE_MOST) {
    at = off + LINES_AHEAD * step;
    bytes = n;
  } else if (step) {
    if (off / TILE_MOST == (off + step) / TILE_MOST) return;
    bytes = 2 * TILE_MOST;
  }
  if (at < k->at.len)
    io_will_need(k->t->ev->io, k->at.file, k->at.off + at, min_u64(bytes, k->at.len - at));
}

static int read_elements(struct eval_kept *k, uint64_t first, size_t n, uint8_t *to,
                         struct err *err) {
  const uint64_t off = first * k->width, bytes = n * k->width;
  if (!k->direct) return eval_elements(k->t, k->of, first, n, to, err);
  if (io_read(k->t->ev->io, k->at.file, k->at.off + off, to, bytes, err) != 0) return -1;
  hint(k, off, bytes);
  return 0;
}

int eval_kept_find(struct eval_kept *k, uint64_t first, size_t *n, const uint8_t **at,
                   struct err *err) {
  struct eval_kept_held *h = k->held;
  if (first >= h->from && first < h->to) {
    *n = (size_t)min_u64(*n, h->to - first);
    *at = k->kept + (first - h->from) * k->width;
    return 0;
  }
  const struct eval_kept_stripe *s = &k->stripe;
  *n = (size_t)min_u64(*n, k->tile_elements);
  if (s->run) *n = (size_t)min_u64(*n, s->run - first % s->run);
  const uint64_t element = s->run ? s->base + first / s->run * s->step + first % s->run : first;
  const bool keep = k->keeps && first == h->to && *n <= k->room - (h->to - h->from);
  uint8_t *to = keep ? k->kept + (h->to - h->from) * k->width : k->tile;
  if (read_elements(k, element, *n, to, err) != 0) return -1;
  if (keep) h->to += *n;
  *at = to;
  return 0;
}

int eval_kept_refuse(uint64_t count, uint64_t bad, struct err *err) {
  err_fill(err, ERR_FAIL,
           "a weight of %s elements has %s that are NaN or infinite and cannot be quantized",
           decimal(count).s, decimal(bad).s);
  return err_because(err, REASON_NOT_SHRUNK);
}
