// Numbers that bound or mask, and are no numbers themselves: they may become others that mean the same in float16.
//
//   x ── Clip(-1e20, 1e20) ──▶                            -65504, 65504
//   Where(keep, x, -1e9) ── Softmax ──▶                   -65504
//   logits ── Add(mask: 0 and -1e9) ── Softmax ──▶        0 and -1e4: a sum of two masks and a logit stays finite
//   (1 - keep) ── Mul(-1e9) ── Add(logits) ── Softmax     -1e4
//
// What a constant is follows from who reads it: a bound, if nodes only clip by it, fill with it or choose it; a mask, if what comes of it is
// added to something before a Softmax or an attention. Any other reader makes it a number, which stays one. Of a bound that is a tensor the
// elements that float16 does not hold must be alike but for their signs, as those of masks are; a bound of which the elements are not at
// hand is a number.
//
// A mask that is not at hand, since it is large, has at least two dims of more than one element; it is looked at while it is converted.
//
// -1e4 is what converters write: far enough below a logit for exp to be 0, and six of them fit.
#include "cast_graph_masks.h"

#include <math.h>

enum { WAY_MOST = CAST_GRAPH_REACHED };
static const float mask_most = 1e4f;
static const double half_most = 65504;

// ---- who reads it --------------------------------------------------------------------------------

struct walk {
  struct kit *k;
  uint32_t values[WAY_MOST], n;
  bool added[WAY_MOST]; // the value holds the constant added to something
  bool softmax;         // what comes of it reaches one, or an attention, …
  bool masks;           // … after it was added
  bool full;            // there is more than was looked at
};

static void follow(struct walk *w, uint32_t value, bool added) {
  if (value == NO_ID) return;
  for (uint32_t i = 0; i < w->n; i++)
    if (w->values[i] == value && w->added[i] == added) return;
  w->full = w->full || w->n == WAY_MOST;
  if (w->n == WAY_MOST) return;
  w->values[w->n] = value;
  w->added[w->n++] = added;
}

static bool is_softmax(enum op op) {
  return op == OP_Softmax || op == OP_LogSoftmax;
}

// Is the input a mask that the operator adds to the scores itself?
static bool is_mask_of_attention(enum op op, uint32_t slot) {
  switch (op) {
  case OP_Attention: return slot == 3;
  case OP_ms_Attention: return slot == 5;
  case OP_ms_MultiHeadAttention: return slot == 5;
  default: return false;
  }
}

// Does the node hand on elements of the input as they are, or their negatives?
static bool hands_on(enum op op, uint32_t slot) {
  if (op == OP_Concat || op == OP_Cast) return true;
  return slot == 0 && kit_op_has(op, KIT_UNROUNDED) && !kit_op_has(op, KIT_JUMPS);
}

static void look_at(struct walk *w, uint32_t node, uint32_t slot, bool added) {
  struct kit *k = w->k;
  const enum op op = kit_op(k, node);
  const uint32_t out = kit_out(k, node, 0);
  if (is_softmax(op) && slot == 0) {
    w->softmax = true;
    w->masks = w->masks || added;
  } else if (is_mask_of_attention(op, slot)) {
    w->softmax = w->masks = true;
  } else if (op == OP_Add || (op == OP_Sub && slot == 0)) {
    follow(w, out, true);
  } else if (op == OP_Mul || (op == OP_Div && slot == 0) || (op == OP_Where && slot > 0) ||
             hands_on(op, slot)) {
    follow(w, out, added);
  }
}

// What becomes of the value, from its readers on.
static void look_behind(struct walk *w, uint32_t value) {
  w->n = 0;
  w->softmax = w->masks = w->full = false;
  follow(w, value, false);
  for (uint32_t i = 0; i < w->n; i++)
    for (struct kit_use u = kit_uses(w->k, w->values[i]); kit_use(w->k, &u);)
      look_at(w, u.node, u.slot, w->added[i]);
}

static bool bounds(enum op op, uint32_t slot) {
  return (op == OP_Clip && slot > 0) || (op == OP_Pad && slot == 2) ||
         (op == OP_Where && slot > 0) || op == OP_Max || op == OP_Min;
}

// Does the node only compare what it reads, or choose of it, so that a number far off is as good as any?
static bool compares(enum op op, uint32_t slot) {
  switch (op) {
  case OP_MaxPool:
  case OP_ReduceMax:
  case OP_ReduceMin:
  case OP_ArgMax:
  case OP_ArgMin:
  case OP_TopK: return slot == 0;
  default: return is_softmax(op) || bounds(op, slot);
  }
}

// What is clipped, filled or chosen by a bound, and what only moves that, as long as it is compared only.
static void reach_bounded(struct kit *k, const uint32_t *readers, uint32_t n_readers,
                          uint32_t *list, uint32_t *n) {
  *n = 0;
  for (uint32_t i = 0; i < n_readers; i++)
    for (struct kit_use u = kit_uses(k, readers[i]); kit_use(k, &u);)
      if (bounds(kit_op(k, u.node), u.slot) && *n < WAY_MOST && kit_out(k, u.node, 0) != NO_ID)
        list[(*n)++] = kit_out(k, u.node, 0);
  for (uint32_t i = 0; i < *n; i++) {
    bool compared = !kit_is_output(k, list[i]);
    for (struct kit_use u = kit_uses(k, list[i]); kit_use(k, &u) && compared;) {
      const enum op op = kit_op(k, u.node);
      const uint32_t out = kit_out(k, u.node, 0);
      if (compares(op, u.slot)) continue;
      compared = hands_on(op, u.slot) && out != NO_ID && *n < WAY_MOST;
      if (compared) list[(*n)++] = out;
    }
    if (!compared) *n = 0;
  }
}

enum cast_graph_bound cast_graph_reached(struct kit *k, uint32_t value, uint32_t *list,
                                         uint32_t *n) {
  struct walk w = {.k = k};
  uint32_t readers[WAY_MOST], n_readers = 0;
  bool any = false;
  *n = 0;
  look_behind(&w, value);
  if (w.masks && !w.full) {
    for (uint32_t i = 0; i < w.n; i++)
      if (w.values[i] != value) list[(*n)++] = w.values[i];
    return CAST_GRAPH_MASK;
  }
  // The constant, and what only moves it.
  readers[n_readers++] = value;
  for (uint32_t i = 0; i < n_readers; i++) {
    if (kit_is_output(k, readers[i])) return CAST_GRAPH_NUMBER;
    for (struct kit_use u = kit_uses(k, readers[i]); kit_use(k, &u);) {
      const enum op op = kit_op(k, u.node);
      any = any || bounds(op, u.slot);
      if (bounds(op, u.slot)) continue;
      if (n_readers == WAY_MOST || !hands_on(op, u.slot) || kit_out(k, u.node, 0) == NO_ID)
        return CAST_GRAPH_NUMBER;
      readers[n_readers++] = kit_out(k, u.node, 0);
    }
  }
  if (any) reach_bounded(k, readers, n_readers, list, n);
  return any ? CAST_GRAPH_BOUND : CAST_GRAPH_NUMBER;
}

// ---- what it becomes -----------------------------------------------------------------------------

static bool is_beyond(double x, double most) {
  return isfinite(x) && fabs(x) > most;
}

// Are the elements beyond the range of the type one number, but for the sign?
static bool are_alike(const double *x, uint32_t n) {
  double far = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!is_beyond(x[i], half_most)) continue;
    if (far != 0 && fabs(x[i]) != far) return false;
    far = fabs(x[i]);
  }
  return far != 0;
}

static uint32_t number(struct kit *k, float x) {
  return recipe_bytes(k->r, DTYPE_FLOAT, NULL, 0, span_of(&x, sizeof x));
}

static float held(double x) {
  return is_beyond(x, (double)mask_most) ? copysignf(mask_most, (float)x) : (float)x;
}

// Finite elements beyond ±1e4 become that; infinite ones stay. Of elements at hand:
static uint32_t masked_numbers(struct kit *k, uint32_t of, const double *x, uint32_t n) {
  int64_t dims[RECIPE_MAX_RANK];
  const uint32_t rank = k->r->rows[of].rank;
  float *out = arena_alloc(&k->site, (n + (size_t)1) * sizeof *out);
  memcpy(dims, recipe_dims(k->r, of), rank * sizeof *dims);
  for (uint32_t i = 0; i < n; i++)
    out[i] = held(x[i]);
  return recipe_bytes(k->r, DTYPE_FLOAT, dims, rank, span_of(out, n * sizeof *out));
}

// The same, on one side, of others.
static uint32_t masked(struct kit *k, uint32_t of, float most) {
  const enum recipe_map_op beyond = most < 0 ? RECIPE_MAP_LESS : RECIPE_MAP_GREATER;
  const enum recipe_map_op within = most < 0 ? RECIPE_MAP_GREATER : RECIPE_MAP_LESS;
  const uint32_t far = recipe_map(k->r, beyond, (const uint32_t[]){of, number(k, most)});
  const uint32_t finite =
      recipe_map(k->r, within, (const uint32_t[]){of, number(k, most < 0 ? -INFINITY : INFINITY)});
  const uint32_t both = recipe_map(k->r, RECIPE_MAP_AND, (const uint32_t[]){far, finite});
  return recipe_map(k->r, RECIPE_MAP_WHERE, (const uint32_t[]){both, number(k, most), of});
}

static bool elements_at_hand(struct kit *k, uint32_t tensor, const double **list, uint32_t *n) {
  struct span raw;
  if (!model_small_value(k->m, tensor, &raw)) return false;
  *n = (uint32_t)(raw.n / sizeof(float));
  double *out = arena_alloc(&k->site, (*n + (size_t)1) * sizeof *out);
  for (uint32_t i = 0; i < *n; i++) {
    float x;
    memcpy(&x, raw.at + i * sizeof x, sizeof x);
    out[i] = (double)x;
  }
  *list = out;
  return true;
}

static bool is_long_mask(const struct kit *k, uint32_t of) {
  uint32_t longer = 0;
  for (uint32_t i = 0; i < k->r->rows[of].rank; i++)
    longer += recipe_dims(k->r, of)[i] > 1;
  return longer > 1;
}

uint32_t cast_graph_bounded(struct kit *k, uint32_t value, uint32_t tensor, uint32_t of,
                            bool *mask) {
  const double *x = NULL;
  uint32_t n = 0;
  *mask = false;
  if (k->r->rows[of].dtype != DTYPE_FLOAT) return NO_ID;
  const bool known = elements_at_hand(k, tensor, &x, &n);
  if (!known && !is_long_mask(k, of)) return NO_ID;
  bool beyond_half = false, beyond_mask = false;
  for (uint32_t i = 0; known && i < n; i++) {
    beyond_half = beyond_half || is_beyond(x[i], half_most);
    beyond_mask = beyond_mask || is_beyond(x[i], (double)mask_most);
  }
  if (known && !beyond_mask) return NO_ID;
  uint32_t reached[CAST_GRAPH_REACHED], n_reached;
  const enum cast_graph_bound bound = cast_graph_reached(k, value, reached, &n_reached);
  *mask = bound == CAST_GRAPH_MASK;
  if (bound == CAST_GRAPH_MASK && known)
    return recipe_cast(k->r, masked_numbers(k, of, x, n), DTYPE_FLOAT16);
  if (bound == CAST_GRAPH_MASK && recipe_can_grow(k->r, of))
    return recipe_cast(k->r, masked(k, masked(k, of, -mask_most), mask_most), DTYPE_FLOAT16);
  if (bound == CAST_GRAPH_BOUND && beyond_half && are_alike(x, n))
    return recipe_cast_clipped(k->r, of, DTYPE_FLOAT16);
  return NO_ID;
}
