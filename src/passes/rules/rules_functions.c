// Which function of the rule language is which: the rows of rules_functions.def, in their order.
#include "rules_functions.h"

struct rules_value rules_call(struct rules_run *run, uint32_t function,
                              const struct rules_value *args, uint32_t n) {
  static struct rules_value (*const functions[])(struct rules_run *, const struct rules_value *,
                                                 uint32_t) = {
#define RULES_FUNCTION(name, arguments, result) rules_call_##name,
#include "rules_functions.def"
#undef RULES_FUNCTION
  };
  return functions[function](run, args, n);
}
