// Which version of ONNX Runtime has a kernel for a node of ai.onnx (target_kernels.def).
#ifndef WEIR_TARGET_KERNELS_H
#define WEIR_TARGET_KERNELS_H

#include "model.h"

// Of a constant, as it is declared, or what a Cast makes; else DTYPE_UNDEFINED.
enum dtype target_told_type(const struct model *m, uint32_t value);

#endif
