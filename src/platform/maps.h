// Memory in pages: ranges of files, pages of one's own, and what the heap is told.
//
// A part of a page counts as the whole page, but for pages_scatter.
#ifndef WEIR_PLATFORM_MAPS_H
#define WEIR_PLATFORM_MAPS_H

#include "platform/files.h"

// ---- files ----

// A range of a file as memory, which is only read. {0} is none.
struct file_map {
  const uint8_t *at; // its first byte
  void *pages;       // what holds it
  size_t pages_bytes;
  uint32_t guard; // 1 + its place among those that are guarded; 0: it is not
};

enum { MAPS_GUARDED_MAX = 1024 }; // at a time, in the process

// Maps n > 0 bytes from `off` on; the file may be closed afterwards. What others write to the file meanwhile may show or not. -1 and
// errno: EMFILE past MAPS_GUARDED_MAX, ENOMEM past a limit, ENODEV where the file system has no maps. Then reading says more.
//
// map_open is for files that stay as long as they are, or a system that refuses to cut a mapped file: else a read past the new end
// kills the process. With map_open_guarded, which maps_guard must come before, zeros take the place of what cannot be read, from there to
// the end of the map, and the map is broken. Only the thread that opened it may read it. The bytes between a new end of the file and the
// end of its page are zeros in either, which cannot be detected here: compare the file's size.
int map_open(struct file_map *m, struct file f, uint64_t off, size_t n);
int map_open_guarded(struct file_map *m, struct file f, uint64_t off, size_t n);
// Could pages not be read so far?
bool map_is_broken(const struct file_map *m);
// Ends it: *m is none afterwards. True if pages could not be read while it was there. map_fence: the system may still be reading from
// there on our behalf, and what pages_fence says holds for its pages.
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
// Zeros, which take room only once they are written to. NULL: there are none.
void *pages_new(size_t bytes);
// And copies of this process (children.h) have the same pages: what one of them writes, all read.
void *pages_new_shared(size_t bytes);
void pages_free(void *at, size_t bytes);
// Takes pages away, in one step, and keeps their addresses from being used again: the system, where it still reads from there on our
// behalf, gets EFAULT, never the bytes of another mapping. Where it refuses, the pages stay what they are, which is as good but for the room.
void pages_fence(void *at, size_t bytes);
// The whole pages among these bytes are used in no order: large ones serve that better, where the system has such.
void pages_scatter(void *at, size_t bytes);

// ---- the heap ----

// Memory that begins at a multiple of 64, a line of the processor's cache. NULL: there is none. Only lines_free frees it (NULL:
// nothing).
void *lines_new(size_t bytes);
void lines_free(void *at);
// Blocks of so many bytes and more are to have pages of their own: they grow without being copied, and go back to the system when
// they are freed. Said before there are any; heaps that know better do as they like.
void heap_apart_from(size_t bytes);

#endif
