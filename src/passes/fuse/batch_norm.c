// Room: the pass fuse/bn, which folds a BatchNormalization into the Conv, ConvTranspose, Gemm or MatMul before it.
//
//   Conv(x, W, b) ─▶ BatchNormalization(scale, B, mean, var) ─▶ y
//
//   f = scale / sqrt(var + epsilon)          by output channel
//   W' = W · f      b' = (b − mean) · f + B
//
//   Conv(x, W', b') ─▶ y
//
// Weights are recipes: whatever their size, they are multiplied while they are written. Of float16
// and bfloat16 everything is computed in float32 and rounded once. A ConvTranspose has its output
// channels in the second axis of its weights, within groups; a Gemm in the columns of its second
// operand, with its beta taken into the new bias. So has a MatMul, of which an Add of the bias is left;
// it must be one of matrices, since the channels are the second axis of its result.
//
// A weight that others use too would be stored twice, so it is left alone, and so is whatever is not
// known at planning: scales that are computed, a normalization in training. In a model with training
// information all of them stay: it names the weights that it would change. Of float16 the products are looked
// at first, since those that are out of its range would be infinities: the fold is left then.
#include "passes/kit/dead_ends.h"
#include "passes/kit/kit.h"
#include "passes/questions/findings.h"
#include "passes/questions/name_filter.h"

#include <assert.h>

// What is folded: values of the model, and the dims of the weight.
struct folding {
  uint32_t maker; // the node before
  enum op op;
  uint32_t weight, bias; // values; bias NO_ID: none
  uint32_t recipe;       // of the weight's elements
  uint32_t axis;         // of the weight: the output channels, or those of a group
  int64_t groups;        // in which the weight's first axis is cut (ConvTranspose; else 1)
  int64_t channels;      // M
  enum dtype dtype;
  float epsilon, beta; // beta: of a Gemm, else 1
};

// A constant of `channels` elements of the dtype, one behind the other. (A bias of a Gemm may be a
// row.)
static bool is_vector(struct kit *k, uint32_t value, const struct folding *f) {
  const uint32_t id = kit_recipe(k, value);
  if (id == NO_ID || k->r->rows[id].dtype != f->dtype) return false;
  const uint32_t rank = k->r->rows[id].rank;
  const int64_t *dims = recipe_dims(k->r, id);
  for (uint32_t i = 0; i + 1 < rank; i++)
    if (dims[i] != 1) return false;
  return rank > 0 && dims[rank - 1] == f->channels;
}

// Where the weight has its output channels.
static bool find_channels(struct kit *k, struct folding *f) {
  const struct recipe *row = &k->r->rows[f->recipe];
  const int64_t *dims = recipe_dims(k->r, f->recipe);
  int64_t groups = 1, transposed = 0;
  f->groups = 1;
  if (f->op == OP_Gemm) {
    if (!kit_attr_int(k, f->maker, "transB", 0, &transposed) || row->rank != 2) return false;
    f->axis = transposed ? 0 : 1;
  } else if (f->op == OP_MatMul) {
    uint32_t rank;
    if (!kit_rank(k, kit_in(k, f->maker, 0), &rank) || rank != 2 || row->rank != 2) return false;
    f->axis = 1;
  } else if (f->op == OP_ConvTranspose) {
    if (!kit_attr_int(k, f->maker, "group", 1, &groups) || row->rank < 3) return false;
    if (groups < 1 || dims[0] % groups != 0) return false;
    f->groups = groups;
    f->axis = 1;
  } else {
    if (row->rank < 3) return false;
    f->axis = 0;
  }
  return row->count > 0 && f->channels % f->groups == 0 && dims[f->axis] == f->channels / f->groups;
}

// Every fold computes from what the one before made, and so lies above it.
static bool all_can_grow(struct kit *k, uint32_t bn, const struct folding *f) {
  bool can = recipe_can_grow(k->r, f->recipe) &&
             (f->bias == NO_ID || recipe_can_grow(k->r, kit_recipe(k, f->bias)));
  for (uint32_t i = 1; i < 5; i++)
    can = can && recipe_can_grow(k->r, kit_recipe(k, kit_in(k, bn, i)));
  return can;
}

// Why the normalization cannot be folded, a stable word, or NULL and *f.
static const char *find(struct kit *k, uint32_t bn, struct folding *f) {
  int64_t training;
  *f = (struct folding){.maker = kit_maker(k, kit_in(k, bn, 0)), .beta = 1};
  f->op = kit_op(k, f->maker);
  if (f->op != OP_Conv && f->op != OP_ConvTranspose && f->op != OP_Gemm && f->op != OP_MatMul)
    return "no_weights_before";
  if (kit_opset(k, k->m->nodes[bn].graph) < 9) return "opset_too_old";
  if (!kit_attr_int(k, bn, "training_mode", 0, &training) || training != 0) return "training";
  if (k->m->n_trainings > 0) return "training";
  if (kit_n_out(k, bn) != 1) return "more_outputs";
  if (k->m->nodes[f->maker].graph != k->m->nodes[bn].graph ||
      kit_sole_user(k, kit_in(k, bn, 0)) != bn || kit_in(k, bn, 0) != kit_out(k, f->maker, 0))
    return "used_elsewhere";
  if (!kit_attrs_copyable(k, f->maker) || !kit_attr_float(k, bn, "epsilon", 1e-5f, &f->epsilon) ||
      (f->op == OP_Gemm && !kit_attr_float(k, f->maker, "beta", 1, &f->beta)))
    return "attributes";

  uint32_t tensor, scale;
  f->weight = kit_in(k, f->maker, 1);
  f->bias = kit_in(k, f->maker, 2);
  if (kit_is_overridable(k->m, f->weight) && !kit_constant(k, f->weight, &tensor))
    return "overridable_weight";
  if (!kit_constant(k, f->weight, &tensor) || !kit_constant(k, kit_in(k, bn, 1), &scale))
    return "non_constant_weight";
  f->recipe = kit_recipe(k, f->weight);
  const uint32_t scales = kit_recipe(k, kit_in(k, bn, 1));
  if (f->recipe == NO_ID || scales == NO_ID) return "unreadable";
  f->dtype = (enum dtype)k->r->rows[f->recipe].dtype;
  f->channels = (int64_t)k->r->rows[scales].count;
  if (!dtype_is_plain_float(f->dtype)) return "dtype";
  if (!find_channels(k, f)) return "shape";
  for (uint32_t i = 1; i < 5; i++)
    if (!is_vector(k, kit_in(k, bn, i), f)) return "non_constant_scale";
  if (f->bias != NO_ID && !is_vector(k, f->bias, f)) return "non_constant_bias";
  if (kit_constant_use_count(k, f->weight, 2) > 1) return "shared_weight";
  if (!all_can_grow(k, bn, f)) return "many_before";
  return NULL;
}

// ---- the recipes -------------------------------------------------------------------------------

// The type that it is computed in, and back.
static uint32_t widened(struct kit *k, uint32_t id) {
  return k->r->rows[id].dtype == DTYPE_DOUBLE ? id : recipe_cast(k->r, id, DTYPE_FLOAT);
}

static uint32_t vector(struct kit *k, uint32_t value, const struct folding *f) {
  return recipe_reshape(k->r, widened(k, kit_recipe(k, value)), &f->channels, 1);
}

static uint32_t number(struct kit *k, const struct folding *f, double x) {
  return kit_scalar_recipe(k, f->dtype == DTYPE_DOUBLE ? DTYPE_DOUBLE : DTYPE_FLOAT, x);
}

static uint32_t new_weight(struct kit *k, const struct folding *f, uint32_t factor) {
  const uint32_t rank = k->r->rows[f->recipe].rank;
  int64_t dims[RECIPE_MAX_RANK + 1], ones[RECIPE_MAX_RANK + 1];
  // The first axis in groups, so that a factor belongs to (group, channel of the group).
  memcpy(dims + 1, recipe_dims(k->r, f->recipe), rank * sizeof *dims);
  const int64_t first = dims[1];
  dims[0] = f->groups;
  dims[1] = first / f->groups;
  for (uint32_t i = 0; i <= rank; i++)
    ones[i] = 1;
  ones[0] = f->groups;
  ones[f->axis + 1] = dims[f->axis + 1];
  const uint32_t in_groups = recipe_reshape(k->r, widened(k, f->recipe), dims, rank + 1);
  const uint32_t product =
      recipe_map_two(k->r, RECIPE_MAP_MUL, in_groups, recipe_reshape(k->r, factor, ones, rank + 1));
  dims[1] = first;
  return recipe_reshape(k->r, product, dims + 1, rank);
}

// The new weight and bias, in the type that they are computed in.
static void folded(struct kit *k, uint32_t bn, const struct folding *f, uint32_t made[2]) {
  const uint32_t scale = vector(k, kit_in(k, bn, 1), f), shift = vector(k, kit_in(k, bn, 2), f),
                 mean = vector(k, kit_in(k, bn, 3), f), var = vector(k, kit_in(k, bn, 4), f);
  const uint32_t wide = recipe_map_two(k->r, RECIPE_MAP_ADD, var, number(k, f, f->epsilon));
  const uint32_t root = recipe_map(k->r, RECIPE_MAP_SQRT, &wide);
  const uint32_t factor = recipe_map_two(k->r, RECIPE_MAP_DIV, scale, root);
  uint32_t centre = NO_ID;
  if (f->bias != NO_ID) {
    centre = vector(k, f->bias, f);
    if (f->beta != 1) centre = recipe_map_two(k->r, RECIPE_MAP_MUL, centre, number(k, f, f->beta));
    centre = recipe_map_two(k->r, RECIPE_MAP_SUB, centre, mean);
  } else {
    centre = recipe_map(k->r, RECIPE_MAP_NEG, &mean);
  }
  made[1] = recipe_map_two(k->r, RECIPE_MAP_ADD,
                           recipe_map_two(k->r, RECIPE_MAP_MUL, centre, factor), shift);
  made[0] = new_weight(k, f, factor);
}

static void fold(struct kit *k, uint32_t bn, const struct folding *f) {
  uint32_t params[4], tensor, made[2];
  for (uint32_t i = 0; i < 4; i++)
    params[i] = kit_in(k, bn, i + 1);
  folded(k, bn, f, made);
  const uint32_t bias_recipe = recipe_cast(k->r, made[1], f->dtype);
  const uint32_t weight_recipe = recipe_cast(k->r, made[0], f->dtype);

  const bool constant = kit_constant(k, f->weight, &tensor);
  assert(constant);
  const uint32_t called = k->m->values[f->weight].name;
  struct span stem = model_name(k->m, k->m->nodes[f->maker].name);
  if (stem.n == 0) stem = model_value_name(k->m, f->weight);
  k->stem = span_of(arena_string(&k->site, stem), stem.n); // names move when one is made
  const uint32_t weight = kit_new_tensor(k, "folded_weight", weight_recipe);
  edit_stands_for(k->e, k->m->n_tensors - 1, tensor, called);
  const uint32_t bias = kit_new_tensor(k, "folded_bias", bias_recipe);
  const uint32_t x = kit_in(k, f->maker, 0);
  if (f->op == OP_MatMul) {
    const uint32_t product = kit_make(k, OP_MatMul, KIT_IN(x, weight));
    kit_note_like(k, product, kit_in(k, bn, 0));
    kit_replace(k, bn, OP_Add, KIT_IN(product, bias));
  } else if (f->op == OP_Gemm)
    kit_replace(k, bn, f->op, KIT_IN(x, weight, bias), KIT_ATTRS_OF(f->maker),
                KIT_FLOAT("beta", 1));
  else
    kit_replace(k, bn, f->op, KIT_IN(x, weight, bias), KIT_ATTRS_OF(f->maker));
  kit_sweep(k, f->maker);
  for (uint32_t i = 0; i < 4; i++)
    dead_ends_drop(k->e, params[i]);
}

// ---- float16 -----------------------------------------------------------------------------------

// The normalizations of float16 that can be folded, in the order of the walk, and what becomes of them.
struct ranges {
  TABLE(uint32_t, nodes);
  TABLE(uint32_t, of);        // weight and bias of each
  struct tensor_stats *found; // NULL: nobody can be asked
  uint32_t next;
};

static int look(struct kit *k, const struct name_filter *nodes, struct ranges *r, struct err *err) {
  for (uint32_t g = 0; kit_graph(k, &g); g++)
    for (uint32_t n = k->m->graphs[g].first_node; n != NO_ID; n = k->m->nodes[n].next) {
      struct folding f;
      uint32_t made[2];
      if (kit_op(k, n) != OP_BatchNormalization) continue;
      if (name_filter_refuses(nodes, model_name_str(k->m, k->m->nodes[n].name))) continue;
      arena_reset(&k->site);
      if (find(k, n, &f) || f.dtype != DTYPE_FLOAT16) continue;
      folded(k, n, &f, made);
      *TABLE_PUSH(r, nodes) = n;
      *TABLE_PUSH(r, of) = made[0];
      *TABLE_PUSH(r, of) = made[1];
    }
  if (r->n_nodes == 0 || !k->env->ask) return 0;
  r->found = arena_zalloc(k->env->scratch, r->n_of * sizeof *r->found);
  return findings_ask(k->env, r->of, r->n_of, false, r->found, err);
}

// One that only a fold made possible was not looked at: a later run finds it.
static bool in_range(struct ranges *r, uint32_t bn) {
  const double most = dtype_largest(DTYPE_FLOAT16);
  if (!r->found) return true;
  while (r->next < r->n_nodes && r->nodes[r->next] != bn)
    r->next++;
  for (uint32_t i = 0; i < 2 && r->next < r->n_nodes; i++) {
    const struct tensor_stats *x = &r->found[2 * r->next + i];
    if (!tensor_stats_finite(x) || x->most > most || x->least < -most) return false;
  }
  return r->next < r->n_nodes;
}

// ---- the pass ----------------------------------------------------------------------------------

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  const struct name_filter *nodes = with;
  kit_init(&k, env, env->pass->name);
  name_filter_warn(&nodes, 1, env);
  struct ranges r = {0};
  int rc = look(&k, nodes, &r, err);
  for (uint32_t g = 0; rc == 0 && kit_graph(&k, &g); g++)
    for (uint32_t n = k.m->graphs[g].first_node, next; n != NO_ID; n = next) {
      struct folding f;
      next = k.m->nodes[n].next;
      if (kit_op(&k, n) != OP_BatchNormalization) continue;
      arena_reset(&k.site);
      const char *obstacle = name_filter_refuses(nodes, model_name_str(k.m, k.m->nodes[n].name));
      if (!obstacle) obstacle = find(&k, n, &f);
      if (!obstacle && f.dtype == DTYPE_FLOAT16 && !in_range(&r, n)) obstacle = "range";
      if (!obstacle && name_filter_excludes(nodes, model_name_str(k.m, k.m->nodes[f.maker].name)))
        obstacle = "excluded";
      if (obstacle) {
        kit_skipped(&k, n, obstacle);
        continue;
      }
      kit_site(&k, n, "folded");
      kit_report(&k, &(struct kit_report){.node = n, .reason = "folded", .weight = f.weight + 1});
      fold(&k, n, &f);
    }
  TABLES_FREE(&r, nodes, of);
  return kit_done(&k, err) < 0 ? -1 : rc;
}

static const struct pass batch_norm = {
    .name = "fuse/bn",
    .summary = "fold BatchNormalization into the Conv, ConvTranspose, Gemm or MatMul before it",
    .about = "Multiplies the weights before a BatchNormalization by its factors, and adds its "
             "offsets to the bias. Large weights are multiplied while they are written.",
    .needs = "constant scales, means and variances, and weights without other users",
    .promises = "the same results up to rounding, for finite inputs",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = run,
};

const struct pass *const fuse_passes[] = {&batch_norm, NULL};
