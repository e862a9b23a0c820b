// One request at a time: read, done, answered. What cannot be done is answered by `failed`, and the service goes on; what
// is no message at all ends it, since nobody knows where the next one begins.
//
//   hello ─▶ ready      loads the library; once, before everything else
//   open ─▶ opened      run ─▶ ran      close ─▶ closed
//
// A message is read whole into memory that grows as its bytes come: a length that promises much costs nothing.
#include "ort/ort_serve.h"

#include "ort/ort_sessions.h"

#include <stdio.h>

enum { EXIT_WRONG = 70, PIECE = 1 << 20 };

struct service {
  struct file requests, answers;
  struct ort_files files;
  struct ort ort;
  struct ort_sessions *sessions; // NULL: there was no hello
  struct frame_buffer in, out;
  struct arena arena; // of one request and its answer
};

// 1: all n came; 0: the end came first, before any; -1: the end came in between, or an error.
static int read_all(struct file f, uint8_t *at, size_t n) {
  for (size_t done = 0; done < n;) {
    const int64_t got = file_read(f, at + done, n - done);
    if (got <= 0) return got == 0 && done == 0 ? 0 : -1;
    done += (size_t)got;
  }
  return 1;
}

// 1: a message; 0: the requests ended; -1: what came is none, which is said on stderr.
static int next_request(struct service *s, struct frame *f) {
  uint8_t head[FRAME_HEAD];
  struct err err = {0};
  enum frame_kind kind;
  uint64_t left;
  const int end = read_all(s->requests, head, sizeof head);
  if (end <= 0) return end;
  s->in.n_bytes = 0;
  arena_reset(&s->arena);
  if (frame_head(head, &kind, &left, &err) < 0) goto wrong;
  while (left > 0) {
    const size_t piece = (size_t)min_u64(left, PIECE);
    TABLE_ROOM(&s->in, bytes, piece);
    if (read_all(s->requests, s->in.bytes + s->in.n_bytes, piece) <= 0) return -1;
    s->in.n_bytes += piece;
    left -= piece;
  }
  if (frame_decode(f, kind, span_of(s->in.bytes, s->in.n_bytes), &s->arena, &err) < 0) goto wrong;
  return 1;
wrong:
  fprintf(stderr, "weir-ort: %s\n", err.msg);
  return -1;
}

static int serve_hello(struct service *s, const struct frame_of_hello *asked, struct frame *out,
                       struct ort_failure *f) {
  if (s->sessions) return ort_fail(f, FRAME_MISUSED, "hello was sent twice");
  if (asked->protocol != FRAME_PROTOCOL)
    return ort_fail(f, FRAME_MISUSED, "this weir-ort speaks version %d of the protocol, not %s",
                    FRAME_PROTOCOL, decimal(asked->protocol).s);
  if (ort_open(&s->ort, asked->library, f) < 0) return -1;
  struct ort_sessions *sessions = ort_sessions_new(&s->ort, s->files);
  if (ort_sessions_provide(sessions, asked->provider, f) < 0) return -1;
  s->sessions = sessions;
  out->kind = FRAME_ready;
  out->ready =
      (struct frame_of_ready){FRAME_PROTOCOL, s->ort.version, ORT_API_VERSION, s->ort.path};
  return 0;
}

static int serve_close(struct service *s, const struct frame_of_close *asked, struct frame *out,
                       struct ort_failure *f) {
  out->kind = FRAME_closed;
  out->closed.session = asked->session;
  return ort_sessions_close(s->sessions, asked->session, f);
}

static int serve(struct service *s, const struct frame *in, struct frame *out,
                 struct ort_failure *f) {
  if (in->kind == FRAME_hello) return serve_hello(s, &in->hello, out, f);
  if (!s->sessions) return ort_fail(f, FRAME_MISUSED, "a request was sent before hello");
  switch (in->kind) {
  case FRAME_open:
    out->kind = FRAME_opened;
    return ort_sessions_open(s->sessions, &in->open, &s->arena, &out->opened, f);
  case FRAME_run:
    out->kind = FRAME_ran;
    return ort_sessions_run(s->sessions, &in->run, &s->arena, &out->ran, f);
  case FRAME_close: return serve_close(s, &in->close, out, f);
  default:
    return ort_fail(f, FRAME_MISUSED, "'%s' is an answer, not a request",
                    frame_kind_words(in->kind).s);
  }
}

static int answer(struct service *s, struct frame *out, const struct ort_failure *f) {
  struct err err = {0};
  if (f->code) {
    out->kind = FRAME_failed;
    out->failed = (struct frame_of_failed){f->code, f->text};
  }
  if (frame_encode(&s->out, out, &err) < 0) {
    out->kind = FRAME_failed;
    out->failed = (struct frame_of_failed){FRAME_NO_ROOM, err.msg};
    if (frame_encode(&s->out, out, &err) < 0) return -1;
  }
  return file_write_all(s->answers, s->out.bytes, s->out.n_bytes);
}

int ort_serve(struct file requests, struct file answers, struct ort_files files) {
  static struct service s; // of a process that serves one client
  s.requests = requests;
  s.answers = answers;
  s.files = files;
  for (;;) {
    struct frame in, out = {0};
    static struct ort_failure failure;
    failure.code = 0;
    const int came = next_request(&s, &in);
    if (came <= 0) return came == 0 ? 0 : EXIT_WRONG;
    if (serve(&s, &in, &out, &failure) < 0 && !failure.code)
      ort_fail(&failure, FRAME_REFUSED, "no reason was given");
    if (answer(&s, &out, &failure) < 0) return EXIT_WRONG;
  }
}
