// Numbers behind names that are taken: "w_1", "w_2", … For passes that make up names.
#ifndef WEIR_NUMBERS_H
#define WEIR_NUMBERS_H

#include "model.h"

// Starts zeroed.
struct numbers {
  uint32_t *at; // by name id
  uint32_t n;
  size_t cap;
};

// The number that was tried last behind the name, to be counted up: 0 at first. Valid until the
// next call.
uint32_t *numbers_behind(struct numbers *numbers, uint32_t name);
void numbers_done(struct numbers *numbers);

#endif
