// The list of the families that make matrices of windows, and of layouts.
#include "pass.h"

const struct pass *const lower_passes[] = {NULL};
