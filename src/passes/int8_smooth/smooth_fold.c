// The division of a value by its scales, done by what makes it:
//
//   LayerNormalization(x, g, b) ─▶ v ─┬─ MatMul        g / s, b / s: v comes out divided
//                                     └─ MatMul
//
// From the value back: an Add of a constant has that divided, and what it is added to is to come out divided too; a Relu lets the
// division through, since scales are above 0. It ends at an operator that has a factor for each channel, or makes channels of a
// weight: LayerNormalization and its kin, BatchNormalization, Mul with a constant, MatMul, Gemm, Conv. All on the way have one use.
//
// Values that come out divided are other values, and not what RANGES saw: they get other names, so that nobody takes its ranges
// for theirs (with --compat, as there, the old ones).
#include "passes/int8_smooth/inside/smooth.h"

enum { MOST_LINKS = 8, MOST_CHANGES = 2 * MOST_LINKS, BY_CHANNEL_OPSET = 9 };

// A constant that takes part.
struct change {
  uint32_t node, slot, recipe;
};

struct folding {
  struct smooth *s;
  const struct smooth_site *site;
  struct change changes[MOST_CHANGES];
  uint32_t n;
  uint32_t values[MOST_LINKS], n_values; // that come out divided
};

static struct kit *kit_of(const struct folding *f) {
  return &f->s->k;
}

// A constant of floats.
static bool constant(const struct folding *f, uint32_t value, uint32_t *recipe) {
  uint32_t tensor;
  struct kit *k = kit_of(f);
  if (!kit_constant(k, value, &tensor) || !dtype_is_plain_float(k->m->tensors[tensor].dtype) ||
      !edit_tensor_readable(k->e, tensor))
    return false;
  *recipe = kit_recipe(k, value);
  return *recipe != NO_ID;
}

// Notes the constant of a slot, divided; `behind` axes follow that of the channels. may_be_one: of an operand that broadcasts, so
// that one number becomes one for each channel.
static bool divide_as(struct folding *f, uint32_t node, uint32_t slot, uint32_t behind,
                      bool may_be_one) {
  struct recipes *r = f->s->k.r;
  uint32_t c;
  if (!constant(f, kit_in(kit_of(f), node, slot), &c) || f->n == MOST_CHANGES) return false;
  const uint32_t rank = r->rows[c].rank;
  const bool one = may_be_one && r->rows[c].count == 1;
  if (!one && (rank <= behind || recipe_dims(r, c)[rank - behind - 1] != f->site->channels))
    return false;
  if (one) c = recipe_reshape(r, c, NULL, 0);
  const bool compat = f->s->options->compat;
  const uint32_t by = smooth_spread(f->s, f->site, compat, behind, DTYPE_FLOAT);
  const uint32_t made = smooth_times(f->s, compat ? RECIPE_MAP_MUL : RECIPE_MAP_DIV, c, by);
  if (!recipe_can_grow(r, made)) return false;
  f->changes[f->n++] = (struct change){node, slot, made};
  return true;
}

static bool divide(struct folding *f, uint32_t node, uint32_t slot, uint32_t behind) {
  return divide_as(f, node, slot, behind, false);
}

static bool divide_if_there(struct folding *f, uint32_t node, uint32_t slot, uint32_t behind) {
  return kit_in(kit_of(f), node, slot) == NO_ID || divide(f, node, slot, behind);
}

// Weights whose channels are the first axis: [C,…] over [C,1,…].
static bool divide_rows(struct folding *f, uint32_t node, uint32_t slot) {
  uint32_t c;
  if (!constant(f, kit_in(kit_of(f), node, slot), &c)) return false;
  const uint32_t rank = f->s->k.r->rows[c].rank;
  return rank > 0 && recipe_dims(f->s->k.r, c)[0] == f->site->channels &&
         divide(f, node, slot, rank - 1);
}

// ---- what makes it -----------------------------------------------------------------------------

static bool is_last(struct kit *k, uint32_t node, int64_t fallback) {
  int64_t axis;
  uint32_t rank;
  if (!kit_attr_int(k, node, "axis", fallback, &axis)) return false;
  return axis == -1 || (kit_rank(k, kit_in(k, node, 0), &rank) && axis == (int64_t)rank - 1);
}

static bool is_second(const struct folding *f, uint32_t value) {
  uint32_t rank;
  return kit_rank(kit_of(f), value, &rank) && f->site->axis == 1 - (int32_t)rank;
}

static bool end_at(struct folding *f, uint32_t node, uint32_t value) {
  struct kit *k = kit_of(f);
  const uint32_t behind = (uint32_t)(-f->site->axis - 1);
  uint32_t rank;
  int64_t x;
  switch (kit_op(k, node)) {
  case OP_LayerNormalization:
    return behind == 0 && is_last(k, node, -1) && divide(f, node, 1, 0) &&
           divide_if_there(f, node, 2, 0);
  case OP_ms_SkipLayerNormalization:
    return behind == 0 && divide(f, node, 2, 0) && divide_if_there(f, node, 3, 0);
  case OP_ms_SkipSimplifiedLayerNormalization: return behind == 0 && divide(f, node, 2, 0);
  case OP_RMSNormalization: return behind == 0 && is_last(k, node, -1) && divide(f, node, 1, 0);
  case OP_BatchNormalization: // before opset 9 it may have a scale for each element
    return is_second(f, value) && kit_opset(k, k->graph) >= BY_CHANNEL_OPSET &&
           kit_attr_int(k, node, "training_mode", 0, &x) && x == 0 && divide(f, node, 1, 0) &&
           divide(f, node, 2, 0);
  case OP_Mul: return divide_as(f, node, 1, behind, true) || divide_as(f, node, 0, behind, true);
  case OP_MatMul: // by a vector it makes no channels
    return behind == 0 && kit_rank(k, kit_in(k, node, 1), &rank) && rank > 1 &&
           divide(f, node, 1, 0);
  case OP_Gemm:
    if (behind != 0 || !kit_attr_int(k, node, "transB", 0, &x)) return false;
    return (x ? divide_rows(f, node, 1) : divide(f, node, 1, 0)) &&
           (kit_in(k, node, 2) == NO_ID || divide_as(f, node, 2, 0, true));
  case OP_Conv:
    return is_second(f, value) && divide_rows(f, node, 1) && divide_if_there(f, node, 2, 0);
  default: return false;
  }
}

static bool is_own(const struct folding *f, uint32_t value, uint32_t user) {
  const struct kit *k = kit_of(f);
  return value != NO_ID && k->m->values[value].graph == f->site->graph &&
         !kit_is_output(k, value) && kit_sole_user(k, value) == user;
}

// The links from the value back, and what they end at.
static bool go_back(struct folding *f) {
  struct kit *k = kit_of(f);
  uint32_t value = f->site->value;
  for (int i = 0; i < MOST_LINKS; i++) {
    const uint32_t node = kit_maker(k, value);
    f->values[f->n_values++] = value;
    if (node == NO_ID || kit_out(k, node, 0) != value ||
        k->m->nodes[node].graph != f->site->graph || kit_refers(k->m, node))
      return false;
    const enum op op = kit_op(k, node);
    const bool passes = !f->s->options->compat && (op == OP_Relu || op == OP_Add);
    if (!passes) return end_at(f, node, value);
    const uint32_t behind = (uint32_t)(-f->site->axis - 1);
    uint32_t slot = 0;
    if (op == OP_Add) {
      if (divide_as(f, node, 1, behind, true))
        slot = 0;
      else if (divide_as(f, node, 0, behind, true))
        slot = 1;
      else
        return false;
      // The constant must not make more of what it is added to.
      if (!kit_broadcasts(k, kit_in(k, node, 1 - slot), kit_in(k, node, slot))) return false;
    }
    value = kit_in(k, node, slot);
    if (!is_own(f, value, node)) return false;
  }
  return false;
}

// Another value in its place, which is what comes out divided.
static void replace(struct folding *f, uint32_t old) {
  struct kit *k = kit_of(f);
  const uint32_t node = kit_maker(k, old);
  const char *own = arena_string(&k->site, model_value_name(k->m, old));
  const struct span name = kit_names_join(span_str(own), "_smoothed", &k->site);
  edit_set_output(k->e, node, 0,
                  (struct edit_output){NO_ID, kit_names_take(&k->names, KIT_VALUES, f->site->graph,
                                                             name, &k->site)});
  const uint32_t new = kit_out(k, node, 0);
  kit_note_like(k, new, old);
  for (struct kit_use u = kit_uses(k, old); kit_use(k, &u);)
    edit_set_input(k->e, u.node, u.slot, new);
  if (f->s->options->compat) edit_rename_value(k->e, new, span_str(own));
}

bool smooth_fold(struct smooth *s, const struct smooth_site *site) {
  struct kit *k = &s->k;
  struct folding f = {.s = s, .site = site};
  const struct model_value *v = &k->m->values[site->value];
  if (s->options->no_folding || v->graph != site->graph || kit_is_output(k, site->value) ||
      kit_use_count(k, site->value, site->n + 1) != site->n)
    return false;
  if (!go_back(&f)) return false;
  for (uint32_t i = 0; i < f.n; i++)
    (void)smooth_put(s, f.changes[i].node, f.changes[i].slot, f.changes[i].recipe, 0);
  for (uint32_t i = f.n_values; i-- > 0;)
    replace(&f, f.values[i]);
  return true;
}
