// Memory that cannot be had: what weir's own objects ask for, on the heap and as mappings, is
// counted, and the nth is refused with ENOMEM. What libraries ask for passes. Linked into weir-fault
// with --wrap, so that a sanitizer keeps its own malloc below.
//
//   WEIR_FAULT_MEMORY=heap:12           the 12th malloc, calloc, realloc or aligned_alloc
//   WEIR_FAULT_MEMORY=map:3:persist     the 3rd mmap and every later one
#include "fault_counts.h"
#include "wrapped_memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

void *__wrap_malloc(size_t n) {
  return refused(HEAP) ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t bytes) {
  return refused(HEAP) ? NULL : __real_calloc(n, bytes);
}
void *__wrap_realloc(void *at, size_t n) {
  return refused(HEAP) ? NULL : __real_realloc(at, n);
}
void *__wrap_aligned_alloc(size_t to, size_t n) {
  return refused(HEAP) ? NULL : __real_aligned_alloc(to, n);
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

__attribute__((destructor)) static void tell(void) {
  for (int k = 0; k < KINDS; k++)
    fault_counts_tell(names[k], calls[k]);
}
