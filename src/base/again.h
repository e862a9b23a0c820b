// Calls that a signal may interrupt (EINTR), made again until they are through: a handler without
// SA_RESTART is enough, and file systems in user space answer so of themselves, to open too.
//
// Not close, whose descriptor is gone whatever it says, and not what changes names: a rename that was
// interrupted may have been carried out, and would find nothing the second time.
#ifndef WEIR_AGAIN_H
#define WEIR_AGAIN_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

// `rc` becomes the result of `call`, which says -1 and errno where it fails.
#define AGAIN(rc, call)                                                                            \
  do                                                                                               \
    (rc) = (call);                                                                                 \
  while ((rc) < 0 && errno == EINTR)

// openat; `mode` is for what the flags make, 0 where they make nothing.
static inline int again_create(int dir, const char *name, int flags, mode_t mode) {
  int fd;
  AGAIN(fd, openat(dir, name, flags, mode));
  return fd;
}
static inline int again_openat(int dir, const char *name, int flags) {
  return again_create(dir, name, flags, 0);
}

static inline ssize_t again_pread(int fd, void *at, size_t n, off_t off) {
  ssize_t got;
  AGAIN(got, pread(fd, at, n, off));
  return got;
}

// All n bytes from `off` on; fewer where the file ends; -1 and errno where they cannot be read.
static inline ssize_t again_pread_all(int fd, void *at, size_t n, uint64_t off) {
  size_t done = 0;
  while (done < n) {
    const ssize_t got = again_pread(fd, (char *)at + done, n - done, (off_t)(off + done));
    if (got < 0) return -1;
    if (got == 0) break;
    done += (size_t)got;
  }
  return (ssize_t)done;
}

// All n bytes to `off`; -1 and errno where they do not go.
static inline int again_pwrite_all(int fd, const void *bytes, size_t n, uint64_t off) {
  for (size_t done = 0; done < n;) {
    ssize_t put;
    AGAIN(put, pwrite(fd, (const char *)bytes + done, n - done, (off_t)(off + done)));
    if (put == 0) errno = ENOSPC;
    if (put <= 0) return -1;
    done += (size_t)put;
  }
  return 0;
}

// All n bytes; -1 and errno where they do not go.
static inline int again_write_all(int fd, const void *bytes, size_t n) {
  for (const char *at = bytes; n > 0;) {
    ssize_t put;
    AGAIN(put, write(fd, at, n));
    if (put == 0) errno = EIO;
    if (put <= 0) return -1;
    at += put;
    n -= (size_t)put;
  }
  return 0;
}

static inline DIR *again_opendir(const char *path) {
  DIR *d;
  do
    d = opendir(path);
  while (!d && errno == EINTR);
  return d;
}

static inline FILE *again_fopen(const char *path, const char *mode) {
  FILE *f;
  do
    f = fopen(path, mode);
  while (!f && errno == EINTR);
  return f;
}

// fread of bytes: fewer than n at the end, or where errno says what failed and ferror that it did.
static inline size_t again_fread(void *at, size_t n, FILE *f) {
  size_t got = 0;
  for (;;) {
    errno = 0;
    got += fread((char *)at + got, 1, n - got, f);
    if (got == n || !ferror(f) || errno != EINTR) return got;
    clearerr(f);
  }
}

// getc: EOF at the end, or where ferror says that it failed.
static inline int again_getc(FILE *f) {
  for (;;) {
    errno = 0;
    const int c = getc_unlocked(f);
    if (c != EOF || !ferror(f) || errno != EINTR) return c;
    clearerr(f);
  }
}

// fgets of a file whose lines come whole, as those of /proc.
static inline char *again_fgets(char *line, int n, FILE *f) {
  for (;;) {
    errno = 0;
    char *got = fgets(line, n, f);
    if (got || !ferror(f) || errno != EINTR) return got;
    clearerr(f);
  }
}

#endif
