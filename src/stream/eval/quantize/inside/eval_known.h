// Inside quantization: scales and zero points that the run knows, by whole units.
#ifndef WEIR_EVAL_KNOWN_H
#define WEIR_EVAL_KNOWN_H

#include "eval_panel.h"

// Does the cache of the run keep units of z?
bool eval_known_keeps(const struct eval_quantize *z, const struct eval_room *room);
// Gives it n of them: scales and zero points (NBITS_HQQ: floats), through the tile.
void eval_known_publish(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                        uint64_t n, const float *scales, const uint8_t *zeros,
                        const struct eval_room *room);
// A whole unit, if the cache has it.
bool eval_known_unit(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                     float *scales, uint8_t *zeros, const struct eval_room *room);
// The first unit in (unit, end) that it has, or end: another worker found it out.
uint64_t eval_known_next(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                         uint64_t end);
// Scales or zeros [first, first + *n) as their part holds them, as far as it has them (*n is then less): of units that
// are short many at a time, of others to the end of one at most. False: not even the first.
bool eval_known_elements(struct eval_task *t, const struct eval_quantize *z, uint64_t first,
                         uint64_t *n, uint8_t *out);

#endif
