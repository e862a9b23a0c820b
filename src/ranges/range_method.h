// From what was seen of a value to its range: the arithmetic of the methods, bit for bit that of onnxruntime.quantization
// for samples that are collected at once (calibrate.py of 1.31; NumPy 2).
//
//   read 1   least and most of every value         kernels_tally_extremes ──▶ range_seen
//   edges    of bins, fixed by these               range_method_bins
//   read 2   counts in the bins                    kernels_tally_bins
//   then     the range, from counts and edges      range_method_find
//
// Least, most and counts are the same in whatever order, groups or runs they are added. The mean over samples (moving
// average) takes what the samples had by their number.
#ifndef WEIR_RANGE_METHOD_H
#define WEIR_RANGE_METHOD_H

#include "kernels/tally/kernels_tally.h"
#include "ranges/ranges.h"

enum { RANGE_BINS = 2048, RANGE_ENTROPY_BINS = 128, RANGE_LEAST_DISTRIBUTION_BINS = 512 };
enum { RANGE_MOST_ENTROPY_BINS = 1 << 14 };

struct range_how {
  enum ranges_method method;
  double percentile;       // PERCENTILE: from 0 to 100
  uint32_t bins;           // 0: as onnxruntime: 2048, of entropy 128
  uint32_t quantized_bins; // ENTROPY; 0: 128
  // MINMAX: the larger magnitude to both sides. PERCENTILE: magnitudes are counted (onnxruntime's default).
  bool symmetric;
  bool cube_roots;     // DISTRIBUTION: of the cube roots (onnxruntime's scenario p3)
  bool moving_average; // MINMAX: the mean of the samples' least, and of their most
};

// "minmax", "percentile=99.999", "percentile" (99.999), "entropy", "distribution", "distribution=p3": method and percentile of *how, and
// symmetric where onnxruntime's default is (percentile). ERR_USAGE: no such words.
int range_method_parse(struct range_how *how, struct span words, struct err *err);
// Fills what is 0 with its default. ERR_USAGE: too many bins; fewer than distribution takes (512), or entropy has quantized
// ones; symmetric or moving average of a method that has none.
int range_method_check(struct range_how *how, struct err *err);
// Does the method want a second read?
bool range_method_counts(const struct range_how *how);

// What was seen of one value. Starts as range_method_nothing.
struct range_seen {
  double least, most; // of all that is a number; least > most: nothing
  double magnitude;   // the least one: where bins of magnitudes begin
  uint64_t elements, nans;
  // Of a moving average: each sample's, in the order of the samples; those without a number left out.
  const float *sample_least, *sample_most;
  uint32_t n_samples;
};
struct range_seen range_method_nothing(void);
// One sample's, or any part's. Infinities are to be refused before (x->infinities).
void range_method_see(struct range_seen *s, const struct kernels_extremes *x);

// The bins of a value of the type. Edges lie in *a. type: a plain float.
struct range_bins {
  struct kernels_bins bins;
  double from, to; // the first and the last edge
};
void range_method_bins(struct range_bins *b, const struct range_how *how,
                       const struct range_seen *s, enum dtype type, struct arena *a);

// The n + 1 edges of n bins of a histogram (struct ranges_histogram); the step of kernels_bins.
float range_method_edges(float *edges, uint32_t n, double from, double to, enum dtype type);

// Fills the range of *v, whose type is set, from what was seen and, of methods that count, bins and counts (else NULL); also elements, nans,
// mean and deviation (distribution), and the histogram, which keeps `counts`. A value without a number has the range 0 to 0.
void range_method_find(struct ranges_value *v, const struct range_how *how,
                       const struct range_seen *s, const struct range_bins *b,
                       const uint64_t *counts);

#endif
