// Reading back what was written, to hash it.
//
// A unit is hashed in order, but its later parts may have been made by other workers: the unit's
// owner reads those back. Tensors are read back where each is to have a digest of its own, and a
// file that lies where a seal wants to put one, to see whether it is the same. Outputs
// are read through their own descriptors with ordinary calls, whatever engine wrote them: what is
// wanted here is what the file system gives to anybody who asks. It comes from the page cache, as a
// rule: then hashing is what takes the time. So where there are many ranges, a worker reads several at a
// time and hashes them side by side (lanes.h), as many as leave the others as much to do; a range that is
// alone goes through libcrypto.
#include "reread.h"

#include "lanes.h"
#include "threads.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

// At least one byte and at most n; 0: errno says why there is none (ENODATA: the file has ended).
static size_t read_piece(int fd, uint8_t *buf, size_t n, uint64_t off) {
  for (;;) {
    const ssize_t got = pread(fd, buf, n, (off_t)off);
    if (got > 0) return (size_t)got;
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = ENODATA;
    return 0;
  }
}

int reread_hash(const struct reread *range, struct digest *sha, uint8_t *buf, size_t n,
                struct err *err) {
  for (uint64_t at = 0; at < range->len;) {
    if (range->go_on && !range->go_on(range->ctx)) return 1;
    const size_t got =
        read_piece(range->fd, buf, (size_t)min_u64(n, range->len - at), range->off + at);
    if (got == 0) return reread_failed(range->name, range->off + at, errno, err);
    digest_add(sha, buf, got);
    at += got;
  }
  return 0;
}

int reread_failed(const char *name, uint64_t at, int why, struct err *err) {
  return err_errno(err, why == ENODATA ? EIO : why, ERR_IO, "cannot read back output '%s' at %lu",
                   quote_str(name).s, at);
}

// ---- many ----

enum { TICK_MS = 50 };

struct team {
  struct reread_known *rows;
  uint32_t n, jobs;
  const struct reread_work *work;
  _Atomic uint32_t next, unfinished;
  pthread_mutex_t mu; // guards the rest, and the callbacks
  uint64_t done, total, told_ms;
};

// The row of a lane.
struct reading {
  uint32_t row;
  int fd;
  uint64_t at; // in the row
};

struct hand { // one worker's
  struct team *t;
  size_t width;
  struct lanes lanes;
  struct reading reading[LANES_MAX]; // as the lanes lie
  struct digest *sha;
};

static bool not_stopped(const struct team *t) {
  return !threads_must_stop(t->work->stop);
}

static void advance(struct team *t, uint64_t bytes) {
  if (bytes == 0) return;
  pthread_mutex_lock(&t->mu);
  t->done += bytes;
  const uint64_t now = threads_clock_ms();
  if (t->work->tick && (now - t->told_ms >= TICK_MS || t->done == t->total)) {
    t->told_ms = now;
    t->work->tick(t->work->ctx, t->done, t->total);
  }
  pthread_mutex_unlock(&t->mu);
}

static int open_row(const struct team *t, uint32_t row) {
  return t->work->open ? t->work->open(t->work->ctx, row) : t->rows[row].fd;
}

static void close_row(const struct team *t, int fd) {
  if (t->work->open && fd >= 0) close(fd);
}

// Nothing more is read of it. sum: NULL if it could not be read, and why.
static void finish(struct team *t, const struct reading *r, const uint8_t *sum, int why) {
  struct reread_known *row = &t->rows[r->row];
  close_row(t, r->fd);
  advance(t, row->len - r->at);
  row->differs = !sum || (row->sha256 && memcmp(sum, row->sha256, DIGEST_BYTES) != 0);
  t->unfinished--;
  if (!t->work->done) return;
  pthread_mutex_lock(&t->mu);
  t->work->done(t->work->ctx, r->row, sum, why);
  pthread_mutex_unlock(&t->mu);
}

// The next bytes of a row; 0 as read_piece.
static size_t read_on(struct team *t, struct reading *r, uint8_t *buf, size_t n) {
  const struct reread_known *row = &t->rows[r->row];
  const size_t got =
      read_piece(r->fd, buf, (size_t)min_u64(n, row->len - r->at), row->off + r->at);
  r->at += got;
  advance(t, got);
  return got;
}

static void compare_alone(struct hand *h, struct reading *r) {
  struct team *t = h->t;
  uint8_t sum[DIGEST_BYTES], *buf = h->lanes.lane[0].bytes;
  digest_start(h->sha);
  while (r->at < t->rows[r->row].len) {
    if (!not_stopped(t)) {
      close_row(t, r->fd);
      return;
    }
    const size_t got = read_on(t, r, buf, LANE_BYTES);
    if (got == 0) {
      finish(t, r, NULL, errno);
      return;
    }
    digest_add(h->sha, buf, got);
  }
  digest_end(h->sha, sum);
  finish(t, r, sum, 0);
}

// How many rows this worker should have: what is left is everybody's.
static size_t fair_share(const struct hand *h) {
  const uint64_t left = h->t->unfinished, jobs = h->t->jobs;
  return (size_t)min_u64(h->width, (left + jobs - 1) / jobs);
}

static void take_rows(struct hand *h) {
  struct team *t = h->t;
  for (size_t share; h->lanes.n < (share = fair_share(h)) && t->next < t->n && not_stopped(t);) {
    struct reading r = {.row = t->next++};
    if (r.row >= t->n) return;
    r.fd = open_row(t, r.row);
    if (r.fd < 0) {
      finish(t, &r, NULL, t->work->open ? errno : EBADF);
    } else if (share == 1) {
      compare_alone(h, &r);
    } else {
      h->reading[h->lanes.n] = r;
      lanes_add(&h->lanes);
    }
  }
}

// The lane goes, and the last one takes its place: so lanes are looked at from the last to the first.
static void let_go(struct hand *h, size_t i, const uint8_t *sum, int why) {
  const struct reading r = h->reading[i];
  h->reading[i] = h->reading[h->lanes.n];
  finish(h->t, &r, sum, why);
}

static void feed(struct hand *h) {
  for (size_t i = h->lanes.n; i-- > 0;) {
    struct lane *lane = &h->lanes.lane[i];
    while (lane_is_hungry(lane)) {
      size_t n;
      uint8_t *room = lane_room(lane, &n);
      if (h->reading[i].at == h->t->rows[h->reading[i].row].len) {
        lane_end(lane);
      } else if ((n = read_on(h->t, &h->reading[i], room, n)) > 0) {
        lane_put(lane, n);
      } else {
        const int why = errno;
        lanes_drop(&h->lanes, i);
        let_go(h, i, NULL, why);
        break;
      }
    }
  }
}

static void take_digests(struct hand *h) {
  uint8_t sum[DIGEST_BYTES];
  for (size_t i = h->lanes.n; i-- > 0;) {
    if (!lanes_is_done(&h->lanes, i)) continue;
    lanes_take(&h->lanes, i, sum);
    let_go(h, i, sum, 0);
  }
}

static void compare_some(void *ctx, uint32_t i) {
  (void)i;
  struct arena scratch = {0};
  struct hand h = {.t = ctx, .width = lanes_width(), .sha = digest_new()};
  lanes_init(&h.lanes, h.width, &scratch);
  for (take_rows(&h); h.lanes.n > 0 && not_stopped(h.t); take_rows(&h)) {
    feed(&h);
    lanes_hash(&h.lanes);
    take_digests(&h);
  }
  for (size_t k = 0; k < h.lanes.n; k++)
    close_row(h.t, h.reading[k].fd);
  digest_free(h.sha);
  arena_free(&scratch);
}

bool reread_compare(struct reread_known *rows, uint32_t n, const struct reread_work *work) {
  struct team t = {.rows = rows, .n = n, .work = work, .unfinished = n};
  t.jobs = work->jobs ? work->jobs : threads_processors();
  if (t.jobs > n) t.jobs = n;
  if (t.jobs > THREADS_MAX) t.jobs = THREADS_MAX;
  for (uint32_t i = 0; i < n; i++)
    t.total += rows[i].len;
  pthread_mutex_init(&t.mu, NULL);
  if (t.jobs > 0) threads_run(t.jobs, compare_some, &t);
  pthread_mutex_destroy(&t.mu);
  return not_stopped(&t);
}
