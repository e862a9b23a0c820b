// FILE_NO_WAIT: a pipe that nobody writes to must not hold us up before we know that it is one.
#include "json/plain_file.h"

#include "base/table.h"
#include "platform/files.h"

#include <errno.h>

static int refuse(const char *path, const char *what, struct err *err) {
  return err_errno(err, errno, ERR_INPUT, "%s'%s' cannot be read", what, quote_path(path).s);
}

// None: *err says why.
static struct file open_plain(const char *path, const char *what, struct err *err) {
  struct entry_facts at;
  struct file f = file_open(HERE, path, FILE_NO_WAIT);
  if (!file_is_open(f) || file_look(f, &at)) {
    refuse(path, what, err);
  } else if (at.kind == ENTRY_FILE) {
    return f;
  } else {
    err_fill(err, ERR_INPUT, "%s'%s' cannot be read: it is %s, and not a plain file", what,
             quote_path(path).s,
             at.kind == ENTRY_FOLDER ? "a folder"
             : at.kind == ENTRY_FIFO ? "a pipe"
                                     : "a device");
    if (at.kind == ENTRY_FIFO)
      err_fill_hint(
          err, "if the option accepts '-', pass it on standard input; otherwise write it to a file "
               "first");
  }
  file_close(&f);
  return f;
}

FILE *plain_file_open(const char *path, const char *what, struct err *err) {
  const struct file f = open_plain(path, what, err);
  FILE *stream = file_stream(f, "r");
  if (!stream && file_is_open(f)) refuse(path, what, err);
  return stream;
}

int plain_file_text(const char *path, size_t most, struct arena *a, struct span *out,
                    struct err *err) {
  enum { PIECE = 1 << 16 };
  struct file from = open_plain(path, "", err);
  uint8_t *bytes = NULL;
  size_t cap = 0, n = 0;
  int64_t got;
  int rc = 0;
  if (!file_is_open(from)) return -1;
  do {
    bytes = table_grow(bytes, &cap, n + PIECE, 1);
    got = file_read(from, bytes + n, PIECE);
    n += got > 0 ? (size_t)got : 0;
  } while (got > 0 && n <= most);
  if (got < 0)
    rc = refuse(path, "", err);
  else if (n > most)
    rc = err_set(err, ERR_INPUT, "'%s' is larger than %zu MiB", quote_path(path).s, most >> 20);
  file_close(&from);
  if (rc == 0) *out = span_of(arena_string(a, span_of(bytes, n)), n);
  table_free(bytes, cap, 1);
  return rc;
}
