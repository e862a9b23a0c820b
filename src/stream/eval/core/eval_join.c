// Recipes whose rows are put together from parts: concatenation, padding, and the filling both of
// fill and of pads. A range of the output is walked run by run; every run is asked of its operand
// straight into the output.
#include "stream/eval/core/eval_parts.h"

#include <assert.h>

static void fill(uint8_t *out, const uint8_t *element, uint32_t width, uint64_t count) {
  size_t n = (size_t)count * width, done = width;
  if (count == 0) return;
  if (width == 1) {
    memset(out, *element, n);
    return;
  }
  memcpy(out, element, width);
  for (; done < n; done *= 2)
    memcpy(out + done, out, done < n - done ? done : n - done);
}

int eval_join_fill_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                            uint8_t *out, struct err *err) {
  (void)first;
  (void)err;
  fill(out, t->r->bytes + t->r->rows[id].at, eval_width(t->r, id), count);
  return 0;
}

static uint64_t product(const int64_t *dims, uint32_t n) {
  uint64_t x = 1;
  for (uint32_t i = 0; i < n; i++)
    x *= (uint64_t)dims[i];
  return x;
}

// An output row of a concatenation is its axis and all behind it; every operand gives a stretch of
// each row:   │ a a a │ b b │ c c c c │
int eval_join_concat(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                     struct err *err) {
  const struct recipes *r = t->r;
  const struct recipe *x = &r->rows[id];
  const int64_t *dims = recipe_dims(r, id);
  uint32_t axis = x->n, width = eval_width(r, id);
  uint64_t inner = product(dims + axis + 1, x->rank - axis - 1u),
           row = inner * (uint64_t)dims[axis];
  uint64_t outer = first / row, skip = first % row; // elements of this row before the range
  for (uint32_t i = 0; count > 0; i++) {
    if (i == x->n_args) {
      i = 0;
      outer++;
    }
    uint32_t of = r->args[x->args + i];
    uint64_t part = inner * (uint64_t)recipe_dims(r, of)[axis];
    if (skip >= part) {
      skip -= part;
      continue;
    }
    uint64_t n = min_u64(part - skip, count);
    if (eval_elements(t, of, outer * part + skip, n, out, err) != 0) return -1;
    skip = 0;
    count -= n;
    out += n * width;
  }
  return 0;
}

// A padded tensor as rows: the last axis that is padded and all behind it. Axes before say which
// row of the operand a row is, or that it is padding throughout.
struct pad {
  const int64_t *befores, *in;
  const int64_t *out;
  uint32_t axis;
  uint64_t inner;       // elements behind the axis
  uint64_t row, in_row; // elements in a row
};

static struct pad pad_of(const struct recipes *r, uint32_t id) {
  const struct recipe *x = &r->rows[id];
  const int64_t *befores = r->longs + x->at, *afters = befores + x->rank;
  struct pad p = {.befores = befores,
                  .in = recipe_dims(r, r->args[x->args]),
                  .out = recipe_dims(r, id),
                  .axis = x->rank - 1u};
  while (p.axis > 0 && befores[p.axis] == 0 && afters[p.axis] == 0)
    p.axis--;
  p.inner = product(p.out + p.axis + 1, x->rank - p.axis - 1);
  p.row = p.inner * (uint64_t)p.out[p.axis];
  p.in_row = p.inner * (uint64_t)p.in[p.axis];
  return p;
}

// The operand's row for an output row; false if that lies in the padding of an outer axis.
static bool pad_source_row(const struct pad *p, uint64_t row, uint64_t *source) {
  uint64_t at = 0, step = 1;
  for (uint32_t i = p->axis; i-- > 0;) {
    int64_t c = (int64_t)(row % (uint64_t)p->out[i]) - p->befores[i];
    if (c < 0 || c >= p->in[i]) return false;
    at += (uint64_t)c * step;
    step *= (uint64_t)p->in[i];
    row /= (uint64_t)p->out[i];
  }
  *source = at;
  return true;
}

int eval_join_pad(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                  struct err *err) {
  const struct recipe *x = &t->r->rows[id];
  const uint8_t *element = t->r->bytes + x->n;
  struct pad p = pad_of(t->r, id);
  uint32_t of = t->r->args[x->args], width = eval_width(t->r, id);
  uint64_t before = p.inner * (uint64_t)p.befores[p.axis];
  while (count > 0) {
    uint64_t row = first / p.row, at = first % p.row, n = min_u64(p.row - at, count), source = 0;
    bool inside = pad_source_row(&p, row, &source);
    if (inside && at >= before && at < before + p.in_row) {
      n = min_u64(n, before + p.in_row - at);
      uint64_t from = source * p.in_row + (at - before);
      if (eval_elements(t, of, from, n, out, err) != 0) return -1;
    } else {
      if (inside && at < before) n = min_u64(n, before - at);
      fill(out, element, width, n);
    }
    first += n;
    count -= n;
    out += n * width;
  }
  return 0;
}

// Along the outermost axis one part is finished after the other.
uint32_t eval_join_concat_boxes(const struct eval *ev, uint32_t id, uint32_t *left) {
  const struct recipes *r = ev->r;
  const struct recipe *x = &r->rows[id];
  uint64_t outer;
  bool fits = dims_product(r->longs + x->dims, x->n, &outer);
  assert(fits);
  uint32_t sum = 0, most = 0;
  for (uint32_t i = 0; i < x->n_args; i++) {
    uint32_t n = eval_boxes_at_once(ev, r->args[x->args + i], left);
    sum += n;
    if (n > most) most = n;
  }
  return outer == 1 ? most : sum;
}
