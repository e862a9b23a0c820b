// One process, one request at a time.
//
//   weir ── socket pair: its stdin and stdout ── weir-ort     (a socket: a write to one that died is an error, not a signal)
//        ◀── pipe: its stderr ──                              (the last line says why, when it dies)
//
// A wait ends by the answer, by the end of the process, by the deadline or by a signal to us, which is looked at ten times a
// second: it may have come to another thread. Where memory is limited, its own is looked at more often. Then nothing of the process is left: its group is killed, and it is
// reaped.
//
// It has a group of its own, so that Ctrl-C at a terminal reaches us alone, and what a runtime starts dies with it.
#include "verify/runtime/runtime_process.h"

#include "base/again.h"
#include "base/size_words.h"
#include "platform/machine.h"
#include "stream/sys/threads.h"
#include "verify/runtime/runtime_find.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { FIRST_FREE = 10, LOOK_MS = 100, LOOK_AT_MEMORY_MS = 10, GRACE_MS = 2000, MOST_PIECES = 64 };

// ---- start ----------------------------------------------------------------------------------------

// The descriptor above those that the process is given: a move of one must not land on another.
static int move_up(int fd) {
  if (fd < 0 || fd >= FIRST_FREE) return fd;
  const int up = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
  close(fd);
  return up;
}

static void close_if_open(int fd) {
  if (fd >= 0) close(fd);
}

static int spawn(const struct runtime_process_start *how, int its, int says, pid_t *pid) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  char *const words[] = {(char *)(uintptr_t)how->program, NULL};
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, its, 0);
  posix_spawn_file_actions_adddup2(&files, its, 1);
  posix_spawn_file_actions_adddup2(&files, says, 2);
  posix_spawn_file_actions_adddup2(&files, how->inputs, 3);
  posix_spawn_file_actions_adddup2(&files, how->outputs, 4);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const int cause = posix_spawn(pid, how->program, &files, &attributes, words, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return cause;
}

// The program was there a moment ago: what is not there is what would load it.
static int cannot_start(const char *program, int cause, struct err *err) {
  if (cause != ENOENT)
    return err_errno(err, cause, ERR_RUNTIME, "cannot start '%s'", quote_path(program).s);
  err_set(err, ERR_RUNTIME,
          "cannot start '%s': the dynamic loader that it needs is not on this system",
          quote_path(program).s);
  return err_hint(
      err, "weir-ort and ONNX Runtime's packages are built for glibc, which Alpine and empty "
           "images lack: "
           "verify elsewhere, or build weir-ort there and name it with " RUNTIME_FIND_PROGRAM);
}

int runtime_process_start(struct runtime_process *p, const struct runtime_process_start *how,
                          struct err *err) {
  int pair[2] = {-1, -1}, ends[2] = {-1, -1}, cause = 0;
  assert(p->pid == 0 && how->inputs >= FIRST_FREE && how->outputs >= FIRST_FREE);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || pipe2(ends, O_CLOEXEC) < 0)
    cause = errno;
  for (int i = 0; i < 2; i++) {
    pair[i] = move_up(pair[i]);
    ends[i] = move_up(ends[i]);
    if (cause == 0 && (pair[i] < 0 || ends[i] < 0)) cause = errno;
  }
  if (cause == 0) cause = spawn(how, pair[1], ends[1], &p->pid);
  close_if_open(pair[1]);
  close_if_open(ends[1]);
  if (cause != 0) {
    close_if_open(pair[0]);
    close_if_open(ends[0]);
    p->pid = 0;
    return cannot_start(how->program, cause, err);
  }
  fcntl(pair[0], F_SETFL, O_NONBLOCK);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  p->socket = pair[0];
  p->said = ends[0];
  p->n_last = 0;
  return 0;
}

// ---- end ------------------------------------------------------------------------------------------

struct sizes {
  uint64_t peak;      // resident, so far
  uint64_t anonymous; // resident and not of a file: what the limit is of
  uint64_t
      data; // what RLIMIT_DATA counts: with mapped files that could be written to, as those of weights
};

static bool sizes_of(pid_t pid, struct sizes *out) {
  static const char *const rows[] = {"VmHWM: %llu kB", "RssAnon: %llu kB", "VmData: %llu kB"};
  uint64_t *const to[] = {&out->peak, &out->anonymous, &out->data};
  char path[64], line[256];
  unsigned long long kib;
  uint32_t found = 0;
  snprintf(path, sizeof path, "/proc/%s/status", integer(pid).s);
  FILE *f = again_fopen(path, "re");
  while (f && again_fgets(line, sizeof line, f))
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
      if (sscanf(line, rows[i], &kib) == 1) {
        *to[i] = kib * 1024;
        found++;
      }
  if (f) fclose(f);
  return found == sizeof rows / sizeof *rows;
}

void runtime_process_look(struct runtime_process *p) {
  struct sizes now;
  if (p->pid != 0 && sizes_of(p->pid, &now)) p->peak = max_u64(p->peak, now.peak);
}

static void set_data_limit(pid_t pid, rlim_t bytes) {
  struct rlimit limit;
  if (prlimit(pid, RLIMIT_DATA, NULL, &limit) < 0) return;
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  prlimit(pid, RLIMIT_DATA, &limit, NULL);
}

void runtime_process_limit(struct runtime_process *p, uint64_t bytes) {
  struct sizes now;
  if (p->pid == 0 || !sizes_of(p->pid, &now)) return;
  set_data_limit(p->pid, now.data + (bytes > now.anonymous ? bytes - now.anonymous : 0));
}

void runtime_process_unlimit(struct runtime_process *p) {
  if (p->pid != 0) set_data_limit(p->pid, RLIM_INFINITY);
}

// What is in the pipe of its stderr: the end of it is kept. Who talks without end is not listened to without end.
static void hear(struct runtime_process *p) {
  char piece[4096];
  ssize_t got = -1;
  for (int i = 0; i < MOST_PIECES && p->said >= 0; i++) {
    AGAIN(got, read(p->said, piece, sizeof piece));
    if (got <= 0) break;
    const size_t n = (size_t)got < sizeof p->last ? (size_t)got : sizeof p->last;
    const size_t keep = p->n_last + n <= sizeof p->last ? p->n_last : sizeof p->last - n;
    memmove(p->last, p->last + p->n_last - keep, keep);
    memcpy(p->last + keep, piece + got - n, n);
    p->n_last = keep + n;
  }
  if (got == 0 && p->said >= 0) { // it closed its stderr, or is dead
    close(p->said);
    p->said = -1;
  }
}

// Waits until it is dead, for at most `ms` (negative: as long as it takes). False: it lives.
static bool reap(pid_t pid, int ms, int *status) {
  for (;;) {
    const pid_t got = waitpid(pid, status, ms < 0 ? 0 : WNOHANG);
    if (got == pid) return true;
    if (got < 0 && errno != EINTR) { // somebody else reaped it: how it ended is not known
      *status = 0;
      return true;
    }
    if (ms == 0) return false;
    if (ms > 0 && poll(NULL, 0, 1) == 0) ms--; // what a signal cut short was no wait
  }
}

// Its wait status; -1: it lived on for longer than `grace_ms`, and was killed.
static int finish(struct runtime_process *p, int grace_ms) {
  int status = 0;
  const bool ended = reap(p->pid, grace_ms, &status);
  if (!ended) {
    runtime_process_look(p);
    kill(-p->pid, SIGKILL);
    kill(p->pid, SIGKILL); // it may not have its group yet
    reap(p->pid, -1, &status);
  } else {
    kill(-p->pid, SIGKILL); // what it started
  }
  hear(p);
  close(p->socket);
  close_if_open(p->said);
  p->pid = 0;
  return ended ? status : -1;
}

void runtime_process_end(struct runtime_process *p) {
  if (p->pid == 0) return;
  runtime_process_look(p);
  finish(p, 0);
}

// ---- words ----------------------------------------------------------------------------------------

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
  return "a signal of no common name";
}

// The last line that it said, quoted, or "".
static struct quoted last_words(const struct runtime_process *p) {
  struct quoted words = {""};
  size_t end = p->n_last;
  while (end > 0 && (p->last[end - 1] == '\n' || p->last[end - 1] == '\r'))
    end--;
  size_t start = end;
  while (start > 0 && p->last[start - 1] != '\n')
    start--;
  if (start < end) words = quote(span_of(p->last + start, end - start));
  return words;
}

static void tell_death(const struct runtime_process *p, const struct runtime_process_ask *how,
                       int status, struct err *err) {
  const struct quoted words = last_words(p);
  const char *colon = words.s[0] ? ": " : "";
  if (status < 0)
    err_fill(err, ERR_FAIL, "weir-ort closed its end of the connection while it %s%s%s", how->doing,
             colon, words.s);
  else if (WIFSIGNALED(status))
    err_fill(err, ERR_FAIL, "weir-ort ended by signal %d (%s) while it %s%s%s", WTERMSIG(status),
             signal_name(WTERMSIG(status)), how->doing, colon, words.s);
  else
    err_fill(err, ERR_FAIL, "weir-ort ended with exit code %d while it %s%s%s", WEXITSTATUS(status),
             how->doing, colon, words.s);
  if (how->memory_bytes > 0)
    err_fill_hint(err, "it may have needed more memory than the %s that it has",
                  size_words_of(how->memory_bytes).s);
}

// ---- a request --------------------------------------------------------------------------------------

struct talk {
  struct runtime_process *p;
  const struct runtime_process_ask *how;
  const struct frame_buffer *request;
  size_t sent;
  uint8_t head[FRAME_HEAD];
  size_t n_head;
  enum frame_kind kind;
  uint64_t body;
  struct frame_buffer *in;
  struct err *err;
};

enum step { STEP_ON, STEP_ANSWERED, STEP_DEAD, STEP_WRONG };

static bool must_wait(ssize_t n) {
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static enum step send_more(struct talk *t) {
  const ssize_t n =
      send(t->p->socket, t->request->bytes + t->sent, t->request->n_bytes - t->sent, MSG_NOSIGNAL);
  if (must_wait(n)) return STEP_ON;
  if (n <= 0) return STEP_DEAD;
  t->sent += (size_t)n;
  return STEP_ON;
}

static enum step receive_more(struct talk *t) {
  enum { PIECE = 1 << 20 };
  if (t->n_head < FRAME_HEAD) {
    const ssize_t n = recv(t->p->socket, t->head + t->n_head, FRAME_HEAD - t->n_head, 0);
    if (must_wait(n)) return STEP_ON;
    if (n <= 0) return STEP_DEAD;
    t->n_head += (size_t)n;
    if (t->n_head < FRAME_HEAD) return STEP_ON;
    if (frame_head(t->head, &t->kind, &t->body, t->err) < 0) return STEP_WRONG;
  }
  const uint64_t left = t->body - t->in->n_bytes;
  if (left == 0) return STEP_ANSWERED;
  const size_t piece = (size_t)min_u64(left, PIECE);
  TABLE_ROOM(t->in, bytes, piece);
  const ssize_t n = recv(t->p->socket, t->in->bytes + t->in->n_bytes, piece, 0);
  if (must_wait(n)) return STEP_ON;
  if (n <= 0) return STEP_DEAD;
  t->in->n_bytes += (size_t)n;
  return t->in->n_bytes == t->body ? STEP_ANSWERED : STEP_ON;
}

// One wait, and what became possible by it. An answer before all was sent is taken too: what was sent so far was no message.
static enum step step(struct talk *t, int wait_ms) {
  const bool more = t->sent < t->request->n_bytes;
  struct pollfd p[2] = {{t->p->socket, (short)(POLLIN | (more ? POLLOUT : 0)), 0},
                        {t->p->said, POLLIN, 0}};
  int ready;
  do // a wait that a signal ends is one; a look is made again
    ready = poll(p, 2, wait_ms);
  while (ready < 0 && errno == EINTR && wait_ms == 0);
  if (ready <= 0) return STEP_ON;
  if (p[1].revents) hear(t->p);
  if (p[0].revents & (POLLIN | POLLHUP | POLLERR)) return receive_more(t);
  return p[0].revents & POLLOUT ? send_more(t) : STEP_ON;
}

static enum runtime_end give_up(struct talk *t, enum runtime_end end) {
  const struct runtime_process_ask *how = t->how;
  finish(t->p, 0);
  if (end == RUNTIME_STOPPED)
    err_fill(t->err, ERR_RETRY, "interrupted while weir-ort %s", how->doing);
  if (end == RUNTIME_DIED)
    err_fill(t->err, ERR_FAIL, "weir-ort needed more than %s of memory while it %s",
             size_words_of(how->memory_bytes).s, how->doing);
  if (end == RUNTIME_LATE)
    err_fill(t->err, ERR_FAIL, "weir-ort timed out after %g s while it %s", how->seconds,
             how->doing);
  return end;
}

static enum runtime_end died(struct talk *t) {
  const int status = finish(t->p, GRACE_MS);
  tell_death(t->p, t->how, status, t->err);
  return RUNTIME_DIED;
}

static enum runtime_end broken(struct talk *t, const struct err *cause) {
  finish(t->p, 0);
  err_fill(t->err, ERR_FAIL, "weir-ort sent an unexpected answer while it %s: %s", t->how->doing,
           cause->msg);
  return RUNTIME_BROKEN;
}

// Is it dead? Its end of the connection may be kept open by a process that it started.
static bool is_dead(const struct runtime_process *p) {
  siginfo_t info = {0};
  int rc;
  AGAIN(rc, waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT));
  return rc < 0 || info.si_pid == p->pid;
}

static size_t progress(const struct talk *t) {
  return t->sent + t->n_head + t->in->n_bytes;
}

// One step. If nothing comes: a look at who should send it, and then at what it sent at last.
static enum step step_or_death(struct talk *t, int wait_ms) {
  const size_t before = progress(t);
  enum step is = step(t, wait_ms);
  if (is != STEP_ON || progress(t) != before || !is_dead(t->p)) return is;
  is = step(t, 0);
  return is == STEP_ON && progress(t) == before ? STEP_DEAD : is;
}

static bool is_too_large(const struct talk *t) {
  struct sizes now;
  return t->how->memory_bytes > 0 && sizes_of(t->p->pid, &now) &&
         now.anonymous > t->how->memory_bytes;
}

static enum runtime_end exchange(struct talk *t) {
  struct err *const err = t->err;
  struct err wrong = {0};
  t->err = &wrong;
  enum step is = STEP_ON;
  const uint64_t start = machine_clock_ms();
  const double limit = t->how->seconds * 1000;
  const int look_ms = t->how->memory_bytes > 0 ? LOOK_AT_MEMORY_MS : LOOK_MS;
  while (is == STEP_ON) {
    const double gone = (double)(machine_clock_ms() - start);
    const enum runtime_end end = threads_must_stop(t->how->stop) ? RUNTIME_STOPPED
                                 : gone >= limit                 ? RUNTIME_LATE
                                 : is_too_large(t)               ? RUNTIME_DIED
                                                                 : RUNTIME_DONE;
    if (end != RUNTIME_DONE) {
      t->err = err;
      return give_up(t, end);
    }
    is = step_or_death(t, limit - gone < (double)look_ms ? (int)(limit - gone) + 1 : look_ms);
  }
  t->err = err;
  if (is == STEP_ANSWERED && t->sent < t->request->n_bytes) {
    err_fill(&wrong, ERR_FAIL, "it did not wait for the whole request");
    is = STEP_WRONG;
  }
  if (is == STEP_DEAD) return died(t);
  return is == STEP_WRONG ? broken(t, &wrong) : RUNTIME_DONE;
}

// Between two requests it has nothing to say, and lives.
static enum runtime_end look_before(struct talk *t) {
  struct runtime_process_ask idle = *t->how;
  struct err wrong = {0};
  uint8_t byte;
  const ssize_t n = recv(t->p->socket, &byte, 1, MSG_PEEK);
  if (must_wait(n)) return RUNTIME_DONE;
  idle.doing = "had nothing to do";
  t->how = &idle;
  if (n <= 0) return died(t);
  err_fill(&wrong, ERR_FAIL, "an answer without a request");
  return broken(t, &wrong);
}

enum runtime_end runtime_process_ask(struct runtime_process *p,
                                     const struct runtime_process_ask *how,
                                     const struct frame_buffer *request, struct frame_buffer *in,
                                     struct frame *f, struct arena *a, struct err *err) {
  struct talk t = {.p = p, .how = how, .request = request, .in = in, .err = err};
  struct err wrong = {0};
  in->n_bytes = 0;
  enum runtime_end end = look_before(&t);
  if (end == RUNTIME_DONE) end = exchange(&t);
  if (end != RUNTIME_DONE) return end;
  if (frame_decode(f, t.kind, span_of(in->bytes, in->n_bytes), a, &wrong) < 0)
    return broken(&t, &wrong);
  return RUNTIME_DONE;
}
