// Sites, several at a time: processes that each have a runtime of their own, and take the next site when they are done with
// one.
#ifndef WEIR_VERIFY_WIDE_H
#define WEIR_VERIFY_WIDE_H

#include "verify/run/verify.h"

struct verify_wide {
  struct verify *v;
  uint32_t jobs, n; // sites 0 to n - 1
  // Looks at one and adds its row, if any, to v->found. In another process, if it is not the one that was called: what
  // it changes in memory besides is lost.
  int (*one)(void *ctx, uint32_t site, struct err *err);
  // The process is one of several: nothing is to be printed by it.
  void (*alone)(void *ctx);
  void *ctx;
};

// Rows come in the order of sites, whichever process made them. Memory of all processes is added up in v->found.peak_memory.
int verify_wide_run(const struct verify_wide *w, struct err *err);

// Memory that all may add to: for what is told of progress. NULL: the system gives none.
uint64_t *verify_wide_counter(void);
void verify_wide_counter_free(uint64_t *counter);

#endif
