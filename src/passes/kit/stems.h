// Stems of names: for what becomes several tensors and nodes, whose new names belong together.
#ifndef WEIR_STEMS_H
#define WEIR_STEMS_H

#include "arena.h"
#include "numbers.h"

struct stems {
  const struct model *m;
  struct numbers numbers; // tried so far behind a base
};

void stems_init(struct stems *s, const struct model *m);
void stems_done(struct stems *s);

// `base`, or base_1, base_2, …: the first one such that no name of the model is the stem followed
// by one of the n suffixes. Nothing is reserved: the caller makes those names, or gives the stem
// up. The text lies in `a`.
struct span stems_new(struct stems *s, struct span base, const char *const *suffixes, uint32_t n,
                      struct arena *a);
// Stem and suffix as one text in `a`.
struct span stems_join(struct span stem, const char *suffix, struct arena *a);

#endif
