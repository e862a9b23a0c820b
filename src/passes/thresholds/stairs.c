// What passes about thresholds share: their elements, read and written, and the nodes that hold them.
//
// Thresholds decide by their bits, so that all of them are looked at: as doubles, which hold every element exactly, in
// an arena that lives for one node. No sort or comparison of rows can be done a range of bytes at a time; what has more
// than STAIRS_MOST elements is therefore left alone, and what a pass makes is no larger than that. The edit log says what
// was looked at (edit_look).
//
// Two arrays broadcast against each other and against x. An axis of one of them is idle where its elements are alike and
// somebody else has the axis's length: the other array, or x, as far as its dims are known. The last axis counts steps, so
// that it is the other array alone that can have it.
#include "passes/thresholds/inside/stairs.h"

#include "base/digest.h"
#include "passes/kit/dead_ends.h"

// ---- the walk ----------------------------------------------------------------------------------

void stairs_begin(struct stairs *s, struct pass_env *env, void *options) {
  const struct name_filter *nodes = options;
  *s = (struct stairs){.options = options};
  kit_init(&s->k, env, env->pass->name);
  name_filter_warn(&nodes, 1, env);
  kit_infer(&s->k);
}

void stairs_each(struct stairs *s, void (*visit)(struct kit *k, uint32_t node)) {
  struct kit *k = &s->k;
  for (uint32_t g = 0; kit_graph(k, &g); g++)
    for (uint32_t n = k->m->graphs[g].first_node, next; n != NO_ID; n = next) {
      next = k->m->nodes[n].next;
      if (s->err.kind != ERR_NONE) return;
      arena_reset(&k->site);
      arena_reset(&s->room);
      if (!name_filter_refuses(s->options, model_name_str(k->m, k->m->nodes[n].name))) visit(k, n);
    }
}

int stairs_end(struct stairs *s, struct err *err) {
  arena_free(&s->room);
  const int rc = kit_done(&s->k, err);
  if (rc != 0 || s->err.kind == ERR_NONE) return rc;
  *err = s->err;
  return -1;
}

int stairs_run(struct pass_env *env, void *options, struct err *err) {
  struct stairs s;
  stairs_begin(&s, env, options);
  stairs_each(&s, env->pass->visit);
  return stairs_end(&s, err);
}

bool stairs_may(struct stairs *s, enum exactness level) {
  if (level <= s->k.env->exactness) return true;
  s->k.env->result->held_back++;
  return false;
}

// ---- reading and writing -----------------------------------------------------------------------

static bool read_raw(struct stairs *s, uint32_t value, uint32_t tensor, struct span *raw) {
  struct kit *k = &s->k;
  enum dtype dtype;
  if (kit_elements(k, value, &dtype, raw)) return true;
  if (!k->env->read || !edit_tensor_readable(k->e, tensor)) return false;
  const size_t n = (size_t)k->m->tensors[tensor].bytes;
  uint8_t *at = arena_alloc(&s->room, n + 1);
  if (k->env->read(k->env->read_ctx, tensor, at, n, &s->err)) return false;
  *raw = span_of(at, n);
  struct edit_look look = {.tensor = tensor};
  digest_of(at, n, look.sha256);
  edit_look(k->e, &look);
  return true;
}

const char *stairs_read(struct stairs *s, uint32_t value, struct stairs_array *out) {
  struct kit *k = &s->k;
  struct kit_number x;
  struct span raw;
  uint32_t tensor;
  *out = (struct stairs_array){.dtype = DTYPE_UNDEFINED};
  if (!kit_constant(k, value, &tensor)) return "not_constant";
  const struct model_tensor *t = &k->m->tensors[tensor];
  out->dtype = (enum dtype)t->dtype;
  out->rank = t->rank;
  if (!dtype_is_plain_number(out->dtype)) return "dtype";
  if (t->rank > RECIPE_MAX_RANK - 1 || !dims_product(model_dims(k->m, t), t->rank, &out->count) ||
      out->count > STAIRS_MOST)
    return "too_large";
  if (out->count == 0) return "empty";
  if (t->rank) memcpy(out->dims, model_dims(k->m, t), t->rank * sizeof *out->dims);
  out->at = arena_alloc(&s->room, out->count * sizeof *out->at);
  const bool fill = kit_const_fill(k, value, &x) == KIT_YES;
  if (!fill && !read_raw(s, value, tensor, &raw)) return "unreadable";
  for (uint64_t i = 0; i < out->count; i++) {
    if (!fill && !kit_number_at(out->dtype, raw.at, i, &x)) return "dtype";
    if (dtype_is_integer(out->dtype) && fabs(x.d) >= 0x1p53) return "dtype";
    out->at[i] = x.d;
  }
  return NULL;
}

uint32_t stairs_write(struct stairs *s, const char *what, const struct stairs_array *array) {
  struct kit *k = &s->k;
  const uint32_t bytes = dtype_bits(array->dtype) / 8;
  uint8_t *raw = arena_alloc(&s->room, array->count * bytes + 8);
  for (uint64_t i = 0; i < array->count; i++) {
    uint8_t one[8];
    kit_number_put(array->dtype, array->at[i], one);
    memcpy(raw + i * bytes, one, bytes);
  }
  return kit_new_tensor(k, what,
                        recipe_bytes(k->r, array->dtype, array->dims, array->rank,
                                     span_of(raw, (size_t)(array->count * bytes))));
}

static bool same_number(double a, double b) {
  return (a == b && signbit(a) == signbit(b)) || (isnan(a) && isnan(b));
}

uint64_t stairs_index(const struct stairs_array *array, const int64_t *dims, uint32_t rank,
                      uint64_t i) {
  uint64_t at = 0, stride = 1;
  for (uint32_t back = 1; back <= array->rank; back++) {
    const uint64_t length = (uint64_t)dims[rank - back];
    const uint64_t own = (uint64_t)array->dims[array->rank - back];
    if (own > 1) at += i % length * stride;
    stride *= own;
    i /= length;
  }
  return at;
}

// ---- neighbours --------------------------------------------------------------------------------

double stairs_rounded(enum dtype dtype, double x) {
  uint8_t raw[8];
  struct kit_number n;
  kit_number_put(dtype, x, raw);
  kit_number_at(dtype, raw, 0, &n);
  return n.d;
}

// Of a number that the type has. The bits of floats of one sign are in the order of their magnitudes.
static double next_up(enum dtype dtype, double x) {
  uint8_t raw[8];
  uint64_t bits = 0;
  struct kit_number n;
  if (isnan(x) || (isinf(x) && x > 0)) return x;
  const size_t bytes = kit_number_put(dtype, x == 0 ? 0 : x, raw);
  memcpy(&bits, raw, bytes);
  bits = x < 0 ? bits - 1 : bits + 1;
  memcpy(raw, &bits, bytes);
  kit_number_at(dtype, raw, 0, &n);
  return n.d;
}

double stairs_at_least(enum dtype dtype, double x) {
  const double rounded = stairs_rounded(dtype, x);
  return rounded < x ? next_up(dtype, rounded) : rounded;
}

double stairs_above(enum dtype dtype, double x) {
  const double rounded = stairs_rounded(dtype, x);
  return rounded <= x ? next_up(dtype, rounded) : rounded;
}

// ---- tables ------------------------------------------------------------------------------------

const char *stairs_join(struct stairs *s, const struct stairs_array *t,
                        const struct stairs_array *w, struct stairs_table *out) {
  uint64_t count;
  *out = (struct stairs_table){.dtype = t->dtype};
  out->rank = t->rank > w->rank ? t->rank : w->rank;
  if (out->rank == 0) out->dims[out->rank++] = 1;
  for (uint32_t back = 1; back <= out->rank; back++) {
    const int64_t a = back <= t->rank ? t->dims[t->rank - back] : 1,
                  b = back <= w->rank ? w->dims[w->rank - back] : 1;
    if (a != b && a != 1 && b != 1) return "shape";
    out->dims[out->rank - back] = a == 1 ? b : a;
  }
  if (!dims_product(out->dims, out->rank, &count) || count > STAIRS_MOST) return "too_large";
  if (count == 0) return "empty";
  out->n = (uint64_t)out->dims[out->rank - 1];
  out->rows = count / out->n;
  out->t = arena_alloc(&s->room, count * sizeof *out->t);
  out->w = arena_alloc(&s->room, count * sizeof *out->w);
  for (uint64_t i = 0; i < count; i++) {
    out->t[i] = t->at[stairs_index(t, out->dims, out->rank, i)];
    out->w[i] = w->at[stairs_index(w, out->dims, out->rank, i)];
  }
  return NULL;
}

static struct stairs_array as_array(const struct stairs_table *table, enum dtype dtype,
                                    double *at) {
  struct stairs_array a = {
      .dtype = dtype, .rank = table->rank, .count = table->rows * table->n, .at = at};
  memcpy(a.dims, table->dims, table->rank * sizeof *a.dims);
  return a;
}

struct stairs_array stairs_thresholds(const struct stairs_table *table) {
  return as_array(table, table->dtype, table->t);
}

struct stairs_array stairs_weights(const struct stairs_table *table) {
  return as_array(table, DTYPE_FLOAT, table->w);
}

bool stairs_sums_exactly(const struct stairs_table *table) {
  for (uint64_t row = 0; row < table->rows; row++) {
    double sum = 0;
    for (uint64_t j = 0; j < table->n; j++) {
      const double w = table->w[row * table->n + j];
      if (nearbyint(w) != w) return false;
      sum += fabs(w);
    }
    if (!(sum <= 0x1p24)) return false;
  }
  return true;
}

// ---- narrowing ---------------------------------------------------------------------------------

// Are the elements the same at all places of that axis?
static bool alike_along(const struct stairs_array *a, uint32_t axis) {
  uint64_t inner = 1;
  for (uint32_t i = axis + 1; i < a->rank; i++)
    inner *= (uint64_t)a->dims[i];
  const uint64_t block = inner * (uint64_t)a->dims[axis];
  for (uint64_t i = 0; i < a->count; i++)
    if (!same_number(a->at[i], a->at[i / block * block + i % inner])) return false;
  return true;
}

static void keep_first(struct stairs_array *a, uint32_t axis) {
  uint64_t inner = 1, n = 0;
  for (uint32_t i = axis + 1; i < a->rank; i++)
    inner *= (uint64_t)a->dims[i];
  const uint64_t block = inner * (uint64_t)a->dims[axis];
  for (uint64_t i = 0; i < a->count; i++)
    if (i % block < inner) a->at[n++] = a->at[i];
  a->count = n;
  a->dims[axis] = 1;
}

// Has somebody else the axis, counted from the end (1: the steps)?
static bool has_axis(struct kit *k, const struct stairs_array *other, uint32_t x, uint32_t back,
                     int64_t length) {
  uint32_t rank;
  if (back <= other->rank && other->dims[other->rank - back] == length) return true;
  return back > 1 && kit_rank(k, x, &rank) && back - 1 <= rank &&
         kit_dim(k, x, -(int64_t)(back - 1)).value == length;
}

bool stairs_narrow(struct stairs *s, struct stairs_array *a, const struct stairs_array *other,
                   uint32_t x) {
  bool changed = false;
  uint32_t rank, lead = 0, least = other->rank;
  for (uint32_t axis = 0; axis < a->rank; axis++)
    if (a->dims[axis] > 1 && has_axis(&s->k, other, x, a->rank - axis, a->dims[axis]) &&
        alike_along(a, axis)) {
      keep_first(a, axis);
      changed = true;
    }
  if (kit_rank(&s->k, x, &rank) && rank + 1 > least) least = rank + 1;
  while (lead < a->rank && a->dims[lead] == 1 && a->rank <= least)
    lead++;
  // Rows that are longer than the result's rank keep it.
  memmove(a->dims, a->dims + lead, (a->rank - lead) * sizeof *a->dims);
  a->rank -= lead;
  return changed || lead > 0;
}

// ---- nodes -------------------------------------------------------------------------------------

bool stairs_skips(struct stairs *s, uint32_t node, const char *why) {
  if (why && strcmp(why, "not_constant") != 0) kit_skipped(&s->k, node, why);
  return why != NULL;
}

bool stairs_is(struct stairs *s, uint32_t node) {
  struct kit *k = &s->k;
  if (kit_op(k, node) != OP_ops_MultiThreshold || kit_n_in(k, node) != 3) return false;
  for (uint32_t i = 0; i < 3; i++)
    if (kit_in(k, node, i) == NO_ID || kit_may_be_left_out(k->m, kit_in(k, node, i))) return false;
  return kit_out(k, node, 0) != NO_ID;
}

const char *stairs_of(struct stairs *s, uint32_t node, struct stairs_array *t,
                      struct stairs_array *w, struct stairs_table *table) {
  const char *why = stairs_read(s, kit_in(&s->k, node, 1), t);
  if (!why) why = stairs_read(s, kit_in(&s->k, node, 2), w);
  if (!why && w->dtype != DTYPE_FLOAT) why = "dtype";
  for (uint64_t i = 0; !why && i < w->count; i++)
    if (!isfinite(w->at[i])) why = "weights";
  return why ? why : stairs_join(s, t, w, table);
}

uint32_t stairs_put(struct stairs *s, uint32_t x, uint32_t thresholds, uint32_t weights,
                    uint32_t as) {
  struct kit *k = &s->k;
  const uint32_t in[] = {x, thresholds, weights};
  kit_import(k, k->graph, kit_domain_name(KIT_PASSES), 1);
  return kit_out(k, kit_replace(k, as, OP_ops_MultiThreshold, KIT_INPUTS(in, 3)), 0);
}

void stairs_drop(struct stairs *s, uint32_t thresholds, uint32_t weights) {
  const uint32_t both[] = {thresholds, weights};
  for (uint32_t i = 0; i < 2; i++)
    if (!(s->k.m->values[both[i]].flags & VALUE_DEAD)) dead_ends_drop(s->k.e, both[i]);
}

int stairs_by_threshold(const void *a, const void *b) {
  const struct stairs_step *x = a, *y = b;
  if (isnan(x->t) != isnan(y->t)) return isnan(x->t) ? 1 : -1;
  if (x->t < y->t || x->t > y->t) return x->t < y->t ? -1 : 1;
  return x->place < y->place ? -1 : x->place > y->place;
}
