// From written to recorded: units are made durable in groups, behind the workers' backs.
#ifndef WEIR_RECORDER_H
#define WEIR_RECORDER_H

#include "plan/plan.h"
#include "stream/staging/staging.h"

struct recorder;

// `capacity`: units that may be written and not yet recorded before recorder_give waits.
void recorder_open(struct recorder **out, const struct plan *p, struct sources *s,
                   struct staging *st, uint32_t capacity);
// A unit whose bytes are all written, and its error figures, which are ours then. Any thread. False
// once something failed.
bool recorder_give(struct recorder *d, uint32_t unit, const uint8_t digest[DIGEST_BYTES],
                   struct figure_sums errors);
// Records what was given, ends and frees it. -1 with the first failure.
int recorder_close(struct recorder *d, struct err *err);

#endif
