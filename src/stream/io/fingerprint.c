#include "fingerprint.h"

static int64_t nanoseconds(struct timespec t) {
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct fingerprint fingerprint_of(const struct stat *st) {
  return (struct fingerprint){.size = (uint64_t)st->st_size,
                              .mtime_ns = nanoseconds(st->st_mtim),
                              .ctime_ns = nanoseconds(st->st_ctim),
                              .ino = st->st_ino,
                              .dev = st->st_dev};
}

bool fingerprint_same(struct fingerprint a, struct fingerprint b) {
  return a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns &&
         a.ino == b.ino && a.dev == b.dev;
}
