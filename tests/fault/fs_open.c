#include "fs_open.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int told = -1;

bool fs_open_wanted(void) {
  const char *path = getenv("WEIR_FAULT_OPEN");
  if (path && *path && told < 0) told = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return told >= 0;
}

static bool same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// The path of a folder or of a name in it, without links on the way; "" if there is none.
static void path_of(int folder, const char *name, char path[8192]) {
  char link[64];
  snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
  const ssize_t n = readlink(link, path, 4096);
  path[n < 0 ? 0 : n] = '\0';
  if (*name == '/') path[0] = '\0';
  if (*name && n >= 0) snprintf(path + strlen(path), 4096, "/%s", name);
}

// Is the file of descriptor `fd` this one, or in this folder? A folder that is moved may itself be open.
static bool holds(int fd, const struct stat *it, const char *path, bool moved) {
  struct stat at;
  char open_as[8192];
  if (fstat(fd, &at)) return false;
  if (same(&at, it)) return !(moved && S_ISDIR(it->st_mode));
  if (!S_ISDIR(it->st_mode)) return false;
  path_of(fd, "", open_as);
  const size_t n = strlen(path);
  return strncmp(open_as, path, n) == 0 && open_as[n] == '/';
}

static bool is_mapped(const char *path) {
  char line[8192];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "re");
  while (maps && !found && fgets(line, sizeof line, maps)) {
    const char *at = strchr(line, '/');
    const size_t n = strlen(path);
    found = at && n > 0 && strncmp(at, path, n) == 0 && (at[n] == '\n' || at[n] == '/');
  }
  if (maps) fclose(maps);
  return found;
}

void fs_open_look(const char *what, int folder, const char *name) {
  struct stat it;
  char path[8192], line[4400];
  if (!fs_open_wanted() || fstatat(folder, name, &it, AT_SYMLINK_NOFOLLOW)) return;
  path_of(folder, name, path);
  DIR *all = opendir("/proc/self/fd");
  if (!all) _exit(2);
  bool open = is_mapped(path);
  for (const struct dirent *e; !open && (e = readdir(all));)
    open = e->d_name[0] != '.' && atoi(e->d_name) != dirfd(all) &&
           holds(atoi(e->d_name), &it, path, strcmp(what, "move") == 0);
  closedir(all);
  const int n = snprintf(line, sizeof line, "%s %s\n", what, name);
  if (open && write(told, line, (size_t)n) != n) _exit(2);
}

void fs_open_look_rename(int from_folder, const char *from, int to_folder, const char *to) {
  if (strcmp(from, "lock") != 0)
    fs_open_look("move", from_folder, from); // which is held until nobody can find it any more
  fs_open_look("replace", to_folder, to);
}
