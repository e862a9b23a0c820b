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
// Before anybody polls, a signal ends the program where it is; only files under a temporary name would be
// left, and those the handler removes itself.
//
// A member of a plan, which a scheduler started, is told in more ways to go, and in few seconds killed: SIGTERM,
// SIGUSR1 and SIGXCPU end its work in order, and it with exit code 75; where that takes too long (the disk has much to
// sync), an alarm ends it with the same. What is not recorded by then is made again.
//
// What was ignored when the program began (nohup, a job in the background of a script) stays ignored.
#include "cli/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/time.h>
#include <unistd.h>

static const struct {
  int number;
  bool once;      // a second one ends the program at once
  bool scheduler; // may come from one: a member ends with exit code 75
  bool members;   // watched for members only
} watched[] = {{SIGINT, true, false, false},
               {SIGHUP, false, false, false},
               {SIGTERM, true, true, false},
               {SIGUSR1, false, true, true},
               {SIGXCPU, false, true, true}};
enum { WATCHED = sizeof watched / sizeof watched[0] };

static volatile sig_atomic_t taken[WATCHED]; // by us: was not ignored
static volatile sig_atomic_t stopped;        // number of the first, or 0
static volatile sig_atomic_t member;         // of a plan
enum { MEMBER_MS = 1800, MEMBER_CODE = 75 };

static bool from_scheduler(int number) {
  for (size_t i = 0; i < WATCHED; i++)
    if (watched[i].number == number && watched[i].scheduler) return member;
  return false;
}

static void note_signal(int signal_number) {
  for (size_t i = 0; i < WATCHED; i++)
    if (taken[i] && watched[i].once && !(member && watched[i].scheduler))
      signal(watched[i].number, SIG_DFL);
  if (!stopped && from_scheduler(signal_number)) {
    const struct itimerval soon = {
        .it_value = {.tv_sec = MEMBER_MS / 1000, .tv_usec = MEMBER_MS % 1000 * 1000}};
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

static void watch(size_t i, void (*handler)(int)) {
  struct sigaction act = {.sa_handler = handler}, was;
  sigemptyset(&act.sa_mask);
  if (sigaction(watched[i].number, NULL, &was) < 0 || was.sa_handler == SIG_IGN) return;
  taken[i] = 1;
  sigaction(watched[i].number, &act, NULL);
}

// A second call must not take a signal back that the first of its kind freed.
static bool watching;

static void end_member(int signal_number) {
  (void)signal_number;
  _exit(MEMBER_CODE);
}

const volatile int *stop_watch_member(void) {
  struct sigaction act = {.sa_handler = end_member};
  sigemptyset(&act.sa_mask);
  sigaction(SIGALRM, &act, NULL);
  member = true;
  return stop_watch();
}

const volatile int *stop_watch(void) {
  for (size_t i = 0; i < WATCHED && !watching; i++)
    if (member || !watched[i].members) watch(i, note_signal);
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

void stop_removes(const char *path) {
  static bool removing;
  put_temporary(NULL, path);
  for (size_t i = 0; i < WATCHED && !watching && !removing; i++)
    if (!watched[i].members) watch(i, remove_and_end);
  removing = true;
}

void stop_keeps(const char *path) {
  put_temporary(path, NULL);
}

void stop_pass_on(void) {
  const int number = stopped;
  sigset_t one;
  if (!number || from_scheduler(number)) return;
  sigemptyset(&one);
  sigaddset(&one, number);
  signal(number, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &one, NULL);
  kill(getpid(), number);
}
