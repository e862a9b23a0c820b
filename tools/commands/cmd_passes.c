// weir passes: the catalogue. Everything it says is in the rows that the parser reads.
//
//   weir passes              a line a pass; passes of a family under its name
//   weir passes tidy         those of one family
//   weir passes tidy/dead    all of one pass
//   weir passes --rules F    those of a user's own
#include "cli/commands.h"
#include "cli/help/passes_help.h"
#include "passes/catalogue/passes.h"
#include "pipeline/groups.h"
#include "pipeline/user_rules.h"

// Those that the name stands for; without one (n 0) all, family by family, since passes of a family may
// come from several lists. NULL behind the last.
static const struct pass **listed(const struct own_passes *own, struct span name, struct arena *a) {
  const uint32_t all = passes_count(own);
  const struct pass **list = arena_alloc(a, (all + (size_t)1) * sizeof *list);
  uint32_t n = 0;
  for (const struct pass *pass; name.n > 0 && (pass = passes_named(own, name, n));)
    list[n++] = pass;
  const struct pass **rest = arena_alloc(a, all * sizeof *rest);
  for (uint32_t i = 0; i < all; i++)
    rest[i] = name.n > 0 ? NULL : passes_at(own, i);
  for (uint32_t i = 0; i < all; i++) {
    const struct pass *first = rest[i];
    for (uint32_t k = i; first && k < all; k++) {
      if (!rest[k] || !span_eq(passes_family(rest[k]), passes_family(first))) continue;
      list[n++] = rest[k];
      rest[k] = NULL;
    }
  }
  list[n] = NULL;
  return list;
}

// Without a name: all passes, or those of a user's own.
static int show(const struct cli_args *args, const struct own_passes *own, struct err *err) {
  const char *operand = cli_operand(args, "NAME");
  const struct span name = span_str(operand ? operand : "");
  const struct group *group = groups_find(name);
  if (operand && !group && !passes_known(own, name, err)) return -1;
  struct arena scratch = {0};
  const struct pass *one = operand ? passes_find(own, name) : NULL;
  const struct pass *const *list = !operand && own->list ? own->list : listed(own, name, &scratch);
  const bool all = !operand && !own->list;
  if (cli_flag(args, OPT_JSON)) {
    passes_help_json(list, all, &scratch);
  } else if (group) {
    passes_help_group(group);
  } else if (one) {
    passes_help_pass(one, &scratch);
  } else {
    passes_help_list(own, list, all);
    if (span_is(name, "optimize")) passes_help_steps();
    if (all) passes_help_groups();
    printf("\n'weir passes NAME' describes one pass and its options.\n");
  }
  arena_free(&scratch);
  return 0;
}

int cmd_passes(const struct cli_args *args, struct err *err) {
  struct user_rules own = {.n_texts = 0};
  uint32_t n;
  const char *const *files = cli_list(args, OPT_RULES, &n);
  int rc = user_rules_read(&own, files, n, err);
  if (rc == 0) rc = show(args, &own.passes, err);
  user_rules_done(&own);
  return rc;
}
