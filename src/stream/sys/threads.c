// Stacks are small and of fixed size: they count towards limits on data (ulimit -d, prlimit
// --data), where the default of 8 MiB each would be most of the budget. Requests to stop stay with
// who called.
//
// If the system refuses a thread, those that were started do the work: fewer workers give the same
// bytes.
#include "stream/sys/threads.h"

#include "platform/machine.h"
#include "platform/pthreads.h"
#include "resources/resources.h"

#include <assert.h>

enum { STACK_BYTES = 1 << 20, DEEP_STACK_BYTES = 8 << 20 };

// What all members share.
struct team {
  void (*work)(void *ctx, uint32_t i);
  void *ctx;
  struct resources *resources; // of who called
  _Atomic size_t refused;      // bytes, where memory ended for one of them; it need not be exact
};

struct member {
  struct team *team;
  uint32_t i;
  pthread_t thread;
};

static _Thread_local struct team *team; // that this thread works in

static void do_work(void *at) {
  const struct member *m = at;
  m->team->work(m->team->ctx, m->i);
}

static void be(struct member *m) {
  struct team *outer = team;
  team = m->team;
  if (resources_try(do_work, m)) m->team->refused = resources_refused() | 1;
  team = outer;
}

static void *member_main(void *at) {
  struct member *m = at;
  resources_use(m->team->resources);
  be(m);
  return NULL;
}

bool threads_must_stop(const volatile int *stop) {
  return (team && team->refused > 0) || (stop && __atomic_load_n(stop, __ATOMIC_RELAXED));
}

bool threads_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *ctx), void *ctx) {
  pthread_attr_t attr;
  if (pthread_attr_init(&attr)) return false;
  pthread_attr_setstacksize(&attr, stack_bytes);
  const bool started = pthreads_start(thread, &attr, work, ctx) == 0;
  pthread_attr_destroy(&attr);
  return started;
}

static uint32_t run(uint32_t n, size_t stack_bytes, void (*of_each)(void *ctx, uint32_t i),
                    void *ctx) {
  struct team all = {.work = of_each, .ctx = ctx, .resources = resources_in_use()};
  struct member first = {.team = &all}, others[THREADS_MAX];
  assert(n >= 1 && n <= THREADS_MAX);
  for (uint32_t i = 0; i + 1 < n; i++)
    others[i] = (struct member){.team = &all, .i = i + 1};
  uint32_t started = 0;
  while (started < n - 1 &&
         threads_start(&others[started].thread, stack_bytes, member_main, &others[started]))
    started++;
  be(&first);
  for (uint32_t i = 0; i < started; i++)
    pthread_join(others[i].thread, NULL);
  if (all.refused > 0) resources_exhausted(all.refused);
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
