// One number, --memory, is all a user says. It covers everything that a run holds beside the index:
//
//   a worker's share  =  fixed (stack, ring, small buffers)
//                      + tiles * tile_bytes        filled by evaluation
//                      + as much again             windows of the source, waiting to be written
//                      + the evaluator's scratch   stripes and caches: gets what is left
//
// and, where weights are quantized, a fifth for all workers together to keep scales and zero points
// in, up to three eighths where zero points alone need more than that.
//
// Tiles and windows get at most two fifths: four to eight in flight keep a disk busy, while scratch
// is what saves strided sources from being read twice. When the share is small, tiles shrink before
// they become few. Jobs chosen by us shrink too; jobs asked for do not, then it is an error.
//
// Where a weight could be kept whole while its scales and codes are made if scratch were larger, tiles become as few and
// small as disks bear, and what is kept for all workers a part of 24: that is worth more than either.
#include "stream/run/memory_split.h"

#include "stream/run/work.h"
#include "stream/sys/threads.h"

#include <assert.h>

enum {
  FIXED = 512 << 10,
  EVAL_MIN = 1 << 20,
  TILE_MAX = 1 << 20,
  TILE_MIN = 128 << 10,
  TILES_MAX = 8,
  TILES_GOOD = 4,
  TILES_MIN = 2,
  SHARE_MIN = FIXED + 2 * TILES_MIN * TILE_MIN + EVAL_MIN,
  CACHE_PART = 5, // a fifth: zeros of 4 bits, block 64, of 4 GiB, by default; 3/8: of block 32
  CACHE_PART_LEAST = 24,
  TILE_LEAST_GOOD = 256 << 10,
  SHARE_GOOD = 4 << 20, // jobs that nobody asked for are not worth less
};

uint64_t memory_split_minimum(uint32_t jobs) {
  return (uint64_t)SHARE_MIN * (jobs ? jobs : 1);
}

static void choose_tiles(struct memory_split *b, uint64_t room) {
  for (size_t tile = TILE_MAX; tile >= TILE_MIN; tile /= 2)
    for (uint32_t tiles = TILES_MAX; tiles >= (tile > TILE_MIN ? TILES_GOOD : TILES_MIN); tiles--) {
      b->tiles = tiles;
      b->tile_bytes = tile;
      if (2 * tiles * (uint64_t)tile <= room) return;
    }
  assert(false && "the smallest share holds the fewest tiles");
}

uint64_t memory_split_cache(uint64_t memory, uint32_t jobs, uint64_t wanted) {
  if (memory == 0) memory = WORK_DEFAULT_MEMORY;
  const uint64_t needed = memory_split_minimum(jobs);
  const uint64_t part = max_u64(memory / CACHE_PART, min_u64(wanted, memory / 8 * 3));
  return memory > needed ? min_u64(part, memory - needed) : 0;
}

uint64_t memory_split_cache_least(uint64_t memory, uint64_t cache, uint64_t wanted) {
  return min_u64(cache, max_u64(memory / CACHE_PART_LEAST, wanted));
}

int memory_split_of(struct memory_split *b, uint64_t memory, uint32_t jobs, uint32_t useful,
                    struct err *err) {
  if (memory == 0) memory = WORK_DEFAULT_MEMORY;
  if (jobs > THREADS_MAX) {
    err_set(err, ERR_USAGE, "%u jobs are more than the limit of %d", jobs, THREADS_MAX);
    return err_because(err, REASON_JOBS);
  }
  const uint64_t worth = min_u64(max_u64(memory / SHARE_GOOD, 1), max_u64(useful, 1));
  b->jobs = jobs ? jobs : (uint32_t)min_u64(threads_processors(), worth);
  if (memory < memory_split_minimum(b->jobs)) {
    err_set(err, ERR_USAGE, "a memory budget of %s bytes is too small for %u jobs: %s are needed",
            decimal(memory).s, b->jobs, decimal(memory_split_minimum(b->jobs)).s);
    return err_because(err, REASON_MEMORY);
  }
  // Workers without anything to make would hold memory for nothing.
  if (b->jobs > useful && useful > 0) b->jobs = useful;
  const uint64_t share = memory / b->jobs;
  const uint64_t room = max_u64(share * 2 / 5, 2 * TILES_MIN * TILE_MIN);
  choose_tiles(b, min_u64(room, share - FIXED - EVAL_MIN));
  b->window_bytes = b->tiles * b->tile_bytes;
  b->eval_bytes = (size_t)(share - FIXED - 2 * b->window_bytes);
  assert(b->eval_bytes >= EVAL_MIN);
  return 0;
}

uint64_t memory_split_most(const struct memory_split *b, uint64_t memory) {
  const uint64_t share = memory / b->jobs,
                 rest = FIXED + 2 * TILES_GOOD * (uint64_t)TILE_LEAST_GOOD;
  return max_u64(b->eval_bytes, share > rest ? share - rest : 0);
}

void memory_split_favour(struct memory_split *b, uint64_t memory, uint64_t wanted) {
  const uint64_t share = memory / b->jobs;
  assert(wanted <= memory_split_most(b, memory));
  if (wanted <= b->eval_bytes) return;
  choose_tiles(b, min_u64(share - FIXED - wanted, 2 * TILES_GOOD * (uint64_t)TILE_LEAST_GOOD));
  b->window_bytes = b->tiles * b->tile_bytes;
  b->eval_bytes = (size_t)wanted; // what more it had it would fill
}
