#include "stream/staging/artifact_cache.h"

#include "stream/sys/file_lookup.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdio.h>

enum { NAME_BYTES = DIGEST_HEX + 8 };

static void name_of(char name[NAME_BYTES], const uint8_t sha256[DIGEST_BYTES]) {
  snprintf(name, NAME_BYTES, "%s.jsonl", digest_hex(sha256).s);
}

static struct folder open_folder(const char *folder, enum err_kind kind, struct err *err) {
  struct folder dir = folder_open(HERE, folder, 0);
  if (!folder_is_open(dir))
    err_errno(err, errno, kind, "the folder '%s' cannot be opened", quote_path(folder).s);
  return dir;
}

int artifact_cache_make(const char *folder, struct err *err) {
  if (folder_make(HERE, folder, 0777) && errno != EEXIST)
    return err_errno(err, errno, errno == ENOENT ? ERR_USAGE : ERR_IO,
                     "the folder '%s' of --artifacts cannot be created", quote_path(folder).s);
  if (entry_may(HERE, folder, MAY_WRITE | MAY_ENTER))
    return err_errno(err, errno, ERR_IO, "files cannot be created in the folder '%s'",
                     quote_path(folder).s);
  return 0;
}

static bool is_there(const char *folder, const char *name, const struct artifact *a) {
  struct arena scratch = {0};
  const char *path = arena_printf(&scratch, "%s/%s", folder, name), *other;
  const struct file_lookup wanted = {name, a->text.n, a->sha256};
  const bool there = file_lookup_in(&wanted, &path, 1, &other) != NULL;
  arena_free(&scratch);
  return there;
}

// Others may be putting the same one there: one after the other, where the file system has locks.
int artifact_cache_put(const char *folder, const struct artifact *a, struct err *err) {
  char name[NAME_BYTES];
  struct folder dir = open_folder(folder, ERR_IO, err);
  if (!folder_is_open(dir)) return -1;
  (void)folder_lock(dir, LOCK_ALONE);
  name_of(name, a->sha256);
  int rc = is_there(folder, name, a) ? 0 : fs_put_file(dir, name, a->text, err);
  if (rc == 0) rc = fs_sync_folder(dir, folder, err);
  folder_close(&dir);
  return rc;
}

// NULL in *text: it is not there, or answers another question.
static int take(const char *folder, const uint8_t sha256[DIGEST_BYTES], struct span head,
                struct span *text, struct err *err) {
  char name[NAME_BYTES];
  uint8_t is[DIGEST_BYTES];
  struct folder dir = open_folder(folder, ERR_INPUT, err);
  *text = (struct span){0};
  if (!folder_is_open(dir)) return -1;
  name_of(name, sha256);
  const int bad = fs_read_file(dir, name, ARTIFACT_BYTES_MAX, text, err);
  folder_close(&dir);
  if (bad) return err->kind == ERR_NONE ? 0 : -1;
  digest_of(text->at, text->n, is);
  const bool damaged = memcmp(is, sha256, sizeof is) != 0;
  if (!damaged && text->n >= head.n && memcmp(text->at, head.at, head.n) == 0) return 0;
  fs_free(*text);
  *text = (struct span){0};
  if (!damaged) return 0;
  err_fill(err, ERR_INPUT, "'%s/%s' is damaged: its SHA-256 is not the one that it is named after",
           quote_path(folder).s, name);
  return err_hint(err, "without --artifacts the weights are read again");
}

int artifact_cache_take(const struct artifact_cache *k, const struct artifact_request *q,
                        const uint8_t id[DIGEST_BYTES], struct span *text, struct err *err) {
  struct json_out head = {0};
  int rc = 0;
  *text = (struct span){0};
  if (!k->folder) return 0;
  artifact_begin(&head, q, id);
  const struct json_value *row = json_first(k->listed);
  for (; row && rc == 0 && !text->at; row = json_next(row)) {
    struct span hex;
    uint8_t sha256[DIGEST_BYTES];
    if (json_is_text(json_get(row, "stage"), q->stage) &&
        json_as_string(json_get(row, "sha256"), &hex) && hex_decode(hex, sha256, sizeof sha256))
      rc = take(k->folder, sha256, span_of(head.text, head.n), text, err);
  }
  json_done(&head);
  return rc;
}
