// Files and folders, as POSIX has them.
#include "platform/files.h"

#include "platform/descriptor.h"
#include "platform/inside/variant.h"
#include "platform/machine.h"
#include "resources/resources.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static_assert(AT_FDCWD == -100, "HERE is the folder of that descriptor");

// ---- what is open ----

// By descriptor, its row where it is listed: of the process, since a descriptor is. There is a table while there is a row.
static struct {
  pthread_mutex_t lock;
  struct resource **rows;
  int n, used;
} held = {PTHREAD_MUTEX_INITIALIZER, NULL, 0, 0};

static bool put_row(int fd, struct resource *row) {
  enum { STEP = 256 };
  pthread_mutex_lock(&held.lock);
  struct resource **rows = held.rows;
  if (fd >= held.n && (rows = realloc(rows, ((size_t)fd + STEP) * sizeof *rows)) != NULL) {
    memset(rows + held.n, 0, (size_t)(fd + STEP - held.n) * sizeof *rows);
    held.rows = rows;
    held.n = fd + STEP;
  }
  if (rows) {
    rows[fd] = row;
    held.used++;
  }
  pthread_mutex_unlock(&held.lock);
  return rows != NULL;
}

static struct resource *take_row(int fd) {
  struct resource *row = NULL;
  pthread_mutex_lock(&held.lock);
  if (fd >= 0 && fd < held.n) row = held.rows[fd];
  if (row) held.rows[fd] = NULL;
  if (row && --held.used == 0) {
    free(held.rows);
    held.rows = NULL;
    held.n = 0;
  }
  pthread_mutex_unlock(&held.lock);
  return row;
}

static void close_left(void *thing, size_t n) {
  const int fd = (int)(intptr_t)thing;
  (void)n;
  (void)take_row(fd); // it is gone already
  close(fd);
}

int descriptor_hold(int fd) {
  if (fd < 0 || !resources_in_use()) return fd;
  struct resource *row = resources_hold((void *)(intptr_t)fd, 0, close_left);
  if (!put_row(fd, row)) {
    resources_drop(row);
    close(fd);
    resources_exhausted((size_t)fd * sizeof *held.rows);
  }
  return fd;
}

void descriptor_leave(int fd) {
  resources_drop(take_row(fd));
}

static int close_held(int fd) {
  descriptor_leave(fd);
  return fd < 0 ? 0 : close(fd);
}

void file_close(struct file *f) {
  (void)file_close_written(f);
}

int file_close_written(struct file *f) {
  const int rc = close_held(file_descriptor(*f));
  *f = NO_FILE;
  return rc;
}

void folder_close(struct folder *f) {
  close_held(folder_descriptor(*f));
  *f = NO_FOLDER;
}

// ---- open ----

static int read_flags(unsigned how) {
  return O_RDONLY | O_NOCTTY | O_CLOEXEC | (how & FILE_NO_LINK ? O_NOFOLLOW : 0) |
         (how & FILE_NO_WAIT ? O_NONBLOCK : 0);
}

static int folder_flags(unsigned how) {
  return O_DIRECTORY | O_CLOEXEC | (how & FILE_NO_LINK ? O_NOFOLLOW : 0) |
         (how & FILE_PLACE ? variant_place_flag() : O_RDONLY);
}

static int open_again(struct folder in, const char *name, int flags, uint32_t mode) {
  int fd;
  AGAIN(fd, openat(folder_descriptor(in), name, flags, (mode_t)mode));
  return fd;
}

static struct file system_file_open(struct folder in, const char *name, unsigned how) {
  if (how & FILE_BY_NAME) {
    const int fd = variant_open(folder_descriptor(in), name, read_flags(how), false);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return file_of_descriptor(fd);
  }
  return file_of_descriptor(open_again(in, name, read_flags(how), 0));
}

static struct file system_file_open_to_write(struct folder in, const char *name, unsigned how,
                                             uint32_t mode) {
  const int flags = (how & FILE_READ ? O_RDWR : O_WRONLY) | O_CLOEXEC |
                    (how & (FILE_MAKE | FILE_NEW) ? O_CREAT : 0) | (how & FILE_NEW ? O_EXCL : 0) |
                    (how & FILE_EMPTY ? O_TRUNC : 0) | (how & FILE_APPEND ? O_APPEND : 0) |
                    (how & FILE_NO_LINK ? O_NOFOLLOW : 0) | (how & FILE_NO_WAIT ? O_NONBLOCK : 0);
  return file_of_descriptor(open_again(in, name, flags, mode));
}

static struct file system_file_make_nameless(struct folder in, const char *name, unsigned how) {
  enum { TRIES = 100 };
  int fd = variant_make_nameless(folder_descriptor(in), name);
  for (int i = 0; fd < 0 && !(how & FILE_NEVER_NAMED) && (i == 0 || errno == EEXIST) && i < TRIES;
       i++) {
    char path[PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s/.weir-%" PRIu64 "-%" PRIu64, name, process_id(),
                           machine_clock_ns());
    if (n < 0 || n >= PATH_BYTES) {
      errno = ENAMETOOLONG;
      break;
    }
    fd = open_again(in, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) unlinkat(folder_descriptor(in), path, 0);
  }
  return file_of_descriptor(fd);
}

// ---- examine ----

// Of times that 64 bits cannot count (before 1677, after 2262) the nearest.
static int64_t nanoseconds(struct timespec t) {
  int64_t ns;
  if (__builtin_mul_overflow((int64_t)t.tv_sec, (int64_t)1000000000, &ns) ||
      __builtin_add_overflow(ns, (int64_t)t.tv_nsec, &ns))
    return t.tv_sec < 0 ? INT64_MIN : INT64_MAX;
  return ns;
}

static int take_facts(int failed, const struct stat *at, struct entry_facts *out) {
  if (failed) return -1;
  *out = (struct entry_facts){
      .kind = S_ISREG(at->st_mode)    ? ENTRY_FILE
              : S_ISDIR(at->st_mode)  ? ENTRY_FOLDER
              : S_ISLNK(at->st_mode)  ? ENTRY_LINK
              : S_ISFIFO(at->st_mode) ? ENTRY_FIFO
                                      : ENTRY_OTHER,
      .size = (uint64_t)at->st_size,
      .allocated = (uint64_t)at->st_blocks * 512,
      .volume = (uint64_t)at->st_dev,
      .number = (uint64_t)at->st_ino,
      .names = (uint64_t)at->st_nlink,
      .owner = (uint32_t)at->st_uid,
      .group = (uint32_t)at->st_gid,
      .mode = (uint32_t)at->st_mode & 07777,
      .modified_ns = nanoseconds(at->st_mtim),
      .changed_ns = nanoseconds(at->st_ctim),
  };
  return 0;
}

static int look(int fd, struct entry_facts *out) {
  struct stat at;
  return take_facts(fstat(fd, &at), &at, out);
}

static int look_at(int in, const char *name, unsigned how, struct entry_facts *out) {
  struct stat at;
  return take_facts(fstatat(in, name, &at, how & FILE_NO_LINK ? AT_SYMLINK_NOFOLLOW : 0), &at, out);
}

static int system_entry_may(struct folder in, const char *name, unsigned may) {
  const int wanted =
      (may & MAY_READ ? R_OK : 0) | (may & MAY_WRITE ? W_OK : 0) | (may & MAY_ENTER ? X_OK : 0);
  struct stat at; // whether it is there is asked so: every sandbox knows that call
  return wanted ? variant_may(folder_descriptor(in), name, wanted)
                : fstatat(folder_descriptor(in), name, &at, 0);
}

static void close_list(void *list, size_t n) {
  (void)n;
  closedir(list);
}

static int system_folder_names(struct folder in, const char *name,
                               int (*each)(void *ctx, const char *name), void *ctx, int *ended) {
  // A descriptor of its own: closedir closes it, and the position is not shared.
  int fd = open_again(in, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  const bool shared = fd < 0 && errno == EACCES && strcmp(name, ".") == 0;
  if (shared) // it may be read, and not walked through
    fd = fcntl(folder_descriptor(in), F_DUPFD_CLOEXEC, 0);
  DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
  *ended = 0;
  if (!list) {
    const int why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    return -1;
  }
  if (shared) rewinddir(list);
  struct resource *row = resources_hold(list, 0, close_list);
  errno = 0;
  for (struct dirent *e; *ended == 0 && (e = readdir(list)) != NULL; errno = 0)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) *ended = each(ctx, e->d_name);
  const int why = *ended == 0 ? errno : 0;
  resources_drop(row);
  closedir(list);
  errno = why;
  return why ? -2 : 0;
}

static int room(int fd, bool all, uint64_t *bytes) {
  struct statvfs fs;
  if (fstatvfs(fd, &fs)) return -1;
  const uint64_t blocks = all && variant_is_administrator() ? fs.f_bfree : fs.f_bavail;
  if (fs.f_blocks == 0 || __builtin_mul_overflow(blocks, (uint64_t)fs.f_frsize, bytes)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return 0;
}

static int system_file_wait(struct file f) {
  const int flags = fcntl(file_descriptor(f), F_GETFL);
  return flags < 0 ? -1 : fcntl(file_descriptor(f), F_SETFL, flags & ~O_NONBLOCK);
}

static int lock_flags(unsigned how) {
  return (how & LOCK_ALONE ? LOCK_EX : LOCK_SH) | (how & LOCK_NO_WAIT ? LOCK_NB : 0);
}

// ---- beneath ----
//
// Where no call keeps a path in a folder, every component is opened alone and no link is followed by the system: the links are read,
// and their targets walked the same way. `open` holds the folders from ours down to the current one, so that ".." in a link's target
// is the folder we came from, whatever others rename meanwhile; above the first there is nothing. `rest` is what is still to be
// walked: a link puts its target in front of it.

enum { WALK_DEPTH_MAX = 64, WALK_LINKS_MAX = 40 };

struct walk {
  int open[WALK_DEPTH_MAX];
  uint32_t depth, links;
  char rest[2 * PATH_BYTES];
};

static int walk_fails(int errnum) {
  errno = errnum;
  return -1;
}

// Cuts the first component off w->rest; "" at its end.
static void next_part(struct walk *w, char part[PATH_BYTES]) {
  const char *at = w->rest + strspn(w->rest, "/");
  const size_t n = strcspn(at, "/");
  memcpy(part, at, n);
  part[n] = '\0';
  at += n + strspn(at + n, "/");
  memmove(w->rest, at, strlen(at) + 1);
}

static int follow(struct walk *w, const char *part) {
  char target[PATH_BYTES];
  const ssize_t n = readlinkat(w->open[w->depth - 1], part, target, PATH_BYTES - 1);
  const size_t rest = strlen(w->rest);
  if (n < 0) return -1;
  if (++w->links > WALK_LINKS_MAX) return walk_fails(ELOOP);
  if (n == 0 || n == PATH_BYTES - 1 || (size_t)n + rest + 2 > sizeof w->rest)
    return walk_fails(ENAMETOOLONG);
  if (target[0] == '/') return walk_fails(EXDEV);
  memmove(w->rest + n + 1, w->rest, rest + 1);
  memcpy(w->rest, target, (size_t)n);
  w->rest[n] = rest > 0 ? '/' : '\0';
  return 0;
}

static bool is_link(int in, const char *name) {
  struct stat at;
  return fstatat(in, name, &at, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(at.st_mode);
}

// One component. Returns the descriptor of the last one, -2 to go on, -1 with errno.
static int walk_step(struct walk *w, int flags) {
  char part[PATH_BYTES];
  next_part(w, part);
  const bool last = w->rest[0] == '\0', up = strcmp(part, "..") == 0;
  if (up && w->depth == 1) return walk_fails(EXDEV);
  if (up) close(w->open[--w->depth]);
  if (up || part[0] == '\0' || strcmp(part, ".") == 0) {
    if (!last) return -2;
    return flags & O_DIRECTORY ? fcntl(w->open[w->depth - 1], F_DUPFD_CLOEXEC, 0)
                               : walk_fails(EISDIR);
  }
  const int at = w->open[w->depth - 1];
  int fd;
  AGAIN(fd, openat(at, part, (last ? flags : folder_flags(FILE_PLACE)) | O_NOFOLLOW));
  if (fd < 0) {
    const int errnum = errno;
    if (!is_link(at, part)) return walk_fails(errnum);
    return follow(w, part) ? -1 : -2;
  }
  if (last) return fd;
  if (w->depth == WALK_DEPTH_MAX) {
    close(fd);
    return walk_fails(ENAMETOOLONG);
  }
  w->open[w->depth++] = fd;
  return -2;
}

static int walk_beneath(int in, const char *path, int flags) {
  struct walk w = {.depth = 1};
  if (strlen(path) >= PATH_BYTES) return walk_fails(ENAMETOOLONG);
  w.open[0] = fcntl(in, F_DUPFD_CLOEXEC, 0);
  if (w.open[0] < 0) return -1;
  snprintf(w.rest, sizeof w.rest, "%s", path);
  int fd;
  do
    fd = walk_step(&w, flags);
  while (fd == -2);
  const int errnum = errno;
  while (w.depth > 0)
    close(w.open[--w.depth]);
  errno = errnum;
  return fd;
}

static int open_beneath(int in, const char *path, int flags, bool walk) {
  static atomic_bool no_call;
  if (walk || atomic_load_explicit(&no_call, memory_order_relaxed))
    return walk_beneath(in, path, flags);
  const int fd = variant_open(in, path, flags, true);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
  if (errno == ENOSYS) atomic_store_explicit(&no_call, true, memory_order_relaxed);
  return walk_beneath(in, path, flags);
}

// ---- calls that are one of the system ----

#define ONCE(result, name, parameters, call)                                                       \
  static result system_##name parameters {                                                         \
    return call;                                                                                   \
  }
#define REPEATED(result, name, parameters, call)                                                   \
  static result system_##name parameters {                                                         \
    result rc;                                                                                     \
    AGAIN(rc, call);                                                                               \
    return rc;                                                                                     \
  }
#include "platform/inside/plain_calls.def"

// ---- the table ----

const struct file_calls file_calls_of_system = {
#define CALL(kind, word, about, result, failed, name, parameters, arguments) .name = system_##name,
#include "platform/files.def"
};
const struct file_calls *file_calls = &file_calls_of_system;

// ---- what is made of calls ----

uint32_t process_owner(void) {
  return (uint32_t)geteuid();
}

uint32_t process_mask(void) {
  const mode_t mask = umask(0);
  umask(mask);
  return (uint32_t)mask;
}

int64_t file_read_all_at(struct file f, void *to, size_t n, uint64_t off) {
  size_t done = 0;
  while (done < n) {
    const int64_t got = file_read_at(f, (char *)to + done, n - done, off + done);
    if (got < 0) return -1;
    if (got == 0) break;
    done += (size_t)got;
  }
  return (int64_t)done;
}

int file_write_all(struct file f, const void *bytes, size_t n) {
  for (size_t done = 0; done < n;) {
    const int64_t put = file_write(f, (const char *)bytes + done, n - done);
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = EIO;
    if (put <= 0) return -1;
    done += (size_t)put;
  }
  return 0;
}

int file_write_all_at(struct file f, const void *bytes, size_t n, uint64_t off) {
  for (size_t done = 0; done < n;) {
    const int64_t put = file_write_at(f, (const char *)bytes + done, n - done, off + done);
    if (put == 0) errno = ENOSPC;
    if (put <= 0) return -1;
    done += (size_t)put;
  }
  return 0;
}

bool entry_is_file(struct folder in, const char *name, struct entry_facts *out) {
  struct entry_facts at;
  if (entry_look(in, name, FILE_NO_LINK, &at) || at.kind != ENTRY_FILE) return false;
  if (out) *out = at;
  return true;
}

bool path_exists(const char *path) {
  return entry_may(HERE, path, MAY_EXIST) == 0;
}

bool path_is_folder(const char *path) {
  struct entry_facts at;
  return entry_look(HERE, path, 0, &at) == 0 && at.kind == ENTRY_FOLDER;
}

bool failure_is_no_room(int errnum) {
  return errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
}

static void close_stream(void *stream, size_t n) {
  (void)n;
  fclose(stream);
}

FILE *file_stream(struct file f, const char *mode) {
  FILE *stream = file_is_open(f) ? fdopen(file_descriptor(f), mode) : NULL;
  const int why = errno;
  if (stream) {
    descriptor_leave(file_descriptor(f));
    resources_hold(stream, 0, close_stream);
    return stream;
  }
  file_close(&f);
  errno = why;
  return NULL;
}

int stream_close(FILE *stream) {
  resources_drop_thing(stream, 0);
  return fclose(stream);
}

int stream_getc(FILE *f) {
  return getc_unlocked(f);
}
