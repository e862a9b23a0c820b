// Processes, as POSIX has them. The connection is a socket: a write to one that died is an error, not a signal.
#include "platform/children.h"

#include "platform/descriptor.h"
#include "platform/inside/variant.h"
#include "resources/resources.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { GIVEN = 3, FIRST_OTHER = 5 }; // numbers of files in a program that is started
enum { CHILD_ROW = 1 };              // tells a process from a descriptor among the resources

// ---- a program ----

// A descriptor above those that the program has, so that a move of one lands on no other.
static int above(int fd) {
  return fd < 0 || fd >= FIRST_OTHER ? fd : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_OTHER);
}

static void close_if_open(int fd) {
  if (fd >= 0) close(fd);
}

// `files`: of the numbers 0, 1, … there. 0, or why it cannot be started.
static int spawn(const char *program, const int files[FIRST_OTHER], pid_t *pid) {
  posix_spawn_file_actions_t moves;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  char *const words[] = {(char *)(uintptr_t)program, NULL};
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&moves);
  posix_spawnattr_init(&attributes);
  for (int i = 0; i < FIRST_OTHER; i++)
    posix_spawn_file_actions_adddup2(&moves, files[i], i);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const int cause = posix_spawn(pid, program, &moves, &attributes, words, environ);
  posix_spawn_file_actions_destroy(&moves);
  posix_spawnattr_destroy(&attributes);
  return cause;
}

static void kill_left(void *process, size_t n) {
  const pid_t pid = (pid_t)(intptr_t)process;
  (void)n;
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL); // it may not have its group yet
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
    continue;
}

// Our ends, as files. Where memory ends for the second, the first is one already.
struct ends {
  int *d;
  struct file line, said;
};

static int taken(int *fd) {
  const int was = *fd;
  *fd = -1;
  return was;
}

static void hold_ends(void *at) {
  struct ends *e = at;
  e->line = file_of_descriptor(taken(&e->d[0]));
  e->said = file_of_descriptor(taken(&e->d[2]));
}

int child_start(struct child *c, const char *program, const struct file given[2]) {
  const int theirs[2] = {file_descriptor(given[0]), file_descriptor(given[1])};
  // Our end of the connection and its own, our end of what it says and its own; what it is given.
  int d[6] = {-1, -1, -1, -1, theirs[0], theirs[1]}, cause = 0;
  pid_t pid = 0;
  assert(file_is_open(given[0]) && file_is_open(given[1]));
  if (variant_connection(d) < 0 || variant_pipe(d + 2) < 0) cause = errno;
  for (int i = 0; i < 6; i++) {
    const int up = above(d[i]);
    if (cause == 0 && up < 0) cause = errno;
    if (i < 4 && up != d[i]) close(d[i]);
    d[i] = up;
  }
  const int files[FIRST_OTHER] = {d[1], d[1], d[3], d[4], d[5]};
  struct ends ours = {.d = d};
  if (cause == 0) {
    fcntl(d[0], F_SETFL, O_NONBLOCK);
    fcntl(d[2], F_SETFL, O_NONBLOCK);
    if (resources_try(hold_ends, &ours)) cause = ENOMEM;
  }
  if (cause == 0) cause = spawn(program, files, &pid);
  close_if_open(d[1]);
  close_if_open(d[3]);
  for (int i = 0; i < 2; i++)
    if (d[4 + i] != theirs[i]) close_if_open(d[4 + i]);
  if (cause != 0) {
    close_if_open(d[0]);
    close_if_open(d[2]);
    file_close(&ours.line);
    file_close(&ours.said);
    errno = cause;
    return -1;
  }
  resources_hold((void *)(intptr_t)pid, CHILD_ROW, kill_left);
  *c = (struct child){pid, ours.line, ours.said};
  return 0;
}

unsigned child_wait(const struct child *c, bool to_send, int ms) {
  struct pollfd p[2] = {{file_descriptor(c->line), (short)(POLLIN | (to_send ? POLLOUT : 0)), 0},
                        {file_descriptor(c->said), POLLIN, 0}};
  int ready;
  do // a wait that a signal ends is one; a look is made again
    ready = poll(p, 2, ms);
  while (ready < 0 && errno == EINTR && ms == 0);
  if (ready <= 0) return 0;
  return (p[0].revents & (POLLIN | POLLHUP | POLLERR) ? CHILD_SENT : 0) |
         (p[0].revents & POLLOUT ? CHILD_TAKES : 0) | (p[1].revents ? CHILD_SAID : 0);
}

static int64_t moved(ssize_t n) {
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  return n > 0 ? n : -1;
}

int64_t child_send(const struct child *c, const void *bytes, size_t n) {
  return moved(send(file_descriptor(c->line), bytes, n, MSG_NOSIGNAL));
}

int64_t child_receive(const struct child *c, void *to, size_t n) {
  return moved(recv(file_descriptor(c->line), to, n, 0));
}

size_t child_hear(struct child *c, void *to, size_t n) {
  ssize_t got;
  if (!file_is_open(c->said)) return 0;
  AGAIN(got, read(file_descriptor(c->said), to, n));
  if (got == 0) file_close(&c->said); // it closed its stderr, or is dead
  return got > 0 ? (size_t)got : 0;
}

bool child_is_dead(const struct child *c) {
  siginfo_t info = {0};
  int rc;
  AGAIN(rc, waitid(P_PID, (id_t)c->process, &info, WEXITED | WNOHANG | WNOWAIT));
  return rc < 0 || info.si_pid == c->process;
}

static const char *signal_name(int number) {
  static const struct {
    int number;
    const char *name;
  } names[] = {{SIGABRT, "SIGABRT"}, {SIGSEGV, "SIGSEGV"}, {SIGKILL, "SIGKILL"},
               {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},
               {SIGTERM, "SIGTERM"}, {SIGPIPE, "SIGPIPE"}, {SIGXFSZ, "SIGXFSZ"},
               {SIGXCPU, "SIGXCPU"}, {SIGSYS, "SIGSYS"},   {SIGTRAP, "SIGTRAP"},
               {SIGINT, "SIGINT"},   {SIGHUP, "SIGHUP"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].number == number) return names[i].name;
  return NULL;
}

static struct child_end end_of(int status) {
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return (struct child_end){number, signal_name(number), number ? 0 : WEXITSTATUS(status)};
}

// Waits until it is dead, for at most `ms` (negative: as long as it takes). False: it lives.
static bool reap(pid_t pid, int ms, struct child_end *how) {
  int status = 0; // where somebody else reaped it: how it ended is not known
  for (;;) {
    const pid_t got = waitpid(pid, &status, ms < 0 ? 0 : WNOHANG);
    if (got == pid || (got < 0 && errno != EINTR)) {
      *how = end_of(got == pid ? status : 0);
      return true;
    }
    if (ms == 0) return false;
    if (ms > 0 && poll(NULL, 0, 1) == 0) ms--; // what a signal cut short was no wait
  }
}

bool child_reap(const struct child *c, int ms, struct child_end *how) {
  if (!reap((pid_t)c->process, ms, how)) return false;
  resources_drop_thing((void *)c->process, CHILD_ROW);
  kill(-(pid_t)c->process, SIGKILL);
  return true;
}

void child_kill(const struct child *c) {
  resources_drop_thing((void *)c->process, CHILD_ROW);
  kill_left((void *)c->process, CHILD_ROW);
}

void child_close(struct child *c) {
  file_close(&c->line);
  file_close(&c->said);
  c->process = 0;
}

// ---- in the program that was started ----

static void *watch(void *ctx) {
  struct pollfd p = {.fd = (int)(intptr_t)ctx, .events = variant_hang_up_events()};
  while (poll(&p, 1, -1) < 0 || p.revents == 0)
    continue;
  _exit(0);
}

static struct file file_or_none(int fd) {
  struct entry_facts at;
  const struct file f = file_of_descriptor(fd);
  return file_look(f, &at) == 0 && at.kind == ENTRY_FILE ? f : NO_FILE;
}

static bool is_socket(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int child_self_begin(struct child_self *s) {
  if (isatty(0)) {
    errno = ENOTTY;
    return -1;
  }
  variant_close_from(FIRST_OTHER);
  const int requests = fcntl(0, F_DUPFD_CLOEXEC, FIRST_OTHER);
  const int answers = fcntl(1, F_DUPFD_CLOEXEC, FIRST_OTHER);
  int nothing;
  AGAIN(nothing, open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (requests < 0 || answers < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(2, 1) < 0)
    return -1;
  *s = (struct child_self){file_of_descriptor(requests),
                           file_of_descriptor(answers),
                           {file_or_none(GIVEN), file_or_none(GIVEN + 1)}};
  pthread_t watcher;
  if (is_socket(requests)) pthread_create(&watcher, NULL, watch, (void *)(intptr_t)requests);
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  return 0;
}
