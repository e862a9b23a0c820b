// Texts about two models that were compared, for every renderer. They live as long as the arena of x. `side`: DIFF_A or
// DIFF_B; ids are rows of that side's model.
#ifndef WEIR_DIFF_WORDS_H
#define WEIR_DIFF_WORDS_H

#include "compare/diff_summary.h"

// The value of an attribute: "[1,1]", "'same'", "float[3] = 1,2,3"; of what is large, its kind: "a graph".
const char *diff_words_attr(struct diffing *x, uint32_t side, uint32_t attr);
// "": the main graph; else the node or function whose graph it is: "then_branch of choose".
const char *diff_words_graph(struct diffing *x, uint32_t side, uint32_t graph);
// The name of a tensor; of one that an attribute holds, "node.attribute".
const char *diff_words_tensor(struct diffing *x, uint32_t side, uint32_t tensor);
// "float[64,64]".
const char *diff_words_type(struct diffing *x, uint32_t side, uint32_t tensor);
// The name of the first node that uses the tensor: people know layers, not tensors. "": none has one.
const char *diff_words_layer(struct diffing *x, const struct matched_tensor *row);
// "3 nodes".
const char *diff_words_counted(struct diffing *x, uint64_t n, const char *noun);
// The first 60 bytes of a value, quoted, with "…" where it is longer; "-": NULL.
const char *diff_words_cut(struct diffing *x, const char *value);
// "different: 3 nodes changed, 1 tensor renamed": one sentence without its end.
const char *diff_words_answer(struct diffing *x, const struct diff_summary *s);

#endif
