// Counts the steps of what is compiled with -fsanitize-coverage=trace-pc: basic blocks, the same number in every run. WEIR_STEPS
// names the file that gets it in the end; WEIR_STEPS_PLACES one with a line for each block that ran, its address in the
// program and how often: where a larger model takes more than its share.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLACES = 1 << 24 }; // bytes of code; of the table only pages that are used are there

extern const char __executable_start;
static uint64_t steps, at_place[PLACES];

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) {
  const uint64_t place =
      (uint64_t)((const char *)__builtin_return_address(0) - &__executable_start);
  __atomic_fetch_add(&steps, 1, __ATOMIC_RELAXED);
  if (place < PLACES) __atomic_fetch_add(&at_place[place], 1, __ATOMIC_RELAXED);
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
