// Room: resources: what a caller of the engine holds (memory, open files, rings …), and the way back when memory ends.
//
// No code of the engine checks for NULL: if the system refuses memory, the work ends at once by a jump back to the innermost recovery
// point (resources_try). The frames between do not clean up. All that they held is in a list, which resources_release empties. So an
// entry point of a library has the form
//
//   resources_open(&r);  before = resources_use(&r);
//   if (resources_try(work, &ctx)) …      memory ended: an error for the caller
//   resources_use(before);  resources_release(&r);
//
// and nothing is left, whatever happened. Recovery points nest: one that can carry on (a thread that others wait for, a file that is
// to be removed) makes an ordinary error of it. Threads that are started inherit the resources of who starts them.
//
// A thread without resources lists nothing.
#ifndef WEIR_RESOURCES_H
#define WEIR_RESOURCES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resource;
struct resources {
  pthread_mutex_t lock;
  struct resource *memory, *others, *users; // newest first
  _Atomic uint64_t held, peak;              // bytes, as resources_count counts them
};

void resources_open(struct resources *r);
// Lets go of users of the others, of the others, newest first, then of the memory. No thread may use them any more.
void resources_release(struct resources *r);
// Sets the resources of this thread; NULL: none. Returns those before.
struct resources *resources_use(struct resources *r);
struct resources *resources_in_use(void);

// ---- memory ----

// As malloc, calloc, realloc and free, aligned to 16 bytes, and listed; NULL: there is no memory. A block may be freed or grown by any
// thread, whatever that uses.
void *resources_alloc(size_t bytes);
void *resources_zalloc(size_t n, size_t bytes);
void *resources_realloc(void *at, size_t bytes);
void resources_free(void *at);
// Bytes of tables and arenas, for the resources in use, or for all threads without: now (after planning: index_bytes of reports), and
// the most so far. Arenas count them.
void resources_count(int64_t bytes);
uint64_t resources_held(void);
uint64_t resources_peak(void);
// The same as libraries ask that have a context of their own (zlib).
void *resources_alloc_for(void *context, unsigned n, unsigned bytes);
void resources_free_for(void *context, void *at);

// ---- other things ----

// Lists a thing that let_go(thing, n) closes, with the resources in use; NULL: none are. Memory for its row may end: then let_go was
// called before.
struct resource *resources_hold(void *thing, size_t n, void (*let_go)(void *thing, size_t n));
// The same of what uses other things that are listed, older and newer ones: it is let go before all of them.
struct resource *resources_hold_user(void *thing, size_t n, void (*let_go)(void *thing, size_t n));
// Takes it off the list; the caller closes it. By its row (NULL: nothing), or by itself and n: then the same resources are in use as
// when it was listed.
void resources_drop(struct resource *row);
void resources_drop_thing(const void *thing, size_t n);

// ---- the way back ----

// Calls work(ctx), and returns true if memory ended in it, in this thread. Locks that it took with resources_lock are given back then.
bool resources_try(void (*work)(void *ctx), void *ctx);
// Memory for so many bytes was refused. Back to the innermost recovery point; without one the hook is called, which must not return.
_Noreturn void resources_exhausted(size_t bytes);
// The bytes that were refused last, in this thread.
size_t resources_refused(void);
void resources_on_exhausted(void (*hook)(size_t bytes));

// pthread_mutex_lock and pthread_mutex_unlock, known to resources_try. At most 16 at a time in a thread, the newest given back first.
void resources_lock(pthread_mutex_t *mutex);
void resources_unlock(pthread_mutex_t *mutex);

#endif
