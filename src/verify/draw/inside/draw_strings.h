// Texts (draw_strings.c).
#ifndef WEIR_DRAW_STRINGS_H
#define WEIR_DRAW_STRINGS_H

#include "draw.h"

// A tensor of strings of these dims, in *a. False: there would be too many.
bool draw_strings(struct draw *d, uint32_t value, const int64_t *dims, uint32_t rank,
                  struct arena *a, struct array *out);

#endif
