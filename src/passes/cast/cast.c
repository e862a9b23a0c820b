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

#include "kit.h"
#include "weights.h"

enum { CAST_OPSET = 6, CAST_BFLOAT16_OPSET = 13 };

struct casting {
  struct kit k;
  const struct cast_options *options;
  struct cast_result *result;
};

static bool excluded(const struct casting *c, const struct weight *w) {
  const struct cast_options *o = c->options;
  const struct model *m = c->k.m;
  if (!o->excluded) return false;
  if (o->excluded(o->ctx, model_value_name(m, w->value))) return true;
  if (w->node != NO_ID && o->excluded(o->ctx, model_name(m, m->nodes[w->node].name))) return true;
  for (struct kit_use u = kit_uses(&c->k, w->value); kit_use(&c->k, &u);)
    if (o->excluded(o->ctx, model_name(m, m->nodes[u.node].name))) return true;
  return false;
}

static const char *obstacle(const struct casting *c, const struct weight *w) {
  const struct model *m = c->k.m;
  const struct model_tensor *t = &m->tensors[w->tensor];
  const int64_t opset = kit_opset(&c->k, w->graph);
  uint64_t count;
  if (!dims_product(model_dims(m, t), t->rank, &count) || count < c->options->min_elements ||
      count == 0)
    return "small";
  const char *why = weights_obstacle(c->k.e, w);
  if (why) return why;
  if (opset < (c->options->to == DTYPE_BFLOAT16 ? CAST_BFLOAT16_OPSET : CAST_OPSET))
    return "opset_too_old";
  return excluded(c, w) ? "excluded" : NULL;
}

// ---- one weight --------------------------------------------------------------------------------

enum { NARROW, CAST_NODE, REPLACED, SUFFIXES };

static void narrow_weight(struct casting *c, const struct weight *w, uint32_t recipe) {
  struct kit *k = &c->k;
  const bool half = c->options->to == DTYPE_FLOAT16;
  const char *const suffixes[SUFFIXES] = {half ? "_float16" : "_bfloat16", "_cast", "_replaced"};
  struct span names[SUFFIXES];
  kit_name_family(k, model_value_name(k->m, w->value), suffixes, SUFFIXES, names);
  const uint32_t called = k->m->values[w->value].name; // which the output may take
  const struct edit_output out = weights_output(k, w, names[CAST_NODE], names[REPLACED], true);
  const uint32_t narrow = edit_add_tensor_for(k->e, w->graph, names[NARROW], recipe, w->tensor, called);
  weights_replace(k, w,
                  kit_make(k, OP_Cast, KIT_CALLED(names[CAST_NODE]), KIT_OUT(out), KIT_IN(narrow),
                           KIT_INT("to", DTYPE_FLOAT)));
}

static void cast_weight(struct casting *c, const struct weight *w) {
  struct kit *k = &c->k;
  const char *why = obstacle(c, w);
  if (why) {
    weights_report(k, w, why, NO_ID);
    c->result->skipped++;
    return;
  }
  const uint32_t of = edit_tensor_recipe(k->e, w->tensor);
  const uint32_t recipe = c->options->clips ? recipe_cast_clipped(k->r, of, c->options->to)
                                            : recipe_cast(k->r, of, c->options->to);
  weights_report(k, w, "cast", recipe);
  weights_site(k, w, "cast");
  narrow_weight(c, w, recipe);
  c->result->converted++;
}

// ---- all of them -------------------------------------------------------------------------------

void pass_cast(struct pass_env *env, const struct cast_options *options,
               struct cast_result *result) {
  struct casting c = {.options = options, .result = result};
  const struct model *m = env->m;
  const uint32_t n = m->n_tensors;
  struct err none = {0};
  struct weight w;
  *result = (struct cast_result){0};
  kit_init(&c.k, env, "cast");
  for (uint32_t t = 0; t < n; t++)
    if (m->tensors[t].dtype == DTYPE_FLOAT && weights_at(m, t, &w)) cast_weight(&c, &w);
  if (result->converted > 0) weights_free_initializers(env->edits);
  kit_done(&c.k, &none); // no weight was looked at
}
