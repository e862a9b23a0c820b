// Folders for a run, and those of runs that were killed.
//
// Whoever has a folder holds a lock on it, so a folder without one is dead, or so young that its maker has not come to lock it:
// that one looks, once it has the lock, whether its folder is still there, and else makes another.
#include "stream/sys/scratch.h"

#include "platform/machine.h"
#include "resources/resources.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 8 };

// ---- dead ones ---------------------------------------------------------------------------------

static int remove_file(void *ctx, const char *name) {
  const struct folder *in = ctx;
  struct entry_facts at;
  if (entry_look(*in, name, FILE_NO_LINK, &at) == 0 && !fs_not_own(*in, &at))
    (void)file_remove(*in, name);
  return 0;
}

// Folders of workers lie in it, with files alone.
static int remove_entry(void *ctx, const char *name) {
  const struct folder *in = ctx;
  int ended;
  remove_file(ctx, name);
  struct folder inner = folder_open(*in, name, FILE_NO_LINK);
  if (!folder_is_open(inner)) return 0;
  (void)folder_names(inner, ".", remove_file, &inner, &ended);
  folder_close(&inner);
  (void)folder_remove(*in, name);
  return 0;
}

struct looking {
  struct folder parent;
  const char *stem; // "weir-verify-"
};

static int remove_if_dead(void *ctx, const char *name) {
  const struct looking *l = ctx;
  struct entry_facts at;
  int ended;
  if (strncmp(name, l->stem, strlen(l->stem)) != 0) return 0;
  struct folder f = folder_open(l->parent, name, FILE_NO_LINK);
  if (!folder_is_open(f)) return 0;
  if (folder_look(f, &at) == 0 && at.owner == process_owner() &&
      folder_lock(f, LOCK_ALONE | LOCK_NO_WAIT) == 0) {
    (void)folder_names(f, ".", remove_entry, &f, &ended);
    (void)folder_remove(l->parent,
                        name); // before it is closed: a young one's maker waits for the lock
  }
  folder_close(&f);
  return 0;
}

// What cannot be looked at or removed stays: it is in nobody's way.
static void remove_dead(const char *stem) {
  struct looking l = {folder_open(HERE, machine_temporary_folder(), 0), stem};
  int ended;
  if (!folder_is_open(l.parent)) return;
  (void)folder_names(l.parent, ".", remove_if_dead, &l, &ended);
  folder_close(&l.parent);
}

// ---- own ones ----------------------------------------------------------------------------------

// Opened, locked, and still the folder of that path. On a file system without locks nobody removes anything either.
static bool take(struct scratch *s) {
  struct entry_facts is, by_path;
  s->at = folder_open(HERE, s->path, FILE_NO_LINK);
  if (!folder_is_open(s->at)) return false;
  (void)folder_lock(s->at, LOCK_ALONE);
  return folder_look(s->at, &is) == 0 && entry_look(HERE, s->path, 0, &by_path) == 0 &&
         entry_is_same(&is, &by_path);
}

static void remove_left(void *path, size_t n) {
  struct folder f = folder_open(HERE, path, FILE_NO_LINK);
  int ended;
  (void)n;
  if (folder_is_open(f)) (void)folder_names(f, ".", remove_entry, &f, &ended);
  folder_close(&f);
  (void)folder_remove(HERE, path);
}

int scratch_make(struct scratch *s, const char *purpose, struct arena *a, struct err *err) {
  const char *stem = arena_printf(a, "weir-%s-", purpose);
  *s = (struct scratch){0};
  remove_dead(stem);
  for (int i = 0; i < TRIES; i++) {
    char *path = arena_printf(a, "%s/%sXXXXXX", machine_temporary_folder(), stem);
    if (folder_make_unique(path)) {
      err_errno(err, errno, ERR_IO, "no folder for temporary files can be created in '%s'",
                quote_path(machine_temporary_folder()).s);
      return err_hint(err, "set TMPDIR to a folder with room for the largest weights");
    }
    s->path = path;
    resources_hold(path, 0, remove_left);
    if (take(s)) return 0;
    resources_drop_thing(path, 0); // it is another's, or nobody's
    folder_close(&s->at);
    s->path = NULL;
  }
  return err_set(err, ERR_RETRY,
                 "folders for temporary files in '%s' disappear as soon as weir creates them",
                 quote_path(machine_temporary_folder()).s);
}

void scratch_end(struct scratch *s) {
  if (s->path) resources_drop_thing(s->path, 0);
  folder_close(&s->at);
  if (s->path)
    (void)folder_remove(HERE,
                        s->path); // another process may have removed it already, as a dead one
  s->path = NULL;
}
