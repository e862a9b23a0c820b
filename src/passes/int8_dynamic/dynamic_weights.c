// Constants in codes: which constant a node reads, how it is quantized, and its codes, scales and zero
// points as recipes, once for all nodes that take them in the same form.
//
//   E ─┬─▶ Gather              E_quantized    uint8 [V,D], one scale
//      └─▶ Gemm(transB)        E_1_quantized  int8 [D,V], a scale a column: a recipe of its own over E
//
// quantize_dynamic keeps one form for each name, and transposes its bytes where an operator wants that: two
// operators that want different layouts then read each other's. With --compat the first form is taken by later
// nodes too where it means the same to them.
#include "passes/int8/int8.h"
#include "passes/int8_dynamic/inside/dynamic.h"
#include "passes/kit/weights.h"

// ---- the constant ------------------------------------------------------------------------------

// The value before an Identity or a Transpose that swaps the axes of a matrix; else NO_ID.
static uint32_t step_back(struct kit *k, uint32_t value, bool *swapped) {
  const uint32_t node = kit_maker(k, value);
  const int64_t *perm;
  uint32_t n;
  *swapped = kit_op(k, node) == OP_Transpose;
  if (kit_op(k, node) == OP_Identity) return kit_in(k, node, 0);
  if (!*swapped || !kit_perm(k, node, &perm, &n) || n != 2 || perm[0] != 1 || perm[1] != 0)
    return NO_ID;
  return kit_in(k, node, 0);
}

// With --compat a constant is an initializer: what quantize_dynamic looks for. Else it may be what nodes make of one, where no
// Transpose is left to be walked through (`last`).
static bool resolve(struct dynamic *d, uint32_t value, bool last, struct model_constant *c) {
  const struct model *m = d->k.m;
  if (d->o->compat && m->values[value].kind != VALUE_INITIALIZER) return false;
  if (!d->o->compat && last) return kit_weight(&d->k, value, c);
  return model_resolve_constant(m, value, c);
}

static const char *no_constant(struct dynamic *d, uint32_t value) {
  return kit_is_overridable(d->k.m, value) ? "overridable_weight" : "non_constant_weight";
}

const char *dynamic_weights_unfit(const struct dynamic *d, const struct dynamic_operand *w) {
  const struct model_tensor *t = &d->k.m->tensors[w->tensor];
  uint64_t count;
  if (t->dtype != DTYPE_FLOAT && t->dtype != DTYPE_FLOAT16) return "weight_dtype";
  if (t->rank > RECIPE_MAX_RANK || !edit_tensor_readable(d->k.e, w->tensor)) return "weight_rank";
  if (!dims_product(model_dims(d->k.m, t), t->rank, &count) || count == 0) return "empty_weight";
  return NULL;
}

bool dynamic_types_differ(struct dynamic *d, uint32_t a, uint32_t b) {
  const enum dtype of_a = kit_dtype(&d->k, a), of_b = kit_dtype(&d->k, b);
  return of_a != DTYPE_UNDEFINED && of_b != DTYPE_UNDEFINED && of_a != of_b;
}

const struct dynamic_operand dynamic_no_operand = {NO_ID, NO_ID, NO_ID, NO_ID, false};

bool dynamic_weights_find(struct dynamic *d, uint32_t node, uint32_t slot, bool turned,
                          struct dynamic_operand *out, const char **why) {
  const uint32_t read = kit_in(&d->k, node, slot);
  struct model_constant c;
  uint32_t value = read;
  bool swapped = false, turns = false;
  *out = dynamic_no_operand;
  out->read = read;
  *why = "non_constant_weight";
  // A chain is at most as long as there are nodes; a cycle ends here too.
  for (uint32_t steps = 0; value != NO_ID && steps <= d->k.m->n_nodes; steps++) {
    const bool walks = turned && !d->o->compat;
    const uint32_t before = walks ? step_back(&d->k, value, &swapped) : NO_ID;
    if (resolve(d, value, before == NO_ID, &c)) {
      *out = (struct dynamic_operand){c.tensor, c.value, read, turns ? read : c.value,
                                      out->transposed};
      *why = dynamic_weights_unfit(d, out);
      if (!*why && turns && d->k.m->tensors[c.tensor].rank != 2) *why = "non_constant_weight";
      if (!*why && !weights_takes_integers(d->k.m, d->k.m->values[c.value].graph))
        *why = "opset_too_old";
      return *why == NULL;
    }
    value = before;
    out->transposed ^= swapped;
    turns |= swapped;
  }
  if (read != NO_ID) *why = no_constant(d, read);
  return false;
}

uint32_t dynamic_weights_rank(const struct dynamic *d, const struct dynamic_operand *w) {
  return d->k.m->tensors[w->tensor].rank;
}

int64_t dynamic_weights_dim(const struct dynamic *d, const struct dynamic_operand *w, uint32_t i) {
  const struct model_tensor *t = &d->k.m->tensors[w->tensor];
  return model_dims(d->k.m, t)[w->transposed ? t->rank - 1 - i : i];
}

// ---- how ---------------------------------------------------------------------------------------

static bool is_symmetric(uint32_t said, enum dtype type) {
  return said == DYNAMIC_BY_TYPE ? type == DTYPE_INT8 : said == DYNAMIC_SYMMETRIC;
}

static bool is_unsigned(const struct dynamic *d, const struct dynamic_site *s) {
  if (s->override && s->override->has_type) return s->override->is_unsigned;
  if (d->o->weight_type != DYNAMIC_AUTO) return d->o->weight_type == DYNAMIC_UINT8;
  return s->weights[0].tensor < d->n_wants_zeros && d->wants_zeros[s->weights[0].tensor];
}

struct dynamic_as dynamic_weights_as(const struct dynamic *d, const struct dynamic_site *s,
                                     uint32_t axis, enum dynamic_layout layout) {
  const struct dynamic_options *o = d->o;
  const struct dynamic_override *x = s->override;
  const bool whole = x && x->has_axis ? x->per_tensor : o->compat ? !o->per_channel : o->per_tensor;
  struct dynamic_as as = {.type = is_unsigned(d, s) ? DTYPE_UINT8 : DTYPE_INT8,
                          .reduced = x && x->has_reduced ? x->reduced : o->reduce_range,
                          .axis = whole ? RECIPE_PER_TENSOR : axis,
                          .zeros = o->form == DYNAMIC_INTEGER || layout == DYNAMIC_RECURRENT,
                          .layout = layout};
  if (layout == DYNAMIC_RECURRENT) as.type = DTYPE_INT8;
  as.symmetric = is_symmetric(o->weight_symmetric, as.type);
  // ConvInteger takes one zero point for all channels, DynamicQuantizeLSTM takes no other than 0 with scales by channel: those of
  // symmetric ranges.
  const bool same_zeros = layout == DYNAMIC_FILTERS || layout == DYNAMIC_RECURRENT;
  if (same_zeros && as.axis != RECIPE_PER_TENSOR) as.symmetric = true;
  return as;
}

struct dynamic_as dynamic_weights_as_activation(const struct dynamic *d) {
  const struct dynamic_options *o = d->o;
  const uint32_t own = o->activation_symmetric ? DYNAMIC_SYMMETRIC : DYNAMIC_BY_TYPE;
  const uint32_t said = o->compat && o->weight_type ? o->weight_symmetric : own;
  return (struct dynamic_as){.type = DTYPE_UINT8,
                             .symmetric = is_symmetric(said, DTYPE_UINT8),
                             .zeros = true,
                             .axis = RECIPE_PER_TENSOR};
}

// ---- recipes -----------------------------------------------------------------------------------

// The elements that are quantized. float16 is widened: what computes with the scales is float32.
static uint32_t elements(struct dynamic *d, const struct dynamic_operand *w,
                         const struct dynamic_as *as) {
  static const int64_t swap[2] = {1, 0};
  struct recipes *r = d->k.r;
  uint32_t of = edit_tensor_recipe(d->k.e, w->tensor);
  if (r->rows[of].dtype == DTYPE_FLOAT16) of = recipe_cast(r, of, DTYPE_FLOAT);
  if (as->layout == DYNAMIC_RECURRENT && as->axis == 1) {
    const int64_t *dims = recipe_dims(r, of);
    const int64_t rows[2] = {dims[0] * dims[1], dims[2]};
    return recipe_reshape(r, of, rows, 2);
  }
  return w->transposed ? recipe_transpose(r, of, swap) : of;
}

static uint32_t channels_axis(const struct dynamic_as *as) {
  return as->layout == DYNAMIC_RECURRENT ? 0 : as->axis;
}

static struct int8_parts parts(struct dynamic *d, uint32_t of, const struct dynamic_as *as) {
  const struct int8_weight_as form = {.type = as->type,
                                      .symmetric = as->symmetric,
                                      .reduced = as->reduced,
                                      .guard = int8_guard(d->o->compat),
                                      .axis = channels_axis(as)};
  return int8_found(d->k.r, of, &form);
}

// [D,4H,K] as it was, and its last two axes swapped.
static uint32_t recurrent_codes(struct dynamic *d, const struct dynamic_operand *w,
                                uint32_t codes) {
  static const int64_t last[3] = {0, 2, 1};
  const int64_t dims[3] = {dynamic_weights_dim(d, w, 0), dynamic_weights_dim(d, w, 1),
                           dynamic_weights_dim(d, w, 2)};
  return recipe_transpose(d->k.r, recipe_reshape(d->k.r, codes, dims, 3), last);
}

// Scales and zero points as the operator reads them.
static uint32_t spread(struct dynamic *d, const struct dynamic_operand *w,
                       const struct dynamic_as *as, uint32_t of) {
  int64_t dims[RECIPE_MAX_RANK];
  const uint32_t rank = dynamic_weights_rank(d, w);
  if (as->axis == RECIPE_PER_TENSOR || as->layout == DYNAMIC_PLAIN) return of;
  if (as->layout == DYNAMIC_RECURRENT && as->axis == 0) return of;
  if (as->layout == DYNAMIC_RECURRENT) {
    dims[0] = dynamic_weights_dim(d, w, 0), dims[1] = dynamic_weights_dim(d, w, 1);
    return recipe_reshape(d->k.r, of, dims, 2);
  }
  dims[0] = dynamic_weights_dim(d, w, 0);
  for (uint32_t i = 1; i + 1 < rank; i++)
    dims[i] = 1;
  return recipe_reshape(d->k.r, of, dims, rank - 1);
}

static uint32_t zeros(struct dynamic *d, const struct dynamic_operand *w,
                      const struct dynamic_as *as, uint32_t found) {
  const int64_t middle = as->type == DTYPE_INT8 ? 0 : as->reduced ? 64 : 128;
  if (as->layout == DYNAMIC_FILTERS && as->axis != RECIPE_PER_TENSOR)
    return int8_codes(d->k.r, as->type, &middle, NO_ID);
  return spread(d, w, as, found);
}

// ---- rows --------------------------------------------------------------------------------------

static bool serves(const struct dynamic *d, const struct dynamic_stored *s,
                   const struct dynamic_operand *w, const struct dynamic_as *as) {
  if (s->transposed != w->transposed || s->as.layout != as->layout) return false;
  if (d->o->compat && as->layout == DYNAMIC_PLAIN)
    return s->as.axis == RECIPE_PER_TENSOR || s->as.axis == as->axis;
  return s->as.type == as->type && (s->codes.zero != NO_ID || !as->zeros) &&
         s->as.symmetric == as->symmetric && s->as.reduced == as->reduced && s->as.axis == as->axis;
}

static uint32_t put(struct dynamic *d, const struct dynamic_operand *w, struct span name,
                    uint32_t recipe) {
  const struct model *m = d->k.m;
  return edit_add_tensor_for(d->k.e, m->values[w->value].graph, name, recipe, w->tensor,
                             m->values[w->named].name);
}

static struct dynamic_stored make(struct dynamic *d, const struct dynamic_operand *w,
                                  const struct dynamic_as *as) {
  static const char *const suffixes[3] = {"_quantized", "_scale", "_zero_point"};
  struct kit *k = &d->k;
  struct span names[3];
  const struct span base = model_value_name(k->m, w->named);
  const struct span stem =
      kit_names_family(&k->names, KIT_VALUES, k->graph,
                       span_of(arena_string(&k->site, base), base.n), suffixes, 3, &k->site);
  for (uint32_t i = 0; i < 3; i++)
    names[i] = kit_names_join(stem, suffixes[i], &k->site);
  const struct int8_parts found = parts(d, elements(d, w, as), as);
  const uint32_t scales = spread(d, w, as, found.scales);
  const uint32_t codes =
      as->layout == DYNAMIC_RECURRENT ? recurrent_codes(d, w, found.codes) : found.codes;
  struct dynamic_stored s = {.tensor = w->tensor, .transposed = w->transposed, .as = *as};
  s.recipe = codes;
  s.codes.per_channel = as->axis != RECIPE_PER_TENSOR;
  s.codes.half = d->k.m->tensors[w->tensor].dtype == DTYPE_FLOAT16;
  // First in the file: a look at the elements for their ranges leaves them in hand for their codes.
  s.codes.codes = put(d, w, names[0], codes);
  s.codes.scale = put(d, w, names[1], scales);
  const bool none = !as->zeros && as->symmetric && as->type == DTYPE_INT8;
  s.codes.zero = none ? NO_ID : put(d, w, names[2], zeros(d, w, as, found.zeros));
  return s;
}

static void note_recipe(struct dynamic *d, const struct dynamic_operand *w, uint32_t recipe) {
  for (uint32_t i = 0; i < d->site->n_weights; i++)
    if (w == &d->site->weights[i]) d->recipes[i] = recipe;
}

struct dynamic_codes dynamic_weights_store(struct dynamic *d, const struct dynamic_operand *w,
                                           const struct dynamic_as *as) {
  if (w->tensor >= d->n_of_tensor) TABLE_ADD(d, of_tensor, w->tensor + 1 - d->n_of_tensor);
  for (uint32_t i = d->of_tensor[w->tensor]; i != 0; i = d->stored[i - 1].next)
    if (serves(d, &d->stored[i - 1], w, as)) {
      note_recipe(d, w, d->stored[i - 1].recipe);
      return d->stored[i - 1].codes;
    }
  struct dynamic_stored s = make(d, w, as);
  s.next = d->of_tensor[w->tensor];
  *TABLE_PUSH(d, stored) = s;
  d->of_tensor[w->tensor] = d->n_stored;
  note_recipe(d, w, s.recipe);
  // A float node that reads it from now on reads what the codes stand for (compat).
  if (d->o->compat && as->layout == DYNAMIC_PLAIN && !w->transposed && w->read == w->value &&
      !dynamic_codes_found(d, w->value))
    dynamic_codes_note(d, w->value, &s.codes);
  return s.codes;
}
