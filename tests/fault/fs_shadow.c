// A disk that forgets all that was not synced, as strictly as a file system may: contents, lengths
// and names are those of the last fsync or fdatasync of the file, or of the folder, itself. The
// copies are whole, so the models of such tests are small.
#include "fs_shadow.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int shadow = -1;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

struct key {
  char s[64];
  bool folder;
};

static void broken(const char *what) {
  perror(what);
  _exit(2);
}

// Inodes are used again; with the time of birth they are not.
static struct key key_of(int dir, const char *name) {
  struct statx st;
  struct key k;
  const int flags = AT_SYMLINK_NOFOLLOW | (*name ? 0 : AT_EMPTY_PATH);
  if (statx(dir, name, flags, STATX_BASIC_STATS | STATX_BTIME, &st)) broken("statx");
  snprintf(k.s, sizeof k.s, "%llu-%lld-%u", (unsigned long long)st.stx_ino,
           (long long)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
  k.folder = S_ISDIR(st.stx_mode);
  return k;
}

// The copy takes the place of the one before in one step: a kill leaves one or the other.
static FILE *begin(void) {
  const int fd = openat(shadow, "new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!f) broken("shadow");
  return f;
}

static void finish(FILE *f, const struct key *k, const char *ending) {
  char name[80];
  snprintf(name, sizeof name, "%s.%s", k->s, ending);
  if (fclose(f) || renameat(shadow, "new", shadow, name)) broken("shadow");
}

static void keep_bytes(int fd, const struct key *k) {
  char path[64], block[1 << 16];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd); // it may be open for writing only
  FILE *from = fopen(path, "re"), *to = begin();
  if (!from) broken(path);
  for (size_t n; (n = fread(block, 1, sizeof block, from)) > 0;)
    if (fwrite(block, 1, n, to) != n) broken("shadow");
  fclose(from);
  finish(to, k, "bytes");
}

static void keep_names(int fd, const struct key *k) {
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof path - 1) < 0) broken(link);
  DIR *d = opendir(link);
  FILE *to = begin();
  if (!d) broken(link);
  fprintf(to, "%s\n", path);
  for (const struct dirent *e; (e = readdir(d));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    const struct key inner = key_of(fd, e->d_name);
    fprintf(to, "%s %c %s\n", inner.s, inner.folder ? 'd' : 'f', e->d_name);
  }
  closedir(d);
  finish(to, k, "names");
}

void fs_shadow_synced(int fd) {
  if (shadow < 0) return;
  pthread_mutex_lock(&mu);
  const struct key k = key_of(fd, "");
  if (k.folder)
    keep_names(fd, &k);
  else
    keep_bytes(fd, &k);
  pthread_mutex_unlock(&mu);
}

// A folder with all in it.
static void take(int folder) {
  DIR *d = fdopendir(folder);
  if (!d) broken("WEIR_FAULT_ROOT");
  for (const struct dirent *e; (e = readdir(d));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    const int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) broken(e->d_name);
    if (e->d_type == DT_REG) fs_shadow_synced(fd);
    if (e->d_type == DT_DIR)
      take(fd);
    else
      close(fd);
  }
  fs_shadow_synced(dirfd(d));
  closedir(d);
}

void fs_shadow_open(void) {
  const char *to = getenv("WEIR_FAULT_SHADOW"), *root = getenv("WEIR_FAULT_ROOT");
  if (!to || !*to || !root) return;
  shadow = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (shadow < 0 || fd < 0) broken("WEIR_FAULT_SHADOW");
  take(fd);
}
