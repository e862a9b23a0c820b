// A record grows under a temporary name (F.part) and takes its own when it is whole. What is no plain
// file (a device, a pipe, a link such as /dev/stdout) is written as it is: a rename would replace
// it. "-" is standard output, where no other record goes then.
#include "execute/record_file.h"

#include "base/table.h"
#include "stream/load/load.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int cannot_write(const char *path, struct err *err) {
  const bool astray = errno == ENOENT || errno == ENOTDIR || errno == EISDIR;
  err_fill_errno(err, errno, astray ? ERR_USAGE : ERR_IO, "'%s' cannot be written",
                 quote_str(path).s);
  return astray ? err_hint(err, "give the name of a file, in an existing folder") : -1;
}

bool record_file_is_plain(const char *path) {
  struct entry_facts st;
  if (path_is_stream(path)) return false;
  return entry_look(HERE, path, FILE_NO_LINK, &st) < 0 || st.kind == ENTRY_FILE;
}

int record_file_foresee(const char *path, struct err *err) {
  struct entry_facts st;
  struct arena scratch = {0};
  if (path_is_stream(path)) return 0;
  bool bad = entry_look(HERE, path, 0, &st) == 0 && st.kind == ENTRY_FOLDER;
  if (bad)
    errno = EISDIR;
  else if (record_file_is_plain(path)) // its folder, with a slash behind it: a file is none then
    bad = entry_may(HERE, arena_printf(&scratch, "%s/", arena_folder(&scratch, path)),
                    MAY_WRITE | MAY_ENTER) < 0;
  else
    bad = entry_may(HERE, path, MAY_WRITE) < 0;
  const int rc = bad ? cannot_write(path, err) : 0;
  arena_free(&scratch);
  return rc;
}

int record_file_refuse(const char *option, const char *path, const char *whose, struct err *err) {
  err_set(err, ERR_USAGE, "--%s would overwrite '%s', which belongs to the %s", option,
          quote_str(path).s, whose);
  return err_hint(err, "give it another name");
}

static bool belongs(const struct entry_facts *at, const char *file, bool is_model,
                    bool allow_links) {
  if (fs_is_at(at, file)) return true;
  if (!is_model) return false;
  struct model m;
  struct sources *sources = NULL;
  struct err ignored = {0};
  model_init(&m);
  (void)load_model_at(&m, &sources, file, allow_links, NULL, &ignored);
  const bool is = sources && sources_find_inode(sources, at->volume, at->number) != NO_ID;
  model_free(&m);
  if (sources) sources_close(sources);
  return is;
}

int record_file_spares(const char *path, const char *option, const char *file, bool is_model,
                       bool allow_links, struct err *err) {
  struct arena scratch = {0};
  const char *const ways[] = {path, arena_printf(&scratch, "%s.part", path)};
  int rc = 0;
  for (size_t i = 0; i < 2 && rc == 0 && !path_is_stream(path); i++) {
    struct entry_facts at;
    if (entry_look(HERE, ways[i], 0, &at) == 0 && at.kind == ENTRY_FILE &&
        belongs(&at, file, is_model, allow_links))
      rc = record_file_refuse(option, ways[i], "input", err);
  }
  arena_free(&scratch);
  return rc;
}

static int open_text(struct record_file *t, const char *path) {
  t->file = file_open_to_write(HERE, path, FILE_MAKE | FILE_EMPTY, 0666);
  t->is_open = file_is_open(t->file);
  return t->is_open ? 0 : -1;
}

static void close_text(struct record_file *t) {
  file_close(&t->file);
  TABLE_FREE(t, bytes);
  t->n_bytes = 0;
  t->is_open = false;
}

// The C library's streams lose what they hold where a signal interrupts a write of theirs.
static int flush(struct record_file *t) {
  const size_t n = t->n_bytes;
  t->n_bytes = 0;
  return file_write_all(t->file, t->bytes, n);
}

static int put(struct record_file *t, struct span text) {
  enum { HELD_BYTES = 1 << 16 };
  if (t->n_bytes + text.n > HELD_BYTES && flush(t)) return -1;
  if (text.n > HELD_BYTES) return file_write_all(t->file, text.at, text.n);
  if (text.n == 0) return 0; // nothing has no address
  TABLE_ROOM(t, bytes, text.n);
  memcpy(t->bytes + t->n_bytes, text.at, text.n);
  t->n_bytes += text.n;
  return 0;
}

int record_file_open(struct record_file *t, const char *path, struct observer *o, struct arena *a,
                     struct err *err) {
  const bool plain = record_file_is_plain(path);
  t->path = path;
  t->observer = o;
  t->temporary = plain ? arena_printf(a, "%s.part", path) : NULL;
  t->on_stdout = path_is_stream(path);
  if (t->on_stdout) return 0;
  if (open_text(t, plain ? t->temporary : path)) return cannot_write(path, err);
  if (plain) observer_remove(t->observer, t->temporary);
  return 0;
}

int record_file_reserve(struct record_file *t, const char *path, struct observer *o,
                        struct arena *a, struct err *err) {
  if (record_file_foresee(path, err)) return -1;
  if (record_file_is_plain(path) || path_is_stream(path))
    return record_file_open(t, path, o, a, err);
  t->path = path;
  t->observer = o;
  return 0;
}

bool record_file_is_open(const struct record_file *t) {
  return t->is_open || t->on_stdout;
}

int record_file_add(struct record_file *t, struct span piece) {
  if (t->on_stdout) {
    observer_data(t->observer, piece);
    return 0;
  }
  if (put(t, piece) == 0) return 0;
  if (!t->errnum) t->errnum = errno ? errno : EIO; // 0 would be success
  return -1;
}

int record_file_check(const struct record_file *t, struct err *err) {
  if (!t->errnum) return 0;
  errno = t->errnum;
  return cannot_write(t->path, err);
}

// Opens a text that was reserved and is not open yet.
static int start(struct record_file *t, struct err *err) {
  if (t->on_stdout || t->is_open || open_text(t, t->path) == 0) return 0;
  return cannot_write(t->path, err);
}

int record_file_end(struct record_file *t, struct span text, struct err *err) {
  if (t->on_stdout) return record_file_add(t, text);
  if (start(t, err)) return -1;
  if (put(t, text)) return cannot_write(t->path, err);
  return record_file_publish(t, err);
}

static void put_piece(void *ctx, struct span piece) {
  (void)record_file_add(ctx, piece); // which keeps what failed
}

int record_file_page(struct record_file *t,
                     void (*page)(const struct run_report *r, struct span_sink sink),
                     const struct run_report *r, struct err *err) {
  if (start(t, err)) return -1;
  page(r, (struct span_sink){put_piece, t});
  return record_file_check(t, err) ? -1 : record_file_publish(t, err);
}

int record_file_publish(struct record_file *t, struct err *err) {
  if (t->on_stdout) return 0;
  int failed = flush(t);
  if (!failed) {
    failed = file_sync(t->file);
    if (failed && (errno == EINVAL || errno == EROFS)) failed = 0; // pipes, devices
  }
  if (!failed) file_close(&t->file); // before it gets another name
  if (!failed && t->temporary) failed = entry_rename(HERE, t->temporary, HERE, t->path);
  if (failed) return cannot_write(t->path, err);
  if (t->temporary) observer_keep(t->observer, t->temporary);
  close_text(t);
  return 0;
}

void record_file_drop(struct record_file *t) {
  if (!t->is_open) return;
  close_text(t);
  if (t->temporary) file_remove(HERE, t->temporary);
  if (t->temporary) observer_keep(t->observer, t->temporary);
}

int record_file_write(const char *path, struct span text, struct observer *o, struct err *err) {
  struct arena scratch = {0};
  struct record_file t = {0};
  int rc = record_file_open(&t, path, o, &scratch, err);
  if (rc == 0) rc = record_file_end(&t, text, err);
  record_file_drop(&t);
  arena_free(&scratch);
  return rc;
}
