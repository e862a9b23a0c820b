// A handful of threads that work off one shared cursor and end together.
#ifndef WEIR_THREADS_H
#define WEIR_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { THREADS_MAX = 256 };

// Calls work(ctx, i) for i in 0..n-1, each in a thread of its own (0 in the calling one), and waits
// until all have returned. Threads that the system does not give are left out: the work must be
// shared through ctx, not divided by i. Returns how many worked. Where memory ends for one of them (resources.h), the others
// are to stop, and it ends for the caller when they have.
uint32_t threads_run(uint32_t n, void (*work)(void *ctx, uint32_t i), void *ctx);
// The same with stacks of 8 MiB, for work that loads models and runs passes.
uint32_t threads_run_deep(uint32_t n, void (*work)(void *ctx, uint32_t i), void *ctx);

// Starts one thread, with a stack of that size. False if the system gives none.
bool threads_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *ctx), void *ctx);

// Processors that this process may use, THREADS_MAX at most.
uint32_t threads_processors(void);

// Is the flag set (NULL: never), or has memory ended for another thread of the same work? A request to stop sets the flag (stops.h),
// in whatever thread.
bool threads_must_stop(const volatile int *stop);

#endif
