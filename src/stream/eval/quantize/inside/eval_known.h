// Inside quantization: scales and zero points that the run knows, by whole units.
#ifndef WEIR_EVAL_KNOWN_H
#define WEIR_EVAL_KNOWN_H

#include "eval_panel.h"

// Does the cache of the run keep the units of a box? Gives it those that the box has with all of their cells, through the
// tile.
bool eval_known_keeps(const struct eval_filling *f);
void eval_known_publish(const struct eval_filling *f);
// All cells of the box's first unit, if the cache has them.
bool eval_known_unit(const struct eval_filling *f);
// The first unit in (unit, end) that it has, or end: another worker found it out.
uint64_t eval_known_next(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                         uint64_t end);
// Scales or zeros [first, first + *n) as their part holds them, as far as it has them (*n is then less): of units that
// are short many at a time, of others to the end of one at most. False: not even the first.
bool eval_known_elements(struct eval_task *t, const struct eval_quantize *z, uint64_t first,
                         uint64_t *n, uint8_t *out);

#endif
