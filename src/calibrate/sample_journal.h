// What is kept of a calibration while it works, in its staging folder: records, each whole or not there.
//
//   first      a record a sample, appended
//   second.G   one record, of group G: what the samples so far gave; replaced as a whole
#ifndef WEIR_SAMPLE_JOURNAL_H
#define WEIR_SAMPLE_JOURNAL_H

#include "base/err.h"
#include "base/span.h"
#include "platform/files.h"

#include <stdbool.h>
#include <stdint.h>

struct sample_journal {
  struct file file;
  uint64_t end; // of its whole records
};

// Opens or makes the file, and hands the records that are whole to `each`, in order, until it returns false: what
// comes then is cut off. -1 with *err.
int sample_journal_open(struct sample_journal *log, struct folder in, const char *name,
                        bool (*each)(void *ctx, struct span record), void *ctx, struct err *err);
int sample_journal_add(struct sample_journal *log, struct span record, struct err *err);
void sample_journal_close(struct sample_journal *log);

// A file of one record. get: false if there is none that is whole; to be freed by fs_free.
// put: `n` bytes that lie behind SAMPLE_JOURNAL_HEAD of room.
enum { SAMPLE_JOURNAL_HEAD = 40 };
int sample_journal_put(struct folder in, const char *name, uint8_t *room, size_t n,
                       struct err *err);
bool sample_journal_get(struct folder in, const char *name, struct span *file, struct span *record);

#endif
