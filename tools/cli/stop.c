// Signals that end a run: SIGINT and SIGTERM.
//
// The handler does the one thing that a handler may: it stores a number. Who works for long polls
// it. System calls are not restarted, so a wait ends early; the callers' loops retry or see the
// flag.
//
// A second signal of the kind ends the program at once: the handler is taken away by the first.
#include "stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t stopped;

static void note_signal(int signal_number) {
  __atomic_store_n(&stopped, signal_number, __ATOMIC_RELAXED); // read by other threads
}

const volatile int *stop_watch(void) {
  struct sigaction act = {.sa_handler = note_signal};
  act.sa_flags = (int)SA_RESETHAND;
  sigemptyset(&act.sa_mask);
  sigaction(SIGINT, &act, NULL);
  sigaction(SIGTERM, &act, NULL);
  return &stopped;
}
