// The NBITS formats: codes of a column of W [K,N] lie packed together, a block's after the other,
// then the next column's. A box holds whole columns:
//
//   operand [N,K]: a column is a row       operand [K,N]: columns lie across
//     ┌────────────────────┐                 ┌──────┬──────┬──────┐
//     │ box 0: rows n0..n1 │                 │ box  │ box  │ box  │ panels of some block rows, in
//     ├────────────────────┤                 │  0   │  1   │  2   │ storage order, stripe by stripe
//     │ box 1              │                 │      │      │      │ where a box is not all columns
//     └────────────────────┘                 └──────┴──────┴──────┘
//
// Rows are read as they lie, so their boxes stay small enough for the cache of the core. Columns
// are taken as many at a time as are wanted and fit, because each box goes through all rows of the
// operand.
//
// A column that does not fit the box is held a piece at a time, of whole groups: the blocks whose
// codes end on a byte together (8 / bits of them).
//
// Where figures are all that is wanted (eval_nbits_measure) a box holds nothing but sums, and several
// quantizations of the operand go over each panel of it.
#include "eval_blocks.h"

#include <assert.h>
#include <math.h>

enum {
  ROWS_BOX_BYTES = 512 << 10,
  MEASURE_ROWS = 256, // of a tile: blocks divide it
  MEASURE_COLUMNS = 128,
  MEASURE_BYTES = 128 << 10,
};

struct shape {
  uint64_t columns;
  uint64_t blob;  // bytes of a block's codes
  uint64_t group; // blocks
  uint64_t group_rows;
};

static struct shape shape_of(const struct eval_quantize *z) {
  const uint64_t group = 8 / z->q.bits;
  return (struct shape){.columns = z->outer * z->inner,
                        .blob = z->block * z->q.bits / 8,
                        .group = group,
                        .group_rows = group * z->block};
}

static bool has_float_zeros(const struct eval_quantize *z) {
  return z->f.rule == KERNELS_HQQ;
}

// Elements of the part that a column has.
static uint64_t column_elements(const struct eval_quantize *z) {
  switch (z->part) {
  case PART_CODES: return z->blocks * z->block * z->q.bits / 8;
  case PART_SCALES: return z->blocks;
  case PART_ZEROS: return has_float_zeros(z) ? z->blocks : (z->blocks * z->q.bits + 7) / 8;
  }
  return 0;
}

// The block that element `at` of a column's part belongs to (of zeros: the first).
static uint64_t block_at(const struct eval_quantize *z, uint64_t at) {
  if (z->part == PART_CODES) return at / shape_of(z).blob;
  return z->part == PART_SCALES || has_float_zeros(z) ? at : at * shape_of(z).group;
}

// ---- filling -----------------------------------------------------------------------------------

// Runs the kernel on a panel whose first element is row k of column c.
static void quantize(const struct eval_block_box *h, const struct kernels_panel *in, uint64_t c,
                     uint64_t k) {
  const struct eval_quantize *z = &h->z;
  const struct shape s = shape_of(z);
  const uint64_t blocks = h->to - h->from, k0 = h->from * z->block;
  const size_t at = (size_t)((c - h->first) * blocks + (k - k0) / z->block);
  struct kernels_panel p = *in;
  p.codes_stride = (size_t)(blocks * s.blob);
  if (h->codes) p.codes = h->codes + (c - h->first) * p.codes_stride + (k - k0) * z->q.bits / 8;
  p.scales = h->scales + at;
  if (h->float_zeros)
    p.float_zeros = h->float_zeros + at;
  else
    p.zeros = h->zeros + at;
  p.blocks_stride = (size_t)blocks;
  if (h->sums) p.sums = h->sums + (c - h->first);
  if (z->inner > 1)
    kernels_quantize_columns(&p, &z->f);
  else
    kernels_quantize_rows(&p, &z->f);
}

// Sums by all ways of a panel, tile by tile: a tile stays in the cache of the core while every way
// goes over it. Searches take their time: each tile asks whether to go on.
static int add_up(struct eval_task *t, const struct eval_block_box *h,
                  const struct kernels_panel *in, uint64_t c, struct err *err) {
  const bool rows = h->z.inner == 1;
  const size_t wide = (size_t)(h->last - h->first), width = h->z.width;
  const size_t k_step = rows ? MEASURE_BYTES / 4 : MEASURE_ROWS;
  const size_t line = min_u64(k_step, in->k) * width;
  const size_t n_step = rows ? (size_t)max_u64(MEASURE_BYTES / line, 1) : MEASURE_COLUMNS;
  for (size_t j = 0; j < in->n; j += n_step)
    for (size_t k = 0; k < in->k; k += k_step) {
      if (eval_may_go_on(t->ev, err) != 0) return -1;
      struct kernels_panel p = *in;
      p.in =
          (const uint8_t *)in->in + (rows ? j * in->in_stride + k : k * in->in_stride + j) * width;
      p.n = (size_t)min_u64(n_step, in->n - j);
      p.k = (size_t)min_u64(k_step, in->k - k);
      for (uint32_t i = 0; i < h->n_ways; i++) {
        p.sums = h->sums + i * wide + (c - h->first) + j;
        if (rows)
          kernels_quantize_rows(&p, &h->ways[i].f);
        else
          kernels_quantize_columns(&p, &h->ways[i].f);
      }
    }
  return 0;
}

// What is done with a panel whose first element is row k of column c.
static int take_panel(struct eval_task *t, const struct eval_block_box *h,
                      const struct kernels_panel *p, uint64_t c, uint64_t k, struct err *err) {
  if (h->n_ways > 0) return add_up(t, h, p, c, err);
  quantize(h, p, c, k);
  return 0;
}

// Rows that panels are cut to: whole groups, or the longest block of all ways, which the others divide.
static uint64_t panel_rows(const struct eval_block_box *h) {
  uint64_t rows = h->n_ways > 0 ? 0 : shape_of(&h->z).group_rows;
  for (uint32_t i = 0; i < h->n_ways; i++)
    rows = max_u64(rows, h->ways[i].block);
  return rows;
}

// Columns [c, c + p->n) of rows [k, k + p->k): rows of W where it lies by columns, else columns of it.
static int quantize_stretch(struct eval_task *t, const struct eval_block_box *h,
                            const struct eval_room *room, uint64_t c, uint64_t k,
                            struct kernels_panel *p, struct err *err) {
  const struct eval_quantize *z = &h->z;
  const bool across = z->inner > 1;
  struct eval_panel panel;
  const struct eval_stretch s = {.first = across ? k * z->inner + c : c * z->k + k,
                                 .step = across ? z->inner : z->k,
                                 .rows = across ? p->k : p->n,
                                 .n = across ? p->n : p->k};
  if (eval_panel_open(t, z, room, &s, &panel, err) != 0) return -1;
  p->in = panel.at;
  p->in_stride = s.n;
  return eval_panel_close(t, &panel, take_panel(t, h, p, c, k, err), err);
}

static uint64_t rows_end(const struct eval_block_box *h) {
  return min_u64(h->to * h->z.block, h->z.k);
}

static int fill_rows(struct eval_task *t, const struct eval_block_box *h,
                     const struct eval_room *room, struct err *err) {
  const struct eval_quantize *z = &h->z;
  const uint64_t most = eval_panel_most(t->ev, z, room), group = panel_rows(h);
  const uint64_t k0 = h->from * z->block, k1 = rows_end(h);
  const bool whole = k1 - k0 == z->k && z->k <= most;
  const uint64_t columns = whole ? most / z->k : 1, step = whole ? z->k : most / group * group;
  assert(step > 0);
  for (uint64_t c = h->first; c < h->last; c += columns)
    for (uint64_t k = k0; k < k1; k += step) {
      struct kernels_panel p = {.n = (size_t)min_u64(columns, h->last - c),
                                .k = (size_t)min_u64(step, k1 - k)};
      if (quantize_stretch(t, h, room, c, k, &p, err) != 0) return -1;
    }
  return 0;
}

// Rows as they lie where the box has all columns, as many as a window takes; else stripes of them,
// brought into the tile row by row.
static int fill_columns(struct eval_task *t, const struct eval_block_box *h,
                        const struct eval_room *room, struct err *err) {
  const struct eval_quantize *z = &h->z;
  const uint64_t group = panel_rows(h), most = eval_panel_most(t->ev, z, room) / z->inner;
  const uint64_t k1 = rows_end(h), wide = h->last - h->first;
  uint64_t n = wide, rows = most / group * group;
  // Only the end of a short block asks where its group begins: whole ones may be cut from it, which
  // is better than lines picked one by one.
  if (rows == 0 && h->n_ways == 0 && z->k % z->block == 0) rows = most / z->block * z->block;
  if (wide < z->inner || rows == 0) {
    const uint64_t elements = room->tile_bytes / z->width;
    assert(elements >= group);
    const uint64_t stripes = (wide - 1) / (elements / group) + 1;
    n = (wide - 1) / stripes + 1;
    rows = elements / n / group * group;
  }
  for (uint64_t k = h->from * z->block; k < k1; k += rows)
    for (uint64_t c = h->first; c < h->last; c += n) {
      struct kernels_panel p = {.n = (size_t)min_u64(n, h->last - c),
                                .k = (size_t)min_u64(rows, k1 - k)};
      if (quantize_stretch(t, h, room, c, k, &p, err) != 0) return -1;
    }
  return 0;
}

// ---- boxes -------------------------------------------------------------------------------------

static void share_memory(struct eval_block_box *h, bool watched, const struct eval_room *room) {
  const struct shape s = shape_of(&h->z);
  const uint64_t columns = h->last - h->first, n = columns * (h->to - h->from);
  uint8_t *at = room->rest;
  h->sums = watched ? (struct kernels_sums *)(void *)at : NULL;
  if (watched) {
    memset(at, 0, columns * sizeof *h->sums);
    at += columns * sizeof *h->sums;
  }
  h->scales = (float *)(void *)at;
  at += n * sizeof(float);
  h->float_zeros = has_float_zeros(&h->z) ? (float *)(void *)at : NULL;
  if (h->float_zeros) at += n * sizeof(float);
  h->codes = h->z.part == PART_CODES ? at : NULL;
  if (h->codes) at += n * s.blob;
  h->zeros = at;
  at += n;
  assert(at <= room->rest + room->rest_bytes);
}

// Chooses the columns and blocks of a box that has block `block` of column c.
static void choose(struct eval_task *t, struct eval_stripe_box *b, const struct eval_room *room,
                   uint64_t c, uint64_t block) {
  struct eval_block_box *h = eval_block_box_of(b);
  const struct eval_quantize *z = &h->z;
  const struct shape s = shape_of(z);
  const uint64_t per_block = (z->part == PART_CODES ? s.blob : 0) + sizeof(float) +
                             (has_float_zeros(z) ? sizeof(float) : 0) + 1;
  const uint64_t wanted = eval_quantize_wanted_end(t, b->id, c * column_elements(z));
  uint64_t end = (wanted - 1) / column_elements(z) + 1;
  if (z->part != PART_CODES) end = eval_quantize_unknown_end(t, z, c, end);
  uint64_t fit = room->rest_bytes / (per_block * z->blocks + sizeof *h->sums);
  h->first = c;
  h->from = 0;
  h->to = z->blocks;
  if (fit == 0) {
    const uint64_t groups = (room->rest_bytes - sizeof *h->sums) / per_block / s.group;
    assert(groups > 0);
    h->last = c + 1;
    h->from = block / s.group * s.group;
    h->to = min_u64(h->from + groups * s.group, z->blocks);
    return;
  }
  if (z->inner == 1) fit = min_u64(fit, max_u64(ROWS_BOX_BYTES / (per_block * z->blocks), 1));
  const uint64_t boxes = (end - c - 1) / fit + 1;
  h->last = c + min_u64(round_up((end - c - 1) / boxes + 1, 16), min_u64(fit, end - c));
}

static void publish(struct eval_task *t, const struct eval_block_box *h,
                    const struct eval_room *room) {
  const struct eval_quantize *z = &h->z;
  if (h->from > 0 || h->to < z->blocks) return;
  const uint8_t fill = (uint8_t)(1u << (z->q.bits - 1));
  for (uint64_t c = h->first; c < h->last; c++) {
    const size_t at = (size_t)((c - h->first) * z->blocks);
    const uint8_t *zeros = h->float_zeros ? (const uint8_t *)(h->float_zeros + at) : h->zeros + at;
    eval_quantize_publish(t, z, c, h->scales + at, zeros, (size_t)z->blocks, fill, room);
  }
}

// Names the first element of column c that is not finite.
static int not_finite(struct eval_task *t, const struct eval_quantize *z, uint64_t c,
                      struct err *err) {
  uint8_t one[16];
  float v;
  for (uint64_t k = 0; k < z->k; k++) {
    const uint64_t at = (c / z->inner * z->k + k) * z->inner + c % z->inner;
    if (eval_elements(t, z->of, at, 1, one, err) != 0) return -1;
    uint16_t half;
    memcpy(&half, one, sizeof half);
    memcpy(&v, one, sizeof v);
    if (z->type == DTYPE_FLOAT16) kernels_f16_to_f32(&v, &half, 1);
    if (z->type == DTYPE_BFLOAT16) kernels_bf16_to_f32(&v, &half, 1);
    if (isfinite(v)) continue;
    err_fill(err, ERR_MODEL, "element [%llu,%llu] of the weight is not finite (%g)",
             (unsigned long long)(z->inner > 1 ? k : c), (unsigned long long)(z->inner > 1 ? c : k),
             (double)v);
    return err_because(err, REASON_NOT_FINITE);
  }
  return err_set(err, ERR_INPUT, "column %llu of the weight changed while it was read",
                 (unsigned long long)c);
}

static int no_scale(uint64_t column, struct err *err) {
  err_fill(
      err, ERR_MODEL,
      "a block of column %llu of the weight has no finite scale: its elements are too large or too "
      "far apart for float32",
      (unsigned long long)column);
  return err_because(err, REASON_NO_SCALE);
}

static struct figures figures_of_column(const struct eval_quantize *z,
                                        const struct kernels_sums *sums) {
  return (struct figures){.elements = z->k,
                          .nonfinite = sums->nonfinite,
                          .vv = sums->vv,
                          .ee = sums->ee,
                          .ve = sums->ve,
                          .max_error = (double)sums->max_error};
}

static int tell_column(struct eval_task *t, const struct eval_quantize *z,
                       const struct kernels_sums *sums, struct err *err) {
  struct eval_columns *w = &t->columns;
  if (sums->nonfinite) return not_finite(t, z, w->next, err);
  if (!isfinite(sums->ee)) return no_scale(w->next, err); // of finite elements
  const struct figures f = figures_of_column(z, sums);
  t->watcher.told(t->watcher.ctx, w->next++, &f);
  w->next_block = 0;
  return 0;
}

// Tells of the box's columns, or keeps the sums of a piece of one for the next piece.
static int tell(struct eval_task *t, const struct eval_block_box *h, struct err *err) {
  const struct eval_quantize *z = &h->z;
  struct eval_columns *w = &t->columns;
  if (!h->sums) return 0;
  if (h->from == 0 && h->to == z->blocks) {
    while (w->next >= h->first && w->next < min_u64(h->last, w->end))
      if (tell_column(t, z, &h->sums[w->next - h->first], err) != 0) return -1;
    return 0;
  }
  if (h->first != w->next || h->from != w->next_block || h->first >= w->end) return 0;
  w->sums = h->sums[0];
  w->next_block = h->to;
  return h->to == z->blocks ? tell_column(t, z, h->sums, err) : 0;
}

static int fill(struct eval_task *t, struct eval_stripe_box *b, uint64_t c, uint64_t block,
                struct err *err) {
  struct eval_block_box *h = eval_block_box_of(b);
  const struct eval_room room = eval_quantize_room(t->ev, b);
  const struct eval_columns *w = &t->columns;
  choose(t, b, &room, c, block);
  share_memory(h, t->wanted.id == b->id && w->next < w->end, &room);
  if (h->sums && c == w->next && h->from > 0 && h->from == w->next_block) h->sums[0] = w->sums;
  int failed = h->z.inner > 1 ? fill_columns(t, h, &room, err) : fill_rows(t, h, &room, err);
  if (!failed) failed = tell(t, h, err);
  if (failed) {
    h->last = h->first;
    return -1;
  }
  publish(t, h, &room);
  return 0;
}

struct eval_columns eval_nbits_columns(const struct eval_quantize *z, uint64_t off, uint64_t len) {
  const uint64_t column = column_elements(z);
  return (struct eval_columns){.next = (off + column - 1) / column,
                               .end = (off + len + column - 1) / column};
}

int eval_nbits_end(struct eval_task *t, struct eval_stripe_box *b, struct err *err) {
  const struct eval_columns *w = &t->columns;
  while (w->next < w->end)
    if (fill(t, b, w->next, w->next_block, err) != 0) return -1;
  return 0;
}

// ---- figures alone -----------------------------------------------------------------------------

int eval_nbits_measure(struct eval_task *t, const struct eval_quantize *ways, uint32_t n,
                       uint64_t first, uint64_t end, const struct eval_watcher *watchers,
                       struct err *err) {
  eval_share_boxes(t->ev, t->root);
  struct eval_stripe_box *b = eval_box_for(t->ev, t->root);
  const struct eval_room room = eval_quantize_room(t->ev, b);
  struct eval_block_box *h = eval_block_box_of(b);
  const uint64_t fit = room.rest_bytes / (n * sizeof *h->sums);
  b->count = 0; // not to be served from
  if (fit == 0)
    return err_set(err, ERR_RETRY, "%u quantizations at once do not fit the memory", n),
           err_because(err, REASON_TOO_MUCH);
  for (uint64_t c = first; c < end; c = h->last) {
    *h = (struct eval_block_box){.z = ways[0], .ways = ways, .n_ways = n, .first = c};
    h->last = c + min_u64(fit, end - c);
    h->to = ways[0].blocks;
    h->sums = (struct kernels_sums *)(void *)room.rest;
    const uint64_t wide = h->last - c;
    memset(h->sums, 0, n * wide * sizeof *h->sums);
    t->ev->depth++;
    b->busy = true;
    const int failed =
        h->z.inner > 1 ? fill_columns(t, h, &room, err) : fill_rows(t, h, &room, err);
    b->busy = false;
    t->ev->depth--;
    if (failed) return -1;
    for (uint32_t i = 0; i < n; i++)
      for (uint64_t k = 0; k < wide; k++) {
        const struct figures f = figures_of_column(&h->z, &h->sums[i * wide + k]);
        watchers[i].told(watchers[i].ctx, c + k, &f);
      }
  }
  return 0;
}

// ---- serving -----------------------------------------------------------------------------------

// Elements [at, at + n) of column c's part, as far as the box goes; how many.
static uint64_t take(const struct eval_block_box *h, uint64_t c, uint64_t at, uint64_t n,
                     uint8_t *out) {
  const struct eval_quantize *z = &h->z;
  const struct shape s = shape_of(z);
  const uint64_t column = (c - h->first) * (h->to - h->from);
  if (z->part == PART_CODES) {
    n = min_u64(n, h->to * s.blob - at);
    memcpy(out, h->codes + column * s.blob + (at - h->from * s.blob), (size_t)n);
  } else if (z->part == PART_SCALES || h->float_zeros) {
    const float *from = z->part == PART_SCALES ? h->scales : h->float_zeros;
    n = min_u64(n, h->to - at);
    eval_quantize_store_scales(z->type, from + column + (at - h->from), (size_t)n, out);
  } else {
    const uint64_t block = at * s.group;
    n = min_u64(n, (h->to - block - 1) / s.group + 1);
    eval_quantize_pack_zeros(h->zeros + column + (block - h->from),
                             (size_t)min_u64(n * s.group, h->to - block), z->q.bits,
                             (uint8_t)(1u << (z->q.bits - 1)), out);
  }
  return n;
}

static bool holds(const struct eval_block_box *h, uint64_t c, uint64_t block) {
  return c >= h->first && c < h->last && block >= h->from && block < h->to;
}

int eval_nbits_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                        uint64_t count, uint8_t *out, struct err *err) {
  struct eval_block_box *h = eval_block_box_of(b);
  const struct eval_quantize *z = &h->z;
  const uint64_t column = column_elements(z);
  const bool floats = z->part == PART_SCALES || (z->part == PART_ZEROS && has_float_zeros(z));
  const uint32_t width = floats ? z->width : 1;
  while (count > 0) {
    const uint64_t c = first / column, at = first % column;
    uint64_t n = min_u64(column - at, count);
    if (z->part == PART_CODES || !eval_quantize_known(t, z, first, &n, out)) {
      const uint64_t block = block_at(z, at);
      if (!holds(h, c, block) && fill(t, b, c, block, err) != 0) return -1;
      n = take(h, c, at, n, out);
    }
    first += n;
    count -= n;
    out += n * width;
  }
  return 0;
}
