// The first cause wins: err_fill does nothing to an error that is filled already, because what
// fails later (closing a file, removing a folder) is mostly a consequence of it. So a function that
// cleans up may pass the same error to what it calls.
//
// Nothing is printed here, and nothing here knows the command line. Where a hint must speak of
// options, the error carries a reason instead, and tools has the words. An errno becomes a kind at
// one place, here, and its text a part of the message; above the function that made the call there
// is no errno.
#include "base/err.h"

#include "platform/files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void put_message(struct err *e, enum err_kind kind, const char *fmt, va_list ap) {
  e->kind = kind;
  e->reason = REASON_NONE;
  e->hint[0] = '\0';
  vsnprintf(e->msg, sizeof e->msg, fmt, ap);
}

void err_fill(struct err *e, enum err_kind kind, const char *fmt, ...) {
  if (e->kind != ERR_NONE) return;
  va_list ap;
  va_start(ap, fmt);
  put_message(e, kind, fmt, ap);
  va_end(ap);
}

void err_fill_hint(struct err *e, const char *fmt, ...) {
  if (e->hint[0]) return;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(e->hint, sizeof e->hint, fmt, ap);
  va_end(ap);
}

void err_fill_reason(struct err *e, enum err_reason reason) {
  if (e->reason == REASON_NONE && !e->hint[0]) e->reason = reason;
}

void err_fill_hint_of(struct err *e, const struct err *cause) {
  err_fill_reason(e, cause->reason);
  if (cause->hint[0]) err_fill_hint(e, "%s", cause->hint);
}

static enum err_kind kind_of_errno(int errnum, enum err_kind otherwise) {
  if (failure_is_no_room(errnum)) return ERR_NOSPACE;
  switch (errnum) {
  case EACCES:
  case EPERM:
  case EROFS: return ERR_PERMISSION;
  case EMFILE:
  case ENFILE:
  case EIO: return ERR_IO;
  case ENOMEM: return ERR_NO_MEMORY;
  default: return otherwise;
  }
}

// The words of numbers that exist are constants in glibc and musl, so threads may ask at once.
const char *err_errno_words(int errnum) {
  return strerror(errnum);
}

void err_fill_errno(struct err *e, int errnum, enum err_kind otherwise, const char *fmt, ...) {
  if (e->kind != ERR_NONE) return;
  va_list ap;
  va_start(ap, fmt);
  put_message(e, kind_of_errno(errnum, otherwise), fmt, ap);
  va_end(ap);
  size_t n = strlen(e->msg);
  snprintf(e->msg + n, sizeof e->msg - n, ": %s", err_errno_words(errnum));
}
