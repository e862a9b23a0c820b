// How a memory budget becomes workers, tiles and scratch.
#ifndef WEIR_MEMORY_SPLIT_H
#define WEIR_MEMORY_SPLIT_H

#include "base/err.h"
#include "stream/io/io_queue.h"

struct memory_split {
  uint32_t jobs, tiles;
  size_t tile_bytes, window_bytes, eval_bytes; // a worker's
};

// jobs 0: as many as processors and memory allow, at most `useful`. memory 0: the default.
// ERR_USAGE with the minimum if it is too small for the jobs asked for.
int memory_split_of(struct memory_split *b, uint64_t memory, uint32_t jobs, uint32_t useful,
                    struct err *err);
uint64_t memory_split_minimum(uint32_t jobs);
// What of it goes to what workers find out about weights that are quantized, before it is split, if
// `wanted` bytes are needed to read no weight a third time (eval_cache_wanted): nothing that the
// smallest split needs.
uint64_t memory_split_cache(uint64_t memory, uint32_t jobs, uint64_t wanted);

// Evaluation may want more than its part (eval_wanted). The most that a worker's can be given, of `memory` for all
// workers; and a split that gives it `wanted` of that, of which tiles have less.
uint64_t memory_split_most(const struct memory_split *b, uint64_t memory);
void memory_split_favour(struct memory_split *b, uint64_t memory, uint64_t wanted);
// What of `cache` is then left to it.
uint64_t memory_split_cache_least(uint64_t memory, uint64_t cache, uint64_t wanted);

#endif
