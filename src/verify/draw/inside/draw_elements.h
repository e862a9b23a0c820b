// The elements of an array: drawn, converted, packed.
#ifndef WEIR_DRAW_ELEMENTS_H
#define WEIR_DRAW_ELEMENTS_H

#include "draw_parts.h"

#define DRAW_BYTES_MAX ((uint64_t)1 << 30)

struct draw_asked {
  uint32_t value;
  const uint32_t *users;
  uint32_t n_users;
  const struct draw_input *input; // of the main graph; NULL: it is none
};

// Fills the elements of x, which lie at `at`.
void draw_elements(struct draw *d, const struct draw_asked *asked, const struct array *x,
                   uint8_t *at);

#endif
