// OUT.tensors.jsonl on its way: a text that grows in the staging folder and takes its name with the
// other files.
//
// Two digests go along with it: one of the file, which the manifest names, and one of every unit,
// which an unfinished seal knows its files by. A kill leaves a shorter file in a staging folder,
// where only an intent to seal gives a name a meaning (seal_intent.h): the next run begins the file
// anew.
#include "stream/seal/companion.h"

#include "base/table.h"
#include "plan/plan.h"
#include "stream/sys/fs.h"

#include <errno.h>

struct companion {
  struct arena arena;
  const char *name;
  struct file fd;
  struct digest *file, *unit;
  uint64_t unit_bytes; // of the unit that is being filled
  uint8_t (*units)[DIGEST_BYTES];
  size_t units_cap;
  uint32_t n_units;
  uint8_t sha256[DIGEST_BYTES];
};

int companion_open(struct companion **out, struct folder folder, const char *name,
                   struct err *err) {
  struct file fd = NO_FILE;
  if (folder_is_open(folder)) {
    fd = fs_make_own(folder, name, 0, err);
    if (!file_is_open(fd)) return -1;
  }
  struct arena arena = {0};
  struct companion *l = arena_zalloc(&arena, sizeof *l);
  l->name = arena_string(&arena, span_str(name));
  l->fd = fd;
  l->file = digest_new();
  l->unit = digest_new();
  l->arena = arena;
  *out = l;
  return 0;
}

static void end_unit(struct companion *l) {
  l->units = table_grow(l->units, &l->units_cap, l->n_units + 1, DIGEST_BYTES);
  digest_end(l->unit, l->units[l->n_units++]);
  digest_start(l->unit);
  l->unit_bytes = 0;
}

int companion_add(struct companion *l, struct span text, struct err *err) {
  if (file_is_open(l->fd) && fs_write_all(l->fd, text.at, text.n, l->name, err)) return -1;
  digest_add(l->file, text.at, text.n);
  for (size_t at = 0; at < text.n;) {
    const size_t n = (size_t)min_u64(text.n - at, PLAN_UNIT_BYTES - l->unit_bytes);
    digest_add(l->unit, (const uint8_t *)text.at + at, n);
    l->unit_bytes += n;
    at += n;
    if (l->unit_bytes == PLAN_UNIT_BYTES) end_unit(l);
  }
  return 0;
}

int companion_end(struct companion *l, struct err *err) {
  if (l->unit_bytes > 0) end_unit(l);
  digest_end(l->file, l->sha256);
  if (file_is_open(l->fd) && file_sync(l->fd))
    return err_errno(err, errno, ERR_IO, "cannot sync '%s'", quote_str(l->name).s);
  file_close(&l->fd); // it is moved next
  return 0;
}

void companion_close(struct companion *l) {
  if (!l) return;
  file_close(&l->fd);
  digest_free(l->file);
  digest_free(l->unit);
  table_free(l->units, l->units_cap, DIGEST_BYTES);
  struct arena arena = l->arena; // it holds l itself
  arena_free(&arena);
}

const char *companion_name(const struct companion *l) {
  return l->name;
}

const uint8_t *companion_sha256(const struct companion *l) {
  return l->sha256;
}

const uint8_t (*companion_units(const struct companion *l, uint32_t *n))[DIGEST_BYTES] {
  *n = l->n_units;
  return (const uint8_t(*)[DIGEST_BYTES])l->units;
}
