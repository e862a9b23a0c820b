// Re-hashing what a manifest names. Workers share a cursor over the shards; each reads its shard in
// pieces of 1 MiB with a state of its own, so memory is a megabyte a worker whatever the files'
// size.
//
// Damage is found and told, never fatal: the rest is still checked. A missing file is told once,
// with all of its shards counted; a short one shows in each shard that it no longer holds; a long
// one is told once for the bytes that nobody vouches for. The files are opened below the manifest's
// own folder by base name, and only regular files are read.
#include "threads.h"
#include "fs.h"
#include "manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20, TICK_MS = 50 };

struct audit {
  struct manifest m;
  int dir;
  const struct audit_options *options;
  struct audit_result *result;
  uint64_t *present; // bytes of each file, UINT64_MAX: cannot be read at all
  uint64_t total;
  _Atomic uint32_t next;
  _Atomic bool stopped;
  pthread_mutex_t mu; // guards result, told and the callbacks
  uint64_t told_ms;
};

static void tell(struct audit *a, const struct audit_damage *d, uint64_t shards) {
  pthread_mutex_lock(&a->mu);
  a->result->damaged += shards;
  if (a->options->damage) a->options->damage(a->options->ctx, d);
  pthread_mutex_unlock(&a->mu);
}

static void advance(struct audit *a, uint64_t bytes) {
  pthread_mutex_lock(&a->mu);
  a->result->bytes += bytes;
  const uint64_t now = threads_clock_ms();
  if (a->options->tick && (now - a->told_ms >= TICK_MS || a->result->bytes == a->total)) {
    a->told_ms = now;
    a->options->tick(a->options->ctx, a->result->bytes, a->total);
  }
  pthread_mutex_unlock(&a->mu);
}

static bool must_stop(struct audit *a) {
  if (threads_must_stop(a->options->stop)) a->stopped = true;
  return a->stopped;
}

struct hand { // one worker's
  struct audit *a;
  struct arena arena;
  struct digest *sha;
  uint8_t *buf;
};

// 0: hashed into *out; 1: stopped; else errno (ENODATA: the file ended early).
static int hash_shard(struct hand *h, int fd, const struct manifest_shard *s,
                      uint8_t out[DIGEST_BYTES]) {
  digest_start(h->sha);
  for (uint64_t at = 0; at < s->len;) {
    if (must_stop(h->a)) return -1;
    const size_t n = (size_t)min_u64(PIECE, s->len - at);
    const ssize_t got = pread(fd, h->buf, n, (off_t)(s->off + at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return ENODATA;
    digest_add(h->sha, h->buf, (size_t)got);
    advance(h->a, (uint64_t)got);
    at += (uint64_t)got;
  }
  digest_end(h->sha, out);
  return 0;
}

static void check_shard(struct hand *h, const struct manifest_shard *s) {
  struct audit *a = h->a;
  char what[160] = "digest differs";
  struct audit_damage d = {.file = a->m.files[s->file], .off = s->off, .len = s->len, .what = what};
  uint8_t is[DIGEST_BYTES];
  const int fd = openat(a->dir, d.file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  int why = fd < 0 ? errno : ENODATA;
  if (fd >= 0 && range_fits(s->off, s->len, a->present[s->file]))
    why = hash_shard(h, fd, s, is);
  else
    advance(a, s->len);
  if (fd >= 0) close(fd);
  if (why < 0 || (why == 0 && memcmp(is, s->digest, DIGEST_BYTES) == 0)) return;
  if (why == ENODATA)
    snprintf(what, sizeof what, "file is too short: %lu of %lu bytes", a->present[s->file],
             a->m.sizes[s->file]);
  else if (why > 0)
    snprintf(what, sizeof what, "cannot be read: %s", err_errno_words(why));
  tell(a, &d, 1);
}

static void audit_worker(void *ctx, uint32_t i) {
  (void)i;
  struct audit *a = ctx;
  struct hand h = {.a = a, .sha = digest_new()};
  h.buf = arena_alloc(&h.arena, PIECE);
  while (!must_stop(a)) {
    const uint32_t at = a->next++;
    if (at >= a->m.n_shards) break;
    const struct manifest_shard *s = &a->m.shards[at];
    if (a->present[s->file] != UINT64_MAX)
      check_shard(&h, s);
    else
      advance(a, s->len);
  }
  digest_free(h.sha);
  arena_free(&h.arena);
}

static uint64_t shards_of(const struct manifest *m, uint32_t file) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < m->n_shards; i++)
    n += m->shards[i].file == file;
  return n;
}

// Notes the size of a file, and tells what can be told without reading it.
static void look_at_file(struct audit *a, uint32_t file) {
  struct stat at;
  char what[160] = "file is missing";
  const uint64_t expected = a->m.sizes[file];
  struct audit_damage d = {.file = a->m.files[file], .len = expected, .what = what};
  a->present[file] = UINT64_MAX;
  if (fstatat(a->dir, d.file, &at, 0)) {
    if (errno != ENOENT) snprintf(what, sizeof what, "cannot be read: %s", err_errno_words(errno));
    tell(a, &d, shards_of(&a->m, file));
  } else if (!S_ISREG(at.st_mode)) {
    snprintf(what, sizeof what, "is not a regular file");
    tell(a, &d, shards_of(&a->m, file));
  } else {
    a->present[file] = (uint64_t)at.st_size;
    if (a->present[file] <= expected) return;
    d.off = expected;
    d.len = a->present[file] - expected;
    snprintf(what, sizeof what, "file is too long: %lu instead of %lu bytes", a->present[file],
             expected);
    tell(a, &d, 1);
  }
}

static void audit_all(struct audit *a) {
  struct audit_result *result = a->result;
  snprintf(result->subject, sizeof result->subject, "%s", a->m.subject);
  result->files = a->m.n_files;
  result->shards = a->m.n_shards;
  a->present = arena_alloc(&a->m.arena, a->m.n_files * sizeof *a->present + 1);
  for (uint32_t i = 0; i < a->m.n_files; i++) {
    a->total += a->m.sizes[i];
    look_at_file(a, i);
  }
  uint32_t jobs = a->options->jobs ? a->options->jobs : threads_processors();
  if (jobs > a->m.n_shards) jobs = a->m.n_shards;
  if (jobs > THREADS_MAX) jobs = THREADS_MAX;
  if (jobs > 0) threads_run(jobs, audit_worker, a);
}

static int open_folder_of(const char *path, const char **base, struct err *err) {
  const char *slash = strrchr(path, '/');
  char folder[4096] = ".";
  *base = slash ? slash + 1 : path;
  if (slash) snprintf(folder, sizeof folder, "%.*s", (int)(slash == path ? 1 : slash - path), path);
  const int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0)
    return err_errno(err, errno, ERR_INPUT, "cannot open the folder of '%s'", quote_str(path).s);
  return dir;
}

int manifest_audit(const char *path, const struct audit_options *options,
                   struct audit_result *result, struct err *err) {
  memset(result, 0, sizeof *result);
  const char *base;
  struct audit a = {.options = options, .result = result};
  a.dir = open_folder_of(path, &base, err);
  if (a.dir < 0) return -1;
  int bad = manifest_read_signed(&a.m, a.dir, base, path, options->manifest_sha256, err);
  if (!bad) {
    pthread_mutex_init(&a.mu, NULL);
    audit_all(&a);
    pthread_mutex_destroy(&a.mu);
    manifest_free(&a.m);
    if (a.stopped)
      bad = err_set(err, ERR_RETRY, "the audit of '%s' was interrupted", quote_str(path).s);
  }
  close(a.dir);
  return bad;
}
