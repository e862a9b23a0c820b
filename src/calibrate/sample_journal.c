// record: u64 length | SHA-256 of what follows | bytes
//
// A record is synced before the next sample begins; one that was torn has another digest, and is written over.
#include "calibrate/sample_journal.h"

#include "base/digest.h"
#include "stream/sys/fs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = SAMPLE_JOURNAL_HEAD };
static_assert(HEAD == 8 + DIGEST_BYTES, "a length and a digest");
#define MOST_BYTES ((size_t)4 << 30)

static void put_head(uint8_t head[HEAD], struct span record) {
  const uint64_t n = record.n;
  memcpy(head, &n, sizeof n);
  digest_of(record.at, record.n, head + sizeof n);
}

// The record at the beginning of `from`; false if it is not whole.
static bool take(struct span from, struct span *record) {
  uint64_t n;
  uint8_t is[DIGEST_BYTES];
  if (from.n < HEAD) return false;
  memcpy(&n, from.at, sizeof n);
  if (n > from.n - HEAD) return false;
  *record = span_of(from.at + HEAD, (size_t)n);
  digest_of(record->at, record->n, is);
  return memcmp(is, from.at + sizeof n, DIGEST_BYTES) == 0;
}

int sample_journal_open(struct sample_journal *log, struct folder in, const char *name,
                        bool (*each)(void *ctx, struct span record), void *ctx, struct err *err) {
  struct span all = {0}, record;
  size_t at = 0;
  log->file = NO_FILE;
  if (fs_read_own(in, name, MOST_BYTES, "the staging folder", &all, err) && err->kind != ERR_NONE)
    return -1;
  while (at < all.n && take(span_of(all.at + at, all.n - at), &record) && each(ctx, record))
    at += HEAD + record.n;
  const bool there = all.at != NULL;
  if (there) fs_free(all);
  log->end = at;
  log->file =
      there ? fs_open_own(in, name, 0, "the staging folder", err) : fs_make_own(in, name, 0, err);
  if (!file_is_open(log->file)) return -1;
  if (file_set_size(log->file, at) || file_seek(log->file, at))
    return err_errno(err, errno, ERR_IO, "the ranges found so far cannot be saved");
  return 0;
}

int sample_journal_add(struct sample_journal *log, struct span record, struct err *err) {
  uint8_t head[HEAD];
  put_head(head, record);
  if (fs_write_all(log->file, head, sizeof head, "the ranges found so far", err) ||
      fs_write_all(log->file, record.at, record.n, "the ranges found so far", err))
    return -1;
  if (file_sync_data(log->file))
    return err_errno(err, errno, ERR_IO, "the ranges found so far cannot be saved");
  log->end += sizeof head + record.n;
  return 0;
}

void sample_journal_close(struct sample_journal *log) {
  file_close(&log->file);
}

int sample_journal_put(struct folder in, const char *name, uint8_t *room, size_t n,
                       struct err *err) {
  put_head(room, span_of(room + HEAD, n));
  return fs_put_file(in, name, span_of(room, HEAD + n), err);
}

bool sample_journal_get(struct folder in, const char *name, struct span *file,
                        struct span *record) {
  struct err ignored = {0};
  *file = (struct span){0};
  if (fs_read_own(in, name, MOST_BYTES, "the staging folder", file, &ignored)) return false;
  if (take(*file, record) && record->n + HEAD == file->n) return true;
  fs_free(*file);
  *file = (struct span){0};
  return false;
}
