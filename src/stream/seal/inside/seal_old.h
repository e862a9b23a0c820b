// What the model that is about to be replaced consists of.
#ifndef WEIR_SEAL_OLD_H
#define WEIR_SEAL_OLD_H

#include "plan.h"
#include "seal_intent.h"
#include "staging.h"

// Fills s->old and s->stale: sidecars of the .onnx that the destination has under the name of s's, and
// companions that will describe a model that is no more. Files that s itself puts in place are not
// among them.
int seal_old_find(struct seal_intent *s, const struct staging *st, const struct plan *p,
                  struct err *err);

#endif
