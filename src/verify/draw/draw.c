// Inputs for a case: sizes from draw_bind.c, wants from draw_want.c, elements from draw_elements.c. Here is what asks
// them.
//
// What is known of a value is asked of inference with the numbers of this case. Sizes that depend on elements (NonZero,
// a Range to what is drawn) are symbols there: each gets a small number when it is first met, the same one
// nearly always, so that two that must be equal are; the whole case keeps it.
#include "verify/draw/inside/draw_parts.h"

#include "kernels/convert/kernels_convert.h"

#include <stdio.h>

enum { SMALL = 4 };

int draw_open(struct draw **out, struct infer *in, const struct model *m,
              const struct draw_options *o, struct err *err) {
  struct arena a = {0};
  struct draw *d = arena_zalloc(&a, sizeof *d);
  *d = (struct draw){.in = in, .m = m, .o = *o, .factor = 1, .arena = a};
  model_calls_init(&d->calls, m);
  if (draw_bind(d, err) < 0) {
    draw_close(d);
    return -1;
  }
  *out = d;
  return 0;
}

void draw_close(struct draw *d) {
  if (!d) return;
  if (d->sized != d->in) infer_free(d->sized);
  model_calls_done(&d->calls);
  TABLES_FREE(d, inputs, symbols, bound, small);
  struct arena kept = d->arena; // it holds *d too
  arena_free(&kept);
}

// ---- what is known ------------------------------------------------------------------------------------

// An expression that cannot be evaluated, or is negative, with small numbers for what is new in it: other ones.
static bool try_small(struct draw *d, dim_id e, uint32_t first, int64_t *out) {
  static const int64_t others[] = {SMALL, 8, 12, 16, 2, 1, 3, 5, 6, 32, 64};
  struct dims *t = infer_dims(d->sized);
  for (uint32_t k = 0; k < sizeof others / sizeof *others; k++) {
    for (uint32_t i = first; i < d->n_small; i++)
      d->small[i].value = others[k];
    if (dims_value(t, e, d->small, d->n_small, out) && *out > 0) return true;
    if (first == d->n_small) break;
  }
  return dims_value(t, e, d->small, d->n_small, out) && *out >= 0;
}

static bool number_of(struct draw *d, dim_id e, int64_t *out) {
  struct dims *t = infer_dims(d->sized);
  if (e == NO_ID) return false;
  e = dims_find(t, e);
  if (dims_is_number(t, e, out)) return true;
  const uint32_t first = d->n_small;
  for (dim_id s; (s = dims_unbound(t, e, d->small, d->n_small)) != NO_ID;)
    *TABLE_PUSH(d, small) = (struct dims_binding){s, SMALL};
  return first < d->n_small ? try_small(d, e, first, out)
                            : dims_value(t, e, d->small, d->n_small, out);
}

bool draw_dims(struct draw *d, uint32_t value, int64_t dims[ARRAY_MAX_RANK], uint32_t *rank) {
  struct infer_type t;
  if (value == NO_ID || !infer_type_of(d->sized, value, &t) || t.kind != INFER_TENSOR ||
      !t.ranked || t.rank > ARRAY_MAX_RANK)
    return false;
  for (uint32_t i = 0; i < t.rank; i++)
    if (!number_of(d, t.dims[i], &dims[i]) || dims[i] < 0) return false;
  *rank = t.rank;
  return true;
}

static bool constant_numbers(struct draw *d, uint32_t value, double *list, uint32_t room,
                             uint32_t *n) {
  struct model_constant c;
  struct span bytes;
  if (!model_resolve_constant(d->m, value, &c) || !model_small_value(d->m, c.tensor, &bytes))
    return false;
  const struct model_tensor *t = &d->m->tensors[c.tensor];
  const uint32_t bits = dtype_bits((enum dtype)t->dtype);
  if (bits < 8 || !kernels_convert_takes((enum dtype)t->dtype) || bytes.n / (bits / 8) > room)
    return false;
  *n = (uint32_t)(bytes.n / (bits / 8));
  kernels_convert(list, bytes.at, *n, &(struct kernels_cast){.from = t->dtype, .to = DTYPE_DOUBLE});
  return true;
}

bool draw_known(struct draw *d, uint32_t value, double *list, uint32_t room, uint32_t *n) {
  const struct infer_number *numbers;
  int64_t x;
  if (value == NO_ID) return false;
  if (constant_numbers(d, value, list, room, n)) return true;
  if (!infer_numbers(d->sized, value, &numbers, n) || *n > room) return false;
  for (uint32_t i = 0; i < *n; i++) {
    if (!number_of(d, numbers[i].num, &x)) return false;
    list[i] = (double)x / (double)numbers[i].den;
  }
  return true;
}

// ---- values --------------------------------------------------------------------------------------------

static enum draw_end cannot(char why[256], const char *words) {
  snprintf(why, 256, "%s", words);
  return DRAW_CANNOT;
}

static enum draw_end check_type(struct draw *d, uint32_t value, struct infer_type *t,
                                char why[256]) {
  const bool known = infer_type_of(d->sized, value, t);
  if (t->kind == INFER_SEQUENCE) return cannot(why, "it is a sequence");
  if (t->kind == INFER_OPTIONAL) return cannot(why, "it is an optional");
  if (t->kind == INFER_OTHER) return cannot(why, "it is not a tensor");
  if (!known || t->dtype == DTYPE_UNDEFINED) return cannot(why, "its type " DRAW_NOT_KNOWN);
  if (!t->ranked) return cannot(why, "its rank " DRAW_NOT_KNOWN);
  return DRAW_DONE;
}

static const struct draw_input *input_of(const struct draw *d, uint32_t value) {
  for (uint32_t i = 0; i < d->n_inputs; i++)
    if (d->inputs[i].value == value) return &d->inputs[i];
  return NULL;
}

enum draw_end draw_value(struct draw *d, uint32_t value, const uint32_t *users, uint32_t n_users,
                         struct arena *a, struct array *out, char why[256]) {
  struct infer_type t;
  int64_t dims[ARRAY_MAX_RANK];
  uint32_t rank;
  uint64_t count, bytes;
  if (check_type(d, value, &t, why) != DRAW_DONE) return DRAW_CANNOT;
  if (!draw_dims(d, value, dims, &rank)) return cannot(why, "no size fits its dims");
  if (t.dtype == DTYPE_STRING)
    return draw_strings(d, value, dims, rank, a, out)
               ? DRAW_DONE
               : cannot(why, "it is larger than the largest input that weir draws");
  if (!dims_product(dims, rank, &count) || !dtype_bytes(t.dtype, count, &bytes) ||
      bytes > DRAW_BYTES_MAX)
    return cannot(why, "it is larger than the largest input that weir draws");
  uint8_t *at =
      array_make(out, model_name_str(d->m, d->m->values[value].name), t.dtype, rank, dims, a);
  if (!at) return cannot(why, "its type has no elements that can be drawn");
  draw_elements(d, &(struct draw_asked){value, users, n_users, input_of(d, value)}, out, at);
  return DRAW_DONE;
}

enum draw_end draw_inputs(struct draw *d, struct arena *a, struct arrays *out, char why[256]) {
  out->list = arena_zalloc(a, d->n_inputs * sizeof *out->list + 1);
  out->n = 0;
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    const uint32_t value = d->inputs[i].value;
    char reason[256];
    if (draw_value(d, value, NULL, 0, a, &out->list[out->n], reason) != DRAW_DONE) {
      snprintf(why, 256, "weir cannot draw a sample for input '%.100s': %.100s",
               quote(model_value_name(d->m, value)).s, reason);
      return DRAW_CANNOT;
    }
    out->n++;
  }
  return DRAW_DONE;
}

void draw_enlarge(struct draw *d, float factor) {
  d->factor = factor;
}

uint32_t draw_shapes(const struct draw *d, struct arena *a, struct draw_shape **out) {
  struct draw_shape *list = arena_alloc(a, d->n_inputs * sizeof *list + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    const struct draw_input *x = &d->inputs[i];
    if (!x->dims) continue;
    int64_t *dims = arena_copy(a, x->dims, x->type.rank * sizeof *dims);
    list[n++] =
        (struct draw_shape){arena_string(a, model_value_name(d->m, x->value)), dims, x->type.rank};
  }
  *out = list;
  return n;
}

bool draw_open_alike(struct draw *out[2], struct infer *const in[2], const struct model *const m[2],
                     int from, const struct draw_options *o, struct arena *a, struct err *err) {
  struct draw_options same = *o;
  struct draw_shape *shapes;
  struct err ignored = {0};
  if (draw_open(&out[from], in[from], m[from], o, err)) return false;
  same.n_shapes = draw_shapes(out[from], a, &shapes);
  same.shapes = shapes;
  if (draw_open(&out[!from], in[!from], m[!from], &same, &ignored) == 0) return true;
  draw_close(out[from]);
  out[from] = NULL;
  return false;
}

const char *draw_words(const struct draw *d, struct arena *a) {
  const char *words = "";
  for (uint32_t i = 0; i < d->n_symbols; i++)
    words = arena_printf(a, "%s%s%s=%s", words, i ? ", " : "", d->symbols[i].words,
                         integer(d->bound[i].value).s);
  return words;
}
