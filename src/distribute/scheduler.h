// Which shard a process is, by its scheduler.
#ifndef WEIR_SCHEDULER_H
#define WEIR_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

struct scheduler_says {
  const char *name;     // "Slurm"; NULL: no scheduler started us
  const char *variable; // that has the index
  uint32_t index, count; // count 0: it does not say
};
// By the environment (schedulers.def). A variable that is no number is as none: some schedulers set them so outside of arrays.
struct scheduler_says scheduler_look(void);

#endif
