// Signals that end a run: SIGINT (Ctrl-C), SIGHUP (the terminal is gone), SIGTERM.
//
//   first ──▶ noted ──▶ work ends in order, the message is said ──▶ stop_pass_on: ends by the signal
//   second SIGINT or SIGTERM ──▶ ends at once
//
// The handler does what a handler may: it stores a number, and gives the two signals that people send
// again back to the system. Who works for long polls the number. System calls are not restarted, so a
// wait ends early; the callers' loops retry or see the flag.
//
// A shell that runs a loop goes on with it after any exit code; it ends only if it sees that the
// program was ended by the signal. So the signal that was noted is sent again once all is in order.
//
// What was ignored when the program began (nohup, a job in the background of a script) stays ignored.
#include "stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

static const struct {
  int number;
  bool once; // a second one ends the program at once
} watched[] = {{SIGINT, true}, {SIGHUP, false}, {SIGTERM, true}};
enum { WATCHED = sizeof watched / sizeof watched[0] };

static volatile sig_atomic_t taken[WATCHED]; // by us: was not ignored
static volatile sig_atomic_t stopped;        // number of the first, or 0

static void note_signal(int signal_number) {
  for (size_t i = 0; i < WATCHED; i++)
    if (taken[i] && watched[i].once) signal(watched[i].number, SIG_DFL);
  if (!stopped) __atomic_store_n(&stopped, signal_number, __ATOMIC_RELAXED); // others read it
}

static void watch(size_t i) {
  struct sigaction act = {.sa_handler = note_signal}, was;
  sigemptyset(&act.sa_mask);
  if (sigaction(watched[i].number, NULL, &was) < 0 || was.sa_handler == SIG_IGN) return;
  taken[i] = 1;
  sigaction(watched[i].number, &act, NULL);
}

const volatile int *stop_watch(void) {
  static bool
      watching; // a second call must not take a signal back that the first of its kind freed
  for (size_t i = 0; i < WATCHED && !watching; i++)
    watch(i);
  watching = true;
  return &stopped;
}

void stop_pass_on(void) {
  const int number = stopped;
  sigset_t one;
  if (!number) return;
  sigemptyset(&one);
  sigaddset(&one, number);
  signal(number, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &one, NULL);
  kill(getpid(), number);
}
