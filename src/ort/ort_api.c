// The library is loaded at run time, and nothing of it is known when weir-ort is built. Its one symbol, OrtGetApiBase, gives
// two functions: the version's text, and the table of the C API for a version of it that is asked for.
//
//   OrtGetApiBase() ─▶ { GetApi(20) ─▶ table of functions, GetVersionString() ─▶ "1.20.1" }
//
// A runtime that does not have that version gives no table. We never look at a place of the table that came with a later
// version than the one that was asked for: it may lie past the table's end (asserted when this is compiled).
#include "ort/ort_api.h"

#include "base/version_number.h"
#include "platform/loading/library_load.h"
#include "platform/machine.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct ort_base {
  void *const *(*get_api)(uint32_t version);
  const char *(*get_version)(void);
};

#define API(name, place, version, gives, takes)                                                    \
  static_assert(version <= ORT_API_VERSION, #name " is newer than the requested version");
#include "ort/ort_api.def"

int ort_fail(struct ort_failure *f, enum frame_failure code, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(f->text, sizeof f->text, fmt, args);
  va_end(args);
  f->code = code;
  return -1;
}

int ort_check(const struct ort *o, struct ort_status *status, struct ort_failure *f) {
  if (!status) return 0;
  const char *words = o->GetErrorMessage(status);
  ort_fail(f, FRAME_REFUSED, "%s", words ? words : "no reason was given");
  o->ReleaseStatus(status);
  return -1;
}

// Functions and objects have different pointers in C; those of libraries are the same.
static void set_function(void *to, const void *at) {
  memcpy(to, &at, sizeof at);
}

static int make_rest(struct ort *o, struct ort_failure *f) {
  enum { FATAL = 4, DEVICE_ALLOCATOR = 0, DEFAULT_MEMORY = 0 };
  if (ort_check(o, o->CreateEnv(FATAL, "weir-ort", &o->env), f) < 0) return -1;
  if (ort_check(o, o->GetAllocatorWithDefaultOptions(&o->allocator), f) < 0) return -1;
  return ort_check(o, o->CreateCpuMemoryInfo(DEVICE_ALLOCATOR, DEFAULT_MEMORY, &o->cpu), f);
}

int ort_open(struct ort *o, const char *library, struct ort_failure *f) {
  const struct ort_base *(*get_base)(void) = NULL;
  // From 1.29 on the runtime tells its makers what models it opens (names of files and graphs, digests), unless this is
  // set before it begins: what is verified is nobody else's business.
  machine_set_variable("ORT_DISABLE_TELEMETRY", "1");
  const char *why;
  struct library *const loaded = library_load(library, &why);
  if (!loaded) return ort_fail(f, FRAME_NO_LIBRARY, "ONNX Runtime cannot be loaded: %s", why);
  const void *const api_base = library_symbol(loaded, "OrtGetApiBase");
  const char *path = library_path(api_base);
  snprintf(o->path, sizeof o->path, "%s", path ? path : library);
  set_function(&get_base, api_base);
  const struct ort_base *base = get_base ? get_base() : NULL;
  if (!base || !base->get_api || !base->get_version)
    return ort_fail(f, FRAME_NO_LIBRARY, "'%s' is not ONNX Runtime: it has no OrtGetApiBase",
                    quote_path(o->path).s);
  const char *version = base->get_version();
  snprintf(o->version, sizeof o->version, "%s", version ? version : "of no version");
  void *const *table = base->get_api(ORT_API_VERSION);
  if (!table)
    return ort_fail(f, FRAME_TOO_OLD,
                    "ONNX Runtime %s ('%s') is too old: 1.%d is the oldest that works",
                    quote_str(o->version).s, quote_path(o->path).s, ORT_API_VERSION);
#define API(name, place, version, gives, takes) set_function(&o->name, table[place]);
#include "ort/ort_api.def"
  return make_rest(o, f);
}

bool ort_since(const struct ort *o, unsigned minor) {
  const struct version_numbers v = version_numbers(o->version);
  return v.major > 1 || (v.major == 1 && v.minor >= minor);
}

int ort_number(enum dtype t) {
#define ORT_DTYPE(symbol, number)                                                                  \
  if (t == DTYPE_##symbol) return number;
#include "ort/ort_dtypes.def"
  return t <= DTYPE_FLOAT4E2M1 ? (int)t : DTYPE_UNDEFINED;
}

enum dtype ort_dtype(int number) {
#define ORT_DTYPE(symbol, number_)                                                                 \
  if (number == number_) return DTYPE_##symbol;
#include "ort/ort_dtypes.def"
  return number >= 0 && number <= DTYPE_FLOAT4E2M1 ? (enum dtype)number : DTYPE_UNDEFINED;
}
