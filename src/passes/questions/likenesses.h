// The answer of the stage "equal": which recipes have the same elements. The text of its artifact is
// written and read here and nowhere else:
//
//   {…head…}
//   {"of":{…recipe…},"sample":"…","all":"…"}     "all" only where all of it was read
//   …                                           a line a question, in order
//
// "sample" is the SHA-256 of CONTENT_HASH_SAMPLE_BYTES of the elements, "all" that of all of them: known of
// those that have no more than that, and of those whose type, dims and sample are another's too.
#ifndef WEIR_LIKENESSES_H
#define WEIR_LIKENESSES_H

#include "passes/questions/answers.h"
#include "tensor_stats/content_hash.h"

#define LIKENESSES_STAGE "equal"

extern const struct answer_form likenesses_form; // of a struct content_hash for each recipe

#endif
