// Transposes and slices, any number of them one on the other: a strided view of one operand.
//
// Where the view's lines are long, they are read one by one straight into the output. Else elements
// that lie together in the source are far apart in the output, and reading them one by one would
// touch every page of the source once an element. So the output is cut into stretches, as large as
// a box of memory allows; of each, the box takes all its source elements at once, in source order,
// and keeps them, dense. Output in order then needs every source byte once:
//
//      source [R, C], row by row               output [C, R]
//      ┌──────┬──────┬──────┐                  ┌──────────────┐
//      │ frag │      │      │                  │    box 0     │  columns 0..q of the source
//      │ ment │      │      │   ──────▶        ├──────────────┤
//      │ s of │      │      │                  │    box 1     │
//      │ box 0│ box 1│ box 2│                  ├──────────────┤
//      └──────┴──────┴──────┘                  │    box 2     │
//
// and the box is transposed straight into the caller's buffer, a range at a time (eval_gather.c).
// If all of the view fits, the box is read as one piece. A box starts at the row that was asked
// for, so that a worker that begins in the middle of a tensor reads nothing before it.
//
// Fragments with gaps between them are read through the gaps only where that reads, over the whole
// view, at most twice the operand. A tall source has short fragments of every row in each box, a
// million of them: those are picked from mapped windows instead of being read one by one.
#include "stream/eval/core/eval_parts.h"

#include <assert.h>

enum {
  LINE_BYTES = 64,
  LONG_RUN_BYTES = 4096,     // lines of this size need no box
  HINT_SPAN_BYTES = 1 << 20, // how far ahead the system is told what will be read
  HINT_FRAGMENTS = 16,
  GATHER_FRAGMENTS = 64, // fewer are not worth a window
  PAGE_BYTES = 4096,
};

// ---- what a view looks at ----------------------------------------------------------------------

static bool is_view(const struct recipes *r, uint32_t id) {
  return r->rows[id].kind == RECIPE_TRANSPOSE || r->rows[id].kind == RECIPE_SLICE;
}

// What a strided recipe looks at, through all strided recipes below it.
static uint32_t operand_of(const struct recipes *r, uint32_t id) {
  while (is_view(r, id))
    id = r->args[r->rows[id].args];
  return id;
}

// For each axis of the recipe asked for: which axis of the recipe reached it is, and its step
// there. For each axis of the recipe reached: the coordinate of the first element.
struct axes {
  uint32_t axis[RECIPE_MAX_RANK];
  int64_t step[RECIPE_MAX_RANK];
  int64_t start[RECIPE_MAX_RANK];
};

static void through_transpose(const struct recipes *r, uint32_t id, struct axes *a) {
  const struct recipe *x = &r->rows[id];
  const int64_t *perm = r->longs + x->at;
  int64_t start[RECIPE_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    a->axis[i] = (uint32_t)perm[a->axis[i]];
    start[perm[i]] = a->start[i];
  }
  memcpy(a->start, start, x->rank * sizeof *start);
}

// Steps of axes that end as one element are no promise of the caller's: any number may stand there.
static void through_slice(const struct recipes *r, uint32_t id, const int64_t *top_dims,
                          struct axes *a) {
  const struct recipe *x = &r->rows[id];
  const int64_t *starts = r->longs + x->at, *steps = starts + x->rank;
  for (uint32_t i = 0; i < x->rank; i++) {
    a->start[i] = starts[i] + (a->start[i] ? a->start[i] * steps[i] : 0);
    a->step[i] = top_dims[i] == 1 ? 0 : a->step[i] * steps[a->axis[i]];
  }
}

static void add_axis(struct eval_view *v, uint64_t dim, int64_t stride) {
  if (dim == 1) return;
  if (v->rank > 0 && v->strides[v->rank - 1] == stride * (int64_t)dim) {
    v->dims[v->rank - 1] *= dim;
    v->strides[v->rank - 1] = stride;
    return;
  }
  v->dims[v->rank] = dim;
  v->strides[v->rank] = stride;
  v->rank++;
}

// The view that recipe `id`, a transpose or slice with elements, is.
static void view_of(const struct recipes *r, uint32_t id, struct eval_view *v) {
  struct axes a;
  v->count = r->rows[id].count;
  uint32_t rank = r->rows[id].rank;
  const int64_t *top_dims = recipe_dims(r, id);
  for (uint32_t i = 0; i < rank; i++) {
    a.axis[i] = i;
    a.step[i] = 1;
    a.start[i] = 0;
  }
  for (; is_view(r, id); id = r->args[r->rows[id].args]) {
    if (r->rows[id].kind == RECIPE_TRANSPOSE)
      through_transpose(r, id, &a);
    else
      through_slice(r, id, top_dims, &a);
  }
  int64_t stride[RECIPE_MAX_RANK], s = 1;
  v->of = id;
  v->rank = 0;
  v->base = 0;
  for (uint32_t i = rank; i-- > 0; s *= recipe_dims(r, id)[i]) {
    stride[i] = s;
    v->base += a.start[i] * s;
  }
  for (uint32_t i = 0; i < rank; i++)
    add_axis(v, (uint64_t)top_dims[i], stride[a.axis[i]] * a.step[i]);
}

// ---- boxes -------------------------------------------------------------------------------------

// How many steps of an axis go into a box, of `dim`, if `room` are possible: boxes of about equal
// size, cut where lines of memory end unless that would make them much smaller: a box more is a
// look more at all of the source.
static uint64_t balanced(uint64_t dim, uint64_t room, uint32_t width) {
  if (room >= dim) return dim;
  uint64_t boxes = (dim + room - 1) / room, n = (dim + boxes - 1) / boxes;
  uint64_t line = LINE_BYTES / width;
  uint64_t whole = (n + line - 1) / line * line;
  if (whole <= room) return whole;
  whole = room / line * line;
  return whole >= n - n / 8 ? whole : n;
}

// Cuts the box that begins with the row of element `first`: sets first, count, and in b->dense the
// dims of the box and, until the box is chosen, the strides and base of the operand.
static void cut_box(struct eval_stripe_box *b, uint64_t first, size_t box_bytes, uint32_t width) {
  const struct eval_view *v = &b->view;
  uint64_t room = box_bytes / width, inner = 1;
  uint32_t k = v->rank - 1;
  for (; k > 0 && inner <= room / v->dims[k]; k--)
    inner *= v->dims[k];
  // Now axis k is cut and all behind it is whole; `inner` elements of those are one step of axis k.
  uint64_t row = first / inner, at = row % v->dims[k];
  uint64_t n = min_u64(balanced(v->dims[k], room / inner, width), v->dims[k] - at);
  struct eval_view *d = &b->dense;
  *d = (struct eval_view){.of = v->of, .base = v->base, .count = n * inner};
  b->first = row * inner;
  b->count = n * inner;
  for (uint32_t i = k + 1; i-- > 0; row /= v->dims[i])
    d->base += (int64_t)(row % v->dims[i]) * v->strides[i];
  add_axis(d, n, v->strides[k]);
  for (uint32_t i = k + 1; i < v->rank; i++)
    add_axis(d, v->dims[i], v->strides[i]);
}

// The source elements of a box in source order: axes by falling stride, contiguous ones merged.
struct walk {
  struct eval_view v;              // base: the element of lowest index
  uint32_t order[RECIPE_MAX_RANK]; // axes of the box, outermost in the source first
};

static uint64_t magnitude(int64_t x) {
  return x < 0 ? (uint64_t)-x : (uint64_t)x;
}

static void walk_source(const struct eval_view *box, struct walk *w) {
  w->v = (struct eval_view){.of = box->of, .base = box->base, .count = box->count};
  for (uint32_t i = 0; i < box->rank; i++) {
    uint32_t at = i;
    for (; at > 0 && magnitude(box->strides[w->order[at - 1]]) < magnitude(box->strides[i]); at--)
      w->order[at] = w->order[at - 1];
    w->order[at] = i;
    if (box->strides[i] < 0) w->v.base += (int64_t)(box->dims[i] - 1) * box->strides[i];
  }
  for (uint32_t i = 0; i < box->rank; i++)
    add_axis(&w->v, box->dims[w->order[i]], (int64_t)magnitude(box->strides[w->order[i]]));
}

// Turns the box's strides over the operand into those over dense memory in source order.
static void make_dense(struct eval_view *box, const struct walk *w) {
  int64_t step = 1;
  box->base = 0;
  for (uint32_t i = box->rank; i-- > 0;) {
    uint32_t axis = w->order[i];
    bool back = box->strides[axis] < 0;
    if (back) box->base += (int64_t)(box->dims[axis] - 1) * step;
    box->strides[axis] = back ? -step : step;
    step *= (int64_t)box->dims[axis];
  }
}

// Reads fragments with the gaps between them through scratch.
static int read_through(struct eval_task *t, const struct eval_fragments *f, uint8_t *out,
                        struct err *err) {
  uint8_t *scratch = eval_scratch(t->ev);
  uint64_t most = (EVAL_SCRATCH_BYTES / f->width - f->run) / f->stride + 1;
  for (uint64_t i = 0; i < f->n;) {
    uint64_t n = min_u64(most, f->n - i), span = (n - 1) * f->stride + f->run;
    if (eval_elements(t, f->of, f->at + i * f->stride, span, scratch, err) != 0) return -1;
    for (uint64_t k = 0; k < n; k++, out += f->run * f->width)
      memcpy(out, scratch + k * f->stride * f->width, (size_t)(f->run * f->width));
    i += n;
  }
  return 0;
}

// Tells the system, before fragment i is read, of those further on. Where nearly every page has
// some of them, all of the span is asked for, once a span; else each fragment.
static void hint(struct eval_task *t, const struct eval_fragments *f, uint64_t i) {
  uint64_t stride_bytes = f->stride * f->width, run_bytes = f->run * f->width;
  if (stride_bytes > 2 * max_u64(run_bytes, PAGE_BYTES)) {
    if (i + HINT_FRAGMENTS < f->n)
      eval_leaf_will_need(t->ev, f->of, f->at + (i + HINT_FRAGMENTS) * f->stride, f->run);
    return;
  }
  uint64_t group = max_u64(HINT_SPAN_BYTES / stride_bytes, 1);
  if (i % group != 0 || i + group >= f->n) return;
  uint64_t n = min_u64(group, f->n - i - group);
  eval_leaf_will_need(t->ev, f->of, f->at + (i + group) * f->stride, (n - 1) * f->stride + f->run);
}

static int read_fragments(struct eval_task *t, const struct eval_fragments *f, uint64_t view_count,
                          uint8_t *out, struct err *err) {
  uint64_t scratch = EVAL_SCRATCH_BYTES / f->width, total;
  bool wasteful =
      mul_overflows(view_count, f->stride, &total) || total / f->run > 2 * t->r->rows[f->of].count;
  if (f->n > 1 && f->stride <= scratch / 4 && !wasteful) return read_through(t, f, out, err);
  if (f->n >= GATHER_FRAGMENTS && eval_leaf_gathers(t->ev, f))
    return eval_leaf_gather(t->ev, f, out, err);
  const struct eval_kind *kind = &t->ev->kinds[t->r->rows[f->of].kind];
  if (f->n >= GATHER_FRAGMENTS && kind->gathers && kind->gathers(t, f))
    return kind->gather(t, f, out, err);
  for (uint64_t i = 0; i < f->n; i++, out += f->run * f->width) {
    if (f->n > 1) hint(t, f, i);
    if (eval_elements(t, f->of, f->at + i * f->stride, f->run, out, err) != 0) return -1;
  }
  return 0;
}

static int fill_box(struct eval_task *t, struct eval_stripe_box *b, uint32_t width,
                    struct err *err) {
  struct walk w;
  walk_source(&b->dense, &w);
  make_dense(&b->dense, &w);
  const struct eval_view *v = &w.v;
  uint32_t outer = v->rank; // axes outside of the fragments
  struct eval_fragments f = {
      .of = v->of, .width = width, .at = (uint64_t)v->base, .n = 1, .run = 1, .stride = 1};
  if (outer > 0 && v->strides[outer - 1] == 1) f.run = v->dims[--outer];
  if (outer > 0) {
    f.n = v->dims[--outer];
    f.stride = (uint64_t)v->strides[outer];
  }
  uint64_t c[RECIPE_MAX_RANK] = {0};
  for (uint8_t *out = b->data;; out += f.n * f.run * width) {
    assert(out + f.n * f.run * width <= b->data + t->ev->box_bytes);
    if (read_fragments(t, &f, b->view.count, out, err) != 0) return -1;
    uint32_t i = outer;
    for (; i > 0; i--) {
      f.at += (uint64_t)v->strides[i - 1];
      if (++c[i - 1] < v->dims[i - 1]) break;
      f.at -= v->dims[i - 1] * (uint64_t)v->strides[i - 1];
      c[i - 1] = 0;
    }
    if (i == 0) return 0;
  }
}

static int from_box(struct eval_task *t, struct eval_stripe_box *b, uint64_t first, uint64_t count,
                    uint8_t *out, struct err *err) {
  uint32_t width = eval_width(t->r, b->view.of);
  while (count > 0) {
    if (first < b->first || first - b->first >= b->count) {
      cut_box(b, first, t->ev->box_bytes, width);
      b->busy = true;
      int failed = fill_box(t, b, width, err);
      b->busy = false;
      if (failed) {
        b->count = 0;
        return -1;
      }
    }
    uint64_t at = first - b->first, n = min_u64(b->count - at, count);
    eval_gather(&b->dense, b->data, width, at, n, out);
    first += n;
    count -= n;
    out += n * width;
  }
  return 0;
}

// ---- without a box -----------------------------------------------------------------------------

// Line by line along the last axis, element by element where that has gaps.
static int from_operand(struct eval_task *t, const struct eval_view *v, uint64_t first,
                        uint64_t count, uint8_t *out, struct err *err) {
  uint32_t width = eval_width(t->r, v->of);
  bool dense = v->rank > 0 && v->strides[v->rank - 1] == 1;
  while (count > 0) {
    uint64_t n = 1, rest = first;
    int64_t at = v->base;
    if (dense) n = min_u64(count, v->dims[v->rank - 1] - first % v->dims[v->rank - 1]);
    for (uint32_t i = v->rank; i-- > 0; rest /= v->dims[i])
      at += (int64_t)(rest % v->dims[i]) * v->strides[i];
    if (eval_elements(t, v->of, (uint64_t)at, n, out, err) != 0) return -1;
    first += n;
    count -= n;
    out += n * width;
  }
  return 0;
}

static bool has_long_runs(const struct eval_view *v, uint32_t width) {
  if (v->rank == 0) return true;
  uint32_t last = v->rank - 1;
  if (v->strides[last] != 1) return false;
  return v->rank == 1 || v->dims[last] * width >= LONG_RUN_BYTES;
}

int eval_view_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                       uint8_t *out, struct err *err) {
  struct eval_stripe_box *b = eval_box_for(t->ev, id);
  if (b && b->count == 0) view_of(t->r, id, &b->view);
  if (b && !has_long_runs(&b->view, eval_width(t->r, id)))
    return from_box(t, b, first, count, out, err);
  if (b) return from_operand(t, &b->view, first, count, out, err);
  struct eval_view v;
  view_of(t->r, id, &v);
  return from_operand(t, &v, first, count, out, err);
}

uint32_t eval_view_boxes(const struct eval *ev, uint32_t id, uint32_t *left) {
  return 1 + eval_boxes_at_once(ev, operand_of(ev->r, id), left);
}
