// Folders for a run, and those of runs that were killed.
//
// Whoever has a folder holds a lock on it, so a folder without one is dead, or so young that its maker has not come to lock it:
// that one looks, once it has the lock, whether its folder is still there, and else makes another.
#include "stream/sys/scratch.h"

#include "base/again.h"
#include "platform/descriptor.h"
#include "platform/machine.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 8 };

const char *scratch_parent(void) {
  return machine_temporary_folder();
}

// ---- dead ones ---------------------------------------------------------------------------------

static int remove_file(void *ctx, const char *name) {
  const int *folder = ctx;
  const struct folder in = folder_of_descriptor(*folder);
  struct entry_facts at;
  if (entry_look(in, name, FILE_NO_LINK, &at) == 0 && !fs_not_own(in, &at))
    (void)unlinkat(*folder, name, 0);
  return 0;
}

// Folders of workers lie in it, with files alone.
static int remove_entry(void *ctx, const char *name) {
  const int *folder = ctx;
  struct err err = {0};
  remove_file(ctx, name);
  int inner = again_openat(*folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner < 0) return 0;
  (void)fs_list(folder_of_descriptor(inner), remove_file, &inner, name, &err);
  (void)unlinkat(*folder, name, AT_REMOVEDIR);
  close(inner);
  return 0;
}

struct looking {
  int parent;
  const char *stem; // "weir-verify-"
};

static int remove_if_dead(void *ctx, const char *name) {
  const struct looking *l = ctx;
  struct err err = {0};
  struct stat at;
  if (strncmp(name, l->stem, strlen(l->stem)) != 0) return 0;
  int folder = again_openat(l->parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return 0;
  int locked = -1;
  if (fstat(folder, &at) == 0 && at.st_uid == geteuid())
    AGAIN(locked, flock(folder, LOCK_EX | LOCK_NB));
  if (locked == 0) {
    (void)fs_list(folder_of_descriptor(folder), remove_entry, &folder, name, &err);
    (void)unlinkat(l->parent, name, AT_REMOVEDIR);
  }
  close(folder);
  return 0;
}

// What cannot be looked at or removed stays: it is in nobody's way.
static void remove_dead(const char *stem) {
  struct looking l = {.stem = stem};
  struct err err = {0};
  l.parent = again_openat(AT_FDCWD, scratch_parent(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (l.parent < 0) return;
  (void)fs_list(folder_of_descriptor(l.parent), remove_if_dead, &l, scratch_parent(), &err);
  close(l.parent);
}

// ---- own ones ----------------------------------------------------------------------------------

// Opened, locked, and still the folder of that path. On a file system without locks nobody removes anything either.
static bool take(struct scratch *s) {
  struct stat by_path, by_fd;
  s->fd = again_openat(AT_FDCWD, s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (s->fd < 0) return false;
  int ignored;
  AGAIN(ignored, flock(s->fd, LOCK_EX));
  (void)ignored;
  return fstat(s->fd, &by_fd) == 0 && stat(s->path, &by_path) == 0 &&
         by_fd.st_dev == by_path.st_dev && by_fd.st_ino == by_path.st_ino;
}

int scratch_make(struct scratch *s, const char *purpose, struct arena *a, struct err *err) {
  const char *stem = arena_printf(a, "weir-%s-", purpose);
  *s = (struct scratch){NULL, -1};
  remove_dead(stem);
  for (int i = 0; i < TRIES; i++) {
    char *path = arena_printf(a, "%s/%sXXXXXX", scratch_parent(), stem);
    if (!mkdtemp(path)) {
      err_errno(err, errno, ERR_IO, "no folder for temporary files can be created in '%s'",
                quote_path(scratch_parent()).s);
      return err_hint(err, "set TMPDIR to a folder with room for the largest weights");
    }
    s->path = path;
    if (take(s)) return 0;
    if (s->fd >= 0) close(s->fd);
    *s = (struct scratch){NULL, -1};
  }
  return err_set(err, ERR_RETRY,
                 "folders for temporary files in '%s' disappear as soon as weir creates them",
                 quote_path(scratch_parent()).s);
}

void scratch_end(struct scratch *s) {
  if (s->path) (void)rmdir(s->path);
  if (s->fd >= 0) close(s->fd);
  *s = (struct scratch){NULL, -1};
}
