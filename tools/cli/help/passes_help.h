// What `weir passes` shows of the catalogue.
#ifndef WEIR_PASSES_HELP_H
#define WEIR_PASSES_HELP_H

#include "base/arena.h"
#include "passes/catalogue/passes.h"
#include "pipeline/groups.h"

// Lists end with NULL. `all`: the list is the whole catalogue; groups: names for several passes are in the document.
void passes_help_pass(const struct pass *pass, struct arena *a);
void passes_help_steps(void);
void passes_help_group(const struct group *group);
void passes_help_groups(void);
void passes_help_list(const struct own_passes *own, const struct pass *const *list, bool all);
void passes_help_json(const struct pass *const *list, bool groups, struct arena *a);

#endif
