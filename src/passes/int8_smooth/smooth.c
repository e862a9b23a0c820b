// smooth: SmoothQuant. What is hard to quantize moves from activations into weights, without a change of what is computed:
//
//   x ─┬─ MatMul(W) ─▶            x ── / s ─┬─ MatMul(s · W) ─▶        s: a number for each channel of x (smooth_scales.c)
//      └─ MatMul(V) ─▶      ⇒               └─ MatMul(s · V) ─▶
//
// A site is a value with all nodes of a graph that multiply it with a constant weight: one s for all of them, so that x may be
// divided where it is made (smooth_fold.c). Where it cannot be, a Mul by 1/s stands before them.
//
// All scales are made before anything changes, since a weight may be that of one site and make the value of another. Weights
// are recipes, rows of the weight that was times s: none is read here.
#include "passes/int8_smooth/inside/smooth.h"

#include "passes/kit/weights.h"

#include <math.h>
#include <stdlib.h>

enum { BROADCAST_OPSET = 7 }; // of Mul

// ---- recipes -----------------------------------------------------------------------------------

uint32_t smooth_spread(struct smooth *s, const struct smooth_site *site, bool inverse,
                       uint32_t behind, enum dtype dtype) {
  struct recipes *r = s->k.r;
  uint32_t of = site->scales;
  int64_t dims[RECIPE_MAX_RANK];
  dims[0] = site->channels;
  for (uint32_t i = 1; i <= behind; i++)
    dims[i] = 1;
  if (inverse) of = recipe_map(r, RECIPE_MAP_RECIPROCAL, &of);
  if (dtype != DTYPE_FLOAT) of = recipe_cast(r, of, dtype);
  return recipe_reshape(r, of, dims, behind + 1);
}

uint32_t smooth_times(struct smooth *s, enum recipe_map_op op, uint32_t c, uint32_t by) {
  struct recipes *r = s->k.r;
  const enum dtype own = r->rows[c].dtype;
  if (own == DTYPE_FLOAT) return recipe_map(r, op, (const uint32_t[]){c, by});
  const uint32_t wide = recipe_cast(r, c, DTYPE_FLOAT);
  return recipe_cast(r, recipe_map(r, op, (const uint32_t[]){wide, by}), own);
}

// ---- constants ---------------------------------------------------------------------------------

static void remove_unused(struct kit *k, uint32_t value) {
  if (!kit_unused(k, value)) return;
  const struct model_value *v = &k->m->values[value];
  if (v->kind == VALUE_NODE_OUTPUT)
    (void)kit_sweep(k, v->def);
  else if (v->kind == VALUE_INITIALIZER && !(v->flags & VALUE_IS_INPUT))
    edit_remove_tensor(k->e, v->def);
}

// The tensor of a weight; the existing tool looks at initializers alone.
static bool smooth_constant(struct smooth *s, uint32_t value, uint32_t *tensor) {
  struct model_constant c;
  if (s->options->compat) return kit_constant(&s->k, value, tensor);
  if (!kit_weight(&s->k, value, &c)) return false;
  *tensor = c.tensor;
  return true;
}

uint32_t smooth_recipe(struct smooth *s, uint32_t weight) {
  uint32_t tensor;
  if (!smooth_constant(s, weight, &tensor) || !edit_tensor_readable(s->k.e, tensor)) return NO_ID;
  return edit_tensor_recipe(s->k.e, tensor);
}

uint32_t smooth_put(struct smooth *s, uint32_t node, uint32_t slot, uint32_t recipe,
                    uint32_t uses) {
  struct kit *k = &s->k;
  const uint32_t value = kit_in(k, node, slot);
  uint32_t tensor;
  (void)smooth_constant(s, value, &tensor);
  const struct model_tensor *t = &k->m->tensors[tensor];
  const bool alike = recipe_has_dims(k->r, recipe, model_dims(k->m, t), t->rank);
  if (uses > 0 && alike && t->home == HOME_INITIALIZER && t->owner == value &&
      kit_constant_use_count(k, value, uses + 1) == uses) {
    edit_replace_tensor(k->e, tensor, recipe);
    return value;
  }
  const struct span name = kit_names_take(
      &k->names, KIT_VALUES, k->graph,
      kit_names_join(model_value_name(k->m, value), "_smoothed", &k->site), &k->site);
  const uint32_t called = t->name;
  const char *own = arena_string(&k->site, model_value_name(k->m, value));
  const uint32_t made = edit_add_tensor_for(k->e, k->graph, name, recipe, tensor, called);
  edit_set_input(k->e, node, slot, made);
  remove_unused(k, value);
  if (s->options->compat && k->m->values[value].flags & VALUE_DEAD)
    edit_rename_value(k->e, made, span_str(own));
  return made;
}

// ---- which nodes -------------------------------------------------------------------------------

// Why the node cannot be of a site; NULL: it can, as *u and *axis say.
static const char *look(struct smooth *s, uint32_t node, struct smooth_use *u, int32_t *axis) {
  struct kit *k = &s->k;
  const enum op op = kit_op(k, node);
  uint32_t tensor;
  int64_t x;
  *u = (struct smooth_use){.node = node, .weight = kit_in(k, node, 1), .next = NO_ID};
  if (kit_refers(k->m, node)) return "attribute_reference";
  if (kit_in(k, node, 0) == NO_ID || u->weight == NO_ID) return "inputs";
  if (kit_constant(k, kit_in(k, node, 0), &tensor) || !smooth_constant(s, u->weight, &tensor))
    return "non_constant_weight";
  const struct model_tensor *t = &k->m->tensors[tensor];
  const enum dtype dtype = (enum dtype)t->dtype;
  if (dtype != DTYPE_FLOAT && dtype != DTYPE_FLOAT16 && dtype != DTYPE_BFLOAT16)
    return "float_type";
  if (t->rank < 2 || t->bytes == 0 || !edit_tensor_readable(k->e, tensor)) return "rank";
  *axis = op == OP_Conv ? 1 - (int32_t)t->rank : -1;
  u->axis = op == OP_Conv ? 1u : t->rank - 2u;
  if (op == OP_Conv) {
    if (t->rank < 3) return "rank";
    return !kit_attr_int(k, node, "group", 1, &x) || x != 1 ? "group_not_1" : NULL;
  }
  if (op == OP_MatMul) return NULL;
  if (!kit_attr_int(k, node, "transA", 0, &x) || x != 0 || t->rank != 2) return "attribute";
  if (!kit_attr_int(k, node, "transB", 0, &x)) return "attribute";
  if (x) u->axis = 1;
  return NULL;
}

// The site of a value in a graph; a new one if there is none, or if each node has its own.
static struct smooth_site *site_of(struct smooth *s, uint32_t value, uint32_t graph, int32_t axis,
                                   uint32_t weight) {
  struct kit *k = &s->k;
  uint32_t tensor;
  (void)smooth_constant(s, weight, &tensor);
  if (value >= s->n_of_value) TABLE_ADD(s, of_value, k->m->n_values - s->n_of_value);
  for (uint32_t i = s->of_value[value]; i > 0 && !s->options->compat; i = s->sites[i - 1].next)
    if (s->sites[i - 1].graph == graph && s->sites[i - 1].axis == axis) return &s->sites[i - 1];
  const struct smooth_site new = {.value = value,
                                  .graph = graph,
                                  .axis = axis,
                                  .dtype = (enum dtype)k->m->tensors[tensor].dtype,
                                  .first = NO_ID,
                                  .last = NO_ID,
                                  .next = s->of_value[value],
                                  .scales = NO_ID};
  *TABLE_PUSH(s, sites) = new;
  s->of_value[value] = s->n_sites;
  return &s->sites[s->n_sites - 1];
}

static void visit(struct smooth *s, uint32_t node) {
  struct kit *k = &s->k;
  const enum op op = kit_op(k, node);
  struct smooth_use u;
  int32_t axis = 0;
  uint32_t tensor;
  if (op != OP_MatMul && op != OP_Gemm && op != OP_Conv) return;
  arena_reset(&k->site);
  const char *why =
      name_filter_refuses(&s->options->nodes, model_name_str(k->m, k->m->nodes[node].name));
  if (!why && kit_opset(k, k->m->nodes[node].graph) < BROADCAST_OPSET) why = "opset_too_old";
  if (!why) why = look(s, node, &u, &axis);
  if (kit_skips(k, node, why)) return;
  (void)smooth_constant(s, u.weight, &tensor);
  struct smooth_site *site =
      site_of(s, kit_in(k, node, 0), k->m->nodes[node].graph, axis, u.weight);
  const struct model_tensor *t = &k->m->tensors[tensor];
  const int64_t channels = model_dims(k->m, t)[u.axis];
  if (site->n == 0) {
    site->channels = channels <= RANGES_MOST_CHANNELS ? (uint32_t)channels : 0;
    why = site->channels ? smooth_statistics(s, site) : "no_channels";
    if (!why && s->options->is_auto && !site->mean) why = "no_means";
    site->alpha = (float)s->options->alpha;
  } else if (channels != site->channels || t->dtype != site->dtype) {
    why = "other_channels";
  }
  if (kit_skips(k, node, why)) return;
  const uint32_t at = s->n_uses;
  u.site = (uint32_t)(site - s->sites);
  *TABLE_PUSH(s, uses) = u;
  if (site->n++ == 0)
    site->first = at;
  else
    s->uses[site->last].next = at;
  site->last = at;
}

// ---- sites -------------------------------------------------------------------------------------

static struct span called(struct smooth *s, enum kit_space space, struct span key,
                          const char *suffix) {
  struct kit *k = &s->k;
  return kit_names_free(&k->names, space, k->graph, kit_names_join(key, suffix, &k->site),
                        &k->site);
}

// <key>_smooth_mul, before the first node that wants it.
static void put_mul(struct smooth *s, const struct smooth_site *site) {
  struct kit *k = &s->k;
  const uint32_t first = s->uses[site->first].node;
  const struct span own = model_name(k->m, k->m->nodes[first].name);
  // A copy: names of the model move.
  const char *key = arena_string(
      &k->site, s->options->compat && own.n > 0 ? own : model_value_name(k->m, site->value));
  uint32_t by = smooth_spread(s, site, true, (uint32_t)(-site->axis - 1), site->dtype);
  if (site->axis < -1) { // [1,C,1,…]
    int64_t dims[RECIPE_MAX_RANK] = {1, site->channels};
    for (int32_t i = 2; i <= -site->axis; i++)
      dims[i] = 1;
    by = recipe_reshape(k->r, by, dims, (uint32_t)(1 - site->axis));
  }
  const uint32_t scale =
      edit_add_tensor(k->e, k->graph, called(s, KIT_VALUES, span_str(key), "_smooth_scale"), by);
  const struct edit_output out = {NO_ID, called(s, KIT_VALUES, span_str(key), "_smooth_output")};
  const uint32_t y =
      kit_make(k, OP_Mul, KIT_IN(site->value, scale),
               KIT_CALLED(called(s, KIT_NODES, span_str(key), "_smooth_mul")), KIT_OUT(out));
  kit_note_like(k, y, site->value);
  for (uint32_t i = site->first; i != NO_ID; i = s->uses[i].next)
    edit_set_input(k->e, s->uses[i].node, 0, y);
}

// Which uses of a site have one weight.
static void find_same(struct smooth *s, const struct smooth_site *site) {
  for (uint32_t i = site->first; i != NO_ID; i = s->uses[i].next) {
    struct smooth_use *u = &s->uses[i];
    (void)smooth_constant(s, u->weight, &u->tensor);
    uint32_t j = site->first;
    while (j != i && (s->uses[j].axis != u->axis || s->uses[j].tensor != u->tensor))
      j = s->uses[j].next;
    u->same = j;
  }
}

// Weights times the scales, each once.
static void scale_weights(struct smooth *s, const struct smooth_site *site) {
  struct kit *k = &s->k;
  find_same(s, site);
  for (uint32_t i = site->first; i != NO_ID; i = s->uses[i].next) {
    const struct smooth_use u = s->uses[i];
    uint32_t uses = 0;
    if (u.same != i) continue;
    for (uint32_t j = i; j != NO_ID; j = s->uses[j].next)
      uses += s->uses[j].same == i;
    const uint32_t before = kit_in(k, u.node, 1), w = smooth_recipe(s, before);
    const uint32_t by = smooth_spread(s, site, false, k->r->rows[w].rank - 1 - u.axis, DTYPE_FLOAT);
    const uint32_t made = smooth_put(s, u.node, 1, smooth_times(s, RECIPE_MAP_MUL, w, by), uses);
    for (uint32_t j = u.next; j != NO_ID && made != before; j = s->uses[j].next) {
      const uint32_t old = kit_in(k, s->uses[j].node, 1);
      if (s->uses[j].same != i || old == made) continue;
      edit_set_input(k->e, s->uses[j].node, 1, made);
      remove_unused(k, old);
    }
  }
}

static void smooth(struct smooth *s, const struct smooth_site *site) {
  struct kit *k = &s->k;
  kit_site(k, s->uses[site->first].node, "smooth");
  // Below that, initializers would have to be inputs.
  if (k->m->ir_version < WEIGHTS_FREE_IR) weights_free_initializers(k->e);
  // Weights that make the value are not those that it is multiplied with.
  scale_weights(s, site);
  const bool folded = smooth_fold(s, site);
  if (!folded) put_mul(s, site);
  const char *word = folded ? "smoothed_folded" : "smoothed";
  if (s->options->is_auto) word = smooth_auto_word(site->alpha, folded);
  for (uint32_t i = site->first; i != NO_ID; i = s->uses[i].next)
    kit_converted(k, s->uses[i].node, word);
}

// ---- the pass ----------------------------------------------------------------------------------

static int walk(struct smooth *s, struct err *err) {
  struct kit *k = &s->k;
  for (uint32_t g = 0; kit_graph(k, &g); g++) {
    uint32_t *nodes;
    const uint32_t n = s->options->compat ? kit_listed(k, g, &s->arena, &nodes)
                                          : kit_running(k, g, &s->arena, &nodes);
    for (uint32_t i = 0; i < n; i++)
      visit(s, nodes[i]);
  }
  if (s->options->is_auto && smooth_auto(s, err)) return -1;
  for (uint32_t i = 0; i < s->n_sites; i++) {
    arena_reset(&k->site);
    s->sites[i].scales = s->sites[i].n > 0 ? smooth_scales(s, &s->sites[i]) : NO_ID;
  }
  for (uint32_t i = 0; i < s->n_sites; i++) {
    arena_reset(&k->site);
    if (s->sites[i].n > 0 && s->sites[i].scales != NO_ID) smooth(s, &s->sites[i]);
    for (uint32_t u = s->sites[i].first; u != NO_ID && s->sites[i].scales == NO_ID;
         u = s->uses[u].next)
      kit_skipped(k, s->uses[u].node, "recipe_depth");
  }
  return 0;
}

static int run_smooth(struct pass_env *env, void *with, struct err *err) {
  struct smooth s = {.options = with};
  const struct name_filter *filter = &s.options->nodes;
  if (!env->files.ranges)
    return err_set(err, ERR_USAGE,
                   "'smooth' cannot be used here: it reads a file of ranges, and "
                   "this run has no access to files");
  if (env->files.ranges(env->files.ctx, s.options->ranges, &s.ranges, err)) return -1;
  kit_init(&s.k, env, env->pass->name);
  s.k.tells_no_dims = true;
  kit_infer(&s.k);
  name_filter_warn(&filter, 1, env);
  const int rc = walk(&s, err);
  TABLES_FREE(&s, uses, sites, of_value);
  arena_free(&s.arena);
  return kit_done(&s.k, err) < 0 ? -1 : rc;
}

// ---- options -----------------------------------------------------------------------------------

static int read_ranges(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a;
  ((struct smooth_options *)with)->ranges = v->text;
  if (v->text) return 0;
  err_set(err, ERR_USAGE, "smooth needs --ranges: a file of channel statistics");
  return err_hint(err, "write it with 'weir calibrate IN -o RANGES --statistics channel'");
}

static int read_alpha(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct smooth_options *o = with;
  (void)a;
  if (!v->text) return 0;
  o->is_auto = strcmp(v->text, "auto") == 0;
  if (o->is_auto) return 0;
  char *end;
  o->alpha = strtod(v->text, &end);
  if (end != v->text && *end == '\0' && o->alpha >= 0 && o->alpha <= 1) return 0;
  err_set(err, ERR_USAGE, "--alpha: '%s' is not a number from 0 to 1", quote_str(v->text).s);
  return err_hint(err, "0.5 shares evenly; 'auto' finds the best number for each value");
}

static const struct pass_option smooth_rows[] = {
    {"ranges", PASS_TEXT, "RANGES", NULL,
     "activation statistics by channel\n"
     "A file of 'weir calibrate --statistics channel'.",
     .read = read_ranges, .required = true, .reads = PASS_READS_RANGES},
    {"alpha", PASS_TEXT, "NUMBER|auto", "0.5",
     "share of the scaling that goes into the weights\n"
     "0: none. 1: all of it. auto: for each value, the number from 0.3 to 0.65 with the least "
     "error at the output.",
     .offers = "0.5 auto", .read = read_alpha},
    {"no-folding", PASS_FLAG, NULL, NULL,
     "always insert a Mul that scales the activation\nWithout it, weir folds the scaling into the "
     "node that produces the activation, if that node allows it.",
     PASS_MEMBER(smooth_options, no_folding)},
    {COMPAT_ROW(smooth_options),
     .help = "write what SmoothQuant of onnxruntime writes\n"
             "Neural Compressor's is the same. Each node has its own scales, names are those of "
             "that tool, and dead channels are not treated specially. It is the same in all "
             "versions."},
    NAME_FILTER_ROWS,
};

static const struct pass smooth_pass = {
    .name = "smooth",
    .summary = "move outliers of activations into weights (SmoothQuant)",
    .about =
        "Divides each channel of the inputs of MatMul, Gemm and Conv by a number, and multiplies "
        "the weights by the same number. Channels with large values then no longer reduce the "
        "precision of all others when activations are quantized. Nodes that read the same value "
        "share the numbers. The division is folded into the node that computes the value "
        "(LayerNormalization, BatchNormalization, Mul, MatMul, Gemm, Conv, also through Add and "
        "Relu), or done by a Mul. The whole model is never in memory. Nodes that are left "
        "unchanged are reported with a reason.",
    .needs = "channel statistics of the values (weir calibrate --statistics channel)",
    .promises = "all outputs of the model are the same up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    PASS_OPTIONS(smooth_rows, smooth_options),
    .run = run_smooth,
    .done = name_filter_done,
};

const struct pass *const int8_smooth_passes[] = {&smooth_pass, NULL};
