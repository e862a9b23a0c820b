//   source   w, transposed if codes lie so      row │ block │ block │ …
//   written  DequantizeLinear, MatMulNBits …    row │ block │ block │ …    as a recipe (dequant_expr.h), in the same order
//                                                     └ range of w over 0, by 2^bits - 1: a step
//
// Rounding to the nearest code is off by half a step, and a zero point that was rounded too by another half; searches for
// better scales (k_quant, hqq) give up a bit of the largest elements. A code whose high bit is wrong is off by half of all
// steps. Where several weights of the source could be the one, the nearest counts: which one it must be is known by what
// comes out of the site.
#include "compare/quant_error_check.h"

#include "compare/dequant_expr.h"
#include "compare/diff.h"
#include "kernels/convert/kernels_convert.h"
#include "passes/cast/cast.h"
#include "passes/kit/kit.h"
#include "passes/kit/weights.h"
#include "stream/eval/eval.h"
#include "stream/sys/threads.h"

#include <float.h>
#include <math.h>

enum { BEFORE, AFTER, SIDES, SCALES = SIDES, READ }; // what is read of a pair
enum { PIECE = 1 << 14, EVAL_LEAST = 1 << 20 };      // elements; bytes

struct pair {
  uint32_t of[READ]; // recipes of the same dims, whose rows hold blocks; of scales: NO_ID, or after
  uint64_t count, row, block;
  double steps; // that a block's range is cut into; 0: floats
  double noise; // of scales and products, which are floats, in their largest
  enum dtype float_type;
  uint32_t weight; // pairs of one weight follow each other
  const char *what;
};

// A weight that nodes make of a constant, or of codes: its recipe, and the value.
struct made {
  uint32_t recipe, value;
};

struct looking {
  const struct quant_error_check *w;
  struct recipes r[SIDES];
  struct edits edits[SIDES];
  struct io *io[SIDES];
  struct eval *eval[READ];
  struct arena *a;
  TABLE(struct pair, pairs);
  TABLE(struct made, made); // of the site before
  uint32_t n_weights;
  struct held {
    uint8_t raw[PIECE * 8];
    double x[READ][PIECE];
  } * held;
};

static struct dequant_model model_of(struct looking *k, int side) {
  return (struct dequant_model){k->w->m[side], &k->r[side], &k->edits[side]};
}

// ---- which weights -----------------------------------------------------------------------------

static uint32_t without_ones(const struct recipes *r, uint32_t recipe, int64_t *dims) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->rows[recipe].rank; i++)
    if (recipe_dims(r, recipe)[i] != 1) dims[n++] = recipe_dims(r, recipe)[i];
  return n;
}

static bool fits(const struct looking *k, uint32_t before, uint32_t after, bool turned) {
  int64_t x[RECIPE_MAX_RANK], y[RECIPE_MAX_RANK];
  const uint32_t n = without_ones(&k->r[BEFORE], before, x);
  if (n != without_ones(&k->r[AFTER], after, y) || (turned && n != 2)) return false;
  for (uint32_t i = 0; i < n; i++)
    if (x[i] != y[turned ? n - 1 - i : i]) return false;
  return true;
}

// The elements of a block behind one another: its axis last, or a channel's first.
static uint32_t in_order(struct recipes *r, uint32_t recipe, const struct dequant_expr *e) {
  const uint32_t rank = r->rows[recipe].rank;
  int64_t perm[RECIPE_MAX_RANK];
  uint32_t n = 0;
  if (e->axis >= rank || e->axis == (e->block ? rank - 1 : 0)) return recipe;
  if (!e->block) perm[n++] = e->axis;
  for (uint32_t i = 0; i < rank; i++)
    if (i != e->axis) perm[n++] = i;
  if (e->block) perm[n++] = e->axis;
  return recipe_transpose(r, recipe, perm);
}

static void add_pair(struct looking *k, const struct dequant_expr *e, uint32_t before, bool turned,
                     const char *what) {
  struct recipes *r = &k->r[BEFORE];
  const struct recipe *row = &k->r[AFTER].rows[e->recipe];
  const int64_t *dims = recipe_dims(&k->r[AFTER], e->recipe);
  if (turned) {
    int64_t flat[RECIPE_MAX_RANK];
    const uint32_t n = without_ones(r, before, flat);
    before = recipe_transpose(r, recipe_reshape(r, before, flat, n), (const int64_t[]){1, 0});
  }
  struct pair p = {.count = row->count,
                   .row = row->count,
                   .block = row->count,
                   .steps = e->bits            ? (double)((1u << (e->bits - k->w->reduced)) - 1)
                            : k->w->levels > 0 ? k->w->levels - 1
                                               : 0,
                   .float_type = e->stored,
                   .weight = k->n_weights,
                   .what = what};
  if (e->axis < row->rank) {
    p.row = e->block ? (uint64_t)dims[e->axis] : row->count / (uint64_t)dims[e->axis];
    p.block = e->block ? min_u64(e->block, p.row) : p.row;
  }
  p.noise = row->dtype == DTYPE_FLOAT16 ? 0x1p-10 : row->dtype == DTYPE_BFLOAT16 ? 0x1p-7 : 1e-6;
  before = recipe_reshape(r, before, dims, row->rank);
  p.of[BEFORE] = in_order(r, before, e);
  p.of[AFTER] = in_order(&k->r[AFTER], e->recipe, e);
  p.of[SCALES] = k->w->given && e->scales != NO_ID ? in_order(&k->r[AFTER], e->scales, e) : NO_ID;
  *TABLE_PUSH(k, pairs) = p;
}

static void meet_elements(struct looking *k, const struct dequant_expr *e, uint32_t before,
                          struct span name) {
  const struct recipe *row = &k->r[BEFORE].rows[before];
  const enum dtype t = (enum dtype)row->dtype;
  if (!dtype_is_plain_float(t) || row->count == 0 ||
      (!e->bits && !k->w->levels && dtype_bits(e->stored) >= dtype_bits(t)))
    return;
  const char *how = e->form ? e->form : dtype_name(e->stored);
  const char *what = arena_printf(k->a, "the weight '%s' (%s)", quote(name).s, how);
  for (int turned = 0; turned < 2; turned++)
    if (fits(k, before, e->recipe, turned)) add_pair(k, e, before, turned, what);
}

static void meet(struct looking *k, const struct dequant_expr *e, uint32_t tensor) {
  const struct model *m = k->w->m[BEFORE];
  if (!dtype_is_plain_float((enum dtype)m->tensors[tensor].dtype) ||
      !edit_tensor_readable(&k->edits[BEFORE], tensor) || m->tensors[tensor].bytes == 0)
    return;
  meet_elements(k, e, edit_tensor_recipe(&k->edits[BEFORE], tensor), diff_tensor_name(m, tensor));
}

// Of a value that stands for a weight now, with all weights of the source that it could be.
static void meet_all(struct looking *k, struct dequant_expr *e) {
  const struct site *s = k->w->site;
  const uint32_t first = k->n_pairs;
  struct model_constant c;
  const bool narrow = !e->computed && (e->stored == DTYPE_FLOAT16 || e->stored == DTYPE_BFLOAT16);
  const bool levels = k->w->levels > 0 && !e->form;
  if (levels) e->axis = k->w->levels_axis;
  if ((!e->bits && !narrow && !levels) || k->r[AFTER].rows[e->recipe].count < 16 ||
      !kernels_convert_takes((enum dtype)k->r[AFTER].rows[e->recipe].dtype))
    return;
  for (uint32_t i = 0; i < s->n_constants[BEFORE]; i++)
    meet(k, e, s->constants[BEFORE][i].tensor);
  for (uint32_t i = 0; i < k->n_made; i++)
    meet_elements(k, e, k->made[i].recipe, model_value_name(k->w->m[BEFORE], k->made[i].value));
  for (uint32_t i = 0; i < s->n_outputs; i++)
    if (s->outputs[i].before != NO_ID &&
        model_resolve_constant(k->w->m[BEFORE], s->outputs[i].before, &c))
      meet(k, e, c.tensor);
  k->n_weights += k->n_pairs > first;
}

// What the site's nodes before read of that kind.
static void find_made(struct looking *k) {
  const struct site *s = k->w->site;
  struct pass_env env = {.m = k->edits[BEFORE].m, .edits = &k->edits[BEFORE], .scratch = k->a};
  struct err none = {.kind = ERR_NONE};
  struct kit kit;
  kit_init(&kit, &env, "narrowed");
  for (uint32_t i = 0; i < s->n_before; i++)
    for (uint32_t slot = 0; slot < kit_n_in(&kit, s->before[i]); slot++) {
      const uint32_t value = kit_in(&kit, s->before[i], slot), maker = kit_maker(&kit, value);
      if (weights_moved_by(env.m, s->before[i]) || maker == NO_ID ||
          !weights_moved_by(env.m, maker))
        continue;
      const uint32_t recipe = kit_moved_weight(&kit, value);
      if (recipe != NO_ID) *TABLE_PUSH(k, made) = (struct made){recipe, value};
    }
  (void)kit_done(&kit, &none); // nothing was read
}

// Calls `met` for what the site's nodes on that side compute with.
static void walk_operands(struct looking *k, int side,
                          void (*met)(struct looking *k, struct dequant_expr *e, uint32_t value)) {
  const struct site *s = k->w->site;
  const struct model *m = k->w->m[side];
  const uint32_t *nodes = side == BEFORE ? s->before : s->after;
  const uint32_t n = side == BEFORE ? s->n_before : s->n_after;
  struct dequant_model x = model_of(k, side);
  struct dequant_expr e;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t codes = dequant_expr_codes_slot(m, nodes[i]);
    if (dequant_expr_is_link(m, nodes[i])) continue;
    for (uint32_t slot = 0; slot < m->nodes[nodes[i]].n_in; slot++)
      if ((codes == NO_ID || slot == codes) && dequant_expr_slot(&x, nodes[i], slot, k->a, &e))
        met(k, &e, model_input(m, &m->nodes[nodes[i]], slot));
  }
}

static void note_coded(struct looking *k, struct dequant_expr *e, uint32_t value) {
  if (e->bits) *TABLE_PUSH(k, made) = (struct made){e->recipe, value};
}

static void meet_operand(struct looking *k, struct dequant_expr *e, uint32_t value) {
  (void)value;
  meet_all(k, e);
}

static void find_weights(struct looking *k) {
  const struct site *s = k->w->site;
  struct dequant_model x = model_of(k, AFTER);
  struct dequant_expr e;
  walk_operands(k, AFTER, meet_operand);
  for (uint32_t i = 0; i < s->n_outputs; i++)
    if (s->outputs[i].after != NO_ID && dequant_expr_value(&x, s->outputs[i].after, k->a, &e))
      meet_all(k, &e);
}

// ---- elements ----------------------------------------------------------------------------------

static int side_of(int what) {
  return what == SCALES ? AFTER : what;
}

static int open_to_read(struct looking *k, int what, struct err *err) {
  const struct io_options io = {.mode = IO_SYNC, .tiles = 1, .tile_bytes = IO_CLONE_BLOCK};
  const int side = side_of(what);
  if (!k->io[side] && io_open(&k->io[side], &io, k->w->sources[side], err)) return -1;
  return eval_open(&k->eval[what], &k->r[side], k->io[side],
                   (size_t)max_u64(k->w->memory / READ, EVAL_LEAST), err);
}

static int read_piece(struct looking *k, const struct pair *p, uint64_t at, size_t n,
                      struct eval_task *task[READ], struct err *err) {
  if (threads_must_stop(k->w->stop)) return err_set(err, ERR_RETRY, "stopped");
  for (int side = 0; side < READ; side++) {
    if (p->of[side] == NO_ID) continue;
    const enum dtype t = (enum dtype)k->r[side_of(side)].rows[p->of[side]].dtype;
    const size_t each = dtype_bits(t) / 8;
    const struct kernels_cast widen = {.from = (uint8_t)t, .to = DTYPE_DOUBLE};
    if (eval_read(task[side], at * each, k->held->raw, n * each, err)) return -1;
    kernels_convert(k->held->x[side], k->held->raw, n, &widen);
  }
  return 0;
}

static void begin(struct looking *k, const struct pair *p, uint64_t at, uint64_t n,
                  struct eval_task *task[READ]) {
  for (int what = 0; what < READ; what++) {
    const int side = side_of(what);
    if (p->of[what] == NO_ID) continue;
    const size_t each = dtype_bits((enum dtype)k->r[side].rows[p->of[what]].dtype) / 8;
    task[what] =
        eval_begin(k->eval[what], p->of[what], at * each, n * each, (struct eval_watcher){0});
  }
}

struct range {
  double low, high;      // with 0
  double least, most;    // without
  double floor, ceiling; // of what was written
};
static const struct range no_range = {0, 0, INFINITY, -INFINITY, INFINITY, -INFINITY};

static void widen_written(struct range *r, const double *y, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (y[i] < r->floor) r->floor = y[i];
    if (y[i] > r->ceiling) r->ceiling = y[i];
  }
}

static void widen(struct range *r, const double *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) continue;
    if (x[i] < r->low) r->low = x[i];
    if (x[i] > r->high) r->high = x[i];
    if (x[i] < r->least) r->least = x[i];
    if (x[i] > r->most) r->most = x[i];
  }
}

struct worst {
  double most;
  uint64_t place;
};

// Of the n elements from `first` of the piece on, which share a step; `at`: their place. Both sides infinite or NaN: no error.
static void judge(const struct looking *k, const struct pair *p, const struct range *r,
                  size_t first, size_t n, uint64_t at, struct worst *worst) {
  const double *x = k->held->x[BEFORE] + first, *y = k->held->x[AFTER] + first,
               *scales = p->of[SCALES] == NO_ID ? NULL : k->held->x[SCALES] + first;
  const bool searched = k->w->searched;
  const double step = (r->high - r->low) / fmax(p->steps, 1),
               noise = fmax(-r->low, r->high) * p->noise + DBL_MIN;
  // Where ranges need not hold 0, zero points, which lie between the codes, do not reach those that lie far from it.
  const double beyond = searched ? fmax(0, fmax(r->least, -r->most)) : 0;
  const double last = p->float_type == DTYPE_FLOAT16 ? 0x1p-11 : 0x1p-8,
               least = p->float_type == DTYPE_FLOAT16 ? 0x1p-25 : 0x1p-134;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) continue;
    const double off = fabs(x[i] - y[i]), own = scales ? fmax(step, fabs(scales[i])) : step,
                 unit = p->steps > 0 ? own + noise + beyond : fmax(fabs(x[i]) * last, least);
    double is = off / unit;
    // What is beyond the type became the largest that it has, or infinite, as was asked for.
    if (p->steps == 0 && p->float_type == DTYPE_FLOAT16 && fabs(x[i]) > 65504 &&
        fabs(y[i]) >= 65504 && signbit(x[i]) == signbit(y[i]))
      is = 0;
    // What masks was held to that.
    if (k->w->masks && p->float_type == DTYPE_FLOAT16 && fabs(x[i]) > (double)CAST_MASK_MOST &&
        fabs(y[i]) == (double)CAST_MASK_MOST && signbit(x[i]) == signbit(y[i]))
      is = 0;
    // Beyond a range that was given there is its end.
    if (scales && ((x[i] > y[i] && y[i] >= r->ceiling) || (x[i] < y[i] && y[i] <= r->floor)))
      is = 0;
    if (isnan(is)) is = INFINITY;
    if (is > worst->most) *worst = (struct worst){is, at + i};
  }
}

// Blocks that fit a piece, several at once; none goes beyond its row.
static int look_small(struct looking *k, const struct pair *p, struct worst *worst,
                      struct err *err) {
  struct eval_task *task[READ];
  const uint64_t at_once = p->row <= PIECE ? PIECE / p->row * p->row : PIECE / p->block * p->block;
  begin(k, p, 0, p->count, task);
  for (uint64_t at = 0; at < p->count;) {
    const uint64_t left = p->row <= PIECE ? p->count - at : p->row - at % p->row;
    const size_t n = (size_t)min_u64(at_once, left);
    if (read_piece(k, p, at, n, task, err)) return -1;
    for (size_t i = 0; i < n;) {
      const size_t in_row = (size_t)(p->row - (at + i) % p->row),
                   m = (size_t)min_u64(min_u64(p->block, in_row), n - i);
      struct range r = no_range;
      widen(&r, k->held->x[BEFORE] + i, m);
      widen_written(&r, k->held->x[AFTER] + i, m);
      judge(k, p, &r, i, m, at + i, worst);
      i += m;
    }
    at += n;
  }
  return 0;
}

// Blocks that do not, twice each: once for the range.
static int look_large(struct looking *k, const struct pair *p, struct worst *worst,
                      struct err *err) {
  struct eval_task *task[READ];
  for (uint64_t first = 0; first < p->count;) {
    const uint64_t size = min_u64(p->block, p->row - first % p->row);
    struct range r = no_range;
    for (int turn = 0; turn < 2; turn++) {
      begin(k, p, first, size, task);
      for (uint64_t done = 0; done < size; done += PIECE) {
        const size_t n = (size_t)min_u64(PIECE, size - done);
        if (read_piece(k, p, first + done, n, task, err)) return -1;
        if (turn == 0) {
          widen(&r, k->held->x[BEFORE], n);
          widen_written(&r, k->held->x[AFTER], n);
        } else {
          judge(k, p, &r, 0, n, first + done, worst);
        }
      }
    }
    first += size;
  }
  return 0;
}

// Rounding to nearest: half a step, and half a one for the zero point. Searches give up a bit of what is largest.
static double allowed(const struct pair *p, bool searched) {
  return p->steps == 0 ? 1.01 : searched ? 1.25 : 1.05;
}

static int look_all(struct looking *k, struct quant_error_found *out, struct err *err) {
  for (uint32_t i = 0; i < k->n_pairs;) {
    const uint32_t weight = k->pairs[i].weight;
    struct quant_error_found best = {.most = INFINITY};
    bool any = false;
    for (; i < k->n_pairs && k->pairs[i].weight == weight; i++) {
      const struct pair *p = &k->pairs[i];
      struct worst worst = {0};
      // Floats have a budget each: any piece will do.
      struct pair floats = *p;
      if (p->steps == 0) floats.row = floats.block = min_u64(p->count, PIECE);
      if (any && best.most <= best.allowed) continue;
      if (p->steps > 0 && p->block > PIECE ? look_large(k, p, &worst, err)
                                           : look_small(k, p->steps > 0 ? p : &floats, &worst, err))
        return -1;
      if (any && worst.most >= best.most) continue;
      any = true;
      best = (struct quant_error_found){.most = worst.most,
                                        .allowed = allowed(p, k->w->searched),
                                        .what = p->what,
                                        .place = worst.place};
    }
    out->n++;
    if (out->n == 1 || best.most / best.allowed > out->most / out->allowed) {
      best.n = out->n;
      *out = best;
    }
  }
  return 0;
}

int quant_error_check(const struct quant_error_check *w, struct arena *a,
                      struct quant_error_found *out, struct err *err) {
  struct looking k = {.w = w, .a = a};
  int rc = 0;
  *out = (struct quant_error_found){.n = 0};
  for (int side = 0; side < SIDES; side++) {
    recipes_init(&k.r[side]);
    edits_init(&k.edits[side], (struct model *)(uintptr_t)w->m[side], &k.r[side]);
  }
  find_made(&k);
  if (w->coded) walk_operands(&k, BEFORE, note_coded);
  find_weights(&k);
  k.held = arena_alloc(a, sizeof *k.held);
  for (int what = 0; what < (w->given ? READ : SIDES) && rc == 0 && k.n_pairs > 0; what++)
    rc = open_to_read(&k, what, err);
  if (rc == 0) rc = look_all(&k, out, err);
  for (int what = 0; what < READ; what++)
    if (k.eval[what]) eval_close(k.eval[what]);
  for (int side = 0; side < SIDES; side++) {
    if (k.io[side]) io_close(k.io[side]);
    edits_free(&k.edits[side]);
    recipes_free(&k.r[side]);
  }
  TABLES_FREE(&k, pairs, made);
  return rc;
}
