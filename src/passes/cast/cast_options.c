// Words to the options of cast: patterns are compiled, looked for once over all names, so that one
// that is misspelt is said, and asked for each weight.
#include "cast.h"

#include "name_pattern.h"
#include "weights.h"

struct excludes {
  struct name_pattern *patterns;
  uint32_t n;
  size_t cap;
};

// Names of a model end with a NUL (model_name_str).
static bool is_excluded(const void *ctx, struct span name) {
  const struct excludes *x = ctx;
  for (uint32_t i = 0; i < x->n; i++)
    if (name.n > 0 && name_pattern_matches(&x->patterns[i], (const char *)name.at)) return true;
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

static void cast_with(struct pass_env *env, const struct pass_value values[PASS_OPTIONS],
                      const struct excludes *x) {
  struct cast_result result;
  const char *overflow = values[PASS_OPT_ON_OVERFLOW].text;
  const struct pass_value *least = &values[PASS_OPT_MIN_ELEMENTS];
  const struct cast_options options = {
      .to = strcmp(values[PASS_OPT_TO].text, "float16") == 0 ? DTYPE_FLOAT16 : DTYPE_BFLOAT16,
      .min_elements = least->given ? least->number : CAST_MIN_ELEMENTS,
      .clips = overflow && strcmp(overflow, "clip") == 0,
      .excluded = x->n ? is_excluded : NULL,
      .ctx = x};
  for (uint32_t i = 0; i < x->n; i++)
    warn_unmatched(env, &x->patterns[i]);
  pass_cast(env, &options, &result);
}

// Fills x, which starts zeroed and is to be given to excludes_done in any case.
static int excludes_read(struct excludes *x, const struct pass_value *list, struct err *err) {
  // Not of the scratch: cast resets it for every weight.
  x->patterns = table_grow(NULL, &x->cap, (size_t)list->n_list + 1, sizeof *x->patterns);
  for (; x->n < list->n_list; x->n++)
    if (name_pattern_compile(&x->patterns[x->n], list->list[x->n], "--exclude", err)) return -1;
  return 0;
}

static void excludes_done(struct excludes *x) {
  for (uint32_t i = 0; i < x->n; i++)
    name_pattern_done(&x->patterns[i]);
  table_free(x->patterns, x->cap, sizeof *x->patterns);
}

int check_cast(const struct pass_value values[PASS_OPTIONS], struct err *err) {
  struct excludes x = {0};
  if (!values[PASS_OPT_TO].text) {
    err_fill(err, ERR_USAGE, "cast needs the type to store weights in");
    return err_hint(err, "to=float16 or to=bfloat16");
  }
  int rc = excludes_read(&x, &values[PASS_OPT_EXCLUDE], err);
  excludes_done(&x);
  return rc;
}

int run_cast(struct pass_env *env, const struct pass_value values[PASS_OPTIONS], struct err *err) {
  struct excludes x = {0};
  int rc = excludes_read(&x, &values[PASS_OPT_EXCLUDE], err);
  if (rc == 0) cast_with(env, values, &x);
  excludes_done(&x);
  return rc;
}
