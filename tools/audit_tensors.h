// Damaged byte ranges of a written model, and the tensors that lie in them.
#ifndef WEIR_AUDIT_TENSORS_H
#define WEIR_AUDIT_TENSORS_H

#include "arena.h"

struct audit_found {
  const char *file; // relative to the model's folder
  const char *what;
  uint64_t off, len;
  const char *const *tensors; // names, in order of their place
  uint32_t n_tensors;
  bool mapped; // the model could be read, so that `tensors` is all there is
};

// Fills in the tensors of each row, if the model at that path is itself undamaged (no row is about
// it) and can be loaded. Says in a notice why not otherwise. Names live in *arena.
void audit_tensors_name(const char *model_path, struct audit_found *found, size_t n,
                        struct arena *arena);

#endif
