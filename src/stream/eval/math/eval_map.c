// Elementwise operations. Any range of the result asks the same range of operands as large as the
// result, and spreads smaller ones over it (eval_spread.c):
//
//   W ────── straight into the caller's buffer ──────▶ │ out │ ──┐
//   g ──▶ box ──spread──▶ │ scratch │ ───────────────────────────┴─ kernel ──▶ out, in place
//
// The first operand that is as large and has elements of the result's width leads: it is read into the
// output, a stretch that stays in the cache of a core, and the kernel puts results in its place. All
// others come through scratch, a piece of such a stretch at a time. Where an element of an operand
// falls on a long run of the result, the kernel takes it as it stands for the run.
//
// An operand that stands twice (x * x) is read once.
#include "kernels/map/kernels_map.h"
#include "stream/eval/math/eval_math.h"
#include "stream/eval/math/inside/eval_spread.h"

#include <assert.h>

enum { OPERANDS = 3, STRETCH_BYTES = 128 << 10, LONG_RUN = 256, LINE = 64 };

struct map {
  enum kernels_map op;
  enum dtype type; // of the last operand, which says what is computed
  uint32_t n, width;
  uint32_t lead;                       // or NO_ID
  uint32_t same[OPERANDS];             // the first operand that is the same
  bool spreads[OPERANDS];              // smaller than the result
  struct eval_spread spread[OPERANDS]; // of those
  uint8_t *scratch[OPERANDS];          // but for the lead
  uint64_t piece;                      // elements that fit there
};

static bool holds(const struct recipes *r, uint32_t id) {
  const struct recipe *x = &r->rows[id];
  for (uint32_t i = 0; i < x->n_args; i++) {
    const uint32_t of = r->args[x->args + i];
    if (r->rows[of].count < x->count && eval_spread_holds(r, of)) return true;
  }
  return false;
}

uint32_t eval_map_boxes(const struct eval *ev, uint32_t id, uint32_t *left) {
  return (uint32_t)holds(ev->r, id) + eval_boxes_of_operands(ev, id, left);
}

static void map_of(struct eval_task *t, uint32_t id, struct map *m) {
  const struct recipes *r = t->r;
  const struct recipe *x = &r->rows[id];
  const uint32_t *of = r->args + x->args;
  uint32_t through = 0;
  *m = (struct map){.op = (enum kernels_map)recipe_map_op_of(r, id),
                    .type = (enum dtype)r->rows[of[x->n_args - 1]].dtype,
                    .n = x->n_args,
                    .width = eval_width(r, id),
                    .lead = NO_ID};
  for (uint32_t i = 0; i < m->n; i++) {
    while (of[m->same[i]] != of[i])
      m->same[i]++;
    m->spreads[i] = r->rows[of[i]].count < x->count;
    m->spread[i].of = NO_ID;
    if (m->spreads[i] && m->same[i] == i)
      eval_spread_of(r, of[i], recipe_dims(r, id), x->rank, &m->spread[i]);
    if (!m->spreads[i] && m->lead == NO_ID && eval_width(r, of[i]) == m->width) m->lead = i;
    through += m->same[i] == i && i != m->lead;
  }
  const size_t part = through ? EVAL_SCRATCH_BYTES / through / LINE * LINE : 0;
  uint8_t *at = eval_scratch(t->ev);
  m->piece = STRETCH_BYTES / m->width;
  for (uint32_t i = 0; i < m->n; i++) {
    if (m->same[i] != i || i == m->lead) continue;
    m->spread[i].window = at + part - EVAL_SPREAD_WINDOW;
    m->scratch[i] = at;
    m->piece = min_u64(m->piece, (part - EVAL_SPREAD_WINDOW) / eval_width(r, of[i]));
    at += part;
  }
}

// Where the elements of operands that fall on [first, first + *n) are, once they are read; *n may become
// less. `out` holds those of the lead.
static int operands_of(struct eval_task *t, uint32_t id, struct map *m, uint64_t first, uint64_t *n,
                       const uint8_t *out, struct kernels_operand *operands, struct err *err) {
  bool once[OPERANDS] = {false};
  for (uint32_t i = 0; i < m->n; i++) {
    const bool spreads = m->spread[i].of != NO_ID;
    const uint64_t same = spreads ? eval_spread_same(&m->spread[i], first) : 0;
    once[i] = same >= LONG_RUN;
    if (once[i]) *n = min_u64(*n, same);
  }
  for (uint32_t i = 0; i < m->n; i++) {
    const uint32_t of = t->r->args[t->r->rows[id].args + i];
    operands[i] =
        (struct kernels_operand){.at = i == m->lead ? out : m->scratch[i], .stride = !once[i]};
    if (m->same[i] != i)
      operands[i] = operands[m->same[i]];
    else if (i == m->lead)
      continue;
    else if (!m->spreads[i] && eval_elements(t, of, first, *n, m->scratch[i], err) != 0)
      return -1;
    else if (m->spreads[i] && eval_spread_elements(t, &m->spread[i], first, once[i] ? 1 : *n,
                                                   m->scratch[i], err) != 0)
      return -1;
  }
  return 0;
}

// One of these elements has no result: says which. The lead's were overwritten: each is made again.
static int refuse_open(struct eval_task *t, uint32_t id, struct map *m, uint64_t first, uint64_t n,
                       struct err *err) {
  const uint32_t of = t->r->args[t->r->rows[id].args + (m->lead != NO_ID ? m->lead : 0)];
  struct kernels_operand operands[OPERANDS];
  uint8_t lead[16], out[16];
  for (uint64_t i = 0; i < n; i++) {
    uint64_t one = 1;
    if (m->lead != NO_ID && eval_elements(t, of, first + i, 1, lead, err) != 0) return -1;
    if (operands_of(t, id, m, first + i, &one, lead, operands, err) != 0) return -1;
    if (kernels_map(m->op, m->type, out, operands, 1) == 0) continue;
    err_fill(err, ERR_FAIL, "element %s: ONNX does not define '%s' of these %s",
             decimal(first + i).s, recipe_map_name((uint32_t)m->op), dtype_name(m->type));
    return err_hint(
        err, "a divisor is 0, or the quotient is out of the range of the type: leave the node in "
             "the model");
  }
  return err_set(err, ERR_INPUT, "a weight changed while it was being read");
}

// `led`: the lead's elements lie in `out` already.
static int make(struct eval_task *t, uint32_t id, struct map *m, bool led, uint64_t first,
                uint64_t count, uint8_t *out, struct err *err) {
  struct kernels_operand operands[OPERANDS];
  while (count > 0) {
    const uint64_t stretch = min_u64(count, STRETCH_BYTES / m->width);
    if (m->lead != NO_ID && !led &&
        eval_elements(t, t->r->args[t->r->rows[id].args + m->lead], first, stretch, out, err) != 0)
      return -1;
    for (uint64_t done = 0; done < stretch;) {
      uint64_t n = min_u64(m->piece, stretch - done);
      uint8_t *to = out + done * m->width;
      if (operands_of(t, id, m, first + done, &n, to, operands, err) != 0) return -1;
      if (kernels_map(m->op, m->type, to, operands, (size_t)n) > 0)
        return refuse_open(t, id, m, first + done, n, err);
      done += n;
    }
    first += stretch;
    count -= stretch;
    out += stretch * m->width;
  }
  return 0;
}

// n fragments; `out` holds the lead's where it is `led`.
static int make_fragments(struct eval_task *t, struct map *m, bool led,
                          const struct eval_fragments *f, uint8_t *out, struct err *err) {
  const uint32_t id = f->of;
  struct eval_stripe_box *b = holds(t->r, id) ? eval_box_for(t->ev, id) : NULL;
  if (b) b->busy = true;
  int failed = eval_spread_hold(t, b, m->spread, m->n, err) != 0;
  for (uint64_t i = 0; i < f->n && !failed; i++, out += f->run * m->width)
    failed = make(t, id, m, led, f->at + i * f->stride, f->run, out, err) != 0;
  if (b) b->busy = false;
  return failed ? -1 : 0;
}

int eval_map_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                      uint8_t *out, struct err *err) {
  const struct eval_fragments all = {.of = id, .at = first, .n = 1, .run = count, .stride = count};
  struct map m;
  map_of(t, id, &m);
  return make_fragments(t, &m, false, &all, out, err);
}

static struct eval_fragments lead_of(const struct eval_task *t, const struct map *m,
                                     const struct eval_fragments *f) {
  struct eval_fragments lead = *f;
  lead.of = t->r->args[t->r->rows[f->of].args + m->lead];
  return lead;
}

bool eval_map_gathers(struct eval_task *t, const struct eval_fragments *f) {
  struct map m;
  map_of(t, f->of, &m);
  if (m.lead == NO_ID) return false;
  const struct eval_fragments lead = lead_of(t, &m, f);
  return eval_leaf_gathers(t->ev, &lead);
}

int eval_map_gather(struct eval_task *t, const struct eval_fragments *f, uint8_t *out,
                    struct err *err) {
  struct map m;
  if (t->ev->depth + 1 == EVAL_DEPTH) return eval_too_deep(err);
  t->ev->depth++;
  map_of(t, f->of, &m);
  const struct eval_fragments lead = lead_of(t, &m, f);
  const int failed = eval_leaf_gather(t->ev, &lead, out, err) != 0 ||
                     make_fragments(t, &m, true, f, out, err) != 0;
  t->ev->depth--;
  return failed ? -1 : 0;
}
