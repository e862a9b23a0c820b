//   .x.onnx.0123456789abcdef.weir   a run, or what is left of one
//
// Whoever works in the folder holds a flock on its `lock`; the lock dies with the process, so a
// folder whose lock can be had is dead. Between finding the folder and taking the lock another
// process may have removed it, so after taking the lock the name is looked up once more: it must
// still be our lock in our folder.
//
// When the folder is emptied, what says that its content matters goes first: seal.json, header.json. In a finished folder header.json stays
// almost to the end, so that the same command, given again after a kill, can still say what it did; then sealed.json goes, which says that the
// folder is finished, as the folder's name does by then (.x.onnx.0123456789abcdef.done.weir).
//
// On file systems without flock (some FUSE and Lustre mounts) the lock is taken as had.
#include "stream/sys/fs.h"

#include "stream/staging/inside/records.h"
#include "stream/staging/staging_folder.h"

#include <errno.h>
#include <stdio.h>

enum { ID_HEX = 16, OUT_MAX = 200, ENTER_TRIES = 16, EMPTY_PASSES = 100 };

void staging_name(char name[STAGING_NAME_MAX], const char *onnx_name,
                  const uint8_t plan_id[DIGEST_BYTES]) {
  snprintf(name, STAGING_NAME_MAX, ".%.*s.%.*s.weir", OUT_MAX, onnx_name, ID_HEX,
           digest_hex(plan_id).s);
}

static bool ends_with(const char *s, size_t n, const char *tail, size_t *rest) {
  const size_t t = strlen(tail);
  if (n < t || memcmp(s + n - t, tail, t) != 0) return false;
  *rest = n - t;
  return true;
}

bool staging_name_is(const char *name, const char *onnx_name) {
  size_t n = strlen(name);
  if (n >= STAGING_NAME_MAX || name[0] != '.' || !ends_with(name, n, ".weir", &n)) return false;
  (void)ends_with(name, n, ".done", &n);
  if (n < ID_HEX + 3 || name[n - ID_HEX - 1] != '.' ||
      strspn(name + n - ID_HEX, "0123456789abcdef") < ID_HEX)
    return false;
  if (!onnx_name) return true;
  const size_t out = str_length(onnx_name, OUT_MAX);
  return n - ID_HEX - 2 == out && memcmp(name + 1, onnx_name, out) == 0;
}

bool staging_name_parts(const char *name, char onnx[STAGING_NAME_MAX], char id[17]) {
  size_t n = strlen(name);
  if (!staging_name_is(name, NULL)) return false;
  (void)ends_with(name, n, ".weir", &n);
  (void)ends_with(name, n, ".done", &n);
  n -= ID_HEX;
  snprintf(id, ID_HEX + 1, "%.*s", ID_HEX, name + n);
  snprintf(onnx, STAGING_NAME_MAX, "%.*s", (int)n - 2, name + 1);
  return true;
}

enum staging_seal staging_seal_in(struct folder dest, const char *name) {
  char path[STAGING_NAME_MAX + 16];
  size_t rest;
  if (ends_with(name, strlen(name), ".done.weir", &rest)) return STAGING_SEAL_FINISHED;
  snprintf(path, sizeof path, "%s/" STAGING_INTENT, name);
  if (staging_has(dest, path)) return STAGING_SEAL_UNFINISHED;
  snprintf(path, sizeof path, "%s/" STAGING_FINISHED, name);
  return staging_has(dest, path) ? STAGING_SEAL_FINISHED : STAGING_SEAL_NONE;
}

bool staging_name_reserved(const char *name) {
  static const char *const own[] = {
      "plan.json",        "plan.bin",     "header.json",  STAGING_REPORT,   STAGING_PAGE,
      STAGING_PROVENANCE, "lock",         STAGING_INTENT, STAGING_FINISHED, "artifacts",
      "passage.onnx",     "passage.copy", "orders.json",  "small.jsonl"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strcmp(name, own[i]) == 0) return true;
  size_t rest;
  return records_is_name(name) || ends_with(name, strlen(name), ".tmp", &rest);
}

int staging_open_dest(const char *path, struct folder *dest, struct err *err) {
  *dest = folder_open(HERE, path, 0);
  if (folder_is_open(*dest)) return 0;
  if (errno == ENOENT) return err_set(err, ERR_INPUT, "'%s' does not exist", quote_str(path).s);
  return err_errno(err, errno, ERR_INPUT, "the folder '%s' cannot be opened", quote_str(path).s);
}

bool staging_has(struct folder folder, const char *name) {
  struct entry_facts at;
  return entry_look(folder, name, FILE_NO_LINK, &at) == 0;
}

// ---- entering ----

static int busy(const struct staging *st, struct err *err) {
  char who[160];
  const int64_t n = file_read_at(st->lock, who, sizeof who - 1, 0);
  who[n > 0 ? n : 0] = '\0';
  who[strcspn(who, "\n")] = '\0';
  err_set(err, ERR_RETRY, "'%s' in '%s' is in use by %s", quote_str(st->name).s,
          quote_str(st->dest_path).s, who[0] ? quote_str(who).s : "another process");
  return err_because(err, REASON_BUSY);
}

static int cannot_make(const struct staging *st, int errnum, struct err *err) {
  err_fill_errno(err, errnum, ERR_IO, "cannot make the staging folder '%s' in '%s'",
                 quote_str(st->name).s, quote_str(st->dest_path).s);
  return err_hint(
      err,
      "outputs are first written to a folder next to OUT, so the folder of OUT must be writable");
}

bool staging_still_there(const struct staging *st) {
  struct entry_facts named, held;
  char path[STAGING_NAME_MAX + 8];
  const bool locked = file_is_open(st->lock);
  snprintf(path, sizeof path, locked ? "%s/lock" : "%s", st->name);
  if (entry_look(st->dest, path, FILE_NO_LINK, &named)) return errno != ENOENT;
  if (locked ? file_look(st->lock, &held) : folder_look(st->folder, &held))
    return true; // what fails then says why
  return entry_is_same(&named, &held);
}

// Somebody's lock, to be asked and not written to; another user's may be closed to writers. None with
// errno, which is 0 where something lies there that is no lock and keeps nobody out.
static struct file open_any_lock(struct folder folder) {
  struct entry_facts at;
  if (entry_look(folder, "lock", FILE_NO_LINK, &at)) return NO_FILE;
  errno = 0;
  if (at.kind != ENTRY_FILE) return NO_FILE;
  const struct file f =
      file_open_to_write(folder, "lock", FILE_READ | FILE_NO_LINK | FILE_NO_WAIT, 0);
  return !file_is_open(f) && errno == EACCES
             ? file_open(folder, "lock", FILE_NO_LINK | FILE_NO_WAIT)
             : f;
}

// The lock is written to, so it must be a file of ours; where the folder is only to be removed, it is enough
// that nobody holds it. It stays none where there is none. 1: the folder is gone.
static int open_lock(struct staging *st, enum staging_entry how, struct err *err) {
  struct err why = {0};
  for (int tries = 0; tries < ENTER_TRIES; tries++) {
    st->lock = fs_open_own(st->folder, "lock", FILE_READ, st->name, &why);
    // An emptied folder has none, and gets one; one that is finished and emptied does not need it any more.
    if (!file_is_open(st->lock) && staging_has(st->folder, STAGING_FINISHED)) return 0;
    if (file_is_open(st->lock) || why.kind != ERR_NONE || how == STAGING_LOOK) break;
    st->lock = file_open_to_write(st->folder, "lock", FILE_NO_LINK | FILE_NEW | FILE_READ, 0666);
    if (file_is_open(st->lock) || errno != EEXIST) break;
  }
  if (file_is_open(st->lock) || (why.kind == ERR_NONE && how == STAGING_LOOK)) return 0;
  if (why.kind == ERR_PERMISSION && how == STAGING_FOUND) {
    st->lock = open_any_lock(st->folder);
    if (file_is_open(st->lock) || errno == 0) return 0;
  }
  if (why.kind == ERR_NONE && errno == ENOENT) return 1;
  if (why.kind == ERR_NONE)
    return err_errno(err, errno, ERR_IO, "cannot open the lock of '%s'", quote_str(st->name).s);
  *err = why;
  return -1;
}

// 1: entered (or could be, where it is only looked), 0: the folder went away under us, -1: failed.
static int try_enter(struct staging *st, enum staging_entry how, struct err *err) {
  const bool look = how == STAGING_LOOK;
  st->folder = folder_open(st->dest, st->name, FILE_NO_LINK);
  if (!folder_is_open(st->folder) && errno == ENOENT) {
    if (!look) return 0;
    return entry_may(st->dest, ".", MAY_WRITE | MAY_ENTER) ? cannot_make(st, errno, err) : 1;
  }
  if (!folder_is_open(st->folder))
    return err_errno(err, errno, ERR_IO, "cannot open the staging folder '%s' in '%s'",
                     quote_str(st->name).s, quote_str(st->dest_path).s);
  const int opened = open_lock(st, how, err);
  if (opened) return opened < 0 ? -1 : 0;
  if (!file_is_open(st->lock))
    return look || (how != STAGING_MAKE && staging_still_there(st)); // else it is just going away
  if (file_lock(st->lock, LOCK_ALONE | LOCK_NO_WAIT)) {
    const bool no_locks_here = errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK;
    if (errno == EWOULDBLOCK) return busy(st, err);
    if (!no_locks_here)
      return err_errno(err, errno, ERR_IO, "cannot lock '%s'", quote_str(st->name).s);
  }
  return look || staging_still_there(st);
}

int staging_enter(struct staging *st, enum staging_entry how, bool *made, struct err *err) {
  const bool make = how == STAGING_MAKE;
  for (int tries = 0; tries < ENTER_TRIES; tries++) {
    *made = make && folder_make(st->dest, st->name, 0777) == 0;
    if (make && !*made && errno != EEXIST) return cannot_make(st, errno, err);
    const int entered = try_enter(st, how, err);
    if (entered > 0) return 0;
    const bool gone = !folder_is_open(st->folder);
    file_close(&st->lock);
    folder_close(&st->folder);
    if (entered < 0 || (gone && !make)) return -1;
  }
  err_set(err, ERR_RETRY, "'%s' in '%s' keeps being created and removed by other processes",
          quote_str(st->name).s, quote_str(st->dest_path).s);
  return err_hint(err, "if there are no such processes, the file system changes the inode numbers "
                       "of files: write to another file system");
}

bool staging_is_locked(struct folder folder) {
  struct file lock = open_any_lock(folder);
  if (!file_is_open(lock)) return errno == EACCES; // whoever may not look must not take it as dead
  const bool locked = file_lock(lock, LOCK_ALONE | LOCK_NO_WAIT) != 0 && errno == EWOULDBLOCK;
  file_close(&lock);
  return locked;
}

// ---- leaving ----

// Only what is in our own folder goes: files, whatever they are, by that name. A folder in it is ours if it
// is `artifacts`; any other one, unless it is empty, is somebody's, and stays.
struct emptying {
  struct folder folder;
  const char *what;
  bool finished;   // it has a sealed.json
  bool inner;      // in artifacts
  unsigned left;   // entries seen that a listing may show again
  char last[256];  // of these
  char other[256]; // a folder that is not ours
  struct err *err;
};

static int cannot_remove(const char *name, const char *what, int errnum, struct err *err) {
  return err_errno(err, errnum, ERR_IO, "cannot remove '%s' in '%s'", quote_str(name).s,
                   quote_str(what).s);
}

int staging_remove_file(struct folder folder, const char *name, const char *what, struct err *err) {
  if (file_remove(folder, name) == 0 || errno == ENOENT) return 0;
  return cannot_remove(name, what, errno, err);
}

static int empty_entry(void *ctx, const char *name);

static int empty_artifacts(struct emptying *e, const char *name) {
  struct folder fd = folder_open(e->folder, name, FILE_NO_LINK);
  if (!folder_is_open(fd))
    return err_errno(e->err, errno, ERR_IO, "cannot open '%s' in '%s'", quote_str(name).s,
                     quote_str(e->what).s);
  struct emptying in = {.folder = fd, .what = name, .inner = true, .err = e->err};
  const int bad = fs_list(fd, empty_entry, &in, name, e->err);
  folder_close(&fd);
  e->left += in.left;
  if (in.other[0]) snprintf(e->other, sizeof e->other, "%s", in.other);
  return bad ? -1 : 0;
}

// What says what the folder's content is worth, and what is known of the run.
static const char *const telling[] = {STAGING_INTENT, "header.json", STAGING_REPORT, STAGING_PAGE,
                                      STAGING_PROVENANCE};

static bool stays_longer(const struct emptying *e, const char *name) {
  bool longer = strcmp(name, "lock") == 0 || strcmp(name, STAGING_FINISHED) == 0;
  for (size_t i = 0; e->finished && i < sizeof telling / sizeof *telling; i++)
    longer = longer || strcmp(name, telling[i]) == 0;
  return longer;
}

static int empty_entry(void *ctx, const char *name) {
  struct emptying *e = ctx;
  struct entry_facts at;
  const bool longer = !e->inner && stays_longer(e, name);
  if (!longer && (file_remove(e->folder, name) == 0 || errno == ENOENT)) {
    e->left++; // listing while removing may pass entries over: look again until none is seen
    snprintf(e->last, sizeof e->last, "%s", name);
    return 0;
  }
  const int why = errno; // of a folder, any
  if (entry_look(e->folder, name, FILE_NO_LINK, &at) || at.kind != ENTRY_FOLDER)
    return longer ? 0 : cannot_remove(name, e->what, why, e->err);
  if (!e->inner && strcmp(name, "artifacts") == 0 && empty_artifacts(e, name)) return -1;
  if (folder_remove(e->folder, name) == 0) {
    e->left++;
    return 0;
  }
  if (errno != ENOTEMPTY && errno != EEXIST) return cannot_remove(name, e->what, errno, e->err);
  if (!e->other[0]) snprintf(e->other, sizeof e->other, "%s", name);
  return 0;
}

// A file that is open keeps its name on some systems after it was removed, and NFS gives it another one.
static int stays(const struct emptying *e) {
  err_set(e->err, ERR_RETRY, "'%s' in '%s' was removed, but its name stays: a process has it open",
          quote_str(e->last).s, quote_str(e->what).s);
  return err_hint(e->err, "end that process; 'weir clean' then removes what is left");
}

static int remove_telling(struct folder folder, const char *what, struct err *err) {
  for (size_t i = 0; i < sizeof telling / sizeof *telling; i++) {
    struct entry_facts at;
    if (entry_look(folder, telling[i], FILE_NO_LINK, &at) == 0 && at.kind != ENTRY_FOLDER &&
        staging_remove_file(folder, telling[i], what, err))
      return -1;
  }
  return 0;
}

int staging_empty(struct folder folder, const char *what, struct err *err) {
  const bool finished = staging_has(folder, STAGING_FINISHED);
  struct emptying e = {.folder = folder, .what = what, .finished = finished, .err = err};
  if (!finished && remove_telling(folder, what, err)) return -1;
  for (int pass = 0; pass == 0 || e.left > 0; pass++) {
    if (pass == EMPTY_PASSES) return stays(&e);
    e.left = 0;
    e.other[0] = '\0';
    if (fs_list(folder, empty_entry, &e, what, err)) return -1;
  }
  if (finished && remove_telling(folder, what, err)) return -1;
  if (!e.other[0]) return 0;
  err_set(err, ERR_PERMISSION,
          "'%s' in '%s' is a folder that weir did not create: it was not removed",
          quote_str(e.other).s, quote_str(what).s);
  return err_hint(err, "check its content and remove it, then run the same command again");
}

struct sum {
  struct folder folder;
  uint64_t bytes;
};

static int add_bytes(void *ctx, const char *name) {
  struct sum *sum = ctx;
  struct entry_facts at;
  if (entry_look(sum->folder, name, FILE_NO_LINK, &at) == 0) sum->bytes += at.allocated;
  return 0;
}

uint64_t staging_folder_bytes(struct folder folder) {
  struct sum sum = {.folder = folder};
  struct err ignored = {0}; // a figure for the user: what cannot be listed counts nothing
  fs_list(folder, add_bytes, &sum, "", &ignored);
  return sum.bytes;
}
