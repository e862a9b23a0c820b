// A library that looks like ONNX Runtime and misbehaves as it is told: for what a real one does once in a year.
//
//   WEIR_ORT_STUB=<what>@<function>, several joined by commas
//
//   abort segv exit kill hang    what happens when the function is called
//   print                        it prints to stdout
//   memory                       it asks for 1 GiB and aborts if there is none
//   child                        it starts a process that sleeps, and writes its number to the file WEIR_ORT_STUB_CHILD
//   refuse                       it gives a status with words
//   garbage                      it gives numbers without sense
//   old                          there is no API of the version that is asked for
//
// Every model has one input x and one output y, float[2]; a run gives [1, 2].
#include "ort/ort_api.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OURS __attribute__((visibility("default")))

static bool told(const char *what, const char *function) {
  char word[128];
  const char *all = getenv("WEIR_ORT_STUB");
  snprintf(word, sizeof word, "%s@%s", what, function);
  for (const char *at = all ? strstr(all, word) : NULL; at; at = strstr(at + 1, word))
    if ((at == all || at[-1] == ',') && (at[strlen(word)] == '\0' || at[strlen(word)] == ','))
      return true;
  return false;
}

static void use_memory(void) {
  const size_t n = (size_t)1 << 30;
  volatile char *at = malloc(n);
  if (!at) {
    fputs("terminate called after throwing an instance of 'std::bad_alloc'\n", stderr);
    abort();
  }
  for (size_t i = 0; i < n; i += 4096)
    at[i] = 1;
}

static void start_child(void) {
  const pid_t child = fork();
  if (child == 0)
    for (;;)
      pause();
  FILE *f = fopen(getenv("WEIR_ORT_STUB_CHILD"), "w");
  if (f) {
    fprintf(f, "%ld", (long)child);
    fclose(f);
  }
}

static struct ort_status *enter(const char *function) {
  static int status;
  if (told("child", function)) start_child();
  if (told("abort", function)) {
    fputs("said at last\n", stderr);
    abort();
  }
  if (told("segv", function)) raise(SIGSEGV);
  if (told("kill", function)) raise(SIGKILL);
  if (told("exit", function)) _exit(3);
  if (told("print", function)) {
    puts("WRT1 this is no frame");
    fflush(stdout);
  }
  if (told("memory", function)) use_memory();
  while (told("hang", function))
    pause();
  return told("refuse", function) ? (struct ort_status *)&status : NULL;
}

static const char *error_message(const struct ort_status *status) {
  (void)status;
  return "no,\nsays the \x1b[31mstub.\n";
}

static void *nothing(void) {
  return NULL;
}

static struct ort_status *session(struct ort_env *env, const char *path,
                                  const struct ort_session_options *options,
                                  struct ort_session **out) {
  static int any;
  (void)env, (void)path, (void)options;
  *out = (struct ort_session *)&any;
  return enter("CreateSession");
}

static struct ort_status *release_session(void) {
  return enter("ReleaseSession");
}

static struct ort_status *count_of(const char *function, size_t *out) {
  *out = told("garbage", function) ? SIZE_MAX : 1;
  return enter(function);
}
static struct ort_status *input_count(const struct ort_session *s, size_t *out) {
  (void)s;
  return count_of("SessionGetInputCount", out);
}
static struct ort_status *output_count(const struct ort_session *s, size_t *out) {
  (void)s;
  return count_of("SessionGetOutputCount", out);
}

static struct ort_status *input_name(const struct ort_session *s, size_t i, struct ort_allocator *a,
                                     char **out) {
  (void)s, (void)i, (void)a;
  *out = told("garbage", "SessionGetInputName") ? NULL : strdup("x");
  return enter("SessionGetInputName");
}
static struct ort_status *output_name(const struct ort_session *s, size_t i,
                                      struct ort_allocator *a, char **out) {
  (void)s, (void)i, (void)a;
  *out = strdup("y");
  return NULL;
}
static struct ort_status *free_memory(struct ort_allocator *a, void *at) {
  (void)a;
  free(at);
  return NULL;
}

static struct ort_status *a_pointer(const void *of, void **out) {
  static int any;
  (void)of;
  *out = &any;
  return NULL;
}
static struct ort_status *type_info(const struct ort_session *s, size_t i, void **out) {
  (void)i;
  return a_pointer(s, out);
}

static struct ort_status *kind(const void *of, int *out) {
  (void)of;
  *out = told("garbage", "GetValueType") ? 77 : ORT_KIND_TENSOR;
  return NULL;
}
static struct ort_status *element_type(const struct ort_tensor_info *t, int *out) {
  (void)t;
  *out = told("garbage", "GetTensorElementType") ? -5 : DTYPE_FLOAT;
  return NULL;
}
static struct ort_status *rank(const struct ort_tensor_info *t, size_t *out) {
  (void)t;
  *out = told("garbage", "GetDimensionsCount") ? SIZE_MAX
         : told("garbage", "GetDimensions")    ? 3
                                               : 1;
  return NULL;
}
static struct ort_status *dims(const struct ort_tensor_info *t, int64_t *out, size_t n) {
  (void)t;
  for (size_t i = 0; i < n; i++)
    out[i] = told("garbage", "GetDimensions")    ? INT64_MAX
             : told("negative", "GetDimensions") ? -3
                                                 : 2;
  return NULL;
}
static struct ort_status *has_value(const struct ort_value *v, int *out) {
  (void)v;
  *out = 1;
  return NULL;
}
static float elements[2];
static struct ort_status *data(struct ort_value *v, void **out) {
  (void)v;
  *out = told("garbage", "GetTensorMutableData") ? NULL : elements;
  return NULL;
}
static struct ort_status *make_tensor(struct ort_allocator *a, const int64_t *d, size_t n, int type,
                                      struct ort_value **out) {
  static int any;
  (void)a, (void)d, (void)n, (void)type;
  *out = (struct ort_value *)&any;
  return NULL;
}

static struct ort_status *run(struct ort_session *s, const struct ort_run_options *options,
                              const char *const *in, const struct ort_value *const *given,
                              size_t n_in, const char *const *out, size_t n_out,
                              struct ort_value **results) {
  static int any;
  (void)s, (void)options, (void)in, (void)given, (void)n_in, (void)out;
  elements[0] = 1;
  elements[1] = 2;
  for (size_t i = 0; i < n_out; i++)
    results[i] = (struct ort_value *)&any;
  return enter("Run");
}

static struct ort_status *make_cuda(struct ort_cuda_options **out) {
  static int any;
  *out = (struct ort_cuda_options *)&any;
  return enter("CreateCUDAProviderOptions");
}
static struct ort_status *append_cuda(struct ort_session_options *options,
                                      const struct ort_cuda_options *cuda) {
  (void)options, (void)cuda;
  return enter("SessionOptionsAppendExecutionProvider_CUDA_V2");
}

enum {
#define API(name, place, version, gives, takes) PLACE_##name = place,
#include "ort/ort_api.def"
};
static void *table[512];

static void put(size_t place, const void *function) {
  memcpy(&table[place], &function, sizeof function);
}
#define PUT(name, function) put(PLACE_##name, (const void *)(uintptr_t)(function))

static void fill(void) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    put(i, (const void *)(uintptr_t)nothing);
  PUT(GetErrorMessage, error_message);
  PUT(CreateSession, session);
  PUT(Run, run);
  PUT(SessionGetInputCount, input_count);
  PUT(SessionGetOutputCount, output_count);
  PUT(SessionGetInputTypeInfo, type_info);
  PUT(SessionGetOutputTypeInfo, type_info);
  PUT(SessionGetInputName, input_name);
  PUT(SessionGetOutputName, output_name);
  PUT(CreateTensorAsOrtValue, make_tensor);
  PUT(GetTensorMutableData, data);
  PUT(CastTypeInfoToTensorInfo, a_pointer);
  PUT(GetOnnxTypeFromTypeInfo, kind);
  PUT(GetTensorElementType, element_type);
  PUT(GetDimensionsCount, rank);
  PUT(GetDimensions, dims);
  PUT(GetTensorTypeAndShape, a_pointer);
  PUT(GetValueType, kind);
  PUT(AllocatorFree, free_memory);
  PUT(ReleaseSession, release_session);
  PUT(HasValue, has_value);
  PUT(CreateCUDAProviderOptions, make_cuda);
  PUT(SessionOptionsAppendExecutionProvider_CUDA_V2, append_cuda);
}

static void *const *get_api(uint32_t version) {
  (void)version;
  enter("GetApi");
  if (told("old", "GetApi")) return NULL;
  fill();
  return table;
}

static const char *get_version(void) {
  return told("old", "GetApi")                 ? "1.17.3"
         : told("garbage", "GetVersionString") ? "\x1b[2J\n"
                                               : "1.99.0-stub";
}

OURS const void *OrtGetApiBase(void);
const void *OrtGetApiBase(void) {
  static const struct {
    void *const *(*get_api)(uint32_t);
    const char *(*get_version)(void);
  } base = {get_api, get_version};
  enter("OrtGetApiBase");
  return &base;
}
