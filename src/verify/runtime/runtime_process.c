// One process, one request at a time.
//
//   weir ── connection: its stdin and stdout ── weir-ort
//        ◀── its stderr ──                                (the last line says why, when it dies)
//
// A wait ends by the answer, by the end of the process, by the deadline or by a signal to us, which is looked at ten times a
// second: it may have come to another thread. Where memory is limited, its own is looked at more often. Then nothing of the process is left: its group is killed, and it is
// reaped.
//
// It has a group of its own, so that Ctrl-C at a terminal reaches us alone, and what a runtime starts dies with it.
#include "verify/runtime/runtime_process.h"

#include "base/size_words.h"
#include "platform/machine.h"
#include "stream/sys/threads.h"
#include "verify/runtime/runtime_find.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { LOOK_MS = 100, LOOK_AT_MEMORY_MS = 10, GRACE_MS = 2000, MOST_PIECES = 64 };

// ---- start ----------------------------------------------------------------------------------------

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
  assert(!child_is_there(&p->child));
  if (child_start(&p->child, how->program, how->files))
    return cannot_start(how->program, errno, err);
  p->n_last = 0;
  return 0;
}

// ---- end ------------------------------------------------------------------------------------------

void runtime_process_look(struct runtime_process *p) {
  struct child_sizes now;
  if (child_is_there(&p->child) && child_sizes(&p->child, &now))
    p->peak = max_u64(p->peak, now.peak);
}

void runtime_process_limit(struct runtime_process *p, uint64_t bytes) {
  if (child_is_there(&p->child)) child_limit(&p->child, bytes);
}

void runtime_process_unlimit(struct runtime_process *p) {
  if (child_is_there(&p->child)) child_unlimit(&p->child);
}

// What it said on its stderr: the end of it is kept. Who talks without end is not listened to without end.
static void hear(struct runtime_process *p) {
  char piece[4096];
  size_t got;
  for (int i = 0; i < MOST_PIECES && (got = child_hear(&p->child, piece, sizeof piece)) > 0; i++) {
    const size_t n = got < sizeof p->last ? got : sizeof p->last;
    const size_t keep = p->n_last + n <= sizeof p->last ? p->n_last : sizeof p->last - n;
    memmove(p->last, p->last + p->n_last - keep, keep);
    memcpy(p->last + keep, piece + got - n, n);
    p->n_last = keep + n;
  }
}

// False: it lived on for longer than `grace_ms`, and was killed.
static bool finish(struct runtime_process *p, int grace_ms, struct child_end *how) {
  const bool ended = child_reap(&p->child, grace_ms, how);
  if (!ended) {
    runtime_process_look(p);
    child_kill(&p->child);
  }
  hear(p);
  child_close(&p->child);
  return ended;
}

// Now.
static void finish_off(struct runtime_process *p) {
  struct child_end how;
  finish(p, 0, &how);
}

void runtime_process_end(struct runtime_process *p) {
  if (!child_is_there(&p->child)) return;
  runtime_process_look(p);
  finish_off(p);
}

// ---- words ----------------------------------------------------------------------------------------

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

// `end`: NULL, it was killed by us.
static void tell_death(const struct runtime_process *p, const struct runtime_process_ask *how,
                       const struct child_end *end, struct err *err) {
  const struct quoted words = last_words(p);
  const char *colon = words.s[0] ? ": " : "";
  if (!end)
    err_fill(err, ERR_FAIL, "weir-ort closed its end of the connection while it %s%s%s", how->doing,
             colon, words.s);
  else if (end->signal)
    err_fill(err, ERR_FAIL, "weir-ort ended by signal %d (%s) while it %s%s%s", end->signal,
             end->name ? end->name : "a signal of no common name", how->doing, colon, words.s);
  else
    err_fill(err, ERR_FAIL, "weir-ort ended with exit code %d while it %s%s%s", end->code,
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

static enum step send_more(struct talk *t) {
  const int64_t n =
      child_send(&t->p->child, t->request->bytes + t->sent, t->request->n_bytes - t->sent);
  if (n < 0) return STEP_DEAD;
  t->sent += (size_t)n;
  return STEP_ON;
}

static enum step receive_more(struct talk *t) {
  enum { PIECE = 1 << 20 };
  if (t->n_head < FRAME_HEAD) {
    const int64_t n = child_receive(&t->p->child, t->head + t->n_head, FRAME_HEAD - t->n_head);
    if (n < 0) return STEP_DEAD;
    t->n_head += (size_t)n;
    if (t->n_head < FRAME_HEAD) return STEP_ON;
    if (frame_head(t->head, &t->kind, &t->body, t->err) < 0) return STEP_WRONG;
  }
  const uint64_t left = t->body - t->in->n_bytes;
  if (left == 0) return STEP_ANSWERED;
  const size_t piece = (size_t)min_u64(left, PIECE);
  TABLE_ROOM(t->in, bytes, piece);
  const int64_t n = child_receive(&t->p->child, t->in->bytes + t->in->n_bytes, piece);
  if (n < 0) return STEP_DEAD;
  t->in->n_bytes += (size_t)n;
  return t->in->n_bytes == t->body ? STEP_ANSWERED : STEP_ON;
}

// One wait, and what became possible by it. An answer before all was sent is taken too: what was sent so far was no message.
static enum step step(struct talk *t, int wait_ms) {
  const unsigned news = child_wait(&t->p->child, t->sent < t->request->n_bytes, wait_ms);
  if (news & CHILD_SAID) hear(t->p);
  if (news & CHILD_SENT) return receive_more(t);
  return news & CHILD_TAKES ? send_more(t) : STEP_ON;
}

static enum runtime_end give_up(struct talk *t, enum runtime_end end) {
  const struct runtime_process_ask *how = t->how;
  finish_off(t->p);
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
  struct child_end how;
  const bool ended = finish(t->p, GRACE_MS, &how);
  tell_death(t->p, t->how, ended ? &how : NULL, t->err);
  return RUNTIME_DIED;
}

static enum runtime_end broken(struct talk *t, const struct err *cause) {
  finish_off(t->p);
  err_fill(t->err, ERR_FAIL, "weir-ort sent an unexpected answer while it %s: %s", t->how->doing,
           cause->msg);
  return RUNTIME_BROKEN;
}

static size_t progress(const struct talk *t) {
  return t->sent + t->n_head + t->in->n_bytes;
}

// One step. If nothing comes: a look at who should send it, and then at what it sent at last.
static enum step step_or_death(struct talk *t, int wait_ms) {
  const size_t before = progress(t);
  enum step is = step(t, wait_ms);
  if (is != STEP_ON || progress(t) != before || !child_is_dead(&t->p->child)) return is;
  is = step(t, 0);
  return is == STEP_ON && progress(t) == before ? STEP_DEAD : is;
}

static bool is_too_large(const struct talk *t) {
  struct child_sizes now;
  return t->how->memory_bytes > 0 && child_sizes(&t->p->child, &now) &&
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
  const int64_t n = child_receive(&t->p->child, &byte, 1);
  if (n == 0) return RUNTIME_DONE;
  idle.doing = "had nothing to do";
  t->how = &idle;
  if (n < 0) return died(t);
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
