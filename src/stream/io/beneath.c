// The lock on the door: names in a model file are chosen by whoever wrote it.
//
// Two steps. First the text: what is absolute, leaves the folder, or would be a path on another
// system is refused, and the rest is normalized. Then the disk: one openat2 with RESOLVE_BENEATH
// and NO_MAGICLINKS makes the kernel keep the promise, so that nobody can swap a folder for a link
// between a check and an open. Where openat2 does not exist (before Linux 5.6, or behind a filter)
// every component is opened alone with O_NOFOLLOW, and links are followed by hand, which keeps the
// same promise. A link that stays in the folder leads to nothing that a name could not say.
//
// Everything else is asked of the descriptor, not of the name: a regular file, one name only (a
// hard link can smuggle in a file from outside). O_NONBLOCK keeps a FIFO from hanging us before
// that.
//
// One layout of links that lead out is known: the Hugging Face cache, where what users name are
// links and the bytes lie in one folder under names of their own.
//
//   snapshots/<revision>/model.onnx       -> ../../blobs/<hash>       the link that the user named
//   snapshots/<revision>/model.onnx_data  -> ../../blobs/<hash>       a data file
//
// A data file's link is followed if it leads, in one step, into the very folder `blobs` that the
// user's own link led to. That folder is known by its descriptor, and the file is opened in it by
// its plain name, so no rename can lead elsewhere. With allow_links the last component may be a
// link to any place. Folders are never followed out.
#include "stream/io/beneath.h"

#include "base/again.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  OPEN_FILE = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
  OPEN_FOLDER = O_PATH | O_DIRECTORY | O_CLOEXEC,
};

// ---- the text -----------------------------------------------------------------------------------

static int refuse(struct span location, const char *why, struct err *err) {
  return err_set(err, ERR_MODEL, "external data location '%s' %s", quote(location).s, why);
}

static const char *text_fault(struct span s) {
  if (s.n == 0) return "is empty";
  if (s.n > BENEATH_MAX) return "is longer than 4096 bytes";
  if (span_has_nul(s)) return "contains a NUL byte";
  if (s.at[0] == '/') return "is absolute; it must be inside the model's folder";
  if (memchr(s.at, '\\', s.n))
    return "contains a backslash, which other systems treat as a path separator";
  if (s.n >= 2 && s.at[1] == ':' && (s.at[0] | 32) >= 'a' && (s.at[0] | 32) <= 'z')
    return "starts with a drive letter";
  if (s.at[s.n - 1] == '/') return "names a folder";
  return NULL;
}

int beneath_normalize(struct span location, char *path, struct err *err) {
  const char *fault = text_fault(location);
  if (fault) return refuse(location, fault, err);
  size_t n = 0;
  for (size_t i = 0; i < location.n;) {
    const uint8_t *part = location.at + i;
    size_t len = 0;
    while (i + len < location.n && part[len] != '/')
      len++;
    i += len + 1;
    if (len == 0 || (len == 1 && part[0] == '.')) continue;
    if (len == 2 && part[0] == '.' && part[1] == '.') {
      if (n == 0) return refuse(location, "leaves the model's folder", err);
      while (n > 0 && path[n - 1] != '/')
        n--;
      if (n > 0) n--;
      continue;
    }
    if (n > 0) path[n++] = '/';
    memcpy(path + n, part, len);
    n += len;
  }
  path[n] = '\0';
  return n > 0 ? 0 : refuse(location, "names a folder", err);
}

// ---- the disk -----------------------------------------------------------------------------------

static int open_resolved(int folder, const char *path, int flags, uint64_t resolve) {
  struct open_how how = {.flags = (unsigned)flags, .resolve = resolve};
  int fd;
  AGAIN(fd, (int)syscall(SYS_openat2, folder, path, &how, sizeof how));
  return fd;
}

static bool is_link(int folder, const char *path) {
  struct stat st;
  return fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

// ---- the walk, without openat2 ----
//
// `open` holds the folders from ours down to the current one, so that ".." in a link's target is
// the folder we came from, whatever others rename meanwhile; above the first there is nothing.
// `rest` is what is still to be walked: a link puts its target in front of it.

enum { WALK_DEPTH_MAX = 64, WALK_LINKS_MAX = 40 };

struct walk {
  int open[WALK_DEPTH_MAX];
  uint32_t depth, links;
  char rest[2 * (BENEATH_MAX + 1)];
};

static int walk_fails(int errnum) {
  errno = errnum;
  return -1;
}

// Cuts the first component off w->rest; "" at its end.
static void next_part(struct walk *w, char part[BENEATH_MAX + 1]) {
  const char *at = w->rest + strspn(w->rest, "/");
  const size_t n = strcspn(at, "/");
  memcpy(part, at, n);
  part[n] = '\0';
  at += n + strspn(at + n, "/");
  memmove(w->rest, at, strlen(at) + 1);
}

static int follow(struct walk *w, const char *part) {
  char target[BENEATH_MAX + 1];
  const ssize_t n = readlinkat(w->open[w->depth - 1], part, target, BENEATH_MAX);
  const size_t rest = strlen(w->rest);
  if (n < 0) return -1;
  if (++w->links > WALK_LINKS_MAX) return walk_fails(ELOOP);
  if (n == 0 || n == BENEATH_MAX || (size_t)n + rest + 2 > sizeof w->rest)
    return walk_fails(ENAMETOOLONG);
  if (target[0] == '/') return walk_fails(EXDEV);
  memmove(w->rest + n + 1, w->rest, rest + 1);
  memcpy(w->rest, target, (size_t)n);
  w->rest[n] = rest > 0 ? '/' : '\0';
  return 0;
}

// One component. Gives the descriptor of the last one, -2 to go on, -1 with errno.
static int walk_step(struct walk *w, int flags) {
  char part[BENEATH_MAX + 1];
  next_part(w, part);
  const bool last = w->rest[0] == '\0', up = strcmp(part, "..") == 0;
  if (up && w->depth == 1) return walk_fails(EXDEV);
  if (up) close(w->open[--w->depth]);
  if (up || part[0] == '\0' || strcmp(part, ".") == 0) {
    if (!last) return -2;
    return flags == OPEN_FOLDER ? fcntl(w->open[w->depth - 1], F_DUPFD_CLOEXEC, 0)
                                : walk_fails(EISDIR);
  }
  const int at = w->open[w->depth - 1];
  const int fd = again_openat(at, part, (last ? flags : OPEN_FOLDER) | O_NOFOLLOW);
  if (fd < 0) {
    const int errnum = errno;
    if (!is_link(at, part)) return walk_fails(errnum);
    return follow(w, part) ? -1 : -2;
  }
  if (last) return fd;
  if (w->depth == WALK_DEPTH_MAX) {
    close(fd);
    return walk_fails(ENAMETOOLONG);
  }
  w->open[w->depth++] = fd;
  return -2;
}

// Opens a path without leaving the folder: EXDEV where it, or a link in it, would.
static int walk_beneath(int folder, const char *path, int flags) {
  struct walk w = {.depth = 1};
  w.open[0] = fcntl(folder, F_DUPFD_CLOEXEC, 0);
  if (w.open[0] < 0) return -1;
  snprintf(w.rest, sizeof w.rest, "%s", path);
  int fd;
  do
    fd = walk_step(&w, flags);
  while (fd == -2);
  const int errnum = errno;
  while (w.depth > 0)
    close(w.open[--w.depth]);
  errno = errnum;
  return fd;
}

// Opens the folder that the target of link `name` lies in; `base` is the target's own name there. -1:
// it is no link, or its target has no such form.
static int open_target_folder(int folder, const char *name, char base[BENEATH_MAX + 1],
                              bool *is_blobs) {
  char target[BENEATH_MAX + 1];
  const ssize_t n = readlinkat(folder, name, target, BENEATH_MAX);
  if (n <= 0 || n == BENEATH_MAX) return -1;
  target[n] = '\0';
  char *slash = strrchr(target, '/');
  if (!slash || slash == target) return -1;
  *slash = '\0';
  strcpy(base, slash + 1);
  if (*base == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0) return -1;
  *is_blobs = strcmp(path_base(target), "blobs") == 0;
  return again_openat(folder, target, OPEN_FOLDER);
}

static bool same_file(int fd, const struct stat *other) {
  struct stat st;
  return fstat(fd, &st) == 0 && st.st_dev == other->st_dev && st.st_ino == other->st_ino;
}

int beneath_blobs(int folder, const char *name, const struct stat *is) {
  char base[BENEATH_MAX + 1];
  bool is_blobs = false;
  const int blobs = open_target_folder(folder, name, base, &is_blobs);
  if (blobs < 0) return -1;
  const int fd = is_blobs ? again_openat(blobs, base, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
  const bool same = fd >= 0 && same_file(fd, is);
  if (fd >= 0) close(fd);
  if (same) return blobs;
  close(blobs);
  return -1;
}

// EXDEV where the link does not lead into that folder.
static int open_blob(int folder, const char *name, int blobs) {
  char base[BENEATH_MAX + 1];
  bool is_blobs;
  struct stat wanted;
  const int at = open_target_folder(folder, name, base, &is_blobs);
  const bool same = at >= 0 && fstat(blobs, &wanted) == 0 && same_file(at, &wanted);
  if (at >= 0) close(at);
  const int fd = same ? again_openat(blobs, base, OPEN_FILE | O_NOFOLLOW) : walk_fails(EXDEV);
  return fd < 0 && errno == ELOOP ? walk_fails(EXDEV) : fd;
}

static int open_beneath(int folder, const char *path, struct beneath_how how) {
  static atomic_bool no_openat2;
  const uint64_t beneath = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  bool walk = how.walk || no_openat2;
  int fd = -1;
  if (!walk) {
    do // EAGAIN: a rename elsewhere on the system raced with the walk
      fd = open_resolved(folder, path, OPEN_FILE, beneath);
    while (fd < 0 && errno == EAGAIN);
    walk = fd < 0 && (errno == ENOSYS || errno == EPERM);
    if (walk) no_openat2 = errno == ENOSYS;
  }
  if (walk) fd = walk_beneath(folder, path, OPEN_FILE);
  if (fd >= 0 || errno != EXDEV || (!how.allow_links && how.blobs < 0)) return fd;
  // The last component may lead out of the folder; its own folder does not.
  const char *last = path_base(path);
  char head[BENEATH_MAX + 1] = ".";
  if (last > path) snprintf(head, sizeof head, "%.*s", (int)(last - path) - 1, path);
  const int parent = walk ? walk_beneath(folder, head, OPEN_FOLDER)
                          : open_resolved(folder, head, OPEN_FOLDER, beneath);
  if (parent < 0) return -1;
  if (!how.allow_links)
    fd = open_blob(parent, last, how.blobs);
  else
    fd = walk ? again_openat(parent, last, OPEN_FILE)
              : open_resolved(parent, last, OPEN_FILE, RESOLVE_NO_MAGICLINKS);
  const int errnum = errno;
  close(parent);
  errno = errnum;
  return fd;
}

static int open_error(int errnum, struct beneath_how how, const char *shown, struct err *err) {
  if (errnum == EMFILE || errnum == ENFILE) return -2;
  if (errnum == EXDEV && how.allow_links)
    return err_set(err, ERR_PERMISSION, "'%s' points outside the model's folder", shown);
  if (errnum == EXDEV) {
    err_fill(err, ERR_PERMISSION,
             "'%s' is, or passes through, a symbolic link that points outside the model's folder",
             shown);
    return err_because(err, REASON_LINK);
  }
  if (errnum == ELOOP)
    return err_set(err, ERR_INPUT, "'%s' passes through too many symbolic links", shown);
  if (errnum == ENOENT) {
    err_fill(err, ERR_INPUT, "the data file '%s' is missing", shown);
    if (how.linked)
      return err_hint(err, "the .onnx is a link: weir looks for data files next to the link, not "
                           "next to its target");
    return err_hint(err, "weir looks for data files next to the .onnx, under the names in it");
  }
  return err_errno(err, errnum, ERR_MODEL, "'%s' cannot be opened", shown);
}

static int check_file(const struct stat *st, struct beneath_how how, const char *shown,
                      struct err *err) {
  if (!S_ISREG(st->st_mode)) return err_set(err, ERR_INPUT, "'%s' is not a regular file", shown);
  if (st->st_nlink > 1 && !how.allow_links) {
    err_fill(err, ERR_PERMISSION, "'%s' is a hard link: the file has %lu names", shown,
             (unsigned long)st->st_nlink);
    return err_because(err, REASON_HARD_LINK);
  }
  return 0;
}

int beneath_open(int folder, const char *path, struct beneath_how how, const char *shown,
                 struct stat *st, int *fd, struct err *err) {
  int at = open_beneath(folder, path, how);
  if (at < 0) return open_error(errno, how, shown, err);
  if (fstat(at, st)) {
    err_fill_errno(err, errno, ERR_IO, "'%s' cannot be examined", shown);
    goto out;
  }
  if (check_file(st, how, shown, err)) goto out;
  *fd = at;
  return 0;
out:
  close(at);
  return -1;
}
