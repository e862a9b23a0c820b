// The options exclude and include of passes that look at nodes: which of them, by name. Declared once
// here; a pass without others has NAME_FILTER_ALONE among its members, and its options are a struct
// name_filter. One with others has two rows more, and options that begin with it:
//
//   struct tidy_options { struct name_filter nodes; bool deep; };
//   static const struct pass_option options[] = {NAME_FILTER_ROWS, …};
//   … PASS_OPTIONS(options, tidy_options), .done = name_filter_done …
//
// They mean what they mean everywhere: exclude wins over include, and a node without a name matches
// no pattern.
#ifndef WEIR_NAME_FILTER_H
#define WEIR_NAME_FILTER_H

#include "passes/pass.h"
#include "passes/questions/name_pattern.h"

struct name_filter {
  struct name_patterns exclude, include;
};

#define NAME_FILTER_ROWS                                                                           \
  {"exclude",                                                                                      \
   PASS_LIST,                                                                                      \
   "PATTERN",                                                                                      \
   NULL,                                                                                           \
   "do not change nodes that match\nPATTERN is a glob, or re: followed by an extended regular "    \
   "expression. --exclude takes precedence over --include.",                                       \
   .read = name_filter_exclude},                                                                   \
  {                                                                                                \
    "include", PASS_LIST, "PATTERN", NULL, "change only nodes that match",                         \
        .read = name_filter_include                                                                \
  }
extern const struct pass_option name_filter_rows[2];
#define NAME_FILTER_ALONE PASS_OPTIONS(name_filter_rows, name_filter), .done = name_filter_done

// Readers of the rows, and a pass's `done`: of options that begin with a struct name_filter.
int name_filter_exclude(const struct pass_value *v, void *options, struct arena *a,
                        struct err *err);
int name_filter_include(const struct pass_value *v, void *options, struct arena *a,
                        struct err *err);
void name_filter_done(void *options);

static inline bool name_filter_is_open(const struct name_filter *f) {
  return f->exclude.n == 0 && f->include.n == 0;
}
bool name_filter_excludes(const struct name_filter *f, const char *name);
// Why a node of that name is left alone, a stable word: "excluded", "not_included"; or NULL.
const char *name_filter_refuses(const struct name_filter *f, const char *name);
// Warns of patterns that no node of the model has, each once however many of the n filters have it.
// Nodes that went count too: a pass before may have been asked for them.
void name_filter_warn(const struct name_filter *const *filters, uint32_t n,
                      const struct pass_env *env);

#endif
