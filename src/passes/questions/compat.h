// --compat: whose results a pass makes, and in which version of that tool.
#ifndef WEIR_COMPAT_H
#define WEIR_COMPAT_H

#include "passes/pass.h"

// In the order of COMPAT_WORDS. Records made before there were versions have `onnxruntime` alone, which was 1.31; a user who says no
// version means the newest.
enum compat { COMPAT_NONE, COMPAT_ORT_NO_VERSION, COMPAT_ORT_1_31, COMPAT_ORT_1_32 };
#define COMPAT_WORDS "onnxruntime|onnxruntime-1.31|onnxruntime-1.32"
#define COMPAT_NEWEST "onnxruntime=onnxruntime-1.32"

// Ends the help of passes whose results depend on the version.
#define COMPAT_VERSIONS ". onnxruntime stands for onnxruntime-1.32, the newest version"

// The row of the option, but for its help; the pass's options have an enum compat of that name.
#define COMPAT_ROW(type)                                                                           \
  .name = "compat", .kind = PASS_CHOICE, .metavar = COMPAT_WORDS, PASS_MEMBER(type, compat),       \
  .from_one = true, .resolves = COMPAT_NEWEST

#endif
