// Constants: which tensor a value is, what is in it, and what can be said of all of it.
//
//   at hand    small tensors (model_small_value), literals a pass made, and what was read
//   read       float vectors up to 64 KiB: scales, biases, means of normalizations. Too many to keep
//              for every model, small enough to be asked for; once a tensor and run of a pass
//   fills      one element repeated: known whatever the size
//   the rest   not known
//
// A vector that was read decided something, so the edit log says which and what was in it
// (edit_look). A tensor that cannot be read counts as not known, and the kit remembers why.
#include "passes/kit/inside/kit_inside.h"

#include "base/digest.h"

bool kit_constant(const struct kit *k, uint32_t value, uint32_t *tensor) {
  struct model_constant c;
  *tensor = NO_ID;
  if (value == NO_ID || !model_resolve_constant(k->m, value, &c)) return false;
  *tensor = c.tensor;
  return true;
}

// ---- elements ----------------------------------------------------------------------------------

static bool is_float_vector(const struct kit *k, uint32_t tensor) {
  const struct model_tensor *t = &k->m->tensors[tensor];
  return t->rank <= 1 && t->bytes <= KIT_VECTOR_BYTES && dtype_is_plain_float((enum dtype)t->dtype);
}

// A vector may be made of large weights (the scales of a quantized one): that is no look any more.
static bool is_cheap(const struct kit *k, uint32_t recipe) {
  enum { MOST = 64 };
  uint32_t list[MOST], n = 0;
  if (recipe != NO_ID) list[n++] = recipe;
  for (uint32_t i = 0; i < n; i++) {
    const struct recipe *x = &k->r->rows[list[i]];
    if (x->bytes > KIT_LONG_BYTES || n + (uint64_t)x->n_args > MOST) return false;
    for (uint32_t a = 0; a < x->n_args; a++)
      list[n++] = k->r->args[x->args + a];
  }
  return true;
}

static bool read_vector(struct kit *k, uint32_t tensor, struct span *raw) {
  struct kit_inside *in = k->in;
  const struct model_tensor *t = &k->m->tensors[tensor];
  const uint32_t before = kit_map_get(&in->read_of, tensor);
  if (before && in->reads[before - 1].recipe == t->recipe) {
    *raw = span_of(in->reads[before - 1].at, (size_t)t->bytes);
    return true;
  }
  if (!k->env->read || !edit_tensor_readable(k->e, tensor) || in->err.kind != ERR_NONE)
    return false;
  if (!is_cheap(k, t->recipe)) return false;
  uint8_t *at = arena_alloc(&in->arena, (size_t)t->bytes + 1);
  if (k->env->read(k->env->read_ctx, tensor, at, (size_t)t->bytes, &in->err)) {
    err_fill(&in->err, ERR_INTERNAL, "tensor %u could not be read, and the reader gave no reason",
             tensor);
    return false;
  }
  *raw = span_of(at, (size_t)t->bytes);
  const uint32_t row = before ? before - 1 : TABLE_ADD(in, reads, 1);
  in->reads[row] = (struct kit_read){t->recipe, at};
  *kit_map_at(&in->read_of, tensor) = row + 1;
  struct edit_look look = {.tensor = tensor};
  digest_of(raw->at, raw->n, look.sha256);
  edit_look(k->e, &look);
  return true;
}

bool kit_tensor_elements(struct kit *k, uint32_t tensor, struct span *raw) {
  const struct model_tensor *t = &k->m->tensors[tensor];
  if (t->flags & TENSOR_SPARSE) return false;
  if (model_small_value(k->m, tensor, raw)) return true;
  if (t->recipe != NO_ID && k->r->rows[t->recipe].kind == RECIPE_BYTES) {
    *raw = span_of(k->r->bytes + k->r->rows[t->recipe].at, (size_t)t->bytes);
    return true;
  }
  return is_float_vector(k, tensor) && read_vector(k, tensor, raw);
}

bool kit_elements(struct kit *k, uint32_t value, enum dtype *dtype, struct span *raw) {
  uint32_t tensor;
  *dtype = DTYPE_UNDEFINED;
  if (!kit_constant(k, value, &tensor)) return false;
  *dtype = (enum dtype)k->m->tensors[tensor].dtype;
  return kit_tensor_elements(k, tensor, raw);
}

bool kit_long_elements(struct kit *k, uint32_t value, enum dtype *dtype, struct span *raw) {
  uint32_t tensor;
  if (kit_elements(k, value, dtype, raw)) return true;
  if (!kit_constant(k, value, &tensor)) return false;
  const struct model_tensor *t = &k->m->tensors[tensor];
  return !(t->flags & TENSOR_SPARSE) && t->rank <= 2 && t->bytes <= KIT_LONG_BYTES &&
         dtype_bits(*dtype) >= 8 && read_vector(k, tensor, raw);
}

// ---- numbers -----------------------------------------------------------------------------------

static bool count_of(const struct kit *k, uint32_t tensor, uint64_t *count) {
  const struct model_tensor *t = &k->m->tensors[tensor];
  return dims_product(model_dims(k->m, t), t->rank, count);
}

// The element that a fill repeats: its own bytes are one element's.
static bool fill_of(const struct kit *k, uint32_t tensor, struct kit_number *out) {
  const struct model_tensor *t = &k->m->tensors[tensor];
  if (t->recipe == NO_ID || k->r->rows[t->recipe].kind != RECIPE_FILL) return false;
  return kit_number_at((enum dtype)t->dtype, k->r->bytes + k->r->rows[t->recipe].at, 0, out);
}

bool kit_const_number(struct kit *k, uint32_t value, struct kit_number *out) {
  uint32_t tensor, n;
  uint64_t count;
  struct span raw;
  enum dtype dtype;
  const int64_t *list;
  *out = (struct kit_number){.dtype = DTYPE_UNDEFINED};
  if (kit_constant(k, value, &tensor)) {
    if (!count_of(k, tensor, &count) || count != 1) return false;
    if (fill_of(k, tensor, out)) return true;
    return kit_tensor_elements(k, tensor, &raw) &&
           kit_number_at((enum dtype)k->m->tensors[tensor].dtype, raw.at, 0, out);
  }
  if (!kit_chain_ints(k, value, &dtype, &list, &n) || n != 1) return false;
  *out = (struct kit_number){dtype, (double)list[0], list[0], true};
  return true;
}

bool kit_const_scalar(struct kit *k, uint32_t value, double *out) {
  struct kit_number x;
  const bool known = kit_const_number(k, value, &x);
  *out = x.d;
  return known;
}

bool kit_const_int(struct kit *k, uint32_t value, int64_t *out) {
  struct kit_number x;
  const bool known = kit_const_number(k, value, &x) && x.exact;
  *out = known ? x.i : 0;
  return known;
}

bool kit_const_ints(struct kit *k, uint32_t value, const int64_t **list, uint32_t *n) {
  enum dtype dtype;
  struct span raw;
  uint32_t tensor;
  uint64_t count;
  *list = NULL;
  *n = 0;
  if (!kit_constant(k, value, &tensor)) return kit_chain_ints(k, value, &dtype, list, n);
  dtype = (enum dtype)k->m->tensors[tensor].dtype;
  if (!dtype_is_integer(dtype) || !count_of(k, tensor, &count)) return false;
  if (!kit_tensor_elements(k, tensor, &raw)) return false;
  int64_t *out = arena_alloc(&k->site, (size_t)(count + 1) * sizeof *out);
  for (uint64_t i = 0; i < count; i++) {
    struct kit_number x;
    if (!kit_number_at(dtype, raw.at, i, &x) || !x.exact) return false;
    out[i] = x.i;
  }
  *list = out;
  *n = (uint32_t)count;
  return true;
}

bool kit_const_floats(struct kit *k, uint32_t value, const double **list, uint32_t *n) {
  enum dtype dtype;
  struct span raw;
  *list = NULL;
  *n = 0;
  if (!kit_elements(k, value, &dtype, &raw) || !dtype_is_float(dtype)) return false;
  const uint32_t bits = dtype_bits(dtype);
  const uint64_t count = (uint64_t)raw.n * 8 / bits;
  double *out = arena_alloc(&k->site, (size_t)(count + 1) * sizeof *out);
  for (uint64_t i = 0; i < count; i++) {
    struct kit_number x;
    if (!kit_number_at(dtype, raw.at, i, &x)) return false;
    out[i] = x.d;
  }
  *list = out;
  *n = (uint32_t)count;
  return true;
}

// ---- all of it ---------------------------------------------------------------------------------

static bool same_bits(const uint8_t *raw, uint64_t count, uint32_t bits) {
  for (uint64_t i = 1; i < count; i++) {
    if (bits >= 8) {
      if (memcmp(raw, raw + i * (bits / 8), bits / 8) != 0) return false;
    } else {
      const unsigned mask = (1u << bits) - 1;
      const unsigned x = (uint32_t)raw[i * bits / 8] >> (i * bits % 8);
      if ((x & mask) != (raw[0] & mask)) return false;
    }
  }
  return true;
}

enum kit_answer kit_const_fill(struct kit *k, uint32_t value, struct kit_number *out) {
  uint32_t tensor;
  uint64_t count;
  struct span raw;
  *out = (struct kit_number){.dtype = DTYPE_UNDEFINED};
  if (!kit_constant(k, value, &tensor) || !count_of(k, tensor, &count) || count == 0) return KIT_NO;
  const enum dtype dtype = (enum dtype)k->m->tensors[tensor].dtype;
  if (fill_of(k, tensor, out)) return KIT_YES;
  if (!kit_tensor_elements(k, tensor, &raw) || !kit_number_at(dtype, raw.at, 0, out))
    return KIT_MAYBE;
  return same_bits(raw.at, count, dtype_bits(dtype)) ? KIT_YES : KIT_NO;
}

enum kit_answer kit_const_all(struct kit *k, uint32_t value, double number) {
  uint32_t tensor;
  uint64_t count;
  struct span raw;
  struct kit_number x;
  if (!kit_constant(k, value, &tensor) || !count_of(k, tensor, &count) || count == 0) return KIT_NO;
  if (fill_of(k, tensor, &x)) return x.d == number ? KIT_YES : KIT_NO;
  if (!kit_tensor_elements(k, tensor, &raw)) return KIT_MAYBE;
  for (uint64_t i = 0; i < count; i++) {
    if (!kit_number_at((enum dtype)k->m->tensors[tensor].dtype, raw.at, i, &x)) return KIT_MAYBE;
    if (x.d != number) return KIT_NO;
  }
  return KIT_YES;
}
