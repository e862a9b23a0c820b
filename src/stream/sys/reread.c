// A unit is hashed in order, but its later parts may have been made by other workers: the unit's
// owner reads those back. Tensors are read back where each is to have a digest of its own, and a
// file that lies where a seal wants to put one, to see whether it is the same. Outputs
// are read through their own descriptors with ordinary calls, whatever engine wrote them: what is
// wanted here is what the file system gives to anybody who asks. It comes from the page cache, as a
// rule: then hashing is what takes the time. So where there are many ranges, a worker reads several at a
// time and hashes them side by side (lanes.h), as many as leave the others as much to do; a range that is
// alone goes through libcrypto.
#include "stream/sys/reread.h"

#include "base/arena.h"
#include "platform/machine.h"
#include "resources/resources.h"
#include "stream/sys/lanes.h"
#include "stream/sys/threads.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

// At least one byte and at most n; 0: errno says why there is none (ENODATA: the file has ended).
static size_t read_piece(struct file f, uint8_t *buf, size_t n, uint64_t off) {
  const int64_t got = file_read_at(f, buf, n, off);
  if (got == 0) errno = ENODATA;
  return got > 0 ? (size_t)got : 0;
}

int reread_hash(const struct reread *range, uint8_t *buf, size_t n, struct err *err) {
  for (uint64_t at = 0; at < range->len;) {
    if (range->go_on && !range->go_on(range->ctx)) return 1;
    const size_t got =
        read_piece(range->file, buf, (size_t)min_u64(n, range->len - at), range->off + at);
    if (got == 0) return reread_failed(range->name, range->off + at, errno, err);
    range->add(range->ctx, buf, got);
    at += got;
  }
  return 0;
}

int reread_failed(const char *name, uint64_t at, int why, struct err *err) {
  return err_errno(err, why == ENODATA ? EIO : why, ERR_IO, "cannot read back output '%s' at %s",
                   quote_str(name).s, decimal(at).s);
}

// ---- many ----

// Buffers of a worker: all together within the second level of its cache.
enum { TICK_MS = 50, PIECE_BYTES = 128 << 10 };

struct team {
  struct reread_known *rows;
  uint32_t n, jobs;
  const struct reread_work *work;
  _Atomic uint32_t next, unfinished;
  pthread_mutex_t mu; // guards the rest, and the callbacks
  uint64_t done, total, told_ms;
};

// A row that is being hashed, in a lane.
struct reading {
  uint32_t row;
  struct file file;
  uint64_t at;      // in the row
  uint8_t *buf;     // PIECE_BYTES
  struct span left; // of what was read, to be hashed
  struct lane lane;
};

struct hand { // one worker's
  struct team *t;
  size_t width, n;
  struct reading *reading[LANES_MAX]; // the first n: each has a row
  struct reading room[LANES_MAX];
  struct digest *sha;
};

static bool not_stopped(const struct team *t) {
  return !threads_must_stop(t->work->stop);
}

static void advance(struct team *t, uint64_t bytes) {
  if (bytes == 0) return;
  resources_lock(&t->mu);
  t->done += bytes;
  const uint64_t now = machine_clock_ms();
  if (t->work->tick && (now - t->told_ms >= TICK_MS || t->done == t->total)) {
    t->told_ms = now;
    t->work->tick(t->work->ctx, t->done, t->total);
  }
  resources_unlock(&t->mu);
}

static struct file open_row(const struct team *t, uint32_t row) {
  return t->work->open ? t->work->open(t->work->ctx, row) : t->rows[row].file;
}

static void close_row(const struct team *t, struct file f) {
  if (t->work->open) file_close(&f);
}

// Nothing more is read of it. sum: NULL if it could not be read, and why.
static void finish(struct team *t, const struct reading *r, const uint8_t *sum, int why) {
  struct reread_known *row = &t->rows[r->row];
  close_row(t, r->file);
  advance(t, row->len - r->at);
  row->why = sum ? 0 : why;
  row->differs = !sum || (row->sha256 && memcmp(sum, row->sha256, DIGEST_BYTES) != 0);
  t->unfinished--;
  if (!t->work->done) return;
  resources_lock(&t->mu);
  t->work->done(t->work->ctx, r->row, sum, why);
  resources_unlock(&t->mu);
}

// The next bytes of a row; false as read_piece.
static bool read_on(struct team *t, struct reading *r) {
  const struct reread_known *row = &t->rows[r->row];
  const size_t got =
      read_piece(r->file, r->buf, (size_t)min_u64(PIECE_BYTES, row->len - r->at), row->off + r->at);
  r->left = span_of(r->buf, got);
  r->at += got;
  advance(t, got);
  return got > 0;
}

static bool has_ended(const struct team *t, const struct reading *r) {
  return r->at == t->rows[r->row].len;
}

static void compare_alone(struct hand *h, struct reading *r) {
  struct team *t = h->t;
  uint8_t sum[DIGEST_BYTES];
  digest_start(h->sha);
  while (!has_ended(t, r)) {
    if (!not_stopped(t)) {
      close_row(t, r->file);
      return;
    }
    if (!read_on(t, r)) {
      finish(t, r, NULL, errno);
      return;
    }
    digest_add(h->sha, r->left.at, r->left.n);
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
  for (size_t share; h->n < (share = fair_share(h)) && t->next < t->n && not_stopped(t);) {
    const uint32_t row = t->next++;
    if (row >= t->n) return;
    struct reading *r = h->reading[h->n];
    *r = (struct reading){.row = row, .file = open_row(t, row), .buf = r->buf};
    if (!file_is_open(r->file)) {
      finish(t, r, NULL, t->work->open ? errno : EBADF);
    } else if (share == 1) {
      compare_alone(h, r);
    } else {
      lane_start(&r->lane);
      h->n++;
    }
  }
}

// The row is done with, and the last one takes its place: so they are looked at from the last to the first.
static void let_go(struct hand *h, size_t i, const uint8_t *sum, int why) {
  struct reading *r = h->reading[i];
  h->reading[i] = h->reading[--h->n];
  h->reading[h->n] = r;
  finish(h->t, r, sum, why);
}

// Each that is left has bytes to hash then.
static void feed(struct hand *h) {
  uint8_t sum[DIGEST_BYTES];
  for (size_t i = h->n; i-- > 0;) {
    struct reading *r = h->reading[i];
    if (r->left.n > 0) continue;
    if (has_ended(h->t, r)) {
      lane_end(&r->lane, sum);
      let_go(h, i, sum, 0);
    } else if (!read_on(h->t, r)) {
      let_go(h, i, NULL, errno);
    }
  }
}

static void hash(struct hand *h) {
  struct lane *lanes[LANES_MAX];
  struct span left[LANES_MAX];
  for (size_t i = 0; i < h->n; i++) {
    lanes[i] = &h->reading[i]->lane;
    left[i] = h->reading[i]->left;
  }
  if (h->n > 0) lanes_add(lanes, left, h->n);
  for (size_t i = 0; i < h->n; i++)
    h->reading[i]->left = left[i];
}

static void compare_some(void *ctx, uint32_t k) {
  (void)k;
  struct arena scratch = {0};
  struct hand h = {.t = ctx, .width = lanes_width(), .sha = digest_new()};
  for (size_t i = 0; i < h.width; i++) {
    h.reading[i] = &h.room[i];
    h.room[i].buf = arena_alloc(&scratch, PIECE_BYTES);
  }
  for (take_rows(&h); h.n > 0 && not_stopped(h.t); take_rows(&h)) {
    feed(&h);
    hash(&h);
  }
  for (size_t i = 0; i < h.n; i++)
    close_row(h.t, h.reading[i]->file);
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
