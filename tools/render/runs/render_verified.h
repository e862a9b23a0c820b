// What a verification found, for people and programs.
#ifndef WEIR_RENDER_VERIFIED_H
#define WEIR_RENDER_VERIFIED_H

#include "report/verified.h"

// On standard output: `worst` rows, failed ones first, and the line with the share.
void render_verified(const struct verified *f, bool brief);
// The line that onnx-conv2matmul ends a verification with.
void render_verified_compatible(const struct verified *f);

#endif
