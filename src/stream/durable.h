// From written to recorded: units are made durable in groups, behind the workers' backs.
#ifndef WEIR_DURABLE_H
#define WEIR_DURABLE_H

#include "plan.h"
#include "staging.h"

struct durable;

// `capacity`: units that may be written and not yet recorded before durable_give waits.
void durable_open(struct durable **out, const struct plan *p, struct sources *s, struct staging *st,
                  uint32_t capacity);
// A unit whose bytes are all written, and its error figures, which are ours then. Any thread. False
// once something failed.
bool durable_give(struct durable *d, uint32_t unit, const uint8_t digest[DIGEST_BYTES],
                  struct error_sums errors);
// Records what was given, ends and frees it. -1 with the first failure.
int durable_close(struct durable *d, struct err *err);

#endif
