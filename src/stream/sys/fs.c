// The file system as staging, seal and records see it: one table of calls, and the few compound
// steps that they share (write all, replace a small file durably, read one whole, list a folder).
//
// The table holds the calls that change something, or whose failure must be answered: those are the
// places between which a crash can happen. Reading, fstat and listing go to the system directly.
// The default table is the real calls; nothing in the program ever sets another one.
//
// A small file that must be whole or absent (header, seal.json, plan) is written beside its name,
// synced, and renamed:
//
//   write <name>.tmp ──▶ fsync ──▶ rename over <name>      (the caller syncs the folder)
#include "stream/sys/fs.h"

#include "base/again.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int real_openat(int dir, const char *name, int flags, mode_t mode) {
  return again_create(dir, name, flags | O_CLOEXEC, mode);
}

// The system call itself: musl has no function for it. Without flags the older one, which sandboxes know too.
static int real_renameat2(int from_dir, const char *from, int to_dir, const char *to,
                          unsigned flags) {
  if (flags == 0) return renameat(from_dir, from, to_dir, to);
  return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static int real_linkat(int from_dir, const char *from, int to_dir, const char *to) {
  return linkat(from_dir, from, to_dir, to, 0);
}

static int real_fchownat(int dir, const char *name, uid_t owner, gid_t group) {
  int rc;
  AGAIN(rc, fchownat(dir, name, owner, group, AT_SYMLINK_NOFOLLOW));
  return rc;
}

static int real_fchmodat(int dir, const char *name, mode_t mode) {
  int rc;
  AGAIN(rc, fchmodat(dir, name, mode, 0));
  return rc;
}

static int real_fallocate(int fd, off_t off, off_t len) {
  int rc;
  AGAIN(rc, fallocate(fd, 0, off, len));
  return rc;
}

static int real_fsync(int fd) {
  int rc;
  AGAIN(rc, fsync(fd));
  return rc;
}

static int real_fdatasync(int fd) {
  int rc;
  AGAIN(rc, fdatasync(fd));
  return rc;
}

static int real_ftruncate(int fd, off_t len) {
  int rc;
  AGAIN(rc, ftruncate(fd, len));
  return rc;
}

static int real_flock(int fd, int operation) {
  int rc;
  AGAIN(rc, flock(fd, operation));
  return rc;
}

const struct fs_ops fs_real_ops = {
    .openat = real_openat,
    .mkdirat = mkdirat,
    .renameat2 = real_renameat2,
    .linkat = real_linkat,
    .unlinkat = unlinkat,
    .fchownat = real_fchownat,
    .fchmodat = real_fchmodat,
    .fsync = real_fsync,
    .fdatasync = real_fdatasync,
    .fallocate = real_fallocate,
    .ftruncate = real_ftruncate,
    .write = write,
    .flock = real_flock,
    .fstatvfs = fstatvfs,
};
const struct fs_ops *fs_ops = &fs_real_ops;

int fs_write_all(int fd, const void *bytes, size_t n, const char *what, struct err *err) {
  const char *at = bytes;
  while (n > 0) {
    const ssize_t put = fs_ops->write(fd, at, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      return err_errno(err, put < 0 ? errno : EIO, ERR_IO, "cannot write '%s'", quote_str(what).s);
    at += put;
    n -= (size_t)put;
  }
  return 0;
}

// ---- free space ----

static bool has_capability(unsigned wanted) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
  if (syscall(SYS_capget, &head, data)) return false;
  return data[CAP_TO_INDEX(wanted)].effective & CAP_TO_MASK(wanted);
}

bool fs_free_bytes(int dir, uint64_t *bytes) {
  struct statvfs fs;
  if (fs_ops->fstatvfs(dir, &fs) || fs.f_blocks == 0) return false;
  const uint64_t blocks = has_capability(CAP_SYS_RESOURCE) ? fs.f_bfree : fs.f_bavail;
  return !mul_overflows(blocks, fs.f_frsize, bytes);
}

// ---- files of our own ----

// Who owns what this process makes there: on file systems that map owners (network ones, FUSE) not
// always who it runs as.
static bool is_our_owner(int dir, uid_t owner) {
  static const char probe[] = "owner.tmp";
  struct stat at;
  if (owner == geteuid()) return true;
  int fd = again_create(dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  if (fd < 0) {
    fd = again_create(dir, probe, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) unlinkat(dir, probe, 0);
  }
  const bool same = fd >= 0 && fstat(fd, &at) == 0 && at.st_uid == owner;
  if (fd >= 0) close(fd);
  return same;
}

const char *fs_not_own(int dir, const struct stat *at) {
  if (S_ISDIR(at->st_mode)) return "is a folder";
  if (S_ISLNK(at->st_mode)) return "is a symbolic link";
  if (S_ISFIFO(at->st_mode)) return "is a FIFO";
  if (!S_ISREG(at->st_mode)) return "is a device or a socket";
  if (at->st_nlink != 1) return "is a hard link (it has another name elsewhere)";
  if (!is_our_owner(dir, at->st_uid)) return "belongs to another user";
  return NULL;
}

int fs_open_own(int dir, const char *name, int flags, const char *where, struct err *err) {
  const char *wrong = NULL;
  struct stat at;
  const int fd = fs_ops->openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK, 0);
  const int why = fd < 0 ? errno : 0;
  if (fd < 0 && why == ENOENT) return -1;
  if (fd >= 0 ? fstat(fd, &at) == 0 : fstatat(dir, name, &at, AT_SYMLINK_NOFOLLOW) == 0)
    wrong = fs_not_own(dir, &at);
  // The flag was for the opening alone: some engines take it as a wish not to wait for the disk.
  if (fd >= 0 && !wrong && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0) return fd;
  if (fd >= 0) close(fd);
  if (!wrong)
    return err_errno(err, why, ERR_IO, "cannot open '%s' in '%s'", quote_str(name).s,
                     quote_str(where).s);
  err_set(err, ERR_PERMISSION, "'%s' in '%s' %s: weir did not create it", quote_str(name).s,
          quote_str(where).s, wrong);
  return err_because(err, REASON_NOT_OURS);
}

int fs_make_own(int dir, const char *name, int flags, struct err *err) {
  flags |= O_CREAT | O_EXCL | O_NOFOLLOW;
  int fd = fs_ops->openat(dir, name, flags, 0666);
  if (fd < 0 && errno == EEXIST && fs_ops->unlinkat(dir, name, 0) == 0)
    fd = fs_ops->openat(dir, name, flags, 0666);
  if (fd >= 0) return fd;
  return err_errno(err, errno, ERR_IO, "cannot create '%s'", quote_str(name).s);
}

int fs_put_file(int dir, const char *name, struct span bytes, struct err *err) {
  char beside[300];
  snprintf(beside, sizeof beside, "%s.tmp", name);
  const int fd = fs_make_own(dir, beside, O_WRONLY, err);
  if (fd < 0) return -1;
  int bad = fs_write_all(fd, bytes.at, bytes.n, beside, err);
  if (!bad && fs_ops->fsync(fd))
    bad = err_errno(err, errno, ERR_IO, "cannot sync '%s'", quote_str(beside).s);
  close(fd);
  if (!bad && fs_ops->renameat2(dir, beside, dir, name, 0))
    bad = err_errno(err, errno, ERR_IO, "cannot rename '%s' to '%s'", quote_str(beside).s,
                    quote_str(name).s);
  if (bad) (void)fs_ops->unlinkat(dir, beside, 0);
  return bad;
}

static int read_open_file(int fd, const char *name, size_t limit, struct span *out,
                          struct err *err) {
  struct stat at;
  if (fstat(fd, &at))
    return err_errno(err, errno, ERR_IO, "cannot examine '%s'", quote_str(name).s);
  if (!S_ISREG(at.st_mode))
    return err_set(err, ERR_INPUT, "'%s' is not a regular file", quote_str(name).s);
  if ((uint64_t)at.st_size > limit)
    return err_set(err, ERR_MODEL, "'%s' has %lld bytes; at most %zu are read", quote_str(name).s,
                   (long long)at.st_size, limit);
  const size_t n = (size_t)at.st_size;
  uint8_t *bytes = malloc(n + 1);
  if (!bytes)
    return err_set(err, ERR_NO_MEMORY, "no memory for the %zu bytes of '%s'", n, quote_str(name).s);
  const ssize_t have = again_pread_all(fd, bytes, n, 0);
  if (have < 0) {
    const int why = errno;
    free(bytes);
    return err_errno(err, why, ERR_IO, "cannot read '%s'", quote_str(name).s);
  }
  bytes[have] = 0;
  *out = span_of(bytes, (size_t)have);
  return 0;
}

int fs_read_file(int dir, const char *name, size_t limit, struct span *out, struct err *err) {
  // O_NONBLOCK: a FIFO must not hang us; fstat tells afterwards.
  const int fd = again_openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return -1;
  if (fd < 0) return err_errno(err, errno, ERR_INPUT, "cannot open '%s'", quote_str(name).s);
  const int bad = read_open_file(fd, name, limit, out, err);
  close(fd);
  return bad;
}

int fs_read_own(int dir, const char *name, size_t limit, const char *where, struct span *out,
                struct err *err) {
  const int fd = fs_open_own(dir, name, O_RDONLY, where, err);
  if (fd < 0) return -1;
  const int bad = read_open_file(fd, name, limit, out, err);
  close(fd);
  return bad;
}

void fs_free(struct span bytes) {
  free((void *)(uintptr_t)bytes.at);
}

bool fs_is_at(const struct stat *file, const char *path) {
  struct stat at;
  return stat(path, &at) == 0 && at.st_dev == file->st_dev && at.st_ino == file->st_ino;
}

int fs_sync_folder(int dir, const char *what, struct err *err) {
  if (fs_ops->fsync(dir) == 0 || errno == EINVAL) return 0;
  return err_errno(err, errno, ERR_IO, "cannot sync folder '%s'", quote_str(what).s);
}

int fs_list(int dir, int (*each)(void *ctx, const char *name), void *ctx, const char *what,
            struct err *err) {
  // A descriptor of its own: closedir closes it, and the position is not shared.
  const int fd = again_openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
  if (!list) {
    const int why = errno;
    if (fd >= 0) close(fd);
    return err_errno(err, why, ERR_INPUT, "cannot list folder '%s'", quote_str(what).s);
  }
  int result = 0;
  errno = 0;
  for (struct dirent *e; result == 0 && (e = readdir(list)) != NULL; errno = 0)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) result = each(ctx, e->d_name);
  if (result == 0 && errno)
    result = err_errno(err, errno, ERR_IO, "cannot list folder '%s'", quote_str(what).s);
  closedir(list);
  return result;
}
