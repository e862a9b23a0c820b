// The machine and this process, as POSIX has them.
#include "platform/machine.h"

#include "platform/inside/variant.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// ---- the machine ----

static uint64_t memory_bytes;

// POSIX has no word for how many pages there are; systems have this one.
static void find_memory(void) {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const uint64_t physical = pages > 0 ? (uint64_t)pages * machine_page_bytes() : UINT64_MAX;
  const uint64_t limit = variant_group_limit(""), least = physical < limit ? physical : limit;
  memory_bytes = least == UINT64_MAX ? 0 : least;
}

uint64_t machine_memory(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_memory);
  return memory_bytes;
}

size_t machine_page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

void machine_name(char *to, size_t n) {
  memset(to, 0, n);
  (void)gethostname(to, n - 1); // of a long name the beginning
}

// ---- clocks ----

uint64_t machine_clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int64_t machine_time_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void machine_sleep_ms(uint32_t ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

// Years are taken to begin in March, so that a leap day is the last of its year; 400 years have a whole number of days.
struct machine_date machine_date(uint64_t seconds) {
  enum { DAYS_TO_1970 = 719468, DAYS_OF_400 = 146097 }; // since 1 March of the year 0
  const uint64_t days = seconds / 86400 + DAYS_TO_1970;
  const int second = (int)(seconds % 86400), day = (int)(days % DAYS_OF_400);
  const int year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
  const int of_year = day - (365 * year + year / 4 - year / 100);
  const int month = (5 * of_year + 2) / 153; // March is 0
  return (struct machine_date){.year = (int)(days / DAYS_OF_400 * 400) + year + (month >= 10),
                               .month = month < 10 ? month + 3 : month - 9,
                               .day = of_year - (153 * month + 2) / 5 + 1,
                               .hour = second / 3600,
                               .minute = second / 60 % 60,
                               .second = second % 60};
}

// ---- the environment ----

const char *machine_variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

void machine_set_variable(const char *name, const char *value) {
  (void)setenv(name, value, 1);
}

const char *machine_temporary_folder(void) {
  const char *chosen = machine_variable("TMPDIR");
  return chosen ? chosen : "/var/tmp";
}

// ---- this process ----

uint64_t process_id(void) {
  return (uint64_t)getpid();
}

static const char *first_word;

void process_begin(const char *word) {
  first_word = word;
}

// As shells look for it, in absolute folders alone.
static bool find_program(char *to) {
  const char *path = machine_variable("PATH");
  struct stat at;
  if (!first_word || !*first_word) return false;
  if (strchr(first_word, '/')) return realpath(first_word, to);
  for (size_t n = 0; path && *path; path += n + (path[n] == ':')) {
    char program[PATH_BYTES];
    n = strcspn(path, ":");
    const int length = snprintf(program, sizeof program, "%.*s/%s", (int)n, path, first_word);
    if (*path == '/' && length < PATH_BYTES && stat(program, &at) == 0 && S_ISREG(at.st_mode) &&
        access(program, X_OK) == 0)
      return realpath(program, to);
  }
  return false;
}

int process_program(char *to) {
  return variant_program(to) == 0 || find_program(to) ? 0 : -1;
}

bool process_may_open(uint64_t n, uint64_t *most) {
  struct rlimit l;
  if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= n) return true;
  *most = l.rlim_max;
  l.rlim_cur = n;
  return n <= *most && setrlimit(RLIMIT_NOFILE, &l) == 0;
}

_Noreturn void process_end(int code) {
  _exit(code);
}
