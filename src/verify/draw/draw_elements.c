// Elements of an array by what is wanted of them.
//
// In this order: what inference knows; what the input's name says (a length, a mask, positions) where the walk of its
// readers does not contradict it; indices; what it is compared with; small numbers. Floats are normal, or lie
// between the numbers that their producer and their readers allow.
//
//   draw ──▶ int64 or float, 1024 at a time ──▶ kernels_convert ──▶ wide elements ──▶ packed (below 8 bits)
#include "verify/draw/inside/draw_parts.h"

#include "kernels/convert/kernels_convert.h"

#include <ctype.h>
#include <math.h>

enum { CHUNK = 1024, SMALL_NUMBERS = 10, KNOWN_AT_MOST = 1024, FAR_OFF = 1000, NORMAL_AT_MOST = 6 };

// ---- where elements go -----------------------------------------------------------------------------------

struct sink {
  enum dtype dtype;
  uint8_t *at;
  uint64_t done; // elements
  bool integers; // held as int64; else as float
  uint32_t n;
  union {
    int64_t i[CHUNK];
    float f[CHUNK];
  } held;
  uint8_t wide[CHUNK * 8];
};

// Element k of a type below 8 bits lies in bits k*bits … of the array, low bits first.
static void pack(struct sink *s, uint32_t bits) {
  for (uint32_t k = 0; k < s->n; k++)
    for (uint32_t b = 0; b < bits; b++) {
      const uint64_t bit = (s->done + k) * bits + b;
      const uint8_t one = (uint8_t)(1u << bit % 8);
      s->at[bit / 8] = (uint8_t)((s->at[bit / 8] & ~one) | (s->wide[k] >> b & 1 ? one : 0));
    }
}

// Complex numbers: both parts are drawn, one behind the other.
static enum dtype part_of(enum dtype t) {
  return t == DTYPE_COMPLEX64 ? DTYPE_FLOAT : t == DTYPE_COMPLEX128 ? DTYPE_DOUBLE : t;
}

static void flush(struct sink *s) {
  const enum dtype to = part_of(s->dtype);
  const uint32_t bits = dtype_bits(to);
  const struct kernels_cast c = {.from = s->integers ? DTYPE_INT64 : DTYPE_FLOAT,
                                 .to = (uint8_t)to,
                                 .saturate = true,
                                 .round = KERNELS_ROUND_NEAREST};
  kernels_convert(bits < 8 ? s->wide : s->at + s->done * (bits / 8), &s->held, s->n, &c);
  if (bits < 8) pack(s, bits);
  s->done += s->n;
  s->n = 0;
}

static void put_int(struct sink *s, int64_t x) {
  s->held.i[s->n++] = x;
  if (s->n == CHUNK) flush(s);
}

static void put_float(struct sink *s, float x) {
  s->held.f[s->n++] = x;
  if (s->n == CHUNK) flush(s);
}

static void put(struct sink *s, double x) {
  if (s->integers)
    put_int(s, x >= 0x1p63 ? INT64_MAX : x > -0x1p63 ? (int64_t)x : INT64_MIN);
  else
    put_float(s, (float)x);
}

// ---- the story of one array --------------------------------------------------------------------------------

struct story {
  struct draw *d;
  const struct draw_asked *asked;
  const struct array *x;
  uint64_t n; // elements, or parts of complex ones
  struct draw_want w;
  struct draw_range range;
  struct draw_chance c;
  char name[96]; // in lower case, of an input; else empty
  struct sink s;
};

static bool called(const struct story *t, const char *word) {
  return strstr(t->name, word) != NULL;
}

static int64_t row_of(const struct array *x) {
  return x->rank ? x->dims[x->rank - 1] : 1;
}

// ---- what follows from sizes --------------------------------------------------------------------------------

static const struct draw_input *common_name(const struct story *t, const char *name) {
  const struct draw *d = t->d;
  const struct draw_input *found = NULL;
  size_t most = 2; // letters that must be equal
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    const struct draw_input *x = &d->inputs[i];
    if (x->value == t->asked->value || x->length_axis == NO_ID || !x->dims) continue;
    const char *other = model_name_str(d->m, d->m->values[x->value].name);
    size_t n = 0;
    while (name[n] && tolower(other[n]) == name[n])
      n++;
    if (n > most) {
      most = n;
      found = x;
    }
  }
  return found;
}

// How long the signal is that a length speaks of: the one named so, the one named like it, else the first.
static int64_t signal_length(const struct story *t) {
  const struct draw *d = t->d;
  const struct draw_input *x = NULL;
  for (uint32_t i = 0; i < d->n_inputs && d->o.signal; i++)
    if (span_is(model_value_name(d->m, d->inputs[i].value), d->o.signal)) x = &d->inputs[i];
  if (!x || x->length_axis == NO_ID || !x->dims) x = common_name(t, t->name);
  for (uint32_t i = 0; i < d->n_inputs && !x; i++)
    if (d->inputs[i].length_axis != NO_ID && d->inputs[i].dims) x = &d->inputs[i];
  return x ? x->dims[x->length_axis] : SMALL_NUMBERS;
}

static void draw_lengths(struct story *t, int64_t whole) {
  for (uint64_t i = 0; i < t->n; i++)
    put(&t->s, i == 0 ? (double)whole : (double)(whole - draw_chance_below(&t->c, whole / 2 + 1)));
}

static int64_t past_length(const struct story *t) {
  for (uint32_t i = 0; i < t->d->n_symbols; i++)
    if (t->d->symbols[i].role == ROLE_PAST && t->d->bound[i].value < (int64_t)DRAW_BYTES_MAX)
      return t->d->bound[i].value;
  return 0;
}

// 0, 1, 2 … behind what is in the cache, along the last axis.
static void draw_positions(struct story *t) {
  const int64_t row = row_of(t->x) > 0 ? row_of(t->x) : 1, end = t->w.index_end;
  int64_t first = past_length(t);
  if (end && first + row > end) first = end > row ? end - row : 0;
  for (uint64_t i = 0; i < t->n; i++) {
    const int64_t at = first + (int64_t)(i % (uint64_t)row);
    put(&t->s, (double)(end && at >= end ? end - 1 : at));
  }
}

// ---- masks ---------------------------------------------------------------------------------------------------

// Rows along the last axis: first what is kept, then, of at most a quarter, what is not.
static void draw_mask(struct story *t, double keep, double drop) {
  const int64_t row = row_of(t->x);
  for (uint64_t i = 0; i < t->n;) {
    const int64_t kept = row - (row >= 4 && !t->w.full ? draw_chance_below(&t->c, row / 4 + 1) : 0);
    for (int64_t k = 0; k < row && i < t->n; k++, i++)
      put(&t->s, k < kept ? keep : drop);
  }
}

static void draw_int_mask(struct story *t) {
  draw_mask(t, !t->w.inverted, t->w.inverted);
}

// ---- numbers --------------------------------------------------------------------------------------------------

static void draw_below(struct story *t, int64_t low, int64_t end) {
  for (uint64_t i = 0; i < t->n; i++)
    put(&t->s, (double)(low + draw_chance_below(&t->c, end - low)));
}

static void draw_one_of(struct story *t) {
  const int64_t x = t->w.equals[draw_chance_below(&t->c, t->w.n_equals)];
  for (uint64_t i = 0; i < t->n; i++)
    put(&t->s, (double)x);
}

// All values of a small type; 1 … of others, so that they can divide and be counts.
static void draw_integers(struct story *t) {
  const uint32_t bits = dtype_bits(t->x->dtype);
  if (t->w.nonzero || t->w.counts || bits > 8) {
    draw_below(t, 1, bits > 8 ? SMALL_NUMBERS + 1 : bits == 8 ? 5 : 2);
    return;
  }
  for (uint64_t i = 0; i < t->n; i++)
    put_int(&t->s, (int64_t)(draw_chance_next(&t->c) >> (64 - bits)));
}

// Sums of products of codes are as often below 0 as above.
static bool is_sum_of_products(const struct story *t) {
  const struct model *m = t->d->m;
  const struct model_value *v = &m->values[t->asked->value];
  return v->kind == VALUE_NODE_OUTPUT && !t->w.nonzero && !t->w.counts &&
         (model_op_is(m, v->def, "MatMulInteger") || model_op_is(m, v->def, "ConvInteger"));
}

// Shapes, axes and the like, of those that follow from what a node makes.
static bool put_asked(struct story *t) {
  double list[ARRAY_MAX_RANK];
  if (t->w.asks_node == NO_ID || t->n > ARRAY_MAX_RANK || t->x->rank > 1) return false;
  if (!draw_asks(t->d, t->w.asks_node, t->w.asks_slot, (uint32_t)t->n, list)) return false;
  for (uint32_t i = 0; i < t->n; i++)
    put(&t->s, list[i]);
  return true;
}

static void draw_ints(struct story *t) {
  const struct draw_want *w = &t->w;
  const bool few = t->x->rank <= 1;
  const char *lengths = t->d->o.lengths;
  if (t->asked->input && lengths && span_is(model_value_name(t->d->m, t->asked->value), lengths))
    draw_lengths(t, signal_length(t));
  else if (w->fixed)
    draw_one_of(t);
  else if (w->trips || w->condition)
    draw_below(t, w->condition ? 1 : 2, w->condition ? 2 : 4);
  else if (called(t, "position"))
    draw_positions(t);
  else if (w->index_end > w->index_low && !(called(t, "mask") && w->index_end > 1))
    draw_below(t, w->index_low, w->index_end);
  else if (w->bounded && w->high >= w->low)
    draw_below(t, (int64_t)w->low, (int64_t)w->high + 1);
  else if (called(t, "mask"))
    draw_int_mask(t);
  else if (put_asked(t))
    return;
  else if (few && called(t, "len"))
    draw_lengths(t, signal_length(t));
  else if (few && w->n_equals)
    draw_one_of(t);
  else if (w->mask)
    draw_int_mask(t);
  else if (w->length && w->length_of > 1)
    draw_lengths(t, w->length_of);
  else if (few && w->length && t->asked->input)
    draw_lengths(t, signal_length(t));
  else if (called(t, "sample_rate") || strcmp(t->name, "sr") == 0)
    draw_below(t, 16000, 16001);
  else if (t->range.known && t->range.low > -0x1p40f && t->range.high < 0x1p40f)
    draw_below(t, (int64_t)t->range.low, (int64_t)t->range.high + 1);
  else if (is_sum_of_products(t))
    draw_below(t, -SMALL_NUMBERS, SMALL_NUMBERS + 1);
  else
    draw_integers(t);
}

static void draw_bools(struct story *t) {
  const struct draw_want *w = &t->w;
  if (w->condition)
    draw_below(t, 1, 2);
  else if (w->n_equals)
    draw_one_of(t);
  else if (w->mask || called(t, "mask"))
    draw_int_mask(t);
  else
    draw_below(t, 0, 2);
}

// Between low and high; beyond none of them, normal on the open side. What is far away is no bound.
static float between(struct draw_chance *c, float low, float high, float factor) {
  if (isinf(low) && isinf(high)) return draw_chance_normal(c) * factor;
  if (!isinf(low) && !isinf(high)) return low + (high - low) * draw_chance_unit(c);
  const float x = draw_chance_normal(c), size = x < 0 ? -x : x;
  return isinf(high) ? low + size : high - size;
}

static float away_from_zero(float x) {
  return x < 0 ? x - 0.125f : x + 0.125f;
}

static void draw_floats(struct story *t) {
  const struct draw_want *w = &t->w;
  float low = w->low, high = w->high;
  if (put_asked(t)) return;
  if (t->range.n_either == 2) {
    const float *e = t->range.either, keep = fabsf(e[0]) <= fabsf(e[1]) ? e[0] : e[1];
    draw_mask(t, keep, keep == e[0] ? e[1] : e[0]);
    return;
  }
  if (w->switched) {
    draw_mask(t, 0, 1);
    return;
  }
  if (called(t, "mask")) {
    draw_mask(t, w->additive ? 0 : 1, w->additive ? -10000 : 0);
    return;
  }
  if (t->range.known) {
    if (t->range.low > low) low = t->range.low;
    if (t->range.high < high) high = t->range.high;
    if (low > high) low = t->range.low, high = t->range.high;
  }
  if (low < -FAR_OFF) low = -INFINITY;
  if (high > (float)FAR_OFF) high = INFINITY;
  if (low <= -(float)NORMAL_AT_MOST && high >= (float)NORMAL_AT_MOST)
    low = -INFINITY, high = INFINITY;
  for (uint64_t i = 0; i < t->n; i++) {
    const float x = between(&t->c, low, high, t->d->factor), y = away_from_zero(x);
    put_float(&t->s, w->nonzero && y <= high ? y : x);
  }
}

// ---- what is known ------------------------------------------------------------------------------------------------

static bool put_known(struct story *t) {
  double list[KNOWN_AT_MOST];
  uint32_t n;
  if (!draw_known(t->d, t->asked->value, list, KNOWN_AT_MOST, &n) || n != t->n) return false;
  for (uint32_t i = 0; i < n; i++)
    put(&t->s, list[i]);
  return true;
}

void draw_elements(struct draw *d, const struct draw_asked *asked, const struct array *x,
                   uint8_t *at) {
  struct story t = {.d = d, .asked = asked, .x = x};
  const struct span name = model_value_name(d->m, asked->value);
  const bool complex = x->dtype == DTYPE_COMPLEX64 || x->dtype == DTYPE_COMPLEX128;
  t.n = complex ? 2 * x->count : x->count;
  t.c = draw_chance_of(d->o.seed, name);
  t.s.dtype = x->dtype;
  t.s.at = at;
  t.s.integers = dtype_is_integer(x->dtype);
  for (size_t i = 0; asked->input && i < name.n && i + 1 < sizeof t.name; i++)
    t.name[i] = (char)tolower(name.at[i]);
  if (!put_known(&t)) {
    draw_want_of(d, asked->value, asked->users, asked->n_users, &t.w);
    if (!asked->input) draw_range_of(d, asked->value, &t.range);
    if (x->dtype == DTYPE_BOOL)
      draw_bools(&t);
    else if (t.s.integers)
      draw_ints(&t);
    else
      draw_floats(&t);
  }
  if (t.s.n) flush(&t.s);
}

// ---- another type ---------------------------------------------------------------------------------------------

bool draw_retype(const struct array *x, enum dtype to, struct arena *a, struct array *out) {
  const struct kernels_cast c = {.from = (uint8_t)x->dtype,
                                 .to = (uint8_t)to,
                                 .saturate = true,
                                 .round = KERNELS_ROUND_NEAREST};
  if (!x->at || x->kind != ARRAY_TENSOR || dtype_bits(x->dtype) < 8 || dtype_bits(to) < 8 ||
      !kernels_convert_takes(x->dtype) || !kernels_convert_takes(to))
    return false;
  uint8_t *at = array_make(out, x->name, to, x->rank, x->dims, a);
  if (!at) return false;
  kernels_convert(at, x->at, x->count, &c);
  return true;
}
