// Which data files does the model of that name refer to? What a manifest lists and what bytes of the .onnx look like says nothing: a
// tensor may be called as any file of the folder is.
#ifndef WEIR_SEAL_REFERS_H
#define WEIR_SEAL_REFERS_H

#include "arena.h"

#include <stdbool.h>

// All zero at first, but for `memory`. The model is loaded, without its data, when it is asked about for the first time; a struct is about
// one model. One that cannot be loaded, or whose index would not fit `memory`, refers to nothing and is `unread`. Names are held, the
// index is not.
struct seal_refers {
  uint64_t memory; // bytes that its index may take while it is there; 0: any
  struct arena arena;
  const char **names; // sorted: base names, and paths below the folder
  uint32_t n;
  bool asked, unread;
};
void seal_refers_ask(struct seal_refers *r, const char *folder, const char *onnx);
bool seal_refers_to(struct seal_refers *r, const char *folder, const char *onnx, const char *name);
void seal_refers_done(struct seal_refers *r);

#endif
