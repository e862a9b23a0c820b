// What the machine has, as Linux says it. Containers and batch jobs live under a cgroup whose limit counts the page cache too, so that
// "memory" there is the least of these:
//
//   physical memory ─ /sys/fs/cgroup/memory.max ─ …/a/memory.max ─ …/a/b/memory.max      process in /a/b
//
// Version 1 calls the file memory.limit_in_bytes and has a mount of its own for memory. Where the mounts are elsewhere, or the path is
// one of another namespace, no file is found and no limit is taken from it.
#include "platform/inside/variant.h"
#include "platform/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

uint32_t machine_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  const int n = CPU_COUNT(&set);
  return n < 1 ? 1 : (uint32_t)n;
}

bool machine_has_sha2(void) {
#ifdef HWCAP_SHA2 // AArch64
  return getauxval(AT_HWCAP) & HWCAP_SHA2;
#else
  return false;
#endif
}

// ---- memory ----

// What a file of the system says, cut to n - 1 bytes; "" if it cannot be read.
static void read_text(const char *path, char *text, size_t n) {
  size_t got = 0;
  int fd;
  AGAIN(fd, open(path, O_RDONLY | O_CLOEXEC));
  for (ssize_t more = fd < 0 ? 0 : 1; more > 0 && got < n - 1;) {
    AGAIN(more, read(fd, text + got, n - 1 - got));
    if (more > 0) got += (size_t)more;
  }
  if (fd >= 0) close(fd);
  text[got] = '\0';
}

// The number in a file, or UINT64_MAX ("max", and what cannot be read).
static uint64_t limit_in(const char *path) {
  char text[32], *end;
  read_text(path, text, sizeof text);
  const uint64_t limit = strtoull(text, &end, 10);
  return end == text ? UINT64_MAX : limit;
}

static void lower(uint64_t *least, uint64_t limit) {
  if (limit < *least) *least = limit;
}

// The least limit of a group and those above it.
static uint64_t least_limit(const char *root, const char *mount, char *group, const char *knob) {
  uint64_t least = UINT64_MAX;
  for (;;) {
    char path[PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, knob);
    if (n > 0 && (size_t)n < sizeof path) lower(&least, limit_in(path));
    char *last = strrchr(group, '/');
    if (!last) return least;
    *last = '\0';
  }
}

// One line of /proc/self/cgroup, "number:controllers:/path"; version 2 has no controllers.
static uint64_t limit_of(const char *root, char *line) {
  char *controllers = strchr(line, ':');
  char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return UINT64_MAX;
  *group++ = '\0';
  if (strcmp(group, "/") == 0) *group = '\0';
  if (strcmp(controllers, ":") == 0)
    return least_limit(root, "/sys/fs/cgroup", group, "memory.max");
  if (strcmp(controllers, ":memory") != 0) return UINT64_MAX;
  return least_limit(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
}

uint64_t variant_group_limit(const char *root) {
  char path[PATH_BYTES], text[16 << 10], *rest = text, *line;
  uint64_t least = UINT64_MAX;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  read_text(path, text, sizeof text);
  while ((line = strsep(&rest, "\n")) != NULL)
    lower(&least, limit_of(root, line));
  return least;
}

// ---- sizes of processes ----

struct status {
  uint64_t peak, anonymous, data; // in bytes; 0: not known
};

static uint64_t row_of(const char *text, const char *row) {
  const char *line = strstr(text, row);
  return line ? strtoull(line + strlen(row), NULL, 10) * 1024 : 0;
}

static struct status status_of(const char *path) {
  char text[64 << 10]; // the list of groups comes first
  read_text(path, text, sizeof text);
  return (struct status){row_of(text, "\nVmHWM:"), row_of(text, "\nRssAnon:"),
                         row_of(text, "\nVmData:")};
}

// VmHWM: ru_maxrss would do, but survives exec: it may be that of the program that started us.
uint64_t machine_peak_memory(void) {
  const uint64_t peak = status_of("/proc/self/status").peak;
  struct rusage usage;
  if (peak == 0) getrusage(RUSAGE_SELF, &usage);
  return peak ? peak : (uint64_t)usage.ru_maxrss * 1024;
}

static struct status child_status(const struct child *c) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/status", (long)c->process);
  return status_of(path);
}

bool child_sizes(const struct child *c, struct child_sizes *out) {
  const struct status now = child_status(c);
  *out = (struct child_sizes){now.peak, now.anonymous};
  return now.peak > 0 && now.anonymous > 0;
}

static void set_data_limit(const struct child *c, rlim_t bytes) {
  const pid_t pid = (pid_t)c->process;
  struct rlimit limit;
  if (prlimit(pid, RLIMIT_DATA, NULL, &limit) < 0) return;
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  prlimit(pid, RLIMIT_DATA, &limit, NULL);
}

// RLIMIT_DATA counts VmData: with mapped files that could be written to, as those of weights.
void child_limit(const struct child *c, uint64_t bytes) {
  const struct status now = child_status(c);
  if (now.data > 0 && now.anonymous > 0)
    set_data_limit(c, now.data + (bytes > now.anonymous ? bytes - now.anonymous : 0));
}

void child_unlimit(const struct child *c) {
  set_data_limit(c, RLIM_INFINITY);
}

// ---- the program, the terminal ----

int variant_program(char *to) {
  const ssize_t n = readlink("/proc/self/exe", to, PATH_BYTES - 1);
  if (n > 0) to[n] = '\0';
  if (n > 0) return n == PATH_BYTES - 1 ? -1 : 0;
  const unsigned long started = getauxval(AT_EXECFN);
  return started && realpath((const char *)started, to) ? 0 : -1;
}

uint32_t variant_columns(int fd) {
  struct winsize w;
  return ioctl(fd, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}
