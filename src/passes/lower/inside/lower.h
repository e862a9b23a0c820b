// Room: convolutions and pooling as matrices of windows, and layouts of inputs and outputs.
#ifndef WEIR_LOWER_H
#define WEIR_LOWER_H

#include "passes/pass.h"

extern const struct pass lower_conv, lower_max_pool, lower_average_pool, lower_global_average_pool,
    lower_layouts;

#endif
