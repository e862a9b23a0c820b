// Room: answers to the questions that passes ask about weights.
//
// What quantizing tensors would cost: error figures of many quantizations.
//
// A quantization is named by the recipe of its codes (RECIPE_QUANTIZE, PART_CODES, also behind what
// only moves codes), so that what is measured is what would be written; its figures are those that a
// run tells of these codes, bit for bit, for any number of workers, memory, engine and instruction
// set. (Of SHRINK along an axis they are those of another question: measure_axes.c.)
#ifndef WEIR_MEASURE_H
#define WEIR_MEASURE_H

#include "recipe/recipe.h"
#include "stream/io/sources.h"
#include "stream/run/work.h"
#include "tensor_stats/figures.h"

// Can this recipe be measured: codes of the NBITS formats, GATHER or QDQ, blocks of a power of two
// up to 256 or (QDQ) of all of the axis, or codes of SHRINK with a scale a channel?
bool measure_can(const struct recipes *r, uint32_t codes);

// Are its figures sums of columns, or of channels, as version 0.1.0 made all of them?
bool measure_is_by_column(const struct recipes *r, uint32_t codes);

struct measure_stats {
  uint64_t source_bytes_read;
  uint32_t jobs;
};

// Figures of `n` codes (all of which can be measured) into out[0..n), in their order. Only
// `options`' jobs, memory, mode, progress and stop matter; memory is that of a run. An operand is
// read once for all its NBITS formats, and about once for all others whose lines fit the memory;
// twice, if a block is all of a longer axis, or for SHRINK. Elements that are not finite are counted
// and make the sums NaN. Afterwards the sources are checked to be unchanged. ERR_RETRY after a stop.
int measure_run(const struct recipes *r, struct sources *s, const uint32_t *codes, uint32_t n,
                const struct work_options *options, struct figures *out,
                struct measure_stats *stats, struct err *err);

#endif
