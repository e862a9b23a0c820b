// The list of what rules cannot say of the families factorize, unbroadcast, reorder and eliminate.
#include "pass.h"

const struct pass *const streamline_passes[] = {NULL};
