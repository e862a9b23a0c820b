// Processes: a program that this one starts and talks with, and that program's own side.
//
//   we ── connection: its stdin and its stdout ── child       (bytes in both directions)
//      ◀── its stderr ──
#ifndef WEIR_PLATFORM_CHILDREN_H
#define WEIR_PLATFORM_CHILDREN_H

#include "platform/files.h"

// How a process ended.
struct child_end {
  int signal;       // that ended it; 0: it exited, or the system does not say how it ended
  const char *name; // of the signal: "SIGSEGV"; NULL: the signal has no common name
  int code;         // its exit code, if signal is 0
};

// ---- a program ----

// {0} is none. Not thread-safe.
struct child {
  intptr_t process;
  struct file line; // the connection
  struct file said; // its stderr; none after it closed that
};

static inline bool child_is_there(const struct child *c) {
  return c->process != 0;
}

// Starts a program without arguments, with the environment of this process and no signal blocked. It inherits the two given files as
// descriptors 3 and 4, and no other open file. It leads its own process group: it gets no signal from the terminal, and child_kill also
// kills what it starts. -1 and errno: ENOENT (also if the program's loader is missing), EAGAIN, ENOMEM, EMFILE, EACCES.
int child_start(struct child *c, const char *program, const struct file given[2]);

enum child_news {
  CHILD_SENT = 1,  // bytes can be received, or the connection has ended
  CHILD_TAKES = 2, // bytes can be sent
  CHILD_SAID = 4,  // it wrote to its stderr, or closed it
};
// Waits at most `ms` milliseconds for news, for CHILD_TAKES only if to_send. 0: no news, or a signal interrupted the wait.
unsigned child_wait(const struct child *c, bool to_send, int ms);

// Sends or receives at most n bytes without waiting, and returns how many. 0: none at this moment. -1: the connection has ended. A send
// to an ended connection raises no signal.
int64_t child_send(const struct child *c, const void *bytes, size_t n);
int64_t child_receive(const struct child *c, void *to, size_t n);
// Reads at most n bytes of its stderr without waiting, and returns how many. 0: none at this moment.
size_t child_hear(struct child *c, void *to, size_t n);

// Has it ended? The connection alone does not tell: a process that it started may keep its end open. It is not reaped.
bool child_is_dead(const struct child *c);
// Waits at most `ms` milliseconds for its end (negative: without limit), then kills the processes that it started. False: it still runs.
bool child_reap(const struct child *c, int ms, struct child_end *how);
// Kills it and the processes that it started, and waits for its end.
void child_kill(const struct child *c);
// Closes the connection after child_reap or child_kill; read its stderr before. *c is none afterwards.
void child_close(struct child *c);

struct child_sizes {
  uint64_t peak;      // its peak of resident memory, in bytes
  uint64_t anonymous; // its resident memory that belongs to no file, in bytes
};
// False: it has ended, or the system does not say.
bool child_sizes(const struct child *c, struct child_sizes *out);
// Limits its memory to `bytes`: further allocations fail. Files that it has mapped so far do not count. No effect on systems that
// cannot limit another process; child_sizes is the way there.
void child_limit(const struct child *c, uint64_t bytes);
// Removes the limit.
void child_unlimit(const struct child *c);

// ---- in the program that was started ----

struct child_self {
  struct file requests, answers; // the connection
  struct file given[2];          // none: the descriptor is no regular file
};
// Takes over what child_start passed. Afterwards stdin is empty and stdout goes to stderr, so that only answers get into the connection;
// all other descriptors are closed, and a crash writes no core file. When the other end closes the connection, the process exits with
// code 0 at once; if the connection is no socket, reads just end. Call it once, before any other thread starts. -1 and errno; ENOTTY:
// stdin is a terminal, so no program sends requests.
int child_self_begin(struct child_self *s);

#endif
