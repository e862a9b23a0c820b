// What a run asks for in memory (mutant_memory.c).
#ifndef WEIR_MUTANT_MEMORY_H
#define WEIR_MUTANT_MEMORY_H

#include <stdint.h>

extern uint64_t mutant_memory_bound;
uint64_t mutant_memory_asked(void);

#endif
