// Re-hashing what a manifest names: its shards are rows of reread_compare, opened one at a time.
//
// Damage is found and told, never fatal: the rest is still checked. A missing file is told once,
// with all of its shards counted; a short one shows in each shard that it no longer holds; a long
// one is told once for the bytes that nobody vouches for. The files are opened below the manifest's
// own folder by base name, and only regular files are read. The .onnx may be a link, as the user may have
// named one; of the others links are followed as a load of the model follows them (beneath.h): one that
// leads elsewhere ends the audit.
#include "stream/io/beneath.h"
#include "stream/seal/manifest.h"
#include "stream/sys/reread.h"

#include <errno.h>
#include <stdio.h>

struct audit {
  const struct manifest *m;
  struct arena arena;
  struct folder dir;
  const struct audit_options *options;
  struct audit_result *result;
  struct beneath_how how; // for links of data files
  bool *linked;           // of each file: is it a link of that kind?
  uint64_t *present;      // bytes of each file, UINT64_MAX: cannot be read at all
  struct reread_known *rows;
};

static void tell_damage(struct audit *a, const struct audit_damage *d, uint64_t shards) {
  a->result->damaged += shards;
  if (a->options->damage) a->options->damage(a->options->ctx, d);
}

static bool is_link(struct folder dir, const char *name) {
  struct entry_facts at;
  return entry_look(dir, name, FILE_NO_LINK, &at) == 0 && at.kind == ENTRY_LINK;
}

// A data file that is a link.
static int open_link(const struct audit *a, const char *name, struct entry_facts *at,
                     struct file *fd, struct err *err) {
  const int rc = beneath_open(a->dir, name, a->how, quote_str(name).s, at, fd, err);
  if (rc == -2)
    return err_set(err, ERR_RETRY, "'%s' cannot be opened: too many open files", quote_str(name).s);
  if (rc == 0 || err->kind != ERR_PERMISSION) return rc;
  err->reason = REASON_NONE;
  return err_hint(err,
                  "replace the link by the file: a manifest does not allow links to other folders");
}

static struct file open_shard(void *ctx, uint32_t i) {
  const struct audit *a = ctx;
  const struct manifest_shard *s = &a->m->shards[i];
  const char *name = a->m->files[s->file];
  const bool fits = range_fits(s->off, s->len, a->present[s->file]);
  struct err ignored = {0}; // it could be opened before
  struct entry_facts at;
  struct file fd = NO_FILE;
  if (a->present[s->file] == UINT64_MAX || !fits)
    errno = ENODATA;
  else if (!a->linked[s->file])
    fd = file_open(a->dir, name, FILE_NO_WAIT);
  else if (open_link(a, name, &at, &fd, &ignored))
    errno = ENODATA;
  return fd;
}

static void shard_done(void *ctx, uint32_t i, const uint8_t *sha256, int why) {
  (void)sha256;
  struct audit *a = ctx;
  const struct manifest_shard *s = &a->m->shards[i];
  char what[160] = "digest differs";
  if (!a->rows[i].differs || a->present[s->file] == UINT64_MAX)
    return; // the latter is told already
  if (why == ENODATA)
    snprintf(what, sizeof what, "file is too short: %s of %s bytes", decimal(a->present[s->file]).s,
             decimal(a->m->sizes[s->file]).s);
  else if (why != 0)
    snprintf(what, sizeof what, "cannot be read: %s", err_errno_words(why));
  tell_damage(a,
              &(struct audit_damage){
                  .file = a->m->files[s->file], .off = s->off, .len = s->len, .what = what},
              1);
}

static void tick(void *ctx, uint64_t done, uint64_t total) {
  const struct audit *a = ctx;
  if (a->options->tick) a->options->tick(a->options->ctx, done, total);
}

// What a link leads to: 0, or an errno in *why; -1 where it must not be followed.
static int look_at_link(const struct audit *a, const char *name, struct entry_facts *at, int *why,
                        struct err *err) {
  struct err failed = {0};
  struct file fd;
  *why = 0;
  if (open_link(a, name, at, &fd, &failed) == 0) {
    file_close(&fd);
    return 0;
  }
  if (failed.kind == ERR_PERMISSION || failed.kind == ERR_RETRY) {
    *err = failed;
    return -1;
  }
  *why = entry_look(a->dir, name, 0, at) ? errno : 0;
  return 0;
}

// Notes the size of a file, and tells what can be told without reading it.
static int look_at_file(struct audit *a, uint32_t file, struct err *err) {
  struct entry_facts at;
  char what[160] = "file is missing";
  int why;
  const uint64_t expected = a->m->sizes[file], shards = a->m->first[file + 1] - a->m->first[file];
  struct audit_damage d = {.file = a->m->files[file], .len = expected, .what = what};
  a->present[file] = UINT64_MAX;
  a->linked[file] = strcmp(d.file, a->m->subject) != 0 && is_link(a->dir, d.file);
  if (!a->linked[file])
    why = entry_look(a->dir, d.file, 0, &at) ? errno : 0;
  else if (look_at_link(a, d.file, &at, &why, err))
    return -1;
  if (why != 0) {
    if (why != ENOENT) snprintf(what, sizeof what, "cannot be read: %s", err_errno_words(why));
    tell_damage(a, &d, shards);
  } else if (at.kind != ENTRY_FILE) {
    snprintf(what, sizeof what, "is not a regular file");
    tell_damage(a, &d, shards);
  } else {
    a->present[file] = at.size;
    if (a->present[file] <= expected) return 0;
    d.off = expected;
    d.len = a->present[file] - expected;
    snprintf(what, sizeof what, "file is too long: %s instead of %s bytes",
             decimal(a->present[file]).s, decimal(expected).s);
    tell_damage(a, &d, 1);
  }
  return 0;
}

static int audit_all(struct audit *a, struct err *err) {
  struct audit_result *result = a->result;
  const struct reread_work work = {.jobs = a->options->jobs,
                                   .stop = a->options->stop,
                                   .open = open_shard,
                                   .done = shard_done,
                                   .tick = tick,
                                   .ctx = a};
  result->files = a->m->n_files;
  result->shards = a->m->n_shards;
  a->present = arena_alloc(&a->arena, a->m->n_files * sizeof *a->present + 1);
  a->linked = arena_alloc(&a->arena, a->m->n_files * sizeof *a->linked + 1);
  a->rows = arena_alloc(&a->arena, a->m->n_shards * sizeof *a->rows + 1);
  for (uint32_t i = 0; i < a->m->n_files; i++)
    if (look_at_file(a, i, err)) return -1;
  for (uint32_t i = 0; i < a->m->n_shards; i++) {
    const struct manifest_shard *s = &a->m->shards[i];
    a->rows[i] = (struct reread_known){.off = s->off, .len = s->len, .sha256 = s->digest};
    result->bytes += s->len;
  }
  if (reread_compare(a->rows, a->m->n_shards, &work)) return 0;
  return err_set(err, ERR_RETRY, "the audit of '%s' was interrupted",
                 quote_str(a->options->shown).s);
}

// The folder `blobs` that the .onnx is a link into, as in a cache of Hugging Face; else none.
static struct folder blobs_of(struct folder dir, const char *onnx) {
  struct entry_facts at;
  if (!is_link(dir, onnx) || entry_look(dir, onnx, 0, &at)) return NO_FOLDER;
  return beneath_blobs(dir, onnx, &at);
}

int manifest_audit(const struct manifest *m, struct folder dir, const struct audit_options *options,
                   struct audit_result *result, struct err *err) {
  memset(result, 0, sizeof *result);
  struct audit a = {.m = m, .dir = dir, .options = options, .result = result};
  a.how.blobs = blobs_of(dir, m->subject);
  const int rc = audit_all(&a, err);
  folder_close(&a.how.blobs);
  arena_free(&a.arena);
  return rc;
}
