// Inside the recipe room: how a file beside recipe.c adds rows of its own kind.
#ifndef WEIR_RECIPE_ROWS_H
#define WEIR_RECIPE_ROWS_H

#include "recipe.h"

// Parameters of a QUANTIZE row in r->longs: format, bits, symmetric, axis, block, levels, part.
enum { RECIPE_QUANTIZE_LONGS = 7 };

// The row of this kind, type, operand and list of numbers (row.at): a new one or the one there is.
uint32_t recipe_rows_intern(struct recipes *r, const struct recipe *type, const int64_t *dims,
                            uint32_t of, const int64_t *longs, uint32_t n_longs);

#endif
