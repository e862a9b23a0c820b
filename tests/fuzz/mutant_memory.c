// Memory counted: the bytes that weir's own objects ask for in one run, all together, on the heap
// and as mappings without a file. A run that asks for more than the bound is ended: a number that
// depends on the model alone, not on the machine. Linked into `mutants` with --wrap, so that a
// sanitizer keeps its own malloc below.
#include "mutant_memory.h"
#include "wrapped_memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t mutant_memory_bound = UINT64_MAX;
static _Atomic uint64_t asked;

static void count(size_t n) {
  if (atomic_fetch_add(&asked, n) + n <= mutant_memory_bound) return;
  fprintf(stderr, "mutants: more than %llu bytes asked for\n",
          (unsigned long long)mutant_memory_bound);
  abort();
}

uint64_t mutant_memory_asked(void) {
  return asked;
}

void *__wrap_malloc(size_t n) {
  count(n);
  return __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t bytes) {
  count(bytes && n > SIZE_MAX / bytes ? SIZE_MAX / 2 : n * bytes);
  return __real_calloc(n, bytes);
}
void *__wrap_realloc(void *at, size_t n) {
  count(n);
  return __real_realloc(at, n);
}
void *__wrap_aligned_alloc(size_t to, size_t n) {
  count(n);
  return __real_aligned_alloc(to, n);
}
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t off) {
  if (fd < 0) count(n);
  return __real_mmap(at, n, protection, flags, fd, off);
}
