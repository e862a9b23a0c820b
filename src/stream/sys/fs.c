// A small file that must be whole or absent (header, seal.json, plan) is written beside its name,
// synced, and renamed:
//
//   write <name>.tmp ──▶ fsync ──▶ rename over <name>      (the caller syncs the folder)
#include "stream/sys/fs.h"

#include "resources/resources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int fs_write_all(struct file f, const void *bytes, size_t n, const char *what, struct err *err) {
  if (file_write_all(f, bytes, n) == 0) return 0;
  return err_errno(err, errno, ERR_IO, "cannot write '%s'", quote_str(what).s);
}

// ---- files of our own ----

// Who owns what this process makes there: on file systems that map owners (network ones, FUSE) not
// always who it runs as.
static bool is_our_owner(struct folder in, uint32_t owner) {
  struct entry_facts at;
  if (owner == process_owner()) return true;
  struct file f = file_make_nameless(in, ".", 0);
  const bool same = file_is_open(f) && file_look(f, &at) == 0 && at.owner == owner;
  file_close(&f);
  return same;
}

const char *fs_not_own(struct folder in, const struct entry_facts *at) {
  if (at->kind == ENTRY_FOLDER) return "is a folder";
  if (at->kind == ENTRY_LINK) return "is a symbolic link";
  if (at->kind == ENTRY_FIFO) return "is a FIFO";
  if (at->kind != ENTRY_FILE) return "is a device or a socket";
  if (at->names != 1) return "is a hard link (it has another name elsewhere)";
  if (!is_our_owner(in, at->owner)) return "belongs to another user";
  return NULL;
}

// What was opened, if it is our own: else none, with why.
static struct file if_own(struct file f, struct folder in, const char *name, const char *where,
                          struct err *err) {
  const char *wrong = NULL;
  struct entry_facts at;
  int why = file_is_open(f) ? 0 : errno;
  if (why == ENOENT) return NO_FILE;
  if (why) {
    if (entry_look(in, name, FILE_NO_LINK, &at) == 0) wrong = fs_not_own(in, &at);
  } else if (file_look(f, &at)) {
    why = errno;
  } else {
    wrong = fs_not_own(in, &at);
  }
  // The opening alone was not to wait: some engines take it as a wish not to wait for the disk.
  if (!why && !wrong && file_wait(f)) why = errno;
  if (!why && !wrong) return f;
  file_close(&f);
  if (!wrong) {
    err_fill_errno(err, why, ERR_IO, "cannot open '%s' in '%s'", quote_str(name).s,
                   quote_str(where).s);
    return NO_FILE;
  }
  err_fill(err, ERR_PERMISSION, "'%s' in '%s' %s: weir did not create it", quote_str(name).s,
           quote_str(where).s, wrong);
  err_fill_reason(err, REASON_NOT_OURS);
  return NO_FILE;
}

struct file fs_open_own(struct folder in, const char *name, unsigned how, const char *where,
                        struct err *err) {
  const struct file f = file_open_to_write(in, name, how | FILE_NO_LINK | FILE_NO_WAIT, 0);
  return if_own(f, in, name, where, err);
}

struct file fs_make_own(struct folder in, const char *name, unsigned how, struct err *err) {
  how |= FILE_NEW | FILE_NO_LINK;
  struct file f = file_open_to_write(in, name, how, 0666);
  if (!file_is_open(f) && errno == EEXIST && file_remove(in, name) == 0)
    f = file_open_to_write(in, name, how, 0666);
  if (!file_is_open(f)) err_fill_errno(err, errno, ERR_IO, "cannot create '%s'", quote_str(name).s);
  return f;
}

int fs_put_file(struct folder in, const char *name, struct span bytes, struct err *err) {
  char beside[300];
  snprintf(beside, sizeof beside, "%s.tmp", name);
  struct file f = fs_make_own(in, beside, 0, err);
  if (!file_is_open(f)) return -1;
  int bad = fs_write_all(f, bytes.at, bytes.n, beside, err);
  if (!bad && file_sync(f))
    bad = err_errno(err, errno, ERR_IO, "cannot sync '%s'", quote_str(beside).s);
  file_close(&f);
  if (!bad && entry_rename(in, beside, in, name))
    bad = err_errno(err, errno, ERR_IO, "cannot rename '%s' to '%s'", quote_str(beside).s,
                    quote_str(name).s);
  if (bad) (void)file_remove(in, beside);
  return bad;
}

static int read_open_file(struct file f, const char *name, size_t limit, struct span *out,
                          struct err *err) {
  struct entry_facts at;
  if (file_look(f, &at))
    return err_errno(err, errno, ERR_IO, "cannot examine '%s'", quote_str(name).s);
  if (at.kind != ENTRY_FILE)
    return err_set(err, ERR_INPUT, "'%s' is not a regular file", quote_str(name).s);
  if (at.size > limit)
    return err_set(err, ERR_MODEL, "'%s' has %s bytes; at most %zu are read", quote_str(name).s,
                   decimal(at.size).s, limit);
  const size_t n = (size_t)at.size;
  uint8_t *bytes = resources_alloc(n + 1);
  if (!bytes)
    return err_set(err, ERR_NO_MEMORY, "no memory for the %zu bytes of '%s'", n, quote_str(name).s);
  const int64_t have = file_read_all_at(f, bytes, n, 0);
  if (have < 0) {
    const int why = errno;
    resources_free(bytes);
    return err_errno(err, why, ERR_IO, "cannot read '%s'", quote_str(name).s);
  }
  bytes[have] = 0;
  *out = span_of(bytes, (size_t)have);
  return 0;
}

int fs_read_file(struct folder in, const char *name, size_t limit, struct span *out,
                 struct err *err) {
  // A FIFO must not hang us; what it is is looked at afterwards.
  struct file f = file_open(in, name, FILE_NO_WAIT);
  if (!file_is_open(f) && errno == ENOENT) return -1;
  if (!file_is_open(f))
    return err_errno(err, errno, ERR_INPUT, "cannot open '%s'", quote_str(name).s);
  const int bad = read_open_file(f, name, limit, out, err);
  file_close(&f);
  return bad;
}

int fs_read_own(struct folder in, const char *name, size_t limit, const char *where,
                struct span *out, struct err *err) {
  struct file f = if_own(file_open(in, name, FILE_NO_LINK | FILE_NO_WAIT), in, name, where, err);
  if (!file_is_open(f)) return -1;
  const int bad = read_open_file(f, name, limit, out, err);
  file_close(&f);
  return bad;
}

void fs_free(struct span bytes) {
  resources_free((void *)(uintptr_t)bytes.at);
}

bool fs_is_at(const struct entry_facts *file, const char *path) {
  struct entry_facts at;
  return entry_look(HERE, path, 0, &at) == 0 && entry_is_same(&at, file);
}

int fs_sync_folder(struct folder f, const char *what, struct err *err) {
  if (folder_sync(f) == 0 || errno == EINVAL) return 0;
  return err_errno(err, errno, ERR_IO, "cannot sync folder '%s'", quote_str(what).s);
}

int fs_list(struct folder f, int (*each)(void *ctx, const char *name), void *ctx, const char *what,
            struct err *err) {
  int ended;
  const int rc = folder_names(f, ".", each, ctx, &ended);
  if (rc == 0) return ended;
  return err_errno(err, errno, rc == -2 ? ERR_IO : ERR_INPUT, "cannot list folder '%s'",
                   quote_str(what).s);
}

static int take_name(void *ctx, const char *name) {
  struct fs_names *to = ctx;
  if (name[0] != '.') *TABLE_PUSH(to, names) = arena_string(to->a, span_str(name));
  return 0;
}

int fs_names(const char *path, struct fs_names *out) {
  int ended;
  return folder_names(HERE, path, take_name, out, &ended);
}

static int remove_file(void *in, const char *name) {
  (void)file_remove(*(const struct folder *)in, name);
  return 0;
}

void fs_remove_files(struct folder in) {
  int ended;
  (void)folder_names(in, ".", remove_file, &in, &ended);
}
