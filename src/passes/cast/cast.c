// The pass `cast`: float32 weights become float16 or bfloat16 in the file.
//
//   w float32 ─┬─▶ MatMul            w_float16 ─▶ Cast(to float32) ─▶ w ─┬─▶ MatMul
//              └─▶ Gather                                                └─▶ Gather
//
// The Cast takes over the weight's name, so no other node changes, and neither does an output of
// the graph that is the weight itself. A runtime that folds constants turns the Cast back into a
// float32 weight when it loads the model; the file, and what is downloaded, stays half as large.
//
// Whether a value is too large is not known here, where no weight is read: the stream looks while
// it converts, counts such values, and in the end refuses what has any, or clips them
// (--on-overflow).
#include "cast.h"

#include "stems.h"
#include "weights.h"

enum { CAST_OPSET = 6, CAST_BFLOAT16_OPSET = 13 };

struct casting {
  struct pass_env *env;
  const struct cast_options *options;
  struct cast_result *result;
  struct stems stems;
  struct weights_anchors anchors;
};

static bool excluded(const struct casting *c, const struct weight *w) {
  const struct cast_options *o = c->options;
  const struct model *m = c->env->m;
  if (!o->excluded) return false;
  if (o->excluded(o->ctx, model_value_name(m, w->value))) return true;
  if (w->node != NO_ID && o->excluded(o->ctx, model_name(m, m->nodes[w->node].name))) return true;
  for (uint32_t u = m->values[w->value].first_use; u != NO_ID; u = m->refs[u].next)
    if (o->excluded(o->ctx, model_name(m, m->nodes[m->refs[u].node].name))) return true;
  return false;
}

static const char *obstacle(const struct casting *c, const struct weight *w) {
  const struct model *m = c->env->m;
  const struct model_tensor *t = &m->tensors[w->tensor];
  const int64_t opset = model_opset_version(m, w->graph, span_str(""));
  uint64_t count;
  if (!dims_product(model_dims(m, t), t->rank, &count) || count < c->options->min_elements ||
      count == 0)
    return "small";
  const char *why = weights_obstacle(c->env->edits, w);
  if (why) return why;
  if (opset < (c->options->to == DTYPE_BFLOAT16 ? CAST_BFLOAT16_OPSET : CAST_OPSET))
    return "opset_too_old";
  return excluded(c, w) ? "excluded" : NULL;
}

// ---- one weight --------------------------------------------------------------------------------

enum { NARROW, CAST_NODE, REPLACED, SUFFIXES };

static uint32_t put_cast(struct casting *c, const struct weight *w, uint32_t narrow,
                         struct span name, struct edit_output out) {
  const struct edit_attr to = {.name = "to", .type = ATTR_INT, .i = DTYPE_FLOAT};
  const struct edit_node spec = {.graph = w->graph,
                                 .before = weights_anchor(&c->anchors, c->env->m, w),
                                 .name = name,
                                 .op_type = span_str("Cast"),
                                 .in = &narrow,
                                 .n_in = 1,
                                 .out = &out,
                                 .n_out = 1,
                                 .attrs = &to,
                                 .n_attrs = 1};
  const uint32_t node = edit_add_node(c->env->edits, &spec);
  return model_output(c->env->m, &c->env->m->nodes[node], 0);
}

static void narrow_weight(struct casting *c, const struct weight *w, uint32_t recipe) {
  struct arena *a = c->env->site_scratch;
  struct edits *e = c->env->edits;
  const bool half = c->options->to == DTYPE_FLOAT16;
  const char *const suffixes[SUFFIXES] = {half ? "_float16" : "_bfloat16", "_cast", "_replaced"};
  const struct span base = model_value_name(c->env->m, w->value);
  const struct span stem = stems_new(&c->stems, base, suffixes, SUFFIXES, a);
  struct span names[SUFFIXES];
  for (uint32_t i = 0; i < SUFFIXES; i++)
    names[i] = stems_join(stem, suffixes[i], a);
  const struct weights_names own = {
      .made = names[CAST_NODE], .spare = names[REPLACED], .keep = true};
  const uint32_t called = e->m->values[w->value].name; // which the output may take
  const struct edit_output out = weights_output(c->env, w, &own);
  const uint32_t narrow =
      edit_add_tensor_for(e, w->graph, names[NARROW], recipe, w->tensor, called);
  weights_replace(e, &c->anchors, w, put_cast(c, w, narrow, names[CAST_NODE], out));
}

static void cast_weight(struct casting *c, const struct weight *w) {
  struct edits *e = c->env->edits;
  arena_reset(c->env->site_scratch); // names are of one weight: edits keep copies
  const char *why = obstacle(c, w);
  if (why) {
    weights_report(c->env, w, why, NO_ID);
    c->result->skipped++;
    return;
  }
  const uint32_t of = edit_tensor_recipe(e, w->tensor);
  const uint32_t recipe = c->options->clips ? recipe_cast_clipped(e->r, of, c->options->to)
                                            : recipe_cast(e->r, of, c->options->to);
  weights_report(c->env, w, "cast", recipe);
  edit_group(e, "cast", w->node, "cast");
  narrow_weight(c, w, recipe);
  c->result->converted++;
}

// ---- all of them -------------------------------------------------------------------------------

void pass_cast(struct pass_env *env, const struct cast_options *options,
               struct cast_result *result) {
  struct casting c = {.env = env, .options = options, .result = result};
  const struct model *m = env->m;
  const uint32_t n = m->n_tensors;
  struct weight w;
  *result = (struct cast_result){0};
  stems_init(&c.stems, m);
  weights_anchors_init(&c.anchors, m);
  for (uint32_t t = 0; t < n; t++)
    if (m->tensors[t].dtype == DTYPE_FLOAT && weights_at(m, t, &w)) cast_weight(&c, &w);
  if (result->converted > 0) weights_free_initializers(env->edits);
  weights_anchors_done(&c.anchors);
  stems_done(&c.stems);
}
