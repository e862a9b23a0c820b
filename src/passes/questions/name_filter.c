// Which nodes, by name: the options exclude and include, read, asked, and looked over for patterns
// that are misspelt.
#include "name_filter.h"

int name_filter_read(const struct pass_value *v, const char *option, struct name_pattern **out,
                     uint32_t *n, struct arena *a, struct err *err) {
  *out = arena_zalloc(a, (v->n_list + (size_t)1) * sizeof **out);
  for (*n = 0; *n < v->n_list; ++*n)
    if (name_pattern_compile(&(*out)[*n], v->list[*n], option, err)) return -1;
  return 0;
}

int name_filter_exclude(const struct pass_value *v, void *options, struct arena *a,
                        struct err *err) {
  struct name_filter *f = options;
  return name_filter_read(v, "--exclude", &f->exclude, &f->n_exclude, a, err);
}

int name_filter_include(const struct pass_value *v, void *options, struct arena *a,
                        struct err *err) {
  struct name_filter *f = options;
  return name_filter_read(v, "--include", &f->include, &f->n_include, a, err);
}

void name_filter_done(void *options) {
  struct name_filter *f = options;
  for (uint32_t i = 0; i < f->n_exclude; i++)
    name_pattern_done(&f->exclude[i]);
  for (uint32_t i = 0; i < f->n_include; i++)
    name_pattern_done(&f->include[i]);
}

static bool any_matches(const struct name_pattern *list, uint32_t n, const char *name) {
  for (uint32_t i = 0; *name && i < n; i++)
    if (name_pattern_matches(&list[i], name)) return true;
  return false;
}

bool name_filter_excludes(const struct name_filter *f, const char *name) {
  return any_matches(f->exclude, f->n_exclude, name);
}

const char *name_filter_refuses(const struct name_filter *f, const char *name) {
  if (name_filter_excludes(f, name)) return "excluded";
  return f->n_include == 0 || any_matches(f->include, f->n_include, name) ? NULL : "not_included";
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

static bool in_list(const struct name_pattern *list, uint32_t n, const char *text) {
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(list[i].text, text) == 0) return true;
  return false;
}

void name_filter_warn(const struct name_filter *const *filters, uint32_t n,
                      const struct pass_env *env) {
  for (uint32_t k = 0; env->warn && k < n; k++) {
    const struct name_filter *f = filters[k];
    for (uint32_t list = 0; list < 2; list++) {
      const struct name_pattern *of = list ? f->include : f->exclude;
      for (uint32_t i = 0; i < (list ? f->n_include : f->n_exclude); i++) {
        bool before = in_list(of, i, of[i].text);
        for (uint32_t j = 0; j < k && !before; j++)
          before = list ? in_list(filters[j]->include, filters[j]->n_include, of[i].text)
                        : in_list(filters[j]->exclude, filters[j]->n_exclude, of[i].text);
        if (!before) warn_of(&of[i], list ? "--include" : "--exclude", env);
      }
    }
  }
}
