// Streams of the C library, whose calls a signal may interrupt (EINTR): made again until they are through.
#ifndef WEIR_AGAIN_H
#define WEIR_AGAIN_H

#include "platform/files.h"

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
    const int c = stream_getc(f);
    if (c != EOF || !ferror(f) || errno != EINTR) return c;
    clearerr(f);
  }
}

#endif
