// How we remember. Two lifetimes: a run arena (the index: lives until the process ends) and scratch
// arenas that are reset. Tables are growable arrays that belong to the module that declares them.
// Memory that cannot be had ends the work (resources.h): no caller checks for NULL.
#ifndef WEIR_ARENA_H
#define WEIR_ARENA_H

#include "base/err.h"
#include "base/span.h"

struct arena_chunk;
struct arena {
  struct arena_chunk *last; // the chunk in use; earlier ones hang behind it
  size_t used;              // bytes taken from `last`
};

// n bytes aligned to 16, not zeroed; valid until the arena is reset or freed.
void *arena_alloc(struct arena *a, size_t n);
void *arena_zalloc(struct arena *a, size_t n);
// A copy of n bytes; `from` may be NULL where n is 0.
void *arena_copy(struct arena *a, const void *from, size_t n);
// A copy of s with a NUL behind it (not counted in s.n).
char *arena_string(struct arena *a, struct span s);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// The part of a path before its last slash, "/" of "/x"; "." without a slash.
const char *arena_folder(struct arena *a, const char *path);
// Forgets everything; keeps the newest chunk for reuse.
void arena_reset(struct arena *a);
void arena_free(struct arena *a);

// Calls work(ctx, err), and returns what it returns; where memory ends in it, -1 and ERR_NO_MEMORY.
int arena_try(int (*work)(void *ctx, struct err *err), void *ctx, struct err *err);
// For memory from elsewhere that nothing goes on without: returns `at`; NULL ends the work (resources_exhausted).
void *arena_must(void *at, size_t bytes);

#endif
