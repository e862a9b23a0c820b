// The list of the families about thresholds, and of range annotation.
#include "pass.h"

const struct pass *const thresholds_passes[] = {NULL};
