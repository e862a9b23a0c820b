// Values that are fetched in the first read, since they are small.
//
// A runtime plans who is the last to read each value: with nodes of ours behind every one of thousands of values that takes
// longer than to run them. So of models with many values those are outputs themselves of which inference says, with the
// sizes of the sample at hand, that they are small.
#ifndef WEIR_CALIBRATE_SMALL_H
#define WEIR_CALIBRATE_SMALL_H

#include "calibrate.h"

// fetched: by value of the list; of those that `runs` says are made by the runtime. True: others than before are fetched.
// They stay the same as long as what they come to is little.
bool calibrate_small_find(const struct calibrate *c, const struct arrays *inputs,
                          bool (*runs)(const struct calibrate_value *x), bool *fetched);

#endif
