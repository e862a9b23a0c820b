// What runtime_needs.h says of a model, printed.
#ifndef WEIR_RENDER_NEEDS_H
#define WEIR_RENDER_NEEDS_H

#include "model.h"

// The words of runtime_needs_words between `before` and `after`, or `otherwise`.
void render_needs(const struct model *m, const char *before, const char *after,
                  const char *otherwise);

#endif
