// Resize of a constant, in steps (rules_steps.c): it samples one axis after the other.
//
//   nearest   ──▶   gather(x, axis)                           the same elements: exact
//   linear    ──▶   gather · weight + gather · weight         2 samples of the axis for each element
//   cubic     ──▶   gather · weight + …                       4
//
// Where an element of the result is in the input: coordinate(), as ONNX defines it and runtimes compute it, in float32. Samples outside the
// axis are those of its ends. A sample that float32 and double find in different places is one about which runtimes disagree: it is not computed.
//
// Not computed: a scale that leaves an axis as long as it is, which ONNX Runtime ignores; axes of more than 65,536 elements, antialias, crops (tf_crop_and_resize), policies of aspect ratios, linear and cubic of integers.
#include "passes/rules/inside/rules_inside.h"

enum { TAPS = 4, LONGEST = 1 << 16 }; // samples of an element; elements of an axis
static const char *const coordinate_words[] = {"half_pixel", "asymmetric", "align_corners",
                                               "pytorch_half_pixel", "half_pixel_symmetric"};
enum coordinates {
  HALF_PIXEL,
  ASYMMETRIC,
  ALIGN_CORNERS,
  PYTORCH_HALF_PIXEL,
  SYMMETRIC,
  COORDINATES
};
static const char *const mode_words[] = {"nearest", "linear", "cubic"};
enum mode { NEAREST, LINEAR, CUBIC, MODES };
static const char *const rounding_words[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil"};
enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, ROUNDINGS };

struct resize {
  enum coordinates coordinates;
  enum mode mode;
  enum rounding rounding;
  bool leaves_outside; // samples outside the axis have no weight
  double cubic;        // the coefficient of the cubic
  int64_t in[RECIPE_MAX_RANK], out[RECIPE_MAX_RANK];
  float scale[RECIPE_MAX_RANK];
  bool resized[RECIPE_MAX_RANK];
  uint32_t rank;
};

static bool word_of(struct rules_run *run, uint32_t node, const char *name,
                    const char *const *words, uint32_t n, uint32_t *out) {
  struct span s;
  if (!kit_attr_string(&run->k, node, name, words[0], &s)) return false;
  for (*out = 0; *out < n; ++*out)
    if (span_is(s, words[*out])) return true;
  return false;
}

static bool read_words(struct rules_run *run, uint32_t node, struct resize *r) {
  struct kit *k = &run->k;
  uint32_t coordinates, mode, rounding;
  int64_t antialias, outside;
  float cubic;
  struct span policy;
  if (!word_of(run, node, "coordinate_transformation_mode", coordinate_words, COORDINATES,
               &coordinates) ||
      !word_of(run, node, "mode", mode_words, MODES, &mode) ||
      !word_of(run, node, "nearest_mode", rounding_words, ROUNDINGS, &rounding) ||
      !kit_attr_int(k, node, "antialias", 0, &antialias) || antialias != 0 ||
      !kit_attr_int(k, node, "exclude_outside", 0, &outside) ||
      !kit_attr_float(k, node, "cubic_coeff_a", -0.75f, &cubic) ||
      !kit_attr_string(k, node, "keep_aspect_ratio_policy", "stretch", &policy) ||
      !span_is(policy, "stretch"))
    return false;
  r->coordinates = (enum coordinates)coordinates;
  r->mode = (enum mode)mode;
  r->rounding = (enum rounding)rounding;
  r->leaves_outside = outside != 0;
  r->cubic = (double)cubic;
  return true;
}

// The axes that sizes and scales are of, in their order; all where the node names none.
static bool read_axes(struct rules_run *run, uint32_t node, uint32_t rank, uint32_t *axes,
                      uint32_t *n) {
  const int64_t *list;
  uint64_t seen = 0;
  const bool named = kit_attr_ints(&run->k, node, "axes", &list, n) && *n > 0;
  if (!named) *n = rank;
  if (*n > rank) return false;
  for (uint32_t i = 0; i < *n; i++) {
    const int64_t axis = !named ? i : list[i] < 0 ? list[i] + rank : list[i];
    if (axis < 0 || axis >= rank || seen >> axis & 1) return false;
    seen |= (uint64_t)1 << axis;
    axes[i] = (uint32_t)axis;
  }
  return true;
}

// An empty list is one that is left out.
static bool is_given(struct rules_run *run, const struct rules_term *node, uint32_t i) {
  if (i >= node->n_args || node->args[i].kind == RULES_ABSENT) return false;
  const struct rules_type t = rules_type_of(run, &node->args[i]);
  return !(t.ranked && t.rank == 1 && t.dims[0] == 0);
}

// How long each axis becomes, and by which factor.
static bool read_lengths(struct rules_run *run, const struct rules_term *node, struct resize *r) {
  enum { SCALES = 2, SIZES = 3 };
  uint32_t axes[RECIPE_MAX_RANK], n, count;
  const bool by_scales = is_given(run, node, SCALES);
  const int64_t *sizes = NULL;
  struct rules_type t;
  struct span raw = {0};
  if (by_scales == is_given(run, node, SIZES) || !read_axes(run, node->attrs_of, r->rank, axes, &n))
    return false;
  if (by_scales ? !rules_elements(run, &node->args[SCALES], &t, &raw) || t.dtype != DTYPE_FLOAT ||
                      raw.n != n * sizeof(float)
                : !rules_constant_ints(run, &node->args[SIZES], &sizes, &count) || count != n)
    return false;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t axis = axes[i];
    float scale = 0;
    if (by_scales) memcpy(&scale, raw.at + i * sizeof scale, sizeof scale);
    const float out = by_scales ? floorf((float)r->in[axis] * scale) : (float)sizes[i];
    if (!(out >= 1) || out > (float)LONGEST) return false;
    r->out[axis] = by_scales ? (int64_t)out : sizes[i];
    r->scale[axis] = by_scales ? scale : (float)sizes[i] / (float)r->in[axis];
    r->resized[axis] = r->out[axis] != r->in[axis];
    if (!r->resized[axis] && r->scale[axis] != 1) return false;
  }
  return true;
}

// One operation of a coordinate: in double, or rounded to float32 as runtimes do. (A sum, product or quotient of floats that is rounded from
// double is the one that float32 gives.)
static double step(double x, bool in_floats) {
  return in_floats ? (double)(float)x : x;
}

// The place of element i of the result on the axis.
static double coordinate(const struct resize *r, uint32_t axis, int64_t i, bool in_floats) {
  const bool f = in_floats;
  const double in = (double)r->in[axis], out = (double)r->out[axis], x = (double)i;
  const double scale = (double)r->scale[axis];
  const double centre = step(step(step(x + 0.5, f) / scale, f) - 0.5, f);
  switch (r->coordinates) {
  case ASYMMETRIC: return step(x / scale, f);
  case ALIGN_CORNERS: return out > 1 ? step(step(x * step(in - 1, f), f) / step(out - 1, f), f) : 0;
  case PYTORCH_HALF_PIXEL: return out > 1 ? centre : 0;
  case SYMMETRIC: {
    const double part = step(1 - step(out / step(scale * in, f), f), f);
    const double offset = step(step(in / 2, f) * part, f);
    return step(step(offset + step(step(x + 0.5, f) / scale, f), f) - 0.5, f);
  }
  default: return centre;
  }
}

static double rounded(enum rounding rounding, double x) {
  switch (rounding) {
  case PREFER_FLOOR: return ceil(x - 0.5);
  case PREFER_CEIL: return floor(x + 0.5);
  case FLOOR: return floor(x);
  default: return ceil(x);
  }
}

static int64_t clamped(double place, int64_t length) {
  return place < 0 ? 0 : place > (double)(length - 1) ? length - 1 : (int64_t)place;
}

// The samples of one element: the first one's place, which may be outside, and what each weighs.
static uint32_t taps_of(const struct resize *r, uint32_t axis, double x, double *first,
                        double *weight) {
  if (r->mode == LINEAR) {
    const double last = (double)(r->in[axis] - 1), at = x < 0 ? 0 : x > last ? last : x;
    *first = floor(at);
    weight[0] = 1 - (at - *first), weight[1] = at - *first;
    return 2;
  }
  const double a = r->cubic, t = x - floor(x);
  double sum = 0;
  *first = floor(x) - 1;
  for (uint32_t i = 0; i < TAPS; i++) {
    const double d = fabs(t + 1 - i); // how far the sample is
    weight[i] =
        d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    if (r->leaves_outside && (*first + i < 0 || *first + i > (double)(r->in[axis] - 1)))
      weight[i] = 0;
    sum += weight[i];
  }
  for (uint32_t i = 0; i < TAPS && r->leaves_outside; i++)
    weight[i] /= sum;
  return TAPS;
}

// So near to where a rounding jumps, at wholes or between them, that other steps may end on the other side?
static bool is_near_a_step(double x) {
  const double tolerance = 1e-3;
  return fabs(x * 2 - round(x * 2)) < tolerance;
}

static struct rules_value nearest(struct rules_run *run, const struct resize *r, uint32_t axis,
                                  const struct rules_value *x) {
  int64_t *places = arena_alloc(&run->match, (size_t)r->out[axis] * sizeof *places);
  for (int64_t i = 0; i < r->out[axis]; i++) {
    const double at = rounded(r->rounding, coordinate(r, axis, i, false));
    places[i] = clamped(at, r->in[axis]);
    // ONNX Runtime has the symmetric form in other steps.
    if (r->coordinates == SYMMETRIC && is_near_a_step(coordinate(r, axis, i, false)))
      return rules_unknown();
    const double again = rounded(r->rounding, coordinate(r, axis, i, true));
    if (clamped(again, r->in[axis]) != places[i]) return rules_unknown();
  }
  const struct rules_value by = rules_new_ints(run, places, (uint32_t)r->out[axis]);
  return rules_step_gather(run, x, &by, axis);
}

// Σ gather(x, places of a tap) · its weights
static struct rules_value weighed(struct rules_run *run, const struct resize *r, uint32_t axis,
                                  enum dtype t, const struct rules_value *x) {
  const uint32_t n = (uint32_t)r->out[axis], each = dtype_bits(t) / 8;
  const uint32_t taps = r->mode == LINEAR ? 2 : TAPS;
  int64_t *places = arena_alloc(&run->match, (size_t)n * taps * sizeof *places);
  uint8_t *weights = arena_zalloc(&run->match, (size_t)n * taps * each);
  int64_t dims[RECIPE_MAX_RANK];
  struct rules_value sum = {0};
  for (uint32_t i = 0; i < n; i++) {
    double first, weight[TAPS];
    taps_of(r, axis, coordinate(r, axis, i, false), &first, weight);
    for (uint32_t tap = 0; tap < taps; tap++) {
      places[tap * n + i] = clamped(first + tap, r->in[axis]);
      rules_number_put(t, weights + (size_t)tap * n * each, i, weight[tap]);
    }
  }
  // [n, 1, 1 …]: along the axis, whatever comes after it.
  for (uint32_t i = 0; i + axis < r->rank; i++)
    dims[i] = i == 0 ? n : 1;
  for (uint32_t tap = 0; tap < taps; tap++) {
    const struct rules_value by = rules_new_ints(run, places + (size_t)tap * n, n);
    const struct rules_value samples = rules_step_gather(run, x, &by, axis);
    if (samples.kind == RULES_UNKNOWN) return samples;
    const struct rules_value parts[2] = {
        samples, rules_new_const(run, t, dims, r->rank - axis,
                                 span_of(weights + (size_t)tap * n * each, (size_t)n * each))};
    const struct rules_value part = rules_step_map(run, RECIPE_MAP_MUL, parts);
    const struct rules_value both[2] = {sum, part};
    if (part.kind == RULES_UNKNOWN) return part;
    sum = tap == 0 ? part : rules_step_map(run, RECIPE_MAP_ADD, both);
    if (sum.kind == RULES_UNKNOWN) return sum;
  }
  return sum;
}

struct rules_value rules_fold_resize(struct rules_run *run, const struct rules_term *node) {
  const struct rules_type of = rules_type_of(run, &node->args[0]);
  struct resize r = {.rank = of.rank};
  if (node->attrs_of == NO_ID || !of.ranked || of.rank == 0 || of.rank > RECIPE_MAX_RANK)
    return rules_unknown();
  for (uint32_t i = 0; i < of.rank; i++) {
    r.in[i] = r.out[i] = of.dims[i], r.scale[i] = 1;
    if (!rules_is_number(of.dims[i]) || of.dims[i] < 1) return rules_unknown();
  }
  if (!read_words(run, node->attrs_of, &r) || !read_lengths(run, node, &r)) return rules_unknown();
  const bool narrow = of.dtype == DTYPE_FLOAT16 || of.dtype == DTYPE_BFLOAT16;
  if (r.mode != NEAREST &&
      (!dtype_is_plain_float(of.dtype) || run->rule->exactness < EXACTNESS_ROUNDING))
    return rules_unknown();
  const enum dtype t = r.mode != NEAREST && narrow ? DTYPE_FLOAT : of.dtype;
  struct rules_value x = node->args[0];
  if (t != of.dtype)
    x = rules_step_cast(run, &x, &(const struct recipe_conversion){.to = t, .saturates = true});
  for (uint32_t i = 0; i < r.rank && x.kind != RULES_UNKNOWN; i++)
    if (r.resized[i]) x = r.mode == NEAREST ? nearest(run, &r, i, &x) : weighed(run, &r, i, t, &x);
  if (t != of.dtype && x.kind != RULES_UNKNOWN)
    x = rules_step_cast(run, &x,
                        &(const struct recipe_conversion){.to = of.dtype, .saturates = true});
  return x;
}
