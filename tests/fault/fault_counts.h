// What a loop over faults needs to know where it ends: WEIR_FAULT_COUNTS=FILE appends, when the
// program ends, a line "<what> <how many>" for what was counted.
#ifndef WEIR_FAULT_COUNTS_H
#define WEIR_FAULT_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

bool fault_counts_wanted(void);
void fault_counts_tell(const char *what, uint64_t n);

#endif
