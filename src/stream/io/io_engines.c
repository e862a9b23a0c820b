// Which engine serves which mode, and the one decision about it: whether io_uring can be had here.
//
//   mode   engine  reads of sources       writes
//   uring  uring   mapped windows         asynchronous where the file system can, else at once
//   sync   sync    pread                  pwrite
//   null   null    mapped windows         swallowed
//   load   sync    whole file in memory   pwrite
//
// io_uring is missing more often than its age suggests: container runtimes block its system calls
// (EPERM from seccomp), administrators switch it off by sysctl (EPERM too), kernels are built
// without it (ENOSYS), and limits on locked memory or descriptors can forbid a ring (ENOMEM,
// EMFILE). Nothing is lost but overlap, so `auto` goes on with sync and says so once. Limits can also be
// used up later, by the queues of other workers: a queue of `auto` that gets no ring is one of sync.
#include "stream/io/inside/io_engines.h"

#include <errno.h>
#include <stdio.h>

static const struct {
  const char *name;
  const struct io_engine *engine;
} modes[] = {
    [IO_AUTO] = {"auto", &io_uring_engine}, [IO_URING] = {"uring", &io_uring_engine},
    [IO_SYNC] = {"sync", &io_sync_engine},  [IO_NULL] = {"null", &io_null_engine},
    [IO_LOAD] = {"load", &io_load_engine},  [IO_RING_OR_SYNC] = {"uring", &io_uring_engine},
};

static const struct io_engine *(*wrap_hook)(const struct io_engine *);

void io_engine_wrap(const struct io_engine *(*wrap)(const struct io_engine *engine)) {
  wrap_hook = wrap;
}

const struct io_engine *io_engine_of(enum io_mode mode) {
  const struct io_engine *e = modes[mode].engine;
  return wrap_hook ? wrap_hook(e) : e;
}

const char *io_mode_name(enum io_mode mode) {
  return modes[mode].name;
}

bool io_mode_by_name(const char *name, enum io_mode *mode) {
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (strcmp(name, modes[i].name) != 0) continue;
    *mode = (enum io_mode)i;
    return true;
  }
  return false;
}

bool io_has_ring(void) {
  return io_uring_engine.start != NULL;
}

// Sets up a ring of the smallest useful size and takes it down again.
static int try_ring(void) {
  const struct io_engine *e = io_engine_of(IO_URING);
  void *self;
  int r = e->open(e, 2, &self);
  if (r == 0) e->close(self);
  return r;
}

// Why a ring cannot be had, and what would change that, as far as errno tells.
static const char *cause_of(int errnum) {
  switch (errnum) {
  case EPERM:
  case EACCES:
    return "not permitted here: Docker's default seccomp profile blocks it, and so does the sysctl "
           "kernel.io_uring_disabled; allow it there";
  case EOPNOTSUPP: return "not part of this build (POSIX alone): one for Linux has it";
  case ENOSYS: return "not offered by this kernel or sandbox: it needs Linux 5.6 or newer";
  case ENOMEM: return "refused for lack of memory: raise the limit on locked memory (ulimit -l)";
  case EMFILE:
  case ENFILE: return "refused for lack of file descriptors: raise the limit (ulimit -n)";
  default: return err_errno_words(errnum);
  }
}

int io_choose(enum io_mode *mode, const char **why, struct err *err) {
  *why = NULL;
  if (*mode != IO_AUTO && *mode != IO_URING) return 0;
  int r = try_ring();
  if (r == 0) {
    if (*mode == IO_AUTO) *mode = IO_RING_OR_SYNC;
    return 0;
  }
  if (*mode == IO_URING) {
    err_fill_errno(err, -r, ERR_IO, "io_uring cannot be used");
    err_fill_reason(err, REASON_RING);
    return err_hint(err, "%s", cause_of(-r));
  }
  *mode = IO_SYNC;
  *why = cause_of(-r);
  return 0;
}

void io_done_push(struct io_done_line *line, struct io_op *op) {
  op->next = NULL;
  if (line->last)
    line->last->next = op;
  else
    line->first = op;
  line->last = op;
}

struct io_op *io_done_pop(struct io_done_line *line) {
  struct io_op *op = line->first;
  if (!op) return NULL;
  line->first = op->next;
  if (!line->first) line->last = NULL;
  return op;
}
