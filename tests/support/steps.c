// Counts the steps of what is compiled with -fsanitize-coverage=trace-pc: basic blocks, the same number in every run. WEIR_STEPS
// names the file that gets it in the end; WEIR_STEPS_PLACES one with a line for each block that ran, its address in the
// program and how often: where a larger model takes more than its share. So many bytes that the C library sets or copies
// at once are a step of who asked for it (the linker's --wrap).
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 24 }; // bytes of code; of the table only pages that are used are there
enum { BYTES = 64 };       // of memory, a step

extern const char __executable_start;
static uint64_t steps, at_place[PLACES];

static void add(const void *from, uint64_t n) {
  const uint64_t place = (uint64_t)((const char *)from - &__executable_start);
  if (n == 0) return;
  __atomic_fetch_add(&steps, n, __ATOMIC_RELAXED);
  if (place < PLACES) __atomic_fetch_add(&at_place[place], n, __ATOMIC_RELAXED);
}

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
  add(__builtin_return_address(0), 1);
}

void *__real_memset(void *to, int byte, size_t n);
void *__real_memcpy(void *restrict to, const void *restrict from, size_t n);
void *__real_memmove(void *to, const void *from, size_t n);
void *__wrap_memset(void *to, int byte, size_t n);
void *__wrap_memcpy(void *restrict to, const void *restrict from, size_t n);
void *__wrap_memmove(void *to, const void *from, size_t n);
void *__wrap_memset(void *to, int byte, size_t n) {
  add(__builtin_return_address(0), n / BYTES);
  return __real_memset(to, byte, n);
}
void *__wrap_memcpy(void *restrict to, const void *restrict from, size_t n) {
  add(__builtin_return_address(0), n / BYTES);
  return __real_memcpy(to, from, n);
}
void *__wrap_memmove(void *to, const void *from, size_t n) {
  add(__builtin_return_address(0), n / BYTES);
  return __real_memmove(to, from, n);
}

static FILE *told(const char *variable) {
  const char *path = getenv(variable);
  return path ? fopen(path, "w") : NULL;
}

__attribute__((destructor)) static void tell(void) {
  FILE *f = told("WEIR_STEPS"), *places = told("WEIR_STEPS_PLACES");
  if (f) {
    fprintf(f, "%" PRIu64 "\n", steps);
    fclose(f);
  }
  if (!places) return;
  for (uint64_t i = 0; i < PLACES; i++)
    if (at_place[i] > 0) fprintf(places, "%" PRIx64 " %" PRIu64 "\n", i, at_place[i]);
  fclose(places);
}
