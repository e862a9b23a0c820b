// Arenas: memory with two lifetimes. The arenas of the index live as long as the run; scratch arenas are reset. Tables (table.h) are
// growable arrays of the module that declares them. If the system refuses memory, the work ends (resources.h): no caller checks for NULL.
#ifndef WEIR_ARENA_H
#define WEIR_ARENA_H

#include "base/err.h"
#include "base/span.h"

struct arena_chunk;
struct arena {
  struct arena_chunk *last; // the chunk in use, linked to the earlier ones
  size_t used;              // bytes taken from `last`
};

// n bytes aligned to 16, not zeroed; valid until the arena is reset or freed.
void *arena_alloc(struct arena *a, size_t n);
void *arena_zalloc(struct arena *a, size_t n);
// A copy of n bytes; `from` may be NULL where n is 0.
void *arena_copy(struct arena *a, const void *from, size_t n);
// A copy of s and a NUL after it, which s.n does not count.
char *arena_string(struct arena *a, struct span s);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// The part of a path before its last slash, "/" of "/x"; "." without a slash.
const char *arena_folder(struct arena *a, const char *path);
// Forgets everything; keeps the newest chunk for reuse.
void arena_reset(struct arena *a);
void arena_free(struct arena *a);

// Returns the result of work(ctx, err), or -1 with ERR_NO_MEMORY if the system refused it memory.
int arena_try(int (*work)(void *ctx, struct err *err), void *ctx, struct err *err);
// For memory from another function: returns `at`; if it is NULL, ends the work (resources_exhausted).
void *arena_must(void *at, size_t bytes);

#endif
