// Faults of a model that somebody collects, as `weir check` does. Who collects none ends at the
// first error.
#ifndef WEIR_FAULT_H
#define WEIR_FAULT_H

#include "base/err.h"

enum fault_level { FAULT_NOTE, FAULT_WARNING, FAULT_ERROR };

// `place` names where: a node, a tensor, a byte. `cause`: the error that the message was taken
// from, which may have a hint or a reason; NULL if there was none. All holds during the call.
struct fault_sink {
  void (*report)(void *ctx, enum fault_level level, const char *place, const char *message,
                 const struct err *cause);
  void *ctx;
};

#endif
