// lower-conv/ConvToMatMul: a convolution as a matrix product with what its window sees.
//
//   x [N,C,I…] ─ Conv(W [M,C/g,K…], b) ─▶ y [N,M,O…]
//
//   x ─ Pad ─ Transpose ─ Split ─┬ Im2Col ─ MatMul(W₀ [K…·C/g, M/g]) ┬ Concat ─ Add(b) ─ Transpose ─▶ y
//                                └ Im2Col ─ MatMul(W₁)               ┘
//
// Pad only where there are pads, Split and Concat only where there are groups (one branch each, with one index for all
// of them). W is laid anew, the output channels last: of constant weights that is a recipe, and no weight is ever held;
// of others, Transpose, Reshape and Split. What nothing uses any longer goes.
//
// The batch may be of any size; what the index is made of, channels and spatial dims, must be known.
#include "passes/kit/dead_ends.h"
#include "passes/lower/inside/lower.h"
#include "passes/lower/inside/lower_window.h"

struct conv {
  struct lower_window w;
  uint32_t x, weight, bias; // values; bias NO_ID: none
  int64_t groups, in, out;  // channels of one group
};

static const char *match(struct lower *l, uint32_t node, struct conv *c) {
  struct kit *k = &l->k;
  *c = (struct conv){.x = kit_in(k, node, 0), .weight = kit_in(k, node, 1)};
  c->bias = kit_in(k, node, 2);
  if (c->weight == NO_ID || kit_n_in(k, node) > 3) return "signature";
  if (kit_may_be_left_out(k->m, c->weight)) return "signature";
  if (kit_may_be_left_out(k->m, c->bias)) return "optional_bias";
  const char *why = lower_window_of(k, node, &c->w);
  if (why) return why;
  if (!kit_attr_int(k, node, "group", 1, &c->groups) || c->groups < 1) return "attribute";
  const int64_t out = kit_dim(k, c->weight, 0).value;
  c->in = kit_dim(k, c->weight, 1).value;
  if (c->in < 1 || out < 1) return "shape_unknown";
  if (c->w.channels % c->groups || c->w.channels / c->groups != c->in || out % c->groups)
    return "attribute";
  c->out = out / c->groups;
  if (!dtype_is_plain_float(c->w.dtype)) return "float_type";
  if (!lower_window_pads_fit(&c->w, l->options->index_limit)) return "pads_limit";
  return lower_window_index_fits(&c->w, c->in, l->options->index_limit) ? NULL : "index_limit";
}

// ---- the weights -----------------------------------------------------------------------------------

// [M,C,K…] of a group → [K…·C,M].
static uint32_t laid(struct lower *l, const struct conv *c, uint32_t of, int64_t group) {
  struct recipes *r = l->k.r;
  const uint32_t rank = c->w.rank + 2;
  int64_t starts[LOWER_WINDOW_AXES + 2] = {group * c->out}, ones[LOWER_WINDOW_AXES + 2],
                                     dims[LOWER_WINDOW_AXES + 2] = {c->out, c->in},
                                     perm[LOWER_WINDOW_AXES + 2];
  for (uint32_t i = 0; i < rank; i++) {
    ones[i] = 1;
    perm[i] = i + 2 < rank ? i + 2 : rank - 1 - i;
  }
  memcpy(dims + 2, c->w.kernel, c->w.rank * sizeof *dims);
  const int64_t matrix[2] = {lower_window_product(c->w.kernel, c->w.rank) * c->in, c->out};
  const uint32_t part = recipe_slice(r, of, starts, ones, dims);
  return recipe_reshape(r, recipe_transpose(r, part, perm), matrix, 2);
}

static void lay_constant(struct lower *l, const struct conv *c, uint32_t of, uint32_t *matrices) {
  const struct model *m = l->k.m;
  uint32_t tensor;
  const bool known = kit_constant(&l->k, c->weight, &tensor);
  for (int64_t g = 0; g < c->groups; g++) {
    matrices[g] = lower_window_constant(l, "weight", laid(l, c, of, g));
    if (known && m->values[matrices[g]].kind == VALUE_INITIALIZER)
      edit_stands_for(l->k.e, m->values[matrices[g]].def, tensor, m->empty);
  }
}

// n equal parts of x along its last axis.
static void split(struct lower *l, uint32_t x, int64_t n, int64_t each, const char *what,
                  uint32_t *parts) {
  struct kit *k = &l->k;
  if (n == 1) {
    *parts = x;
    return;
  }
  int64_t *sizes = arena_alloc(&k->site, (size_t)n * sizeof *sizes);
  for (int64_t i = 0; i < n; i++)
    sizes[i] = each;
  const uint32_t first =
      kit_make(k, OP_Split, KIT_IN(x, lower_window_ints(l, what, sizes, (uint32_t)n)),
               KIT_INT("axis", -1), KIT_OUTPUTS((uint32_t)n));
  const uint32_t node = kit_maker(k, first);
  for (int64_t i = 0; i < n; i++)
    parts[i] = kit_out(k, node, (uint32_t)i);
}

static void lay_value(struct lower *l, const struct conv *c, uint32_t *matrices) {
  struct kit *k = &l->k;
  int64_t perm[LOWER_WINDOW_AXES + 2] = {0};
  static const int64_t swap[2] = {1, 0};
  for (uint32_t i = 0; i < c->w.rank; i++)
    perm[1 + i] = 2 + i;
  perm[c->w.rank + 1] = 1;
  const int64_t matrix[2] = {c->groups * c->out,
                             lower_window_product(c->w.kernel, c->w.rank) * c->in};
  const uint32_t last =
      kit_make(k, OP_Transpose, KIT_IN(c->weight), KIT_INTS("perm", perm, c->w.rank + 2));
  const uint32_t flat =
      kit_make(k, OP_Reshape, KIT_IN(last, lower_window_ints(l, "weight_shape", matrix, 2)));
  const uint32_t turned = kit_make(k, OP_Transpose, KIT_IN(flat), KIT_INTS("perm", swap, 2));
  split(l, turned, c->groups, c->out, "weight_split", matrices);
}

// ---- the product -----------------------------------------------------------------------------------

static uint32_t put_products(struct lower *l, const struct conv *c, const uint32_t *matrices) {
  struct kit *k = &l->k;
  const size_t n = (size_t)c->groups;
  uint32_t *parts = arena_alloc(&k->site, n * sizeof *parts);
  const uint32_t last = lower_window_last(l, &c->w, c->x, 0);
  const uint32_t index = lower_window_index(l, &c->w, c->in);
  split(l, last, c->groups, c->in, "split", parts);
  for (size_t i = 0; i < n; i++) {
    const uint32_t columns = lower_window_columns(k, &c->w, parts[i], index);
    parts[i] = kit_make(k, OP_MatMul, KIT_IN(columns, matrices[i]));
  }
  if (n == 1) return *parts;
  return kit_make(k, OP_Concat, KIT_INPUTS(parts, (uint32_t)n), KIT_INT("axis", -1));
}

static const char *visit(struct lower *l, uint32_t node) {
  struct kit *k = &l->k;
  struct conv c;
  const char *why = match(l, node, &c);
  if (why) return why;
  const uint32_t weights = kit_recipe(k, c.weight);
  kit_begin(k, node, "conv");
  kit_import(k, k->graph, kit_domain_name(KIT_PASSES), 1);
  uint32_t *matrices = arena_alloc(&k->site, (size_t)c.groups * sizeof *matrices);
  if (weights == NO_ID)
    lay_value(l, &c, matrices);
  else
    lay_constant(l, &c, weights, matrices);
  uint32_t y = put_products(l, &c, matrices);
  if (c.bias != NO_ID) y = kit_make(k, OP_Add, KIT_IN(y, c.bias));
  lower_window_back(k, &c.w, node, y);
  dead_ends_drop(k->e, c.weight);
  return NULL;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  return lower_window_walk(env, with, OP_Conv, visit, err);
}

const struct pass lower_conv = {
    .name = "lower-conv/ConvToMatMul",
    .summary = "replace Conv by Im2Col and MatMul",
    .about =
        "Replaces Conv, with its groups, strides, dilations and pads, by a MatMul with the "
        "elements of each window: Pad, Transpose, the custom operator Im2Col with an index of all "
        "windows, MatMul, Add and Transpose. The weights are rearranged while they are copied, "
        "and the index is computed while it is written.",
    .needs = "known channels and spatial dims (the batch may be of any size), opset 13",
    .promises = "the same results up to rounding (the order of summation differs)",
    .exactness = EXACTNESS_ROUNDING,
    LOWER_OPTIONS,
    .run = run,
};
