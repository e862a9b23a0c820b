// O_NONBLOCK: a pipe that nobody writes to must not hold us up before fstat tells that it is one.
#include "json/plain_file.h"

#include "base/again.h"
#include "base/table.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode) {
  return S_ISDIR(mode)                    ? "a folder"
         : S_ISFIFO(mode)                 ? "a pipe"
         : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                          : "a socket";
}

FILE *plain_file_open(const char *path, const char *what, struct err *err) {
  struct stat at;
  const int fd = again_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  FILE *f = NULL;
  if (fd < 0 || fstat(fd, &at)) {
    err_fill_errno(err, errno, ERR_INPUT, "%s'%s' cannot be read", what, quote_path(path).s);
  } else if (!S_ISREG(at.st_mode)) {
    err_fill(err, ERR_INPUT, "%s'%s' cannot be read: it is %s, and not a plain file", what,
             quote_path(path).s, kind_of(at.st_mode));
    if (S_ISFIFO(at.st_mode))
      err_fill_hint(
          err, "if the option accepts '-', pass it on standard input; otherwise write it to a file "
               "first");
  } else if (!(f = fdopen(fd, "r"))) {
    err_fill_errno(err, errno, ERR_INPUT, "%s'%s' cannot be read", what, quote_path(path).s);
  }
  if (!f && fd >= 0) close(fd);
  return f;
}

int plain_file_text(const char *path, size_t most, struct arena *a, struct span *out,
                    struct err *err) {
  enum { PIECE = 1 << 16 };
  FILE *from = plain_file_open(path, "", err);
  uint8_t *bytes = NULL;
  size_t cap = 0, n = 0, got;
  int rc = 0;
  if (!from) return -1;
  do {
    bytes = table_grow(bytes, &cap, n + PIECE, 1);
    got = again_fread(bytes + n, PIECE, from);
    n += got;
  } while (got > 0 && n <= most);
  if (ferror(from))
    rc = err_errno(err, errno ? errno : EIO, ERR_INPUT, "'%s' cannot be read", quote_path(path).s);
  else if (n > most)
    rc = err_set(err, ERR_INPUT, "'%s' is larger than %zu MiB", quote_path(path).s, most >> 20);
  fclose(from);
  if (rc == 0) *out = span_of(arena_string(a, span_of(bytes, n)), n);
  table_free(bytes, cap, 1);
  return rc;
}
