// The seal: a complete staging folder becomes files under their final names.
//
//   prepare   nothing visible changes              finish   repeatable, from seal.json alone
//   ────────────────────────────────               ─────────────────────────────────────────
//   exclusive lock, names still free?              data ─rename─▶ place, fsync folder
//   fsync outputs                                  .onnx ─rename─▶ place, fsync folder   ◀ commit
//   write the manifest, fsync                      companions ─rename─▶ place, fsync folder
//   write seal.json, fsync, fsync folder   ──────▶ unlink what only the old model named
//                                                  rename the staging folder to .done, remove it
//
// A data file never replaces anything: its name was free when the plan was made, and
// RENAME_NOREPLACE holds the plan to it. So until the .onnx is renamed, the old .onnx and its old
// sidecar stand untouched, and after it the new one's sidecar is in place. Each step asks only "is
// it done already?", which after a kill, or a network file system that repeats a rename, has the
// same answer for everybody: the staged file is gone, and under the final name lies the inode, or
// at least the bytes, that seal.json tells.
//
// What is never done: removing a file that the old model's own manifest does not list, or that any
// other .onnx in the folder names.
#include "seal.h"

#include "fs.h"
#include "name_scan.h"
#include "reread.h"
#include "seal_intent.h"
#include "seal_old.h"
#include "staging_folder.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

// ---- is it ours? ----

static bool same_bytes(int fd, const struct seal_move *m) {
  struct arena scratch = {0};
  struct digest *d = digest_new();
  uint8_t *buf = arena_alloc(&scratch, BUFFER_BYTES), is[DIGEST_BYTES];
  bool same = true;
  for (uint32_t i = 0; same && i < m->n_units; i++) {
    const uint64_t off = i * PLAN_UNIT_BYTES, len = min_u64(PLAN_UNIT_BYTES, m->size - off);
    const struct reread unit = {.fd = fd, .name = m->name, .off = off, .len = len};
    struct err unread = {0};
    digest_start(d);
    same = reread_hash(&unit, d, buf, BUFFER_BYTES, &unread) == 0;
    digest_end(d, is);
    same = same && memcmp(is, m->units[i], DIGEST_BYTES) == 0;
  }
  digest_free(d);
  arena_free(&scratch);
  return same;
}

// Does the destination hold this file under its final name? By inode where it is the one we moved;
// by bytes, made durable now, where a copy of this run was there first.
static bool is_placed(const struct staging *st, const struct seal_move *m) {
  struct stat at;
  const int fd = openat(st->dest, m->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return false;
  bool ours = fstat(fd, &at) == 0 && S_ISREG(at.st_mode) && (uint64_t)at.st_size == m->size;
  if (ours && (uint64_t)at.st_ino != m->inode) ours = same_bytes(fd, m) && fs_ops->fsync(fd) == 0;
  close(fd);
  return ours;
}

// ---- placing ----

static int cannot_place(const struct staging *st, const struct seal_move *m, int why,
                        struct err *err) {
  const struct quoted name = quote_str(m->name), dest = quote_str(st->dest_path);
  if (why == EEXIST) {
    err_set(err, ERR_RETRY,
            "'%s' in '%s' exists and is not ours: it appeared while this run worked", name.s,
            dest.s);
    return err_because(err, REASON_APPEARED);
  }
  if (why == ENOENT)
    return err_set(err, ERR_IO, "'%s' is neither in '%s' nor in place in '%s'", name.s,
                   quote_str(st->name).s, dest.s);
  return err_errno(err, why, ERR_IO, "cannot put '%s' in place in '%s'", name.s, dest.s);
}

// A rename that replaces nothing, where the file system has none: a second name, then the first one
// goes. Without hard links either, what is left is to look first.
static int place_without_noreplace(const struct staging *st, const char *name) {
  if (fs_ops->linkat(st->folder, name, st->dest, name) == 0)
    return fs_ops->unlinkat(st->folder, name, 0);
  if (errno == EEXIST || errno == ENOENT) return -1;
  if (staging_has(st->dest, name)) {
    errno = EEXIST;
    return -1;
  }
  return fs_ops->renameat2(st->folder, name, st->dest, name, 0);
}

static int place(const struct staging *st, const struct seal_intent *s, const struct seal_move *m,
                 struct err *err) {
  const bool over = s->replace && m->role != SEAL_DATA;
  const unsigned flags = over || m->role == SEAL_COMPANION ? 0 : RENAME_NOREPLACE;
  if (fs_ops->renameat2(st->folder, m->name, st->dest, m->name, flags) == 0) return 0;
  int why = errno;
  if (flags && (why == EINVAL || why == ENOSYS)) {
    if (place_without_noreplace(st, m->name) == 0) return 0;
    why = errno;
  }
  if ((why != EEXIST && why != ENOENT) || !is_placed(st, m)) return cannot_place(st, m, why, err);
  if (fs_ops->unlinkat(st->folder, m->name, 0) && errno != ENOENT)
    return err_errno(err, errno, ERR_IO, "cannot remove the staged '%s'", quote_str(m->name).s);
  return 0;
}

// All files of one role, then the folder.
static int place_role(const struct staging *st, const struct seal_intent *s, enum seal_role role,
                      struct err *err) {
  for (uint32_t i = 0; i < s->n_moves; i++)
    if (s->moves[i].role == role && place(st, s, &s->moves[i], err)) return -1;
  return fs_sync_folder(st->dest, st->dest_path, err);
}

// ---- what the old model leaves ----

static void note_left(struct seal_report *r, const char *name, const char *why) {
  const size_t n = strlen(r->old_sidecar_left);
  snprintf(r->old_sidecar_left + n, sizeof r->old_sidecar_left - n, "%s%s", n ? ", " : "",
           quote_str(name).s);
  if (n == 0) snprintf(r->why_left, sizeof r->why_left, "%s", why);
}

static int unlink_in_dest(const struct staging *st, const char *name, struct err *err) {
  if (fs_ops->unlinkat(st->dest, name, 0) == 0 || errno == ENOENT) return 0;
  return err_errno(err, errno, ERR_IO, "cannot remove the old '%s' in '%s'", quote_str(name).s,
                   quote_str(st->dest_path).s);
}

static int drop_old_sidecar(const struct staging *st, const struct seal_old *old, const char *onnx,
                            struct seal_report *report, struct err *err) {
  char who[256], why[512];
  if (!staging_has(st->dest, old->name)) return 0;
  if (!old->listed) {
    note_left(report, old->name, "no manifest lists it as the replaced model's");
    return 0;
  }
  const enum name_scan found = name_scan_folder(st->dest, old->name, onnx, who);
  if (found == NAME_SCAN_FREE) return unlink_in_dest(st, old->name, err);
  snprintf(why, sizeof why, found == NAME_SCAN_NAMED ? "'%s' names it too" : "'%s' cannot be read",
           who[0] ? quote_str(who).s : "the folder");
  note_left(report, old->name, why);
  return 0;
}

static int finish(const struct staging *st, const struct seal_intent *s, struct seal_report *report,
                  struct err *err) {
  if (place_role(st, s, SEAL_DATA, err)) return -1;
  if (place_role(st, s, SEAL_ONNX, err)) return -1;
  if (place_role(st, s, SEAL_COMPANION, err)) return -1;
  for (uint32_t i = 0; i < s->n_old; i++)
    if (drop_old_sidecar(st, &s->old[i], seal_intent_onnx(s), report, err)) return -1;
  for (uint32_t i = 0; i < s->n_stale; i++)
    if (unlink_in_dest(st, s->stale[i], err)) return -1;
  return s->n_old + s->n_stale > 0 ? fs_sync_folder(st->dest, st->dest_path, err) : 0;
}

int seal_finish(struct staging *st, struct seal_report *report, struct err *err) {
  memset(report, 0, sizeof *report);
  bool done = false;
  if (staging_name_is(st->name, NULL, &done) && done) return staging_retire(st, err);
  struct seal_intent s;
  if (seal_intent_read(&s, st->folder, st->name, err)) return -1;
  const int bad = finish(st, &s, report, err);
  seal_intent_free(&s);
  return bad ? -1 : staging_retire(st, err);
}

// ---- preparing ----

static int add_move(struct seal_intent *s, const struct staging *st, const char *name,
                    enum seal_role role, struct err *err) {
  struct stat at;
  if (fstatat(st->folder, name, &at, AT_SYMLINK_NOFOLLOW))
    return err_errno(err, errno, ERR_IO, "cannot look at '%s' in '%s'", quote_str(name).s,
                     quote_str(st->name).s);
  struct seal_move *m = &s->moves[s->n_moves++];
  *m = (struct seal_move){.name = arena_string(&s->arena, span_str(name)), .role = role};
  m->size = (uint64_t)at.st_size;
  m->inode = (uint64_t)at.st_ino;
  return 0;
}

static int add_outputs(struct seal_intent *s, const struct staging *st, const struct plan *p,
                       struct err *err) {
  uint32_t unit = 0;
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    if (add_move(s, st, p->outputs[i].name, i + 1 == p->n_outputs ? SEAL_ONNX : SEAL_DATA, err))
      return -1;
    struct seal_move *m = &s->moves[s->n_moves - 1];
    m->units = (const uint8_t(*)[DIGEST_BYTES])(st->digests + unit);
    while (unit < st->n_units && plan_unit_at(p, unit).output == i)
      unit++;
    m->n_units = (uint32_t)(st->digests + unit - (uint8_t(*)[DIGEST_BYTES])(uintptr_t)m->units);
    if (m->role == SEAL_DATA && staging_has(st->dest, m->name) && !is_placed(st, m)) {
      err_set(err, ERR_RETRY, "'%s' in '%s' appeared after this run was planned",
              quote_str(m->name).s, quote_str(st->dest_path).s);
      return err_hint(err, "the same command, given again, chooses another name");
    }
    const int fd = staging_output_fd(st, i);
    if (fs_ops->fsync(fd))
      return err_errno(err, errno, ERR_IO, "cannot sync '%s'", quote_str(m->name).s);
  }
  return 0;
}

static int add_companions(struct seal_intent *s, const struct staging *st, const char *onnx,
                          const struct seal_options *o, struct err *err) {
  char name[256];
  if (o->tensors) {
    if (add_move(s, st, companion_name(o->tensors), SEAL_COMPANION, err)) return -1;
    struct seal_move *m = &s->moves[s->n_moves - 1];
    m->units = companion_units(o->tensors, &m->n_units);
  }
  if (!o->manifest) return 0;
  const struct span text = span_of(o->manifest, o->manifest_bytes);
  manifest_name(name, onnx);
  if (fs_put_file(st->folder, name, text, err) || add_move(s, st, name, SEAL_COMPANION, err))
    return -1;
  struct seal_move *m = &s->moves[s->n_moves - 1];
  m->n_units = (uint32_t)((text.n + PLAN_UNIT_BYTES - 1) / PLAN_UNIT_BYTES);
  uint8_t(*units)[DIGEST_BYTES] = arena_alloc(&s->arena, m->n_units * DIGEST_BYTES + 1);
  for (uint32_t i = 0; i < m->n_units; i++) {
    const size_t off = (size_t)(i * PLAN_UNIT_BYTES);
    digest_of(text.at + off, (size_t)min_u64(PLAN_UNIT_BYTES, text.n - off), units[i]);
  }
  m->units = (const uint8_t(*)[DIGEST_BYTES])units;
  return 0;
}

static int prepare(struct seal_intent *s, struct staging *st, const struct plan *p,
                   const struct seal_options *o, struct err *err) {
  const char *onnx = p->outputs[p->n_outputs - 1].name;
  s->replace = o->replace;
  memcpy(s->plan_id, p->id, DIGEST_BYTES);
  s->moves = arena_alloc(&s->arena, (p->n_outputs + 2) * sizeof *s->moves);
  if (staging_lock_exclusive(st, err)) return -1;
  struct stat at;
  const bool there = fstatat(st->dest, onnx, &at, AT_SYMLINK_NOFOLLOW) == 0;
  if (there && S_ISDIR(at.st_mode))
    return err_set(err, ERR_USAGE, "'%s' in '%s' is a folder", quote_str(onnx).s,
                   quote_str(st->dest_path).s);
  if (there && !o->replace) {
    err_set(err, ERR_USAGE, "'%s' exists in '%s'", quote_str(onnx).s, quote_str(st->dest_path).s);
    return err_because(err, REASON_EXISTS);
  }
  if (add_outputs(s, st, p, err) || add_companions(s, st, onnx, o, err)) return -1;
  if (o->replace && seal_old_find(s, st->dest, p, err)) return -1;
  return seal_intent_write(s, st->folder, err);
}

int seal_run(struct staging *st, const struct plan *p, const struct seal_options *options,
             struct seal_report *report, struct err *err) {
  memset(report, 0, sizeof *report);
  if (st->folder < 0) return 0;
  assert(staging_done_count(st) == st->n_units);
  struct seal_intent s = {0};
  int bad = prepare(&s, st, p, options, err);
  if (!bad) bad = finish(st, &s, report, err);
  seal_intent_free(&s);
  return bad ? -1 : staging_retire(st, err);
}
