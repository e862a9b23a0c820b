// Room: calibration: a model runs on samples, and the statistics of its values become RANGES (ranges.h).
//
//   first read    every sample once: least, largest, number of elements of every value, found in the runtime itself
//   second read   for what needs elements (histograms, means, Gram matrices): values in groups, each sample once a group;
//                 the elements come back through a file and are looked at a megabyte at a time
//
// What a sample gave is kept in a staging folder beside RANGES as soon as it is known (sample_journal.h): a run that
// goes on loses the sample that was under way and no more. Everything kept is added up by integers, or in the order of
// the samples, so that grouping, kills and resumes leave no trace.
//
// To add a statistic: a member of struct ranges_value. From a few numbers for each value: an output in add_outputs of
// calibrate_first.c, its number in take_value and in the record of a sample, and the same in look_at (small values come
// back themselves: calibrate_small.c). From elements: calibrate_second.c, in sum_bytes, open_group and add_piece; it
// must not depend on how samples are grouped or cut. test_calibrate.py compares both with onnxruntime and NumPy, through
// kills and deaths of the runtime (tests/support/ort_mortal.c).
#ifndef WEIR_CALIBRATE_H
#define WEIR_CALIBRATE_H

#include "base/observer.h"
#include "calibrate/calibrate_model.h"
#include "calibrate/calibrate_values.h"
#include "ranges/range_method.h"
#include "verify/runtime/runtime.h"
#include "verify/samples/samples.h"

struct calibrate_options {
  enum calibrate_statistics statistics;
  struct range_how how;
  uint64_t group_bytes; // of elements that one run of the second read brings back
  uint64_t memory;      // for what is added up
  uint32_t jobs;
  bool skip_infinite; // values with infinite elements are left out, not refused
};

// Values of the second read that are run together.
struct calibrate_group {
  uint32_t first, n; // in c->order
  bool runs;         // false: inputs alone, whose elements are at hand
};

// What all samples together showed of a value.
struct calibrate_seen {
  struct range_seen of;
  float *sample_least, *sample_most; // of the moving average
  uint64_t largest;                  // elements of the sample that had most
  uint32_t n_channels;
  float *channel_least, *channel_most; // NULL: it has no channels
  bool ragged;                         // not always as many: then they count for nothing
  bool infinite;                       // an element was
};

struct calibrate {
  struct observer *observer;
  struct calibrate_options options;
  const struct model *m;
  struct infer *infer; // of it
  struct calibrate_values values;
  struct samples *samples;
  struct calibrate_model *model;
  struct runtime *runtime;
  const volatile int *stop;
  struct folder kept;          // the staging folder
  struct calibrate_seen *seen; // by value of the list
  struct ranges *ranges;
  uint32_t *order; // values of the second read
  TABLE(struct calibrate_group, groups);
  // What was done.
  uint64_t n_samples, runs, resumed_runs;
  uint64_t planned_runs; // of the second read
  uint64_t told[2];      // of progress: runs, of how many
  uint64_t nans;         // values with some
  struct arena arena;
};

// Progress: one run was made, or found.
void calibrate_tick(struct calibrate *c);
// Calls `run` with each sample but the first `kept`, whose results are there; of each of them all a tick is told
// if `ticks`. ERR_RETRY when a signal asks to stop.
int calibrate_each_sample(struct calibrate *c, uint64_t kept, bool ticks,
                          int (*run)(void *ctx, const struct arrays *inputs, const char *sample,
                                     struct err *err),
                          void *ctx, struct err *err);

// The types of values that inference does not know, from the runtime.
int calibrate_find_types(struct calibrate *c, struct err *err);
int calibrate_first(struct calibrate *c, struct err *err);
// After the first: what runs together, and c->planned_runs; then the read itself, which fills c->ranges.
void calibrate_second_plan(struct calibrate *c);
int calibrate_second(struct calibrate *c, struct err *err);

// Second moments of one value of a group, from file to file: the tiles at `at` of `from` (none: zeros) and the rows of x make those
// at `at` of `to`. NaN counts as 0. memory: for rows.
struct calibrate_gram {
  struct file from, to;
  uint64_t at;
  uint64_t memory;
};
int calibrate_gram_add(const struct calibrate_gram *g, const struct array *x, struct err *err);
// Bytes of the tiles; 0: none are kept of so many channels.
uint64_t calibrate_gram_bytes(uint32_t channels);
// Appends those of a value to the file of all of them: v->gram_… is filled.
int calibrate_gram_move(struct file from, uint64_t at, struct file to, uint64_t *end,
                        struct digest *all, struct ranges_value *v, struct err *err);

// An end of a request, as an error: of a runtime that died, what a resume does about it.
int calibrate_failed(enum runtime_end end, const char *sample, struct err *err);

// Values that are fetched in the first read, since they are small (calibrate_small.c).
//
// A runtime plans who is the last to read each value: with nodes of ours behind every one of thousands of values that takes
// longer than to run them. So of models with many values those are outputs themselves of which inference says, with the
// sizes of the sample at hand, that they are small.
//
// fetched: by value of the list; of those that `runs` says are made by the runtime. True: others than before are fetched.
// They stay the same as long as what they come to is little.
bool calibrate_small_find(const struct calibrate *c, const struct arrays *inputs,
                          bool (*runs)(const struct calibrate_value *x), bool *fetched);

#endif
