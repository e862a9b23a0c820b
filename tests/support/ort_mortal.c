// The real ONNX Runtime (WEIR_ORT_REAL names its library), whose nth run in a process never ends well:
//
//   WEIR_ORT_DIES_AT=n    the program aborts in its nth run
#include "ort/ort_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OURS __attribute__((visibility("default")))
enum { PLACES = 274, RUN = 9 }; // as many as ort_api.def speaks of

struct base {
  void *const *(*get_api)(uint32_t);
  const char *(*get_version)(void);
};

typedef struct ort_status *(*run_function)(struct ort_session *, const struct ort_run_options *,
                                           const char *const *, const struct ort_value *const *,
                                           size_t, const char *const *, size_t,
                                           struct ort_value **);
static run_function real_run;
static const struct base *real;
static void *table[PLACES];

static struct ort_status *run(struct ort_session *s, const struct ort_run_options *o,
                              const char *const *in, const struct ort_value *const *values,
                              size_t n, const char *const *out, size_t m,
                              struct ort_value **results) {
  static int runs;
  const char *at = getenv("WEIR_ORT_DIES_AT");
  if (at && ++runs == atoi(at)) abort();
  return real_run(s, o, in, values, n, out, m, results);
}

static void *const *get_api(uint32_t version) {
  void *const *api = real->get_api(version);
  const void *ours = (const void *)(uintptr_t)run;
  if (!api) return NULL;
  memcpy(table, api, sizeof table);
  memcpy(&real_run, &table[RUN], sizeof real_run);
  memcpy(&table[RUN], &ours, sizeof ours);
  return table;
}

static const char *get_version(void) {
  return real->get_version();
}

OURS const void *OrtGetApiBase(void);
const void *OrtGetApiBase(void) {
  static const struct base base = {get_api, get_version};
  void *library = dlopen(getenv("WEIR_ORT_REAL"), RTLD_NOW | RTLD_LOCAL);
  void *found = library ? dlsym(library, "OrtGetApiBase") : NULL;
  const void *(*get_base)(void);
  if (!found) abort();
  memcpy(&get_base, &found, sizeof get_base);
  real = get_base();
  return &base;
}
