// The rows of infer_rules.def.
#include "infer_rules.h"

static const struct infer_row_of_rules rows[] = {
#define RULE(domain_, op, function, parameter)                                                     \
  {.domain = domain_, .op_type = op, .rule = function, .with = parameter},
#define STEPS(domain_, op, function, parameter)                                                    \
  {.domain = domain_, .op_type = op, .steps = function, .with = parameter},
#include "infer_rules.def"
#undef RULE
#undef STEPS
};

const struct infer_row_of_rules *infer_rules(uint32_t *n) {
  *n = sizeof rows / sizeof *rows;
  return rows;
}
