// The pass cast as the catalogue has it: its row and its options. Patterns are compiled, looked for
// once over all names, so that one that is misspelt is said, and asked for each weight.
#include "cast.h"

#include "name_filter.h"
#include "weights.h"

struct words {
  struct cast_options options;
  struct name_pattern *exclude;
  uint32_t n_exclude;
};

// Names of a model end with a NUL (model_name_str).
static bool is_excluded(const void *ctx, struct span name) {
  const struct words *x = ctx;
  for (uint32_t i = 0; i < x->n_exclude; i++)
    if (name.n > 0 && name_pattern_matches(&x->exclude[i], (const char *)name.at)) return true;
  return false;
}

static bool matches_any(const struct model *m, const struct name_pattern *p) {
  struct weight w;
  for (uint32_t t = 0; t < m->n_tensors; t++)
    if (weights_at(m, t, &w) && name_pattern_matches(p, model_name_str(m, m->values[w.value].name)))
      return true;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (name_pattern_matches(p, model_name_str(m, m->nodes[i].name))) return true;
  return false;
}

static void warn_unmatched(struct pass_env *env, const struct name_pattern *p) {
  const struct model *m = env->m;
  struct name_pattern_nearest c = {0};
  struct weight w;
  if (!env->warn || matches_any(m, p)) return;
  for (uint32_t t = 0; t < m->n_tensors; t++)
    if (weights_at(m, t, &w))
      name_pattern_consider(&c, p, model_name_str(m, m->values[w.value].name));
  const char *sentence = arena_printf(env->scratch, "--exclude '%s' matches no weight and no node",
                                      quote_str(p->text).s);
  env->warn(env->warn_ctx, sentence, name_pattern_hint(&c, env->scratch));
}

// ---- options -----------------------------------------------------------------------------------

static int read_exclude(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct words *x = with;
  return name_filter_read(v, "--exclude", &x->exclude, &x->n_exclude, a, err);
}

static int read_to(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a;
  ((struct words *)with)->options.to = v->choice == 0 ? DTYPE_FLOAT16 : DTYPE_BFLOAT16;
  if (v->text) return 0;
  err_fill(err, ERR_USAGE, "cast needs the type to store weights in");
  return err_hint(err, "to=float16 or to=bfloat16");
}

static int read_min_elements(const struct pass_value *v, void *with, struct arena *a,
                             struct err *err) {
  (void)a, (void)err;
  ((struct words *)with)->options.min_elements = v->given ? v->number : CAST_MIN_ELEMENTS;
  return 0;
}

static const struct pass_option options[] = {
    {"exclude", PASS_LIST, "PATTERN", NULL,
     "leave nodes or tensors of this name alone: a glob, or re: and an extended regular expression",
     .read = read_exclude},
    {"to", PASS_CHOICE, "float16|bfloat16", NULL, "the type that weights are stored in",
     .read = read_to},
    {"on-overflow", PASS_CHOICE, "fail|clip", "fail",
     "a finite value that the type cannot hold fails the run, once all weights were looked at, or "
     "becomes the largest one it can hold; the report counts them by weight",
     PASS_MEMBER(words, options.clips)},
    {"min-elements", PASS_NUMBER, "N", NULL,
     "leave weights of fewer elements alone (without it: 256)", .read = read_min_elements},
};

// ---- the pass ----------------------------------------------------------------------------------

static int run(struct pass_env *env, void *with, struct pass_result *result, struct err *err) {
  (void)result, (void)err; // what a weight has against it is its site's reason
  struct words *x = with;
  struct cast_result counts;
  x->options.excluded = x->n_exclude ? is_excluded : NULL;
  x->options.ctx = x;
  for (uint32_t i = 0; i < x->n_exclude; i++)
    warn_unmatched(env, &x->exclude[i]);
  pass_cast(env, &x->options, &counts);
  return 0;
}

static void done(void *with) {
  struct words *x = with;
  for (uint32_t i = 0; i < x->n_exclude; i++)
    name_pattern_done(&x->exclude[i]);
}

static const struct pass cast = {
    .name = "cast",
    .summary = "float32 weights -> float16 or bfloat16, with a Cast where they are used",
    .about = "Stores weights in a narrower type and puts one Cast behind each.",
    .needs = "nothing",
    .promises = "activations and their types as they were",
    .exactness = EXACTNESS_EXACT, // a Cast back says just what is stored
    .stores = "cast",
    PASS_OPTIONS(options, words),
    .run = run,
    .done = done,
};

const struct pass *const cast_passes[] = {&cast, NULL};
