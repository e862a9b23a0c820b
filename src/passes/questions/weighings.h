// The answer of the stage "weighed": what errors of quantized weights cost the output, by second moments of what the weights
// are multiplied with. Each question is two recipes, the codes and what their error is weighed by. The text of
// the artifact is written and read here and nowhere else:
//
//   {…head…}
//   {"of":{…recipe…},"by":{…recipe…},"signal":…,"error":…,"plain":…,"nonfinite":…}
//   …                                                                  a line a question, in order
#ifndef WEIR_WEIGHINGS_H
#define WEIR_WEIGHINGS_H

#include "passes/questions/answers.h"
#include "tensor_stats/output_error.h"

#define WEIGHINGS_STAGE "weighed"

extern const struct answer_form weighings_form; // of a struct output_error for each pair

// What errors are weighed by, with the dims that say which of `rank` axes of the weight is multiplied (measure_weighed.h):
// second moments of k columns that lie from byte `at` of a file on; squares of the mean magnitudes of k channels; nothing.
uint32_t weighings_gram(struct recipes *r, uint32_t file, uint64_t at, uint32_t k, uint32_t axis,
                        uint32_t rank);
uint32_t weighings_channels(struct recipes *r, const float *means, uint32_t k, uint32_t axis,
                            uint32_t rank);
uint32_t weighings_alone(struct recipes *r, uint32_t rank);

#endif
