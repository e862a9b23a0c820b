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

#include "tensor_stats.h"
#include "pass.h"

#define FINDINGS_STAGE "facts"
#define FINDINGS_STAGE_MULTIPLES "multiples"

// Of n recipes of plain numbers (dtype.h), in their order: asks env->ask, which must not be NULL.
int findings_ask(const struct pass_env *env, const uint32_t *of, uint32_t n, bool multiples,
                 struct tensor_stats *out, struct err *err);
// The lines behind the head.
void findings_write(struct json_out *j, struct edits *e, const uint32_t *of, uint32_t n,
                    bool multiples, const struct tensor_stats *facts);
// All of a text, with its head. False if it does not hold n answers; `out` may be NULL.
bool findings_read(struct span text, uint32_t n, bool multiples, struct tensor_stats *out);

#endif
