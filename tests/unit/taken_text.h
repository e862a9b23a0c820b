// What a module writes, taken in memory: the sink of those that write text in pieces.
#ifndef WEIR_TEST_TAKEN_TEXT_H
#define WEIR_TEST_TAKEN_TEXT_H

#include "base/span.h"
#include "base/table.h"

#include <string.h>

// Starts zeroed; TABLE_FREE(t, at) frees it.
struct taken_text {
  TABLE_BIG(char, at);
};

static inline int taken_text_put(void *ctx, struct span piece) {
  struct taken_text *t = ctx;
  TABLE_ROOM(t, at, piece.n);
  memcpy(t->at + t->n_at, piece.at, piece.n);
  t->n_at += piece.n;
  return 0;
}

#endif
