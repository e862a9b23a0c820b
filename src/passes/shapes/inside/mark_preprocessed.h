// The pass that says of a model that it is ready to be quantized.
#ifndef WEIR_MARK_PREPROCESSED_H
#define WEIR_MARK_PREPROCESSED_H

#include "passes/pass.h"

extern const struct pass mark_preprocessed;

#endif
