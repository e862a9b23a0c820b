// Numbers that look random and are the same in every run: a test sets the seed, or begins with 0.
#ifndef WEIR_TEST_CHANCE_H
#define WEIR_TEST_CHANCE_H

#include <stdint.h>

static uint64_t chance_seed;

static inline uint64_t chance_64(void) {
  chance_seed += 0x9e3779b97f4a7c15;
  const uint64_t x = (chance_seed ^ chance_seed >> 30) * 0xbf58476d1ce4e5b9;
  return x ^ x >> 31;
}

static inline uint32_t chance_below(uint64_t n) {
  return (uint32_t)(chance_64() % n);
}

#endif
