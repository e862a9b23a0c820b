// Memory in pages: mapped ranges of files, anonymous pages, and hints to the heap. Sizes are rounded up to whole pages, except by
// pages_scatter.
#ifndef WEIR_PLATFORM_MAPS_H
#define WEIR_PLATFORM_MAPS_H

#include "platform/files.h"

// ---- files ----

// A range of a file, mapped read-only. {0} is none.
struct file_map {
  const uint8_t *at; // its first byte
  void *pages;       // what holds it
  size_t pages_bytes;
  uint32_t guard; // 1 + its place among those that are guarded; 0: it is not
};

enum { MAPS_GUARDED_MAX = 1024 }; // at a time, in the process

// Maps n > 0 bytes from `off` on; the file may be closed afterwards. What others write to the file meanwhile may show or not. -1 and
// errno: EMFILE past MAPS_GUARDED_MAX, ENOMEM past a limit, ENODEV if the file system has no maps; read the file then.
//
// map_open is for files that stay as long as they are, or a system that refuses to cut a mapped file: else a read past the new end
// kills the process. With map_open_guarded, which maps_guard must come before, zeros take the place of what cannot be read, from there to
// the end of the map, and the map is broken. Only the thread that opened it may read it. The bytes between a new end of the file and the
// end of its page are zeros in either, which cannot be detected here: compare the file's size.
int map_open(struct file_map *m, struct file f, uint64_t off, size_t n);
int map_open_guarded(struct file_map *m, struct file f, uint64_t off, size_t n);
// Could pages not be read so far?
bool map_is_broken(const struct file_map *m);
// Unmaps it: *m is none afterwards. True if pages could not be read. map_fence is for a map that the system may still read from (a
// request in flight): see pages_fence.
bool map_close(struct file_map *m);
bool map_fence(struct file_map *m);

// Installs what guards maps, unless it is in place, and lets its signal through in the calling thread: a fault with the signal
// blocked would kill the process. To be called by every thread that opens guarded maps. A handler that is installed later
// takes the guard away until the next call; faults that are not of guarded maps go to the handler that was there before.
void maps_guard(void);

// Are all of n > 0 bytes in the system's cache of files, as far as it says? No reading begins.
bool file_is_cached(struct file f, uint64_t off, uint64_t n);

// ---- pages ----

// A size in whole pages.
size_t pages_round(size_t bytes);
// Pages of zeros, which take memory when they are first written. NULL: no memory.
void *pages_new(size_t bytes);
void pages_free(void *at, size_t bytes);
// Replaces pages in one step by ones that cannot be read, and never reuses their addresses: a request in flight that reads from there
// fails with EFAULT, and never reads another mapping. If the system refuses, the pages stay as they are.
void pages_fence(void *at, size_t bytes);
// Hint: the whole pages of this range are accessed at random, so large pages are better.
void pages_scatter(void *at, size_t bytes);

// ---- the heap ----

// Memory aligned to 64 bytes, a cache line. NULL: no memory. Free it by lines_free.
void *lines_new(size_t bytes);
void lines_free(void *at);
// Hint: allocations of at least so many bytes get pages of their own, so that they grow without a copy, and free returns them to the
// system. Call it before the first such allocation.
void heap_apart_from(size_t bytes);

#endif
