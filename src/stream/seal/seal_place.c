// A step asks only "is it done already?", which after a kill, or a network file system that repeats
// a rename, has the same answer for everybody: the staged file is gone, and under the final name lies
// the inode, or at least the bytes, that seal.json tells.
#include "stream/seal/inside/seal_parts.h"

#include "plan/plan.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/reread.h"

#include <errno.h>

// ---- is it ours? ----

bool seal_same_bytes(struct file fd, const struct seal_move *m) {
  struct arena scratch = {0};
  struct reread_known *rows = arena_alloc(&scratch, m->n_units * sizeof *rows + 1);
  for (uint32_t i = 0; i < m->n_units; i++) {
    const uint64_t off = i * PLAN_UNIT_BYTES;
    rows[i] = (struct reread_known){.file = fd,
                                    .off = off,
                                    .len = min_u64(PLAN_UNIT_BYTES, m->size - off),
                                    .sha256 = m->units[i]};
  }
  bool same = reread_compare(rows, m->n_units, &(struct reread_work){0});
  for (uint32_t i = 0; i < m->n_units; i++)
    same = same && !rows[i].differs;
  arena_free(&scratch);
  return same;
}

bool seal_is_there(const struct staging *st, const struct seal_move *m, const char *name) {
  struct entry_facts at;
  struct file fd = file_open(st->dest, name, FILE_NO_LINK | FILE_NO_WAIT);
  if (!file_is_open(fd)) return false;
  bool ours = file_look(fd, &at) == 0 && at.kind == ENTRY_FILE && at.size == m->size;
  if (ours && at.number != m->inode) ours = seal_same_bytes(fd, m) && file_sync(fd) == 0;
  file_close(&fd);
  return ours;
}

// ---- placing ----

static int cannot_place(const struct staging *st, const struct seal_move *m, int why,
                        struct err *err) {
  const struct quoted name = quote_str(m->name), dest = quote_str(st->dest_path);
  if (why == EEXIST) {
    err_set(err, ERR_RETRY, "'%s' in '%s' was not written by this run: it appeared during the run",
            name.s, dest.s);
    return err_because(err, REASON_APPEARED);
  }
  if (why == ENOENT)
    return err_set(err, ERR_IO, "'%s' is missing in both '%s' and '%s'", name.s,
                   quote_str(st->name).s, dest.s);
  return err_errno(err, why, ERR_IO, "cannot move '%s' into place in '%s'", name.s, dest.s);
}

// Where the file system has no rename that replaces nothing: a second name, then the first one
// goes. Without hard links either, what is left is to look first.
static int rename_by_link(struct folder from_dir, const char *from, struct folder to_dir,
                          const char *to) {
  if (entry_link(from_dir, from, to_dir, to) == 0) return file_remove(from_dir, from);
  if (errno == EEXIST || errno == ENOENT) return -1;
  if (staging_has(to_dir, to)) {
    errno = EEXIST;
    return -1;
  }
  return entry_rename(from_dir, from, to_dir, to);
}

int seal_rename_new(struct folder from_dir, const char *from, struct folder to_dir,
                    const char *to) {
  if (entry_rename_new(from_dir, from, to_dir, to) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  return rename_by_link(from_dir, from, to_dir, to);
}

static int drop_staged(const struct staging *st, const struct seal_move *m, struct err *err) {
  if (file_remove(st->folder, m->name) == 0 || errno == ENOENT) return 0;
  return err_errno(err, errno, ERR_IO, "cannot remove the staged '%s'", quote_str(m->name).s);
}

int seal_place(const struct staging *st, const struct seal_move *m, bool over, struct err *err) {
  if (m->kept && seal_is_there(st, m, m->name)) return drop_staged(st, m, err);
  const int rc = over ? entry_rename(st->folder, m->name, st->dest, m->name)
                      : seal_rename_new(st->folder, m->name, st->dest, m->name);
  if (rc == 0) return 0;
  const int why = errno;
  if ((why != EEXIST && why != ENOENT) || !seal_is_there(st, m, m->name))
    return cannot_place(st, m, why, err);
  return drop_staged(st, m, err);
}
