// What the machine has, for decisions that change no byte.
#ifndef WEIR_MACHINE_H
#define WEIR_MACHINE_H

#include <stdint.h>

// Bytes of memory that this process and the page cache of the files it uses may fill: the physical
// memory, or the limit of its memory cgroup (v2 or v1, parents included) where that is less. Found
// once for the process. 0 if nobody says.
uint64_t machine_memory(void);

// The cgroup's part of it, as the files below root ("" is the system's) say; UINT64_MAX: no limit.
uint64_t machine_group_limit(const char *root);

// Peak resident memory of this process in bytes.
uint64_t machine_peak_memory(void);
// Seconds on a clock that only runs forward.
double machine_clock(void);

#endif
