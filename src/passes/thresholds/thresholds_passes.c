// The list of the families about thresholds, and of range annotation.
#include "passes/thresholds/inside/thresholds.h"

const struct pass *const thresholds_passes[] = {
    &thresholds_annotate,
    &thresholds_from_round,
    &thresholds_silu,
    &thresholds_fuse,
    &thresholds_fuse_segments,
    &thresholds_sort,
    &thresholds_unbroadcast,
    &thresholds_by_granularity,
    &thresholds_by_monotonicity,
    &thresholds_by_multiplicity,
    &thresholds_cleanup,
    NULL,
};
