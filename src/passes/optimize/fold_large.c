// The pass optimize/fold-large, constant folding of any size: operators over constants become constants.
//
//   MatMul(x, Transpose(w))   ──▶   MatMul(x, w'), w' = transpose(w)
//
// What each operator is as a recipe, and how exactly, rules know already (rules_constants.c). Nothing is read or
// computed now: the bytes come about while the model is written.
#include "passes/optimize/optimize.h"

#include "base/size_words.h"
#include "passes/questions/name_filter.h"
#include "passes/rules/rules.h"

struct fold_large_options {
  struct name_filter nodes;
  uint64_t limit;
};

static int read_limit(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct fold_large_options *o = with;
  (void)a;
  if (!v->text || size_words_parse(v->text, &o->limit)) return 0;
  err_set(err, ERR_USAGE, "--fold-limit: '%s' is not a size", quote_str(v->text).s);
  return err_hint(err, "a number of bytes, as 1MiB or 500K");
}

static int run(struct pass_env *env, void *with, struct err *err) {
  const struct fold_large_options *o = with;
  name_filter_warn(&(const struct name_filter *){&o->nodes}, 1, env);
  return rules_fold_constants(
      env, &(struct rules_fold_limits){.bytes = o->limit, .nodes = &o->nodes}, err);
}

static const struct pass_option options[] = {
    {"fold-limit", PASS_TEXT, "SIZE", "1MiB",
     "largest constant to compute\n"
     "A constant that is no larger than the constants it replaces is always computed.",
     .read = read_limit},
    NAME_FILTER_ROWS,
};

const struct pass optimize_fold_large = {
    .name = "optimize/fold-large",
    .keys = "fold-constants",
    .summary = "fold operators whose inputs are constants",
    .about = "Replaces operators whose inputs are all constant by their results, of any size. The "
             "results are computed while the model is written. A result larger than --fold-limit "
             "is computed only if it is no larger than the constants it replaces. Operators of "
             "random numbers, operators with subgraphs, operators of other domains and "
             "DequantizeLinear are left unchanged.",
    .exactness = EXACTNESS_EXACT,
    .loosest = EXACTNESS_ROUNDING,
    PASS_OPTIONS(options, fold_large_options),
    .run = run,
    .done = name_filter_done,
};
