// What an interrupted run left, looked at before it becomes anybody's model.
//
//   entries   a plain file of ours, with one name?          else: refused, by name
//   units     the bytes that their record has digests of?   else: made again
//
// A kill alone leaves nothing wrong. A disk does, or a tool that copies files back and forth, or
// somebody else: between the run that was interrupted and the one that goes on, days may lie. It costs
// one reading of what was written, and only who goes on pays it. What is wrong with the files of an
// unfinished seal is asked in seal_check.c.
#include "fs.h"
#include "staging.h"
#include "staging_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- entries ----

int staging_check_owner(const struct staging *st, struct err *err) {
  struct stat at;
  if (fstat(st->folder, &at))
    return err_errno(err, errno, ERR_IO, "cannot examine '%s'", quote_str(st->name).s);
  at.st_mode = S_IFREG; // a folder has links of its own
  at.st_nlink = 1;
  const char *wrong = fs_not_own(st->folder, &at);
  if (!wrong) return 0;
  err_set(err, ERR_PERMISSION, "the staging folder '%s' in '%s' %s", quote_str(st->name).s,
          quote_str(st->dest_path).s, wrong);
  return err_hint(err, "its owner could change what is written in it: remove it");
}

struct looking {
  const struct staging *st;
  int folder;
  const char *inside; // "artifacts/", or ""
  bool sealed;        // there is a seal.json
  struct err *err;
};

// What a seal is moving may have another name in the destination by now, and the owner of what it
// replaces. Nothing is written to it any more, and its digests are compared (seal_check.c).
static bool is_being_placed(const struct looking *l, const char *name, const struct stat *at) {
  return l->sealed && at->st_nlink <= 2 && strcmp(name, "lock") != 0 &&
         strcmp(name, "seal.json") != 0;
}

static int look_at_entry(void *ctx, const char *name);

static int look_in_artifacts(const struct looking *l, const char *name) {
  const int fd = openat(l->folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return err_errno(l->err, errno, ERR_IO, "cannot open '%s' in '%s'", quote_str(name).s,
                     quote_str(l->st->name).s);
  struct looking in = {.st = l->st, .folder = fd, .inside = "artifacts/", .err = l->err};
  const int bad = fs_list(fd, look_at_entry, &in, name, l->err);
  close(fd);
  return bad;
}

static int look_at_entry(void *ctx, const char *name) {
  const struct looking *l = ctx;
  struct stat at;
  if (fstatat(l->folder, name, &at, AT_SYMLINK_NOFOLLOW)) return 0; // gone meanwhile
  if (S_ISDIR(at.st_mode) && !l->inside[0] && strcmp(name, "artifacts") == 0)
    return look_in_artifacts(l, name);
  if (is_being_placed(l, name, &at)) {
    at.st_nlink = 1;
    at.st_uid = geteuid();
  }
  const char *wrong = fs_not_own(l->folder, &at);
  if (!wrong) return 0;
  err_set(l->err, ERR_PERMISSION, "'%s%s' in '%s' %s: weir did not create it", l->inside,
          quote_str(name).s, quote_str(l->st->name).s, wrong);
  return err_because(l->err, REASON_NOT_OURS);
}

int staging_check_entries(const struct staging *st, struct err *err) {
  if (staging_check_owner(st, err)) return -1;
  struct looking l = {.st = st, .folder = st->folder, .inside = "", .err = err};
  l.sealed = staging_has(st->folder, "seal.json");
  return fs_list(st->folder, look_at_entry, &l, st->name, err) ? -1 : 0;
}

// ---- units ----

int staging_check_units(struct staging *st, const struct plan *p, const struct reread_work *work,
                        uint32_t *forgotten, struct err *err) {
  struct arena scratch = {0};
  struct reread_known *rows = arena_alloc(&scratch, (st->n_units + 1) * sizeof *rows);
  uint32_t *of = arena_alloc(&scratch, (st->n_units + 1) * sizeof *of), n = 0;
  *forgotten = 0;
  for (uint32_t i = 0; i < st->n_units; i++) {
    if (!st->done[i] || (st->leave && st->leave[i])) continue;
    const struct plan_unit unit = plan_unit_at(p, i);
    of[n] = i;
    rows[n++] = (struct reread_known){.fd = staging_output_fd(st, unit.output),
                                      .off = unit.off,
                                      .len = unit.len,
                                      .sha256 = st->digests[i]};
  }
  const bool all = reread_compare(rows, n, work);
  for (uint32_t i = 0; all && i < n; i++) {
    if (!rows[i].differs) continue;
    st->done[of[i]] = 0;
    ++*forgotten;
  }
  arena_free(&scratch);
  if (all) return 0;
  return err_set(err, ERR_RETRY, "interrupted while checking the work of an earlier run");
}
