// The functions of the rule language, one a row of rules_functions.def: what they share, and their declarations.
//
// None of them fails and none changes anything. What is not known is UNKNOWN: a rank, a dim that is
// nowhere known, elements that are not at hand, as long as no stage was asked about them
// (rules_facts.c). Lists are permutations, axes and dims; dims that are symbols are numbers far below
// zero (rules_inside.h), which equal themselves and can be handed on, but not computed with.
//
// Axes of a constant may count from the end: what looks at them knows the rank.
#ifndef WEIR_RULES_FUNCTIONS_H
#define WEIR_RULES_FUNCTIONS_H

#include "passes/rules/inside/rules_inside.h"

static inline struct rules_value rules_answer(int t) {
  return t < 0 ? rules_unknown() : rules_int(t);
}

static inline int64_t *rules_room(struct rules_run *run, uint32_t n) {
  return arena_alloc(&run->match, ((size_t)n + 1) * sizeof(int64_t));
}

static inline bool rules_number_of(const struct rules_value *v, int64_t most, int64_t *out) {
  *out = v->i;
  return v->kind == RULES_INT && v->i >= 0 && v->i <= most;
}

// 1, 0, -1: not known.
int rules_is_scalar(struct rules_run *run, const struct rules_value *v);

// `a`: the arguments, and a RULES_MARK behind the last.
#define RULES_FUNCTION(name, arguments, result)                                                    \
  struct rules_value rules_call_##name(struct rules_run *run, const struct rules_value *a);
#include "passes/rules/compile/rules_functions.def"

#endif
