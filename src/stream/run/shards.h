// The units of a plan, divided among several processes.
#ifndef WEIR_SHARDS_H
#define WEIR_SHARDS_H

#include "plan.h"

// Of `count` shards (1 or more), the units [*first, *end) of number `index`, from 0: neighbours, about as much work as
// any other's (effort.h). All shards together are all units, each once; some are empty where there are few units.
// A function of the plan and the two numbers.
void shards_of_plan(const struct plan *p, uint32_t index, uint32_t count, uint32_t *first,
                    uint32_t *end);

#endif
