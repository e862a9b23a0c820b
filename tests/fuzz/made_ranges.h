// Ranges for the values of a model, as calibration might have found them. The same model, the same
// ranges.
#ifndef WEIR_MADE_RANGES_H
#define WEIR_MADE_RANGES_H

#include "model/model.h"
#include "ranges/ranges.h"

// For each name of a value that can be written as JSON, by its place: mostly ordinary ones, some of
// which nobody knows, or that are one number, tiny or huge; by channel where the last dim is
// declared, or for a few channels. *r is to be given to ranges_free.
void made_ranges(struct ranges *r, const struct model *m);

#endif
