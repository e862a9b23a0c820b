// Which nodes, by name: the options exclude and include, read, asked, and looked over for patterns
// that are misspelt.
#include "passes/questions/name_filter.h"

const struct pass_option name_filter_rows[2] = {NAME_FILTER_ROWS};

int name_filter_exclude(const struct pass_value *v, void *options, struct arena *a,
                        struct err *err) {
  struct name_filter *f = options;
  return name_patterns_compile(&f->exclude, v->list, v->n_list, "--exclude", a, err);
}

int name_filter_include(const struct pass_value *v, void *options, struct arena *a,
                        struct err *err) {
  struct name_filter *f = options;
  return name_patterns_compile(&f->include, v->list, v->n_list, "--include", a, err);
}

void name_filter_done(void *options) {
  struct name_filter *f = options;
  name_patterns_done(&f->exclude);
  name_patterns_done(&f->include);
}

bool name_filter_excludes(const struct name_filter *f, const char *name) {
  return name_patterns_match(&f->exclude, name);
}

const char *name_filter_refuses(const struct name_filter *f, const char *name) {
  if (name_filter_excludes(f, name)) return "excluded";
  return f->include.n == 0 || name_patterns_match(&f->include, name) ? NULL : "not_included";
}

// ---- patterns without a match ------------------------------------------------------------------

static void warn_of(const struct name_pattern *p, const char *option, const struct pass_env *env) {
  const struct model *m = env->m;
  struct name_pattern_nearest c = {0};
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    const char *name = model_name_str(m, m->nodes[i].name);
    if (*name && name_pattern_matches(p, name)) return;
  }
  for (uint32_t i = 0; i < m->n_nodes; i++)
    name_pattern_consider(&c, p, model_name_str(m, m->nodes[i].name));
  env->warn(env->warn_ctx,
            arena_printf(env->scratch, "%s '%s' matches no node", option, quote_str(p->text).s),
            name_pattern_hint(&c, env->scratch));
}

static bool in_list(const struct name_patterns *p, uint32_t n, const char *text) {
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(p->at[i].text, text) == 0) return true;
  return false;
}

void name_filter_warn(const struct name_filter *const *filters, uint32_t n,
                      const struct pass_env *env) {
  for (uint32_t k = 0; env->warn && k < n; k++) {
    for (uint32_t list = 0; list < 2; list++) {
      const struct name_patterns *of = list ? &filters[k]->include : &filters[k]->exclude;
      for (uint32_t i = 0; i < of->n; i++) {
        bool before = in_list(of, i, of->at[i].text);
        for (uint32_t j = 0; j < k && !before; j++) {
          const struct name_patterns *other = list ? &filters[j]->include : &filters[j]->exclude;
          before = in_list(other, other->n, of->at[i].text);
        }
        if (!before) warn_of(&of->at[i], list ? "--include" : "--exclude", env);
      }
    }
  }
}
