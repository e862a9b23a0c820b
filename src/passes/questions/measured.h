// The answer of the stages "measure" and "figures": what quantizing would cost, as figures of recipes of codes. The
// text of its artifact is written and read here and nowhere else:
//
//   {…head…}
//   {"of":{…recipe…},"elements":…,"nonfinite":…,"vv":…,"ee":…,"ve":…,"max_error":…}
//   …                                                                  a line a question, in order
//
// Sums are the shortest decimals that read back, so that the text, and its digest, are the same on
// every machine that measures the same weights.
#ifndef WEIR_MEASURED_H
#define WEIR_MEASURED_H

#include "passes/questions/answers.h"

// Version 0.1.0 measured all formats as "measure". Those that keep the operand's layout (QDQ, GATHER)
// have figures that differ from its in the last digits since then, and are asked for as "figures": so
// a replay of an old log knows that it cannot compare them.
#define MEASURED_STAGE "measure"
#define MEASURED_STAGE_FIGURES "figures"

// Figures of n recipes of codes (RECIPE_QUANTIZE, PART_CODES; formats NBITS, QDQ, GATHER, and SHRINK
// with an axis), in their order: asks env->ask, which must not be NULL.
int measured_ask(const struct pass_env *env, const uint32_t *codes, uint32_t n, struct figures *out,
                 struct err *err);
extern const struct answer_form measured_form; // of a struct figures

#endif
