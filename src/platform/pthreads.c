#include "platform/pthreads.h"

#include "platform/machine.h"

#include <signal.h>
#include <time.h>

int pthreads_start(pthread_t *thread, const pthread_attr_t *attr, void *(*work)(void *ctx),
                   void *ctx) {
  static const int own[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
  sigset_t others, before;
  sigfillset(&others);
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
    sigdelset(&others, own[i]);
  pthread_sigmask(SIG_SETMASK, &others, &before); // the thread begins with it
  const int failed = pthread_create(thread, attr, work, ctx);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failed;
}

void pthreads_condition(pthread_cond_t *c) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(c, &attr);
  pthread_condattr_destroy(&attr);
}

void pthreads_wait_ms(pthread_cond_t *c, pthread_mutex_t *mu, uint32_t ms) {
  const uint64_t until = machine_clock_ns() + ms * UINT64_C(1000000);
  pthread_cond_timedwait(c, mu,
                         &(struct timespec){.tv_sec = (time_t)(until / 1000000000),
                                            .tv_nsec = (long)(until % 1000000000)});
}
