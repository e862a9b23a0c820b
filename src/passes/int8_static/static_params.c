// Parameters: of activations by their ranges, of constants by their elements, both as overrides say otherwise.
//
//   activation   range ─▶ scale, zero           numbers: int8_scale_zero
//   constant     elements ─▶ scales, zeros      recipes: found when the weight is read; or by given numbers
//
// A constant that is no weight (an operand of an Add) has the type of activations, and one scale. A scale a channel
// goes with symmetry, since operators on codes want one zero point for all channels; so do the defaults of signed types.
#include "passes/int8_static/inside/static.h"

#include "ranges/ranges.h"

#include <math.h>

// ---- overrides -----------------------------------------------------------------------------------

const struct static_overrides *static_override_of(const struct static_run *s, uint32_t value) {
  if (value >= s->n_override_of || s->override_of[value] == 0) return NULL;
  return &s->overrides[s->override_of[value] - 1];
}

bool static_receives(const struct static_run *s, const struct static_overrides *with,
                     uint32_t node) {
  if (!with) return false;
  if (!with->some_receive) return true;
  const struct span name = model_name(s->k.m, s->k.m->nodes[node].name);
  for (uint32_t i = 0; i < with->n_receivers; i++)
    if (span_eq(with->receivers[i], name)) return true;
  return false;
}

// ---- activations ---------------------------------------------------------------------------------

static bool params_by(struct static_run *s, const struct int8_range *range, bool has_range,
                      const struct static_override *o, enum dtype *type, struct int8_params *out) {
  const struct static_options *opt = s->o;
  struct int8_range r = *range;
  *type = o && o->has_type ? o->type : opt->activation;
  if (o && o->has_scale) {
    *out = (struct int8_params){int8_rounded(r.type, o->scale), o->zero};
    return true;
  }
  if (o && o->has_range) {
    r.least = int8_rounded(r.type, o->least);
    r.most = int8_rounded(r.type, o->most);
  }
  const struct int8_how how = {.type = *type,
                               .symmetric =
                                   o && o->has_symmetric ? o->symmetric : opt->activation_symmetric,
                               .reduced = o && o->has_reduced && o->reduced,
                               .restricted = opt->activation_restricted_asymmetric,
                               .guard = int8_guard(opt->compat),
                               .has_floor = opt->has_real_floor,
                               .real_floor = opt->real_floor};
  return (has_range || (o && o->has_range)) && int8_scale_zero(&r, &how, out) &&
         isfinite(out->scale);
}

bool static_params_of(struct static_run *s, uint32_t value, struct static_params *out) {
  const struct static_overrides *o = static_override_of(s, value);
  const enum dtype type = static_dtype(s, value);
  const bool has = value < s->n_range && s->range[value].type != DTYPE_UNDEFINED;
  struct int8_range range = has ? s->range[value] : (struct int8_range){.type = type};
  *out = (struct static_params){.own = {.scale = 1}};
  if (type == DTYPE_FLOAT || type == DTYPE_FLOAT16) range.type = type;
  if (type == DTYPE_FLOAT16 && s->o->format == STATIC_QOPERATOR) range.type = DTYPE_FLOAT;
  out->scale_type = range.type;
  if (!params_by(s, &range, has, o ? o->of : NULL, &out->type, &out->own)) return false;
  if (!o || !o->convert) return true;
  out->with = o;
  return params_by(s, &range, has, o->convert, &out->converted_type, &out->converted);
}

// ---- constants -----------------------------------------------------------------------------------

bool static_is_per_channel(struct static_run *s, uint32_t value, int64_t axis, const char *op,
                           uint32_t *out) {
  const struct static_overrides *o = static_override_of(s, value);
  struct model_constant c;
  if (!static_is_constant(s, value) || !model_resolve_constant(s->k.m, value, &c)) return false;
  const int64_t rank = s->k.m->tensors[c.tensor].rank;
  if (o ? !o->of->has_axis : !s->o->per_channel) return false;
  for (uint32_t i = 0; op && i < s->o->n_axes; i++)
    if (strcmp(s->o->axes[i].op, op) == 0) axis = s->o->axes[i].axis;
  if (o) axis = o->of->axis;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return false;
  *out = (uint32_t)axis;
  return true;
}

static bool is_signed(enum dtype t) {
  return t == DTYPE_INT4 || t == DTYPE_INT8 || t == DTYPE_INT16 || t == DTYPE_FLOAT8E4M3FN;
}

bool static_is_weight_symmetric(const struct static_options *o, enum dtype type) {
  return o->weight_symmetric == STATIC_BY_TYPE ? is_signed(type)
                                               : o->weight_symmetric == STATIC_TRUE;
}

uint32_t static_recipe(struct static_run *s, uint32_t value) {
  struct model_constant c;
  model_resolve_constant(s->k.m, value, &c);
  const uint32_t of = edit_tensor_recipe(s->k.e, c.tensor);
  const bool wide = s->o->format == STATIC_QOPERATOR && s->k.r->rows[of].dtype == DTYPE_FLOAT16;
  return wide ? recipe_cast(s->k.r, of, DTYPE_FLOAT) : of;
}

// Are given zero points codes of the type that the constant has come to?
static int check_zeros(struct static_run *s, const struct static_entry *e,
                       const struct static_overrides *o, struct err *err) {
  int64_t least, most;
  int8_full_codes(e->as.type, &least, &most);
  if (e->as.type == DTYPE_FLOAT8E4M3FN) least = most = 0;
  for (uint32_t i = 0; i < o->n; i++) {
    if (!o->of[i].has_scale || (o->of[i].zero >= least && o->of[i].zero <= most)) continue;
    err_fill(err, ERR_USAGE,
             "override of tensor '%s': zero_point %s is outside %s to %s, the range of %s",
             quote(model_value_name(s->k.m, e->value)).s, integer(o->of[i].zero).s,
             integer(least).s, integer(most).s, dtype_name(e->as.type));
    return err_hint(err, "add its quant_type");
  }
  return 0;
}

// Numbers are kept in memory, one for each channel.
static int check_channels(struct static_run *s, const struct static_entry *e, uint64_t channels,
                          struct err *err) {
  if (channels <= RANGES_MOST_CHANNELS) return 0;
  err_fill(err, ERR_USAGE,
           "override of tensor '%s': the tensor has %s channels, but values can be given for at "
           "most %d",
           quote(model_value_name(s->k.m, e->value)).s, decimal(channels).s, RANGES_MOST_CHANNELS);
  return err_hint(err, "omit rmin, rmax, scale and zero_point, or omit the axis");
}

// Scales and zero points by numbers of the overrides, one for each channel: given, or by given ranges.
static void params_by_numbers(struct static_run *s, struct static_entry *e, enum dtype dtype,
                              const struct static_overrides *o, uint32_t n) {
  const size_t count = n == NO_ID ? 1 : n;
  double *scales = arena_alloc(&s->arena, count * sizeof *scales);
  int64_t *zeros = arena_alloc(&s->arena, count * sizeof *zeros);
  for (size_t i = 0; i < count; i++) {
    const struct static_override *x = &o->of[i < o->n ? i : 0];
    scales[i] = x->scale;
    zeros[i] = x->zero;
    if (x->has_scale) continue;
    const struct int8_range range = {.type = dtype,
                                     .least = int8_rounded(dtype, x->least),
                                     .most = int8_rounded(dtype, x->most)};
    const struct int8_how how = {.type = e->as.type,
                                 .symmetric = e->as.symmetric,
                                 .reduced = e->as.reduced,
                                 .guard = e->as.guard,
                                 .has_floor = s->o->has_real_floor,
                                 .real_floor = s->o->real_floor};
    struct int8_params p;
    int8_scale_zero(&range, &how, &p);
    scales[i] = p.scale;
    zeros[i] = p.zero;
  }
  e->scales = int8_floats(s->k.r, dtype, scales, n);
  e->zeros = int8_codes(s->k.r, e->as.type, zeros, n);
}

// Blocks lie along what is summed up: of a matrix, the other axis than the channels'. (compat: along the channels'.)
static uint32_t block_axis(const struct static_run *s, const struct static_entry *e,
                           uint32_t channels) {
  if (channels == RECIPE_PER_TENSOR || s->o->compat) return e->per_channel ? channels : 0;
  return 1 - channels;
}

int static_weight_params(struct static_run *s, struct static_entry *e, struct err *err) {
  const struct static_options *opt = s->o;
  const struct static_overrides *o = static_override_of(s, e->value);
  const struct static_override *first = o ? o->of : NULL;
  const uint32_t of = static_recipe(s, e->value), rank = s->k.r->rows[of].rank;
  const enum dtype dtype = (enum dtype)s->k.r->rows[of].dtype;
  enum dtype type = e->weight ? opt->weight : opt->activation;
  if (e->role) type = e->role->type;
  if (first && first->has_type) type = first->type;
  uint32_t axis = e->per_channel ? e->axis : RECIPE_PER_TENSOR;
  if (first && first->has_axis)
    axis = (uint32_t)(first->axis < 0 ? first->axis + rank : first->axis);
  e->per_channel = axis != RECIPE_PER_TENSOR;
  bool symmetric = e->per_channel ||
                   (e->weight ? static_is_weight_symmetric(opt, type) : opt->activation_symmetric);
  if (e->role) symmetric = e->role->symmetric;
  if (first && first->has_symmetric) symmetric = first->symmetric;
  const bool in_blocks = opt->block && e->weight && rank == 2 && type != DTYPE_FLOAT8E4M3FN &&
                         !(first && (first->has_scale || first->has_range));
  e->as =
      (struct int8_weight_as){.type = type,
                              .symmetric = symmetric,
                              .reduced = !in_blocks && (first && first->has_reduced ? first->reduced
                                                        : e->role ? e->role->reduced
                                                                  : opt->reduce_range),
                              .guard = int8_guard(opt->compat),
                              .axis = in_blocks ? block_axis(s, e, axis) : axis,
                              .block = in_blocks ? opt->block : 0};
  e->axis = e->as.axis;
  e->per_channel = e->per_channel || in_blocks;
  if (first && (first->has_scale || first->has_range)) {
    const bool whole = axis == RECIPE_PER_TENSOR;
    const uint64_t channels = whole ? 1 : (uint64_t)recipe_dims(s->k.r, of)[axis];
    if (check_zeros(s, e, o, err) || check_channels(s, e, channels, err)) return -1;
    params_by_numbers(s, e, dtype, o, whole ? NO_ID : (uint32_t)channels);
    return 0;
  }
  const struct int8_parts found = opt->has_real_floor && !in_blocks && type != DTYPE_FLOAT8E4M3FN
                                      ? int8_ranged(s->k.r, of, &e->as, opt->real_floor)
                                      : int8_found(s->k.r, of, &e->as);
  if (found.codes == NO_ID) {
    err_fill(err, ERR_FAIL, "tensor '%s' cannot be quantized to %s%s",
             quote(model_value_name(s->k.m, e->value)).s, dtype_name(type),
             e->as.reduced && type == DTYPE_FLOAT8E4M3FN ? " with a reduced range" : "");
    return err_hint(err,
                    "exclude the nodes that use it (--exclude), or choose another type for it");
  }
  e->scales = found.scales;
  e->zeros = found.zeros;
  return 0;
}

uint32_t static_weight_codes(struct static_run *s, const struct static_entry *e) {
  return int8_given(s->k.r, static_recipe(s, e->value), &e->as, e->scales, e->zeros).codes;
}
