// Rules over graphs that are made of bytes. The same bytes, the same graph.
#ifndef WEIR_MADE_RULES_H
#define WEIR_MADE_RULES_H

#include "passes/rules/rules.h"

// Runs all rules of a book over a graph of the operators that rules look for, or (over_constants) of operators that
// fold. Aborts where the model is not whole and in order behind it.
void made_rules_run(const struct rules_book *book, bool over_constants, struct span bytes);

#endif
