// Reading back what was written, to hash it.
//
// A unit is hashed in order, but its later parts may have been made by other workers: the unit's
// owner reads those back. Tensors are read back where each is to have a digest of its own, and a
// file that lies where a seal wants to put one, to see whether it is the same. Outputs
// are read through their own descriptors with ordinary calls, whatever engine wrote them: what is
// wanted here is what the file system gives to anybody who asks. It comes from the page cache, as a
// rule.
#include "reread.h"

#include "arena.h"
#include "threads.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

int reread_hash(const struct reread *range, struct digest *sha, uint8_t *buf, size_t n,
                struct err *err) {
  for (uint64_t at = 0; at < range->len;) {
    if (range->go_on && !range->go_on(range->ctx)) return 1;
    const ssize_t got =
        pread(range->fd, buf, (size_t)min_u64(n, range->len - at), (off_t)(range->off + at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return err_errno(err, got < 0 ? errno : EIO, ERR_IO, "cannot read back output '%s' at %lu",
                       quote_str(range->name).s, (range->off + at));
    digest_add(sha, buf, (size_t)got);
    at += (uint64_t)got;
  }
  return 0;
}

// ---- many ----

enum { PIECE = 1 << 20 };

struct team {
  struct reread_known *rows;
  uint32_t n;
  const struct reread_work *work;
  _Atomic uint32_t next;
  pthread_mutex_t mu; // guards the rest, and the callback
  uint64_t done, total;
};

static bool not_stopped(void *ctx) {
  const struct team *t = ctx;
  return !threads_must_stop(t->work->stop);
}

static void tell(struct team *t, uint64_t bytes) {
  pthread_mutex_lock(&t->mu);
  t->done += bytes;
  if (t->work->tick) t->work->tick(t->work->ctx, t->done, t->total);
  pthread_mutex_unlock(&t->mu);
}

static void compare_some(void *ctx, uint32_t i) {
  (void)i;
  struct team *t = ctx;
  struct arena scratch = {0};
  struct digest *sha = digest_new();
  uint8_t *buf = arena_alloc(&scratch, PIECE), is[DIGEST_BYTES];
  for (uint32_t at; not_stopped(t) && (at = t->next++) < t->n;) {
    struct reread_known *row = &t->rows[at];
    const struct reread range = {.fd = row->fd,
                                 .name = "",
                                 .off = row->off,
                                 .len = row->len,
                                 .go_on = not_stopped,
                                 .ctx = t};
    struct err unread = {0};
    digest_start(sha);
    const int bad = row->fd < 0 ? -1 : reread_hash(&range, sha, buf, PIECE, &unread);
    digest_end(sha, is);
    row->differs = bad || memcmp(is, row->sha256, DIGEST_BYTES) != 0;
    tell(t, row->len);
  }
  digest_free(sha);
  arena_free(&scratch);
}

bool reread_compare(struct reread_known *rows, uint32_t n, const struct reread_work *work) {
  struct team t = {.rows = rows, .n = n, .work = work};
  uint32_t jobs = work->jobs ? work->jobs : threads_processors();
  if (jobs > n) jobs = n;
  if (jobs > THREADS_MAX) jobs = THREADS_MAX;
  for (uint32_t i = 0; i < n; i++)
    t.total += rows[i].len;
  pthread_mutex_init(&t.mu, NULL);
  if (jobs > 0) threads_run(jobs, compare_some, &t);
  pthread_mutex_destroy(&t.mu);
  return not_stopped(&t);
}
