// The pass `cast`: float32 weights become float16 or bfloat16 in the file. (With `graph` all values do: cast_graph.c.)
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
//
// Patterns of --exclude are compiled, looked for once over all names, so that one that is misspelt is
// said, and asked for each weight.
#include "passes/cast/cast.h"

#include "passes/cast/inside/cast_graph.h"
#include "passes/kit/kit.h"
#include "passes/kit/weights.h"
#include "passes/questions/name_pattern.h"
#include "targets/targets.h"

#include <stdlib.h>

enum { CAST_OPSET = 6, CAST_BFLOAT16_OPSET = 13 };

struct cast_options {
  uint32_t target; // its place in the table of targets: for who runs the pass
  enum dtype to;   // FLOAT16 or BFLOAT16; with graph FLOAT too
  uint64_t min_elements;
  bool clips; // finite elements out of range become the largest value; else the run refuses them
  struct name_patterns exclude;
  bool graph;           // the whole graph computes in the type (cast_graph.c)
  bool keep_io;         // with it
  const char **keep_op; // with it
  uint32_t n_keep_op;
  const char *ranges; // path; NULL: not given
  double headroom;
};

struct casting {
  struct kit k;
  const struct cast_options *options;
  bool converted;      // any
  uint32_t n_of_codes; // scales and offsets of quantized weights among them
};

static const char *obstacle(struct casting *c, const struct weight *w) {
  const struct model *m = c->k.m;
  const struct model_tensor *t = &m->tensors[w->tensor];
  const int64_t opset = kit_opset(&c->k, w->graph);
  uint64_t count;
  if (!dims_product(model_dims(m, t), t->rank, &count) || count < c->options->min_elements ||
      count == 0)
    return "small";
  const char *why = weights_obstacle(c->k.e, w);
  if (why) return why;
  if (opset == 0) return "ai_onnx_not_imported";
  if (opset < (c->options->to == DTYPE_BFLOAT16 ? CAST_BFLOAT16_OPSET : CAST_OPSET))
    return "opset_too_old";
  if (weights_says_sizes(&c->k, w->value, w->tensor)) return "size";
  return weights_named(&c->k, &c->options->exclude, w) ? "excluded" : NULL;
}

// ---- scales and offsets ------------------------------------------------------------------------

static bool is_cast_of_codes(struct kit *k, uint32_t value) {
  uint32_t tensor;
  const uint32_t node = kit_maker(k, value);
  return kit_op(k, node) == OP_Cast && kit_constant(k, kit_in(k, node, 0), &tensor) &&
         dtype_is_integer((enum dtype)k->m->tensors[tensor].dtype);
}

// Does the node turn codes into weights, with its input in the slot as their scale or offset?
static bool turns_codes_back(struct kit *k, uint32_t node, uint32_t slot) {
  uint32_t other = NO_ID;
  switch (kit_op(k, node)) {
  case OP_ms_MatMulNBits:
  case OP_ms_GatherBlockQuantized: return slot == 2 || slot == 3;
  case OP_ms_MatMulNBitsQLoRA: return slot == 2 || slot == 4 || slot == 6;
  case OP_DequantizeLinear:
  case OP_ms_DequantizeLinear: return slot == 1;
  case OP_Mul: return slot < 2 && is_cast_of_codes(k, kit_in(k, node, 1 - slot));
  case OP_Add:
    if (slot < 2) other = kit_maker(k, kit_in(k, node, 1 - slot));
    return kit_op(k, other) == OP_Mul &&
           (is_cast_of_codes(k, kit_in(k, other, 0)) || is_cast_of_codes(k, kit_in(k, other, 1)));
  default: return false;
  }
}

// Asked before the weight is replaced.
static bool is_of_codes(struct kit *k, const struct weight *w) {
  for (struct kit_use u = kit_uses(k, w->value); kit_use(k, &u);)
    if (turns_codes_back(k, u.node, u.slot)) return true;
  return false;
}

static void warn_of_codes(struct casting *c) {
  struct kit *k = &c->k;
  if (c->n_of_codes == 0) return;
  kit_warn(k,
           arena_printf(&k->site,
                        "scales or offsets of quantized weights were cast too (%u tensor%s): this "
                        "increases the quantization error",
                        c->n_of_codes, plural(c->n_of_codes)),
           "run cast before quantization, or exclude them with --exclude");
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
  const uint32_t narrow =
      edit_add_tensor_for(k->e, w->graph, names[NARROW], recipe, w->tensor, called);
  weights_replace(k, w,
                  kit_make(k, OP_Cast, KIT_CALLED(names[CAST_NODE]), KIT_OUT(out), KIT_IN(narrow),
                           KIT_INT("to", DTYPE_FLOAT)));
}

static void cast_weight(struct casting *c, const struct weight *w) {
  struct kit *k = &c->k;
  const char *why = obstacle(c, w);
  if (why) {
    weights_report(k, w, why, NO_ID);
    return;
  }
  const uint32_t of = edit_tensor_recipe(k->e, w->tensor);
  const uint32_t recipe = c->options->clips ? recipe_cast_clipped(k->r, of, c->options->to)
                                            : recipe_cast(k->r, of, c->options->to);
  c->n_of_codes += is_of_codes(k, w);
  weights_report(k, w, "cast", recipe);
  weights_site(k, w, "cast");
  narrow_weight(c, w, recipe);
  c->converted = true;
}

// ---- options -----------------------------------------------------------------------------------

static int read_exclude(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct cast_options *o = with;
  return name_patterns_compile(&o->exclude, v->list, v->n_list, "--exclude", a, err);
}

static int read_to(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a;
  static const enum dtype types[] = {DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT};
  ((struct cast_options *)with)->to = types[v->choice];
  if (v->text) return 0;
  err_fill(err, ERR_USAGE, "cast needs the type to store weights in");
  return err_hint(err, "to=float16 or to=bfloat16");
}

static int read_headroom(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct cast_options *o = with;
  char *end;
  (void)a;
  if (!v->text) return 0;
  o->headroom = strtod(v->text, &end);
  if (end != v->text && *end == '\0' && o->headroom >= 1 && o->headroom <= 65504) return 0;
  err_set(err, ERR_USAGE, "--headroom: '%s' is not a number from 1 to 65504", quote_str(v->text).s);
  return err_hint(err, "2 (the default): numbers may become twice as large as in the samples");
}

static int read_min_elements(const struct pass_value *v, void *with, struct arena *a,
                             struct err *err) {
  (void)a, (void)err;
  ((struct cast_options *)with)->min_elements = v->given ? v->number : CAST_MIN_ELEMENTS;
  return 0;
}

static const struct pass_option options[] = {
    {"exclude", PASS_LIST, "PATTERN", NULL,
     "do not cast nodes or tensors that match\n"
     "PATTERN is a glob, or re: followed by an extended regular expression.",
     .read = read_exclude},
    {"to", PASS_CHOICE, "float16|bfloat16|float32", NULL,
     "type to store weights in\n"
     "The names fp16, half, bf16 and fp32 are accepted too. float32 needs --graph.",
     .also = "fp16=float16 half=float16 bf16=bfloat16 fp32=float32", .read = read_to,
     .required = true},
    {"graph", PASS_FLAG, NULL, NULL,
     "compute in that type too\n"
     "All values get the type, not only weights. The only Casts are around operators that stay in "
     "their old type. With --to float32, weir converts float16 and bfloat16 models back.",
     PASS_MEMBER(cast_options, graph), .later = true},
    {"keep-io", PASS_FLAG, NULL, NULL, "with --graph: keep the types of inputs and outputs",
     PASS_MEMBER(cast_options, keep_io), .only_with = "graph", .later = true},
    {"keep-op", PASS_LIST, "OP", NULL,
     "with --graph: operators that keep their types\n"
     "OP is a name such as Softmax. Operators for which ONNX Runtime has no kernel in the type "
     "also keep theirs.",
     PASS_LIST_MEMBER(cast_options, keep_op, n_keep_op), .only_with = "graph", .commas = true},
    {"ranges", PASS_TEXT, "RANGES", NULL,
     "file of ranges, from 'weir calibrate', for --graph\nFor --to float16. Values beyond the "
     "range of float16 stay in float32, and so do the nodes that produce and read them.",
     PASS_MEMBER(cast_options, ranges), .only_with = "graph", .reads = PASS_READS_RANGES,
     .later = true},
    {"headroom", PASS_TEXT, "X", "2",
     "with --ranges: headroom for larger values\n"
     "Values may be up to X times as large as in RANGES.",
     .offers = "1 2 4", .read = read_headroom, .only_with = "ranges", .later = true},
    {"on-overflow", PASS_CHOICE, "fail|clip", "fail",
     "how to treat finite values out of the type's range\n"
     "fail: stop, after all weights have been checked. clip: use the largest value in range. The "
     "report counts such values for each weight.",
     PASS_MEMBER(cast_options, clips)},
    {"min-elements", PASS_NUMBER, "N", NULL,
     "skip weights with fewer elements (default: 256)\n"
     "Applies without --graph.",
     .read = read_min_elements},
    {"target", PASS_CHOICE, targets_joined + 1, NULL, TARGETS_ONLY_REFUSES,
     PASS_MEMBER(cast_options, target), .listed = "weir targets"},
};

// ---- the pass ----------------------------------------------------------------------------------

static void warn_of_operator(const struct pass_env *env, const char *op) {
  const struct model *m = env->m;
  struct name_pattern wanted = {.text = op};
  struct name_pattern_nearest c = {0};
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (strcmp(model_name_str(m, m->nodes[i].op_type), op) == 0) return;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    name_pattern_consider(&c, &wanted, model_name_str(m, m->nodes[i].op_type));
  env->warn(env->warn_ctx,
            arena_printf(env->scratch, "--keep-op '%s' matches no node", quote_str(op).s),
            name_pattern_hint(&c, env->scratch));
}

static bool is_given(const struct pass_value *values, const char *option) {
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (strcmp(options[i].name, option) == 0) return values[i].given;
  return false;
}

static int check(const void *with, const struct pass_value *values, struct err *err) {
  const struct cast_options *o = with;
  if (o->graph && is_given(values, "min-elements")) {
    err_fill(err, ERR_USAGE, "--min-elements has no effect with --graph");
    return err_hint(err, "--graph casts weights of any size; --exclude keeps those that match");
  }
  if (o->ranges && (!o->graph || o->to != DTYPE_FLOAT16)) {
    err_fill(err, ERR_USAGE, "--ranges has no effect without --graph --to float16");
    return err_hint(err, "--ranges shows which values of a float16 graph would overflow");
  }
  if (!o->ranges && is_given(values, "headroom")) {
    err_fill(err, ERR_USAGE, "--headroom has no effect without --ranges");
    return err_hint(err, "--headroom is how much larger values may become than those in the "
                         "samples");
  }
  if (o->graph) return 0;
  if (o->to == DTYPE_FLOAT) {
    err_fill(err, ERR_USAGE,
             "--to float32 needs --graph: float32 is not narrower than the types of the weights");
    return err_hint(err, "with --graph, cast converts a float16 or bfloat16 graph back to float32");
  }
  if (!o->keep_io && o->n_keep_op == 0) return 0;
  err_fill(err, ERR_USAGE, "%s has no effect without --graph",
           o->keep_io ? "--keep-io" : "--keep-op");
  return err_hint(err, "with --graph the model computes in the type of --to; without it, only "
                       "weights are stored in that type");
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct casting c = {.options = with};
  const struct model *m = env->m;
  const uint32_t n = m->n_tensors;
  struct weight w;
  weights_warn_unmatched(env, &c.options->exclude, "--exclude");
  if (c.options->graph) {
    struct cast_graph_options o = {.to = c.options->to,
                                   .clips = c.options->clips,
                                   .keep_io = c.options->keep_io,
                                   .keep_op = c.options->keep_op,
                                   .n_keep_op = c.options->n_keep_op,
                                   .exclude = &c.options->exclude,
                                   .headroom = c.options->headroom};
    if (c.options->ranges && !env->files.ranges)
      return err_set(err, ERR_USAGE,
                     "--ranges cannot be used here: this run has no access to files");
    if (c.options->ranges && env->files.ranges(env->files.ctx, c.options->ranges, &o.ranges, err))
      return -1;
    for (uint32_t i = 0; env->warn && i < o.n_keep_op; i++)
      warn_of_operator(env, o.keep_op[i]);
    return cast_graph_run(env, &o, err);
  }
  kit_init(&c.k, env, "cast");
  for (uint32_t t = 0; t < n; t++)
    if (m->tensors[t].dtype == DTYPE_FLOAT && weights_at(m, t, &w)) cast_weight(&c, &w);
  warn_of_codes(&c);
  if (c.converted) weights_free_initializers(env->edits);
  return kit_done(&c.k, err);
}

static void done(void *with) {
  name_patterns_done(&((struct cast_options *)with)->exclude);
}

static const struct pass cast = {
    .name = "cast",
    .summary = "float32 weights -> float16 or bfloat16, with a Cast where they are used",
    .about = "Stores weights in a narrower type and adds one Cast after each. With --graph, the "
             "whole graph computes in that type.",
    .promises = "activations and their types are unchanged (not with --graph)",
    .exactness = EXACTNESS_EXACT, // a Cast back says just what is stored
    .stores = "cast",
    PASS_OPTIONS(options, cast_options),
    .check = check,
    .run = run,
    .done = done,
};

const struct pass *const cast_passes[] = {&cast, NULL};
