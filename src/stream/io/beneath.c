// The lock on the door: names in a model file are chosen by whoever wrote it.
//
// Two steps. First the text: what is absolute, leaves the folder, or would be a path on another
// system is refused, and the rest is normalized. Then the disk: file_open_beneath keeps the promise,
// so that nobody can swap a folder for a link between a check and an open. A link that stays in the
// folder leads to nothing that a name could not say.
//
// Everything else is asked of the open file, not of the name: a regular file, one name only (a
// hard link can smuggle in a file from outside). FILE_NO_WAIT keeps a FIFO from hanging us before
// that.
//
// One layout of links that lead out is known: the Hugging Face cache, where what users name are
// links and the bytes lie in one folder under names of their own.
//
//   snapshots/<revision>/model.onnx       -> ../../blobs/<hash>       the link that the user named
//   snapshots/<revision>/model.onnx_data  -> ../../blobs/<hash>       a data file
//
// A data file's link is followed if it leads, in one step, into the very folder `blobs` that the
// user's own link led to. That folder is known by its descriptor, and the file is opened in it by
// its plain name, so no rename can lead elsewhere. With allow_links the last component may be a
// link to any place. Folders are never followed out.
#include "stream/io/beneath.h"

#include <errno.h>
#include <stdio.h>

// ---- the text -----------------------------------------------------------------------------------

static int refuse(struct span location, const char *why, struct err *err) {
  return err_set(err, ERR_MODEL, "external data location '%s' %s", quote(location).s, why);
}

static const char *text_fault(struct span s) {
  if (s.n == 0) return "is empty";
  if (s.n > BENEATH_MAX) return "is longer than 4096 bytes";
  if (span_has_nul(s)) return "contains a NUL byte";
  if (s.at[0] == '/') return "is absolute; it must be inside the model's folder";
  if (memchr(s.at, '\\', s.n))
    return "contains a backslash, which other systems treat as a path separator";
  if (s.n >= 2 && s.at[1] == ':' && (s.at[0] | 32) >= 'a' && (s.at[0] | 32) <= 'z')
    return "starts with a drive letter";
  if (s.at[s.n - 1] == '/') return "names a folder";
  return NULL;
}

int beneath_normalize(struct span location, char *path, struct err *err) {
  const char *fault = text_fault(location);
  if (fault) return refuse(location, fault, err);
  size_t n = 0;
  for (size_t i = 0; i < location.n;) {
    const uint8_t *part = location.at + i;
    size_t len = 0;
    while (i + len < location.n && part[len] != '/')
      len++;
    i += len + 1;
    if (len == 0 || (len == 1 && part[0] == '.')) continue;
    if (len == 2 && part[0] == '.' && part[1] == '.') {
      if (n == 0) return refuse(location, "leaves the model's folder", err);
      while (n > 0 && path[n - 1] != '/')
        n--;
      if (n > 0) n--;
      continue;
    }
    if (n > 0) path[n++] = '/';
    memcpy(path + n, part, len);
    n += len;
  }
  path[n] = '\0';
  return n > 0 ? 0 : refuse(location, "names a folder", err);
}

// ---- the disk -----------------------------------------------------------------------------------

static struct file no_file(int errnum) {
  errno = errnum;
  return NO_FILE;
}

// Opens the folder that the target of link `name` lies in; `base` is the target's own name there. None:
// it is no link, or its target has no such form.
static struct folder open_target_folder(struct folder folder, const char *name,
                                        char base[BENEATH_MAX + 1], bool *is_blobs) {
  char target[BENEATH_MAX + 1];
  const int64_t n = entry_target(folder, name, target, BENEATH_MAX);
  if (n <= 0 || n == BENEATH_MAX) return NO_FOLDER;
  target[n] = '\0';
  char *slash = strrchr(target, '/');
  if (!slash || slash == target) return NO_FOLDER;
  *slash = '\0';
  strcpy(base, slash + 1);
  if (*base == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0) return NO_FOLDER;
  *is_blobs = strcmp(path_base(target), "blobs") == 0;
  return folder_open(folder, target, FILE_PLACE);
}

struct folder beneath_blobs(struct folder folder, const char *name, const struct entry_facts *is) {
  char base[BENEATH_MAX + 1];
  bool is_blobs = false;
  struct entry_facts at;
  struct folder blobs = open_target_folder(folder, name, base, &is_blobs);
  if (!folder_is_open(blobs)) return NO_FOLDER;
  if (!is_blobs || entry_look(blobs, base, FILE_NO_LINK, &at) || !entry_is_same(&at, is))
    folder_close(&blobs);
  return blobs;
}

// EXDEV where the link does not lead into that folder.
static struct file open_blob(struct folder folder, const char *name, struct folder blobs) {
  char base[BENEATH_MAX + 1];
  bool is_blobs;
  struct entry_facts wanted, found;
  struct folder at = open_target_folder(folder, name, base, &is_blobs);
  const bool same = folder_is_open(at) && folder_look(blobs, &wanted) == 0 &&
                    folder_look(at, &found) == 0 && entry_is_same(&found, &wanted);
  folder_close(&at);
  const struct file f = same ? file_open(blobs, base, FILE_NO_LINK | FILE_NO_WAIT) : no_file(EXDEV);
  return !file_is_open(f) && errno == ELOOP ? no_file(EXDEV) : f;
}

static struct file open_beneath(struct folder folder, const char *path, struct beneath_how how) {
  const unsigned walk = how.walk ? FILE_WALK : 0;
  struct file f = file_open_beneath(folder, path, FILE_NO_WAIT | walk);
  if (file_is_open(f) || errno != EXDEV || (!how.allow_links && !folder_is_open(how.blobs)))
    return f;
  // The last component may lead out of the folder; its own folder does not.
  const char *last = path_base(path);
  char head[BENEATH_MAX + 1] = ".";
  if (last > path) snprintf(head, sizeof head, "%.*s", (int)(last - path) - 1, path);
  struct folder parent = folder_open_beneath(folder, head, FILE_PLACE | walk);
  if (!folder_is_open(parent)) return NO_FILE;
  f = how.allow_links ? file_open(parent, last, FILE_NO_WAIT | FILE_BY_NAME)
                      : open_blob(parent, last, how.blobs);
  const int errnum = errno;
  folder_close(&parent);
  errno = errnum;
  return f;
}

static int open_error(int errnum, struct beneath_how how, const char *shown, struct err *err) {
  if (errnum == EMFILE || errnum == ENFILE) return -2;
  if (errnum == EXDEV && how.allow_links)
    return err_set(err, ERR_PERMISSION, "'%s' points outside the model's folder", shown);
  if (errnum == EXDEV) {
    err_fill(err, ERR_PERMISSION,
             "'%s' is, or passes through, a symbolic link that points outside the model's folder",
             shown);
    return err_because(err, REASON_LINK);
  }
  if (errnum == ELOOP)
    return err_set(err, ERR_INPUT, "'%s' passes through too many symbolic links", shown);
  if (errnum == ENOENT) {
    err_fill(err, ERR_INPUT, "the data file '%s' is missing", shown);
    if (how.linked)
      return err_hint(err, "the .onnx is a link: weir looks for data files next to the link, not "
                           "next to its target");
    return err_hint(err, "weir looks for data files next to the .onnx, under the names in it");
  }
  return err_errno(err, errnum, ERR_MODEL, "'%s' cannot be opened", shown);
}

static int check_file(const struct entry_facts *st, struct beneath_how how, const char *shown,
                      struct err *err) {
  if (st->kind != ENTRY_FILE) return err_set(err, ERR_INPUT, "'%s' is not a regular file", shown);
  if (st->names > 1 && !how.allow_links) {
    err_fill(err, ERR_PERMISSION, "'%s' is a hard link: the file has %s names", shown,
             decimal(st->names).s);
    return err_because(err, REASON_HARD_LINK);
  }
  return 0;
}

int beneath_open(struct folder folder, const char *path, struct beneath_how how, const char *shown,
                 struct entry_facts *st, struct file *fd, struct err *err) {
  struct file f = open_beneath(folder, path, how);
  if (!file_is_open(f)) return open_error(errno, how, shown, err);
  int bad = file_look(f, st) ? err_errno(err, errno, ERR_IO, "'%s' cannot be examined", shown)
                             : check_file(st, how, shown, err);
  if (bad)
    file_close(&f);
  else
    *fd = f;
  return bad;
}
