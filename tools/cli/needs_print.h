// What runtime_needs.h says of a model, printed.
#ifndef WEIR_NEEDS_PRINT_H
#define WEIR_NEEDS_PRINT_H

#include "model.h"

// The words of runtime_needs_words between `before` and `after`, or `otherwise`.
void runtime_needs_print(const struct model *m, const char *before, const char *after,
                         const char *otherwise);

#endif
