// How we fail. A function that can fail returns 0 or -1 and takes `struct err *` last; the error is
// filled once, where the cause is seen, and passed on untouched.
#ifndef WEIR_ERR_H
#define WEIR_ERR_H

// Kinds are the program's exit codes, so that one table serves both (README, "Exit codes").
enum err_kind {
  ERR_NONE = 0,
  ERR_FAIL = 1,        // a check or verification failed
  ERR_USAGE = 2,       // the command line is wrong
  ERR_MODEL = 65,      // the model is malformed; never worth a retry
  ERR_INPUT = 66,      // an input is missing, or changed while we used it
  ERR_RUNTIME = 69,    // a needed runtime is not installed
  ERR_INTERNAL = 70,   // a promise of ours is broken
  ERR_NOSPACE = 73,    // no room on the output's file system
  ERR_IO = 74,         // the system refused a read, write or sync
  ERR_RETRY = 75,      // interrupted or busy: the same command can succeed later
  ERR_PERMISSION = 77, // not allowed to
};

struct err {
  enum err_kind kind;
  char msg[1024]; // one sentence: file, tensor or node, the number seen, the limit
  char hint[512]; // what the user can do about it, or empty
};

#define ERR_PRINTF(f, a) __attribute__((format(printf, f, a)))

// Macros over functions, so that every compiler sees that a failing branch gives -1.
//
static inline int err_minus_one(void) {
  return -1;
}
// err_set(e, kind, fmt, …): fills *e (unless it holds an error already: the first cause wins); -1.
#define err_set(...) (err_fill(__VA_ARGS__), err_minus_one())
// err_hint(e, fmt, …): adds the hint to the error in *e (a first hint stays); -1.
#define err_hint(...) (err_fill_hint(__VA_ARGS__), err_minus_one())
// err_errno(e, errnum, otherwise, fmt, …): as err_set, with the kind that belongs to errnum
// (ENOSPC, EACCES, EIO, …; else `otherwise`) and ": <system's words>" after the message.
#define err_errno(...) (err_fill_errno(__VA_ARGS__), err_minus_one())

void err_fill(struct err *e, enum err_kind kind, const char *fmt, ...) ERR_PRINTF(3, 4);
void err_fill_hint(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
void err_fill_errno(struct err *e, int errnum, enum err_kind otherwise, const char *fmt, ...)
    ERR_PRINTF(4, 5);

#endif
