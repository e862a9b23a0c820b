// Elements that follow from what a node makes: shapes, axes, splits, scales.
//
//   x float[2,3,4] ── Reshape(s) ──▶ float[6,4]      s is 6, 4
//   x float[2,3,4] ── Slice(0, e) ──▶ float[2,2,4]   e is 2, 2, 4
//
// Inference knows the dims of the result where they are declared, or follow from others; where it does not, they are
// the small numbers of this case, which is as good as any. Axes that may be chosen are those in which the result differs from
// the operand.
#include "verify/draw/inside/draw_parts.h"

struct ask {
  struct draw *d;
  uint32_t node, slot;
  int64_t in[ARRAY_MAX_RANK], out[ARRAY_MAX_RANK];
  uint32_t in_rank, out_rank;
  bool has_in;
  uint32_t n; // elements that are asked for
  double *list;
};

static uint32_t slot_of(const struct ask *k, uint32_t slot) {
  return model_input(k->d->m, &k->d->m->nodes[k->node], slot);
}

static bool is(const struct ask *k, const char *op) {
  return span_is(model_name(k->d->m, k->d->m->nodes[k->node].op_type), op);
}

static bool starts(const struct ask *k, const char *op) {
  const struct span s = model_name(k->d->m, k->d->m->nodes[k->node].op_type);
  return s.n >= strlen(op) && memcmp(s.at, op, strlen(op)) == 0;
}

static int64_t attr(const struct ask *k, const char *name, int64_t fallback) {
  int64_t x;
  return model_attr_int(k->d->m, k->node, name, fallback, &x) ? x : fallback;
}

// The dims that come out; of the last of them where fewer are asked for.
static bool dims_out(struct ask *k) {
  if (k->n > k->out_rank) return false;
  for (uint32_t i = 0; i < k->n; i++)
    k->list[i] = (double)k->out[k->out_rank - k->n + i];
  return true;
}

static double product(const int64_t *dims, uint32_t rank) {
  double n = 1;
  for (uint32_t i = 0; i < rank; i++)
    n *= (double)dims[i];
  return n;
}

// Where the sizes do not fit, all elements lie in the last dim.
static bool reshape(struct ask *k) {
  if (!dims_out(k) || k->n == 0) return k->n == 0;
  const double all = product(k->in, k->in_rank);
  if (!k->has_in || product(k->out, k->out_rank) == all) return true;
  for (uint32_t i = 0; i < k->n; i++)
    k->list[i] = i + 1 == k->n ? all : 1;
  return true;
}

static bool ratios(struct ask *k) {
  if (!k->has_in || k->in_rank != k->out_rank || k->n != k->in_rank) return false;
  for (uint32_t i = 0; i < k->n; i++)
    k->list[i] = k->in[i] ? (double)k->out[i] / (double)k->in[i] : 1;
  return true;
}

static bool windows(struct ask *k) {
  k->list[0] = k->out_rank ? (double)k->out[0] : 1;
  return k->n == 1;
}

// ---- axes -------------------------------------------------------------------------------------------

// n axes: those that differ first, then others, ascending.
static bool differing(const struct ask *k, uint32_t n, double *axes) {
  uint32_t at = 0;
  bool taken[ARRAY_MAX_RANK] = {false};
  if (!k->has_in || k->in_rank != k->out_rank || n > k->in_rank) return false;
  for (uint32_t turn = 0; turn < 2; turn++)
    for (uint32_t i = 0; i < k->in_rank && at < n; i++)
      if (!taken[i] && (turn == 1 || k->in[i] != k->out[i])) taken[i] = true, at++;
  for (uint32_t i = 0, to = 0; i < k->in_rank; i++)
    if (taken[i]) axes[to++] = i;
  return true;
}

// The axes of `more` that are not in `fewer`.
static bool left_over(const int64_t *more, uint32_t n_more, const int64_t *fewer, uint32_t n_fewer,
                      uint32_t n, double *axes) {
  uint32_t at = 0, to = 0;
  if (n_more != n_fewer + n) return false;
  for (uint32_t i = 0; i < n_more; i++) {
    if (at < n_fewer && more[i] == fewer[at])
      at++;
    else if (to < n)
      axes[to++] = i;
  }
  return at == n_fewer && to == n;
}

static bool reduced(struct ask *k) {
  if (!k->has_in || k->n == 0) return k->n == 0;
  return attr(k, "keepdims", 1) ? differing(k, k->n, k->list)
                                : left_over(k->in, k->in_rank, k->out, k->out_rank, k->n, k->list);
}

// The axes of Slice and Pad: given, chosen, or the first ones.
static bool axes_of(struct ask *k, uint32_t n, double *axes) {
  uint32_t given = 0;
  if (n > ARRAY_MAX_RANK || !k->has_in || k->in_rank != k->out_rank || n > k->in_rank) return false;
  if (slot_of(k, 3) == NO_ID) {
    for (uint32_t i = 0; i < n; i++)
      axes[i] = i;
    return true;
  }
  if (draw_known(k->d, slot_of(k, 3), axes, ARRAY_MAX_RANK, &given) && given == n) {
    for (uint32_t i = 0; i < n; i++) {
      if (axes[i] < 0) axes[i] += k->in_rank;
      if (!(axes[i] >= 0 && axes[i] < k->in_rank)) return false;
    }
    return true;
  }
  return differing(k, n, axes);
}

static bool pads(struct ask *k) {
  double axes[ARRAY_MAX_RANK];
  const uint32_t half = k->n / 2;
  if (!axes_of(k, half, axes)) return false;
  for (uint32_t i = 0; i < half; i++) {
    const int64_t more = k->out[(uint32_t)axes[i]] - k->in[(uint32_t)axes[i]]; // both are ≥ 0
    k->list[i] = (double)(more / 2);
    k->list[half + i] = (double)(more - more / 2);
  }
  return true;
}

// Starts are 0, steps 1, and ends what is left, unless others are given.
static bool slice(struct ask *k) {
  double axes[ARRAY_MAX_RANK], begin[ARRAY_MAX_RANK], step[ARRAY_MAX_RANK];
  uint32_t n;
  if (!axes_of(k, k->n, axes)) return false;
  const bool begins = draw_known(k->d, slot_of(k, 1), begin, ARRAY_MAX_RANK, &n) && n == k->n;
  const bool steps = draw_known(k->d, slot_of(k, 4), step, ARRAY_MAX_RANK, &n) && n == k->n;
  for (uint32_t i = 0; i < k->n; i++)
    k->list[i] = k->slot == 1   ? 0
                 : k->slot == 3 ? axes[i]
                 : k->slot == 4 ? 1
                                : (begins ? begin[i] : 0) +
                                      (double)k->out[(uint32_t)axes[i]] * (steps ? step[i] : 1);
  return true;
}

static bool pad(struct ask *k) {
  return k->slot == 3 ? differing(k, k->n, k->list) : pads(k);
}

// ---- sizes along an axis --------------------------------------------------------------------------------

static bool along(const struct ask *k, const int64_t *dims, uint32_t rank, int64_t axis,
                  double *to) {
  (void)k;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return false;
  *to = (double)dims[axis];
  return true;
}

static bool one_along(struct ask *k) {
  return k->n == 1 && along(k, k->out, k->out_rank, attr(k, "axis", -1), k->list);
}

static bool split(struct ask *k) {
  const struct model_node *n = &k->d->m->nodes[k->node];
  if (n->n_out != k->n) return false;
  for (uint32_t i = 0; i < k->n; i++) {
    const uint32_t out = model_output(k->d->m, n, i);
    int64_t dims[ARRAY_MAX_RANK];
    uint32_t rank;
    if (out == NO_ID || !draw_dims(k->d, out, dims, &rank) ||
        !along(k, dims, rank, attr(k, "axis", 0), &k->list[i]))
      return false;
  }
  return true;
}

static bool split_evenly(struct ask *k) {
  double all;
  if (!k->has_in || k->n == 0 || !along(k, k->in, k->in_rank, attr(k, "axis", 0), &all))
    return false;
  for (uint32_t i = 0; i < k->n; i++)
    k->list[i] =
        i == 0 ? all - (double)((int64_t)all / k->n * (k->n - 1)) : (double)((int64_t)all / k->n);
  return true;
}

// Sizes of the axes that an attribute names; without it, of all.
static bool sizes(struct ask *k) {
  const int64_t *axes;
  uint32_t n;
  if (!model_attr_ints(k->d->m, k->node, "axes", &axes, &n) || n == 0)
    return k->n == k->out_rank && dims_out(k);
  if (n != k->n) return false;
  for (uint32_t i = 0; i < n; i++)
    if (!along(k, k->out, k->out_rank, axes[i], &k->list[i])) return false;
  return true;
}

static bool scales(struct ask *k) {
  const int64_t *axes;
  uint32_t n;
  double in;
  if (!model_attr_ints(k->d->m, k->node, "axes", &axes, &n) || n == 0) return ratios(k);
  if (n != k->n || !k->has_in) return false;
  for (uint32_t i = 0; i < n; i++) {
    if (!along(k, k->out, k->out_rank, axes[i], &k->list[i]) ||
        !along(k, k->in, k->in_rank, axes[i], &in) || in == 0)
      return false;
    k->list[i] /= in;
  }
  return true;
}

// The result is [N,H,W,2], and what is asked for N, C, H, W.
static bool grid(struct ask *k) {
  if (k->n != k->out_rank || k->n < 3) return false;
  k->list[0] = (double)k->out[0];
  k->list[1] = 1;
  for (uint32_t i = 2; i < k->n; i++)
    k->list[i] = (double)k->out[i - 1];
  return true;
}

static bool mel(struct ask *k) {
  if (k->out_rank != 2 || k->n != 1) return false;
  k->list[0] = k->slot == 0 ? (double)k->out[1] : (double)(2 * (k->out[0] - 1));
  return true;
}

// ---- all of them ----------------------------------------------------------------------------------------

static const struct {
  const char *op;
  bool (*answer)(struct ask *k);
} answers[] = {
    {"Reshape", reshape},
    {"Expand", dims_out},
    {"ConstantOfShape", dims_out},
    {"MaxUnpool", dims_out},
    {"Tile", ratios},
    {"Pad", pad},
    {"Slice", slice},
    {"Split", split},
    {"Upsample", ratios},
    {"TopK", one_along},
    {"OneHot", one_along},
    {"CenterCropPad", sizes},
    {"AffineGrid", grid},
    {"Range", windows},
    {"BlackmanWindow", windows},
    {"HammingWindow", windows},
    {"HannWindow", windows},
    {"MelWeightMatrix", mel},
    {"SplitToSequence", split_evenly},
};

static bool answer(struct ask *k) {
  if (starts(k, "Reduce")) return reduced(k);
  if (is(k, "Squeeze"))
    return k->has_in && left_over(k->in, k->in_rank, k->out, k->out_rank, k->n, k->list);
  if (is(k, "Unsqueeze"))
    return k->has_in && left_over(k->out, k->out_rank, k->in, k->in_rank, k->n, k->list);
  if (is(k, "Resize")) return k->slot == 3 ? sizes(k) : scales(k);
  for (uint32_t i = 0; i < sizeof answers / sizeof *answers; i++)
    if (is(k, answers[i].op)) return answers[i].answer(k);
  return false;
}

bool draw_asks(struct draw *d, uint32_t node, uint32_t slot, uint32_t n, double *list) {
  struct ask k = {.d = d, .node = node, .slot = slot, .n = n, .list = list};
  const uint32_t out = model_output(d->m, &d->m->nodes[node], 0);
  if (n > ARRAY_MAX_RANK) return false;
  const bool outside = is(&k, "SplitToSequence"); // what comes out has no dims of its own
  if (!outside && (out == NO_ID || !draw_dims(d, out, k.out, &k.out_rank))) return false;
  k.has_in = slot > 0 && draw_dims(d, slot_of(&k, 0), k.in, &k.in_rank);
  return answer(&k);
}
