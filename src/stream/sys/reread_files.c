// SHA-256 of a whole file, as other tools have it, cannot be put together from those of its units: it takes a read in
// order. Units are hashed along with it, so that one read says both, and that they are of the same bytes.
#include "stream/sys/reread_files.h"

#include "base/arena.h"
#include "resources/resources.h"
#include "stream/sys/threads.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

enum { PIECE = 1 << 20 };

struct team {
  struct reread_file *files;
  uint32_t n;
  const struct reread_work *work;
  _Atomic uint32_t next;
  pthread_mutex_t mu; // guards the rest, and the callback
  uint64_t done, total;
  struct err err; // the first
};

struct hand {
  struct team *team;
  struct digest *whole, *part;
  uint8_t *buf;
};

static bool goes_on(struct team *t) {
  resources_lock(&t->mu);
  const bool bad = t->err.kind != ERR_NONE;
  resources_unlock(&t->mu);
  return !bad && !threads_must_stop(t->work->stop);
}

static void tell_progress(struct team *t, uint64_t bytes) {
  resources_lock(&t->mu);
  t->done += bytes;
  if (t->work->tick) t->work->tick(t->work->ctx, t->done, t->total);
  resources_unlock(&t->mu);
}

static void cannot_read(struct team *t, const char *name, int errnum) {
  resources_lock(&t->mu);
  if (errnum)
    err_fill_errno(&t->err, errnum, ERR_INPUT, "cannot read '%s'", quote_str(name).s);
  else
    err_fill(&t->err, ERR_INPUT, "'%s' became shorter while it was read", quote_str(name).s);
  resources_unlock(&t->mu);
}

// With `part` into both digests.
static bool hash_part(struct hand *h, const char *name, const struct reread_known *p, bool part) {
  for (uint64_t at = 0; at < p->len;) {
    if (!goes_on(h->team)) return false;
    const size_t n = (size_t)min_u64(PIECE, p->len - at);
    const int64_t got = file_read_at(p->file, h->buf, n, p->off + at);
    if (got <= 0) {
      cannot_read(h->team, name, got < 0 ? errno : 0);
      return false;
    }
    digest_add(h->whole, h->buf, (size_t)got);
    if (part) digest_add(h->part, h->buf, (size_t)got);
    tell_progress(h->team, (uint64_t)got);
    at += (uint64_t)got;
  }
  return true;
}

static bool hash_file(struct hand *h, struct reread_file *f) {
  uint8_t is[DIGEST_BYTES];
  const bool single = f->n_parts == 1; // then both digests are one
  digest_start(h->whole);
  for (uint32_t i = 0; i < f->n_parts; i++) {
    struct reread_known *p = &f->parts[i];
    const bool part = p->sha256 && !single;
    if (part) digest_start(h->part);
    if (!hash_part(h, f->name, p, part)) return false;
    if (!part) continue;
    digest_end(h->part, is);
    p->differs = memcmp(is, p->sha256, DIGEST_BYTES) != 0;
  }
  digest_end(h->whole, f->sha256);
  if (single && f->parts->sha256)
    f->parts->differs = memcmp(f->sha256, f->parts->sha256, DIGEST_BYTES) != 0;
  return true;
}

static void hash_some(void *ctx, uint32_t i) {
  (void)i;
  struct team *t = ctx;
  struct arena scratch = {0};
  struct hand h = {.team = t, .whole = digest_new(), .part = digest_new()};
  h.buf = arena_alloc(&scratch, PIECE);
  for (uint32_t at; (at = t->next++) < t->n && hash_file(&h, &t->files[at]);) {
  }
  digest_free(h.whole);
  digest_free(h.part);
  arena_free(&scratch);
}

int reread_files(struct reread_file *files, uint32_t n, const struct reread_work *work,
                 struct err *err) {
  struct team t = {.files = files, .n = n, .work = work};
  uint32_t jobs = work->jobs ? work->jobs : threads_processors();
  if (jobs > n) jobs = n;
  if (jobs > THREADS_MAX) jobs = THREADS_MAX;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < files[i].n_parts; k++)
      t.total += files[i].parts[k].len;
  pthread_mutex_init(&t.mu, NULL);
  if (jobs > 0) threads_run(jobs, hash_some, &t);
  pthread_mutex_destroy(&t.mu);
  if (t.err.kind != ERR_NONE) {
    *err = t.err;
    return -1;
  }
  if (threads_must_stop(work->stop))
    return err_set(err, ERR_RETRY, "interrupted while files were read");
  return 0;
}
