// The answer of the stages "facts" and "multiples": what holds of all elements of recipes. The text of
// its artifact is written and read here and nowhere else:
//
//   {…head…}
//   {"of":{…recipe…},"elements":…,"zeros":…,"nans":…,"infinities":…,"least":…,"most":…,"finest":…,
//    "alike":…,"identity":…}
//   …                                                   a line a question, in order
//
// and with "multiples":… behind it in answers of the stage of that name, which reads some twice (tensor_stats.h
// says what the words mean). Numbers are the shortest decimals that read back.
#ifndef WEIR_FINDINGS_H
#define WEIR_FINDINGS_H

#include "passes/questions/answers.h"
#include "tensor_stats/tensor_stats.h"

#define FINDINGS_STAGE "facts"
#define FINDINGS_STAGE_MULTIPLES "multiples"

// Of n recipes of plain numbers (dtype.h), in their order: asks env->ask, which must not be NULL.
int findings_ask(const struct pass_env *env, const uint32_t *of, uint32_t n, bool multiples,
                 struct tensor_stats *out, struct err *err);
// Of a struct tensor_stats: of "facts", and of "multiples".
extern const struct answer_form findings_forms[2];

#endif
