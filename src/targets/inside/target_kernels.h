// What the files of this room share of types: those that the model tells without inference.
#ifndef WEIR_TARGET_KERNELS_H
#define WEIR_TARGET_KERNELS_H

#include "model/model.h"

// The value's type where it is a constant, is declared, or is made by a Cast; else DTYPE_UNDEFINED.
enum dtype target_told_type(const struct model *m, uint32_t value);

#endif
