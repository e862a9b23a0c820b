// Which data files does the model of that name refer to? What a manifest lists and what bytes of the .onnx look like says nothing: a
// tensor may be called as any file of the folder is.
#ifndef WEIR_SEAL_REFERS_H
#define WEIR_SEAL_REFERS_H

#include "base/arena.h"
#include "stream/io/sources.h"

#include <stdbool.h>

// All zero at first. The model is loaded, without its data, when it is asked about for the first time, and again if its file has changed
// since; a struct is about one model. One that cannot be loaded refers to nothing and is `unread`; a file that is not there refers to
// nothing. Names are held, the index is not: it is in memory during the call that loads it.
struct seal_refers {
  struct arena arena;
  const char **names; // sorted: base names, and paths below the folder
  uint32_t n;
  bool unread;
  struct fingerprint print; // of the file that was loaded
};
void seal_refers_ask(struct seal_refers *r, const char *folder, const char *onnx);
bool seal_refers_to(struct seal_refers *r, const char *folder, const char *onnx, const char *name);
void seal_refers_done(struct seal_refers *r);

#endif
