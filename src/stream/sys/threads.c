// Threads, the little that is needed of them: so many run one function, and all are awaited.
//
// Stacks are small and of fixed size: they count towards limits on data (ulimit -d, prlimit
// --data), where the default of 8 MiB each would be most of the budget. Requests to stop stay with
// who called.
//
// If the system refuses a thread, those that were started do the work: fewer workers give the same
// bytes.
#include "stream/sys/threads.h"

#include "platform/machine.h"
#include "platform/pthreads.h"

#include <assert.h>

enum { STACK_BYTES = 1 << 20, DEEP_STACK_BYTES = 8 << 20 };

struct member {
  void (*work)(void *ctx, uint32_t i);
  void *ctx;
  uint32_t i;
  pthread_t thread;
};

static void *member_main(void *at) {
  const struct member *m = at;
  m->work(m->ctx, m->i);
  return NULL;
}

bool threads_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *ctx), void *ctx) {
  pthread_attr_t attr;
  if (pthread_attr_init(&attr)) return false;
  pthread_attr_setstacksize(&attr, stack_bytes);
  const bool started = pthreads_start(thread, &attr, work, ctx) == 0;
  pthread_attr_destroy(&attr);
  return started;
}

static uint32_t run(uint32_t n, size_t stack_bytes, void (*work)(void *ctx, uint32_t i),
                    void *ctx) {
  struct member others[THREADS_MAX];
  assert(n >= 1 && n <= THREADS_MAX);
  for (uint32_t i = 0; i + 1 < n; i++)
    others[i] = (struct member){.work = work, .ctx = ctx, .i = i + 1};
  uint32_t started = 0;
  while (started < n - 1 &&
         threads_start(&others[started].thread, stack_bytes, member_main, &others[started]))
    started++;
  work(ctx, 0);
  for (uint32_t i = 0; i < started; i++)
    pthread_join(others[i].thread, NULL);
  return started + 1;
}

uint32_t threads_run(uint32_t n, void (*work)(void *ctx, uint32_t i), void *ctx) {
  return run(n, STACK_BYTES, work, ctx);
}

uint32_t threads_run_deep(uint32_t n, void (*work)(void *ctx, uint32_t i), void *ctx) {
  return run(n, DEEP_STACK_BYTES, work, ctx);
}

uint32_t threads_processors(void) {
  const uint32_t n = machine_processors();
  return n < THREADS_MAX ? n : THREADS_MAX;
}
