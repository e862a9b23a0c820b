// The list of the families that make matrices of windows, and of layouts.
#include "passes/lower/inside/lower.h"

const struct pass *const lower_passes[] = {&lower_conv,     &lower_global_average_pool,
                                           &lower_max_pool, &lower_average_pool,
                                           &lower_layouts,  NULL};
