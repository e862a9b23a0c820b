#include "render_needs.h"

#include "runtime_needs.h"

#include <stdio.h>

void render_needs(const struct model *m, const char *before, const char *after,
                  const char *otherwise) {
  struct arena scratch = {0};
  const char *words = runtime_needs_words(m, &scratch);
  if (words)
    printf("%s%s%s", before, words, after);
  else
    printf("%s", otherwise);
  arena_free(&scratch);
}
