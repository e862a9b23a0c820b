// Arrays of messages as values of the runtime, and back.
#ifndef WEIR_ORT_VALUES_H
#define WEIR_ORT_VALUES_H

#include "ort/ort_api.h"
#include "platform/maps.h"

// The two files of large arrays, which somebody else opened; none: there is none.
struct ort_files {
  struct file inputs, outputs;
};

// What the values of a run hold: released together.
struct ort_held {
  TABLE(struct ort_value *, values);
  TABLE(struct file_map, maps);
};
void ort_values_release(const struct ort *o, struct ort_held *h);

// The array as a value; what it holds goes to *h. `limit`: bytes of the file of inputs.
int ort_values_give(const struct ort *o, const struct ort_files *files, const struct frame_array *x,
                    struct ort_held *h, struct ort_value **out, struct ort_failure *f);

// Where results go: those of more than inline_bytes, and all once the inline ones are many, to the file.
struct ort_results {
  const struct ort *o;
  const struct ort_files *files;
  struct arena *a; // of lists, strings, dims
  struct ort_held *held;
  uint64_t inline_bytes, offset, room; // room: of inline bytes that are left
};
// The value as an array; elements that stay inline are those of the value, which must outlive *out.
int ort_values_take(struct ort_results *r, const char *name, struct ort_value *value,
                    struct frame_array *out, struct ort_failure *f);

// What a model's input or output is. NULL type infos are UNKNOWN.
int ort_values_describe(const struct ort *o, const struct ort_type_info *info, struct arena *a,
                        struct frame_value *out, struct ort_failure *f);

#endif
