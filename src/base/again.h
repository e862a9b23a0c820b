// Calls that a signal may interrupt (EINTR), made again until they are through: a handler without
// SA_RESTART is enough, and file systems in user space answer so of themselves, to open too.
//
// Not close, whose descriptor is gone whatever it says, and not what changes names: a rename that was
// interrupted may have been carried out, and would find nothing the second time.
#ifndef WEIR_AGAIN_H
#define WEIR_AGAIN_H

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

#endif
