// A data file may be shared by several models of a folder, so before one is removed every .onnx
// beside it is searched for its name. No parsing: an external_data location is stored as plain
// bytes, so a file without those bytes cannot name it, and one with them by chance only keeps a
// file alive.
//
// A file is read in windows that overlap by the name's length less one:
//
//   |---------- window ----------|
//                          |---------- window ----------|
//                          `-----' n - 1 bytes, moved to the front
#include "name_scan.h"

#include "fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW = 1 << 20 };

static enum name_scan scan_fd(int fd, struct span name, uint8_t *buf) {
  size_t kept = 0;
  for (;;) {
    const ssize_t got = read(fd, buf + kept, WINDOW - kept);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return NAME_SCAN_UNKNOWN;
    if (got == 0) return NAME_SCAN_FREE;
    const size_t have = kept + (size_t)got;
    if (memmem(buf, have, name.at, name.n)) return NAME_SCAN_NAMED;
    kept = have < name.n ? have : name.n - 1;
    memmove(buf, buf + have - kept, kept);
  }
}

enum name_scan name_scan_file(int dir, const char *onnx, const char *name) {
  const int fd = openat(dir, onnx, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? NAME_SCAN_FREE : NAME_SCAN_UNKNOWN;
  struct stat at;
  uint8_t *buf = malloc(WINDOW);
  enum name_scan result = NAME_SCAN_UNKNOWN;
  if (buf && fstat(fd, &at) == 0)
    result = S_ISREG(at.st_mode) ? scan_fd(fd, span_str(name), buf) : NAME_SCAN_FREE;
  free(buf);
  close(fd);
  return result;
}

struct search {
  int dir;
  const char *name, *except;
  char *who;
  enum name_scan result;
};

static int search_entry(void *ctx, const char *entry) {
  struct search *s = ctx;
  const size_t n = strlen(entry);
  if (n < 5 || strcasecmp(entry + n - 5, ".onnx") != 0) return 0;
  if (s->except && strcmp(entry, s->except) == 0) return 0;
  const enum name_scan found = name_scan_file(s->dir, entry, s->name);
  if (found == NAME_SCAN_FREE) return 0;
  s->result = found;
  snprintf(s->who, 256, "%s", entry);
  return 1;
}

enum name_scan name_scan_folder(int dir, const char *name, const char *except, char who[256]) {
  struct search s = {.dir = dir, .name = name, .except = except, .who = who};
  s.result = NAME_SCAN_FREE;
  who[0] = '\0';
  struct err err = {0};
  if (fs_list(dir, search_entry, &s, "", &err) >= 0) return s.result;
  return NAME_SCAN_UNKNOWN;
}
