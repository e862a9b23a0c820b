// Failing the nth operation, whatever engine is below.
//
//   queue ── start(op) ──▶ fault ── the op, or half of it ──▶ inner engine
//         ◀─ reap() ──────       ◀─ its result, or a worse one ─
//
// An op that fails outright never reaches the inner engine: it waits in a line of its own. One that
// is to be cut goes down with half its length and gets the length back on its way up, because the
// queue reckons with what it asked for. Counters are process-wide, so that "the 5th write" means
// the same with any number of workers, if not the same write.
#include "io_fault_engine.h"

#include "fault_counts.h"
#include "stream/io/inside/io_engines.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fault_op {
  FAULT_OPEN,
  FAULT_WRITE,
  FAULT_READ,
  FAULT_CLONE,
  FAULT_SUBMIT,
  FAULT_WAIT,
  FAULT_OPS
};
enum fault_action { FAULT_PASS, FAULT_ERRNO, FAULT_SHORT, FAULT_TORN, FAULT_EOF, FAULT_KILL };

struct rule {
  enum fault_op op;
  uint64_t nth;
  bool persist;
  enum fault_action action;
  int errnum;
};

enum { RULES_MAX = 8, ENGINES_MAX = 8 };
static struct rule rules[RULES_MAX];
static uint32_t n_rules;
static atomic_uint_fast64_t counted[FAULT_OPS];
static atomic_uint injected;

static const char *const op_names[FAULT_OPS] = {"open", "write", "read", "clone", "submit", "wait"};
static const struct {
  const char *name;
  enum fault_action action;
} actions[] = {
    {"short", FAULT_SHORT}, {"torn", FAULT_TORN}, {"eof", FAULT_EOF}, {"kill", FAULT_KILL}};

static bool parse_op(const char *word, enum fault_op *op) {
  for (int i = 0; i < FAULT_OPS; i++) {
    if (strcmp(word, op_names[i]) != 0) continue;
    *op = (enum fault_op)i;
    return true;
  }
  return false;
}

static bool parse_action(const char *word, struct rule *r) {
  for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
    if (strcmp(word, actions[i].name) != 0) continue;
    r->action = actions[i].action;
    return true;
  }
  for (int e = 1; e < 134; e++) {
    const char *name = strerrorname_np(e);
    if (!name || strcmp(word, name) != 0) continue;
    r->action = FAULT_ERRNO;
    r->errnum = e;
    return true;
  }
  return false;
}

static bool parse_rule(char *text, struct rule *r) {
  char *rest = text;
  const char *op = strsep(&rest, ":");
  const char *nth = strsep(&rest, ":");
  const char *word = strsep(&rest, ":");
  if (!word || !parse_op(op, &r->op)) return false;
  char *end;
  r->nth = strtoull(nth, &end, 10);
  if (end == nth || *end || r->nth == 0) return false;
  r->persist = strcmp(word, "persist") == 0;
  if (r->persist) word = strsep(&rest, ":");
  if (!word || rest || !parse_action(word, r)) return false;
  if (r->op == FAULT_SUBMIT || r->op == FAULT_WAIT) return r->action == FAULT_ERRNO;
  bool moves_bytes = r->op == FAULT_WRITE || r->op == FAULT_READ;
  return moves_bytes || (r->action != FAULT_SHORT && r->action != FAULT_EOF);
}

static bool parse_spec(const char *spec) {
  char copy[256];
  if (strlen(spec) >= sizeof copy) return false;
  strcpy(copy, spec);
  n_rules = 0;
  char *rest = copy;
  for (char *text; (text = strsep(&rest, ","));) {
    struct rule r = {0};
    if (n_rules == RULES_MAX || !parse_rule(text, &r)) return false;
    rules[n_rules++] = r;
  }
  return true;
}

// Counts an operation of this kind and says what is to become of it.
static struct rule next(enum fault_op op) {
  uint64_t k = atomic_fetch_add(&counted[op], 1) + 1;
  for (uint32_t i = 0; i < n_rules; i++) {
    const struct rule *r = &rules[i];
    if (r->op != op || !(r->persist ? k >= r->nth : k == r->nth)) continue;
    atomic_fetch_add(&injected, 1);
    return *r;
  }
  return (struct rule){.action = FAULT_PASS};
}

struct cut { // an op that went down with less than its length
  struct io_op *op;
  size_t n;
  enum fault_action action;
};

struct fault {
  const struct io_engine *inner;
  void *self; // the inner engine's
  struct io_done_line done;
  struct cut *cuts;
  uint32_t n_cuts, depth, in_flight;
  int lost;              // 0, or -errno
  struct fault *earlier; // lost ones: what is below them is left as it is, and can be found
};
static _Atomic(struct fault *) all_lost;

static struct engine_row {
  struct io_engine row; // what the queue sees
  const struct io_engine *inner;
} engines[ENGINES_MAX];

static int fault_open(const struct io_engine *row, uint32_t depth, void **self) {
  struct rule r = next(FAULT_OPEN);
  if (r.action != FAULT_PASS) return r.action == FAULT_ERRNO ? -r.errnum : -EIO;
  struct fault *f = calloc(1, sizeof *f);
  assert(f);
  f->inner = ((const struct engine_row *)row)->inner;
  f->depth = depth;
  f->cuts = calloc(depth, sizeof *f->cuts);
  assert(f->cuts);
  int result = f->inner->open(f->inner, depth, &f->self);
  if (result < 0) {
    free(f->cuts);
    free(f);
    return result;
  }
  *self = f;
  return 0;
}

static void fault_close(void *self) {
  struct fault *f = self;
  if (f->lost) {
    f->earlier = atomic_load(&all_lost);
    while (!atomic_compare_exchange_weak(&all_lost, &f->earlier, f)) {
    }
    return;
  }
  assert(!f->done.first && f->n_cuts == 0);
  f->inner->close(f->self);
  free(f->cuts);
  free(f);
}

// Counts a call that may lose the engine.
static void lose(struct fault *f, enum fault_op op) {
  if (f->lost || !f->inner->lost) return;
  const struct rule r = next(op);
  if (r.action != FAULT_PASS) f->lost = -r.errnum;
}

static void fault_start(void *self, struct io_op *op) {
  struct fault *f = self;
  lose(f, FAULT_SUBMIT);
  f->in_flight++;
  if (f->lost) return;
  struct rule r = next(FAULT_WRITE);
  bool whole = op->n < 2;
  if (r.action == FAULT_ERRNO || r.action == FAULT_EOF || (r.action == FAULT_TORN && whole)) {
    op->result = r.action == FAULT_ERRNO ? -r.errnum : r.action == FAULT_EOF ? 0 : -EIO;
    io_done_push(&f->done, op);
    return;
  }
  if (r.action == FAULT_KILL && whole) raise(SIGKILL);
  if (r.action != FAULT_PASS && !whole) {
    assert(f->n_cuts < f->depth);
    f->cuts[f->n_cuts++] = (struct cut){.op = op, .n = op->n, .action = r.action};
    op->n /= 2;
  }
  f->inner->start(f->self, op);
}

static int fault_lost(void *self) {
  const struct fault *f = self;
  return f->lost ? f->lost : f->inner->lost(f->self);
}

static struct io_op *reap(struct fault *f, bool wait) {
  struct io_op *op = io_done_pop(&f->done);
  if (op) return op;
  op = f->inner->reap(f->self, wait);
  for (uint32_t i = 0; op && i < f->n_cuts; i++) {
    if (f->cuts[i].op != op) continue;
    struct cut c = f->cuts[i];
    f->cuts[i] = f->cuts[--f->n_cuts];
    op->n = c.n;
    if (c.action == FAULT_KILL) raise(SIGKILL);
    if (c.action == FAULT_TORN && op->result >= 0) op->result = -EIO;
    break;
  }
  return op;
}

static struct io_op *fault_reap(void *self, bool wait) {
  struct fault *f = self;
  if (f->in_flight > 0) lose(f, FAULT_WAIT);
  if (f->lost) return NULL;
  struct io_op *op = reap(f, wait);
  if (op) f->in_flight--;
  return op;
}

static int64_t fault_read(void *self, struct file fd, void *buf, size_t n, uint64_t off) {
  struct fault *f = self;
  struct rule r = next(FAULT_READ);
  if (r.action == FAULT_ERRNO) return -r.errnum;
  if (r.action == FAULT_EOF) return 0;
  size_t half = r.action == FAULT_PASS || n < 2 ? n : n / 2;
  int64_t got = f->inner->read(f->self, fd, buf, half, off);
  if (r.action == FAULT_KILL) raise(SIGKILL);
  return r.action == FAULT_TORN ? -EIO : got;
}

static void fault_writeback(void *self, struct file fd, uint64_t off, uint64_t n) {
  struct fault *f = self;
  f->inner->writeback(f->self, fd, off, n);
}

static int fault_clone(void *self, struct file source, uint64_t off, struct file fd,
                       uint64_t out_off, uint64_t n) {
  struct fault *f = self;
  struct rule r = next(FAULT_CLONE);
  if (r.action == FAULT_KILL) raise(SIGKILL);
  if (r.action != FAULT_PASS) return r.action == FAULT_ERRNO ? -r.errnum : -EIO;
  return f->inner->clone(f->self, source, off, fd, out_off, n);
}

// The row for an inner engine. Rows are made while arming, before other threads open queues.
static const struct io_engine *wrap(const struct io_engine *inner) {
  for (uint32_t i = 0; i < ENGINES_MAX; i++) {
    if (engines[i].inner == inner) return &engines[i].row;
  }
  assert(false); // an engine that io_fault_arm does not list
  return inner;
}

static void make_rows(void) {
  static const struct io_engine *const known[] = {&io_uring_engine, &io_sync_engine,
                                                  &io_null_engine, &io_load_engine};
  for (uint32_t i = 0; i < sizeof known / sizeof *known; i++) {
    engines[i].inner = known[i];
    engines[i].row = (struct io_engine){
        .name = known[i]->name,
        .reads = known[i]->reads,
        .open = fault_open,
        .close = fault_close,
        .start = fault_start,
        .reap = fault_reap,
        .lost = known[i]->lost ? fault_lost : NULL,
        .read = fault_read,
        .writeback = fault_writeback,
        .clone = fault_clone,
    };
  }
}

static void begin(void) {
  make_rows();
  for (int i = 0; i < FAULT_OPS; i++)
    atomic_store(&counted[i], 0);
  atomic_store(&injected, 0);
  io_engine_wrap(wrap);
}

bool io_fault_arm(const char *spec) {
  io_fault_disarm();
  if (!parse_spec(spec)) return false;
  begin();
  return true;
}

__attribute__((constructor)) static void arm_as_told(void) {
  const char *spec = getenv("WEIR_FAULT_IO");
  if (!spec && fault_counts_wanted()) begin(); // counts only
  if (!spec || io_fault_arm(spec)) return;
  fprintf(stderr, "WEIR_FAULT_IO: cannot read '%s'\n", spec);
  exit(70);
}

__attribute__((destructor)) static void tell(void) {
  for (int i = 0; i < FAULT_OPS; i++)
    fault_counts_tell(op_names[i], atomic_load(&counted[i]));
}

void io_fault_disarm(void) {
  io_engine_wrap(NULL);
  n_rules = 0;
}

uint32_t io_fault_injected(void) {
  return atomic_load(&injected);
}
