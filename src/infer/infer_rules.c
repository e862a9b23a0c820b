// The functions behind the words of the table of operators (src/schema/README.md, "Rules").
#include "infer/inside/infer_rules.h"

struct infer_row_of_rules infer_rule_of(enum schema_rule rule) {
  static const struct infer_row_of_rules rows[SCHEMA_RULES] = {
#define RULE(id, function) [SCHEMA_RULE_##id] = {.rule = function},
#define STEPS(id, function) [SCHEMA_RULE_##id] = {.steps = function},
#include "infer/infer_rules.def"
  };
  return rows[rule];
}
