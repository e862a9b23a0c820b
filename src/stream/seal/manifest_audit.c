// Re-hashing what a manifest names: its shards are rows of reread_compare, opened one at a time.
//
// Damage is found and told, never fatal: the rest is still checked. A missing file is told once,
// with all of its shards counted; a short one shows in each shard that it no longer holds; a long
// one is told once for the bytes that nobody vouches for. The files are opened below the manifest's
// own folder by base name, and only regular files are read.
#include "fs.h"
#include "manifest.h"
#include "reread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct audit {
  struct manifest m;
  int dir;
  const struct audit_options *options;
  struct audit_result *result;
  uint64_t *present; // bytes of each file, UINT64_MAX: cannot be read at all
  struct reread_known *rows;
};

static void tell(struct audit *a, const struct audit_damage *d, uint64_t shards) {
  a->result->damaged += shards;
  if (a->options->damage) a->options->damage(a->options->ctx, d);
}

static int open_shard(void *ctx, uint32_t i) {
  const struct audit *a = ctx;
  const struct manifest_shard *s = &a->m.shards[i];
  const bool fits = range_fits(s->off, s->len, a->present[s->file]);
  if (a->present[s->file] != UINT64_MAX && fits)
    return openat(a->dir, a->m.files[s->file], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  errno = ENODATA;
  return -1;
}

static void shard_done(void *ctx, uint32_t i, const uint8_t *sha256, int why) {
  (void)sha256;
  struct audit *a = ctx;
  const struct manifest_shard *s = &a->m.shards[i];
  char what[160] = "digest differs";
  if (!a->rows[i].differs || a->present[s->file] == UINT64_MAX) return; // the latter is told already
  if (why == ENODATA)
    snprintf(what, sizeof what, "file is too short: %lu of %lu bytes", a->present[s->file],
             a->m.sizes[s->file]);
  else if (why != 0)
    snprintf(what, sizeof what, "cannot be read: %s", err_errno_words(why));
  tell(a,
       &(struct audit_damage){
           .file = a->m.files[s->file], .off = s->off, .len = s->len, .what = what},
       1);
}

static void tick(void *ctx, uint64_t done, uint64_t total) {
  const struct audit *a = ctx;
  if (a->options->tick) a->options->tick(a->options->ctx, done, total);
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

// False if it was stopped.
static bool audit_all(struct audit *a) {
  struct audit_result *result = a->result;
  const struct reread_work work = {.jobs = a->options->jobs,
                                   .stop = a->options->stop,
                                   .open = open_shard,
                                   .done = shard_done,
                                   .tick = tick,
                                   .ctx = a};
  snprintf(result->subject, sizeof result->subject, "%s", a->m.subject);
  result->files = a->m.n_files;
  result->shards = a->m.n_shards;
  a->present = arena_alloc(&a->m.arena, a->m.n_files * sizeof *a->present + 1);
  a->rows = arena_alloc(&a->m.arena, a->m.n_shards * sizeof *a->rows + 1);
  for (uint32_t i = 0; i < a->m.n_files; i++)
    look_at_file(a, i);
  for (uint32_t i = 0; i < a->m.n_shards; i++) {
    const struct manifest_shard *s = &a->m.shards[i];
    a->rows[i] = (struct reread_known){.fd = -1, .off = s->off, .len = s->len, .sha256 = s->digest};
    result->bytes += s->len;
  }
  return reread_compare(a->rows, a->m.n_shards, &work);
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
    if (!audit_all(&a))
      bad = err_set(err, ERR_RETRY, "the audit of '%s' was interrupted", quote_str(path).s);
    manifest_free(&a.m);
  }
  close(a.dir);
  return bad;
}
