// The list of the family `optimize`, in the order in which a round of `weir optimize` runs it.
#include "optimize.h"

const struct pass *const optimize_passes[] = {&optimize_fold_if, &optimize_fold_small, NULL};
