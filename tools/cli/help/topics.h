// The topics of 'weir help TOPIC': those of topics.def, and those that are printed from tables.
#ifndef WEIR_TOPICS_H
#define WEIR_TOPICS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// Number of the topic that the words mean ("exit codes": words[0] = "exit", words[1] = "codes"), or TOPICS_NONE.
#define TOPICS_NONE UINT32_MAX
uint32_t topics_find(const char *const *words, uint32_t n_words);

// Name and summary of the k-th topic; past the last one NULL.
const char *topics_name(uint32_t k, const char **summary);
void topics_print(FILE *to, uint32_t topic);
// Says that there is no command and no topic of that name, and what may have been meant.
int topics_unknown(const char *name, struct err *err);

#endif
