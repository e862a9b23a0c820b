// Signals that end a run. The handler does what a handler may: it stores a number, and gives the two signals that people send again back to
// the system. Who works for long polls the number. System calls are not restarted, so a wait ends early; the callers' loops retry or see
// the flag.
//
// A shell that runs a loop goes on with it after any exit code; it ends only if it sees that the program was ended by the signal. So the
// signal that was noted is sent again once all is in order.
//
// Before anybody polls, a signal ends the program where it is; only files under a temporary name would be left, and those the handler
// removes itself.
//
// A scheduler kills a few seconds after it has asked. Where to end in order takes too long (the disk has much to sync), an alarm ends the
// program with the same exit code. What is not recorded by then is made again.
#include "platform/stops.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/time.h>
#include <unistd.h>

static const struct {
  int number;
  bool once;                                  // a second one ends the program at once
  bool scheduler;                             // may come from one
  bool scheduled;                             // watched only where one started us
} watched[] = {{SIGINT, true, false, false},  // the user
               {SIGHUP, false, false, false}, // the terminal
               {SIGTERM, true, true, false},  // somebody
               {SIGUSR1, false, true, true},
               {SIGXCPU, false, true, true}};
enum { WATCHED = sizeof watched / sizeof watched[0], SCHEDULED_MS = 1800 };

static volatile sig_atomic_t taken[WATCHED]; // by us: was not ignored
static volatile sig_atomic_t stopped;        // number of the first, or 0
static volatile sig_atomic_t scheduled_code; // 0: no scheduler started us

static bool from_scheduler(int number) {
  for (size_t i = 0; i < WATCHED; i++)
    if (watched[i].number == number && watched[i].scheduler) return scheduled_code;
  return false;
}

static void note_signal(int signal_number) {
  for (size_t i = 0; i < WATCHED; i++)
    if (taken[i] && watched[i].once && !(scheduled_code && watched[i].scheduler))
      signal(watched[i].number, SIG_DFL);
  if (!stopped && from_scheduler(signal_number)) {
    const struct itimerval soon = {
        .it_value = {.tv_sec = SCHEDULED_MS / 1000, .tv_usec = SCHEDULED_MS % 1000 * 1000}};
    setitimer(ITIMER_REAL, &soon, NULL);
  }
  if (!stopped) __atomic_store_n(&stopped, signal_number, __ATOMIC_RELAXED); // others read it
}

static const char *volatile temporary[8];
enum { TEMPORARIES = sizeof temporary / sizeof temporary[0] };

static void remove_and_end(int signal_number) {
  for (size_t i = 0; i < TEMPORARIES; i++)
    if (temporary[i]) unlink(temporary[i]);
  signal(signal_number, SIG_DFL);
  raise(signal_number); // delivered when the handler returns
}

static void end_scheduled(int signal_number) {
  (void)signal_number;
  _exit(scheduled_code);
}

static void handle(int number, void (*handler)(int)) {
  struct sigaction act = {.sa_handler = handler};
  sigemptyset(&act.sa_mask);
  sigaction(number, &act, NULL);
}

static void watch(size_t i, void (*handler)(int)) {
  struct sigaction was;
  if (sigaction(watched[i].number, NULL, &was) < 0 || was.sa_handler == SIG_IGN) return;
  taken[i] = 1;
  handle(watched[i].number, handler);
}

// A second call must not take a signal back that the first of its kind freed.
static bool watching;

const volatile int *stops_watch_scheduled(int code) {
  scheduled_code = code;
  handle(SIGALRM, end_scheduled);
  return stops_watch();
}

const volatile int *stops_watch(void) {
  for (size_t i = 0; i < WATCHED && !watching; i++)
    if (scheduled_code || !watched[i].scheduled) watch(i, note_signal);
  watching = true;
  return &stopped;
}

static void put_temporary(const char *was, const char *is) {
  for (size_t i = 0; i < TEMPORARIES; i++)
    if (temporary[i] == was) {
      temporary[i] = is;
      return;
    }
}

void stops_removes(const char *path) {
  static bool removing;
  put_temporary(NULL, path);
  for (size_t i = 0; i < WATCHED && !watching && !removing; i++)
    if (!watched[i].scheduled) watch(i, remove_and_end);
  removing = true;
}

void stops_keeps(const char *path) {
  put_temporary(path, NULL);
}

void stops_remove_left(void) {
  for (size_t i = 0; i < TEMPORARIES; i++) {
    const char *path = temporary[i];
    temporary[i] = NULL;
    if (path) unlink(path);
  }
}

void stops_pass_on(void) {
  const int number = stopped;
  sigset_t one;
  if (!number || from_scheduler(number)) return;
  sigemptyset(&one);
  sigaddset(&one, number);
  signal(number, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &one, NULL);
  kill(getpid(), number);
}

void stops_fail_writes(void) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}
