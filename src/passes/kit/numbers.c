// The number tried last behind every name, so that a thousand nodes or weights of one name (or of
// none) do not try each other's numbers again.
//
//   name id   0  1  2  3          "w" is name 2: w_1 and w_2 were tried, w_3 is next
//   number    0  0  2  0
//
// Names are never given back while a pass runs, so a number only goes up. The list is as long as
// the largest name id that was asked for.
#include "numbers.h"

uint32_t *numbers_behind(struct numbers *numbers, uint32_t name) {
  if (name >= numbers->n) {
    const size_t need = (size_t)name + 1;
    numbers->at = table_grow(numbers->at, &numbers->cap, need, sizeof *numbers->at);
    memset(numbers->at + numbers->n, 0, (need - numbers->n) * sizeof *numbers->at);
    numbers->n = (uint32_t)need;
  }
  return &numbers->at[name];
}

void numbers_done(struct numbers *numbers) {
  table_free(numbers->at, numbers->cap, sizeof *numbers->at);
  *numbers = (struct numbers){0};
}
