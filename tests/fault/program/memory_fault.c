// Memory that cannot be had: what weir's own objects ask for, on the heap and as mappings, is
// counted, and the nth is refused with ENOMEM. What libraries ask for passes. Linked into weir-fault
// with --wrap, so that a sanitizer keeps its own malloc below.
//
//   WEIR_FAULT_MEMORY=heap:12           the 12th malloc, calloc, realloc or aligned_alloc
//   WEIR_FAULT_MEMORY=map:3:persist     the 3rd mmap and every later one
//
// WEIR_FAULT_LEFT=FILE: what the process still has when main has returned: open files, threads, children, blocks
// of the heap; a line each.
#include "fault_counts.h"
#include "wrapped_memory.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEAP, MAP, KINDS };
static const char *const names[KINDS] = {"heap", "map"};
static _Atomic uint64_t calls[KINDS];
static uint64_t nth[KINDS]; // 0: none
static bool persist;

static bool refused(int kind) {
  const uint64_t n = atomic_fetch_add(&calls[kind], 1) + 1;
  if (nth[kind] == 0 || n < nth[kind] || (n > nth[kind] && !persist)) return false;
  errno = ENOMEM;
  return true;
}

static _Atomic int64_t blocks; // that are in use

static void *taken(void *at) {
  blocks += at != NULL;
  return at;
}

void *__wrap_malloc(size_t n) {
  return refused(HEAP) ? NULL : taken(__real_malloc(n));
}
void *__wrap_calloc(size_t n, size_t bytes) {
  return refused(HEAP) ? NULL : taken(__real_calloc(n, bytes));
}
void *__wrap_realloc(void *at, size_t n) {
  if (refused(HEAP)) return NULL;
  void *grown = __real_realloc(at, n);
  return at ? grown : taken(grown);
}
void *__wrap_aligned_alloc(size_t to, size_t n) {
  return refused(HEAP) ? NULL : taken(__real_aligned_alloc(to, n));
}
void __wrap_free(void *at) {
  blocks -= at != NULL;
  __real_free(at);
}
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t off) {
  return refused(MAP) ? MAP_FAILED : __real_mmap(at, n, protection, flags, fd, off);
}

__attribute__((constructor)) static void arm(void) {
  const char *spec = getenv("WEIR_FAULT_MEMORY");
  if (!spec || !*spec) return;
  char word[8] = "", tail[16] = "";
  unsigned long long number = 0;
  const int n = sscanf(spec, "%7[^:]:%llu:%15s", word, &number, tail);
  persist = strcmp(tail, "persist") == 0;
  for (int k = 0; k < KINDS; k++)
    if (strcmp(word, names[k]) == 0) nth[k] = number;
  if (n >= 2 && (n == 2 || persist) && (nth[HEAP] || nth[MAP])) return;
  fprintf(stderr, "WEIR_FAULT_MEMORY: cannot read '%s'\n", spec);
  _exit(2);
}

static void tell_open(FILE *to) {
  DIR *list = opendir("/proc/self/fd");
  for (struct dirent *e; list && (e = readdir(list));) {
    char path[300], at[300] = "";
    const int fd = atoi(e->d_name);
    snprintf(path, sizeof path, "/proc/self/fd/%.32s", e->d_name);
    if (fd > 2 && fd != dirfd(list) && fd != fileno(to) && readlink(path, at, sizeof at - 1) > 0)
      fprintf(to, "open %d %s\n", fd, at);
  }
  if (list) closedir(list);
}

static int count_threads(void) {
  int n = 0;
  DIR *list = opendir("/proc/self/task");
  for (struct dirent *e; list && (e = readdir(list));)
    n += e->d_name[0] != '.';
  if (list) closedir(list);
  return n;
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("WEIR_FAULT_LEFT");
  FILE *to = path ? fopen(path, "a") : NULL;
  if (to) {
    tell_open(to);
    int threads = 0; // one that was joined is listed a moment longer
    for (int i = 0; i < 10000 && (threads = count_threads()) > 1; i++)
      usleep(1000);
    if (threads > 1) fprintf(to, "threads %d\n", threads - 1);
    if (blocks != 0) fprintf(to, "blocks %lld\n", (long long)blocks);
    if (waitpid(-1, NULL, WNOHANG) >= 0) fprintf(to, "child\n");
    fclose(to);
  }
  for (int k = 0; k < KINDS; k++)
    fault_counts_tell(names[k], calls[k]);
}
