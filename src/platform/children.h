// Processes: a program that this one starts and talks with, that program's own side, and copies of this process.
//
//   we ── connection: its stdin and its stdout ── child       (bytes in both directions)
//      ◀── its stderr ──
#ifndef WEIR_PLATFORM_CHILDREN_H
#define WEIR_PLATFORM_CHILDREN_H

#include "platform/files.h"

// How a process ended.
struct child_end {
  int signal;       // that ended it; 0: it ended by itself, or nobody knows how
  const char *name; // of the signal: "SIGSEGV"; NULL: it has none that is common
  int code;         // its exit code, where there is no signal
};

// ---- a program ----

// {0}: there is none. One thread uses it.
struct child {
  intptr_t process;
  struct file line; // the connection
  struct file said; // its stderr; none once it closed that
};

static inline bool child_is_there(const struct child *c) {
  return c->process != 0;
}

// Starts a program, without words, with our environment and no signal held back. It has the given files at their numbers 3 and 4, and
// nothing else of what is open here. It leads a group of its own: what a terminal sends to ours does not reach it, and what it starts
// dies with it. -1 and errno: ENOENT also where the loader that the program needs is missing, EAGAIN, ENOMEM, EMFILE, EACCES.
int child_start(struct child *c, const char *program, const struct file given[2]);

enum child_news {
  CHILD_SENT = 1, // bytes can be received, or the connection has ended
  CHILD_TAKES = 2,
  CHILD_SAID = 4, // on its stderr, or it closed that
};
// Waits for news, for at most `ms`; for CHILD_TAKES, that bytes can be sent, only `to_send`. 0: there are none, or a signal came.
unsigned child_wait(const struct child *c, bool to_send, int ms);

// Some of n bytes, without waiting; how many there were. 0: none can go, or come, now. -1: the connection has ended, which raises no
// signal.
int64_t child_send(const struct child *c, const void *bytes, size_t n);
int64_t child_receive(const struct child *c, void *to, size_t n);
// What it said on its stderr, at most n bytes, without waiting. 0: nothing new.
size_t child_hear(struct child *c, void *to, size_t n);

// Is it dead? Its end of the connection may be kept open by a process that it started. It still is there, to be reaped.
bool child_is_dead(const struct child *c);
// Waits for at most `ms` for its death (negative: as long as it takes), then kills what it started. False: it lives.
bool child_reap(const struct child *c, int ms, struct child_end *how);
// Kills it, with all that it started, and waits for its death.
void child_kill(const struct child *c);
// Ends the connection with one that was reaped or killed; what it said can be heard before. *c is none afterwards.
void child_close(struct child *c);

struct child_sizes {
  uint64_t peak;      // bytes in memory, at most so far
  uint64_t anonymous; // bytes in memory that are of no file
};
// False: it is dead, or the system does not tell.
bool child_sizes(const struct child *c, struct child_sizes *out);
// From now on it gets as much memory as is left of `bytes`, and is refused more. What is mapped now counts for nothing if it is of a
// file. And: as much as it asks for. Nothing happens where the system limits no other process: then look at its sizes.
void child_limit(const struct child *c, uint64_t bytes);
void child_unlimit(const struct child *c);

// ---- in the program that was started ----

struct child_self {
  struct file requests, answers; // the connection
  struct file given[2];          // none: what it was given is no regular file
};
// Takes what child_start gave. From then on stdin is empty and what is printed to stdout goes to stderr, so that nothing but answers
// gets into the connection. What else was left open is closed. Where it crashes, no image of its memory is left behind. If the other
// end of the connection is closed, the process ends, with code 0, whatever it does at that time; a connection that is no socket only
// reads as ended. Once, before any other thread. -1 and errno; ENOTTY: stdin is a terminal, where nobody is who would send requests.
int child_self_begin(struct child_self *s);

// ---- a copy of this process ----

struct child_copy {
  intptr_t process;
};
// Begins a process with a copy of all memory as it is now, which does work(ctx) and ends with its result as exit code: nothing is
// tidied up. Only the calling thread goes on there. So it must not be called while other threads run that may hold a lock, of the heap
// above all, nor for work that must be done: a system may have no such thing (EOPNOTSUPP), or no room (EAGAIN, ENOMEM), -1. What is
// changed in memory there stays there, but for pages_new_shared; open files are shared, with their positions. Where the system can,
// the copy is asked to end (as by child_copy_stop) when this process ends.
int child_copy(struct child_copy *c, int (*work)(void *ctx), void *ctx);
// Asks it to end, as whoever ends a program does.
void child_copy_stop(const struct child_copy *c);
// Waits for its end.
void child_copy_reap(const struct child_copy *c, struct child_end *how);

#endif
