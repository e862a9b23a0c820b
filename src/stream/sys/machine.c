// What the machine has. Containers and batch jobs live under a cgroup whose limit counts the page
// cache too, so that "memory" there is the least of these:
//
//   physical memory ─ /sys/fs/cgroup/memory.max ─ …/a/memory.max ─ …/a/b/memory.max      process in /a/b
//
// Version 1 calls the file memory.limit_in_bytes and has a mount of its own for memory. Where the
// mounts are elsewhere, or the path is one of another namespace, no file is found and no limit is
// taken from it.
#include "stream/sys/machine.h"

#include "base/again.h"
#include "base/span.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t memory_bytes;

// The number in a file, or UINT64_MAX ("max", and what cannot be read).
static uint64_t limit_in(const char *path) {
  FILE *f = again_fopen(path, "re");
  if (!f) return UINT64_MAX;
  char text[32];
  char *end = text;
  const uint64_t limit = again_fgets(text, sizeof text, f) ? strtoull(text, &end, 10) : 0;
  fclose(f);
  return end == text ? UINT64_MAX : limit;
}

// The least limit of a group and those above it.
static uint64_t least_limit(const char *root, const char *mount, char *group, const char *knob) {
  uint64_t least = UINT64_MAX;
  for (;;) {
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, knob);
    if (n > 0 && (size_t)n < sizeof path) least = min_u64(least, limit_in(path));
    char *last = strrchr(group, '/');
    if (!last) return least;
    *last = 0;
  }
}

// One line of /proc/self/cgroup, "number:controllers:/path"; version 2 has no controllers.
static uint64_t limit_of(const char *root, char *line) {
  char *controllers = strchr(line, ':');
  char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return UINT64_MAX;
  *group++ = 0;
  group[strcspn(group, "\n")] = 0;
  if (strcmp(group, "/") == 0) *group = 0;
  if (strcmp(controllers, ":") == 0)
    return least_limit(root, "/sys/fs/cgroup", group, "memory.max");
  if (strcmp(controllers, ":memory") != 0) return UINT64_MAX;
  return least_limit(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
}

uint64_t machine_group_limit(const char *root) {
  uint64_t least = UINT64_MAX;
  char line[PATH_MAX];
  snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
  FILE *f = again_fopen(line, "re");
  while (f && again_fgets(line, sizeof line, f))
    least = min_u64(least, limit_of(root, line));
  if (f) fclose(f);
  return least;
}

static void find_memory(void) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const uint64_t physical = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
  const uint64_t least = min_u64(physical, machine_group_limit(""));
  memory_bytes = least == UINT64_MAX ? 0 : least;
}

uint64_t machine_memory(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_memory);
  return memory_bytes;
}

double machine_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// VmHWM: ru_maxrss would do, but survives exec: it may be that of the program that started us.
uint64_t machine_peak_memory(void) {
  char line[256];
  unsigned long long kilobytes = 0;
  FILE *f = again_fopen("/proc/self/status", "re");
  while (f && again_fgets(line, sizeof line, f))
    if (sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1) break;
  if (f) fclose(f);
  if (kilobytes) return kilobytes * 1024;
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_maxrss * 1024;
}
