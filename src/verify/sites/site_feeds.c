// Inputs of a site. A value that was cut on both sides is drawn once, as the source has it, and given to each side in the type
// that it has there: what differs then is the work of the nodes between, not of the elements.
#include "verify/sites/site_run.h"

#include "model/model.h"
#include "verify/arrays/array.h"

#include <math.h>
#include <stdio.h>

// ---- codes ---------------------------------------------------------------------------------------

// Numbers for a value that is quantized by parameters which were found beforehand: what is drawn lies where its codes do.
//
//   drawn in [-3.1, 2.7], QuantizeLinear of codes for [-0.2, 1.3]     every number times 0.2 / 3.1
//                         QuantizeLinear of codes for [-1400, 100]    every number times 100 / 2.7
//                         DequantizeLinear makes it                   the same by its codes
//
// Numbers that are far beyond would all become the first or last code, and sites would be judged by what clipping does; numbers
// that are smaller than a step would all become zero. The model sees neither where calibration saw its data.

// The only element of a constant.
static bool scalar(const struct model *m, uint32_t value, enum dtype *dtype, int64_t *bits) {
  struct model_constant c;
  struct span raw;
  if (value == NO_ID || !model_resolve_constant(m, value, &c) ||
      !model_small_value(m, c.tensor, &raw))
    return false;
  *dtype = (enum dtype)m->tensors[c.tensor].dtype;
  const size_t n = dtype_bits(*dtype) / 8;
  if (n == 0 || n > 4 || raw.n != n) return false;
  uint32_t x = 0;
  memcpy(&x, raw.at, n);
  const uint32_t sign = (uint32_t)1 << (8 * n - 1);
  const bool is_signed = *dtype == DTYPE_INT8 || *dtype == DTYPE_INT16;
  *bits = is_signed && x & sign ? (int64_t)x - 2 * (int64_t)sign : (int64_t)x;
  return true;
}

// What codes of the node's scale and zero point stand for, if each is one constant: its inputs 1 and 2. (Those of 32 bits are sums, which
// clip nothing.)
static bool codes_stand_for(const struct model *m, const struct model_node *n, double *low,
                            double *high) {
  enum dtype type, codes;
  int64_t bits, zero;
  float scale;
  if (!scalar(m, model_input(m, n, 1), &type, &bits) || type != DTYPE_FLOAT ||
      !scalar(m, model_input(m, n, 2), &codes, &zero) || !dtype_is_integer(codes) ||
      dtype_bits(codes) > 16)
    return false;
  const uint32_t word = (uint32_t)bits;
  memcpy(&scale, &word, sizeof scale);
  const int64_t count = (int64_t)1 << dtype_bits(codes);
  const bool is_signed = codes == DTYPE_INT8 || codes == DTYPE_INT16;
  const int64_t least = is_signed ? -count / 2 : 0;
  *low = (double)(least - zero) * scale;
  *high = (double)(least + count - 1 - zero) * scale;
  return true;
}

// Of any domain: com.microsoft has both operators too.
static bool is_op(const struct model *m, uint32_t node, const char *name) {
  return node != NO_ID && span_is(model_name(m, m->nodes[node].op_type), name);
}

// What codes of the QuantizeLinear that reads the value, or of the DequantizeLinear that makes it, stand for.
static bool codes_for(const struct model *m, uint32_t value, double *low, double *high) {
  for (uint32_t u = m->values[value].first_use; u != NO_ID; u = m->refs[u].next) {
    const uint32_t node = m->refs[u].node;
    if (is_op(m, node, "QuantizeLinear") && model_input(m, &m->nodes[node], 0) == value &&
        codes_stand_for(m, &m->nodes[node], low, high))
      return true;
  }
  const uint32_t maker = m->values[value].kind == VALUE_NODE_OUTPUT ? m->values[value].def : NO_ID;
  return is_op(m, maker, "DequantizeLinear") && codes_stand_for(m, &m->nodes[maker], low, high);
}

static void fit_codes(const struct model *m, uint32_t value, struct arena *a, struct array *x) {
  double low, high, factor = INFINITY;
  if (x->dtype != DTYPE_FLOAT || !x->at || x->bytes != x->count * sizeof(float) ||
      !codes_for(m, value, &low, &high))
    return;
  float *out = arena_copy(a, x->at, x->bytes);
  for (uint64_t i = 0; i < x->count; i++) {
    if (out[i] > 0 && high > 0) factor = fmin(factor, high / (double)out[i]);
    if (out[i] < 0 && low < 0) factor = fmin(factor, low / (double)out[i]);
  }
  if (isinf(factor)) factor = 1;
  for (uint64_t i = 0; i < x->count; i++)
    out[i] = (float)fmin(fmax((double)out[i] * factor, low), high);
  x->at = (const uint8_t *)out;
}

// ---- arrays -------------------------------------------------------------------------------------

// Elements for a value that one side alone reads: as the source has it, if it does.
static bool draw_alone(struct site_run *r, const struct site *s, int side, uint32_t value,
                       struct arena *a, struct array *x, char why[256]) {
  const struct model *m = site_run_model(r, side), *source = site_run_model(r, BEFORE);
  const uint32_t graph = site_run_graph(r, BEFORE, s->graph);
  const uint32_t name =
      side == BEFORE ? NO_ID : model_find_name(source, model_value_name(m, value));
  const uint32_t there = side == BEFORE  ? value
                         : name == NO_ID ? NO_ID
                                         : model_value_in(source, graph, name);
  if (there != NO_ID)
    return draw_value(r->draw[BEFORE], there, s->before, s->n_before, a, x, why) == DRAW_DONE;
  return draw_value(r->draw[AFTER], value, s->after, s->n_after, a, x, why) == DRAW_DONE;
}

static bool draw_pair(struct site_run *r, const struct site *s, const struct site_pair *p,
                      struct arena *a, struct array x[SIDES], char why[256]) {
  if (p->before == NO_ID || p->after == NO_ID) {
    const int side = p->before == NO_ID ? AFTER : BEFORE;
    if (!draw_alone(r, s, side, side == BEFORE ? p->before : p->after, a, &x[side], why))
      return false;
    x[!side] = x[side];
    return true;
  }
  if (draw_value(r->draw[BEFORE], p->before, s->before, s->n_before, a, &x[BEFORE], why) !=
      DRAW_DONE)
    return false;
  fit_codes(site_run_model(r, AFTER), p->after, a, &x[BEFORE]);
  const enum dtype to = site_run_dtype(r->infer[AFTER], p->after);
  x[AFTER] = x[BEFORE];
  if (to == DTYPE_UNDEFINED || to == x[BEFORE].dtype) return true;
  // Elements that both types hold: through the other type and back.
  struct array there, back;
  if (!draw_retype(&x[BEFORE], to, a, &there) || !draw_retype(&there, x[BEFORE].dtype, a, &back)) {
    snprintf(why, 256, "a value is %s before and %s after", dtype_name(x[BEFORE].dtype),
             dtype_name(to));
    return false;
  }
  x[BEFORE] = back;
  x[AFTER] = there;
  return true;
}

static bool is_own(const struct site_run *r, int side, uint32_t value) {
  const struct model *m = site_run_model(r, side);
  struct model_constant found;
  return value == NO_ID || model_resolve_constant(m, value, &found) ||
         (m->values[value].kind == VALUE_INITIALIZER &&
          !(m->tensors[m->values[value].def].flags & TENSOR_SPARSE));
}

// An initializer that callers may override keeps its elements, on both sides: edits may hold for what it is alone, as where it
// is a constant from then on. Left out of what a part is given, it is a constant of the part.
static bool keeps_elements(const struct site_run *r, const struct site_pair *p) {
  return is_own(r, BEFORE, p->before) && is_own(r, AFTER, p->after);
}

// Of two values of the source that are one in the result, or the other way round, both have the same elements: the first
// pair before this one that has one of its values, or `i`.
static uint32_t fed_already(const struct site_run *r, const struct site *s, uint32_t i) {
  const struct site_pair *p = s->inputs;
  for (uint32_t k = 0; k < i; k++)
    if (!keeps_elements(r, &p[k]) && ((p[i].before != NO_ID && p[k].before == p[i].before) ||
                                      (p[i].after != NO_ID && p[k].after == p[i].after)))
      return k;
  return i;
}

// The arrays of pair `same`, for another pair: of the types that its values have.
static bool feed_again(const struct site_run *r, const struct site_pair *p,
                       const struct array fed[SIDES], struct array x[SIDES], char why[256]) {
  const uint32_t value[SIDES] = {p->before, p->after};
  for (int side = 0; side < SIDES; side++) {
    x[side] = fed[side];
    const enum dtype to =
        value[side] == NO_ID ? DTYPE_UNDEFINED : site_run_dtype(r->infer[side], value[side]);
    if (to == DTYPE_UNDEFINED || to == x[side].dtype) continue;
    snprintf(why, 256, "a value has two types, %s and %s", dtype_name(to),
             dtype_name(x[side].dtype));
    return false;
  }
  return true;
}

// Inputs of a side: those that it reads.
static void add_feed(const struct site_run *r, struct site_feeds *f, int side, uint32_t value,
                     struct array x, struct arena *a) {
  struct arrays *list = &f->of[side];
  if (value == NO_ID) return;
  x.name = arena_string(a, model_value_name(site_run_model(r, side), value));
  if (array_named(list, x.name)) return; // two pairs may share a value
  f->inputs[side][list->n] = (struct part_input){value, x.dtype, x.dims, x.rank};
  list->list[list->n++] = x;
}

bool site_feeds_draw(struct site_run *r, const struct site *s, struct arena *a,
                     struct site_feeds *f, char why[256]) {
  struct array(*drawn)[SIDES] = arena_zalloc(a, (s->n_inputs + (size_t)1) * sizeof *drawn);
  for (int side = 0; side < SIDES; side++) {
    f->of[side] =
        (struct arrays){arena_zalloc(a, (s->n_inputs + (size_t)1) * sizeof(struct array)), 0};
    f->inputs[side] = arena_zalloc(a, (s->n_inputs + (size_t)1) * sizeof(struct part_input));
  }
  for (uint32_t i = 0; i < s->n_inputs; i++) {
    const struct site_pair *p = &s->inputs[i];
    if (keeps_elements(r, p)) continue;
    const uint32_t same = fed_already(r, s, i);
    if (same < i ? !feed_again(r, p, drawn[same], drawn[i], why)
                 : !draw_pair(r, s, p, a, drawn[i], why))
      return false;
    add_feed(r, f, BEFORE, p->before, drawn[i][BEFORE], a);
    add_feed(r, f, AFTER, p->after, drawn[i][AFTER], a);
  }
  return true;
}
