// Metrics of a task, as onnx-passes has them: how well outputs of a model agree with those that are expected. They are
// about the first output, but for the first metric, which is about all of them.
//
//   max_abs_error         max |x - y| of all elements of all outputs; NaN where one is
//   accuracy              share of rows (last axis) whose largest element is at the place that is expected
//   top_5_accuracy        share of rows where the place that is expected is among the five largest
//   count_mispredictions  rows whose largest element is not at the place that is expected
//
// What is expected of a row is a number, the place (an array of one dim less), or a row of its own, whose largest element
// is at the place. The first of equal elements is the largest; a NaN is larger than any number. Of equal elements the later
// ones are among the five.
#ifndef WEIR_TASK_METRIC_H
#define WEIR_TASK_METRIC_H

#include "verify/arrays/array.h"

enum task_metric {
  TASK_MAX_ABS_ERROR,
  TASK_ACCURACY,
  TASK_TOP_5_ACCURACY,
  TASK_COUNT_MISPREDICTIONS,
  TASK_METRICS,
};

const char *task_metric_name(enum task_metric metric);

enum { TASK_METRIC_WHY = 512 };

// 0: *value; 1: there is none, since the arrays do not fit, as `why` says in a sentence; -1: they cannot be read.
int task_metric_value(enum task_metric metric, const struct arrays *produced,
                      const struct arrays *expected, double *value, char why[TASK_METRIC_WHY],
                      struct err *err);

#endif
