// ONNX Runtime as we see it: its library, opened at run time, and the functions of ort_api.def.
#ifndef WEIR_ORT_API_H
#define WEIR_ORT_API_H

#include "base/dtype.h"
#include "frames/frame.h"

struct ort_status;
struct ort_env;
struct ort_session;
struct ort_session_options;
struct ort_cuda_options;
struct ort_run_options;
struct ort_allocator;
struct ort_memory_info;
struct ort_value;
struct ort_type_info;
struct ort_tensor_info;
struct ort_sequence_info;
struct ort_optional_info;

// The version of the C API that we ask for: that of ONNX Runtime 1.20, the oldest that is supported.
enum { ORT_API_VERSION = 20 };

// enum ONNXType
enum ort_kind {
  ORT_KIND_UNKNOWN,
  ORT_KIND_TENSOR,
  ORT_KIND_SEQUENCE,
  ORT_KIND_MAP,
  ORT_KIND_OPAQUE,
  ORT_KIND_SPARSE,
  ORT_KIND_OPTIONAL,
};

struct ort {
#define API(name, place, version, gives, takes) gives(*name) takes;
#include "ort/ort_api.def"
  char version[64]; // "1.20.1"
  char path[4096];  // of the library that was loaded
  struct ort_env *env;
  struct ort_allocator *allocator;
  struct ort_memory_info *cpu;
};

// How a request failed: code and text of `failed`.
struct ort_failure {
  enum frame_failure code; // 0: it did not
  char text[4096];
};
#define ORT_PRINTF(f, a) __attribute__((format(printf, f, a)))
// Fills *f; -1.
int ort_fail(struct ort_failure *f, enum frame_failure code, const char *fmt, ...) ORT_PRINTF(3, 4);
// 0 if the status is none; else its words go to *f, it is released, and -1.
int ort_check(const struct ort *o, struct ort_status *status, struct ort_failure *f);

// Opens the library, for good. A failure says what the dynamic loader said, or which version there is.
int ort_open(struct ort *o, const char *library, struct ort_failure *f);
// Is it at least 1.<minor>?
bool ort_since(const struct ort *o, unsigned minor);

// Numbers of element types, there and back. Unknown ones: DTYPE_UNDEFINED.
int ort_number(enum dtype t);
enum dtype ort_dtype(int number);

#endif
