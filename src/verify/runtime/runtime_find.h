// Where ONNX Runtime's library and the program weir-ort lie (docs/weir-ort.md has the order).
#ifndef WEIR_RUNTIME_FIND_H
#define WEIR_RUNTIME_FIND_H

#include "base/arena.h"
#include "base/err.h"

// The environment's names for both.
#define RUNTIME_FIND_LIBRARY "WEIR_ONNXRUNTIME"
#define RUNTIME_FIND_PROGRAM "WEIR_ORT"

// The library: `asked` (--onnxruntime) or else what the environment names, which must be a library for this machine; else
// that of an installed Python package; else a name for the dynamic loader. In *a. ERR_RUNTIME: what is named is none,
// or what was found may be changed by everybody.
int runtime_find_library(const char *asked, struct arena *a, const char **out, struct err *err);
// The program. ERR_RUNTIME: it is nowhere.
int runtime_find_program(struct arena *a, const char **out, struct err *err);

// What there is to do about a library that is missing or too old.
int runtime_find_hint(struct err *err);

#endif
