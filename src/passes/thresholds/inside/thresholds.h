// Room: passes about thresholds: MultiThreshold nodes are made, sorted, fused and decomposed.
#ifndef WEIR_THRESHOLDS_H
#define WEIR_THRESHOLDS_H

#include "passes/thresholds/inside/stairs.h"

extern const struct pass thresholds_from_round;      // infer-thresholds/ConvertRoundToThresholds
extern const struct pass thresholds_fuse;            // fuse-thresholds/FuseThresholds
extern const struct pass thresholds_fuse_segments;   // fuse-thresholds/FuseThresholdSegments
extern const struct pass thresholds_sort;            // sort-thresholds/SortThresholds
extern const struct pass thresholds_unbroadcast;     // unbroadcast/UnbroadcastThresholds
extern const struct pass thresholds_by_monotonicity; // decompose-thresholds/Threshold…Decomposition
extern const struct pass thresholds_by_granularity;
extern const struct pass thresholds_by_multiplicity;
extern const struct pass thresholds_silu;     // algebraic/AbsorbSiluIntoComparison
extern const struct pass thresholds_annotate; // range-annotation/RangeAnnotation
extern const struct pass thresholds_cleanup;  // cleanup/CleanupRangeAnnotation

#endif
