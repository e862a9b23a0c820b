// The lock on the door: names in a model file are chosen by whoever wrote it.
//
// Two steps. First the text: what is absolute, leaves the folder, or would be a path on another
// system is refused, and the rest is normalized. Then the disk: one openat2 with RESOLVE_BENEATH,
// NO_SYMLINKS and NO_MAGICLINKS makes the kernel keep the promise, so that nobody can swap a folder
// for a link between a check and an open. Where openat2 does not exist (before Linux 5.6, or behind
// a filter) every component is opened alone with O_NOFOLLOW, which keeps the same promise.
//
// Everything else is asked of the descriptor, not of the name: a regular file, one name only (a
// hard link can smuggle in a file from outside). O_NONBLOCK keeps a FIFO from hanging us before
// that.
//
// With allow_links, links inside the folder are followed, and the last component may be a link that
// leads out, as in a cache of `snapshots/<revision>/model.onnx_data -> ../../blobs/<hash>`. Folders
// are never followed out; the fallback does not follow links to folders at all.
#include "beneath.h"

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

static bool has_drive_letter(struct span s) {
  return s.n >= 2 && s.at[1] == ':' && ((s.at[0] | 32) >= 'a' && (s.at[0] | 32) <= 'z');
}

static const char *text_fault(struct span s) {
  if (s.n == 0) return "is empty";
  if (s.n > BENEATH_MAX) return "is longer than 4096 bytes";
  if (memchr(s.at, 0, s.n)) return "holds a NUL byte";
  if (s.at[0] == '/') return "is absolute; it must lie in the model's folder";
  if (memchr(s.at, '\\', s.n)) return "holds a backslash, which other systems take for a path";
  if (has_drive_letter(s)) return "begins with a drive letter";
  if (s.at[s.n - 1] == '/') return "names a folder";
  return NULL;
}

// Drops the last component of path[0..n); returns the new length.
static size_t drop_last(const char *path, size_t n) {
  while (n > 0 && path[n - 1] != '/')
    n--;
  return n > 0 ? n - 1 : 0;
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
      n = drop_last(path, n);
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
  return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

static bool is_link(int folder, const char *path) {
  struct stat st;
  return fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

// Opens the folder that holds the last component of path; *last is that component.
static int walk_to_parent(int folder, const char *path, const char **last) {
  int at = fcntl(folder, F_DUPFD_CLOEXEC, 0);
  const char *slash;
  while (at >= 0 && (slash = strchr(path, '/'))) {
    char part[BENEATH_MAX + 1];
    const size_t n = (size_t)(slash - path);
    memcpy(part, path, n);
    part[n] = '\0';
    int next = openat(at, part, OPEN_FOLDER | O_NOFOLLOW);
    const int errnum = next < 0 && is_link(at, part) ? ELOOP : errno;
    close(at);
    errno = errnum;
    at = next;
    path = slash + 1;
  }
  *last = path;
  return at;
}

static int open_walking(int folder, const char *path, bool follow_last) {
  const char *last;
  int parent = walk_to_parent(folder, path, &last);
  if (parent < 0) return -1;
  int fd = openat(parent, last, OPEN_FILE | (follow_last ? 0 : O_NOFOLLOW));
  const int errnum = errno;
  close(parent);
  errno = errnum;
  return fd;
}

// The last component leads out of the folder; its own folder does not.
static int open_leading_out(int folder, const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return open_resolved(folder, path, OPEN_FILE, RESOLVE_NO_MAGICLINKS);
  char head[BENEATH_MAX + 1];
  memcpy(head, path, (size_t)(slash - path));
  head[slash - path] = '\0';
  int parent = open_resolved(folder, head, OPEN_FOLDER, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
  if (parent < 0) return -1;
  int fd = open_resolved(parent, slash + 1, OPEN_FILE, RESOLVE_NO_MAGICLINKS);
  const int errnum = errno;
  close(parent);
  errno = errnum;
  return fd;
}

static bool lacks_openat2(int errnum) {
  return errnum == ENOSYS || errnum == EPERM;
}

static int open_beneath(int folder, const char *path, struct beneath_how how) {
  static atomic_bool no_openat2;
  if (how.walk || no_openat2) return open_walking(folder, path, how.allow_links);
  uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (!how.allow_links) resolve |= RESOLVE_NO_SYMLINKS;
  int fd;
  do { // EAGAIN: a rename elsewhere on the system raced with the walk
    fd = open_resolved(folder, path, OPEN_FILE, resolve);
  } while (fd < 0 && (errno == EINTR || errno == EAGAIN));
  if (fd < 0 && lacks_openat2(errno)) {
    no_openat2 = errno == ENOSYS;
    return open_walking(folder, path, how.allow_links);
  }
  if (fd < 0 && errno == EXDEV && how.allow_links) return open_leading_out(folder, path);
  return fd;
}

static int links_hint(struct err *err) {
  return err_hint(err, "--allow-links accepts links, as the Hugging Face cache makes them; use it "
                       "for models you trust");
}

static int open_error(int errnum, struct beneath_how how, const char *name, struct err *err) {
  const struct quoted q = quote_str(name);
  if (errnum == EMFILE || errnum == ENFILE) return -2;
  if (errnum == ELOOP && !how.allow_links) {
    err_fill(err, ERR_MODEL, "'%s' is, or goes through, a symbolic link", q.s);
    return links_hint(err);
  }
  if (errnum == EXDEV) return err_set(err, ERR_MODEL, "'%s' leads out of the model's folder", q.s);
  if (errnum == ENOENT) {
    err_fill(err, ERR_INPUT, "'%s' is missing", q.s);
    return err_hint(err, "data files are looked for beside the .onnx, under the names it gives");
  }
  return err_errno(err, errnum, ERR_MODEL, "'%s' cannot be opened", q.s);
}

static int check_file(const struct stat *st, struct beneath_how how, const char *name,
                      struct err *err) {
  if (!S_ISREG(st->st_mode))
    return err_set(err, ERR_MODEL, "'%s' is not a regular file", quote_str(name).s);
  if (st->st_nlink > 1 && !how.allow_links) {
    err_fill(err, ERR_MODEL, "'%s' is a hard link: the file has %llu names", quote_str(name).s,
             (unsigned long long)st->st_nlink);
    return links_hint(err);
  }
  return 0;
}

int beneath_open(int folder, const char *path, struct beneath_how how, const char *name,
                 struct stat *st, int *fd, struct err *err) {
  int at = open_beneath(folder, path, how);
  if (at < 0) return open_error(errno, how, name, err);
  if (fstat(at, st)) {
    err_fill_errno(err, errno, ERR_IO, "'%s'", quote_str(name).s);
    goto out;
  }
  if (check_file(st, how, name, err)) goto out;
  *fd = at;
  return 0;
out:
  close(at);
  return -1;
}
