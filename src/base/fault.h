// Faults of a model that somebody collects, as `weir check` does. Who collects none ends at the
// first error.
#ifndef WEIR_FAULT_H
#define WEIR_FAULT_H

enum fault_level { FAULT_NOTE, FAULT_WARNING, FAULT_ERROR };

// `place` names where: a node, a tensor, a byte. Both texts hold during the call.
struct fault_sink {
  void (*report)(void *ctx, enum fault_level level, const char *place, const char *message);
  void *ctx;
};

#endif
