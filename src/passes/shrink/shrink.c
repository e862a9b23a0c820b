// The pass `shrink`: which weights, and what becomes of them.
//
// A weight is a float16, float32 or double constant of 16384 elements or more: an initializer or
// the tensor of a Constant node, in any graph or function; there is no list of operators. One of float16 or bfloat16 that only a Cast to
// float32 reads is a weight of float32, and the Cast goes with it:
//
//   w_float16 ─▶ Cast ─▶ w          w_quantized ─▶ DequantizeLinear ─▶ w
//
// What is smaller or has another type stays as it is. What has the right type and size but must stay is
// reported with the reason:
//
//   graph_input       callers may pass another value for this initializer
//   unused            nothing reads it
//   opset_too_old     Mul and Add do not broadcast before opset 7, and a Constant of a function holds
//                     no integers before 9
//   ai_onnx_not_imported   there is no opset whose operators could turn codes back
//   excluded          --exclude names it, or a node that uses it
//   size              it says sizes, positions or how many: the scales of a Resize, the bounds of a Range
//   small             it has fewer elements than --min-elements says, which stands for 16384 then
//   and those of --form dequantize: see shrink_quantize.c
//
// Tensors are looked at in the order of their ids, which is that of the file; those that the pass
// makes come behind and are not looked at.
#include "passes/shrink/inside/shrink_parts.h"

#include "passes/int8_dynamic/int8_dynamic.h"
#include "passes/kit/dead_ends.h"

static bool is_shrinkable_type(enum dtype t) {
  return t == DTYPE_FLOAT || t == DTYPE_FLOAT16 || t == DTYPE_DOUBLE;
}

static const char *obstacle(struct shrinking *s, const struct weight *w) {
  const struct model_tensor *t = &s->k.m->tensors[w->tensor];
  uint64_t count;
  if (!dims_product(model_dims(s->k.m, t), t->rank, &count) || count == 0)
    return "fewer_than_16384_elements";
  const uint64_t least = s->options->min_elements;
  if (count < (least ? least : SHRINK_MIN_ELEMENTS))
    return least ? "small" : "fewer_than_16384_elements";
  const char *why = weights_obstacle(s->k.e, w);
  if (why) return why;
  if (s->options->method == SHRINK_INTEGER_WEIGHTS) why = shrink_quantize_obstacle(s, w);
  if (why) return why;
  if (weights_says_sizes(&s->k, w->value, w->tensor)) return "size";
  return weights_named(&s->k, &s->options->exclude, w) ? "excluded" : NULL;
}

// The existing tool does not look at what a Cast makes, and levels stay of the type that is stored.
static bool sees_casts(const struct shrink_options *o) {
  return o->method == SHRINK_INTEGER_WEIGHTS && !o->compat;
}

// The weight whose elements are stored in this tensor row, of a type that can be shrunk. Its own row is another one where a Cast makes it.
static bool weight_at(struct shrinking *s, uint32_t tensor, struct weight *w) {
  struct kit *k = &s->k;
  if (!weights_at(k->m, tensor, w)) return false;
  const enum dtype dtype = (enum dtype)k->m->tensors[tensor].dtype;
  if (sees_casts(s->options) && (dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16)) {
    const uint32_t cast = kit_sole_user(k, w->value), out = kit_out(k, cast, 0);
    struct model_constant c;
    if (kit_op(k, cast) == OP_Cast && k->m->nodes[cast].graph == w->graph &&
        kit_weight(k, out, &c) && k->m->tensors[c.tensor].dtype == DTYPE_FLOAT)
      *w = (struct weight){c.tensor, out, w->graph, cast};
  }
  return is_shrinkable_type((enum dtype)k->m->tensors[w->tensor].dtype);
}

struct span shrink_base_name(const struct shrinking *s, const struct weight *w) {
  const struct model *m = s->k.m;
  const bool named =
      w->node != NO_ID && model_op_is(m, w->node, "Constant") && m->nodes[w->node].name != m->empty;
  return named ? model_name(m, m->nodes[w->node].name) : model_value_name(m, w->value);
}

void shrink_exchange(struct shrinking *s, const struct weight *w, uint32_t recipe,
                     const char *suffix) {
  struct kit *k = &s->k;
  const struct model_value *v = &k->m->values[w->value];
  struct span name;
  // Its own name may be a promise to callers.
  if (v->n_graph_outputs > 0 || v->flags & VALUE_IS_INPUT) {
    edit_replace_tensor(k->e, w->tensor, recipe);
    edit_stands_for(k->e, w->tensor, w->tensor, k->m->values[w->value].name);
    return;
  }
  kit_name_family(k, shrink_base_name(s, w), &suffix, 1, &name);
  s->adds = true;
  weights_replace(
      k, w,
      edit_add_tensor_for(k->e, w->graph, name, recipe, w->tensor, k->m->values[w->value].name));
}

static void shrink_weight(struct shrinking *s, const struct weight *w) {
  struct kit *k = &s->k;
  const bool integer = s->options->method == SHRINK_INTEGER_WEIGHTS;
  const char *why = obstacle(s, w), *done = integer ? "integer_weights" : "float_weights";
  if (why) {
    weights_report(k, w, why, NO_ID);
    return;
  }
  const struct recipe_quantization q = shrink_quantize_format(s, w);
  const uint32_t of = edit_tensor_recipe(k->e, w->tensor);
  const uint32_t codes = recipe_quantize(k->r, of, &q, PART_CODES);
  const uint32_t stored = w->node == NO_ID ? NO_ID : model_input(k->m, &k->m->nodes[w->node], 0);
  weights_report(k, w, done, codes);
  weights_site(k, w, done);
  if (integer)
    shrink_quantize_weight(s, w, of, &q);
  else
    shrink_exchange(s, w, codes, "_dequantized");
  dead_ends_drop(k->e, stored);
}

bool shrink_takes(struct shrinking *s, uint32_t tensor, struct weight *w) {
  return weight_at(s, tensor, w) && !obstacle(s, w);
}

// ---- options -----------------------------------------------------------------------------------

int shrink_options_check(const struct shrink_options *o, struct err *err) {
  if (o->method == SHRINK_FLOAT_WEIGHTS &&
      (o->levels < SHRINK_MIN_LEVELS || o->levels > SHRINK_MAX_LEVELS))
    return err_set(err, ERR_USAGE, "--levels must be from %d to %d", SHRINK_MIN_LEVELS,
                   SHRINK_MAX_LEVELS);
  if (o->method == SHRINK_INTEGER_WEIGHTS) return 0;
  if (o->per_channel && !o->compat)
    return err_set(err, ERR_USAGE, "--per-channel needs --method integer_weights");
  if (o->form == SHRINK_DEQUANTIZE)
    return err_set(err, ERR_USAGE, "--form dequantize needs --method integer_weights");
  return 0;
}

static int activations(struct pass_env *env, const struct shrink_options *o, struct err *err) {
  const struct int8_dynamic_asked asked = {.compat = o->compat,
                                           .is_unsigned = o->weight_type == 0,
                                           .per_channel = o->per_channel,
                                           .exclude = &o->exclude};
  return int8_dynamic_activations(env, &asked, err);
}

static int check_axes(const struct pass_env *env, const struct shrink_options *o, struct err *err) {
  if (!o->per_channel || o->axes || env->ask) return 0;
  err_fill(err, ERR_USAGE,
           "axis_unresolved: --per-channel needs the error along every axis of each weight, which "
           "this run does not measure");
  return err_hint(err, "without --per-channel, every weight gets one scale");
}

int pass_shrink(struct pass_env *env, const struct shrink_options *options, struct err *err) {
  struct shrink_options o = *options;
  struct shrinking s = {.options = &o};
  const uint32_t n = env->m->n_tensors;
  struct weight w;
  int rc = 0;
  if (shrink_options_check(options, err)) return -1;
  if (o.method == SHRINK_INTEGER_ACTIVATIONS) return activations(env, options, err);
  if (check_axes(env, options, err)) return -1;
  weights_warn_unmatched(env, &o.exclude, "--exclude");
  kit_init(&s.k, env, "shrink");
  if (o.per_channel && !o.axes) rc = shrink_axes(&s, &o, env->scratch, err);
  if (rc == 0 && options->method == SHRINK_F16_TO_F32)
    rc = shrink_widen_model(&s, err);
  else
    for (uint32_t t = 0; rc == 0 && t < n; t++)
      if (weight_at(&s, t, &w)) shrink_weight(&s, &w);
  if (rc == 0 && s.adds) weights_free_initializers(env->edits);
  return kit_done(&s.k, err) ? -1 : rc;
}
