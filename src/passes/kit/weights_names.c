// Which weights --exclude of a pass over all weights means.
#include "passes/kit/kit.h"
#include "passes/kit/weights.h"
#include "passes/questions/name_pattern.h"

static bool name_matches(const struct name_pattern *p, const char *name) {
  return *name && name_pattern_matches(p, name);
}

bool weights_named(struct kit *k, const struct name_patterns *patterns, const struct weight *w) {
  const struct model *m = k->m;
  bool found = false;
  for (uint32_t i = 0; i < patterns->n && !found; i++) {
    const struct name_pattern *p = &patterns->at[i];
    found = name_matches(p, model_name_str(m, m->values[w->value].name)) ||
            (w->node != NO_ID && name_matches(p, model_name_str(m, m->nodes[w->node].name)));
    for (struct kit_use u = kit_uses(k, w->value); !found && kit_use(k, &u);)
      found = name_matches(p, model_name_str(m, m->nodes[u.node].name));
  }
  return found;
}

// ---- names that nothing has ---------------------------------------------------------------------

static bool matches_any(const struct model *m, const struct name_pattern *p) {
  struct weight w;
  for (uint32_t t = 0; t < m->n_tensors; t++)
    if (weights_at(m, t, &w) && name_pattern_matches(p, model_name_str(m, m->values[w.value].name)))
      return true;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (name_pattern_matches(p, model_name_str(m, m->nodes[i].name))) return true;
  return false;
}

static void warn_unmatched(struct pass_env *env, const struct name_pattern *p, const char *option) {
  const struct model *m = env->m;
  struct name_pattern_nearest c = {0};
  struct weight w;
  if (matches_any(m, p)) return;
  for (uint32_t t = 0; t < m->n_tensors; t++)
    if (weights_at(m, t, &w))
      name_pattern_consider(&c, p, model_name_str(m, m->values[w.value].name));
  for (uint32_t i = 0; i < m->n_nodes; i++)
    name_pattern_consider(&c, p, model_name_str(m, m->nodes[i].name));
  const char *sentence = arena_printf(env->scratch, "%s '%s' matches no weight and no node", option,
                                      quote_str(p->text).s);
  env->warn(env->warn_ctx, sentence, name_pattern_hint(&c, env->scratch));
}

void weights_warn_unmatched(struct pass_env *env, const struct name_patterns *patterns,
                            const char *option) {
  for (uint32_t i = 0; env->warn && i < patterns->n; i++)
    warn_unmatched(env, &patterns->at[i], option);
}
