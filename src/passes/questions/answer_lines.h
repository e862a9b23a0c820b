// The lines of an answer's text, for those who read one.
#ifndef WEIR_ANSWER_LINES_H
#define WEIR_ANSWER_LINES_H

#include "span.h"

// Takes the next line off `rest`; false: there is none that ends.
static inline bool answer_line(struct span *rest, struct span *line) {
  const uint8_t *end = rest->n ? memchr(rest->at, '\n', rest->n) : NULL;
  if (!end) return false;
  *line = span_of(rest->at, (size_t)(end - rest->at));
  *rest = span_of(end + 1, rest->n - line->n - 1);
  return true;
}

#endif
