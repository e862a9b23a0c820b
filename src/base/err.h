// Room: errors and their reasons, observers, arenas, tables, spans, element types, digests, and weir's version.
//
// How we fail. A function that can fail returns 0 or -1 and takes `struct err *` last; the error is
// filled once, where the cause is seen, and passed on untouched.
//
// To tell the user a remedy: err_hint, if it has no word of the command line; else a reason below, given with
// err_because, and its words in tools/cli/hints.def.
#ifndef WEIR_ERR_H
#define WEIR_ERR_H

// Kinds are the program's exit codes, so that one table serves both (README, "Exit codes").
enum err_kind {
  ERR_NONE = 0,
  ERR_FAIL = 1,              // a verification failed, or what was asked for is impossible
  ERR_USAGE = 2,             // the command line is wrong
  ERR_MODEL = 65,            // a file (model, log, manifest) is malformed; never worth a retry
  ERR_INPUT = 66,            // an input is missing, or changed while we used it
  ERR_RUNTIME = 69,          // a needed runtime is not installed
  ERR_INTERNAL = 70,         // a promise of ours is broken
  ERR_NOSPACE = 73,          // no room on the output's file system
  ERR_IO = 74,               // the system refused a read, write or sync
  ERR_RETRY = 75,            // interrupted or busy: the same command can succeed later
  ERR_NO_MEMORY = ERR_RETRY, // the system refused memory: with less of it, or later, it can succeed
  ERR_PERMISSION = 77,       // not allowed to, or a link that is not followed
};

// Why, where what the user can do about it is said in words of the command line: those are not ours
// (tools has them, hints.def).
enum err_reason {
  REASON_NONE,
  REASON_LINK,          // a link that is not followed
  REASON_HARD_LINK,     // a file with several names
  REASON_RING,          // io_uring cannot be had; the hint says what it is
  REASON_RING_LOST,     // io_uring stopped working
  REASON_ENGINE,        // an engine cannot be opened
  REASON_TILES,         // no memory for tiles
  REASON_JOBS,          // more workers than can be
  REASON_MEMORY,        // too little memory for so many workers
  REASON_RANGE_LEVELS,  // a range wider than integer levels can say
  REASON_RANGE_SCALES,  // … than scales can
  REASON_RANGE_CAST,    // elements that another type cannot hold
  REASON_OVERFLOW,      // one that would become an infinity,
  REASON_OVERFLOW_HALF, // in float16
  REASON_NOT_FINITE,    // an element to be quantized that is not finite
  REASON_NOT_SHRUNK,    // the same, where nothing else can become of it
  REASON_NO_SCALE,      // a block without a finite scale
  REASON_NO_MEMORY,     // no memory for an evaluator
  REASON_TOO_MUCH,      // what must lie in its memory at once does not fit
  REASON_LONG_BLOCKS,   // nor do blocks side by side
  REASON_FACTOR,        // nor what the disk did not take
  REASON_NOT_DURABLE,   // the disk did not take what was written
  REASON_BUSY,          // another run works in the staging folder
  REASON_SEAL_BEGUN,    // an earlier run did not end putting its output in place
  REASON_MEASURED_OLD,  // a source changed since its weights were measured
  REASON_WRITTEN_OLD,   // a source changed since an interrupted run
  REASON_NOT_OURS,      // a file in the staging folder that we did not make
  REASON_OTHER_VERSION, // a staging folder of another version
  REASON_STAGED_OTHER,  // what an unfinished seal is to put in place is not what was written
  REASON_EXISTS,        // the output exists
  REASON_APPEARED,      // something took the output's name while the run worked
  REASON_MANIFEST_NAME, // the output's name cannot stand in a manifest
  REASON_DATA_NAME,     // the data file exists
  REASON_INLINE,        // too much for one file
  REASON_REFUSED,       // the system refused memory
  REASONS,
};

struct err {
  enum err_kind kind;
  enum err_reason reason;
  char msg[1024]; // one sentence: file, tensor or node, the number seen, the limit
  // What the user can do about it, or empty; with a reason: what its words leave open.
  char hint[512];
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
// err_because(e, reason): the same with a reason.
#define err_because(...) (err_fill_reason(__VA_ARGS__), err_minus_one())
// err_errno(e, errnum, otherwise, fmt, …): as err_set, with the kind that belongs to errnum
// (ENOSPC, EACCES, EIO, …; else `otherwise`) and ": <system's words>" after the message.
#define err_errno(...) (err_fill_errno(__VA_ARGS__), err_minus_one())

void err_fill(struct err *e, enum err_kind kind, const char *fmt, ...) ERR_PRINTF(3, 4);
void err_fill_hint(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
void err_fill_reason(struct err *e, enum err_reason reason);
// Hint and reason of another error, whose message the caller has put into that of e.
void err_fill_hint_of(struct err *e, const struct err *cause);
void err_fill_errno(struct err *e, int errnum, enum err_kind otherwise, const char *fmt, ...)
    ERR_PRINTF(4, 5);
// The words of the system for an errno. They last as long as the program.
const char *err_errno_words(int errnum);

#endif
